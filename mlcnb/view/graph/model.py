"""A graph function as nodes and edges, before it is laid out.

    lv = R.nn.conv2d(x, w)      x -- 1×3×8×8 f32 --> conv2d 16×3×3×3 --> relu --> output
    lv1 = R.nn.relu(lv)

Constants are written into the nodes that use them. A fused group is a cluster of its operators; a
kernel is a node made of its parts. What only names a value (tuples, aliases) makes no node. Memory
operators of lowered programs make none either: a kernel's result is what it writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlcnb.relax import expr as rx
from mlcnb.relax.struct_info import TupleStructInfo
from mlcnb.tir.function import PrimFunc
from mlcnb.view import survey
from mlcnb.view.graph import kinds
from mlcnb.view.words import clip, short


@dataclass(frozen=True, slots=True)
class Node:
    """A node: number, sort, label lines (the first is its name), what it stands for, its cluster.

    size: how many operators it is; kernel: it runs as compiled code; folded: parts are left out;
    var: what its result is bound to; amount: seconds or bytes, where it is coloured by them; paint:
    the number of its colour, where that is not its sort's; found: it is what was searched for;
    members: the numbers, in the whole graph, of the nodes that it stands for.
    """

    id: int
    sort: str
    lines: tuple[str, ...]
    origin: Any = None
    cluster: int | None = None
    size: int = 1
    kernel: bool = False
    folded: bool = False
    var: Any = None
    amount: float = 0.0
    paint: int | None = None
    found: bool = False
    members: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Paint:
    """A colour of nodes that is not that of a sort; its words in the legend, if it has a place."""

    fill: str
    words: str


@dataclass(frozen=True, slots=True)
class Edge:
    """A value that goes from one node to another; `back` to the next run of a repeated part."""

    source: int
    target: int
    label: str = ""
    back: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """A frame around nodes: a fused group, a branch, a part that repeats."""

    id: int
    title: str
    parent: int | None = None


@dataclass(slots=True)
class Model:
    """All of a graph, nodes in program order."""

    name: str
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    clusters: list[Cluster] = field(default_factory=list)
    paints: tuple[Paint, ...] = ()

    @property
    def operators(self) -> int:
        """How many operators and kernels the nodes stand for."""
        return sum(n.size for n in self.nodes if n.sort not in ("input", "output"))


@dataclass(frozen=True, slots=True)
class Value:
    """A value in the graph: the node that makes it (None for a constant) and its struct info."""

    node: int | None
    info: Any
    data: Any = None
    unwritten: bool = False


_ALLOC = ("relax.builtin.alloc_tensor", "relax.memory.alloc_tensor", "relax.memory.alloc_storage")
_KILL = ("relax.memory.kill_tensor", "relax.memory.kill_storage")
#: letters of a name, of what a kernel does, of a line below
_NAME, _DOES, _DETAIL = 40, 52, 26


def build(name: str, function: rx.Function, functions: Mapping[Any, Any], groups: bool) -> Model:
    """The graph of a function; with `groups`, fused groups are clusters, else single nodes."""
    builder = _Builder(name, functions, groups)
    builder.parameters(function)
    result = builder.sequence(function.body)
    builder.result(result)
    return builder.model


class _Builder:
    """Walks the bindings of a function and keeps where each variable comes from."""

    def __init__(self, name: str, functions: Mapping[Any, Any], groups: bool) -> None:
        self.model = Model(name)
        self.functions = functions
        self.groups = groups
        self.values: dict[Any, Any] = {}
        self.cluster: int | None = None

    def add(self, sort: str, lines: tuple[str, ...], **more: Any) -> int:
        """A new node in the cluster that is open."""
        number = len(self.model.nodes)
        room = _DOES if more.get("kernel") else _NAME
        shown = (clip(lines[0], room), *(clip(line, _DETAIL) for line in lines[1:]))
        made = Node(number, sort, shown, cluster=self.cluster, members=(number,), **more)
        self.model.nodes.append(made)
        return number

    def parameters(self, function: rx.Function) -> None:
        """Inputs are nodes; weights that are passed as parameters count as constants."""
        inputs = function.attrs.get("num_input", len(function.params))
        for position, param in enumerate(function.params):
            at = None
            if position < int(inputs):
                at = self.add("input", (param.name_hint,), origin=param, var=param)
            self.values[param] = Value(at, param.struct_info)

    def result(self, value: Any) -> None:
        """The node that takes what the function gives."""
        made = [v for v in _flat(value) if v.node is not None]
        number = self.add("output", ("output",))
        for v in made:
            self.edge(v, number)

    def edge(self, value: Value, target: int) -> None:
        """An edge, once for each pair of nodes and kind of value."""
        if value.node is not None:
            made = Edge(value.node, target, short(value.info))
            if made not in self.model.edges[-16:]:
                self.model.edges.append(made)

    def sequence(self, seq: Any) -> Any:
        """All bindings, then the value of the body."""
        for block in getattr(seq, "blocks", ()):
            for binding in block.bindings:
                self.values[binding.var] = self.bound(binding)
        return self.value(seq.body if isinstance(seq, rx.SeqExpr) else seq)

    def bound(self, binding: Any) -> Any:
        """The value of a binding."""
        if isinstance(binding, rx.MatchCast):
            value = self.value(binding.value)
            if isinstance(value, Value):
                return Value(value.node, binding.struct_info, value.data)
            return value
        return self.value(binding.value, binding.var)

    def value(self, x: Any, var: Any = None) -> Any:
        """Where an expression's value comes from: a Value, or a tuple of them."""
        match x:
            case rx.Var():
                return self.values.get(x, Value(None, x.struct_info))
            case rx.Constant():
                return Value(None, x.struct_info, x.data)
            case rx.Tuple(fields):
                return tuple(self.value(f) for f in fields)
            case rx.TupleGetItem(inner, index):
                whole = self.value(inner)
                if isinstance(whole, tuple):
                    return whole[index]
                return Value(whole.node, x.struct_info)
            case rx.Call():
                return self.call(x, var)
            case rx.If():
                return self.branches(x)
            case rx.SeqExpr():
                return self.sequence(x)
        return Value(None, getattr(x, "struct_info", None))

    def call(self, x: rx.Call, var: Any) -> Any:
        """A node for the call, or a cluster for a fused group."""
        info = x.struct_info or getattr(var, "struct_info", None)
        name = x.op.name if isinstance(x.op, rx.Op) else ""
        if name in _KILL:
            return Value(None, info)
        if name in _ALLOC:
            return Value(None, info, unwritten=True)
        if name == "relax.memory.view":
            return self.value(x.args[0])
        callee = survey.callee_of(x, self.functions)
        if isinstance(callee, rx.Function) and callee.attrs.get("Primitive") and self.groups:
            return self.group(x, callee)
        args = [v for a in _operands(x) for v in _flat(self.value(a))]
        number = self.node_of(x, callee, args, var)
        for v in args:
            self.edge(v, number)
        self.claim(x, callee, number)
        return Value(number, info)

    def node_of(self, x: rx.Call, callee: Any, args: list[Value], var: Any) -> int:
        """The node of a call: an operator, a kernel, another function."""
        made: dict[str, Any] = {"origin": x, "var": var}
        name = survey.op_name(x)
        weights = tuple(text for text in map(_constant, args) if text)[:3]
        if isinstance(callee, PrimFunc):
            does = " + ".join(survey.words_of(callee)) or name
            sort = kinds.of_kernel(callee)
            return self.add(sort, (does, *weights), kernel=True, **made)
        if isinstance(callee, rx.Function):
            ops = survey.operators(callee, self.functions)
            sort = kinds.of_operators(ops)
            return self.add(sort, (name, survey.counted(ops, 3)), size=ops.total(), **made)
        if survey.kernel_of(x) is not None or not isinstance(x.op, rx.Op):
            return self.add("other", (name, *weights), kernel=True, **made)
        return self.add(kinds.of_operator(x.op.name), (name, *weights), **made)

    def claim(self, x: rx.Call, callee: Any, number: int) -> None:
        """Memory that nobody has written yet is written by this kernel."""
        if not isinstance(callee, PrimFunc) or isinstance(x.op, rx.Op):
            return
        for arg in x.args:
            value = self.values.get(arg)
            if isinstance(value, Value) and value.unwritten:
                self.values[arg] = Value(number, getattr(arg, "struct_info", value.info))

    def group(self, x: rx.Call, callee: rx.Function) -> Any:
        """The operators of a fused group in a frame of their own."""
        for param, arg in zip(callee.params, x.args, strict=False):
            self.values[param] = self.value(arg)
        with_frame = self.open(survey.group_of(callee, self.functions) or survey.op_name(x))
        result = self.sequence(callee.body)
        self.cluster = with_frame
        return result

    def open(self, title: str) -> int | None:
        """Open a cluster; gives the one that was open before."""
        before = self.cluster
        self.model.clusters.append(Cluster(len(self.model.clusters), clip(title, 40), before))
        self.cluster = len(self.model.clusters) - 1
        return before

    def branches(self, x: rx.If) -> Any:
        """A node for the choice, and a cluster for each branch."""
        made: list[Value] = list(_flat(self.value(x.cond)))
        for title, branch in (("then", x.true_branch), ("else", x.false_branch)):
            before = self.open(title)
            made.extend(_flat(self.sequence(branch)))
            self.cluster = before
        number = self.add("control", ("if",), origin=x)
        for v in made:
            self.edge(v, number)
        return Value(number, x.struct_info)


def _operands(x: rx.Call) -> tuple[Any, ...]:
    """The arguments that are values: the kernel that is called is none."""
    return x.args[1:] if isinstance(x.op, rx.Op) and x.op.name in survey.DPS else x.args


def _flat(value: Any) -> Iterator[Value]:
    if isinstance(value, tuple):
        for item in value:
            yield from _flat(item)
    elif isinstance(value, Value):
        yield value


def _constant(value: Value) -> str:
    """A constant operand in the label of the node that uses it: its shape, or its number."""
    if value.node is not None or value.unwritten or isinstance(value.info, TupleStructInfo):
        return ""
    if value.data is not None and value.data.size == 1:
        return f"{value.data.reshape(-1)[0]:.4g}" if value.data.dtype.kind in "fiu" else ""
    dims = getattr(value.info, "dims", None)
    return short(value.info).rpartition(" ")[0] if dims else ""

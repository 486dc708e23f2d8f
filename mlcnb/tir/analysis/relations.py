"""Accesses of a loop program as integer relations, exact where indices and conditions are linear.

for i in range(4):                     loops  { [i] : 0 <= i < 4 }
    B[i + 1] = A[i // 2]        ->     A      { [i] -> [floor(i/2)] }   read
                                       B      { [i] -> [i + 1] }        write

A block's axes are looked through to the loops that they are bound to; its predicate, and conditions
around an access, cut the domain. What is not linear (`A[idx[i]]`) may be any element: such a
relation is too large, never too small, and says so (`exact`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mlcnb.arith.isl import ask, read_map
from mlcnb.arith.presburger import Translator
from mlcnb.core.node import children, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import reduced_over_threads
from mlcnb.tir.analysis.leaving import leaves
from mlcnb.tir.analysis.variables import match_defines
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion
from mlcnb.tir.function import PrimFunc

#: a loop, a `while` (which counts from 0), or the attribute that launches threads
Loop = s.For | s.While | s.AttrStmt


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One read or write of a buffer.

    Args:
        buffer: the buffer, outside of `match_buffer`.
        node: the load or store; a call or pointer that may touch any element.
        is_write: whether it writes.
        blocks: the blocks around it, outermost first.
        loops: the loops around it, outermost first.
        path: its place among the statements outside of the loops, and in each loop.
        relation: an isl map from iterations of the loops to elements of the buffer.
        domain: those iterations.
        exact: relation and domain are not too large.
    """

    buffer: Buffer
    node: Any
    is_write: bool
    blocks: tuple[s.Block, ...]
    loops: tuple[Loop, ...]
    path: tuple[int, ...]
    relation: Any
    domain: Any
    exact: bool

    @property
    def block(self) -> s.Block | None:
        """The innermost block around it."""
        return self.blocks[-1] if self.blocks else None

    def common_loops(self, other: Access) -> int:
        """How many of the loops around both are the same."""
        count = 0
        for a, b, x, y in zip(self.loops, other.loops, self.path, other.path, strict=False):
            if a is not b or x != y:
                break
            count += 1
        return count

    def is_before(self, other: Access) -> bool:
        """True if it comes first in one iteration of the common loops."""
        return self.path[self.common_loops(other) :] < other.path[self.common_loops(other) :]


def accesses_of(func: PrimFunc) -> list[Access]:
    """All reads and writes of a function, in the order of the program."""
    collector = Collector(func)
    collector.visit(func.body)
    return collector.found


def loop_name(loop: Loop) -> str:
    """How a loop is called."""
    if isinstance(loop, s.For):
        return loop.loop_var.name
    return loop.node.var.name if isinstance(loop, s.AttrStmt) else "while"


class Collector:
    """Walks a function with the loops, conditions and values that hold at each place.

    head: how isl text begins, with the names of the symbolic sizes.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.found: list[Access] = []
        self.text = Translator()
        self.conditions: list[str] = []
        self.loops: list[Loop] = []
        self.dims: list[str] = []
        self.path: list[int] = [0]
        self.blocks: list[s.Block] = []
        self.matched: dict[Buffer, BufferRegion] = {}
        self.params: list[str] = []
        self.pointers: dict[Var, Buffer] = {buffer.data: buffer for buffer in func.buffers}
        self.parameters(func)

    @cached_property
    def ends_early(self) -> bool:
        """True if some iterations may not run: a loop, or the function, is left on the way."""
        return any(leaves(n) for n in walk(self.func.body))

    def parameters(self, func: PrimFunc) -> None:
        """Scalars and symbolic dimensions are parameters; a dimension is no less than 0."""
        scalars = [x for x in func.params if x not in func.buffer_map and x.dtype.is_integer]
        for buffer in func.buffers:
            scalars += [x for x in match_defines(buffer) if not x.dtype.is_handle]
        for x in dict.fromkeys(scalars):
            self.params.append(f"p{len(self.params)}")
            self.text.names[x] = self.params[-1]
        for buffer in func.buffers:
            for extent in buffer.shape:
                if not isinstance(extent, e.IntImm):
                    self.conditions.append(f"{self.text.value(extent)} >= 0")

        self.head = f"[{', '.join(self.params)}] -> "

    # isl

    def access(self, node: Any, write: bool) -> None:
        """Note one access of one element, or of the lanes of a vector."""
        text, buffer = self.text.copy(), node.buffer
        at = [text.value(index) for index in node.indices]
        if node.predicate is not None:
            text.exact = False
        if any(p.is_const(stride, 0) for stride in buffer.strides):
            at = [text.unknown() for _ in at]
        self.note(buffer, at, text, node, write)

    def note(self, buffer: Buffer, at: list[str], text: Translator, node: Any, write: bool) -> None:
        """Note an access of the element `at`, through match_buffers to the buffer outside."""
        while buffer in self.matched:
            source = self.matched[buffer]
            at = through(source, at, text)
            buffer = source.buffer
        self.pointers.setdefault(buffer.data, buffer)
        elements = [f"e{n}" for n in range(len(at))]
        same = [f"{name} = {x}" for name, x in zip(elements, at, strict=True)]
        bounds = text.where([*self.conditions, *same])
        shape = f"[{', '.join(self.dims)}] -> [{', '.join(elements)}]"
        relation = ask(lambda: read_map(f"{self.head}{{ {shape} : {bounds} }}"))
        if relation is None:
            relation, text.exact = read_map(f"{self.head}{{ {shape} }}"), False
        self.found.append(
            Access(
                buffer, node, write, tuple(self.blocks), tuple(self.loops), tuple(self.path),
                relation, relation.domain(), text.exact,
            )
        )  # fmt: skip
        self.next_place()

    def whole(self, buffer: Buffer, node: Any, write: bool) -> None:
        """An access of unknown elements."""
        text = self.text.copy()
        self.note(buffer, [text.unknown() for _ in buffer.shape], text, node, write)

    # statements

    def visit(self, n: Any) -> None:
        """Look at a statement or expression."""
        handler = _HANDLERS.get(type(n))
        if handler is not None:
            getattr(self, handler)(n)
            return
        for child in children(n):
            if not isinstance(child, Buffer):
                self.visit(child)

    def inside(self, loop: Loop, name: str, conditions: list[str], body: Any) -> None:
        """What is in a loop."""
        saved, text = self.conditions, self.text
        self.text = text.copy()
        self.loops.append(loop)
        self.dims.append(name)
        self.conditions = [*saved, *conditions]
        self.path.append(0)
        self.visit(body)
        self.path.pop()
        self.next_place()
        self.loops.pop()
        self.dims.pop()
        self.conditions, self.text = saved, text

    def next_place(self) -> None:
        """What comes now comes after what was."""
        self.path[-1] += 1

    def loop(self, n: s.For) -> None:
        """A loop: its variable is a dimension."""
        self.visit(n.min)
        self.visit(n.extent)
        self.counted(n, n.loop_var, Range(n.min, n.extent), n.body)

    def counted(self, n: Loop, var: Var, domain: Range, body: Any) -> None:
        """A loop whose variable runs over a range."""
        name, text = f"i{len(self.dims)}", self.text
        self.text = text.copy()
        low, extent = self.text.value(domain.min), self.text.value(domain.extent)
        self.text.names[var] = name
        self.inside(n, name, [f"{low} <= {name} < {low} + {extent}"], body)
        self.text = text

    def repeat(self, n: s.While) -> None:
        """A loop of unknown length."""
        saved = self.text
        self.text = saved.copy()
        self.text.exact = False
        name = f"i{len(self.dims)}"
        self.inside(n, name, [f"0 <= {name}"], s.SeqStmt((s.Evaluate(n.condition), n.body)))
        self.text = saved

    def sequence(self, n: s.SeqStmt) -> None:
        """One statement after the other."""
        for part in n.seq:
            self.visit(part)
            self.next_place()

    def branch(self, n: s.IfThenElse) -> None:
        """A condition holds in one branch, and not in the other."""
        self.visit(n.condition)
        for body, holds in ((n.then_case, True), (n.else_case, False)):
            if body is not None:
                self.under(n.condition, holds, body)
                self.next_place()

    def under(self, condition: PrimExpr, holds: bool, body: Any) -> None:
        """What is only reached where a condition holds (or does not)."""
        text, conditions = self.text, self.conditions
        self.text = text.copy()
        self.conditions = [*conditions, self.text.condition(condition, holds)]
        self.visit(body)
        self.text, self.conditions = text, conditions

    def realize(self, n: s.BlockRealize) -> None:
        """A block: its axes are what they are bound to."""
        for value in (*n.iter_values, n.predicate):
            self.visit(value)
        text, conditions = self.text, self.conditions
        self.text = text.copy()
        self.blocks.append(n.block)
        self.conditions = [*conditions, self.text.condition(n.predicate)]
        for axis, value in zip(n.block.iter_vars, n.iter_values, strict=True):
            name = self.text.bind(axis.var, value)
            if axis.var in self.text.loose:
                low = self.text.value(axis.dom.min)
                extent = self.text.value(axis.dom.extent)
                self.conditions.append(f"{low} <= {name} < {low} + {extent}")
        self.block_body(n.block)
        self.blocks.pop()
        self.text, self.conditions = text, conditions

    def block_body(self, block: s.Block) -> None:
        """A block's init, where its reduce axes begin, and then its body."""
        for match in block.match_buffers:
            self.matched[match.buffer] = match.source
        if block.init is not None:
            reduced = [v for v in block.iter_vars if v.iter_type is s.IterType.REDUCE]
            first = [f"{self.text.value(v.var)} = {self.text.value(v.dom.min)}" for v in reduced]
            self.conditions, saved = [*self.conditions, *first], self.conditions
            self.visit(block.init)
            self.conditions = saved
            self.next_place()
        self.visit(block.body)

    def let(self, n: Any) -> None:
        """A name for a value."""
        self.visit(n.value)
        saved = self.text
        self.text = saved.copy()
        if n.var.dtype.is_integer:
            self.text.bind(n.var, n.value)
        self.visit(n.body)
        self.text = saved

    def asserted(self, n: s.AssertStmt) -> None:
        """What comes after an assertion is reached where it holds."""
        self.visit(n.condition)
        self.under(n.condition, True, n.body)

    def attribute(self, n: s.AttrStmt) -> None:
        """`thread_extent` launches threads: a loop over them."""
        launches = n.attr_key == "thread_extent" and isinstance(n.node, s.IterVar)
        if not launches or n.node.var in self.text.names:
            self.visit(n.body)
        else:
            extent = n.value
            self.counted(n, n.node.var, Range(p.const(0, extent.dtype), extent), n.body)

    def store(self, n: s.BufferStore) -> None:
        """A write, after the reads in it."""
        for part in (*n.indices, n.value, n.predicate):
            if part is not None:
                self.visit(part)
        self.access(n, True)

    # expressions

    def load(self, n: BufferLoad) -> None:
        """A read, after the reads in its indices."""
        for part in n.indices:
            self.visit(part)
        self.access(n, False)

    def conditional(self, n: e.Call) -> None:
        """A call; of `if_then_else` one value only is computed. Pointers reach anything."""
        if n.op == "tir.if_then_else":
            condition, yes, no = n.args
            self.visit(condition)
            self.under(condition, True, yes)
            self.under(condition, False, no)
            return
        reduced = reduced_over_threads(n)
        if reduced is not None:
            for arg in reduced[0]:
                self.visit(arg)
            for result in reduced[1]:
                self.access(result, True)
            return
        for buffer, write in _pointed(n, self.pointers):
            self.whole(buffer, n, write)
        for arg in n.args:
            if not (n.op == "tir.address_of" and isinstance(arg, BufferLoad)):
                self.visit(arg)

    def pointer(self, n: Var) -> None:
        """A bare pointer: whoever gets it may read and write."""
        if n.dtype.is_handle and n in self.pointers:
            self.whole(self.pointers[n], n, False)
            self.whole(self.pointers[n], n, True)

    def junction(self, n: Any) -> None:
        """`and`, `or`: the right side is computed where the left one leaves it open."""
        self.visit(n.a)
        self.under(n.a, isinstance(n, e.And), n.b)


def through(source: BufferRegion, at: list[str], text: Translator) -> list[str]:
    """The place in the source of a `match_buffer`: ranges of one element may have no index."""
    missing = len(source.region) - len(at)
    places, given = [], iter(at)
    for bounds in source.region:
        start = text.value(bounds.min)
        if missing > 0 and p.is_const(bounds.extent, 1):
            missing -= 1
            places.append(start)
        else:
            places.append(f"({start} + {next(given, '0')})")
    return places


def _pointed(n: e.Call, pointers: dict[Var, Buffer]) -> Iterator[tuple[Buffer, bool]]:
    """The buffers that a call gets a pointer to, and whether it may write there."""
    if n.op == "tir.address_of" and isinstance(n.args[0], BufferLoad):
        yield n.args[0].buffer, False
        yield n.args[0].buffer, True
    elif n.op == "tir.tvm_access_ptr" and n.args[1] in pointers:
        mask = p.as_int(n.args[4]) or 3
        for write in (False, True):
            if mask & (2 if write else 1):
                yield pointers[n.args[1]], write  # type: ignore[index]


_HANDLERS: dict[type, str] = {
    s.For: "loop",
    s.While: "repeat",
    s.SeqStmt: "sequence",
    s.IfThenElse: "branch",
    s.BlockRealize: "realize",
    s.LetStmt: "let",
    e.Let: "let",
    s.AttrStmt: "attribute",
    s.AssertStmt: "asserted",
    s.BufferStore: "store",
    BufferLoad: "load",
    e.Call: "conditional",
    e.And: "junction",
    e.Or: "junction",
    Var: "pointer",
}

"""The walk over an ATen graph: node by node it becomes the bindings of main.

    conv2d(x, w, b)           torch_spelling_of("aten.conv2d.default")(node, x, w, b)
    getitem(split, 1)         the second of what the spelling made
    sym_size(x, 0) * 2        a symbolic expression: s77 * 2

No operator is known by name here: the spellings stand with the operators (`mlcnb.op`). Every call
remembers its node and the line of the model in its span.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from mlcnb.core.errors import UnsupportedError, UnsupportedOpError
from mlcnb.core.node import FrozenDict, replace, walk
from mlcnb.core.progress import progress_bar, ticking
from mlcnb.core.text import kind_of
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.module import IRModule
from mlcnb.ir.span import Span
from mlcnb.ir.structural import structural_equal
from mlcnb.op._complex import Complex
from mlcnb.relax import expr as rx
from mlcnb.relax.emitter import Emitter, Names, size_check
from mlcnb.relax.frontend.shared.loop_values import call_op
from mlcnb.relax.frontend.shared.names import plain
from mlcnb.relax.frontend.shared.values import Values, sequence
from mlcnb.relax.frontend.torch import guards
from mlcnb.relax.frontend.torch.arrays import array_of
from mlcnb.relax.frontend.torch.control import control
from mlcnb.relax.frontend.torch.node import Node, bound_arguments, dtype_of, part_dtype, target_name
from mlcnb.relax.frontend.torch.numbers import as_tensor
from mlcnb.relax.frontend.torch.prepare import (
    is_control,
    is_dropped,
    is_operator,
    spelling_of,
    touches_complex,
)
from mlcnb.relax.frontend.torch.results import as_result, returned
from mlcnb.relax.frontend.torch.spell import apply
from mlcnb.relax.frontend.torch.stand_ins import REFUSED, Input, Missing, Refused
from mlcnb.relax.frontend.torch.symbols import Symbols, symbol_name
from mlcnb.relax.struct_info import PrimStructInfo

#: operators that read a number out of a tensor
ITEMS = ("aten.item.default", "aten._local_scalar_dense.default")


class Importer:
    """One import.

    Args:
        graph: the torch.fx.Graph, functional, of ATen operators.
        inputs: for each placeholder's name what it is.
        ranges: symbol -> ValueRanges.
        source: what the model is called.
        keep_params: values that the model brings become parameters in place of constants.
        assumed: what was assumed of sizes, as PyTorch says it.
    """

    def __init__(
        self,
        graph: Any,
        inputs: Mapping[str, Input],
        ranges: Mapping[Any, Any],
        source: str,
        keep_params: bool = False,
        assumed: Sequence[str] = (),
    ) -> None:
        self.graph, self.assumed = graph, assumed
        self.inputs = inputs
        self.source = source
        self.keep_params = keep_params
        self.emitter = Emitter({}, Names())
        self.symbols = Symbols(ranges, self.measured)
        self.values = Values(self.emitter, self.symbols.names)
        self.env: dict[Any, Any] = {}
        self.params: list[rx.Var] = []
        #: what nodes were refused for; they are told all at once
        self.refusals: list[UnsupportedOpError] = []
        #: of loops, the axes whose length a turn changes (`shared.turns`)
        self.open_axes: dict[Any, list[set[int]]] = {}
        #: sizes that the run measures: the bindings where that is done, what, and the size
        self.measures: list[tuple[list[Any], str, PrimExpr, PrimExpr]] = []
        self.outermost = self.emitter.bindings

    def module(
        self,
        results: Sequence[int] | None = None,
        unwrap: bool = False,
        bind: bool = True,
        attrs: Mapping[str, Any] | None = None,
    ) -> IRModule:
        """The graph as a module with the function main.

        Args:
            results: which of the outputs, by their place; None for all.
            unwrap: one output is returned as it is, in place of a tuple of one.
            bind: a returned tuple is bound to a variable.
            attrs: more attributes of main.
        """
        with progress_bar("reading the model", len(self.graph.nodes)) as bar:
            for node in ticking(self.graph.nodes, bar):
                self.node(node)
        if self.refusals:
            raise self.refusal()
        outputs = self.outputs(results)
        result = outputs[0] if unwrap and len(outputs) == 1 else rx.Tuple(tuple(outputs))
        self.emitter.origin = None
        body = (
            result if isinstance(result, rx.Tuple) and not bind else self.emitter.emit(result, "gv")
        )
        return IRModule.make({"main": self.main(body, attrs or {})})

    def main(self, body: Any, more: Mapping[str, Any]) -> rx.Function:
        """The function: inputs, then the values that are kept as parameters that are used."""
        first, last = self.guard_checks()
        self.emitter.bindings.extend(last)
        seq = sequence(self.emitter.bindings, body)
        if checks := [*self.range_checks(), *first]:
            seq = replace(seq, blocks=(rx.BindingBlock(tuple(checks)), *seq.blocks))
        attrs: dict[str, Any] = {"global_symbol": "main", **more}
        if self.keep_params:
            attrs["num_input"] = len(self.params)
        return self.values.main(list(self.params), seq, body, attrs, self.range_attrs())

    def range_attrs(self) -> dict[str, Any]:
        """TVM's attributes for ranges of symbolic sizes."""
        found: dict[str, dict[str, int]] = {}
        for name, ends in self.symbols.ranges().items():
            for end, value in zip(("lower", "upper"), ends, strict=True):
                if value is not None:
                    found.setdefault(f"tir_var_{end}_bound", {})[name] = value
        return {key: FrozenDict(value) for key, value in found.items()}

    def range_checks(self) -> list[rx.Binding]:
        """Casts that stop the program where a size is outside of the range it was exported for."""
        made: list[rx.Binding] = []
        for var, inside, told in self.symbols.checks():
            place = self.place_of(var)
            if place is not None:
                param, axis = place
                name = self.emitter.names.fresh(f"{param.name_hint}_dim{axis}")
                told = f"dimension {axis} of {param.name_hint}: {told}"
                made.append(size_check(var, inside, name, Span("torch", told, kind="range")))
        return made

    def guard_checks(self) -> tuple[list[rx.Binding], list[rx.Binding]]:
        """Casts that stop the program where what was assumed of its sizes does not hold; those
        that ask about sizes that the run measures come last.
        """
        given = {n.name: v for n, v in self.env.items() if n.op == "placeholder"}
        given = {k: getattr(getattr(v, "struct_info", None), "dims", v) for k, v in given.items()}
        first: list[rx.Binding] = []
        last: list[rx.Binding] = []
        for text in self.assumed:
            for pair in guards.pairs(text, given, self.symbols.rounded, self.source):
                asked = {n for side in pair for n in walk(side)}
                measured = not asked.isdisjoint(self.values.found_at_run_time)
                name = self.emitter.names.fresh("guard")
                made = size_check(*pair, name, Span("torch", text, kind="if"))
                (last if measured else first).append(made)
        return first, last

    def place_of(self, var: Any) -> tuple[rx.Var, int] | None:
        """The parameter and the dimension that a size is read from."""
        for param in self.params:
            for axis, dim in enumerate(getattr(param.struct_info, "dims", None) or ()):
                if dim is var:
                    return param, axis
        return None

    # nodes ---------------------------------------------------------------------------------------

    def node(self, fx_node: Any) -> None:
        """One node: what it stands for is kept."""
        if any(self.env.get(n) is REFUSED for n in fx_node.all_input_nodes):
            self.env[fx_node] = REFUSED
        elif fx_node.op == "placeholder":
            self.placeholder(fx_node)
        elif fx_node.op == "get_attr":
            self.attribute(fx_node)
        elif fx_node.op == "call_function":
            self.call(fx_node)

    def placeholder(self, fx_node: Any) -> None:
        """A parameter of main, or a constant that the model brings."""
        given = self.inputs[fx_node.name]
        span = Span("torch", given.name, kind="input" if given.data is None else "parameter")
        if given.data is not None:
            self.env[fx_node] = self.stored(given, span)
            return
        fake = fx_node.meta.get("val")
        if fake is None or isinstance(fake, bool | int | float | str):
            self.env[fx_node] = fake  # what it was exported with: PyTorch asks for the same
            return
        if not hasattr(fake, "shape"):
            self.env[fx_node] = self.size(fake)
            info: Any = PrimStructInfo(dtype("int64"), self.env[fx_node])
        else:
            place = f"{self.source}: input {given.name!r}"
            info = rx.tensor_info(
                self.symbols.parameter_dims(fake.shape), dtype_of(fake.dtype, place)
            )
        var = rx.Var(self.emitter.names.fresh(plain(given.name)), info, span)
        self.params.append(var)
        self.env.setdefault(fx_node, var)

    def size(self, value: Any) -> Any:
        """A number that PyTorch makes of sizes."""
        import torch

        if isinstance(value, torch.SymInt):
            return self.symbols.dim(value)
        if isinstance(value, torch.SymFloat):
            return self.symbols.number(value)
        return self.symbols.truth(value.node.expr)

    def measured(self, kind: str, x: PrimExpr) -> PrimExpr:
        """The size that a run makes of a number: one for all that ask for the same."""
        here = self.emitter.bindings
        for place, rounding, number, size in self.measures:
            seen = place is here or place is self.outermost
            if seen and rounding == kind and structural_equal(number, x):
                return size
        whole = call_op(self.values, f"relax.{kind}", as_tensor(self.values, x))
        size = self.values.lengths(call_op(self.values, "relax.astype", whole, dtype="int64"), 1)[0]
        self.measures.append((here, kind, x, size))
        return size

    def stored(self, given: Input, span: Span) -> Any:
        """What a value of the model stands for."""
        assert given.data is not None
        if given.data.dtype.kind == "c":
            if self.keep_params:
                dtype_of(given.data.dtype, given.name)  # refuses it
            parts = (np.ascontiguousarray(part) for part in (given.data.real, given.data.imag))
            return Complex(*(self.values.brought(given.name, x, span, False) for x in parts))
        return self.values.brought(given.name, given.data, span, self.keep_params)

    def attribute(self, fx_node: Any) -> None:
        """A tensor that stands in the graph's module; graphs are walked where they are called."""
        found, name = self.module_of(fx_node), fx_node.target
        if hasattr(found, "graph"):
            return
        if not hasattr(found, "detach"):
            raise UnsupportedOpError(
                f"{self.source}: node {fx_node.name!r} reads {name!r}, {kind_of(found)}",
                hint="keep tensors in the model",
            )
        self.env[fx_node] = self.stored(
            Input(name, array_of(found, name)), Span("torch", name, kind="parameter")
        )

    @staticmethod
    def module_of(fx_node: Any) -> Any:
        """What a get_attr node reads."""
        return attrgetter(fx_node.target)(fx_node.graph.owning_module)

    def inside(self, graph: Any, given: Sequence[Any]) -> list[Any]:
        """The results of a graph that is called with these values."""
        holders = [n for n in graph.nodes if n.op == "placeholder"]
        self.env.update(zip(holders, given, strict=True))
        for fx_node in graph.nodes:
            if fx_node.op != "placeholder":
                self.node(fx_node)
        return [self.value(x) for x in returned(graph)]

    def call(self, fx_node: Any) -> None:
        """An operator, an item of a tuple, or arithmetic of sizes."""
        fake = fx_node.meta.get("val")
        if fx_node.target is operator.getitem:
            self.env[fx_node] = self.find(fx_node.args[0])[fx_node.args[1]]
        elif is_operator(fx_node) and is_dropped(fx_node.target):
            self.env[fx_node] = None
        elif isinstance(fake, bool | int | float):
            self.env[fx_node] = fake
        elif is_operator(fx_node) or is_control(fx_node):
            self.collected(fx_node)
        elif _is_number(fake):
            self.number(fx_node, fake)
        elif fake is None:
            self.env[fx_node] = None  # an assertion of Python's
        else:
            raise UnsupportedOpError(
                f"{self.source}: node {fx_node.name!r} calls {fx_node.target}: it is no operator",
                hint="write that part of the model with operators of PyTorch",
            )

    def collected(self, fx_node: Any) -> None:
        """An operator; what it is refused for is kept, and told with what others are."""
        node = Node(fx_node, self.values, self.symbols, self.source)
        self.emitter.origin = node.span
        try:
            if is_control(fx_node):
                if touches_complex(fx_node):
                    node.refuse("complex tensors go in or out of it", "pass torch.view_as_real(x)")
                self.env[fx_node] = control(self, node)
            elif _is_number(fx_node.meta.get("val")):
                self.number(fx_node, fx_node.meta["val"])
            else:
                self.operator(node)
        except UnsupportedOpError as error:
            self.env[fx_node] = REFUSED
            if not isinstance(error, Refused):
                self.refusals.append(error)

    def refusal(self) -> UnsupportedOpError:
        """One error for all nodes that were refused."""
        first, *rest = self.refusals
        if not rest:
            return first
        told = "; ".join(e.message.removeprefix(f"{self.source}: ") for e in self.refusals)
        hints = dict.fromkeys(e.hint for e in self.refusals if e.hint)
        return UnsupportedOpError(
            f"{self.source}: {len(self.refusals)} nodes are not imported: {told}",
            hint="; ".join(hints),
        )

    def number(self, fx_node: Any, fake: Any) -> None:
        """A size that is computed; refused only where something reads it."""
        if target_name(fx_node.target) in ITEMS and symbol_name(fake) is not None:
            read = self.find(fx_node.args[0])
            self.symbols.learn(fake, self.values.lengths(read, 1)[0])
        try:
            self.env[fx_node] = self.size(fake)
        except UnsupportedError as error:
            node = Node(fx_node, self.values, self.symbols, self.source)
            self.env[fx_node] = Missing(node, error.message)

    def operator(self, node: Node) -> None:
        """An ATen operator, by its spelling."""
        fx_node = node.fx
        spell = spelling_of(fx_node)
        if spell is None:
            node.refuse("it is not imported", "coverage() lists what is imported")
        args, kwargs = self.value(fx_node.args), self.value(fx_node.kwargs)
        made = apply(spell, node, bound_arguments(fx_node, args, kwargs))
        fake = fx_node.meta.get("val")
        if isinstance(fake, tuple | list):
            rest = [Missing(node, f"output {i} is not made") for i in range(len(made), len(fake))]
            found = [
                Missing(node, f"output {i} is not made") if v is None else v
                for i, v in enumerate(made)
            ]
            self.env[fx_node] = [*found, *rest]
        else:
            self.env[fx_node] = made[0]

    def find(self, fx_node: Any) -> Any:
        """What a node stands for."""
        found = self.env[fx_node]
        if found is REFUSED:
            raise Refused(f"{self.source}: {fx_node.name!r} is refused")
        if isinstance(found, Missing):
            found.node.refuse(found.why)
        return found

    def value(self, x: Any) -> Any:
        """An argument with nodes in it as values."""
        import torch

        if isinstance(x, torch.fx.Node):
            return self.find(x)
        if isinstance(x, Mapping):
            return {k: self.value(v) for k, v in x.items()}
        if isinstance(x, tuple | list):
            return [self.value(v) for v in x]
        if isinstance(x, torch.dtype):
            return part_dtype(x, self.source)
        if isinstance(x, torch.SymInt | torch.SymFloat | torch.SymBool):
            return self.size(x)
        return x

    def outputs(self, places: Sequence[Any] | None) -> list[rx.Expr]:
        """The values that main returns."""
        listed = returned(self.graph)
        chosen = listed if places is None else [listed[i] for i in places]
        return [self.as_expr(self.value(v)) for v in chosen]

    def as_expr(self, found: Any) -> rx.Expr:
        """A value as an expression: numbers as values of Relax."""
        return as_result(found, self.source)


def _is_number(fake: Any) -> bool:
    """True for a SymInt, a SymFloat, a SymBool."""
    return hasattr(fake, "node") and not hasattr(fake, "dtype")

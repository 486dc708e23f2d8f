"""Questions about one dataflow block: how long values live, what may be one memory, what may be
written in place. TVM's `relax.testing.transform`.

    with R.dataflow():                lives        aliases    in place
        z = R.add(x, y)               z: 0 … 1     {2}        no: x and y are the caller's
        p = R.multiply(z, z)          p: 1 … 3     {3}        over z
        R.output(p)                   x, y: -1 … 3

A life begins at the binding that makes a value (-1: before the block), and ends at the one that
uses it last (the number of bindings: after the block).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from mlcnb.core.errors import ArgumentError
from mlcnb.core.node import replace
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import same_known
from mlcnb.relax.analysis.variables import value_uses
from mlcnb.relax.expr_functor import PyExprMutator, mutator
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.operator import called
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo
from mlcnb.relax.transform.dataflow_use_inplace_calls import in_place

#: what may be any memory
ANY = -1
#: calls of what somebody else wrote: it may give what it was given
_MYSTERIES = {
    "relax.call_pure_packed", "relax.invoke_pure_closure", "relax.invoke_closure",
    "relax.call_py_func", "relax.call_builtin_with_ctx", "relax.call_inplace_packed",
}  # fmt: skip


@mutator
class _Empty(PyExprMutator):
    """Changes nothing."""


class ApplyEmptyCppMutator(ModulePass):
    """Rebuild every graph function by a mutator that changes nothing: any shapes and dtypes."""

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """All graph functions."""
        found = {k: _Empty().visit_expr(f) for k, f in mod.of_kind(rx.Function).items()}
        return mod.with_functions(found)


def dataflow_liveness_analysis(block: rx.DataflowBlock) -> dict[rx.Var, tuple[int, int]]:
    """The life of each variable of a block, of any shape and dtype: (begin, end)."""
    end = len(block.bindings)
    found: dict[rx.Var, tuple[int, int]] = {}
    for at in reversed(range(end)):
        binding = block.bindings[at]
        for used in value_uses(binding.value):
            if isinstance(used, rx.Var):
                found.setdefault(used, (-1, at if isinstance(used, rx.DataflowVar) else end))
        var = binding.var
        last = at if isinstance(var, rx.DataflowVar) else end
        found[var] = at, found[var][1] if var in found else last
    return found


def dataflow_alias_analysis(
    block: rx.DataflowBlock, inputs: Sequence[rx.Var]
) -> tuple[dict[rx.Var, set[int]], dict[int, list[set[int]]]]:
    """Which memory each variable of a block may be, of any shape and dtype.

    Args:
        block: the bindings.
        inputs: variables from before it, each in memory of its own.

    Returns:
        The numbers of the pieces of memory that a variable may be, -1 for any; and the same of the
        fields of each tuple, by its number.
    """
    aliases = _Aliases()
    for var in inputs:
        aliases.known[var] = aliases.fresh(var.struct_info)
    for binding in block.bindings:
        aliases.known[binding.var] = aliases.of(binding.value)
    return aliases.known, aliases.tuples


@dataclass
class _Aliases:
    known: dict[rx.Var, set[int]] = field(default_factory=dict)
    tuples: dict[int, list[set[int]]] = field(default_factory=dict)
    count: int = 0

    def fresh(self, info: Any) -> set[int]:
        """Memory that nothing else is; of a tuple also that of its fields."""
        number = self.count
        self.count += 1
        if isinstance(info, TupleStructInfo):
            self.tuples[number] = [self.fresh(f) for f in info.fields]
        return {number}

    def of(self, value: Any) -> set[int]:
        """What a value may be."""
        if isinstance(value, rx.Var):
            return set(self.known.get(value, {ANY}))
        if isinstance(value, rx.Tuple):
            number = self.count
            self.count += 1
            self.tuples[number] = [self.of(f) for f in value.fields]
            return {number}
        if isinstance(value, rx.TupleGetItem):
            return self.item(value)
        if isinstance(value, rx.Call) and not self.is_fresh(value):
            return {ANY}
        return self.fresh(getattr(value, "struct_info", None))

    def item(self, value: rx.TupleGetItem) -> set[int]:
        """A field of what may be several tuples."""
        if isinstance(value.tuple_value, rx.Tuple):
            return self.of(value.tuple_value.fields[value.index])
        found: set[int] = set()
        for number in self.of(value.tuple_value):
            fields = self.tuples.get(number)
            found |= {ANY} if fields is None else fields[value.index]
        return found

    def is_fresh(self, call: rx.Call) -> bool:
        """Whether a call's result is memory of its own: that of an operator or a loop function."""
        if not isinstance(call.op, rx.Op):
            return False
        return call.op.name not in _MYSTERIES and not called(call).view


def dataflow_inplace_analysis(
    block: rx.DataflowBlock, inputs: Sequence[rx.Var], mod: IRModule
) -> tuple[list[tuple[int, set[int]]], list[tuple[int, set[int]]]]:
    """Which operators of a block may write over which operands.

    Args:
        block: the bindings.
        inputs: variables from before it, which are never written over.
        mod: the module that the block is of.

    Returns:
        Two lists of (number of a binding, numbers of operands): where an operand has room for the
        result, and where it has its shape; both of the result's dtype.
    """
    lives = dataflow_liveness_analysis(block)
    aliases, tuples = dataflow_alias_analysis(block, inputs)
    room: list[tuple[int, set[int]]] = []
    exact: list[tuple[int, set[int]]] = []
    for at, binding in enumerate(block.bindings):
        value = binding.value
        if not called(value).elementwise:
            continue
        free = {
            i
            for i, arg in enumerate(value.args)  # type: ignore[union-attr]
            if isinstance(arg, rx.Var) and _is_free(arg, at, lives, aliases, tuples)
        }
        infos = {i: value.args[i].struct_info for i in free}  # type: ignore[union-attr]
        made = binding.var.struct_info
        fitting = {i for i, info in infos.items() if _has_room(info, made)}
        if fitting:
            room.append((at, fitting))
        alike = {i for i in fitting if same_known(infos[i], made)}
        if alike:
            exact.append((at, alike))
    return room, exact


def _is_free(
    arg: rx.Var,
    at: int,
    lives: dict[rx.Var, tuple[int, int]],
    aliases: dict[rx.Var, set[int]],
    tuples: dict[int, list[set[int]]],
) -> bool:
    """Whether nobody sees an operand after binding `at`, by this name or another."""
    mine = aliases.get(arg, {ANY})
    if ANY in mine:
        return False
    for var, (begin, end) in lives.items():
        others = set(_inside(aliases.get(var, {ANY}), tuples))
        if begin < at < end and (ANY in others or others & mine):
            return False
    return bool(lives[arg][1] == at)


def _inside(numbers: Iterable[int], tuples: dict[int, list[set[int]]]) -> Iterable[int]:
    """The pieces of memory, and those of the fields of tuples among them."""
    for number in numbers:
        yield number
        for part in tuples.get(number, []):
            yield from _inside(part, tuples)


def _has_room(info: Any, made: Any) -> bool:
    """Whether a tensor of one struct info has as many elements of the dtype as one of another."""
    if not isinstance(info, TensorStructInfo) or info.dtype != made.dtype:
        return False
    if same_known(info, made):
        return True
    sizes = [[as_int(d) for d in i.dims or (None,)] for i in (info, made)]
    if any(None in dims for dims in sizes):
        return False
    return prod(sizes[0]) >= prod(sizes[1])  # type: ignore[arg-type]


def dataflow_single_inplace_call(
    mod: IRModule, call: rx.Call, inplace_indices: Sequence[int]
) -> tuple[rx.Call, IRModule]:
    """An operator's call as one that writes over an operand, and the module with its loops.

    Args:
        mod: the module, which stays as it is.
        call: an operator whose result has the shape and dtype of that operand.
        inplace_indices: the number of the operand.

    Raises:
        ArgumentError: there is not one number, or the operator has no such loops.
    """
    if len(inplace_indices) != 1 or not 0 <= inplace_indices[0] < len(call.args):
        raise ArgumentError(
            f"inplace_indices is the number of one operand, not {list(inplace_indices)}"
        )
    place = inplace_indices[0]
    if not same_known(call.args[place].struct_info, call.struct_info):
        raise ArgumentError(f"operand {place} has not the result's shape and dtype: {call}")
    table = FunctionTable(mod.functions)
    made = in_place(table, call, place)
    if made is None:
        raise ArgumentError(f"no loops of known sizes: {call}")
    return replace(made, span=call.span), table.module(mod)

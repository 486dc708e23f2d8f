"""What runs as one native call: straight functions, and branches and loops of known sizes.

straight    kernels, views, tuples, constants, rows that are put into a room for many (the runtime's
            `rows_put`); sizes that the parameters tell
whole       also branches, and calls of functions that call themselves at their end only, which
            are jumps (`graph_plan`)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from mlcnb.ir.expr import GlobalVar, Var
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import definable_vars, symbolic_vars
from mlcnb.relax.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from mlcnb.runtime.shapes import is_size_check

#: the packed function that has a native form
PUT_ROW = "vm.builtin.rows_put"


def is_straight(function: rx.Function) -> bool:
    """True if the body is kernel calls, views, tuples, constants; sizes known beforehand."""
    if not all(is_known_tensor(p.struct_info) for p in function.params):
        return False
    sizes = {v for p in function.params for v in definable_vars(p.struct_info)}
    return all(is_straight_binding(b, sizes) for b in function.body.bindings)


def is_known_tensor(info: Any) -> bool:
    """True for a tensor of known dtype and dimensions, and for a tuple of such."""
    if isinstance(info, TupleStructInfo):
        return all(is_known_tensor(f) for f in info.fields)
    return isinstance(info, TensorStructInfo) and info.dims is not None and info.dtype is not None


def is_straight_binding(binding: rx.Binding, sizes: Collection[Var]) -> bool:
    """True for a kernel's call, a view, or something that costs nothing; `sizes` are known."""
    value: Any = getattr(binding, "value", None)
    if isinstance(binding, rx.MatchCast):
        return is_size_check(binding, sizes)
    if is_put(value):
        return all(is_known_tensor(a.struct_info) for a in value.args[1:])
    if isinstance(value, rx.Call):
        is_known = isinstance(value.op, rx.Op) and value.op.name in (
            "relax.call_tir",
            "relax.reshape",
        )
        return is_known and not any(map(_is_fraction, value.args[1:2]))
    simple = (rx.Var, rx.Constant, rx.Tuple, rx.TupleGetItem, rx.ShapeExpr)
    return isinstance(value, simple)


def is_put(value: Any) -> bool:
    """True for `rows_put(room, row, turn)`, which writes a row into a room."""
    return (
        isinstance(value, rx.Call)
        and getattr(value.op, "name", "") == "relax.call_inplace_packed"
        and getattr(value.args[0], "global_symbol", "") == PUT_ROW
    )


def _is_fraction(x: Any) -> bool:
    """True for a number that is no integer, or a tuple with one: native calls are told integers."""
    if isinstance(x, rx.Tuple):
        return any(map(_is_fraction, x.fields))
    info = x.struct_info
    return isinstance(info, PrimStructInfo) and not (info.dtype and info.dtype.is_integer)


def runs_whole(function: rx.Function, functions: Mapping[Any, Any]) -> bool:
    """True for a straight function, and for one whose branches and loops have known sizes."""
    if not all(is_known_tensor(p.struct_info) for p in function.params):
        return False
    sizes = {v for p in function.params for v in definable_vars(p.struct_info)}
    return is_whole(function.body, sizes, Scope(functions), None, is_inside=False)


class Scope:
    """Functions that may be called: those of the module, local ones; those that are running."""

    def __init__(
        self, functions: Mapping[Any, Any], local: Mapping[rx.Var, rx.Function] | None = None
    ) -> None:
        self.functions = functions
        self.local: dict[rx.Var, rx.Function] = dict(local or {})
        self.running: list[Any] = []

    def called(self, value: Any) -> rx.Function | None:
        """The graph function that a call calls."""
        op = value.op if isinstance(value, rx.Call) else None
        found = self.local.get(op) if isinstance(op, rx.Var) else None
        if isinstance(op, GlobalVar):
            found = self.functions.get(op)
        return found if isinstance(found, rx.Function) else None


def is_whole(
    seq: Any, sizes: Collection[Var], scope: Scope, tail: Any, is_inside: bool = True
) -> bool:
    """True for a sequence that can be planned with what it calls, its sizes being known.

    tail: the function that may call itself at the end of the sequence; is_inside: of a branch.
    """
    bindings = seq.bindings if isinstance(seq, rx.SeqExpr) else ()
    for number, binding in enumerate(bindings):
        is_last = number == len(bindings) - 1 and binding.var is seq.body
        if not is_whole_binding(binding, sizes, scope, tail if is_last else None, is_inside):
            return False
    return True


def is_whole_binding(
    binding: rx.Binding, sizes: Collection[Var], scope: Scope, tail: Any, is_inside: bool = True
) -> bool:
    """As `is_whole`, of one binding."""
    value: Any = binding.value  # type: ignore[attr-defined]
    info = binding.var.struct_info
    if isinstance(value, rx.Function):
        scope.local[binding.var] = value
        return True
    if isinstance(value, rx.If):
        branches = value.true_branch, value.false_branch
        return (
            _is_condition(value.cond.struct_info)
            and _has_sizes(info, sizes)
            and all(is_whole(b, sizes, scope, tail) for b in branches)
        )
    callee = scope.called(value)
    if callee is None:
        is_check = isinstance(binding, rx.MatchCast)
        return not (is_inside and is_check) and is_straight_binding(binding, sizes)
    given = [p.struct_info for p in callee.params]
    if not all(_has_sizes(i, sizes) for i in (info, *given, *(a.struct_info for a in value.args))):
        return False
    if value.op in scope.running:
        return value.op is tail
    scope.running.append(value.op)
    try:
        return is_whole(callee.body, sizes, scope, value.op)
    finally:
        scope.running.pop()


def _is_condition(info: Any) -> bool:
    return isinstance(info, TensorStructInfo) and info.ndim == 0 and str(info.dtype) == "bool"


def _has_sizes(info: Any, sizes: Collection[Var]) -> bool:
    return is_known_tensor(info) and all(v in sizes for v in symbolic_vars(info))

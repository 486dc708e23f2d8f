"""Folding at import: calls on constants become constants, as far as that is cheap.

    Full((4096, 9216), 0.5)      one number, seen 4096 * 9216 times: a view, no copy
    permute_dims(weight)         a view
    multiply(a, b)               computed, while the budget lasts

What is too dear stays a call; the pass FoldConstant looks at it again when it is compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.core.errors import ExecutionError, UnsupportedOpError
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.span import Span
from mlcnb.relax import expr as rx
from mlcnb.relax.frontend.shared.limits import least_bytes
from mlcnb.relax.numpy_call import call_numpy
from mlcnb.relax.operand_infos import operand_infos
from mlcnb.relax.operator import attrs_of, declaration
from mlcnb.relax.struct_info import TensorStructInfo, parts_of

#: operators whose meaning in NumPy copies nothing
VIEWS = frozenset(
    f"relax.{name}"
    for name in "full zeros ones broadcast_to permute_dims reshape expand_dims squeeze".split()
)
#: what stays a call, because a pass wants to see it: how constants are quantised
KEPT = frozenset({"relax.dequantize"})
#: bytes read and written, and floating-point operations, that one import spends
BUDGET_BYTES = 128 << 20
BUDGET_FLOPS = 500_000_000
#: results up to this many bytes are laid out in order, larger ones may stay views
PLAIN_BYTES = 1 << 16


class Folder:
    """Folds calls while its budget lasts."""

    def __init__(self) -> None:
        self.bytes = BUDGET_BYTES
        self.flops = BUDGET_FLOPS

    def fold(self, call: rx.Call) -> rx.Constant | rx.Tuple | None:
        """The value of a normalized call, or None where it is no constant, or a dear one."""
        if not call.args or rx.Var in map(type, call.args):
            return None
        if not all(map(is_constant, call.args)) or not attrs_of(call).pure:
            return None
        infos = None if call.op.name in KEPT else _results(call.struct_info)
        if infos is None and _depends_on_data(call):
            infos = []
        if infos is None or not self.affords(call, infos):
            return None
        try:
            return _constants(call_numpy(call, _no_variable), call.span)
        except (ExecutionError, UnsupportedOpError):
            return None  # it fails, if it does, when the model runs

    def affords(self, call: rx.Call, infos: list[TensorStructInfo]) -> bool:
        """Whether the budget allows to compute a call; it is charged if so."""
        if call.op.name in VIEWS:
            return True
        sizes = [_bytes(i) for i in infos]
        read = sum(c.data.nbytes for c in constants_in(call.args))
        flops = as_int(attrs_of(call).flops(*operand_infos(call)) or 0)
        if None in sizes or flops is None:
            return False
        cost = read + sum(sizes)  # type: ignore[arg-type]
        if cost > self.bytes or flops > self.flops:
            return False
        self.bytes -= cost
        self.flops -= flops
        return True


def is_constant(arg: Any) -> bool:
    """True for an argument that is known: a constant, a static shape, a literal."""
    if isinstance(arg, rx.Tuple):
        return all(map(is_constant, arg.fields))
    if isinstance(arg, rx.ShapeExpr):
        return all(as_int(d) is not None for d in arg.values)
    if isinstance(arg, rx.PrimValue):
        return hasattr(arg.value, "value") and not hasattr(arg.value, "name")
    return isinstance(arg, rx.Constant | rx.Op | rx.StringImm | rx.DataTypeImm)


def constants_in(args: Any) -> list[rx.Constant]:
    """The constants among arguments, those in tuples too."""
    found: list[rx.Constant] = []
    for arg in args:
        if isinstance(arg, rx.Constant):
            found.append(arg)
        elif isinstance(arg, rx.Tuple):
            found.extend(constants_in(arg.fields))
    return found


def is_operator(call: rx.Call) -> bool:
    """True for a call of a declared operator."""
    return isinstance(call.op, rx.Op) and declaration(call.op, missing_ok=True) is not None


def _results(info: Any) -> list[TensorStructInfo] | None:
    """The tensors of a result, if it is nothing else and their shapes are static."""
    fields = parts_of(info)
    fits = all(
        isinstance(f, TensorStructInfo)
        and f.dims is not None
        and f.dtype is not None
        and all(as_int(d) is not None for d in f.dims)
        for f in fields
    )
    return [f for f in fields if isinstance(f, TensorStructInfo)] if fits else None


def _depends_on_data(call: rx.Call) -> bool:
    """True for results whose size only the elements tell, and which are not large for all that."""
    info = call.struct_info
    fields = parts_of(info)
    is_open = any(isinstance(f, TensorStructInfo) and f.shape is None for f in fields)
    given = sum(c.data.size for c in constants_in(call.args))
    return is_open and call.op.name not in KEPT and given <= PLAIN_BYTES


def _bytes(info: TensorStructInfo) -> int | None:
    return least_bytes(info.dims or (), info.dtype) if info.dtype else None


def _constants(value: Any, span: Span | None) -> rx.Constant | rx.Tuple | None:
    if isinstance(value, tuple):
        fields = tuple(_constants(v, span) for v in value)
        return None if None in fields else rx.Tuple(fields)  # type: ignore[arg-type]
    if not isinstance(value, np.ndarray | np.generic):
        return None
    return constant(np.asarray(value), span)


def constant(array: np.ndarray, span: Span | None = None) -> rx.Constant:
    """A constant that shares the array's memory, laid out in order where that is cheap."""
    if array.nbytes <= PLAIN_BYTES and not array.flags.c_contiguous:
        array = np.ascontiguousarray(array).reshape(array.shape)
    kept = array.view()
    kept.flags.writeable = False
    return rx.Constant(kept, span)


def _no_variable(arg: Any) -> Any:
    raise TypeError(f"{arg!r} is no constant")

"""Softmax and its relatives: nn.softmax, nn.log_softmax; ONNX Hardmax.

T_softmax_maxelem -> T_softmax_exp -> T_softmax_expsum -> T_softmax_inverse -> T_softmax_norm
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.dtype import DType
from mlcnb.ir.prim_ops import as_expr, as_int, cast
from mlcnb.op._accumulate import accumulator, in_wide
from mlcnb.op._dims import product, refuse, tell, tell_dims, tidy, want_axis
from mlcnb.op._order import along_axis
from mlcnb.op._spell import call
from mlcnb.op.manipulate.reshape import Reshape
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, PrimValue
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator


class AlongAxis(OpDecl):
    """What softmax and log_softmax have in common."""

    __slots__ = ()
    cost = 5
    in_order = along_axis

    x: Tensor
    axis: int = -1

    def infer(self, x: Any) -> Any:
        """Like x."""
        want_axis(self, x)
        if x.dtype and not x.dtype.is_float:
            refuse(self, f"x must be of floats, but is {tell(x)}", hint="use astype on it first")
        return x

    def split(self, x: Any) -> tuple[int, Any, list[Any]]:
        """The axis, its size, and the shape without it."""
        axis = self.axis % len(x.shape)
        return axis, x.shape[axis], [d for i, d in enumerate(x.shape) if i != axis]


def _without(index: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    return index[:axis] + index[axis + 1 :]


def _with(index: tuple[Any, ...], axis: int, k: Any) -> tuple[Any, ...]:
    return (*index[:axis], k, *index[axis:])


def _reduced(combine: Any, value: Any, shape: Any, axis: int, extent: Any, name: str) -> Any:
    """`combine` of value(index) along `axis`."""
    k = te.reduce_axis((0, extent), name="k")
    return te.compute(shape, lambda *i: combine(value(*_with(i, axis, k)), axis=k), name=name)


@operator("relax.nn.softmax")
class Softmax(AlongAxis):
    """exp(x) / sum(exp(x)) along `axis`; the maximum is taken off first, so nothing overflows.

    Semantics: https://onnx.ai/onnx/operators/onnx__Softmax.html (opset 13)
    """

    @in_wide
    def numpy(self, x: Any) -> Any:
        """The formula, in float32 at least"""
        e = np.exp(x - x.max(self.axis, keepdims=True))
        return e / e.sum(self.axis, keepdims=True)

    def compute(self, x: Any) -> Any:
        """Five blocks, named as TVM does; the division is done once for each sum."""
        kind = accumulator(x.dtype)
        axis, extent, shape = self.split(x)
        high = _reduced(te.max, x, shape, axis, extent, "T_softmax_maxelem")
        e = te.compute(x.shape, _shifted_exp(x, high, axis, kind), name="T_softmax_exp")
        total = _reduced(te.sum, e, shape, axis, extent, "T_softmax_expsum")
        inverse = te.compute(shape, lambda *i: 1 / total(*i), name="T_softmax_inverse")

        def element(*index: Any) -> Any:
            return cast(x.dtype, e(*index) * inverse(*_without(index, axis)))

        return te.compute(x.shape, element, name="T_softmax_norm")


def _shifted_exp(x: Any, high: Any, axis: int, kind: DType) -> Any:
    def element(*index: Any) -> Any:
        return te.exp(cast(kind, x(*index)) - cast(kind, high(*_without(index, axis))))

    return element


@operator("relax.nn.log_softmax")
class LogSoftmax(AlongAxis):
    """log(softmax(x)) along `axis`, as x - max - log(sum(exp(x - max))).

    Semantics: https://onnx.ai/onnx/operators/onnx__LogSoftmax.html (opset 13)
    """

    @in_wide
    def numpy(self, x: Any) -> Any:
        """The formula, in float32 at least"""
        shifted = x - x.max(self.axis, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(self.axis, keepdims=True))

    def compute(self, x: Any) -> Any:
        """Four blocks."""
        kind = accumulator(x.dtype)
        axis, extent, shape = self.split(x)
        high = _reduced(te.max, x, shape, axis, extent, "T_softmax_maxelem")
        shifted = _shifted_exp(x, high, axis, kind)
        total = _reduced(te.sum, shifted, shape, axis, extent, "T_softmax_expsum")
        log = te.compute(shape, lambda *i: te.log(total(*i)), name="T_softmax_log")

        def element(*index: Any) -> Any:
            at = _without(index, axis)
            value = cast(kind, x(*index)) - cast(kind, high(*at)) - log(*at)
            return cast(x.dtype, value)

        return te.compute(x.shape, element, name="T_softmax_norm")


def _spelled(n: OnnxNode, x: Expr, build: Any) -> Expr:
    """`build(x, axis)`: along one axis since opset 13; before, over all axes from `axis` on."""
    dims = n.dims(x)
    if n.opset >= 13:
        return build(x, n.attr("axis", -1))
    axis = n.attr("axis", 1)
    last = len(dims) - 1 if n.opset >= 11 else len(dims)
    if not -len(dims) <= axis <= last:
        n.refuse(f"axis {axis} is outside of {len(dims)} dimensions")
    axis += len(dims) if axis < 0 else 0
    if axis < len(dims) and as_int(product(dims[axis + 1 :])) == 1:
        return build(x, axis)
    rows, columns = tidy(product(dims[:axis])), tidy(product(dims[axis:]))
    flat = n.emit(make_call(Reshape, x, [rows, columns]))
    return make_call(Reshape, n.emit(build(flat, 1)), list(dims))


@onnx("Softmax")
@onnx("LogSoftmax")
def onnx_softmax(n: OnnxNode, x: Expr) -> Expr:
    """Along one axis since opset 13; before, over a matrix of all axes from `axis` on."""
    decl = Softmax if n.op_type == "Softmax" else LogSoftmax
    return _spelled(n, x, lambda v, axis: make_call(decl, v, axis=axis))


@onnx("Hardmax")
def onnx_hardmax(n: OnnxNode, x: Expr) -> Expr:
    """1 where the (first) maximum stands, 0 elsewhere."""

    def build(v: Expr, axis: int) -> Expr:
        dims, kind = n.dims(v), n.dtype(v)
        if not -len(dims) <= axis < len(dims):
            n.refuse(f"axis {axis} is outside of {tell_dims(dims)}")
        depth = as_int(dims[axis])
        if depth == 0:
            return v
        if depth is None:  # it may be 0: there is one more, behind all others
            behind = [int(a == axis % len(dims)) for a in range(len(dims))]
            widths = [w for b in behind for w in (0, b)]
            more = n.emit(call("relax.nn.pad", v, pad_width=widths, pad_value=-np.inf))
            at = n.emit(call("relax.argmax", more, axis=axis, keepdims=True))
            ends = (PrimValue(as_expr(x)) for x in (0, dims[axis], 1))
            places = n.emit(call("relax.arange", *ends, dtype="int64"))
            line = [dims[axis] if a == axis % len(dims) else 1 for a in range(len(dims))]
            here = n.emit(call("relax.equal", at, n.emit(call("relax.reshape", places, line))))
            return call("relax.astype", here, dtype=kind)
        at = n.emit(call("relax.argmax", v, axis=axis, keepdims=False))
        ones = call("relax.one_hot", at, 1, 0, depth=depth, axis=axis % len(dims))
        return call("relax.astype", n.emit(ones), dtype=kind)

    return _spelled(n, x, build)

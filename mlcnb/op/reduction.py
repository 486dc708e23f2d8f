"""Reductions: sum, mean, max, min, prod, std, variance, and ONNX's Reduce… made of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.op._elementwise import ANY, FLOATS, NUMBERS, elementwise, short_name
from mlcnb.op._reduce import Reduction, reduce_compute, reduced_axes, reduced_dims, reduction
from mlcnb.op._spell import axes_of, call
from mlcnb.op.nn._moments import first_of, spread
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, PrimValue
from mlcnb.relax.operator import make_call


def _sum(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> Any:
    return np.sum(x, axis=axes, keepdims=keepdims, dtype=x.dtype)


def _prod(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> Any:
    return np.prod(x, axis=axes, keepdims=keepdims, dtype=x.dtype)


def _extreme(fn: Callable[..., Any], sign: int) -> Callable[..., Any]:
    """numpy.max or numpy.min, which of nothing is the farthest number on the other side."""

    def run(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> Any:
        if all(x.shape[axis] for axis in axes):  # 8-bit floats have no infinity to begin with
            return fn(x, axis=axes, keepdims=keepdims)
        kind = dtype(x.dtype.name)
        if kind.is_float:
            start = -sign * math.inf
        else:
            start = kind.min_value if sign > 0 else kind.max_value
        return fn(x, axis=axes, keepdims=keepdims, initial=x.dtype.type(start))

    return run


def _mean(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> Any:
    total = _sum(x, axes, keepdims)
    count = math.prod(x.shape[a] for a in axes)
    if dtype(x.dtype.name).is_float:
        return total / x.dtype.type(count)
    return np.sign(total) * (np.abs(total) // max(count, 1)).astype(x.dtype)


def _variance(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> Any:
    return np.var(x.astype(np.float64), axis=axes, keepdims=keepdims)


def _std(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> Any:
    return np.sqrt(_variance(x, axes, keepdims))


class _Mean(Reduction):
    """The sum divided by the count; of integers, towards zero."""

    __slots__ = ()

    def compute(self, x: Any) -> Any:
        """Two loop nests: the sum, the division."""
        total = self.combined(x, name=f"{short_name(self)}_sum")
        return elementwise(lambda v: p.cast(x.dtype, self.divided(v, x)), total, short_name(self))

    def divided(self, total: Any, x: Any) -> Any:
        """A sum over x divided by how many it has."""
        count = p.cast(total.dtype, self.count(x.shape))
        return p.div(total, count) if total.dtype.is_float else p.truncdiv(total, count)


class _Variance(_Mean):
    """The mean of the squares of the distances from the mean."""

    __slots__ = ()
    cost = 5

    def compute(self, x: Any) -> Any:
        """Sums of distances and of squares, and what is made of them for each place."""
        name, axes = short_name(self), reduced_axes(self, self.axis, len(x.shape))
        kept, kind = reduced_dims(x.shape, axes, True), self.inside(x.dtype)

        def sum_of(value: Any, what: str) -> Any:
            def element(*index: Any) -> Any:
                return value([0 if at in axes else i for at, i in enumerate(index)], x(*index))

            return reduce_compute(te.sum, element, x.shape, axes, True, f"{name}_{what}")

        def made(value: Any, what: str) -> Any:
            return te.compute(kept, value, name=f"{name}_{what}")

        def first(*index: Any) -> Any:
            return first_of(lambda: x(*index), [x.shape[a] for a in axes], kind)

        found = spread(sum_of, made, first, p.cast(kind, self.count(x.shape)))

        def finished(*index: Any) -> Any:
            rest = iter(index)
            at = index if self.keepdims else [0 if a in axes else next(rest) for a in range(x.ndim)]
            return p.cast(x.dtype, self.finish(found.variance(*at)))

        return te.compute(reduced_dims(x.shape, axes, self.keepdims), finished, name=name)

    def finish(self, variance: Any) -> Any:
        """What is made of the variance of one place."""
        return variance


class _Std(_Variance):
    """The square root of the variance."""

    __slots__ = ()

    def finish(self, variance: Any) -> Any:
        """Its root."""
        return te.sqrt(variance)


_max, _min = _extreme(np.max, 1), _extreme(np.min, -1)

Sum = reduction("sum", _sum, te.sum, NUMBERS, "The sum")
Prod = reduction("prod", _prod, te.prod, NUMBERS, "The product")
Max = reduction("max", _max, te.max, ANY, "The largest; NaN where there is one", widens=False)
Min = reduction("min", _min, te.min, ANY, "The smallest; NaN where there is one", widens=False)
Mean = reduction("mean", _mean, te.sum, NUMBERS, "The sum divided by the count", _Mean)
Variance = reduction("variance", _variance, te.sum, FLOATS, "The population variance", _Variance)
Std = reduction("std", _std, te.sum, FLOATS, "The population standard deviation", _Std)


# ONNX: `axes` is an attribute at first, then an input (ReduceSum from 13, the others from 18)


def _attributes(n: OnnxNode, axes: Expr | None) -> dict[str, Any]:
    """axis and keepdims of a Reduce… node."""
    found = axes_of(n, axes)
    if not found:
        found = () if n.attr("noop_with_empty_axes", 0) else None
    return {"axis": found, "keepdims": bool(n.attr("keepdims", 1))}


#: ONNX's reductions that are operators of ours
_REDUCTIONS: dict[str, Any] = {
    "ReduceSum": Sum,
    "ReduceProd": Prod,
    "ReduceMax": Max,
    "ReduceMin": Min,
    "ReduceMean": Mean,
}


def onnx_reduce(n: OnnxNode, data: Expr, axes: Expr | None = None) -> Expr:
    """Over `axes`."""
    return make_call(_REDUCTIONS[n.op_type], data, **_attributes(n, axes))


for _op_type in _REDUCTIONS:
    onnx(_op_type)(onnx_reduce)


@onnx("ReduceSumSquare")
def onnx_reduce_sum_square(n: OnnxNode, data: Expr, axes: Expr | None = None) -> Expr:
    """sum(x * x)"""
    return make_call(Sum, n.emit(call("relax.square", data)), **_attributes(n, axes))


@onnx("ReduceL1")
def onnx_reduce_l1(n: OnnxNode, data: Expr, axes: Expr | None = None) -> Expr:
    """sum(|x|)"""
    return make_call(Sum, n.emit(call("relax.abs", data)), **_attributes(n, axes))


@onnx("ReduceL2")
def onnx_reduce_l2(n: OnnxNode, data: Expr, axes: Expr | None = None) -> Expr:
    """sqrt(sum(x * x)); of integers, cut to a whole number."""
    kind = n.dtype(data)
    x = data if dtype(kind).is_float else n.emit(call("relax.astype", data, dtype="float64"))
    total = n.emit(onnx_reduce_sum_square(n, x, axes))
    root = call("relax.sqrt", total)
    return root if x is data else call("relax.astype", n.emit(root), dtype=kind)


@onnx("ReduceLogSum")
def onnx_reduce_log_sum(n: OnnxNode, data: Expr, axes: Expr | None = None) -> Expr:
    """log(sum(x))"""
    return call("relax.log", n.emit(make_call(Sum, data, **_attributes(n, axes))))


@onnx("ReduceLogSumExp")
def onnx_reduce_log_sum_exp(n: OnnxNode, data: Expr, axes: Expr | None = None) -> Expr:
    """log(sum(exp(x - m))) + m, where m is the largest, kept finite so that x - m is a number."""
    over = _attributes(n, axes)
    kind = dtype(n.dtype(data))
    most = n.emit(make_call(Max, data, axis=over["axis"], keepdims=True))
    bounds = (PrimValue(p.min_value(kind)), PrimValue(p.max_value(kind)))
    most = n.emit(call("relax.clip", most, *bounds))
    powers = n.emit(call("relax.exp", n.emit(call("relax.subtract", data, most))))
    total = n.emit(make_call(Sum, powers, axis=over["axis"], keepdims=True))
    found = n.emit(call("relax.add", n.emit(call("relax.log", total)), most))
    if over["keepdims"] or over["axis"] == ():
        return found
    return call("relax.squeeze", found, axis=over["axis"])

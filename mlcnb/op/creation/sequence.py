"""Numbers in a row: arange, hamming_window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.core.errors import ArgumentError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import Div, FloatImm, PrimExpr, Var
from mlcnb.op._accumulate import accumulator
from mlcnb.op._dims import refuse, tensor, tidy
from mlcnb.op._spell import affordable, call, dtype_of, finite_of, scalar_of
from mlcnb.op._sugar import sugar
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, PrimValue, const
from mlcnb.relax.operator import OpDecl, Scalar, make_call, operator


@operator("relax.arange")
class Arange(OpDecl):
    """start, start + step, … up to `end`, which is not reached.

    There are max(ceil((end - start) / step), 0) elements, and element i is start + i * step.
    Semantics: https://onnx.ai/onnx/operators/onnx__Range.html
    """

    start: Scalar
    end: Scalar
    step: Scalar
    dtype: str

    def infer(self, start: Any, end: Any, step: Any) -> Any:
        """One dimension; its size is known where the three values are."""
        values = [info.value for info in (start, end, step)]
        if None in values:
            return tensor(None, self.dtype, 1)
        if p.is_const(values[2], 0):
            refuse(self, "step is 0")
        return tensor([length(*values)], self.dtype)

    def numpy(self, start: Any, end: Any, step: Any) -> Any:
        """As the definition says, in float32 for half precision"""
        kind = accumulator(self.dtype).numpy
        index = np.arange(_count(start, end, step)).astype(kind)
        return (kind.type(start) + index * kind.type(step)).astype(dtype(self.dtype).numpy)

    def compute(self, start: Any, end: Any, step: Any) -> Any:
        """One loop nest."""
        kind = accumulator(self.dtype)
        first, step_by = p.cast(kind, start), p.cast(kind, step)

        def element(i: Any) -> Any:
            return p.cast(self.dtype, first + p.cast(kind, i) * step_by)

        return te.compute((length(start, end, step),), element, name="arange")


def _count(start: float, end: float, step: float) -> int:
    """How many elements there are."""
    if all(isinstance(v, int) for v in (start, end, step)):
        return max(-(-(end - start) // step), 0)  # type: ignore[return-value]
    return max(math.ceil((end - start) / step), 0)


def length(start: Any, end: Any, step: Any) -> Any:
    """How many elements there are: an int, or an expression where the values are symbolic."""
    values = [getattr(p.as_expr(v), "value", None) for v in (start, end, step)]
    if all(v is not None for v in values):
        return _count(*values)  # type: ignore[arg-type]
    first, last, by = (p.cast("int64", v) for v in (start, end, step))
    if p.is_const(first, 0) and p.is_const(by, 1) and isinstance(last, Var):
        return last  # a symbolic dimension is not negative
    return tidy(p.maximum(tidy(p.neg(p.floordiv(first - last, by))), 0))


@sugar("arange")
def arange(start: Any, end: Any = None, step: Any = 1, dtype: Any = None) -> Expr:
    """start, start + step, … before end; arange(n) is 0, 1, … n - 1.

    dtype: int64 where all three are integers, else float32.

    Raises:
        TypeInferError: the step is 0.
        OperatorArgumentError: one of the three is no number.
    """
    if end is None:
        start, end = 0, start
    given = [_scalar(v) for v in (start, end, step)]
    if dtype is None:
        whole = all(g.value.dtype.is_integer for g in given)
        dtype = "int64" if whole else "float32"
    return make_call(Arange, *given, dtype=dtype)


def _scalar(value: Any) -> PrimValue:
    if isinstance(value, PrimValue):
        return value
    if isinstance(value, str):
        raise ArgumentError(f"{value!r} is no number")
    return PrimValue(p.const(value, "int64") if isinstance(value, int) else p.as_expr(value))


@onnx("Range")
def onnx_range(n: OnnxNode, start: Expr, limit: Expr, delta: Expr) -> Expr:
    """The three scalars are known at import, are symbolic dimensions, or are read by the run."""
    kind = dtype(n.dtype(start))
    if any(not _is_known(n, x) for x in (start, limit, delta)):
        return _range_of_data(n, start, limit, delta, kind)
    values = [_known_scalar(n, *pair) for pair in zip((start, limit, delta), _NAMES, strict=True)]
    if p.is_const(values[2], 0):
        n.refuse("delta is 0")
    if kind.is_float and any(not isinstance(v, FloatImm) for v in values):
        return _range_of_sizes(n, values, kind)
    return make_call(Arange, *(PrimValue(_typed(v, kind)) for v in values), dtype=str(kind))


def _is_known(n: OnnxNode, x: Expr) -> bool:
    """True for a number, or what is computed from sizes."""
    found = n.sizes(x)
    return found is not None and found.size == 1


def _range_of_data(n: OnnxNode, start: Expr, limit: Expr, delta: Expr, kind: DType) -> Expr:
    """A range whose length the run finds: start + i * delta, for i up to that length."""
    first, last, by = (n.emit(call("relax.reshape", x, (1,))) for x in (start, limit, delta))
    many = n.emit(_many(n, first, last, by, kind))
    if kind == "int64" and not (_is_number(n, start, 0) and _is_number(n, delta, 1)):
        many = n.emit(_countable(n, first, last, many))
    row = n.lengths(many, "the length")
    made = n.emit(make_call(Arange, *map(PrimValue, _counted(row[0])), dtype=str(kind)))
    scaled = made if _is_number(n, delta, 1) else n.emit(call("relax.multiply", made, by))
    return scaled if _is_number(n, start, 0) else call("relax.add", scaled, first)


def _is_number(n: OnnxNode, x: Expr, number: int) -> bool:
    known = n.known(x)
    return known is not None and known.dtype != object and known.item() == number


def _many(n: OnnxNode, first: Expr, last: Expr, by: Expr, kind: DType) -> Expr:
    """ceil((last - first) / by), int64, at least 0; a step of 0 stops the run."""
    none = const(np.zeros(1, np.int64))
    if not kind.is_float:
        begin, end, step = (
            n.emit(call("relax.astype", x, dtype="int64")) for x in (first, last, by)
        )
        back = n.emit(call("relax.floor_divide", call("relax.subtract", begin, end), step))
        return call("relax.maximum", n.emit(call("relax.negative", back)), none)
    room = n.emit(call("relax.subtract", last, first))
    over, step = (n.emit(call("relax.astype", x, dtype="float64")) for x in (room, by))
    many = n.emit(call("relax.ceil", n.emit(call("relax.divide", over, step))))
    found = n.emit(call("relax.maximum", call("relax.astype", many, dtype="int64"), none))
    still = n.emit(call("relax.equal", step, const(np.zeros(1))))
    return call("relax.where", still, const(np.full(1, -1, np.int64)), found)


def _countable(n: OnnxNode, first: Expr, last: Expr, many: Expr) -> Expr:
    """`many`, or -1, which stops the run, where last - first is no int64."""
    begin, end = (n.emit(call("relax.astype", x, dtype="float64")) for x in (first, last))
    room = n.emit(call("relax.abs", n.emit(call("relax.subtract", end, begin))))
    far = n.emit(call("relax.greater_equal", room, const(np.full(1, 2.0**63))))
    return call("relax.where", far, const(np.full(1, -1, np.int64)), many)


def _range_of_sizes(n: OnnxNode, values: Sequence[PrimExpr], kind: DType) -> Expr:
    """A range of floats whose limit is computed from sizes; start and delta are constants."""
    start, limit, delta = values
    if not (isinstance(start, FloatImm) and isinstance(delta, FloatImm)):
        n.refuse("start or delta is a float that is computed from sizes")
    top, bottom = _over(limit)
    first, by = Fraction(start.value), Fraction(delta.value)
    common = math.lcm(bottom, first.denominator, by.denominator)
    if common > 1 << 20:
        n.refuse(f"start {start.value} or delta {delta.value} is not a simple fraction")
    room = top * (common // bottom) - int(first * common)
    step = int(by * common)
    count = p.floordiv(p.neg(room) if step > 0 else room, abs(step))
    many = tidy(p.maximum(tidy(p.neg(count)), 0))
    row = make_call(Arange, *map(PrimValue, map(p.as_expr, _counted(many))), dtype=str(kind))
    if first == 0 and by == 1:
        return row
    scaled = call("relax.multiply", n.emit(row), const(delta.value, kind))
    return call("relax.add", n.emit(scaled), const(start.value, kind))


def _counted(many: Any) -> tuple[Any, Any, Any]:
    return p.const(0, "int64"), p.cast("int64", many), p.const(1, "int64")


def _over(x: PrimExpr) -> tuple[PrimExpr, int]:
    """A float that was computed from sizes, as an integer over a positive number."""
    if isinstance(x, Div):
        return _over(x.a)[0], int(x.b.value)  # type: ignore[attr-defined]
    if isinstance(x, FloatImm):
        exact = Fraction(x.value)
        return p.const(exact.numerator, "int64"), exact.denominator
    return p.cast("int64", x.value), 1  # type: ignore[attr-defined]


_NAMES = ("start", "limit", "delta")


def _known_scalar(n: OnnxNode, x: Expr, name: str) -> PrimExpr:
    found = n.sizes(x)
    if found is not None and found.dtype == object and found.size == 1:
        return p.as_expr(found.item())
    return p.const(finite_of(n, x, name), n.dtype(x))


def _typed(value: PrimExpr, kind: DType) -> PrimExpr:
    return p.cast("int64" if kind.is_integer else kind, value)


@operator("relax.hamming_window")
class HammingWindow(OpDecl):
    """alpha - beta * cos(2 pi i / (size - 1)); periodic: / size.

    A window of one element is 1. Semantics: torch.hamming_window.
    """

    follows = True

    window_size: Scalar
    periodic: Scalar
    alpha: Scalar
    beta: Scalar
    dtype: str = "float32"

    def infer(self, window_size: Any, periodic: Any, alpha: Any, beta: Any) -> Any:
        """One dimension of `window_size`."""
        if not dtype(self.dtype).is_float:
            refuse(self, f"dtype must be a float, but is {self.dtype}")
        if window_size.value is None:
            return tensor(None, self.dtype, 1)
        size = p.as_int(window_size.value)
        if size is not None and size < 0:
            refuse(self, f"window_size is {size}")
        return tensor([window_size.value], self.dtype)

    def numpy(self, window_size: Any, periodic: Any, alpha: Any, beta: Any) -> Any:
        """As the definition says, in float64, rounded once"""
        if window_size == 1:
            return np.ones(1, dtype(self.dtype).numpy)
        angle = 2 * np.pi * np.arange(window_size) / (window_size - (0 if periodic else 1))
        return (alpha - beta * np.cos(angle)).astype(dtype(self.dtype).numpy)

    def compute(self, window_size: Any, periodic: Any, alpha: Any, beta: Any) -> Any:
        """One loop nest."""
        kind = accumulator(self.dtype)
        steps = window_size - p.if_then_else(p.cast("bool", periodic), 0, 1)
        by = p.div(p.const(2 * math.pi, kind), p.cast(kind, p.maximum(steps, 1)))

        def element(i: Any) -> Any:
            wave = p.cast(kind, alpha) - p.cast(kind, beta) * te.cos(p.cast(kind, i) * by)
            one = p.const(1, kind)
            return p.cast(self.dtype, p.if_then_else(p.equal(window_size, 1), one, wave))

        return te.compute((window_size,), element, name="hamming_window")


#: window -> factors of 1, of the cosine and of that of twice the angle
_WINDOWS = {
    "HannWindow": (0.5, -0.5),
    "HammingWindow": (25 / 46, -21 / 46),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}


@onnx("HannWindow")
@onnx("HammingWindow")
@onnx("BlackmanWindow")
def onnx_window(n: OnnxNode, size: Expr) -> Expr:
    """The sum of weights[k] * cos(2 pi k i / N), computed at import."""
    count = int(scalar_of(n, size, "size"))
    affordable(n, "a window", count)
    points = np.arange(count) * 2 * np.pi / max(count - (0 if n.attr("periodic", 1) else 1), 1)
    values = sum(w * np.cos(k * points) for k, w in enumerate(_WINDOWS[n.op_type]))
    return const(np.asarray(values), dtype_of(n, "output_datatype", "float32"))

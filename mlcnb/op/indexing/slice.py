"""Slices: strided_slice (bounds known, or symbolic) and dynamic_strided_slice (bounds in tensors).

R.strided_slice(x, (0, 1), (1, 0), (5, 9), (2, 1))       x[1:5:2, 0:9]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mlcnb import te
from mlcnb.core.errors import ExecutionError, UnsupportedOpError
from mlcnb.ir.prim_ops import (
    as_int,
    cast,
    floordiv,
    less,
    maximum,
    minimum,
    neg,
    not_equal,
    select,
)
from mlcnb.ir.prim_ops import const as const_of
from mlcnb.ir.rules import rule
from mlcnb.op._dims import (
    axes_at,
    differ,
    refuse,
    tell,
    tensor,
    tidy,
    unlike,
    want_rank,
)
from mlcnb.op._elementwise import INTEGERS, want_kinds
from mlcnb.op._loops import let, load, seq, store
from mlcnb.op._spell import axes_of, call, ints_of, shape_of
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.analysis.struct_info import same_known
from mlcnb.relax.expr import Call, Expr, const, shape_expr
from mlcnb.relax.operator import (
    OpDecl,
    OptionalShape,
    Shape,
    Tensor,
    call_arguments,
    make_call,
    operator,
)
from mlcnb.relax.traits import Measured
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import AssertStmt, Stmt

#: no index and no size is so large
FAR = 2**62
#: what is said of a stride of 0
STILL = "dynamic_strided_slice: a stride is 0"


class Cut(NamedTuple):
    """A slice of one dimension, brought inside: `length` elements from `begin` on, by `stride`."""

    begin: Any
    stride: int
    length: Any


def cut(begin: Any, end: Any, stride: int, extent: Any, inbound: bool = False) -> Cut:
    """Python's `begin:end:stride`: negative bounds count from the end, all are clamped.

    inbound: begin and end lie inside already.
    """
    low, high = (0, extent) if stride > 0 else (-1, extent - 1)
    if not inbound:
        begin, end = (brought(v, extent, low, high) for v in (begin, end))
    span = end - begin if stride > 0 else begin - end
    step = abs(stride)
    length = span if step == 1 else (span + (step - 1)) // step
    return Cut(tidy(begin), stride, tidy(length if inbound else _larger(length, 0)))


def brought(bound: Any, extent: Any, low: Any, high: Any) -> Any:
    """A bound of a slice, counted from the front and brought between `low` and `high`.

    Of an open extent, `INT_MAX` and `INT_MIN` of 32 or 64 bits are its ends, as ONNX has it: sums
    that have such numbers as terms leave 64 bits once they are multiplied.
    """
    value, is_open = as_int(bound), as_int(extent) is None
    if value is None:
        bound = select(bound < 0, bound + extent, bound)
    elif is_open and abs(value) >= 2**31 - 1:
        return high if value > 0 else low
    elif value < 0:
        bound = extent + value
    return _larger(low, _smaller(high, bound))


def _larger(a: Any, b: Any) -> Any:
    x, y = as_int(a), as_int(b)
    return maximum(a, b) if x is None or y is None else max(x, y)


def _smaller(a: Any, b: Any) -> Any:
    x, y = as_int(a), as_int(b)
    if x is None or y is None:
        return a if not unlike(a, b) and as_int(tidy(a - b)) == 0 else minimum(a, b)
    return min(x, y)


@operator("relax.strided_slice")
class StridedSlice(OpDecl):
    """x[begin:end:stride] along `axes`; Python's rules for bounds that are negative or outside.

    assume_inbound: the bounds lie inside, so that they need no clamping.
    """

    moves = follows = True

    x: Tensor
    axes: Shape
    begin: Shape
    end: Shape
    strides: OptionalShape
    assume_inbound: bool = False

    @rule("SimplifyOps", "strided_slice")
    def simplified(self, call: Call, value_of: Any) -> Any:
        """All of the operand, in steps of one."""
        x, strides = call.args[0], call_arguments(call)[4]
        values = () if strides is None else getattr(strides, "values", (None,))
        whole = same_known(x.struct_info, call.struct_info)
        return x if whole and all(as_int(v) == 1 for v in values) else None

    def infer(self, x: Any, axes: Any, begin: Any, end: Any, strides: Any = None) -> Any:
        """x's dimensions, cut."""
        given = [s.values for s in (axes, begin, end)] + [strides and strides.values]
        if x.ndim == -1 and not any(given):
            return x
        if x.ndim == -1 or None in given[:3]:
            return tensor(None, x.dtype, x.ndim)
        lengths = [len(v) for v in given if v is not None]
        if len(set(lengths)) > 1:
            refuse(self, f"axes, begin, end and strides differ in length: {lengths}")
        if x.dims is None:
            is_cut = bool(self.steps(given[3], len(given[0])))
            return tensor(None, x.dtype, x.ndim) if is_cut else x
        return tensor([c.length for c in self.cuts(x.dims, *given)], x.dtype)

    def steps(self, strides: Sequence[Any] | None, count: int) -> list[int]:
        """The strides as ints."""
        found = [as_int(s) for s in strides] if strides is not None else [1] * count
        if None in found or 0 in found:
            refuse(self, f"strides must be constants other than 0, but are {found}")
        return found  # type: ignore[return-value]

    def cuts(
        self,
        dims: Sequence[Any],
        axes: Sequence[Any],
        begin: Sequence[Any],
        end: Sequence[Any],
        strides: Sequence[Any] | None,
    ) -> list[Cut]:
        """What is taken of each dimension."""
        found = [Cut(0, 1, d) for d in dims]
        places = axes_at(self, [int(a) for a in axes], len(dims))
        steps = self.steps(strides, len(places))
        for axis, b, e, s in zip(places, begin, end, steps, strict=True):
            found[axis] = cut(_plain(b), _plain(e), s, _plain(dims[axis]), self.assume_inbound)
        return found

    def numpy(self, x: Any, axes: Any, begin: Any, end: Any, strides: Any = None) -> Any:
        """NumPy's basic slicing, copied"""
        cuts = self.cuts(x.shape, axes, begin, end, strides)
        return np.array(x[tuple(_python_slice(c) for c in cuts)])

    def compute(self, x: Any, axes: Any, begin: Any, end: Any, strides: Any = None) -> Any:
        """One copy: out[i] = x[begin + i * stride]."""
        cuts = self.cuts(x.shape, axes, begin, end, strides)

        def source(*index: Any) -> Any:
            return x(*(c.begin + i * c.stride for i, c in zip(index, cuts, strict=True)))

        return te.compute([c.length for c in cuts], source, name="strided_slice")


def _plain(dim: Any) -> Any:
    value = as_int(dim)
    return dim if value is None else value


def _python_slice(c: Cut) -> slice:
    end = c.begin + c.stride * c.length
    return slice(c.begin, None if end < 0 else end, c.stride)


@onnx("Slice")
def onnx_slice(
    n: OnnxNode,
    data: Expr,
    starts: Expr | None = None,
    ends: Expr | None = None,
    axes: Expr | None = None,
    steps: Expr | None = None,
) -> Expr:
    """All attributes before opset 10, then inputs; `steps` only then."""
    if any(x is not None and n.known(x) is None for x in (starts, ends)):
        return _slice_by_data(n, data, starts, ends, axes, steps)
    begin, end = shape_of(n, starts, "starts"), shape_of(n, ends, "ends")
    given = axes_of(n, axes)
    places = tuple(range(len(begin))) if given is None else given
    strides = ints_of(n, steps, "steps") or (1,) * len(begin)
    if not len(begin) == len(end) == len(places) == len(strides):
        n.refuse("starts, ends, axes and steps differ in length")
    if 0 in strides:
        n.refuse("a step is 0")
    by_one = all(s == 1 for s in strides)
    return make_call(StridedSlice, data, places, begin, end, None if by_one else strides)


def _slice_by_data(
    n: OnnxNode,
    data: Expr,
    starts: Expr | None,
    ends: Expr | None,
    axes: Expr | None,
    steps: Expr | None,
) -> Expr:
    """A slice whose bounds the run finds: they are brought inside by tensors, then read."""
    dims, given = n.dims(data), axes_of(n, axes)
    bounds = [_bounds(n, x, name) for x, name in ((starts, "starts"), (ends, "ends"))]
    count = as_int(n.dims(bounds[0])[0])
    places = tuple(range(count or 0)) if given is None else given
    strides = ints_of(n, steps, "steps") or (1,) * len(places)
    if count is None or not count == as_int(n.dims(bounds[1])[0]) == len(places) == len(strides):
        n.refuse("starts, ends, axes and steps differ in length")
    if any(s < 1 for s in strides):  # these begin behind the last, which no size says
        for x, name in ((starts, "starts"), (ends, "ends")):
            n.constant(x, f"{name}, with steps that are not positive,")
    extents = [dims[a] for a in places]
    extent = n.emit(call("relax.shape_to_tensor", shape_expr(extents)))
    begin, end = (_brought_inside(n, x, extent) for x in bounds)
    end = n.emit(call("relax.maximum", begin, end))
    cuts = n.lengths(begin, "starts"), n.lengths(end, "ends")
    by_one = None if all(s == 1 for s in strides) else strides
    return make_call(StridedSlice, data, places, *cuts, by_one, assume_inbound=True)


def _bounds(n: OnnxNode, x: Expr | None, name: str) -> Expr:
    """Bounds as an int64 tensor of one dimension."""
    if x is None:
        n.refuse(f"{name} are missing")
    given = n.known(x)
    if given is not None and given.dtype == object:
        return n.emit(call("relax.shape_to_tensor", shape_expr(list(np.reshape(given, -1)))))
    return n.emit(call("relax.astype", x, dtype="int64"))


def _brought_inside(n: OnnxNode, bound: Expr, extent: Expr) -> Expr:
    """Bounds that count from the end if negative, clamped to 0 … extent."""
    zero = const(np.zeros(1, np.int64))
    behind = n.emit(call("relax.less", bound, zero))
    moved = n.emit(call("relax.where", behind, call("relax.add", bound, extent), bound))
    return n.emit(call("relax.minimum", call("relax.maximum", moved, zero), extent))


@operator("relax.dynamic_strided_slice")
class DynamicStridedSlice(Measured, OpDecl):
    """As strided_slice over all dimensions, where begin, end and strides are integer tensors.

    The shape of the result is known at run time only: one loop finds it, another copies.
    """

    follows = True

    x: Tensor
    begin: Tensor
    end: Tensor
    strides: Tensor

    def infer(self, x: Any, begin: Any, end: Any, strides: Any) -> Any:
        """As many dimensions as x, of unknown size."""
        for name, info in (("begin", begin), ("end", end), ("strides", strides)):
            want_rank(self, name, info, 1)
            want_kinds(self, INTEGERS, **{name: info})
            if info.dims is not None and x.ndim != -1 and differ(info.dims[0], x.ndim):
                refuse(self, f"{name} is {tell(info)}, not one number a dimension of {tell(x)}")
        return tensor(None, x.dtype, x.ndim)

    def numpy(self, x: Any, begin: Any, end: Any, strides: Any) -> Any:
        """NumPy's basic slicing, copied"""
        bounds = list(zip(begin.tolist(), end.tolist(), strides.tolist(), x.shape, strict=True))
        if any(stride == 0 for _, _, stride, _ in bounds):
            raise ExecutionError(f"{STILL}: {strides.tolist()}")
        return np.array(x[tuple(_python_slice(cut(*b)) for b in bounds)])

    def measure(self, x: Any, begin: Any, end: Any, strides: Any) -> Any:
        """Of each dimension: where it begins, the step, and how many are taken."""
        if not x.shape:
            raise UnsupportedOpError("a tensor without dimensions has no bounds")

        def loops(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
            cuts = [
                _cut_by_data([load(b, i) for b in ins], [(b, i) for b in outs], extent)
                for i, extent in enumerate(x.shape)
            ]
            return seq(*cuts)

        shapes, kinds = [(len(x.shape),)] * 3, ["int64"] * 3
        return te.extern(shapes, [begin, end, strides], loops, "cuts", kinds)

    def fill(self, sizes: Any, found: Any, x: Any, *bounds: Any) -> Any:
        """One copy: out[i] = x[begin + i * step]."""
        first, step = found

        def source(*index: Any) -> Any:
            return x(*(first(d) + i * step(d) for d, i in enumerate(index)))

        return te.compute(tuple(sizes), source, name="dynamic_strided_slice")


def _cut_by_data(given: Sequence[Any], places: Sequence[tuple[Buffer, int]], extent: Any) -> Stmt:
    """Python's `begin:end:stride`, of numbers that a run knows, brought inside and stored: where it
    begins, the step, no longer than the dimension, and how many elements there are.
    """
    extent = cast("int64", extent)
    zero, one = (const_of(v, "int64") for v in (0, 1))
    begin, end, stride = map(_near, given)
    longest = maximum(extent, one)
    step = maximum(minimum(stride, longest), neg(longest))

    def inside(bound: Any, step: Any) -> Any:
        """Between the first and what lies behind the last, as the step goes."""
        moved = select(less(bound, zero), bound + extent, bound)
        low, high = (select(less(zero, step), a, a - one) for a in (zero, extent))
        return maximum(low, minimum(high, moved))

    def counted(first: Any, last: Any, step: Any) -> Stmt:
        span = select(less(zero, step), last - first, first - last)
        size = maximum(maximum(step, neg(step)), one)
        many = select(less(zero, span), floordiv(span - one, size) + one, zero)
        values = zip(places, (first, step, many), strict=True)
        stored = seq(*(store(buffer, [i], value) for (buffer, i), value in values))
        return AssertStmt(not_equal(step, zero), STILL, stored)

    def cut_with(begin: Any, end: Any, step: Any) -> Stmt:
        ends = {"first": inside(begin, step), "last": inside(end, step)}
        return let(lambda first, last: counted(first, last, step), **ends)

    return let(cut_with, begin=begin, end=end, step=step)


def _near(value: Any) -> Any:
    """A bound as int64, near enough to 0 to count with: what lies beyond means no other slice."""
    if value.dtype.is_uint and value.dtype.bits == 64:
        value = minimum(value, const_of(FAR, value.dtype))
    value = cast("int64", value)
    return minimum(maximum(value, const_of(-FAR, "int64")), const_of(FAR, "int64"))

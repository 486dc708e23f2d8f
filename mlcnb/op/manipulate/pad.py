"""More elements around a tensor: nn.pad.

constant  0 0 | a b c | 0 0        edge  a a | a b c | c c
reflect   c b | a b c | b a        wrap  b c | a b c | a b
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.prim_ops import all_of, as_int, const, maximum, neg
from mlcnb.op._dims import ints, refuse, tell, tell_dims, tensor, tidy
from mlcnb.op._spell import (
    Formula,
    axes_of,
    call,
    filled,
    ints_of,
    places_of,
    scalar_of,
    shape_of,
)
from mlcnb.op.nn._window import settle
from mlcnb.op.onnx import ForeignNode, OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator
from mlcnb.tir.index_check import checked

MODES = ("constant", "edge", "reflect", "wrap")
#: TVM's words, which are PyTorch's
_ALSO = {"replicate": "edge", "circular": "wrap"}
#: (before, after) for each dimension
Widths = Sequence[tuple[Any, Any]]


@operator("relax.nn.pad")
class Pad(OpDecl):
    """`x` with pad_width[2 i] elements before and pad_width[2 i + 1] after it, in each dimension i.

    pad_mode: constant (`pad_value`), edge, reflect (the edge itself is not repeated), wrap; TVM's
    replicate is edge, its circular is wrap.
    Negative widths cut off. Semantics: https://onnx.ai/onnx/operators/onnx__Pad.html
    """

    x: Tensor
    pad_width: tuple[int, ...]
    pad_mode: str = "constant"
    pad_value: float = 0.0

    def __post_init__(self) -> None:
        settle(self, pad_mode=_ALSO.get(self.pad_mode, self.pad_mode))

    def infer(self, x: Any) -> Any:
        """x's dimensions, grown."""
        if self.pad_mode not in MODES:
            refuse(self, f"no mode {self.pad_mode!r}", hint=f"one of {', '.join(MODES)}")
        if x.ndim != -1 and len(self.pad_width) != 2 * x.ndim:
            refuse(self, f"pad_width {self.pad_width} is not two numbers a dimension of {tell(x)}")
        if x.dims is None:
            return tensor(None, x.dtype, x.ndim)
        dims = [
            before + d + after for (before, after), d in zip(self.widths(), x.dims, strict=True)
        ]
        self.check(x, dims)
        return tensor(dims, x.dtype)

    def check(self, x: Any, dims: Sequence[Any]) -> None:
        """Refuse negative results, and reflections of what is not there."""
        if any((as_int(d) or 0) < 0 for d in dims):
            refuse(self, f"pad_width {self.pad_width} cuts more off {tell(x)} than there is")
        if self.pad_mode == "constant":
            return
        for old, new, (before, after) in zip(x.dims, dims, self.widths(), strict=True):
            cut, end = ends_of(old, before, after)
            last = as_int(end)
            if last is None or last > cut or as_int(new) == 0:
                continue
            cuts = f" after what pad_width {self.pad_width} cuts off" if as_int(old) else ""
            refuse(self, f"{tell(x)} has no elements for mode {self.pad_mode}{cuts}")

    def widths(self) -> list[tuple[int, int]]:
        """(before, after) for each dimension."""
        return list(zip(self.pad_width[::2], self.pad_width[1::2], strict=True))

    def numpy(self, x: Any) -> Any:
        """numpy.pad, after cutting off where a width is negative"""
        if self.pad_mode == "constant":
            return self.numpy_constant(x)
        keep = tuple(
            slice(*ends_of(d, a, b)) for (a, b), d in zip(self.widths(), x.shape, strict=True)
        )
        widths = [(max(a, 0), max(b, 0)) for a, b in self.widths()]
        mode: Any = self.pad_mode
        return np.pad(x[keep], widths, mode=mode)

    def numpy_constant(self, x: Any) -> Any:
        """What is left of x, if anything, in an array of the value."""
        sides = list(zip(self.widths(), x.shape, strict=True))
        shape = [a + d + b for (a, b), d in sides]
        made = np.full(shape, np.asarray(self.pad_value).astype(x.dtype), x.dtype)
        spans = [(max(a, 0), min(a + d, a + d + b)) for (a, b), d in sides]
        if all(start < stop for start, stop in spans):
            source = tuple(
                slice(i - a, j - a) for (i, j), ((a, _), _) in zip(spans, sides, strict=True)
            )
            made[tuple(slice(*span) for span in spans)] = x[source]
        return made

    def compute(self, x: Any) -> Any:
        """One copy: a test for each padded side, or an index that folds back."""
        shape = [a + d + b for (a, b), d in zip(self.widths(), x.shape, strict=True)]
        if self.pad_mode == "constant":
            return pad_constant(x, self.widths(), const(self.pad_value, x.dtype), "pad")

        def source(*index: Any) -> Any:
            sides = zip(index, x.shape, self.widths(), strict=True)
            places = [self.folded(i, d, a, b) for i, d, (a, b) in sides]
            before, after = self.widths()[-1]
            length = x.shape[-1]
            if as_int(length) is not None or min(before, after) < 0 or not before + after:
                return x(*places)
            inside = all_of(index[-1] >= before, index[-1] < length + before)
            return te.if_then_else(inside, x(*places[:-1], index[-1] - before), x(*places))

        return te.compute(shape, source, name=f"pad_{self.pad_mode}")

    def folded(self, i: Any, extent: Any, before: int, after: int) -> Any:
        """The position inside that element `i` of the padded dimension repeats."""
        if before <= 0 and after <= 0:
            return i - before
        first, end = ends_of(extent, before, after)
        kept, at = end - first, i - before - first
        where = f"nn.pad: the first element for mode {self.pad_mode}"
        cut = checked(const(first, "int64"), te.max(end, 0), where)
        if self.pad_mode == "edge":
            return cut + te.max(te.min(at, kept - 1), 0)
        if self.pad_mode == "wrap":
            return cut + te.floormod(at, kept)
        if as_int(kept) == 1:
            return cut
        period = te.max(kept - 1, 1) * 2
        around = te.floormod(at, period)
        mirrored = te.min(around, period - around)
        return cut + (mirrored if as_int(kept) is not None else te.min(mirrored, kept - 1))


def ends_of(extent: Any, before: int, after: int) -> tuple[int, Any]:
    """Where what is not cut off of a dimension begins, and where it ends."""
    return max(-before, 0), extent - max(-after, 0)


def pad_constant(x: Any, widths: Sequence[tuple[Any, Any]], value: Any, name: str) -> Any:
    """A te tensor with (before, after) more elements of `value` in each dimension."""
    shape = [a + d + b for (a, b), d in zip(widths, x.shape, strict=True)]
    return te.compute(shape, element_of_padded(x, widths, value), name=name)


def element_of_padded(
    x: Any, widths: Sequence[tuple[Any, Any]], value: Any
) -> Callable[..., PrimExpr]:
    """The element of such a tensor at given indices, where the tensor itself is not made."""

    def source(*index: Any) -> Any:
        inside, place = [], []
        for i, d, (before, after) in zip(index, x.shape, widths, strict=True):
            if as_int(before) is None or before > 0:
                inside.append(i >= before)
            if as_int(after) is None or after > 0:
                inside.append(i < d + before)
            place.append(i - before)
        return te.if_then_else(all_of(*inside), x(*place), value) if inside else x(*place)

    return source


@onnx("Pad")
def onnx_pad(
    n: OnnxNode,
    data: Expr,
    pads: Expr | None = None,
    constant_value: Expr | None = None,
    axes: Expr | None = None,
) -> Expr:
    """pads: all beginnings, then all ends; inputs since opset 11, of `axes` only since 18."""
    dims, mode = n.dims(data), n.attr("mode", "constant")
    if mode not in MODES:
        n.refuse(f"no mode {mode!r}", hint=f"one of {', '.join(MODES)}")
    amounts = _amounts(n, pads)
    given = axes_of(n, axes)
    places = places_of(n, range(len(dims)) if given is None else given, dims)
    if amounts is None or len(amounts) != 2 * len(places):
        n.refuse(f"pads {amounts} are not two numbers for each axis of {tell_dims(dims)}")
    width: list[Any] = [0] * (2 * len(dims))
    for at, axis in enumerate(places):
        width[2 * axis] = amounts[at]
        width[2 * axis + 1] = amounts[at + len(places)]
    value = float(scalar_of(n, constant_value, "value", 0.0))
    widths = list(zip(width[::2], width[1::2], strict=True))
    if mode == "constant":
        return filled_around(n, data, widths, value)
    return folded_around(n, data, widths, mode)


def _amounts(n: OnnxNode, pads: Expr | None) -> Sequence[Any] | None:
    """How many elements are added; the number may be computed from open sizes."""
    given = None if pads is None else n.known(pads)
    if given is not None and given.dtype == object:
        return shape_of(n, pads, "pads")
    return ints_of(n, pads, "paddings" if n.opset < 2 else "pads")


def filled_around(n: ForeignNode, x: Expr, widths: Widths, value: float) -> Expr:
    """nn.pad with (before, after) in each dimension. Of open ones parts full of the value lie
    beside x, and what negative ones cut off is cut off that.
    """
    known = ints([amount for pair in widths for amount in pair])
    if known is not None:
        return make_call(Pad, x, pad_width=known, pad_value=value) if any(known) else x
    for axis, pair in enumerate(widths):
        dims, kind = list(n.dims(x)), n.dtype(x)
        parts = [x]
        for place, amount in zip((0, 2), pair, strict=True):
            if as_int(size := tidy(maximum(amount, 0))) != 0:
                shape = [*dims[:axis], size, *dims[axis + 1 :]]
                parts.insert(place, filled(n, value, shape, kind))
        if len(parts) > 1:
            x = n.emit(call("relax.concat", parts, axis=axis))
        before, after = (tidy(maximum(neg(amount), 0)) for amount in pair)
        if as_int(before) != 0 or as_int(after) != 0:
            end = tidy(before + dims[axis] + pair[0] + pair[1])
            x = n.emit(call("relax.strided_slice", x, (axis,), (before,), (end,), (1,)))
    return x


def folded_around(n: ForeignNode, x: Expr, widths: Widths, mode: str) -> Expr:
    """nn.pad in another mode than constant; by open numbers x is read at places that fold back."""
    known = ints([amount for pair in widths for amount in pair])
    if known is not None:
        return make_call(Pad, x, pad_width=known, pad_mode=mode) if any(known) else x
    f = Formula(n, "int64")
    for axis, (before, after) in enumerate(widths):
        if (as_int(before), as_int(after)) == (0, 0):
            continue
        extent = n.dims(x)[axis]
        end = tidy(extent + before + after)
        at = f.subtract(f.counted(end), f.size_of(before))
        last = tidy(maximum(extent - 1, 0))
        if mode == "edge":
            at = f.minimum(f.maximum(at, 0), f.size_of(last))
        elif mode == "wrap":
            at = f.floor_mod(at, f.size_of(tidy(maximum(extent, 1))))
        else:
            period = f.size_of(tidy(maximum(last * 2, 1)))
            around = f.floor_mod(at, period)
            at = f.minimum(f.minimum(around, f.subtract(period, around)), f.size_of(last))
        x = f.take(x, at, axis=axis)
    return x

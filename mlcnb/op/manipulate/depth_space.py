"""Channels to space and back: nn.pixel_shuffle; ONNX DepthToSpace, SpaceToDepth, CenterCropPad.

pixel_shuffle    out[n, c, y, x] = data[n, (c * r + y % r) * r + x % r, y // r, x // r]
"""

from __future__ import annotations

from typing import Any

from mlcnb import te
from mlcnb.ir.prim_ops import as_int, equal, maximum, minimum
from mlcnb.op._dims import refuse, tell, tell_dims, tensor, tidy, want_rank
from mlcnb.op._spell import call, ints_of, places_of, want_sizes
from mlcnb.op.manipulate.pad import filled_around
from mlcnb.op.manipulate.permute import PermuteDims
from mlcnb.op.manipulate.reshape import Reshape
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator


@operator("relax.nn.pixel_shuffle")
class PixelShuffle(OpDecl):
    """(N, C r r, H, W) as (N, C, H r, W r): each r x r block of the result was r r channels.

    Semantics: https://pytorch.org/docs/stable/generated/torch.nn.PixelShuffle.html
    """

    data: Tensor
    upscale_factor: int

    def infer(self, data: Any) -> Any:
        """Fewer channels, more rows and columns."""
        r = self.upscale_factor
        want_rank(self, "data", data, 4)
        if data.dims is None:
            return tensor(None, data.dtype, 4)
        n, c, h, w = data.dims
        known = as_int(c)
        if r < 1 or (known is not None and known % (r * r)):
            refuse(self, f"the channels of {tell(data)} are not in groups of {r} x {r}")
        return tensor([n, c // (r * r), h * r, w * r], data.dtype)

    def numpy(self, data: Any) -> Any:
        """reshape, transpose, reshape"""
        r, (n, c, h, w) = self.upscale_factor, data.shape
        apart = data.reshape(n, c // (r * r), r, r, h, w)
        return apart.transpose(0, 1, 4, 2, 5, 3).reshape(n, c // (r * r), h * r, w * r)

    def compute(self, data: Any) -> Any:
        """One copy."""
        r, (batch, channels, height, width) = self.upscale_factor, data.shape

        def source(n: Any, c: Any, y: Any, x: Any) -> Any:
            return data(n, (c * r + y % r) * r + x % r, y // r, x // r)

        shape = (batch, tidy(channels // (r * r)), height * r, width * r)
        return te.compute(shape, source, name="pixel_shuffle")


def _regroup(
    n: OnnxNode, x: Expr, apart: list[Any], order: tuple[int, ...], shape: list[Any]
) -> Expr:
    """Dimensions cut apart, reordered, put together."""
    cut = n.emit(make_call(Reshape, x, apart))
    return make_call(Reshape, n.emit(make_call(PermuteDims, cut, axes=order)), shape)


@onnx("DepthToSpace")
def onnx_depth_to_space(n: OnnxNode, x: Expr) -> Expr:
    """Channels become blocks of rows and columns; DCR: the block is the outer part of a channel."""
    b, mode = n.require("blocksize"), n.attr("mode", "DCR")
    batch, c, h, w = n.dims(x)
    why = f"mode {mode!r} with blocks of {b} x {b} of {tell_dims(n.dims(x))}"
    if mode not in ("DCR", "CRD") or b < 1:
        n.refuse(why)
    deep = tidy(c // (b * b))
    want_sizes(n, equal(deep * (b * b), c), why)
    apart = [batch, b, b, deep, h, w] if mode == "DCR" else [batch, deep, b, b, h, w]
    order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    return _regroup(n, x, apart, order, [batch, deep, tidy(h * b), tidy(w * b)])


@onnx("SpaceToDepth")
def onnx_space_to_depth(n: OnnxNode, x: Expr) -> Expr:
    """Blocks of rows and columns become channels."""
    b, mode = n.require("blocksize"), n.attr("mode", "DCR")
    batch, c, h, w = n.dims(x)
    if mode not in ("DCR", "CRD") or b < 1 or (as_int(h) or 0) % b or (as_int(w) or 0) % b:
        n.refuse(f"mode {mode!r} with blocks of {b} x {b} of {tell_dims(n.dims(x))}")
    rows, columns = tidy(h // b), tidy(w // b)
    apart = [batch, c, rows, b, columns, b]
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return _regroup(n, x, apart, order, [batch, tidy(c * (b * b)), rows, columns])


@onnx("CenterCropPad")
def onnx_center_crop_pad(n: OnnxNode, x: Expr, shape: Expr) -> Expr:
    """Cut to `shape`, or filled with zeros, around the middle."""
    dims, target = n.dims(x), ints_of(n, shape, "shape") or ()
    axes = places_of(n, n.attr("axes") or range(len(dims)), dims)
    width: list[tuple[Any, Any]] = [(0, 0)] * len(dims)
    begin: list[Any] = [0] * len(dims)
    end: list[Any] = list(dims)
    if len(target) != len(axes):
        n.refuse(f"shape {target} has no number for each of the axes {axes}")
    if min(target, default=0) < 0:
        n.refuse(f"shape {target} has a number below 0")
    for place, want in zip(axes, target, strict=True):
        have = dims[place]
        missing = tidy(maximum(want - have, 0))
        begin[place] = tidy(maximum(have - want, 0) // 2)
        end[place] = tidy(begin[place] + minimum(have, want))
        width[place] = (tidy(missing // 2), tidy(missing - missing // 2))
    axes = tuple(range(len(dims)))
    cut = n.emit(call("relax.strided_slice", x, axes, begin, end, assume_inbound=True))
    return filled_around(n, cut, width, 0.0)

"""ONNX DeformConv: a convolution whose every tap lies where its offset says.

tap k of place p reads x at  p * stride - pad + k * dilation + offset[k, p]   (bilinear, 0 outside)
y = bias + sum over channels and taps of  weight * mask[k, p] * what is read
"""

from __future__ import annotations

import numpy as np

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import tell_dims
from mlcnb.op._spell import Formula
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Constant, Expr, const


@onnx("DeformConv", since=19)
def onnx_deform_conv(
    n: OnnxNode,
    x: Expr,
    w: Expr,
    offset: Expr,
    bias: Expr | None = None,
    mask: Expr | None = None,
) -> Expr:
    """As samples of x (`image.grid_sample`), and a product over channels and taps.

    Semantics: https://onnx.ai/onnx/operators/onnx__DeformConv.html
    """
    f, kind = Formula(n), n.dtype(x)
    batch, *rest = n.dims(x)
    known = [as_int(d) for d in (*rest, *n.dims(w), *n.dims(offset)[1:])]
    if len(known) != 10 or None in known:
        n.refuse(f"x is {tell_dims(n.dims(x))}: two dimensions of known length are there")
    channels, height, width, outer, inner, kh, kw, told, rows, columns = map(int, known)  # type: ignore[arg-type]
    taps, groups, parts = kh * kw, n.attr("group", 1), n.attr("offset_group", 1)
    fits = told == parts * taps * 2 and channels % parts == 0
    if not fits or inner * groups != channels or outer % groups:
        n.refuse(
            f"{channels} channels, {parts} groups of {told} offsets and a kernel "
            f"{tell_dims(n.dims(w))} do not fit"
        )
    places = f.add(
        f.reshape(offset, [-1, taps, 2, rows, columns]), _places(n, kind, (rows, columns), (kh, kw))
    )
    image = f.reshape(x, [-1, channels // parts, height, width])
    if min(height, width) < 2:  # the distance between the first and the last element is the unit
        image = f.nn("pad", image, pad_width=[0, 0, 0, 0, 0, 1, 0, 1])
        height, width = height + 1, width + 1
    unit = const((np.array([height, width]) - 1).astype(kind).reshape(2, 1, 1) / 2)
    grid = f.subtract(f.divide(places, unit), const(np.array(1, kind)))
    grid = f.permute_dims(f.flip(grid, axis=2), axes=(0, 2, 1, 3, 4))
    lines = f.reshape(grid, [-1, 2, taps * rows, columns])
    read = getattr(f, "image.grid_sample")(image, lines, align_corners=True)
    if mask is not None:
        shape = [-1, channels // parts, taps, rows, columns]
        held = f.reshape(mask, [-1, 1, taps, rows, columns])
        read = f.multiply(f.reshape(read, shape), held)
    columns_of = f.reshape(read, [batch, groups, inner * taps, rows * columns])
    weight = f.reshape(w, [groups, outer // groups, inner * taps])
    made = f.reshape(f.matmul(weight, columns_of), [batch, outer, rows, columns])
    return made if bias is None else f.add(made, f.reshape(bias, [outer, 1, 1]))


def _places(n: OnnxNode, kind: str, out: tuple[int, int], kernel: tuple[int, int]) -> Constant:
    """Where each tap lies without an offset: (taps, 2, rows, columns), row before column."""
    pads, strides = n.attr("pads", (0,) * 4), n.attr("strides", (1, 1))
    dilations = n.attr("dilations", (1, 1))
    axes = [
        np.arange(count) * stride - pad
        for count, stride, pad in zip(out, strides, pads[:2], strict=True)
    ]
    steps = [np.arange(k) * d for k, d in zip(kernel, dilations, strict=True)]
    at = np.stack(np.meshgrid(*axes, indexing="ij"))
    tap = np.stack(np.meshgrid(*steps, indexing="ij")).reshape(2, -1).T
    return const((tap[:, :, None, None] + at).astype(kind))

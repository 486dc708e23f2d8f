"""Columns put back into the image that they were taken from: ONNX's Col2Im, PyTorch's fold.

x (N, C * block, places): place k of the block of window p goes to  p * stride + k * dilation - pad
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import product, tell_dims, tidy, unlike
from mlcnb.op._spell import affordable, call, ints_of, shape_of
from mlcnb.op.manipulate.pad import filled_around
from mlcnb.op.onnx import ForeignNode, OnnxNode, onnx
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr


class Windows(NamedTuple):
    """How windows lie in an image: a number for each of its dimensions; its sizes may be open."""

    image: Sequence[Any]
    block: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    #: (before, after)
    pads: Sequence[tuple[int, int]]

    @property
    def rank(self) -> int:
        """The number of the image's dimensions."""
        return len(self.image)

    @property
    def places(self) -> list[Any]:
        """How many windows there are, along each dimension."""
        reach = [(b - 1) * d + 1 for b, d in zip(self.block, self.dilations, strict=True)]
        whole = [size + sum(pad) for size, pad in zip(self.image, self.pads, strict=True)]
        each = zip(whole, reach, self.strides, strict=True)
        return [tidy((size - far) // stride + 1) for size, far, stride in each]


def put_back(n: OnnxNode | TorchNode, x: Expr, windows: Windows) -> Expr:
    """The image (N, C, …) in which each element of x lies where its block had it, summed."""
    dims, size = n.dims(x), math.prod(windows.block)
    lengths = {len(part) for part in windows}
    columns = as_int(dims[1])
    if len(dims) != 3 or columns is None or windows.rank not in (1, 2, 3) or len(lengths) != 1:
        n.refuse(
            f"columns of {tell_dims(dims)} over {windows.rank} dimensions",
            "1 to 3 dimensions are there, of a known number of columns",
        )
    if min(*windows.block, *windows.strides, *windows.dilations) < 1 or columns % size:
        n.refuse(f"{columns} columns in {windows}")
    places = windows.places
    wanted = tidy(product(places))
    if any(as_int(p) is not None and p < 1 for p in places) or unlike(dims[-1], wanted):
        n.refuse(f"{tell_dims(dims)} of {windows}, which have {places} places")
    affordable(n, "the blocks", size, columns // size)
    head = [dims[0], columns // size]
    if list(windows.block) == list(windows.strides) and max(windows.dilations) == 1:
        return _side_by_side(n, x, head, windows)
    x = n.emit(call("relax.reshape", x, [*head, *windows.block, *places]))
    for axis in range(windows.rank):
        x = _along(n, x, windows, axis)
    return x


def _along(n: OnnxNode | TorchNode, x: Expr, windows: Windows, axis: int) -> Expr:
    """(N, C, this block, blocks, images, these places, places) -> (N, C, blocks, images, places):
    the sum over the block, where stride - 1 zeros follow each element."""
    step, before, image = windows.dilations[axis], windows.pads[axis][0], windows.image[axis]
    block, *rest = n.dims(x)[2:]
    at = 1 + windows.rank  # of the places, once the block's axis is gone
    count = windows.places[axis]
    stride = 1 if as_int(count) == 1 else windows.strides[axis]
    total: Expr | None = None
    for k in range(windows.block[axis]):
        first = k * step - before
        behind = [as_int(tidy(v)) for v in (image - first, first + count * stride)]
        if any(v is not None and v <= 0 for v in behind):
            continue  # all of it lies in the padding
        part = x
        if block != 1:
            part = n.emit(call("relax.strided_slice", x, [2], [k], [k + 1], assume_inbound=True))
        shape = [*n.dims(x)[:2], *rest]
        if stride > 1:
            apart = [*shape[: at + 1], 1, *shape[at + 1 :]]
            part = n.emit(call("relax.reshape", part, apart))
            part = n.emit(_around(n, part, at + 1, 0, stride - 1))
        shape[at] = tidy(count * stride)
        part = n.emit(call("relax.reshape", part, shape))
        part = n.emit(_around(n, part, at, first, tidy(image - first - count * stride)))
        total = part if total is None else n.emit(call("relax.add", total, part))
    if total is None:
        shape = [*n.dims(x)[:2], *rest]
        shape[at] = image
        total = n.emit(call("relax.zeros", shape, dtype=n.dtype(x)))
    return total


def _around(n: ForeignNode, x: Expr, axis: int, before: Any, after: Any) -> Expr:
    """x with zeros before and after along one axis; negative numbers cut off."""
    widths: list[tuple[Any, Any]] = [(0, 0)] * len(n.dims(x))
    widths[axis] = before, after
    return filled_around(n, x, widths, 0.0)


def _side_by_side(n: OnnxNode | TorchNode, x: Expr, head: list[Any], windows: Windows) -> Expr:
    """Windows that do not overlap: their elements in another order."""
    places, block, rank = windows.places, windows.block, windows.rank
    x = n.emit(call("relax.reshape", x, [*head, *block, *places]))
    order = itertools.chain(*((2 + rank + i, 2 + i) for i in range(rank)))
    x = n.emit(call("relax.permute_dims", x, axes=(0, 1, *order)))
    wide = [tidy(p * b) for p, b in zip(places, block, strict=True)]
    x = n.emit(call("relax.reshape", x, [*head, *wide]))
    around: list[tuple[Any, Any]] = [(0, 0)] * 2
    for (before, _), image, size in zip(windows.pads, windows.image, wide, strict=True):
        around.append((-before, tidy(image + before - size)))
    return n.emit(filled_around(n, x, around, 0.0))


@onnx("Col2Im", since=18)
def onnx_col2im(n: OnnxNode, x: Expr, image_shape: Expr, block_shape: Expr) -> Expr:
    """Each column put back where its block lay in the image, summed where blocks overlap."""
    image = shape_of(n, image_shape, "image_shape")
    block = ints_of(n, block_shape, "block_shape") or ()
    ones = (1,) * len(image)
    pads = n.attr("pads") or (0,) * (2 * len(image))
    half = len(pads) // 2
    return put_back(
        n,
        x,
        Windows(
            image,
            block,
            n.attr("strides") or ones,
            n.attr("dilations") or ones,
            list(zip(pads[:half], pads[half:], strict=False)),
        ),
    )


@torch_spelling("aten.col2im")
def torch_col2im(
    n: TorchNode,
    x: Expr,
    output_size: Any,
    kernel_size: Any,
    dilation: Any,
    padding: Any,
    stride: Any,
) -> Expr:
    """torch.nn.functional.fold, of a batch."""
    block, dilations, pads, strides = (
        [int(v) for v in values] for values in (kernel_size, dilation, padding, stride)
    )
    return put_back(n, x, Windows(output_size, block, strides, dilations, [(p, p) for p in pads]))

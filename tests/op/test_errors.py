"""What declarations say of arguments that do not fit: whole messages."""

from __future__ import annotations

from typing import Any

import pytest

from mlcnb.core.errors import TypeInferError
from mlcnb.op.image import grid_sample, resize
from mlcnb.op.indexing import slice as slices
from mlcnb.op.indexing import take
from mlcnb.op.linear_algebra import einsum, matmul
from mlcnb.op.manipulate import (
    broadcast,
    gather,
    join,
    layout,
    pad,
    permute,
    repeat,
    reshape,
    scatter,
)
from mlcnb.op.nn import activation, attention, batch_norm, conv, layer_norm, loss, pool, softmax
from mlcnb.relax.expr import shape_expr, tensor_info


def t(*dims: Any, kind: str = "float32") -> Any:
    return tensor_info(dims, kind)


def s(*dims: Any) -> Any:
    return shape_expr(dims).struct_info


INDEX = t(2, 3, kind="int64")

ERRORS = [
    (reshape.Reshape(), [t(2, 3), s(4, 2)],
     "reshape: Tensor((2, 3), float32) does not fit into (4, 2)"),
    (reshape.Reshape(), [t(2, 3), s(4, -1)],
     "reshape: Tensor((2, 3), float32) does not fit into (4, -1)"),
    (reshape.ExpandDims((0, 0)), [t(2)], "expand_dims: axes (0, 0) name a dimension twice"),
    (reshape.Squeeze(1), [t(1, 2)],
     "squeeze: dimension 1 of Tensor((1, 2), float32) is not 1"),
    (permute.PermuteDims((0,)), [t(1, 2)],
     "permute_dims: axes (0,) are not one for each dimension of Tensor((1, 2), float32)"),
    (broadcast.BroadcastTo(), [t(2), s(3)],
     "broadcast_to: Tensor((2,), float32) does not broadcast to (3,)"),
    (broadcast.CollapseSumTo(), [t(2, 3), s(2)],
     "collapse_sum_to: Tensor((2, 3), float32) does not collapse to (2,)"),
    (join.Concat(0), [(t(2), t(2, kind="int8"))],
     "concat: tensors[1] is Tensor((2,), int8), which differs in rank or dtype from "
     "Tensor((2,), float32)"),
    (join.Concat(0), [(t(2, 3), t(2, 4))],
     "concat: Tensor((2, 3), float32) and Tensor((2, 4), float32) differ in dimension 1, "
     "not only in 0"),
    (join.Concat(0), [()], "concat: there are no tensors to put together"),
    (join.Split((3, 1)), [t(4)],
     "split: indices (3, 1) do not rise from 0 to the size of Tensor((4,), float32)"),
    (pad.Pad((1, 1), "mirror"), [t(2)],
     "nn.pad: no mode 'mirror'\nhint: one of constant, edge, reflect, wrap"),
    (pad.Pad((-5, 6), "edge"), [t(3)],
     "nn.pad: Tensor((3,), float32) has no elements for mode edge after what pad_width (-5, 6) "
     "cuts off"),
    (pad.Pad((1, 1), "reflect"), [t(0)],
     "nn.pad: Tensor((0,), float32) has no elements for mode reflect"),
    (pad.Pad((1,)), [t(2)],
     "nn.pad: pad_width (1,) is not two numbers a dimension of Tensor((2,), float32)"),
    (pad.Pad((-2, -1)), [t(2)],
     "nn.pad: pad_width (-2, -1) cuts more off Tensor((2,), float32) than there is"),
    (layout.LayoutTransform("NCHW", "NCW"), [t(1, 2, 3, 4), None],
     "layout_transform: NCHW and NCW do not name the same dimensions"),
    (layout.LayoutTransform("NCHW4d", "NCHW"), [t(1, 2, 3, 4), None],
     "'NCHW4d' is no layout\nhint: write \"NCHW\", or \"NCHW16c\""),
    (repeat.Tile(-1), [t(2)], "tile: repeats -1 must not be negative"),
    (slices.StridedSlice(), [t(4), s(0), s(0), s(4), s(0)],
     "strided_slice: strides must be constants other than 0, but are [0]"),
    (take.Take(2), [t(2, 3), INDEX],
     "take: axis 2 is outside of the 2 dimensions of Tensor((2, 3), float32)"),
    (take.Take(0), [t(2), t(3)],
     "take: indices must be integers, but are Tensor((3,), float32)"),
    (gather.GatherElements(), [t(4, 2), INDEX],
     "gather_elements: dimension 1 of Tensor((2, 3), int64) is larger than in "
     "Tensor((4, 2), float32)"),
    (scatter.ScatterElements(0, "sub"), [t(4, 3), INDEX, t(2, 3)],
     "scatter_elements: no reduction 'sub'\nhint: one of update, add, mul, min, max"),
    (scatter.ScatterNd(), [t(4, 4, 4), INDEX, t(3)],
     "scatter_nd: updates are Tensor((3,), float32), which does not fit Tensor((2, 3), int64) of "
     "Tensor((4, 4, 4), float32)"),
    (matmul.Matmul(), [t(2, 3), t(4, 5)],
     "matmul: Tensor((2, 3), float32) has 3 columns, but Tensor((4, 5), float32) has 4 rows"),
    (matmul.Matmul(), [t(2, 3), t(3, 5, kind="float16")],
     "matmul: the tensors must have one dtype, but x1 is Tensor((2, 3), float32) and x2 is "
     "Tensor((3, 5), float16)\nhint: use astype on one"),
    (matmul.Matmul(), [t(2, 2, 3), t(3, 3, 5)],
     "matmul: the leading dimensions of Tensor((2, 2, 3), float32) and Tensor((3, 3, 5), float32) "
     "do not broadcast"),
    (einsum.Einsum("ij,jk"), [(t(2, 3),)], "einsum: 'ij,jk' names 2 operands, not 1"),
    (einsum.Einsum("ij,jk"), [(t(2, 3), t(4, 5))], "einsum: 'j' in 'ij,jk' has several sizes"),
    (conv.Conv2d(), [t(1, 3, 8, 8), t(4, 2, 3, 3)],
     "nn.conv2d: the channels of Tensor((1, 3, 8, 8), float32) in NCHW and of "
     "Tensor((4, 2, 3, 3), float32) in OIHW do not fit 1 groups"),
    (conv.Conv2d(), [t(1, 3, 2, 2), t(4, 3, 3, 3)],
     "nn.conv2d: the window of Tensor((4, 3, 3, 3), float32) is larger than "
     "Tensor((1, 3, 2, 2), float32) with its padding"),
    (conv.Conv2d(0), [t(1, 3, 8, 8), t(4, 3, 3, 3)],
     "nn.conv2d: strides (0, 0), dilation (1, 1), padding (0, 0, 0, 0), groups 1 do not fit "
     "2 spatial dimensions"),
    (conv.Conv2d(), [t(1, 3, 8), t(4, 3, 3, 3)],
     "nn.conv2d: data in NCHW must have 4 dimensions, but is Tensor((1, 3, 8), float32)"),
    (pool.AvgPool2d(2), [t(1, 1, 4, 4, kind="int8")],
     "nn.avg_pool2d: the mean of Tensor((1, 1, 4, 4), int8) is no int8\n"
     "hint: use astype on it first"),
    (pool.MaxPool2d(5), [t(1, 1, 2, 2)],
     "nn.max_pool2d: a window of (5, 5) is larger than Tensor((1, 1, 2, 2), float32) "
     "with its padding"),
    (batch_norm.BatchNorm(), [t(1, 3, 2, 2), t(4), t(3), t(3), t(3)],
     "nn.batch_norm: gamma is Tensor((4,), float32), not one number for each channel (axis 1) of "
     "Tensor((1, 3, 2, 2), float32)"),
    (layer_norm.LayerNorm(), [t(2, 3), t(2), t(3)],
     "nn.layer_norm: gamma is Tensor((2,), float32), not of the axes (1,) of "
     "Tensor((2, 3), float32)"),
    (layer_norm.GroupNorm(2), [t(1, 3, 2, 2), t(3), t(3)],
     "nn.group_norm: the channels of Tensor((1, 3, 2, 2), float32) do not go into 2 groups"),
    (softmax.Softmax(), [t(2, kind="int32")],
     "nn.softmax: x must be of floats, but is Tensor((2,), int32)\nhint: use astype on it first"),
    (activation.Prelu(), [t(2, 3), t(2)],
     "nn.prelu: alpha is Tensor((2,), float32), not one number along axis 1 of "
     "Tensor((2, 3), float32)"),
    (attention.Attention(causal_mask="Left"), [t(1, 2, 3, 4)] * 3,
     "nn.attention: no causal_mask 'Left'\nhint: TopLeft or BottomRight"),
    (loss.NllLoss(), [t(3, 5), t(4, kind="int64")],
     "nn.nll_loss: targets are Tensor((4,), int64), which does not fit Tensor((3, 5), float32)"),
    (resize.Resize2d(method="lanczos"), [t(1, 1, 2, 2), s(3, 3)],
     "image.resize2d: no method 'lanczos'\nhint: one of nearest_neighbor, linear, cubic"),
    (resize.Resize2d(), [t(1, 1, 2, 2, kind="uint8"), s(3, 3)],
     "image.resize2d: linear needs floats, but data is Tensor((1, 1, 2, 2), uint8)"),
    (grid_sample.GridSample(), [t(1, 1, 2, 2), t(1, 3, 2, 2)],
     "image.grid_sample: grid is Tensor((1, 3, 2, 2), float32), not (N, 2, …) for "
     "Tensor((1, 1, 2, 2), float32)"),
]  # fmt: skip


@pytest.mark.parametrize("case", ERRORS, ids=lambda c: f"{c[0].sugar}: {c[2][:30]}")
def test_the_message_says_it_all(case):
    op, args, message = case
    with pytest.raises(TypeInferError) as caught:
        op.infer(*args)
    assert str(caught.value) == message

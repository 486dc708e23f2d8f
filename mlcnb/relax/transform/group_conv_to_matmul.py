"""GroupConvToMatmul: a grouped convolution with 1 x 1 windows is a batched product of matrices.

y = R.nn.conv2d(x, w, groups=4)          ->     x1 = R.reshape(x, (1, 4, 34, 784))
x: (1, 136, 28, 28), w: (136, 34, 1, 1)         y1 = R.matmul(w1, x1)        w1: (4, 34, 34)
                                                y = R.reshape(y1, (1, 136, 28, 28))
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.prim_ops import as_int
from mlcnb.op.nn.conv import Conv2d
from mlcnb.relax import op
from mlcnb.relax.transform.written_out import CallPass, Reader


class GroupConvToMatmul(CallPass, says="grouped convolutions became products"):
    """Turn grouped 1 x 1 convolutions (not depthwise ones) into batched products.

    Of layout NCHW, stride 1, no padding, weights of shape (O, I, 1, 1) with I above 1, float32
    results. Others stay, none is refused.
    """


@GroupConvToMatmul.rewrites(Conv2d)
def _pointwise(r: Reader, call: Any, conv: Any) -> Any:
    """A grouped 1 x 1 convolution is a product for each group."""
    x, weight = call.args
    shape = [as_int(d) for d in weight.struct_info.dims or ()]
    if not _is_grouped_pointwise(conv, shape) or x.struct_info.dims is None:
        return None
    outer, inner = shape[0], shape[1]
    assert outer is not None and inner is not None
    n, _, h, w = x.struct_info.dims
    groups = conv.groups
    flat = r.emit(op.reshape(x, [n, groups, inner, h * w]))
    matrix = r.emit(op.reshape(weight, [groups, outer // groups, inner]))
    result = r.emit(op.matmul(matrix, flat))
    return op.reshape(result, [n, outer, h, w])


def _is_grouped_pointwise(conv: Any, shape: list[int | None]) -> bool:
    return (
        conv.is_plain
        and conv.groups > 1
        and len(shape) == 4
        and shape[1] not in (None, 1)
        and shape[2:] == [1, 1]
        and tuple(conv.strides) == (1, 1)
        and not any(conv.padding)
        and conv.out_dtype in (None, "float32")
    )

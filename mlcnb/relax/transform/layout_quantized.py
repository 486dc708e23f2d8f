"""Layouts of quantised convolutions: rules of ConvertLayout for the operators `qnn.…`.

y = R.qnn.conv2d(x, w, x_zero)          x1 = R.layout_transform(x, "NCHW", "NCHW16c")
                                 ->     y = R.qnn.conv2d_packed(x1, w1, x_zero)

Channels lie in the same blocks as those of float convolutions, of any width in bytes, so that both
kinds flow into each other; the constant weights are packed here. Data of few channels is cut into
blocks of four, which is what a dot product instruction takes. Signed data becomes unsigned: 128 is
added to each value, and 128 times the sum of the weights taken off the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb.ir.rules import rule
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Constant, Var, const
from mlcnb.relax.operator import attrs_of, call_arguments
from mlcnb.relax.transform.narrow_products import PAIR
from mlcnb.relax.transform.pack_quantized import (
    DOT,
    pack_depthwise,
    pack_kernel,
    signed_share,
    unsigned_point,
)

#: groups that are worth joining
MOST_TOGETHER = 16

Rule = Callable[[Any, Var, Call], Call | None]


@rule("ConvertLayout", "quantized_conv2d")
def qconv2d(c: Any, var: Var, call: Call) -> Call | None:
    """Dense, in groups or depthwise, without dilation.

    Groups that fill no blocks join: weights of one with channels of another are zeros.
    """
    conv: Any = attrs_of(call)
    data, weight, point = call_arguments(call)
    if not conv.is_plain or not isinstance(weight, Constant) or weight.data.dtype != np.int8:
        return None
    kernel = weight.data
    depthwise = conv.groups == kernel.shape[0] and kernel.shape[1] == 1 and conv.groups > 1
    groups = conv.groups
    together = 1 if depthwise else joined(groups, kernel.shape[0], kernel.shape[1], c.block)
    if conv.dilation != (1, 1) or together > MOST_TOGETHER:
        return None
    if groups > 1 and not depthwise:
        kernel = in_diagonal_blocks(kernel, groups, together)
    share = None
    x = _input(c, data, kernel.shape[1], groups > together)
    if data.struct_info.dtype == "int8":
        x, point = c.emitter.emit(op.qnn.unsigned(x)), unsigned_point(point)
        share = signed_share(kernel)
    c.blocked += 1
    window = {"strides": conv.strides, "padding": conv.padding}
    if depthwise:
        packed = const(pack_depthwise(kernel, c.block))
        made = op.qnn.depthwise_conv2d_packed(x, packed, point, width=kernel.shape[3], **window)
    else:
        inner = x.struct_info.dims[4]
        packed = const(pack_kernel(kernel, c.block, int(inner.value)))
        made = op.qnn.conv2d_packed(x, packed, point, **window)
    if share is None:
        return made
    shaped = c.as_blocks(const(share.reshape(1, -1, 1, 1)))
    return op.add(c.emitter.emit(made), shaped)


@rule("ConvertLayout", "pairs_conv2d")
def pairs(c: Any, call: Call) -> Call:
    """A dense convolution of bfloat16, its weights in pairs of input channels."""
    conv: Any = attrs_of(call)
    data, weight = call_arguments(call)
    x = _input(c, data, weight.data.shape[1], False, PAIR)
    packed = const(pack_kernel(weight.data, c.block, int(x.struct_info.dims[4].value), PAIR))
    c.blocked += 1
    window = {"strides": conv.strides, "padding": conv.padding, "out_dtype": conv.out_dtype}
    return op.nn.conv2d_packed(x, packed, **window)


def joined(groups: int, outer: int, inner: int, block: int) -> int:
    """How many groups have whole blocks of channels together, on both sides; all of them if none
    do."""
    each = outer // groups

    def fills(count: int) -> bool:
        return groups % count == 0 and not (count * each % block or count * inner % block)

    return next((n for n in range(1, groups) if fills(n)), groups)


def in_diagonal_blocks(kernel: np.ndarray, groups: int, together: int) -> np.ndarray:
    """(O, I, …) in groups as (O, together * I, …), zeros for what lies in another one."""
    outer, inner, *window = kernel.shape
    shape = (groups // together, together, outer // groups, together, inner, *window)
    wide = np.zeros(shape, kernel.dtype)
    own = kernel.reshape(groups // together, together, outer // groups, inner, *window)
    for n in range(together):
        wide[:, n, :, n] = own[:, n]
    return wide.reshape(outer, together * inner, *window)


def _input(c: Any, data: Any, channels: int, blocked: bool, dot: int = DOT) -> Any:
    """The data in blocks of the target's lanes, or just wide enough where there are fewer and it
    need not be `blocked`."""
    if blocked or channels >= c.block or c.is_blocked(data):
        return c.as_blocks(data)
    block = -(-channels // dot) * dot
    return c.emitter.emit(c.transform(c.old_to_plain(data), "NCHW", f"NCHW{block}c"))

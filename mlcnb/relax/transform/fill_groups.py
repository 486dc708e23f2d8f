"""FillGroups: groups of channels that no block of a vector's lanes holds are filled up with zeros.

y = R.nn.conv2d(x, w, groups=4)         x1 = x with 4 zero channels behind each 12
                                   ->   y1 = R.nn.conv2d(x1, w1, groups=4)
x: (1, 48, 28, 28)                      y = y1 without the last 4 channels of each 16
w: (48, 12, 3, 3)                       x1: (1, 64, 28, 28), w1: (64, 16, 3, 3)

Products with zeros are added that were not there, and each of them by a zero of the data: no
infinity comes from one group to another.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir.prim_ops import as_int
from mlcnb.op.nn.conv import Conv2d
from mlcnb.relax import op
from mlcnb.relax.transform.convert_layout import groups_lie_in
from mlcnb.relax.transform.written_out import CallPass, Reader, is_plain_float32
from mlcnb.target import Target


class FillGroups(
    CallPass,
    says="convolutions with groups that are filled up",
    says_one="convolution with groups that are filled up",
):
    """Fill up the groups of 2-D convolutions so that ConvertLayout takes them in blocks.

    Of layouts NCHW and OIHW, float32, with more than one channel a group and weights of known
    shape. Others stay, none is refused.

    block: channels of a block; 0: the lanes of the target's vectors, and nothing for other targets
        than CPUs.
    """

    block: int = 0


class _Rewriter(Reader, of=FillGroups):
    @cached_property
    def block(self) -> int:
        """Channels of a block; 0 where groups stay as they are."""
        target = Target.current() or Target("llvm")
        return int(self.options.block or (target.lanes("float32") if target.is_cpu else 0))

    @FillGroups.rewrites(Conv2d)
    def groups(self, call: Any, conv: Any) -> Any:
        """A grouped convolution with more channels in each group, and groups if need be."""
        if self.block <= 1:
            return None
        x, weight = call.args
        shape = [as_int(d) for d in weight.struct_info.dims or ()]
        if conv.groups == 1 or None in shape or not shape or not is_plain_float32(conv, x):
            return None
        outer, inner, *window = shape
        assert outer is not None and inner is not None
        groups, each = conv.groups, outer // conv.groups
        if inner == 1 or groups_lie_in(self.block, groups, outer, inner):
            return None
        wide = _filled(max(inner, each), self.block)
        more = -groups % max(1, self.block // wide)
        n, _, *image = x.struct_info.dims
        apart = self.emit(op.reshape(x, [n, groups, inner, *image]))
        fill = (0, 0, 0, more, 0, wide - inner)
        apart = self.emit(op.nn.pad(apart, pad_width=(*fill, *[0] * (2 * len(image)))))
        data = self.emit(op.reshape(apart, [n, (groups + more) * wide, *image]))
        w = self.emit(op.reshape(weight, [groups, each, inner, *window]))
        fill = (0, more, 0, wide - each, 0, wide - inner)
        w = self.emit(op.nn.pad(w, pad_width=(*fill, *[0] * (2 * len(window)))))
        w = self.emit(op.reshape(w, [(groups + more) * wide, wide, *window]))
        made = self.emit(
            replace(
                call, args=(data, w), attrs=replace(conv, groups=groups + more), struct_info=None
            )
        )
        info: Any = made.struct_info
        result = info.dims[2:]
        made = self.emit(op.reshape(made, [n, groups + more, wide, *result]))
        made = self.emit(op.strided_slice(made, [1, 2], [0, 0], [groups, each]))
        return op.reshape(made, [n, outer, *result])


def _filled(channels: int, block: int) -> int:
    """The next whole number of blocks, or the next power of two below one."""
    if channels >= block:
        return -(-channels // block) * block
    return 1 << (channels - 1).bit_length()

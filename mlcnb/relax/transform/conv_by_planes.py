"""ConvByPlanes: a 3-D convolution is a 2-D one of planes that hold those around them as channels.

y = R.nn.conv3d(x, w)                   before, at, after = x at depths d - 1, d and d + 1
                                   ->   planes = R.concat((before, at, after), axis=1)
x: (1, 16, 8, 28, 28)                   y1 = R.nn.conv2d(planes, w1)
w: (32, 16, 3, 3, 3)                    planes: (8, 48, 28, 28), w1: (32, 48, 3, 3)

Layouts, algorithms and schedules of 2-D convolutions then serve it. Where each channel has a window
of its own, as many 2-D ones as the window is deep are summed. The largest of a 3-D window is that
of a 2-D one, of the largest of each of its depths.
"""

from __future__ import annotations

import math
from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import tidy
from mlcnb.op.nn.conv import Conv2d, Conv3d
from mlcnb.op.nn.pool import MaxPool2d, MaxPool3d
from mlcnb.relax import op
from mlcnb.relax.operator import make_call
from mlcnb.relax.transform.written_out import CallPass, Reader, is_plain_float32

#: planes that a window's padding, reach or stride may take
FARTHEST = 1 << 12


class ConvByPlanes(CallPass, says="operators by planes", says_one="operator by planes"):
    """Turn 3-D convolutions and max pooling into 2-D ones.

    Of layouts NCDHW and OIDHW, float32, with kernels of known shape and channels of known number;
    the other sizes may be open; a window looks at most 4,096 planes far. Others stay, none is
    refused.
    """


class _Rewriter(Reader, of=ConvByPlanes):
    @ConvByPlanes.rewrites(MaxPool3d)
    def max_pool3d(self, call: Any, pool: Any) -> Any:
        """The largest of the planes that a window looks at, then of its places in them."""
        (x,) = call.args
        dims, kind = x.struct_info.dims, x.struct_info.dtype
        layouts = (pool.layout, pool.out_layout or pool.layout)
        if layouts != ("NCDHW", "NCDHW") or dims is None or kind != "float32" or pool.ceil_mode:
            return None
        if _is_far(pool, pool.pool_size[0]):
            return None
        result: Any = self.var.struct_info
        n, channels, depth, *_ = result.dims
        most = None
        for part in self.planes(x, pool, pool.pool_size[0], depth, -math.inf):
            most = part if most is None else self.emit(op.maximum(most, part))
        flat = self.emit(op.reshape(most, [n, tidy(channels * depth), *dims[3:]]))
        pooled = make_call(
            MaxPool2d,
            flat,
            pool_size=pool.pool_size[1:],
            strides=pool.strides[1:],
            padding=(*pool.padding[1:3], *pool.padding[4:]),
            dilation=pool.dilation[1:],
            layout="NCHW",
        )
        return replace(op.reshape(self.emit(pooled), list(result.dims)), span=call.span)

    @ConvByPlanes.rewrites(Conv3d)
    def conv3d(self, call: Any, conv: Any) -> Any:
        """A 3-D convolution is a 2-D one of as many images as it makes planes."""
        x, weight = call.args
        dims, kernel = x.struct_info.dims, [as_int(d) for d in weight.struct_info.dims or ()]
        if not is_plain_float32(conv, x) or None in kernel or as_int(dims[1]) is None:
            return None
        outer, inner, deep, *window = (int(size or 0) for size in kernel)
        if _is_far(conv, deep):
            return None
        result: Any = self.var.struct_info
        depth = result.dims[2]
        parts = self.planes(x, conv, deep, depth)
        made = {
            "strides": conv.strides[1:],
            "padding": (*conv.padding[1:3], *conv.padding[4:]),
            "dilation": conv.dilation[1:],
            "groups": conv.groups,
        }
        n, channels, _, *image = dims
        images = tidy(n * depth)
        if inner == 1 and conv.groups > 1:
            total: Any = None
            for k, part in enumerate(parts):
                w = self.emit(op.strided_slice(weight, [2], [k], [k + 1]))
                w = self.emit(op.reshape(w, [outer, inner, *window]))
                flat = self.images(part, [images, channels, *image])
                found = self.emit(make_call(Conv2d, flat, w, **made))
                total = found if total is None else self.emit(op.add(total, found))
        else:
            groups = [
                self.emit(op.reshape(p, [n, conv.groups, inner, depth, *image])) for p in parts
            ]
            together = self.emit(op.concat(groups, axis=2)) if deep > 1 else groups[0]
            count = conv.groups * inner * deep
            whole = self.emit(op.reshape(together, [n, count, depth, *image]))
            w = self.emit(op.permute_dims(weight, axes=[0, 2, 1, 3, 4]))
            w = self.emit(op.reshape(w, [outer, deep * inner, *window]))
            total = self.emit(
                make_call(Conv2d, self.images(whole, [images, count, *image]), w, **made)
            )
        _, _, height, width = total.struct_info.dims
        apart = self.emit(op.reshape(total, [n, depth, outer, height, width]))
        return replace(op.permute_dims(apart, axes=[0, 2, 1, 3, 4]), span=call.span)

    def planes(self, x: Any, conv: Any, deep: int, depth: Any, around: float = 0.0) -> list[Any]:
        """For each depth of the window, the planes that it looks at, one for each result."""
        before, after = conv.padding[0], conv.padding[3]
        if before or after:
            width = (0, 0, 0, 0, before, after, 0, 0, 0, 0)
            x = self.emit(op.nn.pad(x, pad_width=width, pad_value=around))
        stride, step = conv.strides[0], conv.dilation[0]
        if deep == stride == 1:
            return [x]
        return [
            self.emit(
                op.strided_slice(
                    x,
                    [2],
                    [k * step],
                    [tidy((depth - 1) * stride + (k * step + 1))],
                    [stride],
                    assume_inbound=True,
                )
            )
            for k in range(deep)
        ]

    def images(self, x: Any, shape: list[Any]) -> Any:
        """(N, C, D, H, W) as (N * D, C, H, W)."""
        turned = self.emit(op.permute_dims(x, axes=[0, 2, 1, 3, 4]))
        return self.emit(op.reshape(turned, shape))


def _is_far(window: Any, deep: int) -> bool:
    """True for a window that looks so far along the depth that its planes would never end; the
    operator itself leaves out what only sees padding.
    """
    looks = (window.padding[0], window.padding[3], deep * window.dilation[0], window.strides[0])
    return max(looks) > FARTHEST

"""ConvTransposeToConv: a transposed convolution is a convolution for each phase of its stride.

y = R.nn.conv2d_transpose(x, w, strides=[2, 2])        x: (1, 128, 64, 64), w: (128, 64, 2, 2)

y1 = R.nn.conv2d(x, w1)                                w1: (256, 128, 1, 1), y1: (1, 256, 64, 64)
y2 = R.reshape(y1, (1, 64, 2, 2, 64, 64))
y3 = R.permute_dims(y2, axes=[0, 1, 4, 2, 5, 3])
y = R.reshape(y3, (1, 64, 128, 128))

Elements of the result that lie a stride apart, a phase, are sums with the same taps of the kernel,
those a stride apart: a convolution of stride 1 with a smaller kernel, turned around. So no zeros
are put between the elements of the input and multiplied, three of four at stride 2, and layouts and
schedules of convolutions serve. Where all phases have as many taps they are channels of one
convolution, whose edge is cut off; else each has one of its own, and no tap is made up: zero times
infinity is no number.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from mlcnb.core.node import replace
from mlcnb.ir.prim_ops import as_int
from mlcnb.op.nn.conv import BY_RANK
from mlcnb.op.nn.conv_transpose import ConvTranspose
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import same_dim
from mlcnb.relax.expr import Call, Constant, Expr
from mlcnb.relax.operator import make_call
from mlcnb.relax.transform.written_out import CallPass, Reader


class ConvTransposeToConv(CallPass, says="transposed convolutions became convolutions"):
    """Turn transposed convolutions into convolutions and a reordering of their results.

    Of layouts NC and IO with the spatial dimensions behind them, kernels of known size that are no
    smaller than the stride, dilation 1; any dtype, any sizes of the data. Others stay, none is
    refused.
    """


class _Dim(NamedTuple):
    """A spatial dimension: the kernel's size, the stride, padding before and behind, and what is
    added to the result.
    """

    kernel: int
    stride: int
    before: int
    behind: int
    more: int

    @property
    def divides(self) -> bool:
        """Whether all phases have as many taps."""
        return self.kernel % self.stride == 0

    def joint(self) -> tuple[int, int]:
        """The padding of a convolution that makes all phases, from the first whole stride on."""
        taps = self.kernel // self.stride
        behind = (self.kernel - 1 - self.behind + self.more) // self.stride
        return taps - 1 - self.before // self.stride, behind

    def phase(self, number: int) -> tuple[slice, tuple[int, int]]:
        """The taps of a phase of the result, turned around, and the padding of its convolution."""
        begin, first = divmod(number + self.before, self.stride)
        taps = len(range(first, self.kernel, self.stride))
        last = first + (taps - 1) * self.stride
        end = first - self.stride
        rounds = -(-(self.kernel + self.more - self.before - self.behind) // self.stride)
        taken = slice(last, end if end >= 0 else None, -self.stride)
        return taken, (taps - 1 - begin, rounds - 1 + begin)


class _Rewriter(Reader, of=ConvTransposeToConv):
    @ConvTransposeToConv.rewrites(ConvTranspose)
    def phases(self, call: Any, conv: Any) -> Any:
        """All phases as channels of one convolution, or a convolution for each of them."""
        dims = _dims_of(conv, call.args[1])
        if dims is None or call.args[0].struct_info.dims is None:
            return None
        joint = all(d.divides for d in dims)
        pads = [[d.joint()] if joint else [d.phase(i)[1] for i in range(d.stride)] for d in dims]
        if min(side for found in pads for pad in found for side in pad) < 0:
            return None
        x, weight = call.args
        rank = len(dims)
        phases = [d.stride for d in dims]

        def convolved(kernel: Expr, padding: list[tuple[int, int]]) -> Call:
            sides = [pad[side] for side in (0, 1) for pad in padding]
            named = {"padding": sides, "groups": conv.groups, "out_dtype": conv.out_dtype}
            return replace(make_call(BY_RANK[2 + rank], x, kernel, **named), span=call.span)

        if joint:
            kernel = self.joint_kernel(weight, dims, conv.groups)
            found = convolved(kernel, [p[0] for p in pads])
            order = [0, 1, *(2 + i for i in range(rank))]
        else:
            parts = []
            for numbers in product(*(range(s) for s in phases)):
                cuts = [d.phase(i)[0] for d, i in zip(dims, numbers, strict=True)]
                kernel = self.kernel_of(weight, cuts, conv.groups)
                padding = [p[i] for p, i in zip(pads, numbers, strict=True)]
                parts.append(self.emit(convolved(kernel, padding)))
            found = op.concat(parts, axis=1)
            order = [0, rank + 1, *(1 + i for i in range(rank))]
        return self.interleaved(found, dims, order, joint)

    def interleaved(self, found: Call, dims: list[_Dim], order: list[int], joint: bool) -> Call:
        """Phases that are channels, side by side in the dimensions that they are of.

        order: where the sample, the channel and each phase stand before the spatial dimensions.
        """
        rank, phases = len(dims), [d.stride for d in dims]
        wanted: Any = self.var.struct_info
        outer, *ends = wanted.dims[1:]
        begins = [d.before % d.stride if joint else 0 for d in dims]
        if any(phase > 1 for phase in phases):
            channels: Any = self.emit(found)
            n, _, *sizes = channels.struct_info.dims
            parts = [0] * (2 + rank)
            for place, size in zip(order, [n, outer, *phases], strict=True):
                parts[place] = size
            apart = self.emit(op.reshape(channels, [*parts, *sizes]))
            spatial = [x for i in range(rank) for x in (2 + rank + i, order[2 + i])]
            turned = self.emit(op.permute_dims(apart, axes=[*order[:2], *spatial]))
            whole = [size * phase for size, phase in zip(sizes, phases, strict=True)]
            found = op.reshape(turned, [n, outer, *whole])
        else:
            whole = ends
        cut = [i for i in range(rank) if begins[i] or not same_dim(whole[i], ends[i])]
        if not cut:
            return found
        return op.strided_slice(
            self.emit(found),
            axes=[2 + i for i in cut],
            begin=[begins[i] for i in cut],
            end=[begins[i] + ends[i] for i in cut],
        )

    def joint_kernel(self, weight: Any, dims: list[_Dim], groups: int) -> Expr:
        """Taps of all phases: output channels and phases first, the rest as of a convolution."""
        inner, outer = _sizes(weight)[:2]
        rank = len(dims)
        taps = [(d.kernel // d.stride, d.stride) for d in dims]
        split = [groups, inner // groups, outer, *(size for pair in taps for size in pair)]
        places = [3 + 2 * i for i in range(rank)]
        flips = [at for at, (size, _) in zip(places, taps, strict=True) if size > 1]
        axes = [0, 2, *(4 + 2 * i for i in range(rank)), 1, *places]
        rows = groups * outer * prod(d.stride for d in dims)
        whole = [rows, inner // groups, *(n for n, _ in taps)]
        return self.moved(weight, split, flips, axes, whole)

    def kernel_of(self, weight: Any, cuts: list[slice], groups: int) -> Expr:
        """The taps of one phase, as of a convolution."""
        inner, outer, *kernel = _sizes(weight)
        rank = len(cuts)
        if isinstance(weight, Constant):
            every: Any = (..., *cuts)
            part: Any = Constant(np.ascontiguousarray(weight.data[every]))
        else:
            part = weight
            for i, cut in enumerate(cuts):
                turned = self.emit(op.flip(part, axis=2 + i))
                last = kernel[i] - 1
                part = self.emit(
                    op.strided_slice(
                        turned,
                        axes=[2 + i],
                        begin=[last - cut.start],
                        end=[kernel[i]],
                        strides=[-cut.step],
                    )
                )
        taps = _sizes(part)[2:]
        split = [groups, inner // groups, outer, *taps]
        axes = [0, 2, 1, *(3 + i for i in range(rank))]
        return self.moved(part, split, [], axes, [groups * outer, inner // groups, *taps])

    def moved(
        self, x: Any, split: list[Any], flips: list[int], axes: list[int], whole: list[Any]
    ) -> Expr:
        """A tensor reshaped, turned around along some axes, permuted and reshaped again."""
        if isinstance(x, Constant):
            turned = np.flip(x.data.reshape(split), tuple(flips)).transpose(axes)
            return Constant(np.ascontiguousarray(turned).reshape(whole))
        x = self.emit(op.reshape(x, split))
        for axis in flips:
            x = self.emit(op.flip(x, axis=axis))
        return self.emit(op.reshape(self.emit(op.permute_dims(x, axes=axes)), whole))


def _sizes(x: Any) -> list[int]:
    """The dimensions of a tensor; all are known, or the list is empty."""
    known = [as_int(d) for d in x.struct_info.dims or ()]
    return [] if None in known else known  # type: ignore[return-value]


def _dims_of(conv: Any, weight: Any) -> list[_Dim] | None:
    """The spatial dimensions of a convolution that can be rewritten; None: it cannot."""
    known = _sizes(weight)
    if not conv.is_plain or not known or 0 in known or any(d != 1 for d in conv.dilation):
        return None
    rank = len(conv.spatial)
    pads = zip(conv.padding[:rank], conv.padding[rank:], strict=True)
    found = [
        _Dim(kernel, stride, *pad, more)
        for kernel, stride, pad, more in zip(
            known[2:], conv.strides, pads, conv.output_padding, strict=True
        )
    ]
    return found if all(d.kernel >= d.stride for d in found) else None

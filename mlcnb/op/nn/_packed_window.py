"""Convolutions on blocked channels, packed for instructions that sum some products at once.

    conv[n, o0, y, x, o1] +=
        data[n, i0, y * s + r, x * s + q, 4 * i1 + i2] * weight[o0, i0, r, q, i1, o1, i2]

data (N, I / a, H, W, a), weight (O / b, I / a, H, W, a / g, b, g): what one instruction takes of
each output channel lies together; g is 4 for bytes, 2 for bfloat16. Of data with more channels the
weight's are those of a group: output channels of the next one read the channels behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.dtype import DType
from mlcnb.ir.prim_ops import as_int, cast
from mlcnb.op._dims import differ, product, refuse, tell, tensor, tidy, want_rank
from mlcnb.op.manipulate.pad import pad_constant
from mlcnb.op.nn._window import each, extent, settle, sides
from mlcnb.op.nn.conv import correlate
from mlcnb.relax.operator import OpDecl

#: what TVM calls the axes of the result
NAMES = ["n", "oc_chunk", "oh", "ow", "oc_block"]


class PackedWindow(OpDecl):
    """Base of the packed forms: windows over channels in blocks."""

    __slots__ = ()
    strides: Any
    padding: Any

    def __post_init__(self) -> None:
        settle(self, strides=each(self.strides, 2), padding=sides(self.padding, 2))

    def steps(self) -> tuple[int, int]:
        """The strides down and across."""
        return self.strides[0], self.strides[1]

    def places(self, size: Sequence[Any], kernel: Sequence[Any]) -> list[Any]:
        """How many positions the window has in rows and columns."""
        found = []
        for i in range(2):
            pad = self.padding[i] + self.padding[2 + i]
            found.append(extent(size[i], pad, kernel[i], self.strides[i], 1))
        if any(p < 1 for p in map(as_int, found) if p is not None):
            refuse(
                self, f"the window {tuple(kernel)} is larger than {tuple(size)} with its padding"
            )
        return found

    def padded(self, data: Any, value: Any, more: int = 0) -> Any:
        """te tensor of data with its padding, and `more` columns to the right."""
        top, left, bottom, right = self.padding
        if not any((*self.padding, more)):
            return data
        widths = [(0, 0), (0, 0), (top, bottom), (left, right + more), (0, 0)]
        return pad_constant(data, widths, value, "pad_temp")

    def padded_array(self, data: Any, value: Any, kind: Any) -> Any:
        """(N, C, H, W) of blocks, padded, in a NumPy dtype."""
        top, left, bottom, right = self.padding
        plain = data.transpose(0, 1, 4, 2, 3).reshape(data.shape[0], -1, *data.shape[2:4])
        widths = [(0, 0), (0, 0), (top, bottom), (left, right)]
        return np.pad(plain.astype(kind), widths, constant_values=value)


class DenseWindow(PackedWindow):
    """Base of dense convolutions: every output channel reads all input channels of its group."""

    __slots__ = ()

    def groups(self, data: Any, inner: Any, outer: Any) -> int:
        """How many groups there are, of blocks of data for weights of `inner` and `outer` blocks;
        0 where they do not fit."""
        if not differ(inner, data):
            return 1
        sizes = [as_int(n) for n in (data, inner, outer)]
        if None in sizes or 0 in sizes:
            return 0
        have, each, made = (n or 0 for n in sizes)
        return have // each if have % each == 0 and made % (have // each) == 0 else 0

    def result(self, data: Any, weight: Any, width: int, kind: Any) -> Any:
        """Samples, blocks of output channels, positions, channels of a block."""
        want_rank(self, "data", data, 5)
        want_rank(self, "weight", weight, 7)
        if data.dims is None or weight.dims is None:
            return tensor(None, kind, 5)
        outer, inner, *kernel, groups, block, dot = weight.dims
        wrong = not self.groups(data.dims[1], inner, outer) or differ(
            tidy(groups * dot), data.dims[4]
        )
        if wrong or as_int(dot) != width:
            refuse(self, f"{tell(data)} does not fit the packed {tell(weight)}")
        return tensor((data.dims[0], outer, *self.places(data.dims[2:4], kernel), block), kind)

    def sums(self, data: Any, weight: Any, value: Any, kind: Any) -> Any:
        """NumPy: as nn.conv2d on plain arrays, in a NumPy dtype."""
        o, i, h, w, groups, block, dot = weight.shape
        plain = weight.transpose(0, 5, 1, 4, 6, 2, 3).reshape(o * block, i * groups * dot, h, w)
        x = self.padded_array(data, value, kind)
        count = self.groups(data.shape[1], i, o)
        found = correlate(x, plain.astype(kind), self.steps(), (0,) * 4, (1, 1), count)
        return blocked(found, block)

    def loops(self, data: Any, weight: Any, value: Any, kind: DType | str, name: str) -> Any:
        """te tensor: `pad_temp` where there is padding, then one reduction."""
        x = self.padded(data, value)
        outer, inner, rows, columns, groups, block, dot = weight.shape
        i0 = te.reduce_axis((0, inner), name="ic_outer")
        kh, kw = te.reduce_axis((0, rows), name="kh"), te.reduce_axis((0, columns), name="kw")
        i1 = te.reduce_axis((0, groups), name="ic_group")
        i2 = te.reduce_axis((0, dot), name="ic_dot")
        shape = (data.shape[0], outer, *self.places(data.shape[2:4], (rows, columns)), block)
        down, across = self.steps()
        count = self.groups(data.shape[1], inner, outer)

        def element(n: Any, o: Any, y: Any, z: Any, c: Any) -> Any:
            own = i0 if count == 1 else o // (outer // count) * inner + i0
            a = x(n, own, y * down + kh, z * across + kw, i1 * dot + i2)
            b = weight(o, i0, kh, kw, i1, c, i2)
            return te.sum(cast(kind, a) * cast(kind, b), axis=[i0, kh, kw, i1, i2])

        return te.compute(shape, element, name, varargs_names=NAMES)

    def work(self, found: Any, weight: Any) -> Any:
        """Two for each multiplication, of a result of those dimensions."""
        if found is None:
            return None
        _, inner, *kernel, groups, _, dot = weight.dims
        return tidy(product(found) * product([inner, *kernel, groups, dot]) * 2)


def blocked(x: np.ndarray, block: int) -> np.ndarray:
    """(N, C, H, W) as (N, C / block, H, W, block)."""
    n, c, h, w = x.shape
    return np.ascontiguousarray(x.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2))

"""Pooling over windows: nn.max_pool and nn.avg_pool, of 1, 2 and 3 spatial dimensions.

pool_max[n, c, y, x] = max over ry, rx of pad_temp[n, c, y * s + ry * d, x * s + rx * d]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import as_int
from mlcnb.op import _layout
from mlcnb.op._accumulate import accumulator
from mlcnb.op._dims import product, refuse, tell, tensor, tidy, want_rank
from mlcnb.op._order import blocks_of_images, by_layout
from mlcnb.op.nn import _pool_loops as loops
from mlcnb.op.nn._window import PerDimension, each, of_each_rank, settle, sides, taps
from mlcnb.relax.operator import OpDecl, Tensor


class Pool(OpDecl):
    """What all window poolings have in common: everything but what is done with a window."""

    __slots__ = ()

    x: Tensor
    pool_size: PerDimension = (1,)
    strides: PerDimension = (1,)
    padding: PerDimension = (0, 0)
    dilation: PerDimension = (1,)
    ceil_mode: bool = False
    count_include_pad: bool = False
    layout: str = "NCW"
    out_layout: str | None = None

    def __post_init__(self) -> None:
        rank = len(self.spatial)
        settle(
            self,
            pool_size=each(self.pool_size, rank),
            strides=each(self.strides, rank),
            padding=sides(self.padding, rank),
            dilation=each(self.dilation, rank),
            ceil_mode=bool(self.ceil_mode),
            out_layout=self.out_layout or self.layout,
        )

    @property
    def spatial(self) -> str:
        """The letters of the spatial dimensions: "HW"."""
        return "".join(c for c in "DHW" if c in self.layout)

    def overhangs(self, x: Any) -> bool:
        """True if not one whole window fits, though there is something to see."""
        sizes = _layout.sizes_of(self.layout, x.dims)
        room = [(as_int(sizes[c]), w) for c, w in loops.windows_of(self).items()]
        return not self.ceil_mode and any(n and n + w.around < w.reach for n, w in room)

    def infer(self, x: Any) -> Any:
        """Sample, channels and positions, in `out_layout`."""
        self.check(x)
        if x.dims is None:
            return tensor(None, x.dtype, len(_layout.axes_in(self.out_layout)))
        shape = loops.result_shape(self, x.dims)
        if self.overhangs(x) or any(d < 0 for d in map(as_int, shape) if d is not None):
            refuse(self, f"a window of {self.pool_size} is larger than {tell(x)} with its padding")
        return tensor(shape, x.dtype)

    def validate(self) -> None:
        """Refuse windows that do not fit the spatial dimensions."""
        rank = len(self.spatial)
        lengths = (len(self.pool_size), len(self.strides), len(self.dilation), len(self.padding))
        fits = lengths == (rank, rank, rank, 2 * rank)
        if not fits or min(*self.pool_size, *self.strides, *self.dilation) < 1:
            refuse(
                self,
                f"pool_size {self.pool_size}, strides {self.strides}, dilation {self.dilation}, "
                f"padding {self.padding} do not fit {rank} spatial dimensions",
            )

    def check(self, x: Any) -> None:
        """Refuse layouts and attributes that do not fit each other or the tensor."""
        plain = "NC" + self.spatial
        _layout.want_letters(self, layout=plain, out_layout=plain)
        self.validate()
        want_rank(self, f"x in {self.layout}", x, len(_layout.axes_in(self.layout)))

    def numpy(self, x: Any) -> Any:
        """All windows at once, one place of the kernel after another."""
        plain = _layout.to_plain(x, self.layout, "NC" + self.spatial, {})
        return _layout.from_plain(
            self.pooled(plain), "NC" + self.spatial, self.out_layout or self.layout
        )

    def pooled(self, x: np.ndarray) -> np.ndarray:
        """The meaning for (N, C, …)."""
        raise NotImplementedError

    def seen(self, x: np.ndarray, fill: Any) -> list[np.ndarray]:
        """What the windows see at each place of the kernel, with `fill` in the padding."""
        windows = list(loops.windows_of(self).values())
        more = [w.stride - 1 if self.ceil_mode else 0 for w in windows]
        widths = [(w.before, w.after + m) for w, m in zip(windows, more, strict=True)]
        padded = np.pad(x, [(0, 0), (0, 0), *widths], constant_values=fill)
        out = [w.places(d, self.ceil_mode) for w, d in zip(windows, x.shape[2:], strict=True)]
        return [s for _, s in taps(padded, self.pool_size, out, self.strides, self.dilation)]

    def flops(self, x: Any) -> Any:
        """One for each element that a window sees."""
        result = Pool.infer(self, x)
        return None if result.dims is None else tidy(product([*result.dims, *self.pool_size]))


class MaxPool(Pool):
    """The largest element of each window {over}; padding does not count.

    padding: all beginnings, then all ends: (top, left, bottom, right).
    Semantics: https://onnx.ai/onnx/operators/onnx__MaxPool.html
    """

    __slots__ = ()
    in_order = by_layout
    in_blocks = blocks_of_images
    moves = follows = True

    def pooled(self, x: np.ndarray) -> np.ndarray:
        """numpy.maximum over the windows"""
        is_float = np.issubdtype(accumulator(x.dtype.name).numpy, np.floating)
        low = -np.inf if is_float else dtype(x.dtype.name).min_value
        return np.maximum.reduce(self.seen(x, low))

    def compute(self, x: Any) -> Any:
        """`pad_temp` where there is padding, then one reduction."""
        return loops.max_pool(self, x)


class AvgPool(Pool):
    """The mean of each window {over}; padding counts as zeros only if `count_include_pad`.

    padding: all beginnings, then all ends: (top, left, bottom, right).
    Semantics: https://onnx.ai/onnx/operators/onnx__AveragePool.html
    """

    __slots__ = ()
    in_order = by_layout
    in_blocks = blocks_of_images
    follows = True

    def check(self, x: Any) -> None:
        """As for every pooling, and floats only."""
        super().check(x)
        if x.dtype and not x.dtype.is_float:
            refuse(self, f"the mean of {tell(x)} is no {x.dtype}", hint="use astype on it first")

    def pooled(self, x: np.ndarray) -> np.ndarray:
        """Sum over the windows, divided by the number of elements that count"""
        wide = x.astype(accumulator(x.dtype.name).numpy, copy=False)
        total = np.sum(self.seen(wide, 0), axis=0)
        return (total / self.counts(x)).astype(x.dtype, copy=False)

    def counts(self, x: np.ndarray) -> np.ndarray:
        """How many elements of each window count."""
        counts: Any = np.ones((), np.float32)
        for at, w in enumerate(loops.windows_of(self).values()):
            size = x.shape[2 + at]
            line = [
                as_int(loops.counted(w, i, size, self.count_include_pad, self.ceil_mode))
                for i in range(w.places(size, self.ceil_mode))
            ]
            counts = np.multiply.outer(counts, np.array(line, np.float32))
        return counts.astype(accumulator(x.dtype.name).numpy)

    def compute(self, x: Any) -> Any:
        """`pad_temp` where there is padding, a sum, and a division by how many count."""
        return loops.avg_pool(self, x)


MaxPool1d, MaxPool2d, MaxPool3d = of_each_rank("relax.nn.max_pool{}d", MaxPool)
AvgPool1d, AvgPool2d, AvgPool3d = of_each_rank("relax.nn.avg_pool{}d", AvgPool)

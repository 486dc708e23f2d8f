"""image.grid_sample and image.affine_grid: an image read at places that a tensor gives.

out[n, c, i, j] = data[n, c, y, x], interpolated, where (x, y) = grid[n, :, i, j] in -1 … 1
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import all_of, as_int, cast, const, maximum, minimum, select
from mlcnb.op._accumulate import accumulator, wide
from mlcnb.op._dims import differ, refuse, size, tell, tensor, tidy, want_rank
from mlcnb.op._spell import ints_of
from mlcnb.op.image._interpolate import cubic_weights
from mlcnb.op.manipulate.permute import PermuteDims
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Shape, Tensor, make_call, operator
from mlcnb.tir.index_check import checked

PADDING = ("zeros", "border", "reflection")
#: method -> shift of the first neighbour, and how many there are
TAPS = {"nearest": (0, 1), "bilinear": (0, 2), "bicubic": (-1, 4)}


@operator("relax.image.grid_sample")
class GridSample(OpDecl):
    """`data` (N, C, …) at the places of `grid` (N, rank, …), whose first row is x, the second y.

    method: nearest (halves to even), bilinear (of 3 dimensions: trilinear), bicubic.
    padding_mode, for places outside: zeros, border, reflection; of bicubic it says where each of
    the neighbours is read, not what the weights are made of. align_corners: -1 and 1 are the
    middles of the corner elements, not their outer edges.
    Semantics: https://pytorch.org/docs/stable/generated/torch.nn.functional.grid_sample.html
    """

    follows = True

    data: Tensor
    grid: Tensor
    method: str = "bilinear"
    layout: str = "NCHW"
    padding_mode: str = "zeros"
    align_corners: bool = True

    def infer(self, data: Any, grid: Any) -> Any:
        """Sample and channels of data, the rest of grid."""
        if self.method not in TAPS:
            refuse(self, f"no method {self.method!r}", hint=f"one of {', '.join(TAPS)}")
        if self.padding_mode not in PADDING:
            refuse(self, f"no padding_mode {self.padding_mode!r}", hint=f"one of {PADDING}")
        if self.layout not in ("NCHW", "NCDHW"):
            refuse(self, f"layout {self.layout!r} is neither NCHW nor NCDHW")
        want_rank(self, "data", data, len(self.layout))
        want_rank(self, "grid", grid, len(self.layout))
        if data.dims is None or grid.dims is None:
            return tensor(None, data.dtype, len(self.layout))
        rank = len(self.layout) - 2
        if differ(grid.dims[1], rank) or differ(grid.dims[0], data.dims[0]):
            refuse(self, f"grid is {tell(grid)}, not (N, {rank}, …) for {tell(data)}")
        if self.padding_mode != "zeros" and 0 in map(as_int, data.dims[2:]):
            refuse(self, f"{tell(data)} has no elements for padding_mode {self.padding_mode}")
        return tensor([*data.dims[:2], *grid.dims[2:]], data.dtype)

    def numpy(self, data: Any, grid: Any) -> Any:
        """A sum over the neighbours of weights times elements"""
        x, rank, shape = wide(data), data.ndim - 2, data.shape[2:]
        if 0 in shape and self.padding_mode == "zeros":
            return np.zeros((*data.shape[:2], *grid.shape[2:]), data.dtype)
        places, rests = [], []
        for axis, extent in enumerate(shape):
            at = self.np_position(wide(grid)[:, rank - 1 - axis], extent)
            base = np.floor(at)
            places.append(base.astype(np.int64))
            rests.append(at - base)
        first, count = TAPS[self.method]
        batch = np.arange(data.shape[0]).reshape(-1, *[1] * rank)
        total: Any = 0
        for taps in itertools.product(range(count), repeat=rank):
            weight: Any = np.ones((), x.dtype)
            index, real = [], np.ones((), bool)
            for axis, tap in enumerate(taps):
                weight = weight * self.weights(rests[axis])[tap]
                place = places[axis] + (first + tap)
                inside, valid = self.np_inside(place, shape[axis])
                index.append(inside)
                real = real & valid
            everything: tuple[Any, ...] = (batch, slice(None), *index)
            found = np.moveaxis(x[everything], -1, 1)
            total = total + found * np.where(real, weight, 0)[:, None]
        return total.astype(data.dtype)

    def weights(self, rest: Any) -> list[Any]:
        """Weights of the neighbours along one dimension, from the rest of the position."""
        if self.method == "nearest":
            return [rest * 0 + 1]
        return [1 - rest, rest] if self.method == "bilinear" else cubic_weights(rest, -0.75)

    def np_position(self, g: np.ndarray, extent: int) -> np.ndarray:
        """Coordinates -1 … 1 as positions, brought inside as padding_mode says."""
        at = (g + 1) / 2 * (extent - 1) if self.align_corners else ((g + 1) * extent - 1) / 2
        at = np.rint(at) if self.method == "nearest" else at
        if self.padding_mode == "border" and self.method != "bicubic":
            return np.clip(at, 0, extent - 1)
        if self.padding_mode != "reflection":
            return np.clip(at, -4, extent + 4)
        half, edge = (0, extent - 1) if self.align_corners else (0.5, extent)
        if edge == 0:
            return np.zeros_like(at)
        around = np.mod(at + half, 2 * edge)
        return edge - np.abs(around - edge) - half

    def np_inside(self, place: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
        """A neighbour's place brought inside, and whether it counts."""
        valid = (place >= 0) & (place < extent)
        if self.padding_mode == "zeros":
            return np.clip(place, 0, extent - 1), valid
        if self.padding_mode == "border":
            return np.clip(place, 0, extent - 1), np.ones_like(valid)
        period = max(2 * (extent - 1), 1) if self.align_corners else 2 * extent
        around = np.mod(place, period)
        mirrored = np.minimum(around, period - around - (0 if self.align_corners else 1))
        return np.clip(mirrored, 0, extent - 1), np.ones_like(valid)

    def compute(self, data: Any, grid: Any) -> Any:
        """A loop over positions, then one over the result, which reads the neighbours."""
        rank, kind = len(data.shape) - 2, accumulator(data.dtype)
        spatial, out = data.shape[2:], grid.shape[2:]
        first, count = TAPS[self.method]

        def position(n: Any, a: Any, *index: Any) -> Any:
            value = cast(kind, grid(n, a, *index))
            result = self.position(value, spatial[0])
            for axis in range(1, rank):
                row = self.position(value, spatial[axis])
                result = select(a == rank - 1 - axis, row, result)
            return result

        at = te.compute((grid.shape[0], rank, *out), position, name="grid_position")

        def element(n: Any, c: Any, *index: Any) -> Any:
            places, rests = [], []
            for axis in range(rank):
                base = te.floor(at(n, rank - 1 - axis, *index))
                places.append(cast("int32", base))
                rests.append(at(n, rank - 1 - axis, *index) - base)
            total = None
            for taps in itertools.product(range(count), repeat=rank):
                part = self.neighbour(data, (n, c), places, rests, taps, first, kind)
                total = part if total is None else total + part
            return cast(data.dtype, total)

        return te.compute((*data.shape[:2], *out), element, name="grid_sample")

    def neighbour(
        self,
        data: Any,
        head: Sequence[Any],
        places: Sequence[Any],
        rests: Sequence[Any],
        taps: Sequence[int],
        first: int,
        kind: Any,
    ) -> Any:
        """One neighbour's element times its weight."""
        index, real, weight = [], [], None
        for axis, tap in enumerate(taps):
            inside, valid = self.inside(places[axis] + (first + tap), data.shape[2 + axis])
            index.append(inside)
            real += valid
            w = None if self.method == "nearest" else self.weights(rests[axis])[tap]
            weight = w if weight is None else weight * w
        value = cast(kind, data(*head, *index))
        if real:
            value = te.if_then_else(all_of(*real), value, const(0, kind))
        return value if weight is None else value * weight

    def position(self, g: Any, extent: Any) -> Any:
        """As np_position, of an expression."""
        kind = g.dtype
        length = cast(kind, extent)
        half = const(0.5, kind)
        if self.align_corners:
            at = (g + 1) * half * (length - 1)
        else:
            at = ((g + 1) * length - 1) * half
        at = te.nearbyint(at) if self.method == "nearest" else at
        if self.padding_mode == "border" and self.method != "bicubic":
            return maximum(minimum(at, length - 1), const(0, kind))
        if self.padding_mode != "reflection":
            return maximum(minimum(at, length + 4), const(-4, kind))
        edge = maximum(length - 1, const(1e-30, kind)) if self.align_corners else length
        shift = const(0, kind) if self.align_corners else half
        around = (at + shift) - te.floor((at + shift) / (edge * 2)) * (edge * 2)
        return edge - te.abs(around - edge) - shift

    def inside(self, place: Any, extent: Any) -> tuple[Any, list[Any]]:
        """As np_inside, of an expression; the conditions that must hold."""
        if self.padding_mode == "zeros":
            return maximum(minimum(place, extent - 1), 0), [place >= 0, place < extent]
        where = f"image.grid_sample: the first element for padding_mode {self.padding_mode}"
        first = checked(const(0, "int64"), extent, where)
        if self.padding_mode == "border":
            return maximum(minimum(place, extent - 1), first), []
        period = maximum((extent - 1) * 2 if self.align_corners else extent * 2, 1)
        around = te.floormod(place, period)
        mirrored = minimum(around, period - around - (0 if self.align_corners else 1))
        return maximum(minimum(mirrored, extent - 1), first), []

    def flops(self, data: Any, grid: Any) -> Any:
        """Two for each neighbour."""
        result = self.infer(data, grid)
        rank = len(self.layout) - 2
        return (
            None if result.dims is None else tidy(size(result) * 2 * TAPS[self.method][1] ** rank)
        )


METHODS = {
    "nearest": "nearest",
    "bilinear": "bilinear",
    "linear": "bilinear",
    "bicubic": "bicubic",
    "cubic": "bicubic",
}


@onnx("GridSample", since=16)
def onnx_grid_sample(n: OnnxNode, x: Expr, grid: Expr) -> Expr:
    """ONNX has the coordinates last: (N, …, rank)."""
    rank, mode = len(n.dims(x)) - 2, n.attr("mode", "linear")
    if rank not in (2, 3) or mode not in METHODS:
        n.refuse(f"mode {mode!r} over {rank} dimensions", hint="2 and 3 dimensions are there")
    first = make_call(PermuteDims, grid, axes=(0, rank + 1, *range(1, rank + 1)))
    return make_call(
        GridSample,
        x,
        n.emit(first),
        method=METHODS[mode],
        layout="NCHW" if rank == 2 else "NCDHW",
        padding_mode=n.attr("padding_mode", "zeros"),
        align_corners=bool(n.attr("align_corners", 0)),
    )


@operator("relax.image.affine_grid")
class AffineGrid(OpDecl):
    """The grid (N, rank, *size) of places that each `theta` (N, rank, rank + 1) sends an image to.

    Semantics: https://pytorch.org/docs/stable/generated/torch.nn.functional.affine_grid.html
    """

    follows = True

    theta: Tensor
    size: Shape
    align_corners: bool = True

    def infer(self, theta: Any, size: Any) -> Any:
        """Samples, rank, then `size`."""
        want_rank(self, "theta", theta, 3)
        rank = size.ndim
        if rank not in (-1, 2, 3):
            refuse(self, f"size must have 2 or 3 dimensions, but has {rank}")
        if theta.dims is None or size.values is None:
            return tensor(None, theta.dtype, rank if rank == -1 else rank + 2)
        if differ(theta.dims[1], rank) or differ(theta.dims[2], rank + 1):
            refuse(self, f"theta is {tell(theta)}, not (N, {rank}, {rank + 1})")
        return tensor([theta.dims[0], rank, *size.values], theta.dtype)

    def numpy(self, theta: Any, size: Any) -> Any:
        """A product with the homogeneous coordinates of each place"""
        kind = accumulator(theta.dtype.name).numpy
        lines = []
        for extent in size:
            i = np.arange(extent, dtype=np.float64)
            whole = max(extent - 1, 1) if self.align_corners else extent
            lines.append((2 * i + (0 if self.align_corners else 1)) / whole - 1)
        grid = [g.ravel() for g in np.meshgrid(*lines, indexing="ij")][::-1]
        homogeneous = np.stack([*grid, np.ones_like(grid[0])])
        found = theta.astype(kind) @ homogeneous.astype(kind)
        return found.reshape(theta.shape[0], len(size), *size).astype(theta.dtype)

    def compute(self, theta: Any, size: Any) -> Any:
        """One loop."""
        kind, rank = accumulator(theta.dtype), len(size)

        def line(i: Any, extent: Any) -> Any:
            whole = maximum(extent - 1, 1) if self.align_corners else extent
            twice = i * 2 if self.align_corners else i * 2 + 1
            return cast(kind, twice) / cast(kind, whole) - 1

        def element(n: Any, a: Any, *index: Any) -> Any:
            total = cast(kind, theta(n, a, rank))
            for axis, (i, extent) in enumerate(zip(index, size, strict=True)):
                total = total + cast(kind, theta(n, a, rank - 1 - axis)) * line(i, extent)
            return cast(theta.dtype, total)

        return te.compute((theta.shape[0], rank, *size), element, name="affine_grid")


@onnx("AffineGrid", since=20)
def onnx_affine_grid(n: OnnxNode, theta: Expr, size: Expr) -> Expr:
    """ONNX has the coordinates last: (N, …, rank)."""
    spatial = (ints_of(n, size, "size") or ())[2:]
    corners = bool(n.attr("align_corners", 0))
    grid = n.emit(make_call(AffineGrid, theta, list(spatial), align_corners=corners))
    rank = len(spatial)
    return make_call(PermuteDims, grid, axes=(0, *range(2, rank + 2), 1))

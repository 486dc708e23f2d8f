"""Winograd convolution: nn.contrib_conv2d_winograd, …_weight_transform, …_without_weight_transform.

    U[eps, nu] = G g G^T                                  the weights, once, when it is compiled
    input_rows, data_pack: V[eps, nu] = B^T d B           every tile of alpha x alpha inputs
    bgemm[eps, nu]  += V[eps, nu] * U[eps, nu]            alpha^2 matrix products over the channels
    inverse_rows, conv2d_winograd: y = A^T bgemm A        every tile of m x m results

With m = 4 a 3 x 3 window needs 36 multiplications for 16 results, not 144. The matrices, their
error, and the papers: `mlcnb.tir.winograd`. Names and order of the weights are those of TVM
(topi.nn.conv2d_winograd_weight_transform).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.memory import mapped_empty
from mlcnb.ir.prim_ops import all_of, as_int, cast, const
from mlcnb.op import _layout
from mlcnb.op._accumulate import accumulator, rounded
from mlcnb.op._dims import (
    differ,
    one_dtype,
    product,
    refuse,
    same,
    tell,
    tensor,
    tidy,
    want_rank,
)
from mlcnb.op._layout import Place
from mlcnb.op.nn._window import each, extent, no_void, settle, sides
from mlcnb.op.nn._winograd_loops import Loops
from mlcnb.relax.operator import OpDecl, Tensor, operator
from mlcnb.tir.winograd import (
    POINTS,
    choose,
    matrices,
    rows_of_input,
    rows_plain,
)

#: places of the transformed weights: TVM's order, and letters for the two dimensions of the tile
WEIGHT = "ABOI"
#: windows that are transformed at once: so few that OpenBLAS does not wake its threads for each
CHUNK = 512


@operator("relax.nn.contrib_conv2d_winograd_weight_transform")
class WinogradWeightTransform(OpDecl):
    """G g G^T of each window g of `weight` (O, I, r, r): (alpha, alpha, O, I), alpha = m + r - 1.

    tile_size: m. layout: where the result's dimensions lie, if not in the order "ABOI".
    """

    prepares = True
    weight: Tensor
    tile_size: int
    layout: str = WEIGHT

    def infer(self, weight: Any) -> Any:
        """The tile's two dimensions come first."""
        want_rank(self, "weight", weight, 4)
        if weight.dims is None:
            return tensor(None, weight.dtype, 4)
        outer, inner, rows, columns = weight.dims
        alpha = self.tile_size + _window(self, rows, columns) - 1
        if alpha not in POINTS or self.tile_size < 1:
            refuse(self, f"no tiles of {self.tile_size} for {tell(weight)}")
        _layout.want_letters(self, layout=WEIGHT)
        sizes = {"A": alpha, "B": alpha, "O": outer, "I": inner}
        return tensor(_layout.shape_in(self.layout, sizes), weight.dtype)

    def numpy(self, weight: Any) -> Any:
        """In float64, rounded once: G g G^T is (G x G) times g as a column."""
        g = matrices(self.tile_size, weight.shape[2]).g
        letters = [axis.letter for axis in _layout.axes_in(self.layout)]
        first = letters.index("A")
        if letters[first + 1 : first + 2] != ["B"]:
            plain = WinogradWeightTransform(self.tile_size)  # type: ignore[call-arg]
            return _layout.from_plain(plain.numpy(weight), WEIGHT, self.layout)
        # the windows lie where the tiles will be
        x = _layout.from_plain(weight, "OIHW", self.layout.replace("AB", "HW"))
        shape = (*x.shape[:first], len(g), len(g), *x.shape[first + 2 :])
        out = mapped_empty(shape, weight.dtype)
        both, width = np.kron(g, g), math.prod(x.shape[first + 2 :])
        columns, results = (
            a.reshape(-1, n, width) for a, n in ((x, both.shape[1]), (out, both.shape[0]))
        )
        for start in range(0, width, CHUNK):
            part = np.s_[..., start : start + CHUNK]
            results[part] = both @ columns[part].astype("float64")
        return out

    def compute(self, weight: Any) -> Any:
        """Rows, then columns."""
        outer, inner, window, _ = weight.shape
        kind = accumulator(weight.dtype)
        g = matrices(self.tile_size, as_int(window)).g
        alpha = len(g)

        def rows(eps: Any, o: Any, i: Any, x: Any) -> Any:
            return choose(eps, g, rows_plain, lambda k: cast(kind, weight(o, i, k, x)))

        def both(*index: Any) -> Any:
            found = _layout.places(self.layout, index)
            at = {c: _layout.whole(p, _layout.block_of(self.layout, c)) for c, p in found.items()}
            value = choose(at["B"], g, rows_plain, lambda k: half(at["A"], at["O"], at["I"], k))
            inside = [at[c] < n for c, n in (("O", outer), ("I", inner)) if filled[c]]
            return te.if_then_else(all_of(*inside), value, const(0, kind)) if inside else value

        sizes = {"A": alpha, "B": alpha, "O": outer, "I": inner}
        shape = _layout.shape_in(self.layout, sizes)
        room = _layout.sizes_of(self.layout, shape)
        filled = {c: not same(room[c], sizes[c]) for c in "OI"}
        half = te.compute((alpha, outer, inner, window), rows, name="weight_rows")
        found = te.compute(shape, both, name="transform_weight")
        return rounded(found, weight.dtype, "weight_cast")

    def flops(self, weight: Any) -> Any:
        """Two for each product with G, from the left and from the right."""
        result = self.infer(weight)
        if result.dims is None:
            return None
        outer, inner, window, _ = weight.dims
        alpha = self.tile_size + window - 1
        return tidy(product([outer, inner, alpha, window, window + alpha]) * 2)


@operator("relax.nn.contrib_conv2d_winograd_without_weight_transform")
class WinogradConv2d(OpDecl):
    """2-D convolution of stride 1 with weights that are transformed: (alpha, alpha, O, I).

    tile_size: m, results of a tile in each direction; the window is alpha - m + 1 wide.
    padding (top, left, bottom, right); kernel_layout says where A and B (the tile), O and I lie.
    groups: as of nn.conv2d; I counts the channels of one. Sums are formed in float32 at least.
    The meaning is that of nn.conv2d, up to rounding.
    """

    data: Tensor
    weight: Tensor
    tile_size: int
    padding: int | tuple[int, ...] = (0, 0, 0, 0)
    data_layout: str = "NCHW"
    kernel_layout: str = WEIGHT
    out_layout: str | None = None
    out_dtype: str | None = None
    groups: int = 1

    def __post_init__(self) -> None:
        settle(
            self,
            padding=sides(
                each(self.padding, 2) if isinstance(self.padding, int) else self.padding, 2
            ),
            out_layout=self.out_layout or self.data_layout,
            out_dtype=no_void(self.out_dtype),
        )

    def infer(self, data: Any, weight: Any) -> Any:
        """As of nn.conv2d: sample, output channels and places, in `out_layout`."""
        self.check(data, weight)
        kind = self.out_dtype or one_dtype(data, weight)
        if data.dims is None or weight.dims is None:
            return tensor(None, kind, len(_layout.axes_in(str(self.out_layout))))
        sizes = _layout.sizes_of(self.data_layout, data.dims)
        kernel = _layout.sizes_of(self.kernel_layout, weight.dims)
        if differ(sizes["C"], kernel["I"] * self.groups):
            of = f" in {self.groups} groups" if self.groups != 1 else ""
            refuse(self, f"the channels of {tell(data)} are not those of {tell(weight)}{of}")
        if self.groups != 1 and differ(kernel["O"] % self.groups, 0):
            refuse(self, f"{kernel['O']} output channels do not go into {self.groups} groups")
        self.window(kernel)
        places = self.places(sizes, kernel)
        if any(p < 1 for p in map(as_int, places.values()) if p is not None):
            refuse(self, f"the window of {tell(weight)} is larger than {tell(data)}, padded")
        found = {"N": sizes["N"], "C": kernel["O"], **places}
        return tensor(_layout.shape_in(str(self.out_layout), found), kind)

    def check(self, data: Any, weight: Any) -> None:
        """Refuse layouts and padding that do not fit each other or the tensors."""
        _layout.want_letters(self, data_layout="NCHW", out_layout="NCHW", kernel_layout=WEIGHT)
        if self.groups < 1:
            refuse(self, f"groups {self.groups} is not one or more")
        if len(self.padding) != 4 or min(self.padding) < 0:  # type: ignore[arg-type]
            refuse(self, f"padding {self.padding} is not four numbers of zero or more")
        _layout.want_tensors(self, data, weight)

    def window(self, kernel: dict[str, Any]) -> int:
        """How wide the window is, from the transformed weights."""
        alpha, other = as_int(kernel["A"]), as_int(kernel["B"])
        if alpha is None or alpha != other or alpha not in POINTS:
            refuse(self, f"weights of tiles of {alpha} x {other}: square ones of {list(POINTS)}")
        if not 1 <= self.tile_size <= alpha:
            refuse(self, f"tile_size {self.tile_size} is not 1 to {alpha}")
        return alpha - self.tile_size + 1

    def places(self, sizes: dict[str, Any], kernel: dict[str, Any]) -> dict[str, Any]:
        """How many places the window has."""
        top, left, bottom, right = self.padding  # type: ignore[misc]
        window = self.window(kernel)
        pads = {"H": top + bottom, "W": left + right}
        return {c: extent(sizes[c], pads[c], window, 1, 1) for c in "HW"}

    def tiles(self, places: dict[str, Any]) -> dict[str, Any]:
        """How many tiles cover them; the last ones may reach beyond."""
        return {c: tidy((p + (self.tile_size - 1)) // self.tile_size) for c, p in places.items()}

    def numpy(self, data: Any, weight: Any) -> Any:
        """The three steps of the module's text, in float64."""
        kind = self.out_dtype or data.dtype.name
        x = _layout.to_plain(data, self.data_layout, "NCHW", {}).astype("float64")
        u = _layout.to_plain(weight, self.kernel_layout, WEIGHT, {}).astype("float64")
        sizes = dict(zip("NCHW", x.shape, strict=True))
        kernel = dict(zip(WEIGHT, u.shape, strict=True))
        places = self.places(sizes, kernel)
        rows, columns = self.tiles(places).values()
        m, (a, _, b) = self.tile_size, matrices(self.tile_size, self.window(kernel))
        widths = [(0, 0), (0, 0), *self.widths(sizes, kernel).values()]
        tiles = np.lib.stride_tricks.sliding_window_view(
            np.pad(x, widths), (len(b), len(b)), (2, 3)
        )[:, :, ::m, ::m]
        v = np.einsum("ea,nb,scijab->enscij", b, b, tiles, optimize=True)
        u, v = (split_axis(a, axis, self.groups) for a, axis in ((u, 2), (v, 3)))
        product = np.einsum("engoc,ensgcij->ensgoij", u, v, optimize=True)
        product = product.reshape(*product.shape[:3], kernel["O"], rows, columns)
        y = np.einsum("he,wn,ensoij->soihjw", a, a, product, optimize=True)
        whole = y.reshape(x.shape[0], kernel["O"], rows * m, columns * m)
        plain = whole[:, :, : places["H"], : places["W"]]
        return _layout.from_plain(plain.astype(kind), "NCHW", str(self.out_layout))

    def widths(self, sizes: dict[str, Any], kernel: dict[str, Any]) -> dict[str, Any]:
        """Zeros (before, after) rows and columns, so that every tile is whole."""
        tiles = self.tiles(self.places(sizes, kernel))
        more = self.window(kernel) - 1
        before = {"H": self.padding[0], "W": self.padding[1]}  # type: ignore[index]
        return {
            c: (before[c], tidy(tiles[c] * self.tile_size + more - before[c] - sizes[c]))
            for c in "HW"
        }

    def compute(self, data: Any, weight: Any) -> Any:
        """Five blocks after the padding: rows and columns in, products, rows and columns out."""
        return Loops(self, data, weight).result()

    def flops(self, data: Any, weight: Any) -> Any:
        """Two for each multiplication of the products; the transforms count as nothing."""
        result = self.infer(data, weight)
        if result.dims is None:
            return None
        kernel = _layout.sizes_of(self.kernel_layout, weight.dims)
        sizes = _layout.sizes_of(self.data_layout, data.dims)
        tiles = product(self.tiles(self.places(sizes, kernel)).values())
        return tidy(product([sizes["N"], tiles, *kernel.values()]) * 2)


@operator("relax.nn.contrib_conv2d_winograd")
class WinogradConv2dWhole(OpDecl):
    """2-D convolution of stride 1 whose weights, (O, I, r, r), are transformed where they are used.

    That takes time in each run, and saves memory: transformed weights are 4 times larger with
    tiles of 4, and a machine reads the small ones faster than it would the large ones.
    tile_size, padding, layouts, groups: as of nn.contrib_conv2d_winograd_without_weight_transform,
    but kernel_layout is that of nn.conv2d. The meaning is that of nn.conv2d, up to rounding.
    """

    data: Tensor
    weight: Tensor
    tile_size: int
    padding: int | tuple[int, ...] = (0, 0, 0, 0)
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_layout: str | None = None
    out_dtype: str | None = None
    groups: int = 1

    def inner(self) -> WinogradConv2d:
        """The convolution with weights that are transformed."""
        blocks = (_layout.block_of(self.kernel_layout, c) for c in "IO")
        parts = [f"{b}{c}" for b, c in zip(blocks, "io", strict=True) if b]
        layout = "OIAB" + "".join(parts) if parts else WEIGHT
        given = (self.tile_size, self.padding, self.data_layout, layout)
        return WinogradConv2d(*given, self.out_layout, self.out_dtype, self.groups)  # type: ignore[arg-type,call-arg]

    def infer(self, data: Any, weight: Any) -> Any:
        """As with weights that are transformed."""
        axes = len(_layout.axes_in(self.kernel_layout))
        want_rank(self, f"weight in {self.kernel_layout}", weight, axes)
        inner = self.inner()
        if weight.dims is None:
            return inner.infer(data, tensor(None, weight.dtype, axes))
        return inner.infer(data, self.transformed(weight))

    def transformed(self, weight: Any) -> Any:
        """The struct info of the transformed weights."""
        kernel = _layout.sizes_of(self.kernel_layout, weight.dims)
        alpha = self.tile_size + _window(self, kernel["H"], kernel["W"]) - 1
        sizes = {"A": alpha, "B": alpha, "O": kernel["O"], "I": kernel["I"]}
        return tensor(_layout.shape_in(self.inner().kernel_layout, sizes), weight.dtype)

    def numpy(self, data: Any, weight: Any) -> Any:
        """Transform, then as with weights that are."""
        plain = _layout.to_plain(weight, self.kernel_layout, "OIHW", {}).astype("float64")
        inner: Any = self.inner()
        made = WinogradWeightTransform(self.tile_size, inner.kernel_layout).numpy(plain)  # type: ignore[call-arg]
        return inner.numpy(data, made)

    def compute(self, data: Any, weight: Any) -> Any:
        """Rows, then columns of the weights; then as with weights that are transformed."""
        inner = self.inner()
        kernel = _layout.sizes_of(self.kernel_layout, weight.shape)
        g = matrices(self.tile_size, as_int(kernel["H"])).g
        kind = accumulator(weight.dtype)
        order = self.kernel_layout.replace("H", "")
        sizes = {"A": len(g), "B": len(g), **kernel}

        def rows(eps: Any, *index: Any) -> Any:
            found = _layout.places(order, index)

            def row(k: int) -> Any:
                place = _layout.index_in(self.kernel_layout, {**found, "H": Place(k)})
                return cast(kind, weight(*place)) * number_in(g[:, k], eps, kind)

            first, *more = map(row, range(g.shape[1]))
            return sum(more, first)

        def both(*index: Any) -> Any:
            found = _layout.places(inner.kernel_layout, index)

            def column(k: int) -> Any:
                return half(found["A"].outer, *_layout.index_in(order, {**found, "W": Place(k)}))

            return choose(found["B"].outer, g, rows_of_input, column)

        half = te.compute((len(g), *_layout.shape_in(order, sizes)), rows, name="weight_rows")
        shape = _layout.shape_in(inner.kernel_layout, sizes)
        made = te.compute(shape, both, name="transform_weight")
        return inner.compute(data, made)

    def flops(self, data: Any, weight: Any) -> Any:
        """Two for each multiplication of the products; the transforms count as nothing."""
        return None if weight.dims is None else self.inner().flops(data, self.transformed(weight))


def split_axis(x: np.ndarray, axis: int, parts: int) -> np.ndarray:
    """An axis as two: its parts, and what each holds."""
    return x.reshape(*x.shape[:axis], parts, -1, *x.shape[axis + 1 :])


def number_in(column: np.ndarray, index: Any, kind: str) -> Any:
    """Element `index` of some numbers: not known before, where rows are not written out."""
    *first, found = (const(float(x), kind) for x in column)
    for number, x in reversed(list(enumerate(first))):
        found = te.Select(index == number, x, found)
    return found


def _window(op: OpDecl, rows: Any, columns: Any) -> int:
    """The width of a square window."""
    if as_int(rows) is None or as_int(rows) != as_int(columns):
        refuse(op, f"a window of {rows} x {columns} is not square, or not known")
    return int(as_int(rows) or 0)

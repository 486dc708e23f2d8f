"""Winograd convolution: nn.contrib_conv2d_winograd_weight_transform, …_without_weight_transform.

    U[eps, nu] = G g G^T                                  the weights, once, when it is compiled
    input_rows, data_pack: V[eps, nu] = B^T d B           every tile of alpha x alpha inputs
    bgemm[eps, nu]  += V[eps, nu] * U[eps, nu]            alpha^2 matrix products over the channels
    inverse_rows, conv2d_winograd: y = A^T bgemm A        every tile of m x m results

With m = 4 a 3 x 3 window needs 36 multiplications for 16 results, not 144. The matrices, their
error, and the papers: `mlcnb.op.nn._winograd`. Names and order of the weights are those of TVM
(topi.nn.conv2d_winograd_weight_transform).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.memory import aligned_empty
from mlcnb.ir.prim_ops import all_of, as_int, cast, const
from mlcnb.op import _layout
from mlcnb.op._accumulate import accumulator, rounded
from mlcnb.op._dims import (
    differ,
    product,
    refuse,
    same,
    tell,
    tensor,
    tidy,
    want_rank,
    want_same_dtype,
)
from mlcnb.op._layout import Place
from mlcnb.op.manipulate.pad import pad_constant
from mlcnb.op.nn._window import each, extent, no_void, settle, sides
from mlcnb.op.nn._winograd import (
    POINTS,
    Matrices,
    matrices,
    rows_of_input,
    rows_of_output,
    rows_plain,
)
from mlcnb.relax.operator import OpDecl, Tensor, operator

#: places of the transformed weights: TVM's order, and letters for the two dimensions of the tile
WEIGHT = "ABOI"
#: windows that are transformed at once: so few that OpenBLAS does not wake its threads for each
CHUNK = 512


@operator("relax.nn.contrib_conv2d_winograd_weight_transform")
class WinogradWeightTransform(OpDecl):
    """G g G^T of each window g of `weight` (O, I, r, r): (alpha, alpha, O, I), alpha = m + r - 1.

    tile_size: m. layout: where the result's dimensions lie, if not in the order "ABOI".
    """

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
        if sorted(_layout.letters(self.layout)) != sorted(WEIGHT):
            refuse(self, f"layout {self.layout!r} must name {', '.join(WEIGHT)}")
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
        out = aligned_empty(shape, weight.dtype)
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
            return _choose(eps, g, rows_plain, lambda k: cast(kind, weight(o, i, k, x)))

        def both(*index: Any) -> Any:
            found = _layout.places(self.layout, index)
            at = {c: _layout.whole(p, _layout.block_of(self.layout, c)) for c, p in found.items()}
            value = _choose(at["B"], g, rows_plain, lambda k: half(at["A"], at["O"], at["I"], k))
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
    Sums are formed in float32 at least. The meaning is that of nn.conv2d, up to rounding.
    """

    data: Tensor
    weight: Tensor
    tile_size: int
    padding: int | tuple[int, ...] = (0, 0, 0, 0)
    data_layout: str = "NCHW"
    kernel_layout: str = WEIGHT
    out_layout: str | None = None
    out_dtype: str | None = None

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
        kind = self.out_dtype or data.dtype or weight.dtype
        if data.dims is None or weight.dims is None:
            return tensor(None, kind, len(_layout.axes_in(str(self.out_layout))))
        sizes = _layout.sizes_of(self.data_layout, data.dims)
        kernel = _layout.sizes_of(self.kernel_layout, weight.dims)
        if differ(sizes["C"], kernel["I"]):
            refuse(self, f"the channels of {tell(data)} are not those of {tell(weight)}")
        self.window(kernel)
        places = self.places(sizes, kernel)
        if any(p < 1 for p in map(as_int, places.values()) if p is not None):
            refuse(self, f"the window of {tell(weight)} is larger than {tell(data)}, padded")
        found = {"N": sizes["N"], "C": kernel["O"], **places}
        return tensor(_layout.shape_in(str(self.out_layout), found), kind)

    def check(self, data: Any, weight: Any) -> None:
        """Refuse layouts and padding that do not fit each other or the tensors."""
        wanted = {"data_layout": "NCHW", "out_layout": "NCHW", "kernel_layout": WEIGHT}
        for name, letters in wanted.items():
            layout = getattr(self, name)
            if sorted(_layout.letters(layout)) != sorted(letters):
                refuse(self, f"{name} {layout!r} must name {', '.join(letters)}")
        if len(self.padding) != 4 or min(self.padding) < 0:  # type: ignore[arg-type]
            refuse(self, f"padding {self.padding} is not four numbers of zero or more")
        want_rank(self, f"data in {self.data_layout}", data, len(_layout.axes_in(self.data_layout)))
        axes = len(_layout.axes_in(self.kernel_layout))
        want_rank(self, f"weight in {self.kernel_layout}", weight, axes)
        want_same_dtype(self, data=data, weight=weight)

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
        product = np.einsum("enoc,enscij->ensoij", u, v, optimize=True)
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
        return _Loops(self, data, weight).result()

    def flops(self, data: Any, weight: Any) -> Any:
        """Two for each multiplication of the products; the transforms count as nothing."""
        result = self.infer(data, weight)
        if result.dims is None:
            return None
        kernel = _layout.sizes_of(self.kernel_layout, weight.dims)
        sizes = _layout.sizes_of(self.data_layout, data.dims)
        tiles = product(self.tiles(self.places(sizes, kernel)).values())
        return tidy(product([sizes["N"], tiles, *kernel.values()]) * 2)


class _Loops:
    """The loop nest: every stage has the tile's row eps and column nu, then a layout's axes.

    In `input_rows` the columns of the image are not in tiles yet: neighbours share them.
    """

    def __init__(self, op: WinogradConv2d, data: Any, weight: Any) -> None:
        self.op, self.weight = op, weight
        self.kind = accumulator(data.dtype)
        self.out_kind = op.out_dtype or data.dtype
        self.sizes = _layout.sizes_of(op.data_layout, data.shape)
        self.kernel = _layout.sizes_of(op.kernel_layout, weight.shape)
        self.places = op.places(self.sizes, self.kernel)
        self.tiles = op.tiles(self.places)
        self.m = op.tile_size
        self.matrices: Matrices = matrices(op.tile_size, op.window(self.kernel))
        self.alpha = len(self.matrices.b)
        self.data = self.padded(data)
        self.out_layout = str(op.out_layout)

    def padded(self, data: Any) -> Any:
        amount = self.op.widths(self.sizes, self.kernel)
        widths = [amount.get(a.letter, (0, 0)) for a in _layout.axes_in(self.op.data_layout)]
        zero = const(0, data.dtype)
        return pad_constant(data, widths, zero, "pad_temp")

    def result(self) -> Any:
        kind = str(self.out_kind)
        return rounded(
            self.output(self.inverse_rows(self.bgemm(self.data_pack()))), kind, "conv_cast"
        )

    def shape(self, layout: str, channels: Any, **places: Any) -> tuple[Any, ...]:
        found = {"N": self.sizes["N"], "C": channels, **self.tiles, **places}
        return _layout.shape_in(layout, found)

    def at(self, layout: str, index: Sequence[Any], **changed: Any) -> tuple[Any, ...]:
        """`index` in a layout, with other places in some dimensions."""
        found = _layout.places(layout, index)
        found.update({c: Place(place) for c, place in changed.items()})
        return _layout.index_in(layout, found)

    def data_pack(self) -> Any:
        layout, b, m = self.op.data_layout, self.matrices.b, self.m
        columns = self.tiles["W"] * m + (self.alpha - m)

        def rows(eps: Any, *index: Any) -> Any:
            tile = _layout.places(layout, index)["H"].outer

            def row(k: int) -> Any:
                return cast(self.kind, self.data(*self.at(layout, index, H=tile * m + k)))

            return _choose(eps, b, rows_of_input, row)

        def pack(eps: Any, nu: Any, *index: Any) -> Any:
            tile = _layout.places(layout, index)["W"].outer

            def column(k: int) -> Any:
                return half(eps, *self.at(layout, index, W=tile * m + k))

            return _choose(nu, b, rows_of_input, column)

        shape = self.shape(layout, self.sizes["C"])
        wide = self.shape(layout, self.sizes["C"], W=columns)
        half = te.compute((self.alpha, *wide), rows, name="input_rows")
        return te.compute((self.alpha, self.alpha, *shape), pack, name="data_pack")

    def bgemm(self, packed: Any) -> Any:
        layout, kernel = self.op.data_layout, self.op.kernel_layout
        ours, theirs = _layout.block_of(layout, "C"), _layout.block_of(kernel, "I")
        together = ours and ours == theirs
        if together:
            outer = te.reduce_axis((0, self.kernel["I"] // ours), name="ic_outer")
            inner = te.reduce_axis((0, ours), name="ic_inner")
            axes, there, here = [outer, inner], Place(outer, inner), Place(outer, inner)
        else:
            axis = te.reduce_axis((0, self.kernel["I"]), name="ic")
            axes = [axis]
            there, here = _layout.at(axis.var, ours), _layout.at(axis.var, theirs)

        def element(eps: Any, nu: Any, *index: Any) -> Any:
            out = _layout.places(self.out_layout, index)
            channel = self.reblocked(out["C"])
            v = packed(eps, nu, *_layout.index_in(layout, {**out, "C": there}))
            found = {"A": Place(eps), "B": Place(nu), "O": channel, "I": here}
            u = self.weight(*_layout.index_in(kernel, found))
            return te.sum(v * cast(self.kind, u), axis=axes)

        shape = self.shape(self.out_layout, self.kernel["O"])
        return te.compute((self.alpha, self.alpha, *shape), element, name="bgemm")

    def reblocked(self, channel: Place) -> Place:
        """An output channel's place in the blocks of the weights."""
        ours = _layout.block_of(self.out_layout, "C")
        theirs = _layout.block_of(self.op.kernel_layout, "O")
        if ours == theirs:
            return channel
        return _layout.at(_layout.whole(channel, ours), theirs)

    def inverse_rows(self, product: Any) -> Any:
        def element(row: Any, nu: Any, *index: Any) -> Any:
            return _choose(row, self.matrices.a, rows_of_output, lambda k: product(k, nu, *index))

        shape = self.shape(self.out_layout, self.kernel["O"])
        return te.compute((self.m, self.alpha, *shape), element, name="inverse_rows")

    def output(self, half: Any) -> Any:
        m, layout = self.m, self.out_layout

        def element(*index: Any) -> Any:
            out = _layout.places(layout, index)
            row, column = out["H"].outer, out["W"].outer
            tile = self.at(layout, index, H=row // m, W=column // m)

            def term(k: int) -> Any:
                return half(row % m, k, *tile)

            return _choose(column % m, self.matrices.a, rows_of_output, term)

        shape = self.shape(layout, self.kernel["O"], **self.places)
        return te.compute(shape, element, name="conv2d_winograd")


def _choose(index: Any, matrix: np.ndarray, rows: Any, term: Callable[[int], Any]) -> Any:
    """Row `index` of a matrix times terms: one formula for each row, chosen by a Select."""
    *first, found = rows(matrix, [term(k) for k in range(matrix.shape[1])])
    for number, row in reversed(list(enumerate(first))):
        found = te.Select(index == number, row, found)
    return found


def _window(op: OpDecl, rows: Any, columns: Any) -> int:
    """The width of a square window."""
    if as_int(rows) is None or as_int(rows) != as_int(columns):
        refuse(op, f"a window of {rows} x {columns} is not square, or not known")
    return int(as_int(rows) or 0)

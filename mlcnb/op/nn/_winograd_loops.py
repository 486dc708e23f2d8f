"""The loop nest of a Winograd convolution: five blocks after the padding.

input_rows[eps, …]       = B^T d            data_pack[eps, nu, …] = (B^T d) B
bgemm[eps, nu, …]       += data_pack[eps, nu, …] * U[eps, nu, …]
inverse_rows[row, nu, …] = A^T bgemm        conv2d_winograd[…]    = (A^T bgemm) A
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb import te
from mlcnb.ir.prim_ops import cast, const
from mlcnb.op import _layout
from mlcnb.op._accumulate import accumulator, rounded
from mlcnb.op._layout import Place
from mlcnb.op.manipulate.pad import pad_constant
from mlcnb.op.nn._conv_loops import dense_channels, reblock
from mlcnb.tir.winograd import Matrices, choose, matrices, rows_of_input, rows_of_output


class Loops:
    """The loop nest: every stage has the tile's row eps and column nu, then a layout's axes.

    In `input_rows` the columns of the image are not in tiles yet: neighbours share them.
    """

    def __init__(self, op: Any, data: Any, weight: Any) -> None:
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
        """The image with zeros around it, to whole tiles."""
        amount = self.op.widths(self.sizes, self.kernel)
        widths = [amount.get(a.letter, (0, 0)) for a in _layout.axes_in(self.op.data_layout)]
        zero = const(0, data.dtype)
        return pad_constant(data, widths, zero, "pad_temp")

    def result(self) -> Any:
        """All stages, one after the other; the last one in the result's dtype."""
        kind = str(self.out_kind)
        return rounded(
            self.output(self.inverse_rows(self.bgemm(self.data_pack()))), kind, "conv_cast"
        )

    def shape(self, layout: str, channels: Any, **places: Any) -> tuple[Any, ...]:
        """Sizes in a layout, by default one place for each tile."""
        found = {"N": self.sizes["N"], "C": channels, **self.tiles, **places}
        return _layout.shape_in(layout, found)

    def at(self, layout: str, index: Sequence[Any], **changed: Any) -> tuple[Any, ...]:
        """`index` in a layout, with other places in some dimensions."""
        found = _layout.places(layout, index)
        found.update({c: Place(place) for c, place in changed.items()})
        return _layout.index_in(layout, found)

    def data_pack(self) -> Any:
        """The transformed inputs: their rows first, shared by neighbours, then their columns."""
        layout, b, m = self.op.data_layout, self.matrices.b, self.m
        columns = self.tiles["W"] * m + (self.alpha - m)

        def rows(eps: Any, *index: Any) -> Any:
            tile = _layout.places(layout, index)["H"].outer

            def row(k: int) -> Any:
                return cast(self.kind, self.data(*self.at(layout, index, H=tile * m + k)))

            return choose(eps, b, rows_of_input, row)

        def pack(eps: Any, nu: Any, *index: Any) -> Any:
            tile = _layout.places(layout, index)["W"].outer

            def column(k: int) -> Any:
                return half(eps, *self.at(layout, index, W=tile * m + k))

            return choose(nu, b, rows_of_input, column)

        shape = self.shape(layout, self.sizes["C"])
        wide = self.shape(layout, self.sizes["C"], W=columns)
        half = te.compute((self.alpha, *wide), rows, name="input_rows")
        return te.compute((self.alpha, self.alpha, *shape), pack, name="data_pack")

    def bgemm(self, packed: Any) -> Any:
        """For every place of the tile a product over the input channels, those of the group."""
        layout, kernel = self.op.data_layout, self.op.kernel_layout
        channels = dense_channels(self.op, self.kernel)
        axes = [axis for axis in channels[:2] if axis is not None]

        def element(eps: Any, nu: Any, *index: Any) -> Any:
            out = _layout.places(self.out_layout, index)
            there = {**out, "C": channels.data(out["C"])}
            v = packed(eps, nu, *_layout.index_in(layout, there))
            channel = reblock(out["C"], self.out_layout, "C", kernel, "O")
            found = {"A": Place(eps), "B": Place(nu), "O": channel, "I": channels.weight}
            u = self.weight(*_layout.index_in(kernel, found))
            return te.sum(v * cast(self.kind, u), axis=axes)

        shape = self.shape(self.out_layout, self.kernel["O"])
        return te.compute((self.alpha, self.alpha, *shape), element, name="bgemm")

    def inverse_rows(self, product: Any) -> Any:
        """The products transformed back along the rows of tiles."""

        def element(row: Any, nu: Any, *index: Any) -> Any:
            return choose(row, self.matrices.a, rows_of_output, lambda k: product(k, nu, *index))

        shape = self.shape(self.out_layout, self.kernel["O"])
        return te.compute((self.m, self.alpha, *shape), element, name="inverse_rows")

    def output(self, half: Any) -> Any:
        """Transformed back along the columns too; tiles put together."""
        m, layout = self.m, self.out_layout

        def element(*index: Any) -> Any:
            out = _layout.places(layout, index)
            row, column = out["H"].outer, out["W"].outer
            tile = self.at(layout, index, H=row // m, W=column // m)

            def term(k: int) -> Any:
                return half(row % m, k, *tile)

            return choose(column % m, self.matrices.a, rows_of_output, term)

        shape = self.shape(layout, self.kernel["O"], **self.places)
        return te.compute(shape, element, name="conv2d_winograd")

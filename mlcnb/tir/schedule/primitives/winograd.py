"""winograd: a convolution is computed by fewer multiplications.

for n, o, y, x, c, r, q in T.grid(...):       data_rows, data_tiles:      V[e, u] = B^T d B
    with T.block("Y"):                        weight_rows, weight_tiles:  U[e, u] = G w G^T
        Y[n, o, y, x] += (              ->    products:                   M[e, u] += V[e, u] U[e, u]
            X[n, c, y + r, x + q]             result_rows, Y:             Y = A^T M A
            * W[o, c, r, q])

Tiles of 4 x 4 results of a 3 x 3 window take 36 products for each channel, not 144. Tiles are
numbered over the image and the batch; in what is new, channels lie last. Sums are formed in
another order and over other numbers: results are equal up to rounding, and the bound of the error
is larger than that of direct loops (`mlcnb.tir.winograd`). An infinity, or not a number, in one
input reaches all results of its tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from mlcnb.arith.reading import of
from mlcnb.core.errors import MLCError
from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.analysis.access import complete_regions
from mlcnb.tir.buffer import Buffer, BufferLoad, decl_buffer
from mlcnb.tir.functor import substitute
from mlcnb.tir.reducers import matched_update
from mlcnb.tir.schedule.edit.nests import looped, own_nest
from mlcnb.tir.schedule.legality.dependence import why_inputs_change, why_readers_mind
from mlcnb.tir.schedule.legality.promises import why_not_reduction, why_offset
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, BufferStore, IterType, IterVar, Stmt
from mlcnb.tir.winograd import Matrices, choose, matrices, rows_of_input, rows_of_output

Axes = tuple[IterVar, ...]


@does(near="rfactor", tries={"tile_size": (2, 4)})
def winograd(state: State, block: Block, tile_size: int = 4) -> Change:
    """Compute a convolution by Winograd's minimal filtering.

    Args:
        state: the program.
        block: a sum of products of an image, read at `y + r` and `x + q`, and of weights, read at
            `r` and `q`: a square window of stride 1 over two dimensions, in float32 or float64. Its
            axes are its loops, in any order, and so are the dimensions of what it reads.
        tile_size: m, results of a tile in each direction; m + window - 1 is 2, 4, 6 or 8.

    Returns:
        The new blocks, in the order of the program: the image transformed (rows, then columns), the
        weights (rows, then columns), the products, their rows transformed back. The handle of the
        old block stands for the one that stores the result.

    Raises:
        ScheduleError: the block is no such convolution, or there are no tiles of that size.
    """
    found = _Convolution.of(state, block)
    try:
        numbers = matrices(tile_size, found.window)
    except MLCError as error:
        raise state.refusal(f"winograd: {error.message}", block) from None
    stages = _Stages(found, tile_size, numbers)
    edit = state.edit()
    *new, (nest, last) = stages.made
    edit.before(found.top, *(stmt for stmt, _ in new))
    edit.put(found.top, nest)
    edit.became(block, last)
    edit.allocate(state.tree.scope(block), *stages.buffers)
    return Change.of(edit, [x for _, x in new])


@dataclass(frozen=True)
class _Convolution:
    """What the axes of a convolution's block are.

    Attributes:
        block, top: the block, and the outermost of its loops.
        data, weight: what it multiplies.
        batch, outer, inner: axes of the image alone, of the weights alone, and those summed up.
        places, taps: row and column of the result, and of the window.
    """

    block: Block
    top: Stmt
    data: BufferLoad
    weight: BufferLoad
    batch: Axes
    outer: Axes
    inner: Axes
    places: Axes
    taps: Axes

    @staticmethod
    def of(state: State, block: Block) -> _Convolution:
        """What a block computes.

        Raises:
            ScheduleError: something else than such a convolution.
        """
        tree = state.tree
        reason = why_not_reduction(tree, block) or why_offset(block)
        reason = reason or why_inputs_change(tree, block) or why_readers_mind(tree, block)
        top = own_nest(tree, block)
        if reason is None and top is None:
            reason = "its loops are not its axes any more"
        found = None if reason else _matched(block, top)
        if isinstance(found, _Convolution):
            return found
        raise state.refusal(
            f"winograd: {name_of(block)} is no convolution to be computed by tiles: "
            f"{reason or found}",
            block,
            hint="a square window of stride 1 over two dimensions; before its loops are changed",
        )

    @property
    def store(self) -> BufferStore:
        """What the block does at each step."""
        assert isinstance(self.block.body, BufferStore)
        return self.block.body

    @property
    def window(self) -> int:
        """Rows and columns of the window."""
        return p.as_int(self.taps[0].dom.extent) or 0


def _matched(block: Block, top: Stmt | None) -> _Convolution | str:
    """The parts of a convolution, or why a block is none."""
    body = block.body
    update = matched_update(body) if isinstance(body, BufferStore) else None
    if update is None or update[0].name != "sum" or not isinstance(update[1], e.Mul):
        return "it is no sum of products"
    loads = update[1].a, update[1].b
    if not all(isinstance(x, BufferLoad) and x.predicate is None for x in loads):
        return "it multiplies more than what it reads"
    assert isinstance(body, BufferStore)
    dtypes = {str(x.buffer.dtype) for x in (*loads, body)}  # type: ignore[union-attr]
    if len(dtypes) != 1 or not dtypes <= {"float32", "float64"}:
        return f"it is one of {' and '.join(sorted(dtypes))}, not of float32 or float64 alone"
    axes = {v.var: v for v in block.iter_vars}
    for data, weight in (loads, loads[::-1]):
        windows = [_window(i, axes) for i in data.indices]  # type: ignore[attr-defined]
        pairs = [x for x in windows if x is not None]
        if len(pairs) == 2:
            return _by_axes(block, top, data, weight, pairs, axes)  # type: ignore[arg-type]
    return "no operand is read at sums of two axes (y + r, x + q) in two dimensions"


def _window(index: e.PrimExpr, axes: Mapping[e.Var, IterVar]) -> tuple[IterVar, IterVar] | None:
    """(place, tap) of an index that is their sum, and maybe a number."""
    found = of(index)
    known = [axes[x] for x in found.terms if x in axes]
    kinds = {v.iter_type: v for v in known}
    if len(known) != 2 or len(found.terms) != 2 or set(found.terms.values()) != {1}:
        return None
    if set(kinds) != {IterType.SPATIAL, IterType.REDUCE}:
        return None
    return kinds[IterType.SPATIAL], kinds[IterType.REDUCE]


def _by_axes(
    block: Block, top: Stmt | None, data: BufferLoad, weight: BufferLoad,
    pairs: Sequence[tuple[IterVar, IterVar]], axes: Mapping[e.Var, IterVar],
) -> _Convolution | str:  # fmt: skip
    """The axes told apart by what they index."""
    places, taps = zip(*pairs, strict=True)
    sizes = {p.as_int(v.dom.extent) for v in taps}
    if len({*places, *taps}) != 4 or len(sizes) != 1 or None in sizes:
        return "the window is not square, or its size is not known"
    rest = [v for v in block.iter_vars if v not in (*places, *taps)]
    image, kernel = (
        [axes.get(of(i).only_atom) for i in x.indices if _window(i, axes) is None]
        for x in (data, weight)
    )
    if None in image or None in kernel or not set(taps) <= set(kernel):
        return "it reads its operands by other indices than axes"
    summed = {v for v in rest if v.iter_type is IterType.REDUCE}
    if not summed <= set(image) & set(kernel):
        return "it sums up over an axis that one of its operands does not have"
    both = [v for v in rest if v not in summed and v in image and v in kernel]
    if both or any(v in image or v in places for v in kernel if v and v not in (*taps, *summed)):
        names = ", ".join(v.var.name for v in both) or "a place"
        return f"{names} is an axis of image and weights: each group would need its own products"
    batch = tuple(v for v in rest if v not in summed and v in image)
    outer = tuple(v for v in rest if v not in summed and v not in image)
    inner = tuple(v for v in rest if v in summed)
    return _Convolution(block, top, data, weight, batch, outer, inner, places, taps)  # type: ignore[arg-type]


class _Stages:
    """The blocks, each in loops of its own, and the buffers between them."""

    def __init__(self, conv: _Convolution, tile: int, numbers: Matrices) -> None:
        self.conv, self.tile, self.numbers = conv, tile, numbers
        self.alpha = len(numbers.b)
        self.dtype = str(conv.store.buffer.dtype)
        self.kind = conv.places[0].var.dtype
        self.rows, self.columns = (p.ceildiv(v.dom.extent, tile) for v in conv.places)
        self.made: list[tuple[Stmt, Block]] = []
        self.buffers: list[Buffer] = []
        self._result(self._back(self._products(self._image(), self._weights())))

    def axes(self, *given: tuple[str, Any]) -> Axes:
        """New spatial axes, by name and extent."""
        return tuple(
            IterVar(e.Range(p.const(0, self.kind), p.fitted(self.kind, n)), e.Var(x, self.kind))
            for x, n in given
        )

    def like(self, old: Axes, kind: IterType = IterType.SPATIAL) -> Axes:
        """New axes with the names and extents of others."""
        return tuple(
            replace(v, var=e.Var(v.var.name, v.var.dtype), iter_type=kind, thread_tag="")
            for v in old
        )

    def stage(self, name: str, axes: Axes, value: Callable[..., Any], summed: Axes = ()) -> Buffer:
        """A block that stores `value` of all axes, or its sum over some, in a new buffer."""
        buffer = decl_buffer([v.dom.extent for v in axes], self.dtype, name)
        self.buffers.append(buffer)
        at = tuple(v.var for v in axes)
        found = value(*at, *(v.var for v in summed))
        init = None
        if summed:
            init = BufferStore(buffer, p.const(0, self.dtype), at)
            found = BufferLoad(buffer, at) + found
        body = BufferStore(buffer, found, at)
        self.keep(Block((*axes, *summed), (), (), name, body, init))
        return buffer

    def keep(self, block: Block) -> None:
        """Another block of the program."""
        block = complete_regions(block)
        self.made.append((looped(block), block))

    def _weights(self) -> Buffer:
        """U = G w G^T: channels that are summed up, then those of the result."""
        conv, g = self.conv, self.numbers.g
        taps = [v.var for v in conv.taps]
        inner, outer = self.like(conv.inner), self.like(conv.outer)
        channels = [v.var for v in (*conv.inner, *conv.outer)]

        def rows(row: Any, tap: Any, *at: Any) -> Any:
            values = {**dict(zip(channels, at, strict=True)), taps[1]: tap}
            return choose(
                row, g, rows_of_input,
                lambda k: substitute(conv.weight, {**values, taps[0]: p.const(k, self.kind)}),
            )  # fmt: skip

        def columns(row: Any, column: Any, *at: Any) -> Any:
            return choose(
                column, g, rows_of_input, lambda k: self.load(half, row, k, *at)
            )  # fmt: skip

        first = self.axes(("row", self.alpha), ("tap", conv.window))
        half = self.stage("weight_rows", (*first, *inner, *outer), rows)
        inner, outer = self.like(conv.inner), self.like(conv.outer)
        first = self.axes(("row", self.alpha), ("column", self.alpha))
        return self.stage("weight_tiles", (*first, *inner, *outer), columns)

    def _image(self) -> Buffer:
        """V = B^T d B: tiles of all images, then the channels. Columns of neighbours are shared."""
        conv, b, m = self.conv, self.numbers.b, self.tile
        inner, batch = self.like(conv.inner), self.like(conv.batch)
        others = [v.var for v in (*conv.batch, *conv.inner)]
        (y, x), (r, q) = ([v.var for v in pair] for pair in (conv.places, conv.taps))
        ends = [p.add(v.dom.extent, conv.window - 1) for v in conv.places]
        past = p.as_int(self.rows * m - m - ends[0])
        ragged = p.as_int(conv.places[1].dom.extent % m) != 0
        zero = p.const(0, self.kind)

        def rows(row: Any, *at: Any) -> Any:
            *images, tile, column = at[: len(batch) + 2]
            values = {**dict(zip(others, (*images, *at[len(batch) + 2 :]), strict=True)), x: column}

            def element(k: int) -> Any:
                place = p.add(p.multiply(tile, m), k)
                found = substitute(conv.data, {**values, y: place, r: zero, q: zero})
                inside = [p.less(column, ends[1])] if ragged else []
                if past is None or past + k >= 0:
                    inside.insert(0, p.less(place, ends[0]))
                if not inside:
                    return found
                return p.if_then_else(p.all_of(*inside), found, p.const(0, self.dtype))

            return choose(row, b, rows_of_input, element)

        width = p.add(p.multiply(self.columns, m), self.alpha - m)
        tiles = self.axes(("tile", self.rows), ("x", width))
        first = self.axes(("row", self.alpha))
        half = self.stage("data_rows", (*first, *batch, *tiles, *inner), rows)

        def columns(row: Any, column: Any, tile: Any, *at: Any) -> Any:
            *images, t, s = self.parted(tile)
            return choose(
                column, b, rows_of_input,
                lambda k: self.load(half, row, *images, t, p.add(p.multiply(s, m), k), *at),
            )  # fmt: skip

        first = self.axes(("row", self.alpha), ("column", self.alpha), ("tile", self.count()))
        return self.stage("data_tiles", (*first, *self.like(conv.inner)), columns)

    def _products(self, image: Buffer, weights: Buffer) -> Buffer:
        """M[row, column] += V[row, column] * U[row, column]: matrices of tiles and channels."""
        conv = self.conv
        outer, inner = self.like(conv.outer), self.like(conv.inner, IterType.REDUCE)

        def product(row: Any, column: Any, tile: Any, *at: Any) -> Any:
            out, summed = at[: len(outer)], at[len(outer) :]
            return self.load(image, row, column, tile, *summed) * self.load(
                weights, row, column, *summed, *out
            )

        first = self.axes(("row", self.alpha), ("column", self.alpha), ("tile", self.count()))
        return self.stage("products", (*first, *outer), product, inner)

    def _back(self, products: Buffer) -> Buffer:
        """A^T M."""

        def rows(row: Any, column: Any, *at: Any) -> Any:
            return choose(
                row, self.numbers.a, rows_of_output,
                lambda k: self.load(products, k, column, *at),
            )  # fmt: skip

        first = self.axes(("row", self.tile), ("column", self.alpha), ("tile", self.count()))
        return self.stage("result_rows", (*first, *self.like(self.conv.outer)), rows)

    def _result(self, half: Buffer) -> None:
        """(A^T M) A, stored where the convolution stored it."""
        conv, m = self.conv, self.tile
        kept = tuple(v for v in conv.block.iter_vars if v.iter_type is IterType.SPATIAL)
        y, x = (v.var for v in conv.places)
        tile = self.joined(*(v.var for v in conv.batch), y // m, x // m)
        out = [v.var for v in conv.outer]
        value = choose(
            x % m, self.numbers.a, rows_of_output,
            lambda k: self.load(half, y % m, k, tile, *out),
        )  # fmt: skip
        body = replace(conv.store, value=value)
        self.keep(replace(conv.block, iter_vars=kept, body=body, init=None))

    def load(self, buffer: Buffer, *at: Any) -> BufferLoad:
        """An element, at expressions or numbers."""
        return BufferLoad(
            buffer, tuple(p.const(i, self.kind) if isinstance(i, int) else i for i in at)
        )

    @property
    def sizes(self) -> list[Any]:
        """Images, rows and columns of tiles."""
        return [*(v.dom.extent for v in self.conv.batch), self.rows, self.columns]

    def count(self) -> Any:
        """Tiles of all images."""
        return reduce(p.multiply, self.sizes)

    def joined(self, *at: Any) -> Any:
        """The number of a tile among those of all images."""
        found: Any = p.const(0, self.kind)
        for i, size in zip(at, self.sizes, strict=True):
            if p.as_int(size) != 1:
                found = found * size + i
        return found

    def parted(self, tile: Any) -> list[Any]:
        """Image, row and column of a tile, by its number."""
        found, below, one = list[Any](), p.const(1, self.kind), p.const(1, self.kind)
        for number, size in reversed(list(enumerate(self.sizes))):
            at = p.const(0, self.kind) if p.as_int(size) == 1 else tile // below
            is_outermost = p.as_int(reduce(p.multiply, self.sizes[:number], one)) == 1
            found.append(at if is_outermost else at % size)
            below = below * size
        return found[::-1]

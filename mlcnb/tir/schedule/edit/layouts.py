"""Layouts: how the indices of a buffer, or the axes of a block, become others.

    lambda i, j: (i // 4, j, i % 4)          16 x 8   ->   4 x 8 x 4

A layout is a `tir.IndexMap`, or a function of index expressions that makes one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from mlcnb.arith.extremes import extremes
from mlcnb.arith.reading import Context, of, simplified
from mlcnb.arith.sum import Bounds, Sum
from mlcnb.core.errors import MLCError
from mlcnb.core.node import Node
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import structural_equal
from mlcnb.tir.buffer import Buffer, BufferRegion
from mlcnb.tir.index_map import IndexMap
from mlcnb.tir.schedule.record.handles import text_of
from mlcnb.tir.schedule.record.state import State


class Layout:
    """An index map over a shape: the shape that it gives, its inverse, what it leaves unused.

    `unused` is a condition on the variables `inverse.initial_indices`, false where nothing is.
    Where the inverse cannot be written down, it is None (refused if `needs_inverse`); the map is
    injective all the same, which was tried for every index, or is assumed.
    """

    def __init__(
        self,
        state: State,
        name: str,
        given: Any,
        shape: Sequence[e.PrimExpr],
        where: Node,
        assumed: bool = False,
        needs_inverse: bool = False,
    ) -> None:
        kind = shape[0].dtype if shape else "int32"
        if not (callable(given) or isinstance(given, IndexMap)):
            raise state.refusal(
                f"{name}: {given!r} is no function of indices, and no IndexMap", where
            )
        self.map = given if isinstance(given, IndexMap) else _made(given, len(shape), kind)
        self.kind = kind
        if not self.map.final_indices:
            raise state.refusal(f"{name}: the index map gives no index", where)
        self.inverse: IndexMap | None = None
        self.unused: e.PrimExpr = p.const(False)
        try:
            self.shape = tuple(p.fitted(kind, x) for x in self.map.map_shape(shape))
            self.inverse, self.unused = self.map.non_surjective_inverse(shape)
        except MLCError as error:
            has_shape = hasattr(self, "shape")
            collision = self.map.collision(shape) if has_shape and not assumed else None
            if has_shape and not needs_inverse and (assumed or collision == ()):
                return
            reason, hint = error.message, error.hint
            if collision:
                one, other, both = map(list, collision)
                reason, hint = f"it takes {one} and {other} both to {both}", None
            raise state.refusal(
                f"{name}: the index map is no layout of {_texts(shape)}: {reason}", where, hint
            ) from error

    def old_at(self, new: Sequence[e.PrimExpr]) -> list[Sum]:
        """The old indices where the new ones are given; the inverse must be known."""
        assert self.inverse is not None
        return [of(x, self._at(new)) for x in self.inverse.final_indices]

    def unused_at(self, new: Sequence[e.PrimExpr]) -> e.PrimExpr:
        """The condition that these new indices stand for nothing."""
        return self.unused if self.inverse is None else simplified(self.unused, self._at(new))

    def padding_at(self, new: Sequence[e.PrimExpr]) -> e.PrimExpr:
        """`unused_at`, told by tiles: 14 <= i * 4 + j is the end of the last of 4 tiles of 4."""
        if self.inverse is None:
            return self.unused
        return simplified(_by_tiles(self.unused, self.inverse, self.shape), self._at(new))

    def _at(self, new: Sequence[e.PrimExpr]) -> Context:
        assert self.inverse is not None
        return Context(values=dict(zip(self.inverse.initial_indices, map(of, new), strict=True)))

    @property
    def pads(self) -> bool:
        """True if some new indices stand for nothing."""
        return not p.is_const(self.unused, 0)

    @property
    def stays(self) -> bool:
        """True if each new index is the old one: views of the buffer stay as they are."""
        return structural_equal(self.map.initial_indices, tuple(self.map.final_indices))

    def indices(
        self, old: Sequence[e.PrimExpr], known: Mapping[e.Var, Bounds]
    ) -> tuple[e.PrimExpr, ...]:
        """The new indices where the old ones are given."""
        within = Context(known)
        return tuple(x.expr(self.kind) for x in self._mapped([of(i, within) for i in old], known))

    def _mapped(self, old: Sequence[Sum], known: Mapping[e.Var, Bounds]) -> list[Sum]:
        values = dict(zip(self.map.initial_indices, old, strict=True))
        computed = {v: _without_units(x, known) for v, x in values.items()}
        return [
            of(x, Context(known, values if isinstance(x, e.Var) else computed))
            for x in self.map.final_indices
        ]

    def region(self, r: BufferRegion, new: Buffer, known: Mapping[e.Var, Bounds]) -> BufferRegion:
        """The box of the new buffer that holds a box of the old one."""
        inner: dict[e.Var, tuple[Sum, Sum]] = {}
        starts = []
        bounds = dict(known)
        for side in r.region:
            width = of(side.extent).shifted(-1)
            start = of(side.min, Context(known))
            if width.value != 0:
                place = e.Var("place", side.min.dtype)
                inner[place] = (Sum(0), width)
                bounds[place] = (0, width.value)
                start = start.plus(Sum(0, {place: 1}))
            starts.append(start)
        sides = []
        for x, extent in zip(self._mapped(starts, bounds), new.shape, strict=True):
            ends = extremes(x, inner, bounds)
            low, high = ends or (Sum(0), of(extent).shifted(-1))
            count = high.minus(low).shifted(1)
            sides.append(e.Range(low.expr(self.kind), count.expr(self.kind)))
        return BufferRegion(new, tuple(sides))


def _without_units(x: Sum, known: Mapping[e.Var, Bounds]) -> Sum:
    """0 for an axis that is always 0: in `v_i * n + v_j` nothing else would say so."""
    return Sum(0) if known.get(x.only_atom) == (0, 0) else x


def _made(given: Any, ndim: int, kind: str) -> IndexMap:
    return IndexMap.from_func(given, ndim, index_dtype=kind)


def _texts(shape: Sequence[e.PrimExpr]) -> str:
    return "[" + ", ".join(map(text_of, shape)) + "]"


def with_separators(method: Callable[..., None]) -> Callable[..., None]:
    """transform_layout for maps that hold `IndexMap.AXIS_SEPARATOR`: set_axis_separator follows.

    lambda i, j: [i, IndexMap.AXIS_SEPARATOR, j]     two steps, as in TVM
    """

    @wraps(method)
    def transform_layout(
        self: Any, block: Any, buffer: Any, index_map: Any, *args: Any, **kw: Any
    ) -> None:
        separators: list[int] = []

        @wraps(index_map)
        def plain(*indices: e.Var, **behind: e.Var) -> list[Any]:
            final = index_map(*indices, **behind)
            given = list(final) if isinstance(final, list | tuple) else [final]
            places = [n for n, x in enumerate(given) if x is IndexMap.AXIS_SEPARATOR]
            separators[:] = [place - n for n, place in enumerate(places)]
            return [x for x in given if x is not IndexMap.AXIS_SEPARATOR]

        method(self, block, buffer, plain if callable(index_map) else index_map, *args, **kw)
        if separators:
            name = buffer.name if isinstance(buffer, Buffer) else buffer
            self.set_axis_separator(block, name, separators)

    return transform_layout


def _by_tiles(unused: e.PrimExpr, inverse: IndexMap, shape: Sequence[e.PrimExpr]) -> e.PrimExpr:
    """14 <= i * 4 + j in a layout of 4 x 4: i is the last tile, 3, and j is 2 or more."""
    last: dict[e.Var, int] = {}
    for v, n in zip(inverse.initial_indices, shape, strict=True):
        if (count := of(n).value) is not None:
            last[v] = count - 1
    match unused:
        case e.Or(a, b):
            return p.logical_or(_by_tiles(a, inverse, shape), _by_tiles(b, inverse, shape))
        case e.LE(a, b):
            tiled = _last_tile(of(a).value, of(b), last, b.dtype)
            return unused if tiled is None else tiled
    return unused


def _last_tile(
    first: int | None, place: Sum, last: Mapping[e.Var, int], kind: Any
) -> e.PrimExpr | None:
    """first <= place where place = tile * size + rest and only the last tile is not full."""
    if first is None or place.const or len(place.terms) < 2:
        return None
    tile, size = max(place.terms.items(), key=lambda term: term[1])
    rest = Sum(0, place.without(tile).terms)
    within = rest.bounds({v: (0, n) for v, n in last.items()}) == (0, size - 1)
    if not within or not isinstance(tile, e.Var) or last.get(tile) != first // size:
        return None
    if not first % size:
        return None
    left = p.less_equal(p.const(first % size, kind), rest.expr(kind))
    return p.logical_and(p.equal(tile, p.const(first // size, kind)), left)

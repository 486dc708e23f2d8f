"""Layouts: how the indices of a buffer, or the axes of a block, become others.

    lambda i, j: (i // 4, j, i % 4)          16 x 8   ->   4 x 8 x 4

A layout is a `tir.IndexMap`, or a function of index expressions that makes one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.node import Node
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.buffer import Buffer, BufferRegion
from mlcnb.tir.index_map import IndexMap
from mlcnb.tir.schedule.affine import Affine, Bounds
from mlcnb.tir.schedule.reading import Context, of
from mlcnb.tir.schedule.regions import extremes
from mlcnb.tir.schedule.state import State


class Layout:
    """An index map over a shape: the shape that it gives, its inverse, what it leaves unused.

    `unused` is a condition on the variables `inverse.initial_indices`, false where nothing is.
    """

    def __init__(
        self, state: State, name: str, given: Any, shape: Sequence[e.PrimExpr], where: Node
    ) -> None:
        kind = shape[0].dtype if shape else "int32"
        self.map = given if isinstance(given, IndexMap) else _made(given, len(shape), kind)
        self.kind = kind
        try:
            self.shape = tuple(p.cast(kind, x) for x in self.map.map_shape(shape))
            self.inverse, self.unused = self.map.non_surjective_inverse(shape)
        except MLCError as error:
            raise state.refusal(
                f"{name}: the index map is no layout of {list(map(_text, shape))}: {error.message}",
                where,
                hint=error.hint,
            ) from error

    @property
    def pads(self) -> bool:
        """True if some new indices stand for nothing."""
        return not p.is_const(self.unused, 0)

    def indices(
        self, old: Sequence[e.PrimExpr], known: Mapping[e.Var, Bounds]
    ) -> tuple[e.PrimExpr, ...]:
        """The new indices where the old ones are given."""
        return tuple(x.expr(self.kind) for x in self._mapped([of(i) for i in old], known))

    def _mapped(self, old: Sequence[Affine], known: Mapping[e.Var, Bounds]) -> list[Affine]:
        values = dict(zip(self.map.initial_indices, old, strict=True))
        context = Context(known, values)
        return [of(x, context) for x in self.map.final_indices]

    def region(self, r: BufferRegion, new: Buffer, known: Mapping[e.Var, Bounds]) -> BufferRegion:
        """The box of the new buffer that holds a box of the old one."""
        inner: dict[e.Var, tuple[Affine, Affine]] = {}
        starts = []
        bounds = dict(known)
        for side in r.region:
            width = of(side.extent).shifted(-1)
            start = of(side.min, Context(known))
            if width.value != 0:
                place = e.Var("place", side.min.dtype)
                inner[place] = (Affine(0), width)
                bounds[place] = (0, width.value)
                start = start.plus(Affine(0, {place: 1}))
            starts.append(start)
        sides = []
        for x, extent in zip(self._mapped(starts, bounds), new.shape, strict=True):
            ends = extremes(x, inner, bounds)
            low, high = ends or (Affine(0), of(extent).shifted(-1))
            count = high.minus(low).shifted(1)
            sides.append(e.Range(low.expr(self.kind), count.expr(self.kind)))
        return BufferRegion(new, tuple(sides))


def _made(given: Any, ndim: int, kind: str) -> IndexMap:
    return IndexMap.from_func(given, ndim, index_dtype=kind)


def _text(x: e.PrimExpr) -> str:
    known = p.as_int(x)
    return str(x) if known is None else str(known)


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
        def plain(*indices: e.Var) -> list[Any]:
            final = index_map(*indices)
            given = list(final) if isinstance(final, list | tuple) else [final]
            places = [n for n, x in enumerate(given) if x is IndexMap.AXIS_SEPARATOR]
            separators[:] = [place - n for n, place in enumerate(places)]
            return [x for x in given if x is not IndexMap.AXIS_SEPARATOR]

        method(self, block, buffer, plain if callable(index_map) else index_map, *args, **kw)
        if separators:
            name = buffer.name if isinstance(buffer, Buffer) else buffer
            self.set_axis_separator(block, name, separators)

    return transform_layout

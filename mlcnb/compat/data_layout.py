"""TVM's objects for layouts in letters, found as `tir.layout` and `tir.bijective_layout`.

layout("NCHW16c").index_of("c")                                     4
bijective_layout("NCHW", "NCHW16c").forward_shape((1, 30, 7, 7))    (1, 2, 7, 7, 16)

What a layout means stands in `mlcnb.op._layout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.arith import simplify
from mlcnb.core.errors import MLCError
from mlcnb.ir import prim_ops as p
from mlcnb.op import _layout

#: what TVM calls a layout that says nothing
_UNDEFINED = ("", "__undef__")


@dataclass(frozen=True, slots=True)
class Layout:
    """The axes of a tensor, in order: a capital letter for a dimension, 16c for blocks of one."""

    name: str
    dtype: str = "int32"

    def __len__(self) -> int:
        return 0 if self.name in _UNDEFINED else len(_layout.axes_in(self.name))

    def __getitem__(self, index: int) -> str:
        return _layout.axes_in(self.name)[index].letter

    def __contains__(self, axis: str) -> bool:
        return self.index_of(axis) >= 0

    def __str__(self) -> str:
        return self.name

    def index_of(self, axis: str) -> int:
        """Where an axis stands; -1 if it does not."""
        letters = [self[n] for n in range(len(self))]
        return letters.index(axis) if axis in letters else -1

    def factor_of(self, axis: str) -> int:
        """The size of the blocks of a dimension; -1 where it has none."""
        return (_layout.block_of(self.name, axis.upper()) or -1) if axis in self else -1


@dataclass(frozen=True, slots=True)
class BijectiveLayout:
    """How indices and shapes in one layout become those in another."""

    src_layout: Layout
    dst_layout: Layout

    def forward_index(self, index: Sequence[Any]) -> tuple[Any, ...]:
        """The index in the second layout."""
        return _index(self.src_layout.name, self.dst_layout.name, index)

    def backward_index(self, index: Sequence[Any]) -> tuple[Any, ...]:
        """The index in the first layout."""
        return _index(self.dst_layout.name, self.src_layout.name, index)

    def forward_shape(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """The shape in the second layout; blocks round up."""
        return _shape(self.src_layout.name, self.dst_layout.name, shape)

    def backward_shape(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """The shape in the first layout."""
        return _shape(self.dst_layout.name, self.src_layout.name, shape)


def layout(layout_str: str, dtype: str = "int32") -> Layout:
    """The layout that letters say.

    Raises:
        TypeInferError: the text is no layout.
    """
    if layout_str not in _UNDEFINED:
        _layout.axes_in(layout_str)
    return Layout(layout_str, dtype)


def bijective_layout(src_layout: str | Layout, dst_layout: str | Layout) -> BijectiveLayout | None:
    """From one layout to another; None where they do not name the same dimensions."""
    src, dst = (x if isinstance(x, Layout) else layout(x) for x in (src_layout, dst_layout))
    if src.name in _UNDEFINED or dst.name in _UNDEFINED:
        return None
    if sorted(_layout.letters(src.name)) != sorted(_layout.letters(dst.name)):
        return None
    return BijectiveLayout(src, dst)


def _index(src: str, dst: str, index: Sequence[Any]) -> tuple[Any, ...]:
    given = _as_many(src, index)
    found = {}
    for dim, place in _layout.places(src, given).items():
        whole = _layout.whole(place, _layout.block_of(src, dim))
        found[dim] = _layout.at(whole, _layout.block_of(dst, dim))
    return tuple(simplify(p.as_expr(x)) for x in _layout.index_in(dst, found))


def _shape(src: str, dst: str, shape: Sequence[Any]) -> tuple[Any, ...]:
    given = _as_many(src, shape)
    sizes = _layout.shape_in(dst, _layout.sizes_of(src, given))
    return tuple(simplify(p.as_expr(x)) for x in sizes)


def _as_many(layout_str: str, given: Sequence[Any]) -> list[Any]:
    """One number for each axis, as expressions."""
    if len(given) != len(_layout.axes_in(layout_str)):
        raise MLCError(
            f"{layout_str} has {len(_layout.axes_in(layout_str))} axes, {len(given)} were given"
        )
    return [p.as_expr(x) for x in given]

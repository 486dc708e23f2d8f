"""Layouts: which dimension lies where, and which are cut into blocks.

    "NCHW"      sample, channel, row, column
    "NCHW16c"   the channels in blocks of 16: shape (N, ceil(C / 16), H, W, 16)
    "OIHW4i16o" a kernel whose input and output channels are both in blocks

An upper-case letter is a dimension; a lower-case one, with its size before it, is the place inside
a block of that dimension. A dimension that its block does not divide is filled up with zeros.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from mlcnb.core.errors import TypeInferError
from mlcnb.ir.memory import aligned
from mlcnb.op._dims import refuse, tidy, want_rank, want_same_dtype
from mlcnb.relax.operator import OpDecl


class Axis(NamedTuple):
    """One dimension as it lies in memory: its letter, and for a block the size (else 0)."""

    letter: str
    block: int

    @property
    def dim(self) -> str:
        """The upper-case letter of the dimension that it belongs to."""
        return self.letter.upper()


@cache
def axes_in(layout: str) -> tuple[Axis, ...]:
    """The axes of a layout, outermost first.

    Raises:
        TypeInferError: the text is no layout.
    """
    parts = re.findall(r"(\d*)([A-Za-z])", layout)
    axes = tuple(Axis(letter, int(digits or 0)) for digits, letter in parts)
    upper = [a.letter for a in axes if a.letter.isupper()]
    lower = [a.letter for a in axes if a.letter.islower()]
    good = (
        "".join(d + c for d, c in parts) == layout
        and len(set(upper)) == len(upper)
        and len(set(lower)) == len(lower)
        and {c.upper() for c in lower} <= set(upper)
        and all((a.block > 0) == a.letter.islower() for a in axes)
    )
    if not good or not axes:
        raise TypeInferError(f"{layout!r} is no layout", hint='write "NCHW", or "NCHW16c"')
    return axes


def letters(layout: str) -> str:
    """The dimensions, in order: "NCHW" for "NCHW16c"."""
    return "".join(a.letter for a in axes_in(layout) if a.letter.isupper())


def want_letters(op: OpDecl, in_blocks: bool = True, **wanted: str) -> None:
    """Refuse an operator's layouts that do not name just those dimensions; the keywords are the
    names of its attributes.
    """
    for name, dims in wanted.items():
        layout = getattr(op, name)
        if sorted(letters(layout) if in_blocks else layout) != sorted(dims):
            refuse(op, f"{name} {layout!r} must name {', '.join(dims)}")


def want_tensors(op: Any, data: Any, weight: Any) -> None:
    """Refuse tensors that do not have the dimensions of their layouts, or one dtype."""
    for name, info, layout in (
        ("data", data, op.data_layout),
        ("weight", weight, op.kernel_layout),
    ):
        want_rank(op, f"{name} in {layout}", info, len(axes_in(layout)))
    want_same_dtype(op, data=data, weight=weight)


def block_of(layout: str, dim: str) -> int:
    """The block size of a dimension; 0 where it is not in blocks."""
    return next((a.block for a in axes_in(layout) if a.letter == dim.lower()), 0)


def sizes_of(layout: str, shape: Sequence[Any]) -> dict[str, Any]:
    """Size of each dimension (a blocked one: all its blocks) of a tensor of that shape."""
    sizes: dict[str, Any] = {}
    for axis, extent in zip(axes_in(layout), shape, strict=True):
        sizes[axis.dim] = tidy(sizes.get(axis.dim, 1) * extent)
    return sizes


def shape_in(layout: str, sizes: Mapping[str, Any]) -> tuple[Any, ...]:
    """The shape of a tensor of these sizes in a layout (blocks round up)."""
    shape = []
    for axis in axes_in(layout):
        block = block_of(layout, axis.dim)
        if axis.block:
            shape.append(axis.block)
        else:
            size = sizes[axis.dim]
            shape.append(tidy((size + (block - 1)) // block) if block else size)
    return tuple(shape)


class Place(NamedTuple):
    """Where in a dimension: the number of the block (or the index itself), and the place inside."""

    outer: Any
    inner: Any = None


def at(index: Any, block: int) -> Place:
    """An index of a dimension as a place in blocks of that size (0: none)."""
    return Place(index // block, index % block) if block else Place(index)


def places(layout: str, index: Sequence[Any]) -> dict[str, Place]:
    """What a tensor's index says of each dimension."""
    found: dict[str, Place] = {}
    for axis, i in zip(axes_in(layout), index, strict=True):
        found[axis.dim] = Place(found[axis.dim].outer, i) if axis.block else Place(i)
    return found


def whole(place: Place, block: int) -> Any:
    """The index in a dimension that a place means."""
    return place.outer * block + place.inner if block else place.outer


def index_in(layout: str, found: Mapping[str, Place]) -> tuple[Any, ...]:
    """The index of a tensor in a layout."""
    axes = axes_in(layout)
    return tuple(found[a.dim].inner if a.block else found[a.dim].outer for a in axes)


def to_plain(array: np.ndarray, layout: str, order: str, sizes: Mapping[str, int]) -> np.ndarray:
    """An array in `layout`, with its dimensions in `order`, unblocked, cropped to `sizes`."""
    axes = axes_in(layout)
    perm = []
    for dim in order:
        perm += [i for i, a in enumerate(axes) if a.letter == dim]
        perm += [i for i, a in enumerate(axes) if a.letter == dim.lower()]
    full = sizes_of(layout, array.shape)
    merged = array.transpose(perm).reshape([full[dim] for dim in order])
    return merged[tuple(slice(0, sizes.get(dim, full[dim])) for dim in order)]


def from_plain(array: np.ndarray, order: str, layout: str) -> np.ndarray:
    """An unblocked array with its dimensions in `order`, brought to `layout`, zeros filled in."""
    blocks = [block_of(layout, dim) for dim in order]
    fill = [(0, -d % b if b else 0) for d, b in zip(array.shape, blocks, strict=True)]
    padded = np.pad(array, fill) if any(after for _, after in fill) else array
    shape: list[int] = []
    names: list[str] = []
    for dim, extent, block in zip(order, padded.shape, blocks, strict=True):
        shape += [extent // block, block] if block else [extent]
        names += [dim, dim.lower()] if block else [dim]
    perm = [names.index(a.letter) for a in axes_in(layout)]
    return aligned(padded.reshape(shape).transpose(perm))

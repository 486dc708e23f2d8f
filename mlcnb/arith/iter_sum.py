"""Sums of splits: the normal form of indices that fuse and split loop variables.

IterMark(source, extent)                     a loop variable, or a fused sum
IterSplit(mark, lower, extent, scale)        mark // lower % extent * scale
IterSum(splits, base)                        their sum
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.node import Called, node
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr


class IterMapExpr(Called):
    """What an iteration map is written in: sums and splits."""

    __slots__ = ()


@node
class IterMark(Called):
    """A variable that counts from 0, or a fused sum that does."""

    source: Any
    extent: Any

    def __post_init__(self) -> None:
        _keep_numbers(self, "extent")


@node
class IterSplit(IterMapExpr):
    """source // lower_factor % extent * scale, with TVM's names; `mark` and `lower` for short."""

    source: IterMark
    lower_factor: Any
    extent: Any
    scale: Any

    def __post_init__(self) -> None:
        _keep_numbers(self, "lower_factor", "extent", "scale")

    @property
    def mark(self) -> IterMark:
        """What is split."""
        return self.source

    @property
    def lower(self) -> PrimExpr:
        """The values below the split."""
        return self.lower_factor

    def scaled(self, scale: PrimExpr) -> IterSplit:
        """The same part with another factor."""
        return IterSplit(self.source, self.lower_factor, self.extent, scale)


@node
class IterSum(IterMapExpr):
    """The sum of splits (`args`, with TVM's name), plus a base that no loop variable changes."""

    args: tuple[IterSplit, ...]
    base: Any

    def __post_init__(self) -> None:
        _keep_numbers(self, "base")
        if type(self.args) is not tuple:
            object.__setattr__(self, "args", tuple(self.args))

    @property
    def splits(self) -> tuple[IterSplit, ...]:
        """`args`, in words."""
        return self.args


def _keep_numbers(x: Any, *names: str) -> None:
    """Plain numbers become constants."""
    for name in names:
        value = getattr(x, name)
        if not isinstance(value, PrimExpr):
            object.__setattr__(x, name, p.as_expr(value))


def whole(mark: IterMark, scale: PrimExpr | None = None) -> IterSplit:
    """All of a mark."""
    one = p.const(1, mark.extent.dtype)
    return IterSplit(mark, one, mark.extent, one if scale is None else scale)


@dataclass(frozen=True, slots=True)
class IterMap:
    """What `detect_iter_map` found: one sum for each index, or why there is none."""

    indices: tuple[IterSum, ...]
    errors: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.errors


class IterMapLevel(IntEnum):
    """What `detect_iter_map` checks, with TVM's numbers."""

    Bijective = 0
    Surjective = 1
    NoCheck = 3

    @staticmethod
    def from_str(name: str) -> IterMapLevel:
        """The level of a name, in any case.

        Raises:
            MLCError: there is no such level.
        """
        found = {level.name.lower(): level for level in IterMapLevel}
        if name.lower() not in found:
            raise MLCError(f"no check level {name!r}", hint=", ".join(found))
        return found[name.lower()]


class NoIterMap(MLCError):
    """The indices are no iteration map."""

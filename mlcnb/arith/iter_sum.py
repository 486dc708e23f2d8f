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
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr


class IterMapExpr:
    """What an iteration map is written in: sums and splits."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class IterMark:
    """A variable that counts from 0, or a fused sum that does."""

    source: Any
    extent: PrimExpr

    def __post_init__(self) -> None:
        _keep_numbers(self, "extent")


@dataclass(frozen=True, slots=True, eq=False)
class IterSplit(IterMapExpr):
    """mark // lower % extent * scale"""

    mark: IterMark
    lower: PrimExpr
    extent: PrimExpr
    scale: PrimExpr

    def __post_init__(self) -> None:
        _keep_numbers(self, "lower", "extent", "scale")

    @property
    def source(self) -> IterMark:
        """`mark`, by TVM's name."""
        return self.mark

    @property
    def lower_factor(self) -> PrimExpr:
        """`lower`, by TVM's name."""
        return self.lower


@dataclass(frozen=True, slots=True, eq=False)
class IterSum(IterMapExpr):
    """The sum of splits, plus a base that no loop variable changes."""

    splits: tuple[IterSplit, ...]
    base: PrimExpr

    def __post_init__(self) -> None:
        _keep_numbers(self, "base")
        if type(self.splits) is not tuple:
            object.__setattr__(self, "splits", tuple(self.splits))

    @property
    def args(self) -> tuple[IterSplit, ...]:
        """`splits`, by TVM's name."""
        return self.splits


def _keep_numbers(x: Any, *names: str) -> None:
    """Plain numbers become constants."""
    for name in names:
        value = getattr(x, name)
        if not isinstance(value, PrimExpr):
            object.__setattr__(x, name, p.as_expr(value))


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

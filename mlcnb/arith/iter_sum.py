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
from mlcnb.ir.expr import PrimExpr


@dataclass(frozen=True, slots=True, eq=False)
class IterMark:
    """A variable that counts from 0, or a fused sum that does."""

    source: Any
    extent: PrimExpr


@dataclass(frozen=True, slots=True, eq=False)
class IterSplit:
    """mark // lower % extent * scale"""

    mark: IterMark
    lower: PrimExpr
    extent: PrimExpr
    scale: PrimExpr


@dataclass(frozen=True, slots=True, eq=False)
class IterSum:
    """The sum of splits, plus a base that no loop variable changes."""

    splits: tuple[IterSplit, ...]
    base: PrimExpr


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

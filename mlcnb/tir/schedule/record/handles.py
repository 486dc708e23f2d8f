"""Handles: names for blocks and loops that stay valid while the program around them changes.

    C = sch.get_block("C")            block C
    i, j, k = sch.get_loops(C)        loop i in 0..64 of block C

A handle holds no node. Each snapshot of a schedule says what its handles stand for; a step that
takes a
loop away leaves `Gone` in its place, so that using the handle later says which step that was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlcnb.core import display
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.schedule.record.tree import Tree

if TYPE_CHECKING:
    from mlcnb.tir.schedule.schedule import Schedule

#: a drawn number: a variable that the schedule knows the value of (`sch.get(v)`)
ExprRV = e.Var


class Handle:
    """A random variable of a schedule, in TVM's words: what a step takes and gives."""

    __slots__ = ("__weakref__", "schedule")

    def __init__(self, schedule: Schedule | None = None) -> None:
        self.schedule = schedule

    def __repr__(self) -> str:
        if self.schedule is None:
            return f"{type(self).__name__} of no schedule"
        return self.schedule.describe(self)

    def same_as(self, other: Any) -> bool:
        """Whether it is the same handle."""
        return self is other


class BlockRV(Handle):
    """A handle of a block."""

    __slots__ = ()


class LoopRV(Handle):
    """A handle of a loop."""

    __slots__ = ()


class Mark:
    """A place for a block that is no loop: what sample_compute_location may draw."""

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what = what


#: inside of the consumers; where the block stands
INLINE, ROOT = Mark("inline"), Mark("where it stands")


class Gone:
    """What stands for a handle whose block or loop a step took away."""

    __slots__ = ("by", "what")

    def __init__(self, what: str, by: str) -> None:
        self.what = what
        self.by = by


def name_of(n: Any) -> str:
    """`loop i_0` or `block C`: how messages name a node."""
    if isinstance(n, s.For):
        return f"loop {n.loop_var.name}"
    if isinstance(n, s.Block):
        return f"block {n.name_hint or '(unnamed)'}"
    if isinstance(n, Mark):
        return f"the place {n.what!r}"
    return type(n).__name__


def names_of(nodes: Any) -> str:
    """The names of several nodes, with commas."""
    return ", ".join(map(name_of, nodes))


def owned(loop: s.For, tree: Tree) -> str:
    """`loop i_0 of block C`: a loop and the first block in it."""
    return " of ".join([name_of(loop), *map(name_of, tree.blocks_under(loop)[:1])])


def text_of(x: Any) -> str:
    """A number as such, an expression as its text, with numbers of any integer type as such."""
    known = p.as_int(x)
    if known is not None:
        return str(known)
    return re.sub(r"T\.u?int\d+\((-?\d+)\)", r"\1", display.text(x))


def listed(factors: Sequence[Any]) -> str:
    """Factors as they were given: [n // 4, None]."""
    return f"[{', '.join('None' if f is None else text_of(f) for f in factors)}]"


def describe(n: Any, tree: Tree) -> str:
    """A node with its range and where it stands: `loop i_0 in 0..32 of block C`."""
    if isinstance(n, Mark):
        return f"place: {n.what}"
    if not isinstance(n, s.For):
        return name_of(n)
    blocks = tree.blocks_under(n)
    owners = ", ".join(b.name_hint for b in blocks)
    of = f" of block{'s' if len(blocks) > 1 else ''} {owners}" if owners else ""
    return f"{name_of(n)} in {text_of(n.min)}..{text_of(p.add(n.min, n.extent))}{of}"

"""What caches make of programs that are too long to be played: all accesses counted, none kept.

    found = mlc.observe.access_counts(func, cache="32K/8way, 1M/8way")
    found.counts["L1"].misses, found.misses["A"]["L1"]

The accesses are made and go through the caches in pieces, so that memory is bounded; each cache
goes on where it stood (`mlcnb.machine.cache.Carried`), so the counts are those of the whole run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mlcnb.arith.evaluate import Unknown
from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.core.progress import progress_bar
from mlcnb.machine.addresses import Placed, placed
from mlcnb.machine.cache import EMPTY, Cache, Carried, caches
from mlcnb.machine.stream import Stream, about, joined, pieces
from mlcnb.observe.access import Counts, ThroughCaches, function_of, misses_of, of_block
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.record.tree import sub_stmts

#: accesses that go through the caches at once
AT_ONCE = 1 << 21


class Counted:
    """One program: its accesses through caches that are empty at first.

    Attributes:
        name: of the program.
        program: its arrays and where they lie, its loads and stores.
        levels: the caches, nearest first.
        counts: of each level touches, misses and evictions.
        by_array, by_site: accesses of each array, or load and store (row), that were found in each
            level, the last: in memory.
        evictions: of each array how often a line of it was driven out of the nearest level.
        lines_of: of each array how many of its lines were touched.
    """

    def __init__(self, name: str, program: Placed, levels: tuple[Cache, ...]) -> None:
        self.name = name
        self.program = program
        self.levels = levels
        self.total = 0
        width = len(levels) + 1
        self._carried = [Carried(level) for level in levels]
        self._numbers = [[0, 0, 0] for _ in levels]
        self._begins = np.array([a.base // levels[0].line for a in program.arrays])
        end = max((a.base + a.nbytes for a in program.arrays), default=0)
        self._touched = np.zeros(end // levels[0].line + 1, bool)
        self.by_site = np.zeros((len(program.sites), width), np.int64)
        self.evictions = np.zeros(len(program.arrays), np.int64)

    def add(self, accesses: Stream) -> None:
        """The next accesses."""
        lines = accesses.addresses // self.levels[0].line
        served = np.full(len(lines), len(self.levels), np.uint8)
        came = np.arange(len(lines))
        for number, cache in enumerate(self._carried):
            found = cache.run(lines[came])
            driven = found.victim[found.victim != EMPTY]
            for n, more in enumerate((len(came), found.misses, len(driven))):
                self._numbers[number][n] += more
            if number == 0:
                owners = np.searchsorted(self._begins, driven, side="right") - 1
                self.evictions += np.bincount(owners, minlength=len(self.evictions))
            served[came[found.is_hit]] = number
            came = came[~found.is_hit]
        width = len(self.levels) + 1
        keys = accesses.sites.astype(np.int64) * width + served
        self.by_site += np.bincount(keys, minlength=self.by_site.size).reshape(-1, width)
        self._touched[lines] = True
        self.total += len(lines)

    def __len__(self) -> int:
        return self.total

    @property
    def counts(self) -> dict[str, Counts]:
        """Level -> touches, hits, misses and evictions."""
        rows = zip(self.levels, self._numbers, strict=True)
        return {level.name: Counts(*numbers) for level, numbers in rows}

    @property
    def by_array(self) -> np.ndarray:
        """Accesses of each array that were found in each level."""
        found = np.zeros((len(self.program.arrays), len(self.levels) + 1), np.int64)
        np.add.at(found, [site.array for site in self.program.sites], self.by_site)
        return found

    misses = property(misses_of)

    @property
    def lines_of(self) -> list[int]:
        """Of each array how many of its lines were touched."""
        owners = np.searchsorted(self._begins, np.flatnonzero(self._touched), side="right") - 1
        return np.bincount(owners, minlength=len(self._begins)).tolist()


class AccessCounts(ThroughCaches[Counted], display.Shown):
    """What caches make of all accesses of one program, or of two."""

    def explain(self) -> str:
        """The same in words."""
        return display.text(self)


def counted(func: PrimFunc, cache: Any = None, block: str | None = None, name: str = "") -> Counted:
    """All accesses of a program through caches, counted.

    Args:
        func: the program, with fixed sizes.
        cache: see `mlcnb.machine.cache.caches`; default: those of the current Target.
        block: only the accesses of the block of this name, as if there were no others.
        name: of the program; default: its symbol.

    Raises:
        MLCError: no such caches or block, or a program of which values in memory decide what it
            touches.
    """
    program = placed(func)
    symbol = name or str(func.attrs.get("global_symbol") or "main")
    found = Counted(symbol, program, caches(cache))
    try:
        with progress_bar("counting accesses", about(program)) as bar:
            for accesses in _merged(pieces(program)):
                size = len(accesses)
                found.add(accesses if block is None else of_block(program, accesses, block))
                bar.update(size)
    except Unknown as reason:
        raise MLCError(
            f"accesses: values in memory decide what {symbol} touches ({reason})",
            hint="mlc.observe.accesses has the interpreter run it",
        ) from None
    return found


#: a statement that stores -> array -> misses of each level, of its loads and its store
ByStore = dict[s.BufferStore, dict[str, list[int]]]


def by_store(func: PrimFunc, cache: Any = None) -> ByStore:
    """The misses of each statement of a program.

    Args:
        func: the program, in block form, with fixed sizes.
        cache: see `mlcnb.machine.cache.caches`; default: those of the current Target.

    Raises:
        MLCError: as `counted`, or lowering makes other statements of a block's.
    """
    found = counted(func, cache)
    stores = _stores(func.body, "")
    numbers = {name: iter(own) for name, own in stores.items()}
    told: ByStore = {}
    open_sites: dict[str, list[int]] = {}
    for number, site in enumerate(found.program.sites):
        sites = open_sites.setdefault(site.block, [])
        sites.append(number)
        if site.is_write:
            store = next(numbers.get(site.block, iter(())), None)
            if store is None:
                raise MLCError(f"misses: block {site.block} is lowered to other statements")
            told[store] = _missed(found, sites)
            sites.clear()
    return told


def _missed(found: Counted, sites: list[int]) -> dict[str, list[int]]:
    """Array -> misses of each level by these loads and stores; arrays without any left out."""
    told: dict[str, list[int]] = {}
    for number in sites:
        name = found.program.arrays[found.program.sites[number].array].name
        own = told.setdefault(name, [0] * len(found.levels))
        for level in range(len(own)):
            own[level] += int(found.by_site[number, level + 1 :].sum())
    return {name: own for name, own in told.items() if own[0]}


def _stores(n: Any, block: str) -> dict[str, list[s.BufferStore]]:
    """Name of a block -> its stores in order: those that begin its sums first."""
    if isinstance(n, s.BufferStore):
        return {block: [n]}
    inside = sub_stmts(n)
    if isinstance(n, s.Block):
        block = n.name_hint
        inside = (n.init, *inside) if n.init is not None else inside
    found: dict[str, list[s.BufferStore]] = {}
    for part in inside:
        for name, own in _stores(part, block).items():
            found.setdefault(name, []).extend(own)
    return found


def _merged(parts: Iterator[Stream]) -> Iterator[Stream]:
    """Pieces of AT_ONCE accesses or a little more."""
    found: list[Stream] = []
    for part in parts:
        found.append(part)
        if sum(map(len, found)) >= AT_ONCE:
            yield joined(found)
            found = []
    if found:
        yield joined(found)


def access_counts(*programs: Any, cache: Any = None, block: str | None = None) -> AccessCounts:
    """What caches make of all accesses, however many, with none of them kept: exact.

    Args:
        programs: one or several, of fixed shapes: each a PrimFunc, a module of one, a schedule or
            a kernel.
        cache: as `mlc.observe.accesses` takes it; default: the caches of the current target.
        block: only the accesses of the block of this name.

    Raises:
        MLCError: no such cache or block, or a program that cannot be followed.
    """
    names = [str(function_of(p).attrs.get("global_symbol") or "main") for p in programs]
    several = [f"{n}: {name}" for n, name in enumerate(names, 1)] if len(names) > 1 else names
    return AccessCounts(
        [
            counted(function_of(p), cache, block, name)
            for p, name in zip(programs, several, strict=True)
        ]
    )

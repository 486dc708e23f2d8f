"""What caches make of programs that are too long to be played: all accesses counted, none kept.

    found = mlc.observe.access_counts(func, cache="32K/8way, 1M/8way")
    found.counts["L1"].misses, found.misses["A"]["L1"]

The accesses are made and go through the caches in pieces, so that memory is bounded; each cache
goes on where it stood (`mlcnb.machine.cache.Carried`), so the counts are those of the whole run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlcnb.arith.evaluate import Unknown
from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.core.progress import progress_bar
from mlcnb.machine.addresses import placed
from mlcnb.machine.cache import Carried, caches
from mlcnb.machine.stream import Stream, about, joined, pieces
from mlcnb.observe.access import Counted, ThroughCaches, function_of, of_block
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.record.tree import sub_stmts

#: accesses that go through the caches at once
AT_ONCE = 1 << 21


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
    ways = [Carried(level).run for level in found.levels]
    try:
        with progress_bar("counting accesses", about(program)) as bar:
            for accesses in _merged(pieces(program)):
                size = len(accesses)
                own = accesses if block is None else of_block(program, accesses, block)
                found.through(own, ways)
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

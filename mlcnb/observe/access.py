"""The accesses of a program, and what caches make of each.

    run = replayed(func, cache="32K/8way/64B")
    run.counts["L1"].misses, run.misses["A"]["L1"], run.histogram

One truth: the accesses are what the reference interpreter records, byte for byte. Where no value in
memory has a say in them they are made of the loops by NumPy, which gives the same a hundred times
as fast (`mlcnb.machine.stream`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

import numpy as np

from mlcnb.arith.evaluate import Unknown
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.core.progress import progress_bar
from mlcnb.core.text import kind_of
from mlcnb.ir.module import IRModule
from mlcnb.machine.addresses import Placed, Site, placed
from mlcnb.machine.cache import EMPTY, Cache, Touches, caches, narrowed, run
from mlcnb.machine.reuse import Histogram, histogram, stack_distances
from mlcnb.machine.stream import MOST, Stream, beginning, stream
from mlcnb.tir.function import PrimFunc

R = TypeVar("R")
#: accesses that the interpreter makes at most: about ten seconds
MOST_INTERPRETED = 2_000_000
#: accesses after which a progress bar moves
_TICK = 10_000


@dataclass(frozen=True)
class Counts:
    """One level: the touches that came to it, and what became of them."""

    touches: int
    misses: int
    evictions: int

    @property
    def hits(self) -> int:
        """Touches that found their line."""
        return self.touches - self.misses

    @property
    def miss_rate(self) -> float:
        """Misses of all touches that came to it."""
        return self.misses / self.touches if self.touches else 0.0


class SideBySide(Generic[R]):
    """Runs of one program, or of two.

    Attributes:
        runs: one for each program.
    """

    def __init__(self, runs: Sequence[R]) -> None:
        self.runs = tuple(runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, number: int) -> R:
        return self.runs[number]


class ThroughCaches(SideBySide[R]):
    """Runs through caches; `counts` and `misses` are those of the first."""

    @property
    def counts(self) -> dict[str, Counts]:
        """Level -> touches, hits, misses and evictions."""
        return self.runs[0].counts  # type: ignore[attr-defined]

    @property
    def misses(self) -> dict[str, dict[str, int]]:
        """Array -> level -> misses."""
        return self.runs[0].misses  # type: ignore[attr-defined]


class Counted:
    """A program's accesses through caches that are empty at first, counted.

    Attributes:
        name: of the program.
        program: its arrays and where they lie, its loads and stores.
        levels: the caches, nearest first.
        by_site: accesses of each load and store (row) that were found in each level, the last: in
            memory.
        evictions: of each array how often a line of it was driven out of the nearest level.
    """

    def __init__(self, name: str, program: Placed, levels: tuple[Cache, ...]) -> None:
        self.name = name
        self.program = program
        self.levels = levels
        self.total = 0
        self._numbers = [[0, 0, 0] for _ in levels]
        self._begins = np.array([a.base // levels[0].line for a in program.arrays])
        end = max((a.base + a.nbytes for a in program.arrays), default=0)
        self._touched = np.zeros(end // levels[0].line + 1, bool)
        self.by_site = np.zeros((len(program.sites), len(levels) + 1), np.int64)
        self.evictions = np.zeros(len(program.arrays), np.int64)

    def through(
        self, accesses: Stream, caches: Iterable[Callable[[np.ndarray], Touches]]
    ) -> tuple[np.ndarray, np.ndarray, Touches]:
        """Count the next accesses; caches: what becomes of touches of lines in each level.

        Of each access the number of its line and the level that it was found in (`len(levels)`
        stands for memory), and what became of it in the nearest.
        """
        lines = narrowed(accesses.addresses // self.levels[0].line)
        served = np.full(len(lines), len(self.levels), np.uint8)
        came: Any = slice(None)  # to this level: all, then what the level before missed
        for number, cache in enumerate(caches):
            found = cache(lines[came])
            driven = found.victim[found.victim != EMPTY]
            for n, more in enumerate((len(found.depth), found.misses, len(driven))):
                self._numbers[number][n] += more
            missed = np.flatnonzero(~found.is_hit)
            if number == 0:
                nearest = found
                self.evictions += np.bincount(self.owners(driven), minlength=len(self.evictions))
            else:
                missed = came[missed]
            served[came] = number
            served[missed] = len(self.levels)
            came = missed
        width = len(self.levels) + 1
        keys = accesses.sites * np.int32(width) + served
        self.by_site += np.bincount(keys, minlength=self.by_site.size).reshape(-1, width)
        self._touched[lines] = True
        self.total += len(lines)
        return lines, served, nearest

    def __len__(self) -> int:
        return self.total

    @property
    def counts(self) -> dict[str, Counts]:
        """Level -> touches, hits, misses and evictions."""
        rows = zip(self.levels, self._numbers, strict=True)
        return {level.name: Counts(*numbers) for level, numbers in rows}

    @property
    def by_array(self) -> np.ndarray:
        """Accesses of each array (row) that were found in each level, the last: in memory."""
        found = np.zeros((len(self.program.arrays), len(self.levels) + 1), np.int64)
        np.add.at(found, [site.array for site in self.program.sites], self.by_site)
        return found

    @property
    def misses(self) -> dict[str, dict[str, int]]:
        """Array -> level -> misses; arrays of one name are counted together."""
        found: dict[str, dict[str, int]] = {}
        for memory, row in zip(self.program.arrays, self.by_array, strict=True):
            own = found.setdefault(memory.name, {level.name: 0 for level in self.levels})
            for number, level in enumerate(self.levels):
                own[level.name] += int(row[number + 1 :].sum())
        return found

    def owners(self, lines: np.ndarray) -> np.ndarray:
        """Of each line the number of the array that it is the first line of, or in the middle."""
        return np.searchsorted(self._begins, lines, side="right") - 1

    @property
    def lines_of(self) -> list[int]:
        """Of each array how many of its lines were touched."""
        owners = self.owners(np.flatnonzero(self._touched))
        return np.bincount(owners, minlength=len(self._begins)).tolist()


class Run(Counted, display.Shown):
    """A program's accesses through caches that are empty at first, all of them kept.

    Attributes:
        stream: the accesses in order.
        lines: the number of the line that each access touches.
        served: the level that each was found in; `len(levels)` stands for memory.
        nearest: what became of each access in the nearest level.
        is_part: only where the program begins.
    """

    def __init__(
        self,
        name: str,
        program: Placed,
        accesses: Stream,
        levels: tuple[Cache, ...],
        is_part: bool = False,
    ) -> None:
        super().__init__(name, program, levels)
        self.stream = accesses
        self.is_part = is_part
        ways = [partial(run, level) for level in levels]
        self.lines, self.served, self.nearest = self.through(accesses, ways)

    @cached_property
    def arrays(self) -> np.ndarray:
        """Of each access the number of its array."""
        return np.array([s.array for s in self.program.sites], np.uint16)[self.stream.sites]

    @cached_property
    def histogram(self) -> Histogram:
        """Reuse distances of all accesses, in lines."""
        return histogram(stack_distances(self.lines), self.levels[0].line)


def replayed(
    func: PrimFunc,
    cache: Any = None,
    *,
    block: str | None = None,
    args: Sequence[Any] | None = None,
    most: int = MOST,
    first: int | None = None,
    name: str = "",
) -> Run:
    """A program's accesses through caches.

    Args:
        func: the program, with fixed sizes.
        cache: see `mlcnb.machine.cache.caches`; default: those of the current Target.
        block: only the accesses of the block of this name, as if there were no others.
        args: what it runs on, where values in memory decide what it touches.
        most: accesses at most.
        first: only so many accesses, from where the program begins.
        name: of the program; default: its symbol.

    Raises:
        MLCError: no such caches or block, or a program whose accesses cannot be followed.
    """
    levels = caches(cache)
    program = placed(func)
    accesses = recorded(program, args, most, first)
    is_part = first is not None and len(accesses) >= first
    if block is not None:
        accesses = of_block(program, accesses, block)
    symbol = name or str(func.attrs.get("global_symbol") or "main")
    return Run(symbol, program, accesses, levels, is_part)


def of_block(program: Placed, accesses: Stream, block: str) -> Stream:
    """The accesses of one block.

    Raises:
        MLCError: there is no such block.
    """
    wanted = np.array([site.block == block for site in program.sites], bool)
    if not wanted.any():
        names = dict.fromkeys(site.block for site in program.sites if site.block)
        raise MLCError(
            f"accesses: no block {block!r}", hint=f"the blocks are {', '.join(names) or 'none'}"
        )
    kept = wanted[accesses.sites]
    return Stream(accesses.addresses[kept], accesses.sites[kept])


def function_of(program: Any, who: str = "accesses") -> PrimFunc:
    """The one loop function of a PrimFunc, a module, a schedule or a compiled kernel (scheduled).

    who: asks for it, which its error says.

    Raises:
        MLCError: there is none, or more than one.
    """
    found = getattr(program, "scheduled", None) or getattr(program, "func", program)
    if isinstance(found, PrimFunc):
        return found
    mod = program if isinstance(program, IRModule) else getattr(program, "mod", None)
    functions = [] if mod is None else list(mod.functions.values())
    if len(functions) == 1 and isinstance(functions[0], PrimFunc):
        return functions[0]
    raise MLCError(f"{who}: {kind_of(program)} is no single loop program", hint="pass a PrimFunc")


def words_of(site: Site) -> str:
    """`C[i, j]` of a load or store."""
    from mlcnb.script import text_of

    node = site.node
    indices = ", ".join(text_of(i) for i in node.indices)
    return f"{node.buffer.name}[{indices}]"


def recorded(
    program: Placed, args: Sequence[Any] | None = None, most: int = MOST, first: int | None = None
) -> Stream:
    """Every access of a program, in order.

    Args:
        program: the program with the places of its arrays.
        args: what it runs on, where that decides what it touches; by default arrays of zeros.
        most: accesses at most.
        first: only so many, from where the program begins.

    Raises:
        MLCError: more accesses than `most`, or a program that cannot be run.
    """
    if first is not None and not 0 < first <= most:
        raise MLCError(f"accesses: first={first} accesses", hint=f"from 1 to {most:,}")
    try:
        if first is not None:
            return beginning(program, first)
        with progress_bar("finding accesses", most) as bar:
            return stream(program, most, bar.update)
    except Unknown:
        found = interpreted(program, args, min(most, MOST_INTERPRETED))
        return found if first is None else Stream(found.addresses[:first], found.sites[:first])


def interpreted(program: Placed, args: Sequence[Any] | None = None, most: int = MOST) -> Stream:
    """The same by the reference interpreter, which runs the program."""
    record = _Record(program, most)
    with progress_bar("interpreting", most) as bar:
        record.bar = bar
        run_prim_func(program.func, _arguments(program.func) if args is None else args, record)
    return Stream(
        np.frombuffer(record.addresses, np.int64).copy(),
        np.frombuffer(record.sites, np.int32).copy(),
    )


class _Record:
    """Told of every access by the interpreter."""

    def __init__(self, program: Placed, most: int) -> None:
        self.addresses, self.sites = array("q"), array("i")
        self.most = most
        self.bar: Any = None
        bases = [program.arrays[site.array].base for site in program.sites]
        self.places = {
            str(n): (n, base, site.itemsize)
            for n, (site, base) in enumerate(zip(program.sites, bases, strict=True))
        }

    def __call__(self, name: str, at: int, what: str, loops: Mapping[str, int]) -> None:
        """An access of the site that the buffer is named for."""
        number, base, itemsize = self.places[name]
        self.addresses.append(base + at * itemsize)
        self.sites.append(number)
        if len(self.sites) % _TICK == 0:
            self.bar.update(_TICK)
            if len(self.sites) > self.most:
                raise MLCError(
                    f"accesses: the program makes more than {self.most:,} accesses, and values in "
                    "memory decide which",
                    hint="take smaller shapes: the order of its loops is the same",
                )


def _arguments(func: PrimFunc) -> list[np.ndarray]:
    """Zeros: indices that are read from memory are in range."""
    if len(func.buffers) != len(func.params):
        numbers = [p.name for p in func.params if p not in func.buffer_map]
        raise MLCError(
            f"accesses: the value of {', '.join(numbers)} is not known", hint="pass args=[…]"
        )
    return [np.zeros([int(n.value) for n in b.shape], b.dtype.numpy) for b in func.buffers]  # type: ignore[attr-defined]

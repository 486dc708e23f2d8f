"""Caches: set-associative, least recently used goes first, one level behind the other.

    Cache.of("32K/8way/64B")           one level: bytes, ways, bytes of a line
    caches("32K/8way, 1M/8way, 16M")   several, nearest first; of a Target: `caches(target)`
    run(level, lines)                  of each touch: its depth, and the line that it drove out

Exact, and without a loop over the touches. The lines of a set lie on a stack, the last one touched
on top. A touch at depth d moves the d lines above it down by one, so place p of the stack changes
only at touches of depth p or more, and then takes what was in place p - 1:

    place 0 before touch t  =  the line touched before t in the same set
    place p before touch t  =  place p - 1 before t', where t' < t is the last touch of the same set
                               that was not found in places 0 … p - 1

So the touches are passed through a cascade, one step for each way: those found at place p leave,
the others go on, and what the last place holds at a miss is driven out.

Model: writes allocate and count as touches; the next level sees the misses of the one before, and
drives nothing out of it (neither inclusive nor exclusive); no prefetcher, no write-back traffic;
addresses are those of the program (no pages).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlcnb.core.errors import MLCError
from mlcnb.core.text import kind_of
from mlcnb.target import Target

#: vectors of work, and loads, of one cycle; cycles until a sum can be added to
WORK, LOADS, LATENCY = 2.0, 2.0, 4.0
#: bytes of a line where nothing is said: x86-64 and most of aarch64
LINE = 64
#: ways of L1, L2 and L3 where nothing is said
WAYS = (8, 8, 16)
#: stands for "no line" where a place of a set is empty
EMPTY = -1

_FORM = "32K/8way/64B: bytes, ways, bytes of a line"
_SIZE = re.compile(r"(\d+)\s*([KMG]?)i?B?", re.IGNORECASE)
_FACTOR = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Cache:
    """One level: its bytes, how many lines a set holds, bytes of a line, and a name.

    Raises:
        MLCError: a line that is no power of two, or a size that the sets do not make up.
    """

    nbytes: int
    ways: int = WAYS[0]
    line: int = LINE
    name: str = "L1"

    def __post_init__(self) -> None:
        if min(self.nbytes, self.ways, self.line) < 1 or self.line & (self.line - 1):
            raise MLCError(f"cache {self}: no such cache", hint=f"as {_FORM}, a power of two")
        if self.nbytes % (self.ways * self.line):
            raise MLCError(
                f"cache {self}: {self.nbytes:,} bytes are no whole number of sets of "
                f"{self.ways} lines of {self.line} bytes",
                hint=f"as {_FORM}",
            )

    @property
    def sets(self) -> int:
        """How many sets; a line's set is its number modulo this."""
        return self.nbytes // (self.ways * self.line)

    @property
    def lines(self) -> int:
        """How many lines it holds."""
        return self.nbytes // self.line

    def holds(self, rows: int, apart: int, nbytes: int) -> bool:
        """Whether rows of `nbytes` bytes, which begin `apart` bytes behind each other, lie in it
        together: rows that want the same sets drive each other out though there is room elsewhere.
        """
        wide = -(-nbytes // self.line)
        if apart % self.line:
            return rows * (wide + 1) <= self.lines
        between = math.gcd(apart // self.line, self.sets)
        return rows * wide <= self.ways * self.sets * min(wide, between) // between

    def __str__(self) -> str:
        return f"{shortened(self.nbytes)}/{self.ways}way/{self.line}B"

    @staticmethod
    def of(text: str, name: str = "L1", ways: int = WAYS[0]) -> Cache:
        """The level that a text such as "32K/8way/64B" names, or "32K/full" (one set).

        Raises:
            MLCError: the text cannot be read.
        """
        words = [word.strip() for word in text.strip().removeprefix(f"{name}:").split("/")]
        size = _SIZE.fullmatch(words[0])
        if size is None or not 1 <= len(words) <= 3:
            raise MLCError(f"cache {text[:60]!r} cannot be read", hint=f"as {_FORM}")
        nbytes, line = int(size[1]) * _FACTOR[size[2].upper()], LINE
        for word in words[1:]:
            if found := re.fullmatch(r"(\d+)[ -]?ways?", word):
                ways = int(found[1])
            elif found := re.fullmatch(r"(\d+)B?", word):
                line = int(found[1])
            elif word in ("full", "fully"):
                ways = 0
            else:
                raise MLCError(f"cache {text[:60]!r}: what is {word[:20]!r}?", hint=f"as {_FORM}")
        return Cache(nbytes, ways or max(nbytes // max(line, 1), 1), line, name)


def shortened(nbytes: int) -> str:
    """`32K`; bytes where no unit divides them."""
    for unit in "GMK":
        if nbytes and nbytes % _FACTOR[unit] == 0:
            return f"{nbytes // _FACTOR[unit]}{unit}"
    return str(nbytes)


def caches(spec: Any = None) -> tuple[Cache, ...]:
    """Levels, nearest first.

    Args:
        spec: None or a Target (its sizes, with usual ways), a Cache, a text such as "32K/8way/64B"
            (levels separated by commas), or a list of these.

    Raises:
        MLCError: it names no caches, or levels with lines of different sizes.
    """
    if spec is None or isinstance(spec, Target):
        levels = _of_target(Target(spec or Target.current() or "llvm"))
    elif isinstance(spec, Cache):
        levels = [spec]
    elif isinstance(spec, str | list | tuple):
        parts = [p for p in spec.split(",") if p.strip()] if isinstance(spec, str) else list(spec)
        levels = [_level(part, number) for number, part in enumerate(parts)]
    else:
        raise MLCError(f"cache: {kind_of(spec)} names no cache", hint=f"as {_FORM}")
    if not levels:
        raise MLCError("cache: no level", hint=f"as {_FORM}")
    if len({level.line for level in levels}) > 1:
        raise MLCError(
            f"cache: lines of different sizes: {', '.join(map(str, levels))}",
            hint="all levels hold lines of one size",
        )
    return tuple(levels)


def _level(part: Any, number: int) -> Cache:
    if isinstance(part, Cache):
        return part
    if not isinstance(part, str):
        raise MLCError(f"cache: {kind_of(part)} is no level", hint=f"as {_FORM}")
    return Cache.of(part, f"L{number + 1}", WAYS[min(number, 2)])


def _of_target(target: Target) -> list[Cache]:
    """The sizes that a target knows, each rounded down to whole sets."""
    found = []
    for number, (nbytes, ways) in enumerate(zip(target.caches, target.cache_ways, strict=True)):
        of_set = ways * LINE
        found.append(Cache(max(nbytes // of_set, 1) * of_set, ways, LINE, f"L{number + 1}"))
    return found


@dataclass(frozen=True)
class Touches:
    """What became of each touch in one level.

    Attributes:
        level: the cache.
        depth: lines of its set touched since the last touch of its own: less than `ways` is a hit;
            `ways` stands for a miss.
        victim: the line that a miss drove out; EMPTY for none.
    """

    level: Cache
    depth: np.ndarray
    victim: np.ndarray

    @property
    def is_hit(self) -> np.ndarray:
        """Whether it was found."""
        return self.depth < self.level.ways

    @property
    def misses(self) -> int:
        """How many were not found."""
        return int(np.count_nonzero(self.depth == self.level.ways))


def run(level: Cache, lines: np.ndarray) -> Touches:
    """Every touch of a stream of line numbers (not negative), in order, from an empty cache."""
    lines = narrowed(lines)
    depth = np.full(len(lines), level.ways, np.min_scalar_type(level.ways))
    victim = np.full(len(lines), EMPTY, lines.dtype)
    of_set = lines % level.sets
    order = grouped(of_set, level.sets)
    line, of_set = lines[order], of_set[order]
    first = np.ones(len(lines), bool)
    np.not_equal(of_set[1:], of_set[:-1], out=first[1:])
    above = _before(line, first)
    for place in range(level.ways):
        found = line == above
        depth[order[found]] = place
        # the first touch of a set is never found: it still begins the set's part of what is left
        rest = np.flatnonzero(~found)
        order, line, first, above = order[rest], line[rest], first[rest], above[rest]
        if place == level.ways - 1:
            victim[order] = above
        above = _before(above, first)
    return Touches(level, depth, victim)


def narrowed(lines: np.ndarray) -> np.ndarray:
    """Line numbers in 32 bits where they fit: half the memory to go through."""
    fits = not len(lines) or int(lines.max()) < 1 << 31
    return lines.astype(np.int32 if fits else np.int64, copy=False)


def grouped(keys: np.ndarray, count: int) -> np.ndarray:
    """The order that brings equal keys (0 … count - 1) together and keeps time within them."""
    if count == 1:
        return np.arange(len(keys), dtype=np.int32)
    narrow = np.uint8 if count <= 1 << 8 else np.uint16 if count <= 1 << 16 else keys.dtype
    return np.argsort(keys.astype(narrow), kind="stable").astype(np.int32)


def _before(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The value before each, EMPTY where a set begins."""
    found = np.empty_like(values)
    found[1:] = values[:-1]
    found[first] = EMPTY
    return found


def through(levels: Sequence[Cache], lines: np.ndarray) -> np.ndarray:
    """Of each touch the level that it was found in: 0 is the nearest, len(levels) is memory."""
    served = np.full(len(lines), len(levels), np.uint8)
    at = np.arange(len(lines))
    for number, level in enumerate(levels):
        hit = run(level, lines[at]).is_hit
        served[at[hit]] = number
        at = at[~hit]
    return served


class Carried:
    """A cache that goes on where it stood: touches in pieces, what becomes of them as if in one.

    The lines that it holds are touched again before each piece, the one that would go first first:
    so every set stands as it did.
    """

    def __init__(self, level: Cache) -> None:
        self.level = level
        #: the lines that it holds, in each set the one that would go first first
        self.held = np.empty(0, np.int64)

    def run(self, lines: np.ndarray) -> Touches:
        """What becomes of the next touches."""
        before = len(self.held)
        whole = np.concatenate([self.held, lines])
        found = run(self.level, whole)
        self.held = _held(self.level, whole)
        return Touches(self.level, found.depth[before:], found.victim[before:])


def _held(level: Cache, lines: np.ndarray) -> np.ndarray:
    """What a cache holds after touches from empty: of each set the last lines, in their order."""
    backwards = lines[::-1]
    _, first = np.unique(backwards, return_index=True)
    last = backwards[np.sort(first)]  # each line once, the one touched last in front
    order = np.argsort(last % level.sets, kind="stable")
    of_set = last[order] % level.sets
    begins = np.searchsorted(of_set, of_set)  # where each one's set begins
    kept = order[np.arange(len(last)) - begins < level.ways]
    return last[np.sort(kept)][::-1].astype(np.int64)

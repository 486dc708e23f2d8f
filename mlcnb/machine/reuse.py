"""Reuse distance: how many other lines are touched between two touches of a line.

    touched   a b c b a        -: cold, never touched before
    distance  - - - 1 2        a cache of n lines (one set) misses distances of n and more

Exact (Mattson's stack distance), and without a loop over the touches. Distances below NEAR come
from the cascade of `mlcnb.machine.cache`. What it drives out falls on a second stack, which a touch
at `t` takes its line from again; it was dropped there at `q(t)`, so on top of it lie the lines
dropped since and not yet taken:

    distance(t) = NEAR + (drops between q(t) and t) - (touches r < t with q(r) > q(t))

The last count is that of larger values standing earlier, found bit by bit from the top: a stable
partition by a bit at a time, as in a wavelet tree.

Source: R. L. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal
9(2), 1970.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlcnb.machine.cache import Cache, narrowed, run

#: distances below this are found by the cascade
NEAR = 8
#: stands for the distance of a line that was never touched before
COLD = -1


@dataclass(frozen=True)
class Histogram:
    """How many touches have which reuse distance, in lines.

    Attributes:
        counts: touches of distance 0, 1, 2-3, 4-7, 8-15, …: bucket n > 0 begins at 2^(n - 1).
        cold: touches of lines that were never touched before.
        line: bytes of a line.
    """

    counts: tuple[int, ...]
    cold: int
    line: int

    @property
    def total(self) -> int:
        """All touches."""
        return sum(self.counts) + self.cold

    def bounds(self, bucket: int) -> tuple[int, int]:
        """The least and the largest distance of a bucket."""
        return (1 << bucket >> 1, (1 << bucket) - 1) if bucket else (0, 0)


def histogram(distances: np.ndarray, line: int) -> Histogram:
    """The distances in buckets of powers of two."""
    warm = distances[distances != COLD]
    # frexp's exponent of 0, 1, 2-3, 4-7 … is 0, 1, 2, 3 …: the bucket
    buckets = np.frexp(warm.astype(np.float64))[1]
    return Histogram(tuple(int(n) for n in np.bincount(buckets)), len(distances) - len(warm), line)


def stack_distances(lines: np.ndarray) -> np.ndarray:
    """Of each touch how many other lines were touched since the last touch of its own; COLD."""
    lines = narrowed(lines)
    near = run(Cache(NEAR, NEAR, 1), lines)
    found = near.depth.astype(np.int32)
    far = np.flatnonzero(~near.is_hit)
    found[far] = _beyond(lines[far], near.victim[far])
    return found


def _beyond(taken: np.ndarray, dropped: np.ndarray) -> np.ndarray:
    """Distances of touches that a cache of NEAR lines misses; of each the line that it drops."""
    drop = _last_drops(taken, dropped)
    warm = drop >= 0
    since = np.arange(len(taken)) - drop - 1
    distance = np.full(len(taken), COLD, np.int64)
    # a cold touch takes nothing: it is before all others by value, and counts for none of them
    distance[warm] = NEAR + since[warm] - larger_before(drop)[warm]
    return distance


def _last_drops(taken: np.ndarray, dropped: np.ndarray) -> np.ndarray:
    """Of each touch when its line was dropped last; -1 if never."""
    names, taken_at = np.unique(np.concatenate([taken, dropped]), return_inverse=True)
    count = len(taken)
    times = np.concatenate([np.arange(count), np.arange(count)])
    is_drop = np.repeat([False, True], count)
    # of one touch the line is taken before another one is dropped; they are never the same line
    order = np.lexsort((times, taken_at))
    of_line, dropping, at = taken_at[order], is_drop[order], times[order]
    found = np.full(count, -1, np.int64)
    pairs = np.flatnonzero(~dropping[1:] & dropping[:-1] & (of_line[1:] == of_line[:-1])) + 1
    found[at[pairs]] = at[pairs - 1]
    return found


def larger_before(values: np.ndarray) -> np.ndarray:
    """Of each value how many larger ones stand before it; -1 stands for no value and never counts.

    Values other than -1 are distinct.
    """
    count = len(values)
    by_value = np.argsort(values, kind="stable")
    rank = np.empty(count, np.int32)
    rank[by_value[::-1]] = np.arange(count, dtype=np.int32)  # the largest has rank 0
    # ranks are a permutation, so the group of a prefix begins at the prefix itself
    found = np.zeros(count, np.int32)
    at_rank, at_time = rank, np.arange(count, dtype=np.int32)
    for bit in range(max(count - 1, 1).bit_length() - 1, -1, -1):
        is_high = (at_rank >> bit & 1).astype(bool)
        low_before = np.cumsum(~is_high, dtype=np.int32) - ~is_high
        start = at_rank >> (bit + 1) << (bit + 1)
        low_before -= low_before[start]
        high_before = np.arange(count, dtype=np.int32) - start - low_before
        found[at_time[is_high]] += low_before[is_high]
        place = start + np.where(is_high, (1 << bit) + high_before, low_before)
        next_rank, next_time = np.empty_like(at_rank), np.empty_like(at_time)
        next_rank[place], next_time[place] = at_rank, at_time
        at_rank, at_time = next_rank, next_time
    return found

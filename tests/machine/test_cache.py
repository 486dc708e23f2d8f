"""Caches and reuse distances: every touch as in a slow model, and counts that are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb.core.errors import MLCError
from mlcnb.machine.cache import EMPTY, Cache, caches, run, through
from mlcnb.machine.reuse import COLD, histogram, stack_distances
from mlcnb.target import Target

streams = st.lists(st.integers(0, 40), max_size=250)


def stacks(level: Cache, lines: list[int]) -> list[tuple[int, int]]:
    """(depth, victim) of each touch: a list for each set, the last touched line in front."""
    sets: list[list[int]] = [[] for _ in range(level.sets)]
    found = []
    for line in lines:
        stack = sets[line % level.sets]
        if line in stack:
            found.append((stack.index(line), EMPTY))
            stack.remove(line)
        else:
            full = len(stack) == level.ways
            found.append((level.ways, stack.pop() if full else EMPTY))
        stack.insert(0, line)
    return found


@settings(max_examples=200, deadline=None)
@given(streams, st.integers(1, 5), st.integers(1, 6))
def test_every_touch_as_in_the_slow_model(lines, sets, ways):
    level = Cache(sets * ways * 64, ways)
    found = run(level, np.array(lines, np.int64))
    assert list(zip(found.depth.tolist(), found.victim.tolist(), strict=True)) == stacks(
        level, lines
    )
    assert found.misses == sum(depth == ways for depth, _ in stacks(level, lines))


@settings(max_examples=200, deadline=None)
@given(streams)
def test_reuse_distance_is_the_place_in_one_stack(lines):
    stack: list[int] = []
    expected = []
    for line in lines:
        expected.append(stack.index(line) if line in stack else COLD)
        if line in stack:
            stack.remove(line)
        stack.insert(0, line)
    assert stack_distances(np.array(lines, np.int64)).tolist() == expected


@settings(max_examples=100, deadline=None)
@given(streams, st.integers(1, 12))
def test_a_cache_of_one_set_misses_what_comes_back_too_late(lines, ways):
    found = run(Cache(ways * 64, ways), np.array(lines, np.int64))
    distance = stack_distances(np.array(lines, np.int64))
    assert found.is_hit.tolist() == ((distance != COLD) & (distance < ways)).tolist()


@settings(max_examples=100, deadline=None)
@given(streams)
def test_levels_see_what_the_one_before_misses(lines):
    levels = [Cache(4 * 64, 2), Cache(12 * 64, 3, name="L2")]
    near = stacks(levels[0], lines)
    missed = [n for n, (depth, _) in enumerate(near) if depth == 2]
    far = stacks(levels[1], [lines[n] for n in missed])
    expected = [0] * len(lines)
    for n, (depth, _) in zip(missed, far, strict=True):
        expected[n] = 1 if depth < 3 else 2
    assert through(levels, np.array(lines, np.int64)).tolist() == expected


def matmul_lines(n: int, tile: int) -> np.ndarray:
    """C[i, j], A[i, k], B[k, j], C[i, j] of float32, tile by tile, one array after the other."""
    outer = n // tile
    at = np.indices((outer, outer, outer, tile, tile, tile)).reshape(6, -1)
    i, j, k = (at[axis] * tile + at[axis + 3] for axis in range(3))
    a, b, c = i * n + k, n * n + k * n + j, 2 * n * n + i * n + j
    return np.stack([c, a, b, c], 1).ravel() * 4 // 64


def test_a_matmul_and_its_tiles():
    level = Cache.of("32K/8way/64B")
    assert run(level, matmul_lines(96, 96)).misses == 56_448
    assert run(level, matmul_lines(96, 16)).misses == 4_608


def test_histogram_of_a_matmul():
    found = histogram(stack_distances(matmul_lines(32, 32)), 64)
    # C A B C, C A B C: C follows itself, but where one of its 2 * 32 lines begins
    assert found.counts[0] == 32**3 - 2 * 32 and found.cold == 3 * 2 * 32
    assert found.total == 4 * 32**3
    assert [found.bounds(n) for n in range(4)] == [(0, 0), (1, 1), (2, 3), (4, 7)]
    assert histogram(np.array([0, 1, 2, 3, 4, 7, 8, COLD]), 64).counts == (1, 1, 2, 2, 1)


def test_levels_by_name():
    assert [str(c) for c in caches("32K/8way/64B, 1M/8way, 16MiB")] == [
        "32K/8way/64B",
        "1M/8way/64B",
        "16M/16way/64B",
    ]
    assert [c.name for c in caches(["32K", "1M"])] == ["L1", "L2"]
    assert caches("1000B/full/8")[0] == Cache(1000, 125, 8)
    assert caches(Cache(64, 1)) == (Cache(64, 1),)
    assert [c.nbytes for c in caches(Target("llvm -mcpu=x86-64-v3"))] == [
        32 << 10, 1 << 20, 16 << 20,
    ]  # fmt: skip
    level = Cache.of("32K/8way/64B")
    assert (level.sets, level.lines, str(level)) == (64, 512, "32K/8way/64B")


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        ("much", "cache 'much' cannot be read", ""),
        ("32K/blue", "cache '32K/blue': what is 'blue'?", ""),
        ("", "cache: no level", ""),
        ("32K/8way/48B", "cache 32K/8way/48B: no such cache", ", a power of two"),
        (
            "32K/7way",
            "cache 32K/7way/64B: 32,768 bytes are no whole number of sets of 7 lines of 64 bytes",
            "",
        ),
        (7, "cache: an int names no cache", ""),
        ([7], "cache: an int is no level", ""),
    ],
)
def test_what_is_no_cache(spec, message, hint):
    with pytest.raises(MLCError) as caught:
        caches(spec)
    form = "as 32K/8way/64B: bytes, ways, bytes of a line"
    assert str(caught.value) == f"{message}\nhint: {form}{hint}"


def test_levels_with_lines_of_different_sizes():
    with pytest.raises(MLCError) as caught:
        caches("32K/8way/64B, 1M/8way/128B")
    assert str(caught.value) == (
        "cache: lines of different sizes: 32K/8way/64B, 1M/8way/128B\n"
        "hint: all levels hold lines of one size"
    )

"""sample_*: what may be drawn, decisions, seeds, refusals."""

from __future__ import annotations

from collections import Counter
from math import prod

import pytest

from mlcnb.script import tir as T
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    conv2d,
    elementwise,
    matmul_relu,
    only,
    padded_pool,
    refuses,
    replays,
    same_numbers,
    softmax,
    stencil,
)


@T.prim_func
def symbolic(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("B"):
            v = T.axis.spatial(n, i)
            B[v] = A[v] * T.float32(2)


def drawn(sch: Schedule, values) -> list[int]:
    return [int(sch.get(v)) for v in values]


def test_categorical_follows_the_weights():
    sch = Schedule(elementwise(), seed=42)
    candidates, weights = [5, 2, 7, 1], [0.15, 0.55, 0.05, 0.25]
    counts = Counter(int(sch.get(sch.sample_categorical(candidates, weights))) for _ in range(1000))
    for candidate, weight in zip(candidates, weights, strict=True):
        assert abs(counts[candidate] / 1000 - weight) < 0.07
    replays(sch)


def test_categorical_refusals():
    sch = Schedule(elementwise())
    with refuses(sch, "sample_categorical: 2 candidates have 1 probabilities"):
        sch.sample_categorical([1, 2], [1.0])
    with refuses(sch, "sample_categorical: decision 2 is no position among 2 candidates"):
        sch.sample_categorical([1, 2], [0.5, 0.5], decision=2)
    with refuses(sch, "sample_categorical: [0.5, -0.5] are no probabilities"):
        sch.sample_categorical([1, 2], [0.5, -0.5])
    with refuses(sch, "sample_categorical: [0.0, 0.0] are no probabilities"):
        sch.sample_categorical([1, 2], [0.0, 0.0])


@pytest.mark.parametrize("extent", [1, 2, 128, 257, 1470])
def test_perfect_tiles_multiply_to_the_extent(extent: int):
    sch = Schedule(elementwise(extent), seed=extent)
    (i,) = sch.get_loops("B")
    for n in (2, 3, 4):
        for most in (1, 4, 16):
            factors = drawn(sch, sch.sample_perfect_tile(i, n=n, max_innermost_factor=most))
            assert prod(factors) == extent and len(factors) == n
            assert factors[-1] <= most
    replays(sch)


def test_all_tiles_are_drawn():
    sch = Schedule(elementwise(12), seed=1)
    (i,) = sch.get_loops("B")
    tiles = {tuple(drawn(sch, sch.sample_perfect_tile(i, n=2))) for _ in range(200)}
    assert tiles == {(1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1)}


def test_a_symbolic_loop_is_one_tile():
    sch = Schedule(symbolic)
    (i,) = sch.get_loops("B")
    factors = sch.sample_perfect_tile(i, n=2)
    assert drawn(sch, factors) == [-1, 1]
    sch.split(i, factors)
    becomes(
        sch,
        """
        for i_0, i_1 in T.grid(n, 1):
            with T.block("B"):
                v = T.axis.spatial(n, i_0 + i_1)
                B[v] = A[v] * T.float32(2.0)
        """,
    )


def test_decisions_are_taken_or_adapted():
    sch = Schedule(elementwise(24))
    (i,) = sch.get_loops("B")
    for decision, taken in (
        ([2, 3, 4], [2, 3, 4]),
        ([1, 1, 5], [1, 1, 24]),
        ([9, 5, 8], [1, 3, 8]),
        ([1, 0, 8], [1, 3, 8]),
    ):
        assert drawn(sch, sch.sample_perfect_tile(i, n=3, decision=decision)) == taken
        assert sch.trace.insts[-1].decision == taken
    with refuses(sch, "sample_perfect_tile: decision [4, 6] has 2 factors, not 3"):
        sch.sample_perfect_tile(i, n=3, decision=[4, 6])
    with refuses(sch, "sample_perfect_tile: a tile has two factors or more, 1 asked for"):
        sch.sample_perfect_tile(i, n=1)


def test_a_trace_is_done_again_on_another_extent():
    sch = Schedule(elementwise(24))
    (i,) = sch.get_loops("B")
    sch.split(i, sch.sample_perfect_tile(i, n=2, decision=[3, 8]))
    again = Schedule(elementwise(16))
    sch.trace.apply_to_schedule(again)
    assert [repr(x) for x in again.get_loops("B")] == [
        "loop i_0 in 0..2 of block B",
        "loop i_1 in 0..8 of block B",
    ]
    other = Schedule(elementwise(15))
    sch.trace.apply_to_schedule(other)
    assert [repr(x) for x in other.get_loops("B")] == [
        "loop i_0 in 0..1 of block B",
        "loop i_1 in 0..15 of block B",
    ]


def test_partitioned_tiles_keep_their_inner_part():
    sch = Schedule(elementwise(96), seed=7)
    (i,) = sch.get_loops("B")
    seen = set()
    for _ in range(50):
        values = sch.sample_partitioned_tile(i, n=4, partition_pos=2, innerpart_factor=12)
        factors = drawn(sch, values)
        assert prod(factors) == 96 and factors[2] * factors[3] % 12 == 0
        seen.add(tuple(factors))
    assert len(seen) > 5
    replays(sch)


def test_partitioned_refusals():
    sch = Schedule(elementwise(96))
    (i,) = sch.get_loops("B")
    with refuses(sch, "sample_partitioned_tile: the extent 96 of loop i is no multiple of 5"):
        sch.sample_partitioned_tile(i, n=3, partition_pos=1, innerpart_factor=5)
    with refuses(sch, "sample_partitioned_tile: partition_pos 3 is none of 3 factors"):
        sch.sample_partitioned_tile(i, n=3, partition_pos=3, innerpart_factor=4)
    with refuses(
        sch, "sample_partitioned_tile: decision [6, 16] has no multiple of 32 from position 1 on"
    ):
        sch.sample_partitioned_tile(i, n=2, partition_pos=1, innerpart_factor=32, decision=[6, 16])


def test_same_seed_same_draws_and_another_seed_others():
    def draws(seed: int) -> list:
        sch = Schedule(elementwise(1470), seed=seed)
        (i,) = sch.get_loops("B")
        return [drawn(sch, sch.sample_perfect_tile(i, n=4)) for _ in range(5)]

    assert draws(3) == draws(3)
    assert draws(3) != draws(4)


def test_compute_location():
    sch = Schedule(padded_pool(4), seed=3)
    C = sch.get_block("C")
    i, j, a, b = sch.get_loops(C)
    i_0, i_1 = sch.split(i, [2, 2])
    sch.reorder(i_0, a, b, i_1, j)
    seen = Counter()
    for _ in range(60):
        sch.sample_compute_location("pad")
        seen[sch.trace.insts[-1].decision] += 1
    assert set(seen) == {-2, -1, 0, 1, 2}
    replays(sch)


@pytest.mark.parametrize("decision", [-2, -1, 0, 1])
def test_compute_at_takes_what_is_drawn(decision: int):
    sch = Schedule(padded_pool(4))
    place = sch.sample_compute_location("pad", decision=decision)
    assert (
        repr(place)
        == {
            -2: "place: inline",
            -1: "place: where it stands",
            0: "loop i in 0..4 of block C",
            1: "loop j in 0..4 of block C",
        }[decision]
    )
    sch.compute_at("pad", place)
    same_numbers(only(sch.steps[0].mod), only(sch.mod))
    replays(sch)


def test_every_place_is_legal():
    for func in (elementwise(6), matmul_relu(3, 4, 5), softmax(), stencil(8), conv2d(4)):
        for seed in range(1, 6):
            sch = Schedule(func, seed=seed)
            for block in sch.get_child_blocks(sch.get_block("root")):
                sch.compute_at(block, sch.sample_compute_location(block))
            same_numbers(only(sch.steps[0].mod), only(sch.mod))


def test_a_place_that_is_gone_becomes_the_one_before():
    sch = Schedule(padded_pool(4))
    sch.sample_compute_location("pad", decision=9)
    assert sch.trace.insts[-1].decision == 3
    sch.sample_compute_location("C", decision=2)
    assert sch.trace.insts[-1].decision == -1


def test_a_place_is_no_loop():
    sch = Schedule(padded_pool(4))
    place = sch.sample_compute_location("pad", decision=-1)
    with refuses(
        sch,
        "parallel: the place 'where it stands' is no loop",
        hint='pass a loop that get_loops gives: i, j = sch.get_loops("C")',
    ):
        sch.parallel(place)

"""What a state says of its blocks: flags, dependences between places, by TVM's names."""

from __future__ import annotations

import pytest

from mlcnb import tir
from mlcnb.script import tir as T
from mlcnb.tir.schedule.record.state import CachedFlags


def sref(state, name: str):
    (block,) = [b for tree in state.all_trees() for b in tree.blocks if b.name_hint == name]
    return state.get_sref(block)


def flags(func, *names: str) -> dict[str, str]:
    """The flags that hold, by their initials."""
    state = tir.ScheduleState(func, debug_mask="all")
    found = {}
    for name in names:
        held = state._get_cached_flags(sref(state, name))
        all_three = {"a": held.affine_binding, "c": held.region_cover, "p": held.stage_pipeline}
        found[name] = "".join(letter for letter, holds in all_three.items() if holds)
    return found


def halves(count: int):
    @T.prim_func
    def func(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        for i in range(count):
            with T.block("low"):
                v = T.axis.spatial(count, i)
                A[v] = T.float32(1)
        for i in range(8):
            with T.block("high"):
                v = T.axis.spatial(8, i)
                A[v + 8] = T.float32(2)
        for i in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, i)
                C[v] = A[v]

    return func


def test_what_is_read_of_two_writers():
    names = ("low", "high", "C", "root")
    assert flags(halves(8), *names) == dict.fromkeys(names, "acp")
    assert flags(halves(7), *names) == {"low": "acp", "high": "acp", "C": "ap", "root": "ac"}


@T.prim_func
def late(
    A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")
):
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v]
        with T.block("C"):
            v = T.axis.spatial(16, i)
            C[v] = T.if_then_else(v >= 1, B[v - 1], T.float32(0))


@T.prim_func
def overwritten(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v]
    for i in range(16):
        with T.block("A"):
            v = T.axis.spatial(16, i)
            A[v] = T.float32(0)


def test_scopes_that_are_no_pipeline():
    assert flags(late, "B", "C", "root") == {"B": "acp", "C": "ap", "root": "ac"}
    assert flags(overwritten, "B", "A", "root") == {"B": "acp", "A": "acp", "root": "ac"}


@T.prim_func
def early(
    A: T.Buffer((16,), "float32"), B: T.Buffer((17,), "float32"), C: T.Buffer((16,), "float32")
):
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v]
        with T.block("C"):
            v = T.axis.spatial(16, i)
            C[v] = B[v + 1]


def test_what_a_later_iteration_overwrites_is_not_covered():
    assert flags(early, "B", "C", "root") == {"B": "acp", "C": "ap", "root": "ac"}


def transposed(scope: str, axis: str = "threadIdx.x"):
    @T.prim_func
    def func(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        B = T.alloc_buffer((16, 16), scope=scope)
        for i in T.thread_binding(16, thread=axis):
            for j in range(16):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj]
            for j in range(16):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vj, vi]

    return func


@pytest.mark.parametrize(
    ("scope", "axis", "covered"),
    [
        ("shared", "threadIdx.x", True),
        ("shared", "threadIdx.y", True),
        ("shared", "blockIdx.x", False),
        ("warp", "threadIdx.x", True),
        ("warp", "threadIdx.y", False),
        ("local", "threadIdx.x", False),
        ("global", "blockIdx.x", True),
    ],
)
def test_memory_that_threads_share(scope, axis, covered):
    state = tir.ScheduleState(transposed(scope, axis), enable_check=False)
    assert state._get_cached_flags(sref(state, "C")).region_cover is covered
    assert state._get_cached_flags(sref(state, "root")).stage_pipeline is covered


def test_repeated_instances_are_not_affine():
    @T.prim_func
    def func(A: T.Buffer((16,), "float32")):
        for i, _j in T.grid(16, 2):
            with T.block("A"):
                v = T.axis.spatial(16, i)
                A[v] = T.float32(1)

    state = tir.ScheduleState(func)
    assert state._get_cached_flags(sref(state, "A")) == CachedFlags(False, True, True)


def test_dependences_between_places():
    state = tir.ScheduleState(overwritten)
    root, first, second = (sref(state, name) for name in ("root", "B", "A"))
    scope = state.get_block_scope(root)
    (found,) = scope.get_deps_by_src(first)
    assert (found.src, found.dst, found.kind) == (first, second, tir.schedule.DepKind.WAR)
    assert scope.get_deps_by_dst(second) == [found]
    assert scope.get_deps_by_dst(first) == scope.get_deps_by_src(second) == []
    assert isinstance(scope, tir.block_scope.BlockScope)


def test_a_place_of_another_program():
    state, other = tir.ScheduleState(late), tir.ScheduleState(overwritten)
    message = r"block B is no part of the program \(now\)"
    with pytest.raises(IndexError, match=message):
        state.get_block_scope(sref(other, "B"))

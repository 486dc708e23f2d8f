"""Reductions whose first step, with the init, a predicate may leave out: steps keep the numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import ScheduleError
from mlcnb.script import parse
from mlcnb.tir import PrimFunc
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import refuses

CONDITIONS = (
    "k > 0", "k != 0", "k >= 3", "i + k > 2", "k < 5", "i + k < 7", "k % 2 == 1", "i < 4",
    "k // 2 < 3", "k // 2 > 0", "k < 5 and i + k >= 1", "k == 0", "i > 1 or k > 1",
)  # fmt: skip


def part_sum(condition: str) -> PrimFunc:
    return parse(f"""
@T.prim_func
def main(A: T.Buffer((6, 8), "int32"), B: T.Buffer((6,), "int32")):
    for i, k in T.grid(6, 8):
        with T.block("B"):
            T.where({condition})
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
""")


def numbers(func: PrimFunc) -> list[int]:
    """The sums over what a run of 100 more left there; rows that are not written keep the 100."""
    a, b = np.arange(48, dtype="int32").reshape(6, 8), np.full(6, 100, "int32")
    run_prim_func(func, [a, b])
    return b.tolist()


STEPS: dict[str, Callable[[Schedule], object]] = {
    "decompose_reduction": lambda sch: sch.decompose_reduction("B", sch.get_loops("B")[0]),
    "decompose inside": lambda sch: sch.decompose_reduction("B", sch.get_loops("B")[1]),
    "rfactor": lambda sch: sch.rfactor(sch.get_loops("B")[1], 0),
    "rfactor of parts": lambda sch: sch.rfactor(sch.split(sch.get_loops("B")[1], [2, 4])[0], 0),
    "cache_write": lambda sch: sch.cache_write("B", 0, "local"),
    "cache_read": lambda sch: sch.cache_read("B", 0, "local"),
    "write_at": lambda sch: sch.write_at(sch.get_loops("B")[0], "B", 0, "local"),
    "blockize": lambda sch: sch.blockize(sch.get_loops("B")[1]),
    "blockize all": lambda sch: sch.blockize(sch.get_loops("B")[0]),
    "pad_einsum": lambda sch: sch.pad_einsum("B", [4, 4]),
    "reindex": lambda sch: sch.reindex("B", ("write", 0)),
    "reorder": lambda sch: sch.reorder(*reversed(sch.get_loops("B"))),
    "fuse and split": lambda sch: sch.split(sch.fuse(*sch.get_loops("B")), [None, 12]),
    "split": lambda sch: sch.decompose_reduction("B", sch.split(sch.get_loops("B")[1], [3, 3])[0]),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_step_keeps_the_numbers_or_is_refused(condition):
    expected = numbers(part_sum(condition))
    for name, step in STEPS.items():
        for check in ("default", "rules"):
            sch = Schedule(part_sum(condition), check=check)
            try:
                step(sch)
            except ScheduleError:
                continue
            assert numbers(sch.mod["main"]) == expected, (name, check)


def test_the_refusal_says_what_is_left_out():
    sch = Schedule(part_sum("i + k > 2"))
    with refuses(
        sch,
        "cache_write: block B updates what B held before: its first step does not run unless "
        "i + k > 2, nor does its init",
    ):
        sch.cache_write("B", 0, "local")


@pytest.mark.parametrize("condition", ["k < 5", "i + k < 7", "k // 2 < 3", "i < 4"])
def test_a_first_step_that_runs_refuses_nothing(condition):
    sch = Schedule(part_sum(condition), check="rules")
    sch.decompose_reduction("B", sch.get_loops("B")[0])
    assert numbers(sch.mod["main"]) == numbers(part_sum(condition))


BODIES = {
    "if": """
            if A[vi, vj] % 2 == 0:
                B[vi, vj] = A[vi, vj]""",
    "else": """
            if A[vi, vj] % 2 == 0:
                B[vi, vj] = A[vi, vj]
            else:
                B[vi, vj] = 7""",
    "before": """
            B[vi, vj] = 7
            if A[vi, vj] % 2 == 0:
                B[vi, vj] = A[vi, vj]""",
    "inside": """
            for k in range(1):
                with T.block("inner"):
                    vk = T.axis.spatial(1, k)
                    T.where(j > 2)
                    T.reads(A[vi, vj])
                    T.writes(B[vi, vj])
                    B[vi, vj] = A[vi, vj] + vk""",
}
COPIES: dict[str, Callable[[Schedule], object]] = {
    "cache_write": lambda sch: sch.cache_write("B", 0, "local"),
    "write_at": lambda sch: sch.write_at(sch.get_loops("B")[0], "B", 0, "local"),
    "reindex": lambda sch: sch.reindex("B", ("write", 0)),
    "reindex_cache_write": lambda sch: sch.reindex_cache_write(
        "B", 0, "local", lambda i, j: (j, i)
    ),
}


def block_of(body: str) -> PrimFunc:
    return parse(f"""
@T.prim_func
def main(A: T.Buffer((6, 8), "int32"), B: T.Buffer((6, 8), "int32")):
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(B[vi, vj])
{BODIES[body].replace("j > 2", "vj > 2")}
""")


def whole(func: PrimFunc) -> list[list[int]]:
    a, b = np.arange(48, dtype="int32").reshape(6, 8), np.full((6, 8), 100, "int32")
    run_prim_func(func, [a, b])
    return b.tolist()


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("check", ["default", "rules"])
def test_a_copy_writes_no_element_that_was_left_out(body, name, check):
    sch = Schedule(block_of(body), check=check)
    surely = body in ("else", "before")
    try:
        COPIES[name](sch)
    except ScheduleError as error:
        assert not surely or "condition" not in error.message
    else:
        assert surely
        assert whole(sch.mod["main"]) == whole(block_of(body))

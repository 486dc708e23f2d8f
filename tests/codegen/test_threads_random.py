"""Random schedules with bound loops: on simulated threads and lowered, the numbers of the loops."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import ExecutionError, PassError, ScheduleError, UnsupportedOpError
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform import lower
from tests.tir.schedule import programs

AXES = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "vthread.x")
FUNCTIONS: list[Callable] = [
    lambda: programs.elementwise(16),
    lambda: programs.copy_2d(6, 8),
    lambda: programs.matmul(4, 6, 8),
    lambda: programs.matmul_relu(4, 4, 6),
    lambda: programs.row_sum(4, 12),
    lambda: programs.stencil(14),
    lambda: programs.softmax(3, 8),
    lambda: programs.padded_sum(6),
]
#: what a program that is not made for threads in the end may be refused with
REFUSALS = ("is allocated outside of the kernel", "a kernel cannot allocate global memory")


def step(sch: Schedule, dice: random.Random) -> None:
    """One random primitive, which may be refused."""
    blocks = sch.get_child_blocks(sch.get_block("root"))
    block, other = dice.choice(blocks), dice.choice(blocks)
    loops, others = sch.get_loops(block), sch.get_loops(other)
    loop = dice.choice(loops)
    choice = dice.choice(["bind"] * 4 + ["split"] * 2 + STEPS)
    match choice:
        case "bind":
            sch.bind(loop, dice.choice(AXES))
        case "split":
            sch.split(loop, [None, dice.choice([2, 3, 4])])
        case "reorder":
            sch.reorder(*dice.sample(loops, len(loops)))
        case "fuse" if len(loops) > 1:
            at = dice.randrange(len(loops) - 1)
            sch.fuse(loops[at], loops[at + 1])
        case "compute_at":
            sch.compute_at(block, dice.choice(others))
        case "reverse_compute_at":
            sch.reverse_compute_at(block, dice.choice(others))
        case "cache_read":
            sch.cache_read(block, 0, dice.choice(["shared", "local"]))
        case "cache_write":
            sch.cache_write(block, 0, dice.choice(["shared", "local"]))
        case "set_scope":
            sch.set_scope(block, 0, dice.choice(["shared", "local"]))
        case "vectorize":
            sch.vectorize(loop)
        case "compute_inline":
            sch.compute_inline(block)
        case "decompose_reduction":
            sch.decompose_reduction(block, loop)


STEPS = [
    "reorder", "fuse", "compute_at", "reverse_compute_at", "cache_read", "cache_write",
    "set_scope", "vectorize", "compute_inline", "decompose_reduction",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_random_schedules_on_threads(seed):
    """No accepted schedule races, diverges at a barrier, or computes anything else."""
    dice = random.Random(seed)
    func = dice.choice(FUNCTIONS)()
    sch = Schedule(func)
    for _ in range(dice.randint(3, 14)):
        try:
            step(sch, dice)
        except ScheduleError:
            continue
    made = sch.mod["main"]
    try:
        versions = {"in block form": made, "lowered": lower(made)}
    except PassError:  # what threads cannot do together, said in words
        return
    expected = programs.numbers(func)
    for name, version in versions.items():
        args = [x.copy() for x in expected]
        args[-1][...] = np.nan
        try:
            run_prim_func(version, args, simulate=True, order=seed)
        except (ExecutionError, UnsupportedOpError) as error:
            assert any(text in error.message for text in REFUSALS), error
            continue
        for x, y in zip(expected, args, strict=True):
            np.testing.assert_allclose(y, x, rtol=1e-4, atol=1e-5, err_msg=name)

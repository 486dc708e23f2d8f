"""Denormal numbers count as zero while a program runs, on every thread, and only then."""

from __future__ import annotations

import platform

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.runtime import threads

TINY = np.float32(1e-40)

pytestmark = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64", "aarch64", "arm64"),
    reason="no such mode is known for this CPU",
)


def scaled(rows: int) -> mlc.runtime.Executable:
    """y = x * s over rows that run on all threads."""
    te = mlc.te
    x, s = te.placeholder((rows, 64), name="x"), te.placeholder((1,), name="s")
    y = te.compute((rows, 64), lambda i, j: x[i, j] * s[0], name="y")
    sch = mlc.tir.Schedule(te.create_prim_func([x, s, y]))
    sch.parallel(sch.get_loops("y")[0])
    return mlc.compile(sch.mod["main"])


@pytest.mark.parametrize("size", [1, 2])
def test_denormal_operands_and_results_are_zero_on_every_thread(size):
    before = threads.get_num_threads()
    threads.set_num_threads(size)
    try:
        ex = scaled(256)
        for operand, factor in ((TINY, 1e38), (1e-30, 1e-10)):
            y = np.ones((256, 64), np.float32)
            ex(np.full((256, 64), operand, np.float32), np.array([factor], np.float32), y)
            assert (y == 0).all()
    finally:
        threads.set_num_threads(before)


def test_the_caller_keeps_its_mode():
    assert TINY * np.float32(2) != 0
    scaled(8)(np.ones((8, 64), np.float32), np.ones(1, np.float32), np.ones((8, 64), np.float32))
    assert TINY * np.float32(2) != 0

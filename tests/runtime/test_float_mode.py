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


HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
IS_X86 = platform.machine().lower() in ("x86_64", "amd64")


@pytest.mark.parametrize("cpu", ["host", "x86-64", "x86-64-v3"] if IS_X86 else ["host"])
@pytest.mark.parametrize("wide", ["float32", "float64"])
def test_denormal_float16_stay_themselves(cpu, wide):
    """Wherever the CPU has no instruction that converts them, too: they are no denormal float32."""
    te, n = mlc.te, HALVES.size
    x, y = te.placeholder((n,), "float16", name="x"), te.placeholder((n,), wide, name="y")
    up = te.compute((n,), lambda i: x[i].astype(wide), name="up")
    down = te.compute((n,), lambda i: y[i].astype("float16"), name="down")
    ex = mlc.compile(te.create_prim_func([x, y, up, down]), target=f"llvm -mcpu={cpu}")
    exact = HALVES.astype(wide)
    with np.errstate(all="ignore"):
        between = np.nextafter(exact * np.dtype(wide).type(1.0002), exact)
        expected = between.astype(np.float16)
    found = np.empty(n, wide), np.empty(n, np.float16)
    ex(HALVES, between, *found)
    np.testing.assert_array_equal(found[0], exact)
    np.testing.assert_array_equal(found[1], expected)

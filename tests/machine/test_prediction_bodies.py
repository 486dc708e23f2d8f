"""Cycles of written-out bodies: by vectors of work, by loads, by sums that wait or do not fit."""

from __future__ import annotations

import pytest

from mlcnb.machine.prediction import body_cycles
from mlcnb.script import tir as T
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

#: 32 registers of 16 float32
TARGET = Target("llvm -mcpu=x86-64-v4")


@T.prim_func
def product(
    A: T.Buffer((64, 256), "float32"),
    B: T.Buffer((256, 64), "float32"),
    C: T.Buffer((64, 64), "float32"),
):
    for i, j, k in T.grid(64, 64, 256):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def tiled(rows: int, columns: int, unrolled: int = 1):
    """Tiles of so many rows and columns, written out; `unrolled` steps of k around them."""
    sch = Schedule(product)
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, rows])
    j0, j1 = sch.split(j, [None, columns])
    k0, k1 = sch.split(k, [None, unrolled])
    sch.reorder(i0, j0, k0, k1, i1, j1)
    sch.unroll(k1)
    sch.unroll(i1)
    sch.vectorize(j1)
    return sch.mod["main"]


@pytest.mark.parametrize(
    ("rows", "columns", "cycles"),
    [
        (4, 64, 8),  # 16 vectors of products, 2 a cycle
        (4, 16, 4),  # 4 sums, each waits 4 cycles for the one before
        (1, 64, 4),  # the same along a row
        (2, 16, 4),
    ],
)
def test_a_body(rows, columns, cycles):
    bodies = 64 // rows * (64 // columns) * 256
    assert body_cycles(tiled(rows, columns), TARGET) == bodies * cycles


def test_sums_that_do_not_fit_in_registers_are_dear():
    fits, spills = (body_cycles(tiled(n, 64), TARGET) for n in (4, 16))
    assert spills > 2 * fits


def test_a_body_that_is_too_long_is_dear():
    short, long = (body_cycles(tiled(4, 64, n), TARGET) for n in (4, 32))
    assert long > 1.5 * short


def test_fewer_registers_hold_fewer_sums():
    avx2 = Target("llvm -mcpu=x86-64-v3")
    assert body_cycles(tiled(8, 32), avx2) > 2 * body_cycles(tiled(8, 32), TARGET)

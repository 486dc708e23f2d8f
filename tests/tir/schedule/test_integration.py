"""Whole schedules of the kind the compiler uses: a register-tiled product, a direct convolution."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlcnb.codegen.interp import run_prim_func
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import conv2d, matmul, same_numbers, text

SNAPSHOTS = Path(__file__).parent / "snapshots"


def snapshot(name: str, found: str) -> None:
    """The text is as it was when it was last reviewed."""
    assert found + "\n" == (SNAPSHOTS / name).read_text()


def tile_matmul(sch: Schedule) -> None:
    """A 4 x 16 tile of the result in registers, over all of k."""
    C = sch.get_block("C")
    copy = sch.cache_write(C, 0, "local")
    i, j, k = sch.get_loops(C)
    i0, i1 = sch.split(i, [None, 4])
    j0, j1, j2 = sch.split(j, [None, 2, 8])
    sch.reorder(i0, j0, k, i1, j1, j2)
    sch.reverse_compute_at(copy, j0)
    init = sch.decompose_reduction(C, k)
    for block in (init, C):
        a, b, lanes = sch.get_loops(block)[-3:]
        sch.unroll(a)
        sch.unroll(b)
        sch.vectorize(lanes)
    _rows, columns = sch.get_loops(copy)[-2:]
    _outer, lanes = sch.split(columns, [None, 8])
    sch.vectorize(lanes)
    sch.parallel(sch.fuse(i0, j0))


def tile_conv(sch: Schedule, pad: str) -> None:
    """Tiles of 3 columns; bias and relu in the tile; padding row by row, or at each element."""
    conv = sch.get_block("conv")
    sch.compute_inline("add")
    c, y, x, v, rc, ry, rx, rv = sch.get_loops(conv)
    x0, x1 = sch.split(x, [None, 3])
    sch.reorder(c, y, x0, rc, ry, rx, rv, x1, v)
    sch.reverse_compute_at("relu", x0)
    if pad == "inline":
        sch.compute_inline("pad")
    else:
        sch.compute_at("pad", y)
    init = sch.decompose_reduction(conv, rc)
    for block in (init, conv):
        a, lanes = sch.get_loops(block)[-2:]
        sch.unroll(a)
        sch.vectorize(lanes)
    sch.vectorize(sch.get_loops("relu")[-1])
    sch.parallel(sch.fuse(c, y))


def test_register_tiled_matmul():
    sch = Schedule(matmul(16, 32, 8))
    tile_matmul(sch)
    snapshot("matmul.txt", text(sch))
    same_numbers(sch.steps[0].mod["main"], sch.mod["main"])


def test_register_tiled_matmul_of_64():
    sch = Schedule(matmul(64, 64, 64))
    tile_matmul(sch)
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((64, 64)).astype("float32") for _ in range(2))
    c = np.empty((64, 64), "float32")
    run_prim_func(sch.mod["main"], [a, b, c])
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("pad", ["row", "inline"])
@pytest.mark.parametrize("stride", [1, 2])
def test_direct_convolution(pad, stride):
    sch = Schedule(conv2d(height=6, channels=(2, 2), lanes=4, stride=stride))
    tile_conv(sch, pad)
    if stride == 1:
        snapshot(f"conv_{pad}.txt", text(sch))
    same_numbers(sch.steps[0].mod["main"], sch.mod["main"])


def test_imperfect_tiles():
    sch = Schedule(matmul(7, 19, 5))
    tile_matmul(sch)
    same_numbers(sch.steps[0].mod["main"], sch.mod["main"])


def test_threads_fetch_into_shared_memory():
    sch = Schedule(matmul(8, 8, 8))
    C = sch.get_block("C")
    fetched = sch.cache_read(C, 0, "shared")
    i, j, k = sch.get_loops(C)
    i0, i1 = sch.split(i, [2, 4])
    j0, j1 = sch.split(j, [2, 4])
    k0, k1 = sch.split(k, [2, 4])
    sch.reorder(i0, j0, i1, j1, k0, k1)
    for loop, axis in ((i0, "blockIdx.y"), (j0, "blockIdx.x"), (i1, "threadIdx.y")):
        sch.bind(loop, axis)
    sch.bind(j1, "threadIdx.x")
    sch.compute_at(fetched, k0)
    rows, columns = sch.get_loops(fetched)[-2:]
    sch.bind(rows, "threadIdx.y")
    sch.bind(columns, "threadIdx.x")
    snapshot("matmul_threads.txt", text(sch))
    same_numbers(sch.steps[0].mod["main"], sch.mod["main"])


def test_trace_snapshot():
    sch = Schedule(matmul(16, 32, 8))
    tile_matmul(sch)
    snapshot("matmul_trace.txt", str(sch.trace))


def test_steps_are_fast():
    """About twenty steps on a kernel take milliseconds; a generous bound, for busy machines."""
    sch = Schedule(conv2d())
    tile_conv(sch, "row")
    spent = sorted(s.seconds for s in sch.steps[1:])
    assert spent[len(spent) // 2] < 0.02

"""Products with one row or one column."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import te
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.dlight.decide import Decisions
from mlcnb.ir.structural import assert_structural_equal
from tests.dlight.test_cpu import LANES
from tests.dlight.test_matmul import product


def summed(rows: int, depth: int, batch: int = 2):
    """A matrix whose rows run along the depth, times a vector, for each of a batch."""
    a = te.placeholder((batch, 1, depth), "float32", "a")
    b = te.placeholder((batch, rows, depth), "float32", "b")
    k = te.reduce_axis((0, depth), "k")
    y = te.compute(
        (batch, 1, rows), lambda n, i, j: te.sum(a[n, i, k] * b[n, j, k], axis=k), name="matmul"
    )
    return te.create_prim_func([a, b, y])


@pytest.mark.parametrize("depth", [1, LANES - 1, LANES, LANES + 1, 2 * LANES, 3 * LANES + 5])
def test_rows_as_short_as_a_vector(depth):
    """A row of one vector leaves no loop to sum over: another rule takes it."""
    rng = np.random.default_rng(depth)
    a, b = (rng.standard_normal((2, n, depth)).astype("f4") for n in (1, 9))
    y = np.full((2, 1, 9), np.nan, "f4")
    mlc.compile(summed(9, depth), "llvm", schedule="default")(a, b, y)
    np.testing.assert_allclose(y, a @ b.transpose(0, 2, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("depth", [3, 32, 100])
def test_a_matrix_times_a_vector(cpu, rows, depth):
    """Of one row too, whose one axis is then that of the columns."""
    a, b = te.placeholder((rows, depth), "float32", "a"), te.placeholder((depth,), "float32", "b")
    k = te.reduce_axis((0, depth), "k")
    y = te.compute((rows,), lambda i: te.sum(a[i, k] * b[k], axis=k), name="matmul")
    sch = schedule_cpu(te.create_prim_func([a, b, y]), mlc.target.Target(f"llvm -mcpu={cpu}"))
    rng = np.random.default_rng(depth)
    x, v, found = rng.standard_normal((rows, depth)), rng.standard_normal(depth), np.zeros(rows)
    arrays = [array.astype("f4") for array in (x, v, found)]
    mlc.compile(sch, "llvm")(*arrays)
    np.testing.assert_allclose(arrays[-1], x @ v, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("depth", [4, 8, 16, 32])
def test_every_width_of_vectors_has_a_schedule(cpu, depth):
    func = summed(9, depth)
    sch = schedule_cpu(func, mlc.target.Target(f"llvm -mcpu={cpu}"))
    arrays = [np.ones([int(d) for d in b.shape], "f4") for b in func.buffers]
    mlc.compile(sch, "interp")(*arrays)
    np.testing.assert_array_equal(arrays[-1], depth)


@pytest.mark.parametrize("cpu, asked", [("znver3", False), ("znver4", True), ("x86-64-v3", True)])
def test_rows_from_memory_are_asked_for_where_hardware_does_not_fetch_them(cpu, asked):
    a, b = te.placeholder((8192,), "float32", "a"), te.placeholder((8192, 4096), "float32", "b")
    k = te.reduce_axis((0, 8192), "k")
    y = te.compute((4096,), lambda j: te.sum(a[k] * b[k, j], axis=k), name="matmul")
    func = te.create_prim_func([a, b, y])
    sch = schedule_cpu(func, mlc.target.Target(f"llvm -mcpu={cpu} -num-cores=1"))
    assert ("prefetch" in str(mlc.tir.transform.lower(sch.mod["main"]))) is asked


@pytest.mark.parametrize("rows, together", [(4, 4), (12, 12), (14, 7), (20, 10), (22, 11)])
def test_few_rows_read_a_matrix_once_where_the_shared_cache_is_far(rows, together):
    """Eight rows of B side by side, from front to back; more rows of A are cut into equal tiles."""
    func = product(rows, 2048, 800)
    sch = schedule_cpu(func, mlc.target.Target("llvm -mcpu=emeraldrapids -num-cores=1"))
    *outer, _column, depth, row, _lane = sch.get_loops("C_update")
    extents = [int(sch.get(loop).extent) for loop in (depth, row)]
    assert extents == [8, together] and len(outer) == 2 + (together < rows)
    rng = np.random.default_rng(rows)
    a, b = rng.standard_normal((rows, 2048), "f4"), rng.standard_normal((2048, 800), "f4")
    y = np.full((rows, 800), np.nan, "f4")
    mlc.compile(sch, target="llvm")(a, b, y)
    np.testing.assert_allclose(y, a.astype("f8") @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "cpu, rows, depth",
    [
        ("znver5", 8, 2048),  # its shared cache keeps up
        ("emeraldrapids", 24, 2048),  # so many rows use lines more slowly
        ("emeraldrapids", 13, 2048),  # no equal tiles
        ("emeraldrapids", 8, 256),  # stays in a core's own cache
    ],
)
def test_others_are_cut_into_tiles_of_results(cpu, rows, depth):
    sch = schedule_cpu(
        product(rows, depth, 800), mlc.target.Target(f"llvm -mcpu={cpu} -num-cores=1")
    )
    *_, depth_loop, _row, _vector, _lane = sch.get_loops("C_update")
    assert int(sch.get(depth_loop).extent) >= 256


@pytest.mark.parametrize(
    "cpu, rows, depth, together",
    [
        ("znver3", 12, 4096, True),  # eight ways
        ("znver3", 12, 4080, False),
        ("znver3", 8, 4096, False),
        ("emeraldrapids", 12, 4096, False),  # twelve
    ],
)
def test_numbers_of_rows_that_want_the_same_place_lie_side_by_side(cpu, rows, depth, together):
    target = mlc.target.Target(f"llvm -mcpu={cpu} -num-cores=1")
    func = product(rows, depth, 8192)
    sch = schedule_cpu(func, target)
    assert ("A_global" in sch.mod["main"].script()) is together
    again = mlc.tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_numbers_side_by_side_are_those_of_the_rows():
    func = product(20, 2048, 800)
    rng = np.random.default_rng(20)
    a, b = rng.standard_normal((20, 2048), "f4"), rng.standard_normal((2048, 800), "f4")
    y = np.full((20, 800), np.nan, "f4")
    with Decisions({"rows of A together": "yes"}):
        sch = schedule_cpu(func, mlc.target.Target("llvm -mcpu=emeraldrapids -num-cores=1"))
    assert "A_global" in sch.mod["main"].script()
    mlc.compile(sch, target="llvm")(a, b, y)
    np.testing.assert_allclose(y, a.astype("f8") @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows, once", [(8, True), (12, True), (24, False)])
def test_few_rows_read_a_matrix_once_that_hardware_fetches_by_itself(rows, once):
    """Zen 3: lines of a tile of columns come late, and only many rows pay for a copy."""
    zen3 = mlc.target.Target("llvm -mcpu=znver3 -num-cores=1")
    sch = schedule_cpu(product(rows, 3072, 768), zen3)
    text = sch.mod["main"].script()
    assert ("B_global" not in text) is once
    if once:
        *_, column, depth, row, _ = (int(sch.get(x).extent) for x in sch.get_loops("C_update"))
        assert (depth, row) == (8, rows) and column >= 48


@pytest.mark.parametrize("rows", [1, 8])
def test_every_decision_about_a_few_rows_can_go_the_other_way(rows):
    """A row alone has no rows to lie side by side: that is not asked."""
    emerald = mlc.target.Target("llvm -mcpu=emeraldrapids -num-cores=1")
    a, b = te.placeholder((2048,), "float32", "A"), te.placeholder((2048, 800), "float32", "B")
    k = te.reduce_axis((0, 2048), "k")
    alone = te.create_prim_func([a, b, te.compute((800,), lambda j: te.sum(a[k] * b[k, j], k))])
    func = alone if rows == 1 else product(rows, 2048, 800)
    with Decisions() as made:
        schedule_cpu(func, emerald)
    names = [p.name for p in made.points]
    assert ("rows of A together" in names) == (rows > 1)
    for point in made.points:
        for label in point.options:
            with Decisions({point.name: label}):
                assert schedule_cpu(func, emerald) is not None

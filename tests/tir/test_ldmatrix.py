"""ldmatrix and products of 16 x 16 x 16: what registers hold, in each simulation and in PTX."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import te
from mlcnb.codegen.cuda import nvrtc
from mlcnb.codegen.interp import run_prim_func
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype as as_dtype
from mlcnb.tir import TensorIntrin
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.tensor_intrin import cuda
from mlcnb.tir.tensor_intrin.ldmatrix import layout_c, layout_of, name_of_load, place_c
from mlcnb.tir.tensor_intrin.mma_sync import SHORT
from mlcnb.tir.transform import lower


def product(n: int, m: int, k: int, dtype: str, a_turned: bool, b_turned: bool):
    """A product of halves; A lies as (k, n), or B as (m, k)."""
    A = te.placeholder((k, n) if a_turned else (n, k), dtype, name="A")
    B = te.placeholder((m, k) if b_turned else (k, m), dtype, name="B")
    r = te.reduce_axis((0, k), name="k")

    def value(i, j):
        a = A[r, i] if a_turned else A[i, r]
        b = B[j, r] if b_turned else B[r, j]
        return te.sum(p.cast("float32", a) * p.cast("float32", b), axis=r)

    return te.create_prim_func([A, B, te.compute((n, m), value, name="C")])


def in_tiles(layout):
    """Rows and columns as (tile, tile, thread, place in it)."""
    return lambda i, j: (i // 16, j // 16, *layout(i % 16, j % 16))


def by_a_warp(dtype: str, a_turned: bool, b_turned: bool, scope: str = "shared"):
    """One warp multiplies 32 x 48 by 48 x 32, operands through shared memory."""
    func = product(32, 32, 48, dtype, a_turned, b_turned)
    sch, short = Schedule(func), SHORT[dtype]
    C = sch.get_block("C")
    out = sch.cache_write(C, 0, "warp")
    i, j, k = sch.get_loops(C)
    whole = sch.add_unit_loop(i)
    k_0, k_1 = sch.split(k, [None, 16])
    sch.reorder(whole, k_0, i, j, k_1)
    tiles = {}
    for number, (matrix, turned) in enumerate((("a", a_turned), ("b", b_turned))):
        shared = sch.cache_read(C, number, scope)
        tiles[matrix] = sch.cache_read(C, number, "warp"), turned
        sch.transform_layout(tiles[matrix][0], ("write", 0), in_tiles(layout_of(matrix, turned)))
        sch.compute_at(tiles[matrix][0], k_0)
        sch.compute_at(shared, k_0)
        sch.storage_align(shared, 0, -2, 16, 8)
        fused = sch.fuse(*sch.get_loops(shared)[-2:])
        _, lanes, vector = sch.split(fused, [None, 32, 8])
        sch.vectorize(vector)
        sch.bind(lanes, "threadIdx.x")
    sch.transform_layout(C, ("write", 0), in_tiles(layout_c))
    sch.reverse_compute_at(out, whole)
    start = sch.decompose_reduction(C, k_0)
    sch.bind(whole, "blockIdx.x")

    def tensorized(block, name, count=2):
        loops = sch.get_loops(block)[-count:]
        pairs = [sch.split(x, [None, 16]) for x in loops]
        sch.reorder(*(o for o, _ in pairs), *(i for _, i in pairs))
        sch.tensorize(pairs[0][1], name)

    for matrix, (block, turned) in tiles.items():
        tensorized(block, name_of_load(dtype, matrix, turned, scope))
    tensorized(start, "mma_fill_16x16_f32")
    tensorized(out, "mma_store_16x16_f32_global_")
    tensorized(C, f"mma_{short}{short}f32", 3)
    return func, sch


CASES = [
    ("float16", False, False), ("float16", True, True), ("float16", False, True),
    ("bfloat16", True, False),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_warp_multiplies(case):
    func, sch = by_a_warp(*case)
    inputs = [b for b in func.buffers if b.name in "AB"]
    random = np.random.default_rng(0)
    a, b = (
        random.standard_normal([int(n) for n in x.shape]).astype(as_dtype(case[0]).numpy)
        for x in inputs
    )
    x, y = (a.T if case[1] else a), (b.T if case[2] else b)
    expected = x.astype("float64") @ y.astype("float64")
    for run in (
        mlc.compile(sch, target="cuda-sim"),
        lambda *args: run_prim_func(sch.mod["main"], args),
        lambda *args: run_prim_func(lower(sch.mod["main"]), args),
    ):
        out = np.full((32, 32), np.nan, "float32")
        run(a, b, out)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.skipif(not nvrtc.is_available(), reason="NVRTC is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_instructions(arch):
    """Three steps of 2 x 2 tiles of A and of B, each loaded at once, and 8 products of 16 x 8."""
    _, sch = by_a_warp("float16", False, False)
    made = nvrtc.compile_text(mlc.compile(sch, target="cuda").kernels[0].source, arch)
    (facts,) = made.resources.values()
    assert (facts.spill_stores, facts.spill_loads, facts.stack) == (0, 0, 0)
    counts = [made.ptx.count(x) for x in ("m8n8.x4.shared", "m8n8.x4.trans.shared", "mma.sync")]
    assert counts in ([6, 6, 24], [2, 2, 8], [4, 4, 16])  # unrolled or not


@pytest.mark.parametrize("matrix, turned", [("a", False), ("a", True), ("b", False), ("b", True)])
def test_each_register_is_held_once(matrix, turned):
    layout = layout_of(matrix, turned)
    assert {layout(i, j) for i in range(16) for j in range(16)} == {
        (t, n) for t in range(32) for n in range(8)
    }


def test_sums_are_where_the_layout_says():
    assert all(place_c(*layout_c(i, j)) == (i, j) for i in range(16) for j in range(16))


def test_names_of_tvm():
    names = [n for n in cuda.__all__ if n.startswith(("LDMATRIX", "MMA"))]
    assert len(names) == 12
    for name in names:
        assert TensorIntrin.get(getattr(cuda, name))

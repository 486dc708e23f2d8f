"""ldmatrix and products of tiles of 16 x 16: what registers hold, in each simulation and in PTX."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import te
from mlcnb.codegen.cuda import nvrtc
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import MLCError, UnsupportedOpError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype as as_dtype
from mlcnb.script import tir as T
from mlcnb.tir import TensorIntrin
from mlcnb.tir.analysis.mma import FORMS, Form, neighbours
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.tensor_intrin import cuda
from mlcnb.tir.tensor_intrin.ldmatrix import (
    layout_c,
    layout_of,
    name_of_load,
    name_of_product,
    place_c,
)
from mlcnb.tir.transform import lower


def product(n: int, m: int, k: int, dtype: str, a_turned: bool, b_turned: bool):
    """A product of halves or bytes; A lies as (k, n), or B as (m, k)."""
    sums = FORMS[dtype].sums.dtype
    A = te.placeholder((k, n) if a_turned else (n, k), dtype, name="A")
    B = te.placeholder((m, k) if b_turned else (k, m), dtype, name="B")
    r = te.reduce_axis((0, k), name="k")

    def value(i, j):
        a = A[r, i] if a_turned else A[i, r]
        b = B[j, r] if b_turned else B[r, j]
        return te.sum(p.cast(sums, a) * p.cast(sums, b), axis=r)

    return te.create_prim_func([A, B, te.compute((n, m), value, name="C")])


def in_tiles(layout, rows: int = 16, columns: int = 16):
    """Rows and columns as (tile, tile, thread, place in it)."""
    return lambda i, j: (i // rows, j // columns, *layout(i % rows, j % columns))


def by_a_warp(dtype: str, a_turned: bool, b_turned: bool, scope: str = "shared"):
    """One warp multiplies 32 x 48 by 48 x 32 (of bytes 32 x 96 by 96 x 32), operands through shared
    memory.
    """
    depth, sums = FORMS[dtype].depth, FORMS[dtype].sums.short
    func = product(32, 32, 3 * depth, dtype, a_turned, b_turned)
    sch = Schedule(func)
    C = sch.get_block("C")
    out = sch.cache_write(C, 0, "warp")
    i, j, k = sch.get_loops(C)
    whole = sch.add_unit_loop(i)
    k_0, k_1 = sch.split(k, [None, depth])
    sch.reorder(whole, k_0, i, j, k_1)
    tiles, sides = {}, {}
    for number, (matrix, turned) in enumerate((("a", a_turned), ("b", b_turned))):
        shared = sch.cache_read(C, number, scope)
        tiles[matrix] = sch.cache_read(C, number, "warp"), turned
        sides[matrix] = (16, depth) if turned == (matrix == "b") else (depth, 16)
        layout = in_tiles(layout_of(matrix, turned, dtype), *sides[matrix])
        sch.transform_layout(tiles[matrix][0], ("write", 0), layout)
        sch.compute_at(tiles[matrix][0], k_0)
        sch.compute_at(shared, k_0)
        sch.storage_align(shared, 0, -2, depth, depth // 2)
        fused = sch.fuse(*sch.get_loops(shared)[-2:])
        _, lanes, vector = sch.split(fused, [None, 32, depth // 2])
        sch.vectorize(vector)
        sch.bind(lanes, "threadIdx.x")
    sch.transform_layout(C, ("write", 0), in_tiles(layout_c))
    sch.reverse_compute_at(out, whole)
    start = sch.decompose_reduction(C, k_0)
    sch.bind(whole, "blockIdx.x")

    def tensorized(block, name, sizes=(16, 16)):
        loops = sch.get_loops(block)[-len(sizes) :]
        pairs = [sch.split(x, [None, n]) for x, n in zip(loops, sizes, strict=True)]
        sch.reorder(*(o for o, _ in pairs), *(i for _, i in pairs))
        sch.tensorize(pairs[0][1], name)

    for matrix, (block, turned) in tiles.items():
        tensorized(block, name_of_load(dtype, matrix, turned, scope), sides[matrix])
    tensorized(start, f"mma_fill_16x16_{sums}")
    tensorized(out, f"mma_store_16x16_{sums}_global_")
    tensorized(C, name_of_product(dtype), (16, 16, depth))
    return func, sch


def drawn(random, shape, dtype: str):
    """Numbers of a dtype: bytes from all over their range, both ends among them."""
    if dtype != "int8":
        return random.standard_normal(shape).astype(as_dtype(dtype).numpy)
    made = random.integers(-128, 128, shape).astype("int8")
    made[0], made[:, -1] = -128, 127
    return made


CASES = [
    ("float16", False, False), ("float16", True, True), ("float16", False, True),
    ("bfloat16", True, False), ("int8", False, True),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_warp_multiplies(case):
    func, sch = by_a_warp(*case)
    inputs = [b for b in func.buffers if b.name in "AB"]
    random = np.random.default_rng(0)
    a, b = (drawn(random, [int(n) for n in x.shape], case[0]) for x in inputs)
    x, y = (a.T if case[1] else a), (b.T if case[2] else b)
    expected = x.astype("float64") @ y.astype("float64")
    for run in (
        mlc.compile(sch, target="cuda-sim"),
        lambda *args: run_prim_func(sch.mod["main"], args),
        lambda *args: run_prim_func(lower(sch.mod["main"]), args),
    ):
        out = np.full((32, 32), -7, func.buffers[-1].dtype.numpy)
        run(a, b, out)
        close = (0, 0) if case[0] == "int8" else (1e-4, 1e-4)
        np.testing.assert_allclose(out, expected, *close)


@pytest.mark.slow
@pytest.mark.skipif(not nvrtc.is_available(), reason="NVRTC is not installed")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_instructions(dtype, arch):
    """Three steps of 2 tiles of A and 2 of B, each loaded at once, and 8 products of 16 x 8."""
    _, sch = by_a_warp(dtype, False, dtype == "int8")
    made = nvrtc.compile_text(mlc.compile(sch, target="cuda").kernels[0].source, arch)
    (facts,) = made.resources.values()
    assert (facts.spill_stores, facts.spill_loads, facts.stack) == (0, 0, 0)
    product = {
        "float16": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "int8": "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
    }[dtype]
    names = ("m8n8.x4.shared", "m8n8.x4.trans.shared", product, "mma.sync")
    plain, turned, products, all_products = (made.ptx.count(x) for x in names)
    expected = [4 * n if turned == 0 else 2 * n for n in (1, 2, 3)]  # unrolled or not
    assert plain in expected and turned == (0 if dtype == "int8" else plain)
    assert products == all_products == 2 * (plain + turned)


@pytest.mark.parametrize("matrix, turned", [("a", False), ("a", True), ("b", False), ("b", True)])
def test_each_register_is_held_once(matrix, turned):
    layout = layout_of(matrix, turned)
    assert {layout(i, j) for i in range(16) for j in range(16)} == {
        (t, n) for t in range(32) for n in range(8)
    }


def test_each_register_of_bytes_is_held_once():
    for matrix, turned in (("a", False), ("b", True)):
        layout = layout_of(matrix, turned, "int8")
        assert {layout(i, k) for i in range(16) for k in range(32)} == set(np.ndindex(32, 16))


def test_ldmatrix_does_not_turn_bytes():
    with pytest.raises(MLCError, match="no tensor intrinsic 'mma_ldmatrix_i8_b'"):
        TensorIntrin.get(cuda.LDMATRIX_i8_B_INTRIN)
    turned = T.ptx_ldmatrix("int8", T.bool(True), 4, ".b16", 0, 0, 0, 0)
    with pytest.raises(UnsupportedOpError, match="turns pairs of bytes, and int8 has 1") as error:
        neighbours(turned)
    assert error.value.hint == "put the tile into shared memory with k along its rows"


@pytest.mark.parametrize(
    "words, told",
    [
        (("m16n8k16", "row", "col", "int8", "int8", "int32", False), "m16n8k16 row col int8"),
        (("m16n8k32", "row", "col", "int8", "int8", "int32", True), "int32 that saturates"),
        (("m16n8k32", "row", "col", "uint8", "int8", "int32", False), "uint8 int8 int32"),
    ],
)
def test_products_that_are_not_there(words, told):
    *words, saturates = words
    call = T.call_intrin("int32", "tir.ptx_mma", *words, *[0] * 6, T.bool(saturates))
    with pytest.raises(UnsupportedOpError, match=told) as error:
        Form.of(call)
    assert "m16n8k32 of int8 into int32" in str(error.value.hint)


def test_sums_are_where_the_layout_says():
    assert all(place_c(*layout_c(i, j)) == (i, j) for i in range(16) for j in range(16))


def test_names_of_tvm():
    names = [n for n in cuda.__all__ if n.startswith(("LDMATRIX", "MMA"))]
    assert len(names) == 17
    for name in names:
        assert TensorIntrin.get(getattr(cuda, name))

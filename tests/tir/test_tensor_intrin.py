"""Tensor intrinsics: each computes what it describes, in the interpreter and as machine code."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import te
from mlcnb.codegen.interp import run_prim_func
from mlcnb.codegen.llvm.target_machine import Cpu
from mlcnb.core.errors import CodegenError, MLCError, ScheduleError, UnsupportedOpError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.script import tir as T
from mlcnb.tir import IndexMap, TensorIntrin
from mlcnb.tir.analysis.mma import FORMS
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.tensor_intrin import (
    arm_cpu,
    cuda,
    dot_product_common,
    hexagon,
    mma_sync,
    rocm,
    undescribed,
    x86,
)
from tests.tir.schedule.programs import only, refuses, replays, text


def packed_product(n: int, m: int, k: int, lanes: int, dtypes: tuple[str, ...], mask: bool = False):
    """A @ B.T of integers, with B packed as the dot products of bytes want it: (m, k, lanes, 4)."""
    left, right, result = dtypes
    A = te.placeholder((n, k), left, name="A")
    B = te.placeholder((m // lanes, k // 4, lanes, 4), right, name="B")
    r = te.reduce_axis((0, k), name="k")

    def product(i, j):
        a = A[i, r] & p.const(127, "uint8") if mask else A[i, r]
        b = B[j // lanes, r // 4, j % lanes, r % 4]
        return te.sum(p.cast(result, a) * p.cast(result, b), axis=r)

    return te.create_prim_func([A, B, te.compute((n, m), product, name="C")])


def dot_of_bytes(func, lanes: int, name: str) -> Schedule:
    sch = Schedule(func)
    C = sch.get_block("C")
    i, j, k = sch.get_loops(C)
    j0, j1 = sch.split(j, [None, lanes])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i, j0, k0, j1, k1)
    sch.decompose_reduction(C, k0)
    sch.tensorize(j1, name)
    return sch


def product(n: int, m: int, k: int):
    A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return te.create_prim_func([A, B, C])


def tiled(func, tile: tuple[int, ...], name: str) -> Schedule:
    """A product in tiles, each of them the intrinsic."""
    sch = Schedule(func)
    C = sch.get_block("C")
    outer, inner = [], []
    for loop, size in zip(sch.get_loops(C), tile, strict=True):
        o, i = sch.split(loop, [None, size])
        outer.append(o)
        inner.append(i)
    sch.reorder(*outer, *inner)
    sch.decompose_reduction(C, outer[-1])
    sch.tensorize(inner[0], name)
    return sch


def inputs(func) -> list[np.ndarray]:
    """Random arguments; integers take all values of their dtype."""
    random = np.random.default_rng(0)
    found = []
    for buffer in func.buffers:
        shape, kind = [int(n) for n in buffer.shape], buffer.dtype.numpy
        if kind.kind in "iu":
            ends = np.iinfo(kind)
            found.append(random.integers(ends.min, ends.max, shape, kind, endpoint=True))
        else:
            found.append(random.standard_normal(shape).astype(kind))
    return found


def same(func, sch: Schedule, run, tol: float = 0.0) -> None:
    """`run` makes of the scheduled function what the interpreter makes of the plain one."""
    expected, found = inputs(func), inputs(func)
    run_prim_func(func, expected)
    run(only(sch.mod), found)
    np.testing.assert_allclose(found[-1], expected[-1], rtol=tol, atol=10 * tol)


def natively(func, args) -> None:
    mlc.compile(func, target="llvm")(*args)


def instructions(sch: Schedule, cpu: str, pattern: str) -> Counter:
    """How often the instructions stand in the machine code; "stack" counts what was spilled."""
    (kernel,) = mlc.compile(only(sch.mod), target=f"llvm -mcpu={cpu}").kernels.values()
    found = Counter(re.findall(rf"^\s+(?:\{{vex\}}\s+)?({pattern})\b", kernel.asm, re.MULTILINE))
    found["stack"] = len(re.findall(r"\(%[re]sp\)|\[sp", kernel.asm))
    return found


def has(feature: str) -> bool:
    return f"+{feature}" in Cpu.host().features.split(",")


S8, U8 = ("int8", "int8", "int32"), ("uint8", "int8", "int32")
BYTES = {
    "dot_16x4_vnni": (16, U8, False, "znver4", {"vpdpbusd": 1}, "avx512vnni"),
    "dot_8x4_vnni": (8, U8, False, "alderlake", {"vpdpbusd": 1}, "avxvnni"),
    "dot_4x4_usdot": (4, U8, False, "neoverse-v1", {"usdot": 1}, "i8mm"),
    "dot_4x4_shifted_sdot": (4, U8, False, "neoverse-n1", {"sdot": 3}, "dotprod"),
    "dot_8x4_avx2": (8, U8, False, "haswell", {"vpmaddwd": 2}, "avx2"),
    "dot_16x4_avx512": (16, U8, False, "skylake-avx512", {"vpmaddwd": 2}, "avx512bw"),
    "dot_8x4_u7_avx2": (8, U8, True, "haswell", {"vpmaddubsw": 1, "vpmaddwd": 1}, "avx2"),
    "dot_4x4_i8i8s32_sdot": (4, S8, False, "neoverse-n1", {"sdot": 1}, "dotprod"),
    "dot_4x4_u8u8u32_udot": (
        4, ("uint8", "uint8", "uint32"), False, "neoverse-n1", {"udot": 1}, "dotprod",
    ),
    "dot_4x4_u8u8i32_hdot": (
        4, ("uint8", "uint8", "int32"), False, "neoverse-n1", {"udot": 1}, "dotprod",
    ),
    "dot_4x4_i8i8s32_neon": (
        4, S8, False, "aarch64", {"smull": 2, "saddlp": 2, "addp": 1}, "neon",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BYTES)
def test_dots_of_bytes(name):
    lanes, dtypes, mask, cpu, wanted, feature = BYTES[name]
    func = packed_product(2, 2 * lanes, 8, lanes, dtypes, mask)
    sch = dot_of_bytes(func, lanes, name)
    same(func, sch, run_prim_func)
    replays(sch)
    if has(feature):
        same(func, sch, natively)
    pattern = r"v?pdpbusd|vpmadd\w+|vpgather\w+|u?sdot|udot|smull2?|saddlp|addp|ld1"
    assert instructions(sch, cpu, pattern) == {**wanted, "stack": 0}


def test_bytes_saturate_only_where_the_description_says_that_they_cannot():
    """255 * 127 four times is 129540; vpmaddubsw alone would make 65534 of it."""
    func = packed_product(1, 8, 4, 8, U8)
    sch = dot_of_bytes(func, 8, "dot_8x4_avx2")
    a, b = np.full((1, 4), 255, "uint8"), np.full((1, 1, 8, 4), 127, "int8")
    c = np.zeros((1, 8), "int32")
    run_prim_func(only(sch.mod), [a, b, c])
    assert (c == 129540).all()
    sch = Schedule(func)
    C = sch.get_block("C")
    i, j, k = sch.get_loops(C)
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i, k0, j, k1)
    sch.decompose_reduction(C, k0)
    with refuses(
        sch,
        "tensorize: block C_update_o is not what dot_8x4_u7_avx2 computes: "
        "A[0, v_k_i] stands where A[vk] & T.uint8(127) should",
    ):
        sch.tensorize(j, "dot_8x4_u7_avx2")
    masked = packed_product(1, 8, 4, 8, U8, mask=True)
    sch = dot_of_bytes(masked, 8, "dot_8x4_u7_avx2")
    c[:] = 0
    run_prim_func(only(sch.mod), [a, b, c])
    assert (c == 127 * 127 * 4).all()


def bits(rng, shape, low: int, high: int) -> np.ndarray:
    """bfloat16 of both signs, of magnitudes from 2 ** low to 2 ** high."""
    scale = 2.0 ** rng.integers(low, high, shape)
    return (rng.standard_normal(shape) * scale).astype(dtype("bfloat16").numpy)


@pytest.mark.parametrize("lanes", [16, 8])
@pytest.mark.parametrize("low, high", [(-3, 4), (-60, 60), (-75, -55)])
def test_dots_of_bfloat16_are_those_of_the_machine_bit_by_bit(lanes, low, high):
    """Sums of sizes far apart, and sums and operands that are denormal: the interpreter's result is
    the instruction's, which rounds each product's sum once and knows no denormals.
    """
    n, k, rng = 3, 6, np.random.default_rng(lanes + 100 + low)
    A = te.placeholder((n, k), "bfloat16", name="A")
    B = te.placeholder((2, k // 2, lanes, 2), "bfloat16", name="B")
    r = te.reduce_axis((0, k), name="k")

    def product(i, j):
        a, b = A[i, r], B[j // lanes, r // 2, j % lanes, r % 2]
        return te.sum(p.cast("float32", a) * p.cast("float32", b), axis=r)

    func = te.create_prim_func([A, B, te.compute((n, 2 * lanes), product, name="C")])
    sch = Schedule(func)
    i, j, k = sch.get_loops(sch.get_block("C"))
    j0, j1 = sch.split(j, [None, lanes])
    k0, k1 = sch.split(k, [None, 2])
    sch.reorder(i, j0, k0, j1, k1)
    sch.decompose_reduction(sch.get_block("C"), k0)
    sch.tensorize(j1, f"dot_{lanes}x2_bf16")
    replays(sch)
    assert instructions(sch, "znver4", r"vdpbf16ps|v?cvt\w+") == {"vdpbf16ps": 1, "stack": 0}
    a, b = bits(rng, (n, 6), low, high), bits(rng, (2, 3, lanes, 2), low, high)
    interpreted, native = (np.zeros((n, 2 * lanes), np.float32) for _ in range(2))
    run_prim_func(only(sch.mod), [a, b, interpreted])
    exact = a.astype(float) @ b.astype(float).transpose(1, 3, 0, 2).reshape(6, -1)
    most = np.abs(a).astype(float) @ np.abs(b).astype(float).transpose(1, 3, 0, 2).reshape(6, -1)
    assert (np.abs(interpreted - exact) <= 6 * 2.0**-24 * most + 6 * 2.0**-126).all()
    if has("avx512bf16"):
        natively(only(sch.mod), [a, b, native])
        assert (native.view(np.int32) == interpreted.view(np.int32)).all()


@pytest.mark.parametrize("lanes", [32, 16, 8])
def test_two_rows_in_turns(lanes):
    A = te.placeholder((4, 2 * lanes), "bfloat16", name="A")
    shape = (2, 2, lanes, 2)
    C = te.compute(shape, lambda j, k, i, p: A[k * 2 + p, j * lanes + i], name="C")
    func = te.create_prim_func([A, C])
    sch = Schedule(func)
    sch.tensorize(sch.get_loops(sch.get_block("C"))[2], f"pairs_{lanes}x2")
    same(func, sch, run_prim_func)
    same(func, sch, natively)
    replays(sch)


@pytest.mark.parametrize(
    ("name", "tile", "cpu", "sums", "feature"),
    [
        ("outer_product_6x16x64_f32_avx2", (6, 16, 64), "x86-64-v3", 12, "fma"),
        ("outer_product_14x32x64_f32_avx512", (14, 32, 64), "x86-64-v4", 28, "avx512f"),
    ],
)
def test_outer_products_stay_in_registers(name, tile, cpu, sums, feature):
    n, m, _k = tile
    func = product(n, m, 64)
    sch = tiled(func, tile, name)
    same(func, sch, run_prim_func, 1e-4)
    replays(sch)
    if has(feature):
        same(func, sch, natively, 1e-4)
    assert instructions(sch, cpu, "vfmadd231ps|vmulps") == {"vfmadd231ps": sums, "stack": 0}


@pytest.mark.parametrize(
    ("name", "length", "cpu", "feature"),
    [
        ("dot_64_f32_avx2", 64, "x86-64-v3", "fma"),
        ("dot_128_f32_avx512", 128, "x86-64-v4", "avx512f"),
    ],
)
def test_dot_products(name, length, cpu, feature):
    A, B = te.placeholder((3, 2 * length), name="A"), te.placeholder((2 * length,), name="B")
    r = te.reduce_axis((0, 2 * length), name="k")
    C = te.compute((3,), lambda i: te.sum(A[i, r] * B[r], axis=r), name="C")
    func = te.create_prim_func([A, B, C])
    sch = Schedule(func)
    block = sch.get_block("C")
    k0, k1 = sch.split(sch.get_loops(block)[1], [None, length])
    sch.decompose_reduction(block, k0)
    sch.tensorize(k1, name)
    same(func, sch, run_prim_func, 1e-4)
    replays(sch)
    if has(feature):
        same(func, sch, natively, 1e-4)
    found = instructions(sch, cpu, r"vfmadd\d+ps|vmulps")
    assert sum(found.values()) == 8
    assert found["stack"] == 0


def test_numpy_does_a_product():
    func = product(8, 8, 8)
    sch = tiled(func, (4, 4, 4), "numpy_gemm_4x4x4")
    assert 'T.call_packed("mlcnb.numpy_gemm_4x4x4"' in text(sch)
    same(func, sch, run_prim_func, 1e-5)
    replays(sch)
    with pytest.raises(CodegenError) as caught:
        mlc.compile(only(sch.mod), target="llvm")
    assert (
        caught.value.message == "a kernel cannot call the packed function 'mlcnb.numpy_gemm_4x4x4'"
    )


def test_two_uses_have_offsets_and_strides_of_their_own():
    A, B = te.placeholder((4, 4), name="A"), te.placeholder((4, 8), name="B")
    r, s = te.reduce_axis((0, 4), name="k"), te.reduce_axis((0, 8), name="l")
    C = te.compute((4, 8), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    E = te.placeholder((8, 4), name="E")
    D = te.compute((4, 4), lambda i, j: te.sum(C[i, s] * E[s, j], axis=s), name="D")
    func = te.create_prim_func([A, B, E, D])
    sch = Schedule(func)
    for name in ("C", "D"):
        block = sch.get_block(name)
        loops = [sch.split(x, [None, 4]) for x in sch.get_loops(block)]
        sch.reorder(*(o for o, _ in loops), *(i for _, i in loops))
        sch.decompose_reduction(block, loops[-1][0])
        sch.tensorize(loops[0][1], "numpy_gemm_4x4x4")
    same(func, sch, run_prim_func, 1e-5)
    replays(sch)


def half_product(n: int, m: int, k: int, dtype: str):
    sums = FORMS[dtype].sums.dtype
    A, B = te.placeholder((n, k), dtype, name="A"), te.placeholder((k, m), dtype, name="B")
    r = te.reduce_axis((0, k), name="k")

    def value(i, j):
        return te.sum(p.cast(sums, A[i, r]) * p.cast(sums, B[r, j]), axis=r)

    return te.create_prim_func([A, B, te.compute((n, m), value, name="C")])


def on_tensor_cores(dtype: str):
    """A product of halves or bytes by mma.sync, each fragment in the registers of a warp."""
    form = FORMS[dtype]
    depth, short, sums = form.depth, form.given.short, form.sums.short
    func = half_product(32, 16, 2 * depth, dtype)
    sch = Schedule(func)
    C = sch.get_block("C")
    out = sch.cache_write(C, 0, "warp")
    a, b = (sch.cache_read(C, n, "warp") for n in (0, 1))
    a_map = lambda i, j: (i // 16, j // depth, *form.layout_a(i % 16, j % depth))
    b_map = lambda i, j: (i // depth, j // 8, *form.layout_b(i % depth, j % 8))
    c_map = lambda i, j: (i // 16, j // 8, *mma_sync.layout_c(i % 16, j % 8))
    for block, layout in ((a, a_map), (b, b_map), (C, c_map)):
        sch.transform_layout(block, ("write", 0), layout)

    def tile(block, sizes):
        pairs = [sch.split(x, [None, n]) for x, n in zip(sch.get_loops(block), sizes, strict=True)]
        sch.reorder(*(o for o, _ in pairs), *(i for _, i in pairs))
        return pairs

    sch.tensorize(tile(a, (16, depth))[0][1], f"mma_load_16x{depth}_{short}_a_global")
    sch.tensorize(tile(b, (depth, 8))[0][1], f"mma_load_{depth}x8_{short}_b_global")
    sch.tensorize(tile(out, (16, 8))[0][1], f"mma_store_16x8_{sums}_global")
    pairs = tile(C, (16, 8, depth))
    init = sch.decompose_reduction(C, pairs[2][0])
    sch.tensorize(sch.get_loops(init)[2], f"mma_fill_16x8_{sums}")
    sch.tensorize(pairs[0][1], f"mma_sync_16x8x{depth}_{short}{short}{sums}")
    return func, sch


@pytest.mark.parametrize(
    ("dtype", "said"),
    [
        ("float16", '"float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32"'),
        ("bfloat16", '"float32", "m16n8k16", "row", "col", "bf16", "bf16", "fp32"'),
        ("int8", '"int32", "m16n8k32", "row", "col", "int8", "int8", "int32"'),
    ],
)
def test_a_warp_multiplies(dtype, said):
    func, sch = on_tensor_cores(dtype)
    same(func, sch, run_prim_func, 0.0 if dtype == "int8" else 1e-3)
    replays(sch)
    assert f"T.ptx_mma({said}" in text(sch)


@pytest.mark.parametrize(
    ("layout", "place", "shape"),
    [
        (mma_sync.layout_a, mma_sync.place_a, (16, 16)),
        (mma_sync.layout_b, mma_sync.place_b, (16, 8)),
        (mma_sync.layout_c, mma_sync.place_c, (16, 8)),
        (FORMS["int8"].layout_a, FORMS["int8"].place_a, (16, 32)),
        (FORMS["int8"].layout_b, FORMS["int8"].place_b, (32, 8)),
    ],
)
def test_fragments_hold_each_element_once(layout, place, shape):
    points = list(np.ndindex(*shape))
    assert all(place(*layout(i, j)) == (i, j) for i, j in points)
    assert {layout(i, j) for i, j in points} == set(np.ndindex(32, len(points) // 32))
    assert IndexMap.from_func(layout).inverse(shape) is not None


@pytest.mark.parametrize(
    ("name", "dtypes"),
    [
        ("dot_32x4_u8u8i32_vrmpy", ("uint8", "uint8", "int32")),
        ("dot_32x4_u8i8i32_vrmpy", U8),
        ("dot_product_32x2_i16i16i32_vdmpy", ("int16", "int16", "int32")),
    ],
)
def test_dots_of_machines_without_a_backend_run_anywhere(name, dtypes):
    width = 2 if "32x2" in name else 4
    left, right, result = dtypes
    A, B = te.placeholder((2, 8), left, name="A"), te.placeholder((64, 8), right, name="B")
    r = te.reduce_axis((0, 8), name="k")
    product = te.compute(
        (2, 64),
        lambda i, j: te.sum(A[i, r].astype(result) * B[j, r].astype(result), axis=r),
        name="C",
    )
    func = te.create_prim_func([A, B, product])
    sch = Schedule(func)
    C = sch.get_block("C")
    sch.transform_layout(C, "B", lambda j, k: (j // 32, k // width, j % 32, k % width))
    i, j, k = sch.get_loops(C)
    (j0, j1), (k0, k1) = sch.split(j, [None, 32]), sch.split(k, [None, width])
    sch.reorder(i, j0, k0, j1, k1)
    sch.decompose_reduction(C, k0)
    sch.tensorize(j1, name)
    replays(sch)
    a, b, expected = inputs(func)
    packed = b.reshape(2, 32, 8 // width, width).transpose(0, 2, 1, 3).copy()
    found = np.zeros_like(expected)
    natively(only(sch.mod), [a, packed, found])
    run_prim_func(func, [a, b, expected])
    assert (found == expected).all()


@pytest.mark.parametrize(
    ("name", "dtypes"),
    [
        ("dp4a_s8s8s32", S8),
        ("dp4a_u8s8s32", U8),
        ("dp4a_s8u8s32", ("int8", "uint8", "int32")),
        ("dp4a_u8u8u32", ("uint8", "uint8", "uint32")),
        ("sdot4", S8),
    ],
)
def test_dots_of_a_thread(name, dtypes):
    left, right, result = dtypes
    A, B = te.placeholder((4, 8), left, name="A"), te.placeholder((4, 8), right, name="B")
    r = te.reduce_axis((0, 8), name="k")
    product = te.compute(
        (4, 4),
        lambda i, j: te.sum(A[i, r].astype(result) * B[j, r].astype(result), axis=r),
        name="C",
    )
    func = te.create_prim_func([A, B, product])
    sch = Schedule(func)
    C = sch.get_block("C")
    i, j, k = sch.get_loops(C)
    k0, k1 = sch.split(k, [None, 4])
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    sch.reverse_compute_at(sch.cache_write(C, 0, "local"), j)
    for n in (0, 1):
        sch.compute_at(sch.cache_read(C, n, "shared"), k0, preserve_unit_loops=True)
    sch.decompose_reduction(C, k0)
    sch.tensorize(k1, name)
    replays(sch)
    same(func, sch, run_prim_func)


def test_tensor_cores_by_fragments():
    """Loads, product, fill and store of one tile, as a course on tensor cores writes them."""
    names = cuda.get_wmma_intrin_group("shared", "global", "float16", "float32", True)
    assert names == {
        "init": "wmma_fill_16x16x16_f32",
        "load_a": "wmma_load_16x16x16_f16_a_shared",
        "load_b": "wmma_load_16x16x16_f16_b_trans_shared",
        "compute": "wmma_sync_16x16x16_f16f16f32_trans",
        "store": "wmma_store_16x16x16_f32_global",
    }
    A = te.placeholder((16, 16), "float16", name="A")
    B = te.placeholder((16, 16), "float16", name="B")
    r = te.reduce_axis((0, 16), name="k")
    product = te.compute(
        (16, 16),
        lambda i, j: te.sum(A[i, r].astype("float32") * B[j, r].astype("float32"), axis=r),
        name="C",
    )
    sch = Schedule(te.create_prim_func([A, B, product]))
    C = sch.get_block("C")
    out = sch.cache_write(C, 0, "wmma.accumulator")
    loads = []
    for n, matrix in enumerate("ab"):
        sch.cache_read(C, n, "shared")
        loads.append(sch.cache_read(C, n, f"wmma.matrix_{matrix}"))
    init = sch.decompose_reduction(C, sch.get_loops(C)[0])
    sch.tensorize(sch.get_loops(init)[0], names["init"])
    sch.tensorize(sch.get_loops(C)[0], names["compute"])
    sch.tensorize(sch.get_loops(loads[0])[0], names["load_a"])
    sch.tensorize(sch.get_loops(loads[1])[0], names["load_b"])
    sch.tensorize(sch.get_loops(out)[0], names["store"])
    replays(sch)
    calls = re.findall(r"T\.tvm_(\w+_sync|fill_fragment)", text(sch))
    assert calls == [
        "load_matrix_sync", "load_matrix_sync", "fill_fragment", "mma_sync", "store_matrix_sync",
    ]  # fmt: skip
    with pytest.raises(UnsupportedOpError):
        run_prim_func(only(sch.mod), inputs(only(sch.mod)))


def test_every_name_of_tvms_modules_is_an_intrinsic():
    for module in (x86, arm_cpu, cuda, rocm, hexagon, dot_product_common):
        for name in (n for n in dir(module) if n.endswith("_INTRIN")):
            assert TensorIntrin.get(getattr(module, name)) is not None, name
    desc = TensorIntrin.get(x86.VNNI_DOT_16x4_INTRIN).desc
    mlc.ir.assert_structural_equal(desc, x86.dot_product_16x4_u8i8i32_desc)
    with pytest.raises(MLCError) as caught:
        cuda.get_wmma_intrin_group("shared", "global", "int8", "float32", False)
    assert str(caught.value) == (
        "no wmma product of int8 in shared to float32 in global\n"
        "hint: float16 to float32 or float16, int8 to int32; from shared or shared.dyn, "
        "also to global"
    )


def test_indices_are_compared_by_what_they_are():
    """`v % 8 * 4` of an axis that is tiled by 8 is that of the tile."""

    def decoded(size):
        words = te.placeholder((size // 8,), "int32", name="W")
        return te.create_prim_func(
            [words, te.compute((size,), lambda i: (words[i // 8] >> (i % 8 * 4)) & 15, name="D")]
        )

    @T.prim_func
    def impl(W: T.Buffer((1,), "int32"), D: T.Buffer((8,), "int32")):
        with T.block("root"):
            T.reads(W[0:1])
            T.writes(D[0:8])
            for i in T.unroll(8):
                D[i] = T.shift_right(W[0], i * 4) & 15

    TensorIntrin.register("test_decode_8", decoded(8), impl, override=True)
    func = decoded(32)
    sch = Schedule(func)
    (i,) = sch.get_loops(sch.get_block("D"))
    sch.tensorize(sch.split(i, [None, 8])[1], "test_decode_8")
    same(func, sch, run_prim_func)

    shifted = te.placeholder((4,), "int32", name="W")
    other = te.compute((32,), lambda i: (shifted[i // 8] >> (i % 4 * 4)) & 15, name="D")
    sch = Schedule(te.create_prim_func([shifted, other]))
    (i,) = sch.get_loops(sch.get_block("D"))
    _, inner = sch.split(i, [None, 8])
    with pytest.raises(ScheduleError, match="block D_o is not what test_decode_8 computes"):
        sch.tensorize(inner, "test_decode_8")


def test_names():
    assert TensorIntrin.get("dot_16x4_vnni") is TensorIntrin.get("dot_16x4_vnni")
    assert TensorIntrin.get("dot_16x4_vni", allow_missing=True) is None
    with pytest.raises(MLCError) as caught:
        TensorIntrin.get("dot_16x4_vni")
    assert str(caught.value) == (
        "no tensor intrinsic 'dot_16x4_vni'\n"
        "hint: did you mean dot_16x4_vnni, dot_8x4_vnni, taps_16x4_vnni?"
    )
    intrinsic = TensorIntrin.get("dot_16x4_vnni")
    assert intrinsic is not None
    with pytest.raises(MLCError, match="tensor intrinsic 'dot_16x4_vnni' is registered already"):
        TensorIntrin.register("dot_16x4_vnni", intrinsic.desc, intrinsic.impl)


def test_an_instruction_nobody_knows():
    @T.prim_func
    def func(A: T.Buffer((4,), "int32")):
        A[0:4] = T.call_llvm_pure_intrin("int32x4", "llvm.nothing.like.it", A[0:4])

    with pytest.raises(UnsupportedOpError, match=r"the interpreter cannot call llvm\.nothing"):
        run_prim_func(func, [np.zeros(4, "int32")])


def test_what_is_not_described_is_refused_by_its_name():
    for module, table in ((cuda, undescribed.CUDA), (rocm, undescribed.ROCM)):
        for constant, name in table.items():
            assert getattr(module, constant) == name
            with pytest.raises(MLCError, match=f"no tensor intrinsic '{name}'") as error:
                TensorIntrin.get(name)
            assert error.value.hint == undescribed.instead_of(name)
            assert TensorIntrin.get(name, allow_missing=True) is None
    assert (len(undescribed.CUDA), len(undescribed.ROCM)) == (23, 13)
    assert cuda.LDMATRIX_f16_B_TRANS_DYN_INTRIN == "mma_ldmatrix_f16_b_trans_dyn"
    assert cuda.MMA_store_16x16_f32_shared_dyn_INTRIN_SIMPLE == (
        "mma_store_16x16_f32_shared_dyn_simple_"
    )
    assert rocm.ROCM_MFMA_LOAD_16x16_B_SHARED_s8_INTRIN == "rocm_mfma_load_b_16x16_shared_s8"
    with pytest.raises(AttributeError, match="has no 'MMA_nothing'"):
        _ = cuda.MMA_nothing

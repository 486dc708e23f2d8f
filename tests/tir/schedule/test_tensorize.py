"""tensorize and pad_einsum: whole programs and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import te
from mlcnb.core.registry import register_func
from mlcnb.ir.dtype import dtype
from mlcnb.script import tir as T
from mlcnb.tir import TensorIntrin, Var
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    copy_2d,
    matmul,
    matmul_relu,
    only,
    refuses,
    replays,
    row_sum,
    same_numbers,
    symbolic_matmul_relu,
    text,
)


@T.prim_func
def dot_desc(
    A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((1,), "float32")
):
    with T.block("root"):
        T.reads(C[0:1], A[0:4], B[0:4])
        T.writes(C[0:1])
        for k in range(4):
            with T.block("dot"):
                v = T.axis.reduce(4, k)
                C[0] = C[0] + A[v] * B[v]


@T.prim_func
def dot_impl(
    A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((1,), "float32")
):
    with T.block("root"):
        T.reads(C[0:1], A[0:4], B[0:4])
        T.writes(C[0:1])
        C[0] = C[0] + (A[0] * B[0] + A[1] * B[1] + A[2] * B[2] + A[3] * B[3])


@T.prim_func
def row_desc(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(B[0:4])
        for i in range(4):
            with T.block("double"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] * T.float32(2)


@T.prim_func
def row_impl(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(B[0:4])
        for i in T.vectorized(4):
            B[i] = A[i] + A[i]


TensorIntrin.register("test.double4", row_desc, row_impl, override=True)
TensorIntrin.register("test.dot4", dot_desc, dot_impl, override=True)
#: intrinsics that are plain loops, which any machine runs
TENSORIZED = ("test.double4", "test.dot4")


def test_row():
    sch = Schedule(copy_2d(2, 8))
    _i, j = sch.get_loops("B")
    _j0, j1 = sch.split(j, [2, 4])
    sch.tensorize(j1, "test.double4")
    becomes(
        sch,
        """
        for i, j_0 in T.grid(2, 2):
            with T.block("B_o"):
                v_i_o, v_j_o = T.axis.remap("SS", [i, j_0])
                A_1 = T.match_buffer(A[v_i_o, v_j_o * 4:v_j_o * 4 + 4], (4,))
                B_1 = T.match_buffer(B[v_i_o, v_j_o * 4:v_j_o * 4 + 4], (4,))
                for i_1 in T.vectorized(4):
                    B_1[i_1] = A_1[i_1] + A_1[i_1]
        """,
    )


def test_block():
    sch = Schedule(copy_2d(2, 4))
    _i, j = sch.get_loops("B")
    made = sch.blockize(j)
    sch.tensorize(made, "test.double4")
    assert repr(made) == "block B_o"


def test_refusals():
    sch = Schedule(copy_2d(2, 8))
    _i, j = sch.get_loops("B")
    with refuses(
        sch,
        "tensorize: block B_o is not what test.double4 computes: the extent of loop j is 8, not 4",
    ):
        sch.tensorize(j, "test.double4")
    with refuses(
        sch,
        "tensorize: block B_o is not what test.dot4 computes: the extent of loop j is 8, not 4",
    ):
        sch.tensorize(j, "test.dot4")
    with refuses(
        sch,
        "tensorize: no tensor intrinsic 'test.dot5'",
        hint="did you mean test.dot4, test.double4?",
    ):
        sch.tensorize(j, "test.dot5")
    sch = Schedule(row_sum(2, 4))
    _i, k = sch.get_loops("B")
    with refuses(
        sch,
        "tensorize: block B_o is not what test.dot4 computes: A[v_i_o, v_k_i] stands where "
        "A[v] * B[v] should",
    ):
        sch.tensorize(k, "test.dot4")


def test_a_symbolic_number_of_rows():
    n = Var("n", dtype("int32"))
    A = te.placeholder((n, 4), name="A")
    B = te.compute((n, 4), lambda i, j: A[i, j] * 2.0, name="B")
    sch = Schedule(te.create_prim_func([A, B]))
    sch.tensorize(sch.get_loops("B")[1], "test.double4")
    becomes(
        sch,
        """
        for i in range(n):
            with T.block("B_o"):
                v_i_o = T.axis.spatial(n, i)
                v_j_o = T.axis.spatial(1, 0)
                A_1 = T.match_buffer(A[v_i_o, 0:4], (4,))
                B_1 = T.match_buffer(B[v_i_o, 0:4], (4,))
                for i_1 in T.vectorized(4):
                    B_1[i_1] = A_1[i_1] + A_1[i_1]
        """,
    )


def test_a_reduction_brings_its_init_along():
    sch = Schedule(matmul(8, 4, 8))
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, k0, i1, j, k1)
    sch.tensorize(i1, "numpy_gemm_4x4x4")
    assert text(sch).count("with T.init():") == 1
    becomes(sch, text(sch))


def test_an_intrinsic_of_ones_own():
    @T.prim_func
    def doubled(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        with T.block("root"):
            T.reads(A[0:4])
            T.writes(B[0:4])
            T.evaluate(T.call_packed("test.doubled", A.access_ptr("r"), B.access_ptr("w")))

    @register_func("test.doubled", override=True)
    def double(a, b):
        b[:4] = 2 * a[:4]
        return 0

    TensorIntrin.register("test.doubled4", row_desc, doubled, override=True)
    sch = Schedule(copy_2d(1, 4))
    sch.tensorize(sch.get_loops("B")[1], "test.doubled4")
    becomes(sch, text(sch))


def test_refuses_a_predicated_tile_and_other_orders():
    sch = Schedule(copy_2d(2, 6))
    _j0, j1 = sch.split(sch.get_loops("B")[1], [None, 4])
    with refuses(sch, "blockize: the predicate of block B cuts through a tile"):
        sch.tensorize(j1, "test.double4")
    sch = Schedule(matmul(4, 4, 4))
    i, j, k = sch.get_loops("C")
    sch.reorder(k, i, j)
    sch.decompose_reduction("C", k)
    with refuses(
        sch,
        "tensorize: block C_update_o is not what numpy_gemm_4x4x4 computes: C[v_i_i, v_j_i] stands "
        "where the description has C[vi, vj]",
    ):
        sch.tensorize(k, "numpy_gemm_4x4x4")


def symbolic_product():
    """C = A @ B with a number of rows that is not known"""
    n = Var("n", dtype("int32"))
    A, B = te.placeholder((n, 5), name="A"), te.placeholder((5, 6), name="B")
    r = te.reduce_axis((0, 5), name="k")
    C = te.compute((n, 6), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return te.create_prim_func([A, B, C])


def test_pad_a_symbolic_product():
    sch = Schedule(symbolic_product())
    sch.pad_einsum("C", [4, 4, 4])
    becomes(
        sch,
        """
        A_pad = T.alloc_buffer(((n + 3) // 4 * 4, 8))
        B_pad = T.alloc_buffer((8, 8))
        C_pad = T.alloc_buffer(((n + 3) // 4 * 4, 8))
        for i0, i1 in T.grid((n + 3) // 4 * 4, 8):
            with T.block("A_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                A_pad[v0, v1] = T.if_then_else(v0 < n and v1 < 5, A[v0, v1], T.float32(0.0))
        for i0, i1 in T.grid(8, 8):
            with T.block("B_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                B_pad[v0, v1] = T.if_then_else(v0 < 5 and v1 < 6, B[v0, v1], T.float32(0.0))
        for i, j, k in T.grid((n + 3) // 4 * 4, 8, 8):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C_pad[v_i, v_j] = T.float32(0.0)
                C_pad[v_i, v_j] = C_pad[v_i, v_j] + A_pad[v_i, v_k] * B_pad[v_k, v_j]
        for i0, i1 in T.grid(n, 6):
            with T.block("C_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                C[v0, v1] = C_pad[v0, v1]
        """,
    )


@pytest.mark.parametrize(
    "step",
    [
        lambda sch: sch.transform_block_layout("C", lambda i, j, k: (i // 4, j, i % 4, k)),
        lambda sch: sch.cache_read("C", "A", "shared"),
        lambda sch: sch.cache_write("C", 0, "local"),
        lambda sch: sch.reindex("C", "B"),
        lambda sch: sch.reindex("C", ("write", 0)),
        lambda sch: sch.reindex_cache_write("C", 0, "shared", lambda i, j, k: (j, i)),
        lambda sch: sch.set_axis_separator("C", "A", [1]),
    ],
)
def test_buffers_of_a_symbolic_product(step):
    sch = Schedule(symbolic_product())
    step(sch)
    becomes(sch, text(sch))


def test_pad_product():
    sch = Schedule(matmul(3, 5, 6))
    sch.pad_einsum("C", [4, 4, 4])
    becomes(
        sch,
        """
        A_pad = T.alloc_buffer((4, 8))
        B_pad = T.alloc_buffer((8, 8))
        C_pad = T.alloc_buffer((4, 8))
        for i0, i1 in T.grid(4, 8):
            with T.block("A_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                A_pad[v0, v1] = T.if_then_else(v0 < 3 and v1 < 6, A[v0, v1], T.float32(0.0))
        for i0, i1 in T.grid(8, 8):
            with T.block("B_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                B_pad[v0, v1] = T.if_then_else(v0 < 6 and v1 < 5, B[v0, v1], T.float32(0.0))
        for i, j, k in T.grid(4, 8, 8):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C_pad[v_i, v_j] = T.float32(0.0)
                C_pad[v_i, v_j] = C_pad[v_i, v_j] + A_pad[v_i, v_k] * B_pad[v_k, v_j]
        for i0, i1 in T.grid(3, 5):
            with T.block("C_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                C[v0, v1] = C_pad[v0, v1]
        """,
    )


def test_pad_only_what_needs_it():
    sch = Schedule(matmul(4, 8, 5))
    sch.pad_einsum("C", [4, 4, 4])
    names = [b.name_hint for b in sch.state.tree("main").blocks]
    assert names == ["root", "A_pad", "B_pad", "C"]


def test_pad_refusals():
    sch = Schedule(matmul_relu(3, 3, 3))
    C, D = sch.get_block("C"), sch.get_block("D")
    with refuses(
        sch,
        "pad_einsum: block C has 3 axes, padding is [4, 4]",
    ):
        sch.pad_einsum(C, [4, 4])
    with refuses(
        sch,
        "pad_einsum: block D cannot be padded: it has no init",
    ):
        sch.pad_einsum(D, [4, 4])
    sch.split(sch.get_loops(C)[0], [1, 3])
    with refuses(
        sch,
        "pad_einsum: axis v_i of block C is no loop of its own",
        hint="pad before its loops are split and fused",
    ):
        sch.pad_einsum(C, [4, 4, 4])


def test_pad_symbolic():
    sch = Schedule(symbolic_matmul_relu())
    sch.pad_einsum("C", [4, 1, 4])
    assert "A_pad[v0, v1] = T.if_then_else(v0 < n and v1 < n, A[v0, v1]" in text(sch)
    same_numbers(only(sch.steps[0].mod), only(sch.mod))
    replays(sch)


def test_pad_a_reduction_alone():
    sch = Schedule(matmul(4, 4, 3))
    sch.pad_einsum("C", [1, 1, 4])
    becomes(
        sch,
        """
        A_pad = T.alloc_buffer((4, 4))
        B_pad = T.alloc_buffer((4, 4))
        for i0, i1 in T.grid(4, 4):
            with T.block("A_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                A_pad[v0, v1] = T.if_then_else(v1 < 3, A[v0, v1], T.float32(0.0))
        for i0, i1 in T.grid(4, 4):
            with T.block("B_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                B_pad[v0, v1] = T.if_then_else(v0 < 3, B[v0, v1], T.float32(0.0))
        for i, j, k in T.grid(4, 4, 4):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A_pad[v_i, v_k] * B_pad[v_k, v_j]
        """,
    )


def test_pad_refuses_loops_that_were_split():
    sch = Schedule(matmul(5, 4, 3))
    C = sch.get_block("C")
    sch.split(sch.get_loops(C)[0], [None, 2])
    with refuses(
        sch,
        "pad_einsum: axis v_i of block C is no loop of its own",
        hint="pad before its loops are split and fused",
    ):
        sch.pad_einsum(C, [4, 1, 1])


def test_pad_einsum_of_a_part_is_refused():
    """What is copied back is the whole buffer; the part made less of it (read out of bounds)."""
    sch = Schedule(row_sum(3, 8))
    sch.loop_partition(sch.get_loops("B")[0], [2, None])
    block = sch.get_block("B_i0")
    with refuses(
        sch,
        "pad_einsum: block B_i0 cannot be padded: it works on a part of A alone",
    ):
        sch.pad_einsum(block, [4, 1])


def tiles_of(extent):
    """4 x 4 tiles of 16 x 16, counted in int32 or int64."""

    @T.prim_func
    def func(
        A: T.Buffer((extent(16), extent(16)), "float32"),
        B: T.Buffer((extent(16), extent(16)), "float32"),
    ):
        for i0, j0, i1, j1 in T.grid(extent(4), extent(4), extent(4), extent(4)):
            with T.block("B"):
                vi = T.axis.spatial(extent(16), i0 * extent(4) + i1)
                vj = T.axis.spatial(extent(16), j0 * extent(4) + j1)
                B[vi, vj] = A[vi, vj] + T.float32(1)

    return func


@T.prim_func
def tile(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (4, 4), "float32", offset_factor=1)
    B = T.match_buffer(b, (4, 4), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4, 0:4])
        T.writes(B[0:4, 0:4])
        for i, j in T.grid(4, 4):
            with T.block("tile"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func
def in_vectors(a: T.handle, b: T.handle):
    s = T.int32()
    at = T.int32()
    A = T.match_buffer(a, (4, 4), "float32", strides=[s, 1], elem_offset=at, offset_factor=1)
    B = T.match_buffer(b, (4, 4), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4, 0:4])
        T.writes(B[0:4, 0:4])
        for i in range(4):
            for j in T.vectorized(4):
                B[i, j] = A[i, j] + T.Cast("float32", s - 15) + T.Cast("float32", at - at)


@pytest.mark.parametrize("extent", [T.int32, T.int64], ids=["int32", "int64"])
def test_indices_of_any_width(extent):
    TensorIntrin.register("test_any_width", tile, in_vectors, override=True)
    sch = Schedule(tiles_of(extent))
    sch.tensorize(sch.get_loops("B")[2], "test_any_width")
    a = np.arange(256, dtype="float32").reshape(16, 16)
    for target in ("interp", "llvm"):
        b = np.zeros_like(a)
        mlc.compile(sch.mod["main"], target=target)(a, b)
        np.testing.assert_array_equal(b, a + 1)


def blocked_product(columns: int, block: int, depth: int = 3) -> mlc.tir.PrimFunc:
    """C = A W, W in blocks of columns."""
    a = te.placeholder((2, depth), name="A")
    w = te.placeholder((-(-columns // block), depth, block), name="W")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute(
        (2, columns), lambda i, j: te.sum(a[i, k] * w[j // block, k, j % block], axis=k), name="C"
    )
    return te.create_prim_func([a, w, c])


def test_pad_reads_what_lies_inside_as_it_lies():
    sch = Schedule(blocked_product(5, 8))
    sch.pad_einsum("C", [1, 4, 1])
    becomes(
        sch,
        """
        C_pad = T.alloc_buffer((2, 8))
        for i, j, k in T.grid(2, 8, 3):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C_pad[v_i, v_j] = T.float32(0.0)
                C_pad[v_i, v_j] = C_pad[v_i, v_j] + A[v_i, v_k] * W[v_j // 8, v_k, v_j % 8]
        for i0, i1 in T.grid(2, 5):
            with T.block("C_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                C[v0, v1] = C_pad[v0, v1]
        """,
    )


@pytest.mark.parametrize("padding", [[1, 16, 1], [1, 4, 2]])
def test_pad_refuses_to_read_beyond_and_to_sum_more(padding):
    sch = Schedule(blocked_product(5, 8))
    with refuses(sch, "pad_einsum: block C cannot be padded: the indices of W are not axes of it"):
        sch.pad_einsum("C", padding)

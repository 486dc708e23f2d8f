"""LowerOpaqueBlock and FlattenBuffer: plain statements over flat memory."""

from __future__ import annotations

from mlcnb.script import tir as T
from mlcnb.tir.transform import FlattenBuffer, LowerOpaqueBlock, convert_blocks_to_opaque
from tests.tir.transform.lowering import check, check_lowering


@T.prim_func
def tiles(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
    for i, j in T.grid(3, 4):
        with T.block("tile"):
            v = T.axis.spatial(10, i * 4 + j)
            T.where(i * 4 + j < 10)
            C = T.alloc_buffer((2, 1), scope="local")
            for k in range(1):
                C[0, k] = A[v]
                C[1, k] = C[0, k] * T.float32(2)
            B[v] = C[1, 0]


def test_predicates_become_branches_and_buffers_allocations():
    plain = check(
        LowerOpaqueBlock(),
        convert_blocks_to_opaque(tiles),
        """
        for i, j in T.grid(3, 4):
            if i * 4 + j < 10:
                C = T.allocate([2, 1], "float32", "local")
                C_1 = T.decl_buffer((2, 1), data=C, scope="local")
                C_1[0, 0] = A[i * 4 + j]
                C_1[1, 0] = C_1[0, 0] * T.float32(2.0)
                B[i * 4 + j] = C_1[1, 0]
        """,
    )
    check(
        FlattenBuffer(),
        plain,
        """
        for i, j in T.grid(3, 4):
            if i * 4 + j < 10:
                C = T.allocate([2], "float32", "local")
                C_1 = T.decl_buffer((2,), data=C, scope="local")
                C_1[0] = A[i * 4 + j]
                C_1[1] = C_1[0] * T.float32(2.0)
                B[i * 4 + j] = C_1[1]
        """,
    )


@T.prim_func
def strided(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32")):
    C = T.alloc_buffer((4, 6), strides=(8, 1))
    for i, j in T.grid(4, 6):
        C[i, j] = A[i, j]
    for i, j in T.grid(4, 6):
        B[i, j] = C[3 - i, j]


def test_a_buffer_with_strides_gets_the_memory_that_it_reaches():
    check(
        LowerOpaqueBlock(),
        strided,
        """
        C = T.allocate([30], "float32", "global")
        C_1 = T.decl_buffer((4, 6), data=C, strides=(8, 1))
        for i, j in T.grid(4, 6):
            C_1[i, j] = A[i, j]
        for i, j in T.grid(4, 6):
            B[i, j] = C_1[3 - i, j]
        """,
    )
    check_lowering(strided, strided)


@T.prim_func
def gather(
    A: T.Buffer((5, 3), "float32"), I: T.Buffer((4,), "int32"), B: T.Buffer((4, 3), "float32")
):
    for i, j in T.grid(4, 3):
        B[i, j] = A[I[i] % 5, j]


def test_an_index_that_is_data_is_checked():
    where = "A[I_1[i] % 5, j] is read, dimension 0"
    row = f'T.call_intrin("int32", "tir.check_index", I_1[i] % 5, 5, "{where}")'
    check(
        FlattenBuffer(),
        gather,
        f"""
        A_1 = T.decl_buffer((15,), data=A.data)
        B_1 = T.decl_buffer((12,), data=B.data)
        for i, j in T.grid(4, 3):
            B_1[i * 3 + j] = A_1[{row} * 3 + j]
        """,
    )

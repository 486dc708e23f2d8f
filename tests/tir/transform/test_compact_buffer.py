"""CompactBufferAllocation: buffers shrink to what is used, and only where that is sure."""

from __future__ import annotations

import pytest

from mlcnb.script import tir as T
from mlcnb.tir.transform import CompactBufferAllocation, LowerOpaqueBlock, convert_blocks_to_opaque
from tests.tir.transform.lowering import check, check_lowering, run_pass


@T.prim_func
def tile(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i in range(4):
        with T.block("row"):
            v = T.axis.spatial(4, i)
            C = T.alloc_buffer((4, 8))
            for j in range(8):
                C[v, j] = A[v, j]
            for j in range(4):
                B[v, j] = C[v, j + 4]


def test_a_buffer_shrinks_to_the_part_that_its_block_uses():
    check(
        CompactBufferAllocation(),
        convert_blocks_to_opaque(tile),
        """
        for i in range(4):
            with T.block("row"):
                T.reads(A[i, 0:8])
                T.writes(B[i, 0:4])
                C = T.alloc_buffer((1, 8))
                for j in range(8):
                    C[0, j] = A[i, j]
                for j in range(4):
                    B[i, j] = C[0, j + 4]
        """,
    )


@T.prim_func
def from_memory(I: T.Buffer((1,), "int32"), B: T.Buffer((8,), "int32")):
    n = T.alloc_buffer((1,), "int32")
    C = T.alloc_buffer((8,), "int32")
    n[0] = I[0]
    C[n[0]] = 5
    n[0] = I[0] + 0
    C[n[0]] = 6
    n[0] = I[0]
    for i in range(8):
        B[i] = C[n[0]]


@T.prim_func
def by_let(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    C = T.alloc_buffer((8,), "int32")
    for i in range(4):
        x: T.int32 = 7 - i
        C[x] = A[i]
    for i in range(4):
        B[i] = C[i + 4]


@pytest.mark.parametrize("func", [from_memory, by_let])
def test_a_place_that_may_change_keeps_the_buffer_whole(func):
    assert run_pass(CompactBufferAllocation(), func) is func


@T.prim_func
def aligned(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32")):
    C = T.alloc_buffer((4, 6))
    for i, j in T.grid(4, 6):
        with T.block("C"):
            T.block_attr({"buffer_dim_align": [[0, 0, 8, 4]]})
            v, w = T.axis.remap("SS", [i, j])
            C[v, w] = A[v, w]
    for i, j in T.grid(4, 6):
        with T.block("B"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = C[3 - v, w]


def test_storage_align_becomes_strides():
    compact = check(
        CompactBufferAllocation(),
        convert_blocks_to_opaque(aligned),
        """
        C = T.alloc_buffer((4, 6), strides=(12, 1))
        for i, j in T.grid(4, 6):
            with T.block("C"):
                T.reads(A[i, j])
                T.writes(C[i, j])
                T.block_attr({"buffer_dim_align": [[0, 0, 8, 4]]})
                C[i, j] = A[i, j]
        for i, j in T.grid(4, 6):
            with T.block("B"):
                T.reads(C[3 - i, j])
                T.writes(B[i, j])
                B[i, j] = C[3 - i, j]
        """,
    )
    check(
        LowerOpaqueBlock(),
        compact,
        """
        C = T.allocate([42], "float32", "global")
        C_1 = T.decl_buffer((4, 6), data=C, strides=(12, 1))
        for i, j in T.grid(4, 6):
            C_1[i, j] = A[i, j]
        for i, j in T.grid(4, 6):
            B[i, j] = C_1[3 - i, j]
        """,
    )


@T.prim_func
def vectors(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(2):
        with T.block("half"):
            v = T.axis.spatial(2, i)
            C = T.alloc_buffer((16,))
            C[v * 8 : v * 8 + 8] = A[v * 8 : v * 8 + 8] + T.Broadcast(T.float32(1), 8)
            for j in range(8):
                B[v * 8 + j] = C[v * 8 + 7 - j]


def test_vectors_reach_from_their_first_lane_to_their_last():
    check(
        CompactBufferAllocation(),
        convert_blocks_to_opaque(vectors),
        """
        for i in range(2):
            with T.block("half"):
                T.reads(A[i * 8:i * 8 + 8])
                T.writes(B[i * 8:i * 8 + 8])
                C = T.alloc_buffer((8,))
                C[0:8] = A[i * 8:i * 8 + 8] + T.Broadcast(T.float32(1.0), 8)
                for j in range(8):
                    B[i * 8 + j] = C[j * -1 + 7]
        """,
    )
    check_lowering(vectors, vectors)

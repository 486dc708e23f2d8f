"""CompactBufferAllocation: buffers shrink to what is used, and only where that is sure."""

from __future__ import annotations

import pytest

from mlcnb.core.node import walk
from mlcnb.ir.prim_ops import as_int
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.stmt import Block
from mlcnb.tir.transform import CompactBufferAllocation, LowerOpaqueBlock, convert_blocks_to_opaque
from tests.tir.transform.lowering import check, check_lowering, run_pass, same_bits


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
                    B[i * 8 + j] = C[7 - j]
        """,
    )
    check_lowering(vectors, vectors)


@T.prim_func
def tested(A: T.Buffer((24, 24), "float32"), B: T.Buffer((24, 24), "float32")):
    with T.block("all"):
        T.reads(A[0:24, 0:24])
        T.writes(B[0:24, 0:24])
        C = T.alloc_buffer((24, 24))
        D = T.alloc_buffer((24, 24))
        for i, j in T.grid(24, 24):
            if i < 12 or T.likely(j < 20):
                C[i, j] = A[i, j]
            else:
                D[i, j] = A[i, j] + T.float32(1)
        for i, j in T.grid(24, 24):
            if i >= 12 and 20 <= j:
                B[i, j] = D[i, j]
            else:
                B[i, j] = T.if_then_else(i + 2 < 10 and 3 < j, C[i + 2, j - 4], C[0, 0])


def test_what_is_used_under_a_test_alone_counts_as_far_as_it_says():
    after = run_pass(CompactBufferAllocation(), tested)
    text = after.script()
    assert "D = T.alloc_buffer((12, 4))" in text and "C = T.alloc_buffer((24, 24))" in text
    assert "D[i - 12, j - 20] = " in text
    same_bits(tested, after)
    plain = run_pass(LowerOpaqueBlock(), tested)
    cut = run_pass(CompactBufferAllocation(), plain)
    assert "T.allocate([12, 4]" in cut.script()
    same_bits(tested, cut)


@pytest.mark.parametrize(
    ("test", "size"),
    [
        ("j * 8 + k < 60", 60),
        ("j * 8 + k >= 9", 55),
        ("not j * 8 + k >= 9", 9),
        ("k + j * 8 == 5", 1),
        ("j * 8 < 60", 64),
        ("I[j] < 8", 64),
        ("j * 8 + k < I[0]", 64),
        ("j * 8 + k < i", None),
    ],
)
def test_predicates_of_blocks(test, size):
    func = parse(f"""
@T.prim_func
def func(I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("b"):
            A = T.alloc_buffer((256,), "int32")
            for j, k in T.grid(8, 8):
                with T.block(""):
                    T.where({test})
                    A[i * 24 + j * 8 + k] = 1
                    B[i] = A[i * 24 + j * 8 + k]
""")
    after = run_pass(CompactBufferAllocation(), func)
    allocated = [b for n in walk(after.body) if isinstance(n, Block) for b in n.alloc_buffers]
    assert [as_int(b.shape[0]) for b in allocated] == [size or 64]
    same_bits(func, after)


def test_a_buffer_may_grow_where_it_is_asked_for():
    @T.prim_func
    def func(B: T.Buffer((4, 8), "float32")):
        for i in range(4):
            C = T.decl_buffer((4, 7), "float32")
            for j in range(8):
                C[i, j] = T.float32(1)
            for j in range(8):
                B[i, j] = C[i, j]

    strict = run_pass(CompactBufferAllocation(), func)
    assert "T.allocate([1, 7]" in strict.script()
    loose = run_pass(CompactBufferAllocation(is_strict=False), func)
    assert "T.allocate([1, 8]" in loose.script()


@pytest.mark.parametrize(
    "second",
    ['D = T.decl_buffer((16,), "float16", data=C)', "T.evaluate(T.call_extern('int32', 'f', C))"],
)
def test_memory_with_another_name_stays(second):
    func = parse(f"""
@T.prim_func
def func(B: T.Buffer((8,), "float32")):
    C = T.allocate([8], "float32", "global")
    C_1 = T.decl_buffer((8,), data=C)
    {second}
    for i in range(4):
        C_1[i] = T.float32(1)
        B[i] = C_1[i]
""")
    assert run_pass(CompactBufferAllocation(), func) is func

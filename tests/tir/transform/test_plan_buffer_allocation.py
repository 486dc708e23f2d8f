"""PlanAndUpdateBufferAllocationLocation: where a buffer may live, and where it may not."""

from __future__ import annotations

import pytest

from mlcnb.core.node import Node, replace, rewrite
from mlcnb.ir import prim_ops as p
from mlcnb.ir.module import IRModule
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir import decl_buffer
from mlcnb.tir import stmt as s
from mlcnb.tir.transform import PlanAndUpdateBufferAllocationLocation as Plan
from tests.tir.schedule.carried import CARRIED
from tests.tir.transform.lowering import check, run_pass, same_bits


@T.prim_func
def rows(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    C = T.alloc_buffer((4, 8))
    for i in range(4):
        for j in range(8):
            C[i, j] = A[i, j] * T.float32(2)
        for j in range(8):
            B[i, j] = C[i, 7 - j]


@T.prim_func
def scratch(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    C = T.alloc_buffer((8,))
    for i in range(4):
        for j in range(8):
            C[j] = A[i, j] * T.float32(2)
        for j in range(8):
            B[i, j] = C[7 - j]


@T.prim_func
def tiles_with_a_fringe(A: T.Buffer((10, 6), "float32"), B: T.Buffer((10,), "float32")):
    C = T.alloc_buffer((4,))
    for i in range(3):
        for j, k in T.grid(4, 6):
            if i * 4 + j < 10:
                if k == 0:
                    C[j] = T.float32(0)
                C[j] = C[j] + A[i * 4 + j, k]
        for j in range(4):
            if i * 4 + j < 10:
                B[i * 4 + j] = C[j]


@T.prim_func
def split_reduction(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    C = T.alloc_buffer((4,))
    for _u in range(2):
        for k, j, m in T.grid(3, 4, 2):
            with T.block("C"):
                v = T.axis.spatial(4, j)
                r = T.axis.reduce(6, k * 2 + m)
                with T.init():
                    C[v] = T.float32(0)
                C[v] = C[v] + A[v, r]
        for j in range(4):
            B[j] = C[j]


def test_a_buffer_goes_where_its_uses_meet():
    check(
        Plan(),
        rows,
        """
        for i in range(4):
            with T.block(""):
                T.reads(A[i, 0:8])
                T.writes(B[i, 0:8])
                C = T.alloc_buffer((4, 8))
                for j in range(8):
                    C[i, j] = A[i, j] * T.float32(2.0)
                for j in range(8):
                    B[i, j] = C[i, 7 - j]
        """,
    )


def is_inside(func) -> bool:
    """Whether the buffer has moved into a loop of the function; the numbers stay in any case."""
    after = run_pass(Plan(), func)
    same_bits(func, after)
    return after is not func


@pytest.mark.parametrize("func", [scratch, tiles_with_a_fringe, split_reduction])
def test_what_every_iteration_writes_before_it_reads_is_its_own(func):
    assert is_inside(func)


@T.prim_func
def not_all_of_it(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    C = T.alloc_buffer((8,))
    C[7] = T.float32(1)
    for i in range(4):
        for j in range(7):
            C[j] = A[i, j] * T.float32(2)
        for j in range(8):
            B[i, j] = C[7 - j]


@T.prim_func
def every_other_element(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    C = T.alloc_buffer((8,))
    for i in range(4):
        for j in range(4):
            C[j * 2 + i % 2] = A[i, j]
        for j in range(8):
            B[i, j] = T.if_then_else(i * 2 + j % 2 > 0, C[T.min(j, i * 8)], T.float32(0))


@T.prim_func
def in_the_first_iteration(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    C = T.alloc_buffer((8,))
    for i, j in T.grid(4, 8):
        if i == 0:
            C[j] = A[i, j]
        B[i, j] = C[j]


@T.prim_func
def in_the_second_step(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    C = T.alloc_buffer((8,))
    for j in range(8):
        C[j] = T.float32(5)
    for i in range(4):
        for k, j in T.grid(2, 8):
            if k > 0:
                if k == 0:
                    C[j] = A[i, j]
                B[i, j] = C[j]
        for j in range(8):
            C[j] = A[i, j]


@T.prim_func
def through_memory(I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    C = T.alloc_buffer((8,), "int32")
    for j in range(8):
        C[j] = j
    for i in range(8):
        C[I[i]] = C[I[7 - i]] + 1
        B[i] = C[I[i]]


@T.prim_func
def in_a_while(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    C = T.alloc_buffer((8,), "int32")
    n = T.alloc_buffer((1,), "int32")
    n[0] = 0
    while n[0] < 3:
        for j in range(8):
            C[j] = T.if_then_else(n[0] == 0, A[j], C[j] + 1)
            B[j] = C[j]
        n[0] = n[0] + 1


@T.prim_func
def through_another_name(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    C = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            T.reads(A[v])
            T.writes(C[v])
            X = T.match_buffer(C[v], (1,), offset_factor=1)
            X[0] = A[v]
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.reads(C[0:8])
            T.writes(B[v])
            B[v] = C[v // 2]


@T.prim_func
def lanes(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    C = T.alloc_buffer((1,))
    C[0] = T.float32(0)
    for i in T.vectorized(8):
        B[i] = C[0]
        C[0] = A[i]


@pytest.mark.parametrize(
    "func",
    [
        lanes,
        CARRIED["window_in_one_loop"],
        CARRIED["partial_sums"],
        not_all_of_it,
        every_other_element,
        in_the_first_iteration,
        in_the_second_step,
        through_memory,
        in_a_while,
        through_another_name,
    ],
)
def test_what_a_later_iteration_reads_stays_outside(func):
    assert not is_inside(func)


@T.prim_func
def threads(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    C = T.alloc_buffer((8,))
    for i in T.parallel(4):
        for j in range(8):
            C[j] = A[i, j] * T.float32(2)
        for j in range(8):
            B[i, j] = C[7 - j]


def test_threads_have_their_own():
    assert is_inside(threads)


@T.prim_func
def unused(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    C = T.alloc_buffer((4,))
    for i in range(4):
        B[i] = A[i]


def test_what_nobody_uses_is_gone():
    check(
        Plan(),
        unused,
        """
        with T.block("root"):
            T.reads()
            T.writes()
            for i in range(4):
                B[i] = A[i]
        """,
    )


def test_copies_of_a_block_keep_their_memory():
    """loop_partition copies a block with the buffer that lives in it: one pointer, two memories."""
    func = CARRIED["in_place"]
    copied = func.with_body(rewrite(func.body, _with_scratch))
    same_bits(copied, run_pass(Plan(), copied))


def _with_scratch(n: Node) -> Node | None:
    """Each loop holds a block of its own with the same scratch buffer."""
    if not isinstance(n, s.For):
        return None
    store = s.BufferStore(SCRATCH, p.const(1.0), (p.const(0),))
    scratch = s.Block((), (), (), "scratch", s.seq(store, n.body), alloc_buffers=(SCRATCH,))
    return replace(n, body=s.BlockRealize((), p.const(True), scratch))


SCRATCH = decl_buffer((1,), "float32", "scratch")


def test_a_new_block_says_what_it_reads_and_writes():
    func = parse(
        """
@T.prim_func
def func(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    B = T.alloc_buffer((4, 8))
    for i in range(4):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]
"""
    )
    mod = IRModule.make({"main": func})
    text = Plan()(mod)["main"].script()
    assert "T.reads(A[i, 0:8])" in text
    assert "T.writes(C[i, 0:8])" in text

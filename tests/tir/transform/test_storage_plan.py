"""StorageRewrite plans for the whole function: out of loops, in place, merged, and what is left."""

from __future__ import annotations

import pytest

from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir import PrimFunc
from mlcnb.tir.stmt import Allocate
from mlcnb.tir.transform import StorageRewrite
from tests.tir.transform.lowering import check, run_pass, same_bits, statements


def extents(func: PrimFunc) -> list[int | None]:
    return [p.as_int(n.extents[0]) for n in walk(func.body) if isinstance(n, Allocate)]


def test_memory_of_a_loop_is_made_once():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        for i in range(8):
            B = T.decl_buffer((2,), "float32")
            B[0] = T.float32(3)
            x = T.exp(B[0])
            A[i] = x + T.float32(1)

    check(
        StorageRewrite(),
        func,
        """
        B = T.allocate([2], "float32", "global")
        B_1 = T.decl_buffer((2,), data=B)
        for i in range(8):
            B_1[0] = T.float32(3.0)
            x: T.float32 = T.exp(B_1[0])
            A[i] = x + T.float32(1.0)
        """,
    )


def test_each_thread_keeps_its_own():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")):
        for i in T.parallel(8):
            for j in range(2):
                B = T.decl_buffer((2,), "float32")
                B[j] = T.float32(3)
                A[i] = B[j]

    check(
        StorageRewrite(),
        func,
        """
        for i in T.parallel(8):
            B = T.allocate([2], "float32", "global")
            B_1 = T.decl_buffer((2,), data=B)
            for j in range(2):
                B_1[j] = T.float32(3.0)
                A[i] = B_1[j]
        """,
    )


ELEMENTWISE = """
@T.prim_func
def func(A: T.Buffer((4, 4), "float32"), E: T.Buffer((4, 4), "float32")):
    B = T.decl_buffer((4, 4), "float32", axis_separators=[1])
    C = T.decl_buffer((4, 4), "float32", axis_separators=[1])
    for i, j in T.grid(4, 4):
        B[i, j] = A[i, j]
    for i, j in T.grid(4, 4):
        C[i, j] = {}
    for i, j in T.grid(4, 4):
        E[i, j] = C[i, j]
"""


def test_the_last_reader_may_write_over_what_it_reads():
    func = parse(ELEMENTWISE.format("B[i, j] * T.float32(2)"))
    after = run_pass(StorageRewrite(), func)
    assert extents(after) == [4]
    same_bits(func, after)


@pytest.mark.parametrize(
    "value", ["B[j, i]", "B[i, j] + B[3 - i, j]", "B[i, j] + C[i, j]", "B[0, j]"]
)
def test_not_so_where_an_element_is_read_at_another_time(value):
    func = parse(ELEMENTWISE.format(value))
    after = run_pass(StorageRewrite(), func)
    assert extents(after) == [4, 4]


def test_a_sum_does_not_write_over_what_it_reads_again():
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), E: T.Buffer((4,), "float32")):
        B = T.decl_buffer((4,), "float32")
        C = T.decl_buffer((4,), "float32")
        for i in range(4):
            B[i] = A[i]
        for _k in range(3):
            for i in range(4):
                C[i] = B[i] * T.float32(2)
        for i in range(4):
            E[i] = C[i]

    after = run_pass(StorageRewrite(), func)
    assert extents(after) == [4, 4]
    same_bits(func, after)


def test_what_nobody_uses_goes():
    @T.prim_func
    def func(A: T.Buffer((4,), "float32")):
        B = T.decl_buffer((4,), "float32")
        B_flat = T.decl_buffer((4,), "float32", data=B.data)
        for i in range(4):
            A[i] = T.float32(0)

    assert statements(run_pass(StorageRewrite(), func)) == (
        "for i in range(4):\n    A[i] = T.float32(0.0)"
    )


def test_memory_of_its_own_kind_becomes_one_allocation():
    @T.prim_func
    def func(n: T.int32, E: T.Buffer((10,), "int16")):
        for _i in range(n):
            for j in range(10):
                A = T.decl_buffer((200,), "float32", scope="local.L0A")
                B = T.decl_buffer((200,), "int16", scope="local.L0A")
                C = T.decl_buffer((100,), "float32", scope="local.L0A")
                A[j] = T.float32(1)
                B[j] = T.Cast("int16", A[j])
                C[j] = A[j]
                E[j] = B[j] + T.Cast("int16", C[j])

    after = run_pass(StorageRewrite(), func)
    assert extents(after) == [400], "200 float32, 200 int16 in 100 of them, 100 float32"
    assert "elem_offset=400" in after.script() and "elem_offset=300" in after.script()


@pytest.mark.parametrize(
    "head",
    [
        "m: T.let[T.int32] = n * 2\n    ",
        "for m in range(1, n):\n        ",
    ],
)
def test_a_size_that_is_known_inside_alone_keeps_its_place(head):
    indent = " " * (len(head) - head.rindex("\n") - 1)
    func = parse(
        "@T.prim_func\ndef func(n: T.int32, A: T.Buffer((4,), 'float32')):\n    "
        f"{head}B = T.decl_buffer((m,), 'float32')\n"
        f"{indent}B[0] = T.float32(1)\n{indent}A[0] = B[0]\n"
    )
    assert run_pass(StorageRewrite(), func) is func


def test_a_pointer_that_is_kept_keeps_its_memory():
    @T.prim_func
    def func(A: T.Buffer((4,), "float32")):
        for i in range(4):
            B = T.allocate([4], "float32", "global")
            B_1 = T.decl_buffer((4,), "float32", data=B)
            kept: T.handle("float32") = B
            C = T.decl_buffer((4,), "float32", data=kept)
            B_1[0] = T.float32(1)
            A[i] = C[0]

    assert run_pass(StorageRewrite(), func) is func

"""UnrollLoop as its options and pragmas ask."""

from __future__ import annotations

import pytest

from mlcnb import te, tir
from mlcnb.core.errors import PassError
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.ir.transform import PassContext
from mlcnb.script import tir as T
from mlcnb.tir.transform import UnrollLoop


def unrolled(func, **options):
    with PassContext(config={"tir.UnrollLoop": options}):
        return UnrollLoop()(IRModule.make({"main": func}))["main"]


@T.prim_func(private=True)
def two_loops(A: T.Buffer((8,), "int32")):
    for i in range(2):
        for j in T.unroll(3):
            A[i * 3 + j] = j


@T.prim_func(private=True)
def inner(A: T.Buffer((8,), "int32")):
    for i in range(2):
        A[i * 3] = 0
        A[i * 3 + 1] = 1
        A[i * 3 + 2] = 2


@T.prim_func(private=True)
def both(A: T.Buffer((8,), "int32")):
    A[0] = 0
    A[1] = 1
    A[2] = 2
    A[3] = 0
    A[4] = 1
    A[5] = 2


@T.prim_func(private=True)
def marked(A: T.Buffer((8,), "int32")):
    for i in T.unroll(2):
        for j in T.unroll(3):
            A[i * 3 + j] = j


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, inner),
        ({"auto_max_step": 5}, inner),
        ({"auto_max_step": 6}, both),
        ({"auto_max_step": 6, "auto_max_depth": 0}, inner),
        ({"auto_max_extent": 2}, both),
        ({"auto_max_step": 6, "explicit_unroll": False}, marked),
    ],
)
def test_the_options_say_which_loops(options, expected):
    assert_structural_equal(unrolled(two_loops, **options), expected)


def test_a_pragma_holds_below_it():
    @T.prim_func(private=True)
    def func(A: T.Buffer((8,), "int32")):
        with T.attr(T.int32(0), "pragma_auto_unroll_max_step", 16):
            for i in range(2):
                A[i] = 1
        for i in range(2):
            A[i] = 2

    @T.prim_func(private=True)
    def expected(A: T.Buffer((8,), "int32")):
        A[0] = 1
        A[1] = 1
        for i in range(2):
            A[i] = 2

    assert_structural_equal(unrolled(func), expected)


def test_registers_are_named_by_numbers():
    @T.prim_func(private=True)
    def func(A: T.Buffer((4,), "int32")):
        B = T.decl_buffer((2,), "int32", scope="local")
        for i in range(2):
            B[i] = i
        for i in range(4):
            A[i] = 0

    after = unrolled(func, unroll_local_access=True)
    kinds = [n.extent.value for n in nodes(after.body) if isinstance(n, tir.For)]
    assert kinds == [4]


def nodes(n):
    found = []
    tir.stmt_functor.post_order_visit(n, found.append)
    return found


def test_a_loop_without_a_number_cannot_be_unrolled():
    ib = tir.ir_builder.create()
    n = te.var("n")
    A = ib.pointer("int32", name="A")
    with ib.for_range(0, n, name="i", kind="unroll") as i:
        A[i] = 1
    with pytest.raises(PassError) as error:
        unrolled(tir.PrimFunc([A, n], ib.get()), auto_max_step=1)
    assert error.value.message == "UnrollLoop: loop i has no constant extent"

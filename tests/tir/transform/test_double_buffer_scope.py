"""InjectDoubleBuffer on memory that is marked with an attribute."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import PassError
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.ir.transform import Sequential
from mlcnb.script import tir as T
from mlcnb.tir.transform import InjectDoubleBuffer, Simplify
from tests.tir.transform.lowering import same_bits

PASSES = Sequential([InjectDoubleBuffer(), Simplify()])


@T.prim_func
def before(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        data = T.allocate([8], "float32", "global")
        cache = T.decl_buffer((8,), data=data)
        with T.attr(data, "double_buffer_scope", 1):
            for j in range(8):
                cache[j] = A[i, j]
        B[i] = cache[0] + cache[7]


@T.prim_func
def expected(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    data = T.allocate([16], "float32", "global")
    cache = T.decl_buffer((16,), data=data)
    for j in range(8):
        cache[j] = A[0, j]
    for i_outer in range(3):
        with T.attr(data, "double_buffer_write", 1):
            for j in range(8):
                cache[(i_outer + 1) % 2 * 8 + j] = A[i_outer + 1, j]
        B[i_outer] = cache[i_outer % 2 * 8] + cache[i_outer % 2 * 8 + 7]
    B[3] = cache[8] + cache[15]


def test_what_is_marked_is_filled_one_iteration_ahead():
    after = PASSES(IRModule.make({"main": before}))["main"]
    assert_structural_equal(
        after.without_attr("global_symbol"), expected.without_attr("global_symbol")
    )
    same_bits(before, after)


def test_the_whole_body_may_be_marked():
    @T.prim_func
    def whole(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            data = T.allocate([8], "float32", "global")
            cache = T.decl_buffer((8,), data=data)
            T.attr(data, "double_buffer_scope", 1)
            for j in range(8):
                cache[j] = A[i, j]
            B[i] = cache[0] + cache[7]

    after = PASSES(IRModule.make({"main": whole}))["main"]
    assert "double_buffer_write" in after.script()
    same_bits(whole, after)


def test_what_cannot_be_ahead_is_refused():
    @T.prim_func
    def carried(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(4):
            data = T.allocate([8], "float32", "global")
            cache = T.decl_buffer((8,), data=data)
            with T.attr(data, "double_buffer_scope", 1):
                cache[0] = B[i]
            B[i + 1] = cache[0] + A[i]

    with pytest.raises(PassError) as error:
        InjectDoubleBuffer()(IRModule.make({"main": carried}))
    message = "InjectDoubleBuffer: data is filled from B, which the loop writes"
    assert error.value.message == message

    @T.prim_func
    def no_loop(A: T.Buffer((8,), "float32")):
        data = T.allocate([8], "float32", "global")
        cache = T.decl_buffer((8,), data=data)
        with T.attr(data, "double_buffer_scope", 1):
            cache[0] = A[0]
        A[1] = cache[0]

    with pytest.raises(PassError) as error:
        InjectDoubleBuffer()(IRModule.make({"main": no_loop}))
    message = "InjectDoubleBuffer: data is not allocated in a serial loop of known extent"
    assert error.value.message == message

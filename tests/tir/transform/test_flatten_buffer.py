"""FlattenBuffer: dimensions, regions and axis separators."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import UnsupportedError
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import Sequential
from mlcnb.script import tir as T
from mlcnb.testing import CompareBeforeAfter
from mlcnb.tir.transform import FlattenBuffer, Simplify

FLAT = Sequential([FlattenBuffer(), Simplify()])


class TestParametersKeepTheirShapes(CompareBeforeAfter):
    transform = FLAT

    def before(A: T.Buffer((4, 8), "float32"), n: T.int32, b: T.handle):
        B = T.match_buffer(b, (n, 8))
        for i, j in T.grid(n, 8):
            B[i, j] = A[i % 4, j] + T.float32(1)

    def expected(A: T.Buffer((4, 8), "float32"), n: T.int32, b: T.handle):
        B = T.match_buffer(b, (n, 8))
        A_1 = T.decl_buffer((32,), data=A.data)
        B_1 = T.decl_buffer((n * 8,), data=B.data)
        for i, j in T.grid(n, 8):
            B_1[i * 8 + j] = A_1[i % 4 * 8 + j] + T.float32(1)


class TestBlocksAndTheirRegions(CompareBeforeAfter):
    transform = FLAT

    def before(B: T.Buffer((4,), "float32")):
        A = T.alloc_buffer((4, 8))
        for i in range(4):
            with T.block("b"):
                T.reads(A[i, 0:8])
                T.writes(B[i])
                B[i] = A[i, 2]

    def expected(B: T.Buffer((4,), "float32")):
        A = T.alloc_buffer((32,))
        for i in range(4):
            with T.block("b"):
                T.reads(A[i * 8 : i * 8 + 8])
                T.writes(B[i])
                B[i] = A[i * 8 + 2]


class TestAxisSeparatorsPartTheDimensions(CompareBeforeAfter):
    transform = FLAT

    def before():
        A = T.alloc_buffer([2, 3, 5, 7], axis_separators=[2])
        for i, j, k, m in T.grid(2, 3, 5, 7):
            T.evaluate(A[i, j, k, m])

    def expected():
        A = T.alloc_buffer([6, 35], axis_separators=[1])
        for i, j, k, m in T.grid(2, 3, 5, 7):
            T.evaluate(A[i * 3 + j, k * 7 + m])


class TestAllocationWithSeparators(CompareBeforeAfter):
    transform = FLAT

    def before():
        A = T.decl_buffer([2, 3, 5], axis_separators=[1])
        for i, j, k in T.grid(2, 3, 5):
            T.evaluate(A[i, j, k])

    def expected():
        data = T.allocate([2, 15], "float32", "global")
        A = T.decl_buffer([2, 15], data=data, axis_separators=[1])
        for i, j, k in T.grid(2, 3, 5):
            T.evaluate(A[i, j * 5 + k])


def test_strides_with_separators_are_refused():
    @T.prim_func(private=True)
    def func(a: T.handle):
        A = T.match_buffer(a, (4, 8), strides=(16, 1), axis_separators=[1])
        T.evaluate(A[0, 0])

    with pytest.raises(UnsupportedError) as error:
        FlattenBuffer()(IRModule.from_expr(func))
    assert str(error.value) == (
        "FlattenBuffer: A has axis separators and strides\nhint: give it a compact layout"
    )

"""AnnotateIrregularLoop: the loops that end early by themselves, and no others."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.ir.module import IRModule
from mlcnb.script import tir as T
from mlcnb.testing import CompareBeforeAfter
from mlcnb.tir.transform import AnnotateIrregularLoop, LoopPartition, LowerOpaqueBlock, Simplify
from tests.tir.transform.lowering import same_bits


class TestLoopsThatAreLeft(CompareBeforeAfter):
    transform = AnnotateIrregularLoop()

    def before(A: T.Buffer((5, 5, 5), "int32")):
        for i in T.serial(5):
            if A[i, 0, 0] > 7:
                break
            for j in T.serial(5):
                for k in T.serial(5):
                    if A[i, j, k] < 0:
                        continue
                    A[i, j, k] = A[i, j, k] + 1

    def expected(A: T.Buffer((5, 5, 5), "int32")):
        for i in T.serial(5, annotations={"irregular_loop_mark": 1}):
            if A[i, 0, 0] > 7:
                break
            for j in T.serial(5):
                for k in T.serial(5, annotations={"irregular_loop_mark": 1}):
                    if A[i, j, k] < 0:
                        continue
                    A[i, j, k] = A[i, j, k] + 1


class TestALoopOutsideOfAWhile(CompareBeforeAfter):
    transform = AnnotateIrregularLoop()

    def before(A: T.Buffer((10,), "int32"), n: T.Buffer((1,), "int32")):
        for i in range(3):
            n[0] = i
            while n[0] < 10:
                if A[n[0]] > 5:
                    break
                n[0] = n[0] + 1

    expected = before


@T.prim_func
def once(A: T.Buffer((8,), "int32")):
    for k in T.serial(4):
        for i in T.serial(1):
            if A[k + i] > 5:
                break
            A[k] = A[k] + 1
        for _i in T.serial(1):
            if A[k] > 2:
                continue
            A[k] = A[k] + 10
        A[k + 4] = 7


@pytest.mark.parametrize("transform", [LowerOpaqueBlock(), Simplify(), LoopPartition()])
def test_a_loop_of_one_iteration_stays_where_it_is_left(transform):
    """Without the loop, its `break` would leave the one around it."""
    after = transform(IRModule({"main": once}))["main"]
    same_bits(once, after)


def test_a_loop_of_one_iteration_that_is_left_compiles():
    a = np.array([1, 6, 2, 9, 0, 0, 0, 0], "int32")
    mlc.compile(once, target="llvm")(a)
    assert a.tolist() == [12, 6, 3, 9, 7, 7, 7, 7]

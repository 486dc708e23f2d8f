"""take by a number: a scalar has no dimensions, known ones need no check."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb
from mlcnb import relax
from mlcnb.core.errors import ExecutionError, TypeInferError
from mlcnb.ir import assert_structural_equal
from mlcnb.relax.expr import PrimValue, Var, tensor_info
from mlcnb.relax.infer import infer
from mlcnb.relax.transform import LegalizeOps
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T


def test_a_known_place_is_one_copy() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            gv = R.take(x, R.prim_value(2), axis=1)
            return gv

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            gv = R.call_tir(After.take, (x,), R.Tensor((2,), "float32"))
            return gv

        @T.prim_func(private=True)
        def take(x: T.Buffer((T.int64(2), T.int64(3))), y: T.Buffer((T.int64(2),))):
            T.func_attr({"tir.noalias": True})
            for i in range(T.int64(2)):
                with T.block("take"):
                    vi = T.axis.spatial(T.int64(2), i)
                    y[vi] = x[vi, T.int64(2)]

    assert_structural_equal(LegalizeOps()(Before), After)


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_numbers(target: str) -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, "n"), "float32"), i: R.Prim("int64")):
            n = T.int64()
            a = R.take(x, R.prim_value(n - 1), axis=1)
            b = R.take(x, R.prim_value(1), axis=0)
            c = R.take(x, i, axis=1)
            return (a, b, c)

    x = np.arange(6, dtype="float32").reshape(2, 3)
    ex = mlcnb.compile(Module, target)
    for got, wanted in zip(ex(x, 1), (x[:, 2], x[1], x[:, 1]), strict=True):
        np.testing.assert_array_equal(got, wanted)
    with pytest.raises(ExecutionError, match="take: indices is 3, outside of 0 to 2"):
        ex(x, 3)


def test_what_is_taken_from_is_a_tensor() -> None:
    call = relax.op.take(PrimValue(3), Var("i", tensor_info((2,), "int64")), axis=0)
    with pytest.raises(TypeInferError, match="take: x has to be a tensor, it is a scalar of int"):
        infer(call)


def test_bounds_of_slices_are_numbers_too() -> None:
    x = Var("x", tensor_info((8,), "float32"))
    two, six = PrimValue(2), PrimValue(6)
    call = relax.op.strided_slice(x, axes=(PrimValue(0),), begin=[two], end=(six,))
    assert_structural_equal(call, relax.op.strided_slice(x, axes=[0], begin=[2], end=[6]))

"""Sizes at run time: evaluated, bound and checked."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError, RuntimeInputError
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import IntImm, Not, Select
from mlcnb.ir.prim_ops import cast, floordiv, floormod, if_then_else, maximum, minimum
from mlcnb.relax.expr import tensor_info
from mlcnb.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    TupleStructInfo,
)
from mlcnb.runtime.shapes import evaluate, match, match_all, match_shapes, shape_of
from mlcnb.tir import FloatImm, Var
from tests.runtime.programs import HEAD, random

N, M = Var("n", "int64"), Var("m", "int64")
DIMS = {N: 7, M: 3}


@pytest.mark.parametrize(
    ("size", "value"),
    [
        (5, 5),
        (IntImm("int64", 5), 5),
        (N, 7),
        (N + 2 * M, 13),
        (N - M, 4),
        (floordiv(N, M), 2),
        (floordiv(-N, M), -3),
        (floormod(-N, M), 2),
        (minimum(N, M), 3),
        (maximum(N, M), 7),
        (cast("int32", N) + 1, 8),
        (if_then_else(N > M, N, M), 7),
        (Select(N < M, N, M), 3),
        (Select(Not(N < M), N, M), 7),
        (if_then_else(M > 0, floordiv(N, M), 0), 2),
    ],
    ids=str,
)
def test_evaluate(size, value):
    assert evaluate(size, DIMS) == value


def test_only_the_branch_that_is_taken_is_evaluated():
    size = if_then_else(M > 0, floordiv(N, M), 0)
    assert evaluate(size, {N: 7, M: 0}) == 0


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (Var("k", "int64") + 1, "the size 'k' is not known where it is needed"),
        (floordiv(N, M - 3), "division by zero in the size n // (m - T.int64(3))"),
        (FloatImm("float32", 1.0), "a size cannot be computed from T.float32(1.0)"),
    ],
)
def test_what_cannot_be_evaluated(size, message):
    with pytest.raises(ExecutionError) as caught:
        evaluate(size, DIMS)
    assert caught.value.message == message


def tensor(*dims, dtype="float32"):
    return tensor_info(dims, dtype)


def test_shape_of():
    assert shape_of(tensor(N, 4, N * M), DIMS) == (7, 4, 21)
    with pytest.raises(ExecutionError) as caught:
        shape_of(tensor(M - N), DIMS)
    assert str(caught.value) == "a tensor would have the shape (-4,)"


def test_match_binds_what_is_free_and_checks_the_rest():
    dims = {}
    info = TupleStructInfo((tensor(N, M), tensor(N * M), tensor(M)))
    arrays = (np.zeros((2, 3), "f"), np.zeros(6, "f"), np.zeros(3, "f"))
    match(arrays, info, dims, "x")
    assert dims == {N: 2, M: 3}
    match((4, 2), ShapeStructInfo((Var("k", "int64"), N)), dims, "s")
    k = Var("k", "int64")
    match(9, PrimStructInfo(dtype("int64"), k), dims, "p")
    assert dims[k] == 9


@pytest.mark.parametrize(
    ("value", "info", "message"),
    [
        (
            np.zeros((2, 4), "f"),
            tensor(N, N),
            "x: dimension 1 is 4, expected 2 (shape (2, 4) against (n, n))",
        ),
        (
            np.zeros((2, 5), "f"),
            tensor(N, N * 2),
            "x: dimension 1 is 5, expected 4 (shape (2, 5) against (n, n * T.int64(2)))",
        ),
        (np.zeros(2, "f"), tensor(N, 3), "x: expected 2 dimensions (n, 3), got shape (2,)"),
        (3, tensor(N), "x: expected a tensor, got int"),
        (
            np.zeros(2, "i4"),
            tensor(N),
            "x: expected dtype float32, got int32\nhint: convert it first: x.astype('float32')",
        ),
        (np.zeros(2, "f"), TupleStructInfo((tensor(2),)), "x: expected a tuple of 1 values"),
        (
            (np.zeros(3, "f"),),
            TupleStructInfo((tensor(2),)),
            "x[0]: dimension 0 is 3, expected 2 (shape (3,) against (2))",
        ),
    ],
    ids=range(7),
)
def test_what_does_not_match(value, info, message):
    with pytest.raises(RuntimeInputError) as caught:
        match(value, info, {}, "x")
    assert str(caught.value) == message


def test_sizes_that_are_bound_later_are_checked_then():
    """n * 2 alone does not say what n is."""
    dims = {}
    match_shapes([((6,), (N * 2,), "x")], dims)
    assert dims == {}
    match_all([(np.zeros(6, "f"), tensor(N * 2), "x"), (np.zeros(3, "f"), tensor(N), "y")], dims)
    assert dims == {N: 3}
    with pytest.raises(RuntimeInputError) as caught:
        match_all([(np.zeros(5, "f"), tensor(N * 2), "x"), (np.zeros(3, "f"), tensor(N), "y")], {})
    assert str(caught.value) == (
        "x: dimension 0 is 5, expected 6 (shape (5,) against (n * T.int64(2)))"
    )


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_an_input_whose_size_a_later_one_fixes(target):
    """Else its kernel would read beyond it."""
    text = """
    @R.function
    def main(x: R.Tensor(("n * 2",), "float32"), y: R.Tensor(("n",), "float32")):
        n = T.int64()
        with R.dataflow():
            a = R.concat((y, y), axis=0)
            gv = R.add(x, a)
            R.output(gv)
        return gv
"""
    ex = mlc.compile(mlc.script.parse(HEAD + text), target=target)
    x, y = random(6), random(3, seed=1)
    np.testing.assert_array_equal(ex(x, y), x + np.concatenate([y, y]))
    with pytest.raises(RuntimeInputError) as caught:
        ex(x[:5], y)
    assert str(caught.value) == (
        "input 'x': dimension 0 is 5, expected 6 (shape (5,) against (n * T.int64(2)))"
    )
    kernel = mlc.compile(mlc.te.create_prim_func(doubled()), target=target)
    z = np.zeros(3, np.float32)
    kernel(x, z)
    np.testing.assert_array_equal(z, x[::2])
    with pytest.raises(RuntimeInputError) as caught:
        kernel(x[:5], z)
    assert str(caught.value) == (
        "main: argument 'a': dimension 0 is 5, expected 6 (shape (5,) against (n * T.int64(2)))"
    )


def doubled():
    te, n = mlc.te, Var("n", "int64")
    a = te.placeholder((n * 2,), name="a")
    return [a, te.compute((n,), lambda i: a[i * 2], name="b")]

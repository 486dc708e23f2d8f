"""argmax and argmin of rows: the first of equal ones, the first NaN, rows of any length."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import relax, tir

KINDS = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64")
LENGTHS = (1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 80, 129, 1000)


def compiled(name, shape, kind, axis=-1, keepdims=False):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo(shape, kind))
    with builder.function("main", [x]):
        found = builder.emit(getattr(relax.op, name)(x, axis=axis, keepdims=keepdims))
        builder.emit_func_output(found)
    return mlc.compile(builder.get(), target="llvm")


def rows_of(length, kind):
    """Rows of few values, so that many are equal; with infinities and NaN where there are."""
    rng = np.random.default_rng(length)
    dtype = np.dtype(getattr(ml_dtypes, kind, kind))
    if kind[0] in "iu":
        info = np.iinfo(dtype)
        values = np.array([info.min, info.max, 0, 1, 5])
        return rng.choice(values, (23, length)).astype(dtype)
    x = rng.choice([0.0, -0.0, 1.5, -2.0, 3.0], (23, length))
    x[3], x[4], x[5] = -np.inf, np.inf, np.nan
    x[6, -1] = np.nan
    x[7, length // 2 :] = np.nan
    x[8, :: max(length // 3, 1)] = -np.inf
    return x.astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_rows(name, kind):
    for length in LENGTHS:
        x = rows_of(length, kind)
        exact = getattr(np, name)(x.astype("float64") if kind == "bfloat16" else x, axis=-1)
        found = compiled(name, x.shape, kind)(x)
        np.testing.assert_array_equal(found, exact, err_msg=str(length))


def test_rows_of_several_dimensions_keep_them():
    x = rows_of(6 * 40, "float32").reshape(23, 6, 40)
    found = compiled("argmax", x.shape, "float32", keepdims=True)(x)
    np.testing.assert_array_equal(found, np.argmax(x, axis=-1, keepdims=True))


def test_any_number_of_rows():
    n = tir.Var("n", "int64")
    run = compiled("argmin", (n, 33), "float32")
    for rows in (0, 1, 5, 23):
        x = rows_of(33, "float32")[:rows]
        np.testing.assert_array_equal(run(x), np.argmin(x, axis=-1))

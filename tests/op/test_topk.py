"""topk: a few by insertion, many by the whole order; ties, NaN and either end, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.op.sorting import INSERTED
from mlcnb.relax import op as R
from tests.dlight.test_cpu import loops_of


def found_and_expected(x, **attrs):
    func, expected = loops_of(lambda a: R.topk(a, **attrs), x)
    found = np.zeros(expected.shape, expected.dtype)
    mlc.compile(func, schedule="default")(x, found)
    return func, found, expected


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    k=st.integers(1, 40),
    axis=st.integers(0, 2),
    largest=st.booleans(),
    ret_type=st.sampled_from(["values", "indices"]),
)
def test_ties_and_specials_are_numpys(k, axis, largest, ret_type):
    x = np.random.default_rng(k).integers(-4, 5, (41, 43, 40)).astype("float32")
    x[3, :, 7], x[:, 5, 5], x[9, 9, :] = np.nan, np.inf, -np.inf
    _, found, expected = found_and_expected(x, k=k, axis=axis, largest=largest, ret_type=ret_type)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("k, inserted", [(5, True), (INSERTED, True), (INSERTED + 1, False)])
def test_a_few_need_no_order_of_all(k, inserted):
    x = np.random.default_rng(0).standard_normal((2, 1000)).astype("float32")
    func, found, expected = found_and_expected(x, k=k, axis=1, ret_type="indices")
    assert ("insertion" in func.script()) == inserted
    np.testing.assert_array_equal(found, expected)


#: equal values, values in one digit, falling and rising rows, NaN: what a bound may go wrong with
ROWS = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "equal": lambda rng, n: np.zeros(n) * rng.choice([1.0, -1.0], n),
    "two values": lambda rng, n: rng.integers(0, 2, n),
    "near": lambda rng, n: 1 + rng.random(n) * 1e-6,
    "rising": lambda rng, n: np.arange(n),
    "falling": lambda rng, n: -np.arange(n),
    "infinite": lambda rng, n: np.full(n, -np.inf),
    "nan": lambda rng, n: np.where(rng.random(n) < 0.5, np.nan, rng.choice([np.inf, -np.inf], n)),
}


@pytest.mark.parametrize("size, k, inserted", [(10, 3, True), (64, 20, True), (99, 70, False)])
def test_a_few_of_a_short_row_are_inserted(size, k, inserted):
    """3 of 10 by the order of all took 86 us of 1000 rows; now 11."""
    x = np.random.default_rng(0).integers(-9, 9, (3, size)).astype("float32")
    func, found, expected = found_and_expected(x, k=k, axis=1, ret_type="indices")
    assert ("insertion" in func.script()) == inserted
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "int8", "int64", "uint32"])
@pytest.mark.parametrize("largest", [True, False])
def test_many_are_selected_in_the_order_of_all(kind, largest):
    rng = np.random.default_rng(7)
    names = [n for n in ROWS if kind.startswith("float") or n not in ("infinite", "nan")]
    with np.errstate(over="ignore"):
        wide = np.stack([np.asarray(ROWS[n](rng, 9_001), "float64") for n in names])
        x = (np.abs(wide) if kind[0] == "u" else wide).astype("int64" if kind[0] in "ui" else kind)
    x = x.astype(kind)
    func, found, expected = found_and_expected(
        x, k=INSERTED + 9, axis=1, largest=largest, ret_type="indices"
    )
    assert "select" in func.script()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("axis, k", [(0, 140), (1, 300)])
def test_selection_along_any_axis(axis, k):
    x = np.random.default_rng(3).integers(-300, 300, (1_210, 1_300)).astype("float32")
    x = np.ascontiguousarray(x[:, :7] if axis == 0 else x[:5])
    _, found, expected = found_and_expected(x, k=k, axis=axis, ret_type="values")
    np.testing.assert_array_equal(found, expected)


def test_selection_of_an_open_row():
    bb = mlc.relax.BlockBuilder()
    n = mlc.tir.SizeVar("n", "int64")
    x = mlc.relax.Var("x", mlc.relax.TensorStructInfo((2, n), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(R.topk(x, k=200, axis=1)))
    ex = mlc.compile(bb.get())
    for size in (200, 201, 5_003, 70_000):
        given = np.random.default_rng(size).standard_normal((2, size)).astype("float32")
        values, places = ex(given)
        order = np.argsort(-given, axis=1, kind="stable")[:, :200]
        np.testing.assert_array_equal(places, order)
        np.testing.assert_array_equal(values, np.take_along_axis(given, order, 1))
    with pytest.raises(mlc.MLCError):
        ex(np.zeros((2, 199), "float32"))

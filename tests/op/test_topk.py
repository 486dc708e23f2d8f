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

"""Elementwise blocks: whole vectors whatever the shape, numbers of any broadcast."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.codegen.llvm.inspect import facts
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.relax import op as R
from mlcnb.tir.transform import lower
from tests.dlight.test_cpu import HOST, LANES, check, loops_of, random


@settings(max_examples=20, deadline=None)
@given(
    shape=st.lists(st.integers(1, 21), min_size=1, max_size=4),
    ones=st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_any_shape_and_broadcast(shape, ones):
    other = [1 if one else n for one, n in zip(ones, shape, strict=False)]
    check(lambda a, b: R.add(a, b), random(*shape), random(*other))


@settings(max_examples=8, deadline=None)
@given(
    shape=st.lists(st.integers(2, 13), min_size=2, max_size=3),
    before=st.integers(0, 3),
    after=st.integers(0, 3),
)
def test_padding(shape, before, after):
    x = random(*shape)
    widths = [w for _ in shape for w in (before, after)]
    check(lambda a: R.nn.pad(a, pad_width=widths), x)


@pytest.mark.parametrize(
    "shape, rows",
    [((24, 7, 7), 1176), ((1, 3, 5), 15), ((300, 3), 900)],
)
def test_short_rows_join(shape, rows):
    """relu of a tensor is one row, however long its last axis is."""
    func, _ = loops_of(lambda a: R.nn.relu(a), random(*shape))
    text = lower(schedule_cpu(func, HOST).mod["main"]).script()
    whole = rows // LANES
    assert f"range({whole})" in text or f"T.parallel({whole})" in text or whole < 2
    assert text.count("for ") <= 2


def test_rows_of_a_broadcast_end_in_one_masked_vector():
    func, _ = loops_of(lambda a, b: R.add(a, b), random(64, 7, 7), random(64, 1, 1))
    text = lower(schedule_cpu(func, HOST).mod["main"]).script()
    assert text.count("predicate=") <= 2 * (49 % LANES > 0)
    assert f"range({49 // LANES})" in text


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4", "cortex-a72"])
def test_no_scalar_loops(cpu):
    target = mlc.target.Target(f"llvm -mcpu={cpu}")
    func, _ = loops_of(lambda a: R.square(a), np.zeros((64, 7, 7), "f"))
    made = mlc.compile(func, target=target, schedule="default").kernels["main"]
    hot = max((f.hot for f in facts(made.compiled).values() if f.hot), key=lambda c: c.instructions)
    assert hot.vector_share >= 0.4 and hot.spills == 0

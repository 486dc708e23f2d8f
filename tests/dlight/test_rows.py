"""Softmax, normalisations and sums along rows: NumPy's numbers, special values, vectors, traces."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import te
from mlcnb.codegen.llvm.inspect import facts
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.relax import op as R
from mlcnb.target import Target
from mlcnb.tir import Schedule
from mlcnb.tir.stmt import ForKind
from tests.dlight.test_cpu import HOST, LANES, loops_of, random


def run(make, *arrays):
    """What the default schedule computes on two threads, and the meaning in float64."""
    func, _ = loops_of(make, *arrays)
    _, expected = loops_of(make, *(a.astype("float64") for a in arrays))
    found = np.full(expected.shape, np.nan, "float32")
    mlc.set_num_threads(2)
    mlc.compile(func, schedule="default")(*arrays, found)
    return found, expected


def took(func) -> bool:
    """Whether the rule took it: partial results lie in lanes."""
    return bool(re.search(r"_rf\b.*local", schedule_cpu(func, HOST).mod["main"].script()))


OVER_ROWS = {
    "softmax": lambda a: R.nn.softmax(a),
    "log_softmax": lambda a: R.nn.log_softmax(a),
    "sum": lambda a: R.sum(a, axis=-1),
    "mean": lambda a: R.mean(a, axis=-1, keepdims=True),
    "max": lambda a: R.max(a, axis=-1),
    "min": lambda a: R.min(a, axis=-1),
    "prod": lambda a: R.prod(a, axis=-1),
    "variance": lambda a: R.variance(a, axis=-1),
    "std": lambda a: R.std(a, axis=-1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OVER_ROWS)
@settings(max_examples=3, deadline=None)
@given(st.integers(1, 40), st.integers(LANES, 9 * LANES))
def test_rows_of_any_length(name, rows, length):
    arrays = [random(rows, length)]
    assert took(loops_of(OVER_ROWS[name], *arrays)[0]) or rows == 1
    found, expected = run(OVER_ROWS[name], *arrays)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)


@settings(max_examples=4, deadline=None)
@given(st.integers(2, 20), st.integers(LANES, 200), st.sampled_from(["layer_norm", "rms_norm"]))
def test_normalised_rows(rows, length, name):
    weights = [random(length) + 2, random(length)][: 2 if name == "layer_norm" else 1]
    make = getattr(R.nn, name)
    found, expected = run(lambda *a: make(*a, epsilon=1e-6), 3 * random(rows, length) + 5, *weights)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape, groups", [((2, 8, 9, 5), 2), ((1, 320, 8, 8), 32)])
def test_groups_and_instances(shape, groups):
    x, gamma, beta = random(*shape), random(shape[1]), random(shape[1])
    for make in (
        lambda a, b, c: R.nn.group_norm(a, b, c, num_groups=groups),
        lambda a, b, c: R.nn.instance_norm(a, b, c),
        lambda a, b, c: R.nn.layer_norm(a, b, c, axes=(2, 3)),
    ):
        over_rows = "layer_norm" in make.__code__.co_names
        weights = (random(*shape[2:]), random(*shape[2:])) if over_rows else (gamma, beta)
        assert took(loops_of(make, x, *weights)[0])
        found, expected = run(make, x, *weights)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_softmax_does_not_overflow_and_keeps_special_values_in_their_rows():
    x = random(6, 100)
    x[0] = 1e30 * random(100)
    x[1, :50] = -np.inf
    x[2, 7] = np.nan
    x[3] = -np.inf
    x[4, 9] = np.inf
    with np.errstate(invalid="ignore"):
        found, expected = run(OVER_ROWS["softmax"], x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    assert np.isnan(found).all(1).tolist() == [False, False, True, True, True, False]
    assert found[0].sum() == found[0].max() == 1
    assert (found[1, :50] == 0).all()
    np.testing.assert_allclose(found[5], expected[5], rtol=1e-5)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("place", [0, 17, 63, 64, 99])
def test_an_extreme_with_a_nan_is_nan(name, place):
    x = random(3, 100)
    x[1, place] = np.nan
    found, _ = run(OVER_ROWS[name], x)
    assert np.isnan(found).tolist() == [False, True, False]


def test_integers_are_summed_exactly():
    x = np.arange(5 * 130, dtype="int32").reshape(5, 130) * 12345
    func, expected = loops_of(lambda a: R.sum(a, axis=1), x)
    found = np.zeros(5, "int32")
    mlc.compile(func, schedule="default")(x, found)
    np.testing.assert_array_equal(found, expected)


def test_a_row_of_partial_sums_is_added_up_in_halves():
    func, _ = loops_of(lambda a: R.sum(a, axis=1), random(64, 512))
    text = schedule_cpu(func, Target("llvm -mcpu=x86-64-v4")).mod["main"].script()
    widths = [int(w) for w in re.findall(r"sum_rf\w* = T.alloc_buffer\(\(64, (\d+)\)", text)]
    assert widths == [64, 16, 8, 4, 2]


@pytest.mark.parametrize("length, joined", [(384, True), (100, False), (40, False)])
def test_exponentials_are_summed_as_they_are_made(length, joined):
    func, _ = loops_of(lambda a: R.nn.softmax(a), random(8, length))
    sch = schedule_cpu(func, Target("llvm -mcpu=x86-64-v4"))
    blocks = sch.get_child_blocks(sch.get_block("root"))
    names = [sch.get(block).name_hint for block in blocks]
    made = names.index("T_softmax_exp")
    assert names[made + 1].startswith("T_softmax_expsum_rf")
    loops = [sch.get(sch.get_loops(blocks[made + n])[1]) for n in (0, 1)]
    assert (loops[0] is loops[1]) == joined


def test_partial_results_of_a_short_row_stay_in_registers():
    """37 elements, two vectors and a part of one: nothing is stored but the result."""
    func, _ = loops_of(lambda a: R.nn.softmax(a), random(100, 37))
    made = mlc.compile(func, target="llvm -mcpu=x86-64-v4", schedule="default").kernels["main"]
    hot = max((f.hot for f in facts(made.compiled).values() if f.hot), key=lambda c: c.instructions)
    assert hot.spills == 0
    assert hot.stores <= 4


def test_no_element_is_computed_alone():
    func, _ = loops_of(
        lambda a, b, c: R.nn.layer_norm(a, b, c), random(128, 384), random(384), random(384)
    )
    ex = mlc.compile(func, schedule="default")
    body = max(facts(ex.kernels["main"].compiled).values(), key=lambda f: f.total.vector)
    computing = body.looped.instructions - body.text.count("prefetch")
    assert body.looped.vector > 0.6 * computing
    assert body.looped.spills == 0


def test_the_trace_replays():
    func, _ = loops_of(lambda a: R.nn.softmax(a), random(7, 100))
    sch = schedule_cpu(func, HOST)
    again = Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(sch.mod, again.mod)


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_scan_along_an_outer_axis_adds_whole_lines(exclusive):
    x = random(5, 17, 70)
    make = lambda a: R.cumsum(a, axis=1, exclusive=exclusive)
    found, expected = run(make, x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    func, _ = loops_of(make, random(64, 512, 64))
    ex = mlc.compile(func, schedule="default")
    counts = max((f.looped for f in facts(ex.kernels["main"].compiled).values()), key=_vector)
    assert counts.vector_share > 0.4
    func, _ = loops_of(make, random(20, 100, 33))  # 33 elements, one by one: 20 us, now 8
    ex = mlc.compile(func, "llvm -mcpu=x86-64-v4", schedule="default")
    counts = max((f.looped for f in facts(ex.kernels["main"].compiled).values()), key=_vector)
    assert counts.vector >= 4 and counts.instructions < 100, "nothing is written out"


def _vector(counts) -> int:
    return counts.vector


@pytest.mark.parametrize(
    "name, length, asks",
    [
        ("softmax", 1024, True),
        ("log_softmax", 96, True),
        ("sum", 1024, False),  # read once
        ("softmax", 20000, False),  # two rows do not fit in the first cache
    ],
)
def test_the_last_block_that_reads_a_row_asks_for_the_next_one(name, length, asks):
    func, _ = loops_of(OVER_ROWS[name], random(8, length))
    text = schedule_cpu(func, HOST).mod["main"].script()
    source = func.buffers[0].data.name
    assert (f'annotations={{"pragma_prefetch": ["{source}", {length}]}}' in text) is asks


APART = {
    "sum": lambda a: R.sum(a, axis=(1, 3)),
    "variance": lambda a: R.variance(a, axis=(1, 3)),
    "with the first": lambda a: R.max(a, axis=(0, 1, 3)),
}


@pytest.mark.parametrize("name", APART)
@settings(max_examples=6, deadline=None)
@given(st.tuples(*[st.integers(1, 5)] * 3, st.integers(LANES, 3 * LANES)))
def test_rows_that_do_not_lie_together(name, shape):
    found, expected = run(APART[name], random(*shape))
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)


def squares(shape):
    """The sum of squares over the second and the last axis, in two blocks."""
    x = te.placeholder(shape, name="x")
    square = te.compute(shape, lambda *i: x(*i) * x(*i), name="square")
    j, k = te.reduce_axis((0, shape[1]), "j"), te.reduce_axis((0, shape[3]), "k")
    total = te.compute(
        (shape[0], shape[2]), lambda h, i: te.sum(square[h, j, i, k], axis=[j, k]), name="total"
    )
    return te.create_prim_func([x, total])


@pytest.mark.parametrize("name", ["sum", "squares"])
def test_rows_that_do_not_lie_together_are_no_run(name):
    """As one run each element was looked up: 91 us, now 7 (of squares 84 and 20; 17x19x23x29)."""
    shape = (5, 19, 7, 29)
    func = squares(shape) if name == "squares" else loops_of(APART[name], random(*shape))[0]
    made = mlc.compile(func, "llvm -mcpu=x86-64-v4", schedule="default").kernels["main"]
    assert "gather" not in made.compiled.assembly
    assert facts(made.compiled).hottest.hot.vector_share >= 0.5


def test_squares_of_rows_that_do_not_lie_together():
    x = random(5, 19, 7, 29)
    found = np.full((5, 7), np.nan, np.float32)
    mlc.compile(squares(x.shape), schedule="default")(x, found)
    np.testing.assert_allclose(found, (x.astype("float64") ** 2).sum(axis=(1, 3)), rtol=1e-5)


def test_half_precision_fills_the_vectors_of_float32():
    """19 elements are no vector of 32: the largest of a row was looked for one by one, 109 us."""
    func, expected = loops_of(lambda a: R.max(a, axis=-1), random(40, 19).astype("float16"))
    sch = schedule_cpu(func, Target("llvm -mcpu=x86-64-v4"))
    assert "T.vectorized(16)" in sch.mod["main"].script()
    found = np.zeros_like(expected)
    mlc.compile(func, schedule="default")(random(40, 19).astype("float16"), found)
    np.testing.assert_array_equal(found, expected)


def test_exponentials_of_a_row_shorter_than_a_vector_are_one_vector():
    """One by one, with a logarithm for each row among its elements: 25 us, now 6 (1000 x 10)."""
    func, _ = loops_of(lambda a: R.nn.log_softmax(a), random(1000, 10))
    sch = schedule_cpu(func, Target("llvm -mcpu=x86-64-v4"))
    for name in ("T_softmax_expsum_rf", "T_softmax_log"):
        assert sch.get(sch.get_loops(sch.get_block(name))[-1]).kind is ForKind.VECTORIZED

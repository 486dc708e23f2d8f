"""Pooling and LRN on blocked channels: numbers, no padded copy, rows without tests."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import tir
from mlcnb.codegen.llvm.inspect import facts
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.dlight.decide import Decisions
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.relax import op as R
from mlcnb.target import Target
from mlcnb.tir.transform import lower
from tests.dlight.test_cpu import HOST, LANES, check, loops_of, random

LAYOUT = f"NCHW{LANES}c"


def max_pool(x):
    return R.nn.max_pool2d(x, pool_size=3, strides=2, padding=1, layout=LAYOUT)


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(["max", "avg", "avg with padding"]),
    size=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    window=st.integers(1, 3),
    stride=st.integers(1, 3),
    padding=st.tuples(*[st.integers(0, 2)] * 4),
    ceil=st.booleans(),
)
def test_any_window_and_padding(kind, size, window, stride, padding, ceil):
    if any(p >= window for p in padding) or min(size) + min(padding) < window:
        return
    x = random(2, 2, *size, LANES)
    attrs = {"pool_size": window, "strides": stride, "padding": padding, "ceil_mode": ceil}
    if kind == "max":
        check(lambda a: R.nn.max_pool2d(a, layout=LAYOUT, **attrs), x)
    else:
        counted = kind == "avg with padding"
        check(lambda a: R.nn.avg_pool2d(a, layout=LAYOUT, count_include_pad=counted, **attrs), x)


def test_the_padding_is_not_written_and_the_middle_of_a_row_has_no_tests():
    func, _ = loops_of(max_pool, random(1, 1, 17, 17, LANES))
    sch = schedule_cpu(func, HOST)
    assert [b.name for b in sch.get(sch.get_block("root")).alloc_buffers] == ["pool_max_local"]
    middle = lower(sch.mod["main"]).script().split("for i3 in range(1, 8):")[1]
    middle = middle.split("pool_max_1[")[0]
    assert middle.count("T.max(") == 6  # two rows of three columns: the first row is padding
    assert not re.findall(r" if (.*):\n|if_then_else\((.*?), x0", middle)


def test_the_trace_replays():
    func, _ = loops_of(max_pool, random(1, 1, 9, 9, LANES))
    sch = schedule_cpu(func, HOST)
    again = tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_nan_and_infinity_go_through_a_maximum():
    x = random(1, 1, 6, 6, LANES)
    x[0, 0, 2, 2, 3], x[0, 0, 5, 5, 0], x[0, 0, 0, 0, 1] = np.nan, np.inf, -np.inf
    func, expected = loops_of(max_pool, x)
    out = np.zeros(expected.shape, np.float32)
    mlc.compile(func, schedule="default")(x, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("size, beta", [(5, 0.75), (4, 0.5), (1, 0.75), (2 * LANES + 3, 0.6)])
@pytest.mark.parametrize("blocks", [1, 3])
def test_lrn_in_blocks(size, beta, blocks):
    sch = check(
        lambda a: R.nn.lrn(a, size=size, beta=beta, alpha=0.1, layout=LAYOUT),
        random(2, blocks, 5, 3, LANES),
    )
    assert "ComputeAt" in [inst.kind for inst in sch.trace.insts]


def test_lrn_keeps_to_its_channels():
    """Blocked and plain give the same numbers."""
    x = random(1, 2 * LANES, 4, 3)
    plain = R.nn.lrn
    _, expected = loops_of(lambda a: plain(a, size=5, alpha=0.3), x)
    blocked = x.reshape(1, 2, LANES, 4, 3).transpose(0, 1, 3, 4, 2).copy()
    _, found = loops_of(lambda a: plain(a, size=5, alpha=0.3, layout=LAYOUT), blocked)
    np.testing.assert_array_equal(found.transpose(0, 1, 4, 2, 3).reshape(x.shape), expected)


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(["max", "avg", "avg with padding"]),
    size=st.tuples(st.integers(1, 20), st.integers(1, 40)),
    window=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(*[st.integers(0, 2)] * 4),
    ceil=st.booleans(),
)
def test_any_window_on_the_plain_layout(kind, size, window, stride, padding, ceil):
    room = zip(size, window, padding[:2], padding[2:], strict=True)
    if any(max(a, b) >= k or n + a + b < k for n, k, a, b in room):
        return
    attrs = {"pool_size": window, "strides": stride, "padding": padding, "ceil_mode": ceil}
    if kind == "max":
        check(lambda a: R.nn.max_pool2d(a, **attrs), random(2, 3, *size))
    else:
        counted = kind == "avg with padding"
        check(lambda a: R.nn.avg_pool2d(a, count_include_pad=counted, **attrs), random(2, 3, *size))


@pytest.mark.parametrize("window", [2, 3])
def test_half_precision_on_the_plain_layout_is_combined_as_float32_is(window):
    """Each window by itself, scalar by scalar: 50 us of 64 channels of 28 x 28, now 7."""
    x = random(1, 8, 28, 28).astype("float16")
    found = check(lambda a: R.nn.max_pool2d(a, pool_size=window, strides=2), x)
    text = found.mod["main"].script()
    assert text.count(f"T.unroll({window})") == 2 and "T.vectorized" in text


def plain(x):
    return R.nn.max_pool2d(x, pool_size=3, strides=2, padding=1)


def test_rows_of_the_plain_layout_are_combined_before_columns():
    """Three rows, then three columns: six steps where nine would be needed; all of it local."""
    func, _ = loops_of(plain, random(1, 32, 33, 33))
    sch = schedule_cpu(func, HOST)
    buffers = {b.name: b.scope for b in sch.get(sch.get_block("root")).alloc_buffers}
    assert set(buffers.values()) == {"local"}
    text = sch.mod["main"].script()
    assert text.count("T.unroll(3)") == 2
    assert "T.parallel" in text


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4", "cortex-a72"])
def test_pools_on_the_plain_layout_are_vector_code(cpu):
    func, _ = loops_of(plain, random(1, 8, 112, 112))
    target = mlc.target.Target(f"llvm -mcpu={cpu}")
    made = mlc.compile(func, target=target, schedule="default").kernels["main"]
    found = max((f for f in facts(made.compiled).values() if f.hot), key=lambda f: f.total.vector)
    assert found.hot.vector_share > 0.6
    assert found.hot.spills == 0
    assert "gather" not in made.compiled.assembly or cpu != "cortex-a72"


def test_the_trace_on_the_plain_layout_replays():
    func, _ = loops_of(plain, random(1, 4, 9, 30))
    sch = schedule_cpu(func, HOST)
    again = tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_nan_goes_through_a_maximum_on_the_plain_layout():
    x = random(1, 2, 12, 40)
    x[0, 0, 2, 2], x[0, 1, 5, 5], x[0, 0, 0, 0] = np.nan, np.inf, -np.inf
    func, expected = loops_of(plain, x)
    out = np.zeros(expected.shape, np.float32)
    mlc.compile(func, schedule="default")(x, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(("size", "rows"), [(20, 20), (33, 11), (112, 8), (500, 2)])
def test_as_many_rows_together_as_the_first_cache_holds(size, rows):
    """Zen 4 has 32 KiB of it; an image of few rows is made as a whole, others in even parts: of 33
    rows, 16 and 16 and one took as long as 48."""
    func, _ = loops_of(
        lambda a: R.nn.max_pool2d(a, pool_size=3, strides=1, padding=1), random(1, 2, size, size)
    )
    with Decisions() as made:
        schedule_cpu(func, Target("llvm -mcpu=znver4"))
    assert next(p.label for p in made.points if p.name == "rows") == str(rows)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    kind=st.sampled_from(["max", "avg"]),
    size=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    stride=st.integers(1, 3),
    ceil=st.booleans(),
)
def test_windows_as_large_as_the_image(kind, size, stride, ceil):
    pool = {"max": R.nn.max_pool2d, "avg": R.nn.avg_pool2d}[kind]
    check(lambda a: pool(a, size, strides=stride, ceil_mode=ceil), random(2, 3, *size))


@pytest.mark.parametrize("pool", [R.nn.max_pool2d, R.nn.avg_pool2d])
@pytest.mark.parametrize(("cpu", "share"), [("x86-64-v4", 0.61), ("x86-64-v3", 0.5)])
def test_windows_as_large_as_the_image_are_reduced_by_vectors(pool, cpu, share):
    """One row and then one column at a time took 2.8 times ONNX Runtime's time. With AVX2 a loop of
    sums is four vectors from memory, and its own four instructions."""
    func, _ = loops_of(lambda a: pool(a, (14, 14)), random(1, 32, 14, 14))
    kernel = mlc.compile(func, f"llvm -mcpu={cpu}", schedule="default").kernels["main"]
    hot = max((f.hot for f in facts(kernel.compiled).values() if f.hot), key=lambda c: c.vector)
    assert hot.vector_share >= share and hot.vector >= 4


def test_windows_are_combined_in_registers_where_a_row_fills_no_vector():
    """Of 28 columns 12 are under a mask: combined in memory, they were stored at each step and read
    back (192 x 28 x 28 took 2.6 times ONNX Runtime's time on Zen 5, now 0.7)."""
    func, _ = loops_of(
        lambda a: R.nn.max_pool2d(a, pool_size=3, strides=1, padding=1), random(1, 8, 28, 28)
    )
    kernel = mlc.compile(func, "llvm -mcpu=x86-64-v4", schedule="default").kernels["main"]
    hot = facts(kernel.compiled).hottest.hot
    assert hot.stores == 2 and hot.spills == 0

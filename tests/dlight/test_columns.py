"""Sums over leading and middle axes: NumPy's numbers, accumulators in registers, whole lines."""

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
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.relax import op as R
from tests.dlight.test_cpu import HOST, LANES, check, loops_of, random

OVER_COLUMNS = {
    "sum": lambda a: R.sum(a, axis=0),
    "mean": lambda a: R.mean(a, axis=0, keepdims=True),
    "max": lambda a: R.max(a, axis=0),
    "min": lambda a: R.min(a, axis=0),
}


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
@settings(max_examples=6, deadline=None)
@given(st.integers(1, 40), st.integers(1, 9 * LANES))
def test_columns_of_any_length(name, rows, length):
    check(OVER_COLUMNS[name], random(rows, length))


@settings(max_examples=8, deadline=None)
@given(
    shape=st.tuples(*[st.integers(1, 6)] * 3, st.integers(LANES, 100)),
    axes=st.sampled_from([(1,), (2,), (1, 2), (0, 2), (0, 1, 2)]),
)
def test_middle_axes(shape, axes):
    check(lambda a: R.mean(a, axis=axes), random(*shape))


def test_each_row_is_read_once_and_sums_stay_in_registers():
    func, _ = loops_of(OVER_COLUMNS["mean"], random(512, 4096))
    sch = schedule_cpu(func, HOST)
    assert re.search(r"mean_sum = T.alloc_buffer\(.*scope=\"local\"", sch.mod["main"].script())
    kernel = mlc.compile(func, schedule="default").kernels["main"]
    hot = max((f.hot for f in facts(kernel.compiled).values() if f.hot), key=lambda c: c.vector)
    assert hot.stores == 0
    assert hot.spills == 0
    assert hot.vector_share > 0.7


@pytest.mark.parametrize("cpu", ["x86-64-v3", "cortex-a72"])
def test_other_instruction_sets_have_vectors_too(cpu):
    func, _ = loops_of(OVER_COLUMNS["max"], random(64, 1024))
    target = mlc.target.Target(f"llvm -mcpu={cpu}")
    kernel = mlc.compile(func, target=target, schedule="default").kernels["main"]
    hot = max((f.hot for f in facts(kernel.compiled).values() if f.hot), key=lambda c: c.vector)
    assert hot.stores == 0
    assert hot.vector_share > 0.6


def test_the_trace_replays():
    func, _ = loops_of(OVER_COLUMNS["mean"], random(9, 100))
    sch = schedule_cpu(func, HOST)
    again = tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_a_nan_spoils_its_column_only():
    x = random(50, 70)
    x[17, 3] = np.nan
    func, expected = loops_of(OVER_COLUMNS["max"], x)
    found = np.zeros(70, np.float32)
    mlc.compile(func, schedule="default")(x, found)
    np.testing.assert_array_equal(found, expected)


OPEN = {
    "sum": (lambda a: R.sum(a, axis=1), lambda x: x.sum(1)),
    "max": (lambda a: R.max(a, axis=1), lambda x: x.max(1)),
    "argmax": (lambda a: R.argmax(a, axis=1), lambda x: x.argmax(1)),
    "softmax": (lambda a: R.nn.softmax(a, axis=1), lambda x: np.exp(x) / np.exp(x).sum(1)[:, None]),
}


@pytest.mark.parametrize("opened", [(2,), (1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("name", OPEN)
def test_columns_of_open_sizes(name, opened):
    """Of 512 open columns the largest took 13 times PyTorch's time, softmax over them twice."""
    make, meaning = OPEN[name]
    sizes = [2, 21, 83]
    dims = [tir.Var(f"n{i}", "int64") if i in opened else n for i, n in enumerate(sizes)]
    builder = mlc.relax.BlockBuilder()
    a = mlc.relax.Var("a", mlc.relax.TensorStructInfo(dims, "float32"))
    with builder.function("main", [a]):
        builder.emit_func_output(builder.emit(make(a)))
    ex = mlc.compile(builder.get())
    kernel = ex.kernels[0]
    assert "vectorized" in str(kernel.schedule)
    for length in (1, 7, 15, 16, 63, 64, 65, 83, 200):
        tried = [{0: 3, 1: 9, 2: length}[i] if i in opened else n for i, n in enumerate(sizes)]
        for threads in (1, 2):
            mlc.set_num_threads(threads)
            x = random(*tried)
            np.testing.assert_allclose(ex(x), meaning(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [50, 33, 100])
@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
def test_sums_of_a_row_s_last_columns_stay_in_registers_too(cpu, length):
    """They are under a mask, and the last vector ends behind the buffer: it gets room there. In
    memory they took three times as long (a load under a mask waits for a store under one)."""
    func, _ = loops_of(lambda a: R.max(a, axis=1), random(4, 33, 5, length))
    kernel = mlc.compile(func, f"llvm -mcpu={cpu}", schedule="default").kernels["main"]
    hot = facts(kernel.compiled).hottest.hot
    assert hot.stores == 0 and hot.spills == 0

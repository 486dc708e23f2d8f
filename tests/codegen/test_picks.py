"""Vectors whose places lie together: the right elements, whole loads, nothing read outside."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import mlcnb as mlc
from mlcnb import te
from mlcnb.codegen.llvm.emit.picks import Places, pick, places
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import dtype
from mlcnb.relax import op as R
from tests.dlight.test_cpu import check, loops_of, random


def lanes(base: int, stride: int, count: int = 16) -> e.PrimExpr:
    kind = dtype("int32")
    return e.Ramp(e.IntImm(kind, base), e.IntImm(kind, stride), count)


def splat(value: e.PrimExpr | int, count: int = 16) -> e.PrimExpr:
    given_ = e.IntImm(dtype("int32"), value) if isinstance(value, int) else value
    return e.Broadcast(given_, count)


def test_a_sum_of_what_moves_and_what_does_not():
    i = e.Var("i", dtype("int32"))
    halves = e.FloorDiv(lanes(0, 1), splat(2))
    found = places(e.Add(splat(e.Mul(i, e.IntImm(dtype("int32"), 8))), halves))
    assert found is not None
    assert [times for _, times in found.terms] == [1]
    assert found.lanes == tuple(n // 2 for n in range(16))
    assert places(e.FloorDiv(e.Ramp(i, e.IntImm(dtype("int32"), 1), 16), splat(2))) is None


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 5), st.integers(1, 40))
def test_any_stride_and_any_repetition(stride, repeat, start, count):
    x = random(3, start + stride * count)
    taken = te.placeholder(x.shape, "float32", "x")
    shape = (3, count * repeat)
    func = te.create_prim_func(
        [taken, te.compute(shape, lambda i, j: taken[i, start + j // repeat * stride], name="y")]
    )
    found = np.full(shape, np.nan, "float32")
    mlc.compile(func, schedule="default")(x, found)
    wanted = np.repeat(x[:, start::stride][:, :count], repeat, 1)
    np.testing.assert_array_equal(found, wanted[:, : count * repeat])


@pytest.mark.parametrize("step", [2**20, 2**33 + 1, 2**62])
def test_places_far_from_each_other_are_gathered(step):
    """All numbers in between were listed: 10^11 of them, or an OverflowError."""
    found = Places((), tuple(n * step for n in range(16)))
    assert pick(None, found, None, None, "float") is None


def test_steps_that_are_larger_than_memory():
    node = helper.make_node("Slice", ["x", "start", "end", "axis", "step"], ["y"])
    numbers = {"start": 0, "end": 2**62, "axis": 2, "step": 2**33 + 1}
    constants = [numpy_helper.from_array(np.array([v]), k) for k, v in numbers.items()]
    x = helper.make_tensor_value_info("x", 1, ["a", "b", "c"])
    y = helper.make_tensor_value_info("y", 1, None)
    model = helper.make_model(helper.make_graph([node], "g", [x], [y], constants))
    given_ = random(2, 3, 40)
    np.testing.assert_array_equal(mlc.compile(mlc.from_onnx(model))(given_), given_[..., :1])


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 60), st.sampled_from(["float32", "float64", "int8", "float16"]))
def test_backwards(count, kind):
    x = (10 * random(4, count)).astype(kind)
    func, expected = loops_of(lambda a: R.flip(a, axis=1), x)
    found = np.zeros_like(expected)
    mlc.compile(func, schedule="default")(x, found)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4", "cortex-a72"])
def test_channels_that_lie_together_are_told_apart_without_gathers(cpu):
    func, _ = loops_of(lambda a: R.permute_dims(a, axes=(2, 0, 1)), random(64, 64, 3))
    target = mlc.target.Target(f"llvm -mcpu={cpu}")
    made = mlc.compile(func, target=target, schedule="default").kernels["main"].compiled
    assert "gather" not in made.assembly


def test_rows_that_are_picked_are_copied_whole():
    x, rows = random(50, 96), np.arange(0, 50, 3)
    sch = check(lambda a, i: R.take(a, i, axis=0), x, rows)
    made = mlc.compile(sch.mod["main"], schedule=None).kernels["main"].compiled
    assert "gather" not in made.assembly

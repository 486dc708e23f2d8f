"""Depthwise convolutions: no padded copy, the numbers of the definition, lean loops."""

from __future__ import annotations

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
from mlcnb.tir.transform import lower
from tests.dlight.test_cpu import HOST, LANES, check, loops_of, random


def depthwise(**options):
    """A maker of the convolution of 2 blocks of `lanes` channels."""
    lanes = options.pop("lanes", LANES)
    layout = f"NCHW{lanes}c"
    return lambda a, b: R.nn.conv2d(
        a, b, groups=2 * lanes, data_layout=layout, kernel_layout=f"OIHW{lanes}o", **options
    )


@settings(max_examples=12, deadline=None)
@given(
    st.integers(1, 20),
    st.integers(1, 40),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(1, 2),
    st.tuples(*[st.integers(0, 3)] * 4),
)
def test_any_window_over_any_image(height, width, kh, kw, stride, dilation, padding):
    top, left, bottom, right = padding
    tall = height + top + bottom >= (kh - 1) * dilation + 1
    wide = width + left + right >= (kw - 1) * dilation + 1
    if tall and wide:
        check(
            depthwise(strides=stride, dilation=dilation, padding=padding),
            random(1, 2, height, width, LANES),
            random(2, 1, kh, kw, LANES),
        )


def kernel_of(size: int, window: int, stride: int, lanes: int = LANES):
    return loops_of(
        depthwise(strides=stride, padding=window // 2, lanes=lanes),
        random(1, 2, size, size, lanes),
        random(2, 1, window, window, lanes),
    )[0]


def test_the_image_is_read_where_it_lies_and_the_trace_replays():
    func = kernel_of(56, 3, 2)
    sch = schedule_cpu(func, HOST)
    assert "pad_temp" not in sch.mod["main"].script()
    again = tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


@pytest.mark.slow
@pytest.mark.parametrize("cpu, lanes", [("x86-64-v3", 8), ("x86-64-v4", 16), ("cortex-a72", 4)])
@pytest.mark.parametrize("size, window, stride", [(56, 3, 1), (56, 3, 2), (28, 5, 1), (7, 5, 1)])
def test_nothing_is_spilled_and_the_code_is_small(cpu, lanes, size, window, stride):
    target = mlc.target.Target(f"llvm -mcpu={cpu}")
    func = kernel_of(size, window, stride, lanes)
    made = mlc.compile(func, target=target, schedule="default").kernels["main"]
    found = max(facts(made.compiled).values(), key=lambda f: f.total.fma)
    assert found.total.fma >= 8
    assert found.total.spills == 0
    assert found.total.instructions < 1000


def test_tiles_inside_a_row_test_for_their_rows_only():
    steps = lower(schedule_cpu(kernel_of(56, 3, 1), HOST).mod["main"], steps=True)
    lines = str(steps["Simplify"].after.script()).splitlines()
    tests = [line.strip() for line in lines if line.strip().startswith("if ")]
    assert sum("kh" in t for t in tests) == 3  # first tile, tiles inside, last tile
    assert sum("ow" in t for t in tests) == 2  # first tile, last tile


def test_padding_of_open_images_is_found_without_a_division_for_each_vector():
    """All loops around a vector in one took 2.6 times ONNX Runtime's time."""
    h, w = (tir.Var(n, "int64") for n in "hw")
    builder = mlc.relax.BlockBuilder()
    infos = ((1, 2, h, w, LANES), (2, 1, 3, 3, LANES))
    x, weight = (
        mlc.relax.Var(n, mlc.relax.TensorStructInfo(i, "float32"))
        for n, i in zip("xw", infos, strict=True)
    )
    with builder.function("main", [x, weight]):
        builder.emit_func_output(builder.emit(depthwise(padding=1)(x, weight)))
    ex = mlc.compile(builder.get())
    assert "i2_i3_fused" not in str(ex.kernels[0].schedule)
    for size in ((1, 1), (2, 9), (7, 10), (13, 31)):
        given = random(1, 2, *size, LANES), random(2, 1, 3, 3, LANES)
        _, expected = loops_of(depthwise(padding=1), *given)
        for threads in (1, 2):
            mlc.set_num_threads(threads)
            np.testing.assert_allclose(ex(*given), expected, rtol=1e-5, atol=1e-5)

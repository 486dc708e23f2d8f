"""Convolutions over blocked channels whose windows see much padding: it is not added."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import tir
from mlcnb.codegen.llvm.inspect import facts
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.relax import op as R
from tests.dlight.test_cpu import BLOCKED, HOST, LANES, check, loops_of, random

SIZES = st.integers(1, 24)


@settings(max_examples=20, deadline=None)
@given(
    height=SIZES,
    width=SIZES,
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    strides=st.integers(1, 3),
    dilation=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    padding=st.tuples(*[st.integers(0, 13)] * 4),
)
def test_any_window_far_apart(height, width, kernel, padding, **options):
    top, left, bottom, right = padding
    far = [(k - 1) * d + 1 for k, d in zip(kernel, options["dilation"], strict=True)]
    if height + top + bottom >= far[0] and width + left + right >= far[1]:
        check(
            lambda a, b: R.nn.conv2d(a, b, padding=padding, **options, **BLOCKED),
            random(2, 2, height, width, LANES),
            random(2, 2, *kernel, LANES, LANES),
        )


def scheduled(size, dilation):
    func, _ = loops_of(
        lambda a, b: R.nn.conv2d(a, b, padding=dilation, dilation=dilation, **BLOCKED),
        random(1, 2, size, size, LANES),
        random(2, 2, 3, 3, LANES, LANES),
    )
    return func, schedule_cpu(func, HOST)


@pytest.mark.parametrize("dilation, skipped", [(1, False), (2, False), (6, True), (18, True)])
def test_padding_is_skipped_where_much_of_it_is_seen(dilation, skipped):
    func, sch = scheduled(33, dilation)
    text = sch.mod["main"].script()
    assert ("pragma_skip_padding" in text) == skipped
    assert ("pad_temp" in text) != skipped
    again = tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


@pytest.mark.parametrize("chunks", [2, 3])
def test_nothing_is_spilled(chunks):
    """Tiles of 13 x 1 products leave no registers for the broadcasts of later steps."""
    func, _ = loops_of(
        lambda a, b: R.nn.conv2d(a, b, data_layout="NCHW8c", kernel_layout="OIHW8i8o"),
        random(1, 4, 28, 28, 8),
        random(chunks, 4, 3, 3, 8, 8),
    )
    target = mlc.target.Target("llvm -mcpu=x86-64-v3")
    made = mlc.compile(func, target=target, schedule="default").kernels["main"].compiled
    hot = max((f.hot for f in facts(made).values() if f.hot), key=lambda c: c.fma)
    assert hot.fma >= 12
    assert hot.spills == 0

"""Images in another size: rows blended in vectors first, columns picked from what is near."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import te, tir
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.ir.prim_ops import as_expr
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.op.image import _interpolate as ip
from mlcnb.relax import op as R
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.relax.operator import attrs_of
from tests.dlight.test_cpu import HOST, random


def resized(x: np.ndarray, size: tuple[int, int], method: str, mode: str):
    """(PrimFunc, expected) of a resize."""
    call = R.image.resize2d(
        Var("x", tensor_info(x.shape, "float32")),
        size,
        method=method,
        coordinate_transformation_mode=mode,
    )
    meaning, data = attrs_of(call), te.placeholder(x.shape, "float32", "x")
    result = meaning.compute(data, [as_expr(d) for d in size])
    return te.create_prim_func([data, result]), np.asarray(meaning.numpy(x, size))


@settings(max_examples=15, deadline=None)
@given(
    size=st.tuples(st.integers(1, 20), st.integers(1, 40)),
    wanted=st.tuples(st.integers(1, 30), st.integers(1, 50)),
    method=st.sampled_from(["linear", "cubic", "nearest_neighbor"]),
    mode=st.sampled_from(ip.MODES),
)
def test_any_size_to_any_other(size, wanted, method, mode):
    x = random(2, 3, *size)
    func, expected = resized(x, wanted, method, mode)
    kernel = mlc.compile(func, schedule="default")
    for threads in (1, 2):
        mlc.set_num_threads(threads)
        found = np.full(expected.shape, np.nan, "float32")
        kernel(x, found)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method, taps", [("linear", 2), ("cubic", 4)])
def test_each_result_reads_rows_that_have_been_blended(method, taps):
    func, _ = resized(random(1, 4, 65, 65), (130, 200), method, "half_pixel")
    sch = schedule_cpu(func, HOST)
    rows, columns = (sch.get(b) for b in sch.get_child_blocks(sch.get_block("root")))
    assert [rows.writes[0].buffer.scope, rows.name_hint] == ["local", "resize_rows"]
    source = columns.reads[0].buffer
    assert source is rows.writes[0].buffer
    assert sch.mod["main"].script().count(f"{source.name}[v_i0, v_i1, v_i2, ") >= taps


def test_the_trace_replays():
    func, _ = resized(random(1, 2, 9, 30), (18, 61), "linear", "half_pixel")
    sch = schedule_cpu(func, HOST)
    again = tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)

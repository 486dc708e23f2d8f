"""Images read at places from data: places found once, channels read as vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import te, tir
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.relax import op as R
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.relax.operator import attrs_of
from tests.dlight.test_cpu import HOST, loops_of, random


def sampled(x: np.ndarray, grid: np.ndarray, **how):
    """(PrimFunc, expected) of a grid_sample."""
    names = [Var(n, tensor_info(a.shape, "float32")) for n, a in (("x", x), ("grid", grid))]
    meaning = attrs_of(R.image.grid_sample(*names, **how))
    data, at = (te.placeholder(a.shape, "float32", n) for n, a in (("x", x), ("grid", grid)))
    result = meaning.compute(data, at)
    return te.create_prim_func([data, at, result]), np.asarray(meaning.numpy(x, grid))


def around(*shape: int) -> np.ndarray:
    """Places inside, at the edges and outside."""
    return np.random.default_rng(3).uniform(-1.4, 1.4, shape).astype(np.float32)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    channels=st.integers(1, 40),
    size=st.tuples(st.integers(1, 12), st.integers(1, 30)),
    wanted=st.tuples(st.integers(1, 12), st.integers(1, 30)),
    method=st.sampled_from(["nearest", "bilinear", "bicubic"]),
    padding_mode=st.sampled_from(["zeros", "border", "reflection"]),
    align_corners=st.booleans(),
)
def test_any_image_at_any_places(channels, size, wanted, **how):
    x, grid = random(2, channels, *size), around(2, 2, *wanted)
    func, expected = sampled(x, grid, **how)
    kernel = mlc.compile(func, schedule="default")
    for threads in (1, 2):
        mlc.set_num_threads(threads)
        found = np.full(expected.shape, np.nan, "float32")
        kernel(x, grid, found)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def blocks(func) -> dict[str, tir.Block]:
    sch = schedule_cpu(func, HOST)
    found = [sch.get(b) for b in sch.get_child_blocks(sch.get_block("root"))]
    return {b.name_hint: b for b in found}


@pytest.mark.parametrize("spatial", [(28, 30), (7, 8, 9)], ids=["2-D", "3-D"])
def test_many_channels_are_brought_last(spatial):
    layout = "NCDHW" if len(spatial) == 3 else "NCHW"
    x, grid = random(1, 24, *spatial), around(1, len(spatial), *spatial)
    func, expected = sampled(x, grid, layout=layout)
    image, result = (blocks(func)[n].writes[0].buffer for n in ("x_global", "grid_sample"))
    assert [int(d) for d in image.shape] == [1, *spatial, 24] == [int(d) for d in result.shape]
    found = np.full(expected.shape, np.nan, "float32")
    mlc.compile(func, schedule="default")(x, grid, found)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_few_channels_and_few_places_stay_as_they_lie():
    """A copy of the whole image would cost more than what is looked up in it."""
    for x, grid in (
        (random(1, 3, 28, 30), around(1, 2, 28, 30)),
        (random(1, 64, 100, 100), around(1, 2, 5, 5)),
    ):
        assert "x_global" not in blocks(sampled(x, grid)[0])


def test_the_trace_replays():
    func, _ = sampled(random(1, 32, 9, 30), around(1, 2, 18, 20))
    sch = schedule_cpu(func, HOST)
    again = tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


@pytest.mark.parametrize("axis", [0, 1])
def test_whole_rows_are_copied_as_they_lie(axis):
    """Turned, looked up and turned back, matrices took 2.3 times PyTorch's time."""
    at = np.array([3, 0, 5, 5, 1, 2, 4, 0, 3, 1])
    x = random(6, 6, 4 * 16)
    func, expected = loops_of(lambda a, i: R.take(a, i, axis=axis), x, at)
    assert set(blocks(func)) == {"take"}
    found = np.zeros_like(expected)
    mlc.compile(func, schedule="default")(x, at, found)
    np.testing.assert_array_equal(found, expected)

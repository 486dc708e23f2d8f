"""Properties that hold for all arguments: against NumPy and Python, with random ones."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb.ir.prim_ops import as_int
from mlcnb.op import _layout
from mlcnb.op._dims import broadcast_dims, ravel, unravel
from mlcnb.op.image import _interpolate as ip
from mlcnb.op.indexing.slice import cut
from mlcnb.op.manipulate.layout import LayoutTransform
from mlcnb.op.manipulate.pad import Pad
from mlcnb.op.manipulate.reshape import Reshape, groups
from tests.op.harness import Case, numbers

sizes = st.lists(st.integers(1, 6), max_size=4).map(tuple)


@settings(deadline=None)
@given(
    st.integers(-9, 9),
    st.integers(-9, 9),
    st.sampled_from([-3, -2, -1, 1, 2, 3]),
    st.integers(0, 6),
)
def test_cut_is_a_python_slice(begin, end, stride, extent):
    c = cut(begin, end, stride, extent)
    places = [c.begin + i * c.stride for i in range(c.length)]
    assert places == list(range(extent))[slice(begin, end, stride)]


@settings(deadline=None)
@given(st.data())
def test_reshape_keeps_the_order(data):
    shape = data.draw(sizes)
    total = math.prod(shape)
    first = data.draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
    target = (first, total // first)
    for (a, b), (c, d) in groups(shape, target):
        assert math.prod(shape[a:b]) == math.prod(target[c:d])
    case = Case(Reshape(), [numbers(shape, "int32"), target])
    case.check(case.run_loops())


@settings(deadline=None)
@given(sizes, st.data())
def test_unravel_undoes_ravel(shape, data):
    index = tuple(data.draw(st.integers(0, d - 1)) for d in shape)
    flat = ravel(index, shape)
    assert flat == (np.ravel_multi_index(index, shape) if shape else 0)
    assert unravel(flat, shape) == index


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from([1, 1, 2, 3]), max_size=3), min_size=1, max_size=3))
def test_broadcasting_is_numpys(shapes):
    try:
        wanted = np.broadcast_shapes(*map(tuple, shapes))
    except ValueError:
        wanted = None
    assert broadcast_dims(shapes) == wanted


@settings(deadline=None)
@given(st.integers(1, 20), st.sampled_from([2, 4, 8]), st.integers(1, 3))
def test_a_layout_and_back(channels, block, rows):
    x = numbers((2, channels, rows, 2))
    there = LayoutTransform("NCHW", f"NCHW{block}c")
    back = LayoutTransform(f"NCHW{block}c", "NCHW")
    packed = there.numpy(x)
    assert packed.shape == _layout.shape_in(f"NCHW{block}c", _layout.sizes_of("NCHW", x.shape))
    np.testing.assert_array_equal(back.numpy(packed, x.shape), x)
    case = Case(back, [packed, x.shape])
    case.check(case.run_loops())


@settings(deadline=None)
@given(
    st.integers(1, 4),
    st.integers(-3, 6),
    st.integers(-3, 6),
    st.sampled_from(["constant", "edge", "reflect", "wrap"]),
)
def test_pads_are_numpys(extent, before, after, mode):
    if extent + min(before, 0) + min(after, 0) < 1:
        return
    case = Case(Pad((before, after), mode, 2.0), [numbers((extent,))])
    case.check(case.run_loops())


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from(ip.MODES), st.sampled_from(ip.METHODS))
def test_weights_of_a_resize_add_up_to_one(size_in, size_out, mode, method):
    matrix = ip.weights(ip.Resizing(size_in, size_out, method, mode))
    np.testing.assert_allclose(matrix.sum(1), 1, atol=1e-12)


@settings(deadline=None)
@given(
    st.integers(1, 9), st.integers(1, 9), st.sampled_from(ip.MODES), st.sampled_from(ip.ROUNDING)
)
def test_exact_rounding_is_that_of_fractions(size_in, size_out, mode, rounding):
    r = ip.Resizing(size_in, size_out, "nearest_neighbor", mode, None, rounding)
    for o, picked in enumerate(ip.picked(r)):
        p, q = ip.fraction(mode, o, size_in, size_out, max)
        assert picked == min(max(ip.nearest(rounding, p, q), 0), size_in - 1)


def test_a_known_size_stays_an_int():
    assert as_int(cut(1, 5, 2, 9).length) == 2

"""Random shapes: what broadcasts in NumPy broadcasts in loops, any axes may be reduced."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mlcnb.op import binary, compare, reduction, scan, sorting, ternary
from tests.op.harness import Case, numbers

SOME = settings(max_examples=40, deadline=None)


def shapes(count: int):
    return hnp.mutually_broadcastable_shapes(num_shapes=count, max_dims=4, max_side=3, min_side=0)


@SOME
@given(shapes(2), st.sampled_from([binary.Subtract, compare.Less, binary.Maximum]))
def test_two_tensors(found, decl):
    case = Case(decl(), [numbers(s, seed=i) for i, s in enumerate(found.input_shapes)])
    assert [tuple(map(int, i.dims)) for i in case.inferred()] == [found.result_shape]
    case.check(case.run_loops())


@SOME
@given(shapes(3))
def test_three_tensors(found):
    condition, one, two = found.input_shapes
    case = Case(ternary.Where(), [numbers(condition, "bool"), numbers(one), numbers(two, seed=1)])
    assert [tuple(map(int, i.dims)) for i in case.inferred()] == [found.result_shape]
    case.check(case.run_loops())


@st.composite
def reductions(draw):
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=3))
    axes = draw(st.none() | hnp.valid_tuple_axes(len(shape)))
    return shape, axes, draw(st.booleans())


@SOME
@given(reductions(), st.sampled_from([reduction.Sum, reduction.Max, reduction.Variance]))
def test_reductions(drawn, decl):
    shape, axes, keepdims = drawn
    case = Case(decl(axes, keepdims), [numbers(shape)], 1e-5)
    expected = np.sum(numbers(shape), axis=axes, keepdims=keepdims).shape
    assert [tuple(map(int, i.dims)) for i in case.inferred()] == [expected]
    case.check(case.run_loops())


@SOME
@given(
    hnp.arrays(
        "float32", hnp.array_shapes(max_dims=3, max_side=6), elements=st.floats(-2, 2, width=16)
    ),
    st.data(),
)
def test_scans_and_sorts(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    backwards = data.draw(st.booleans())
    for decl in (sorting.Sort(axis, backwards), sorting.Argsort(axis, backwards)):
        case = Case(decl, [x])
        case.check(case.run_loops())
    case = Case(scan.Cumsum(axis, None, backwards), [x], 1e-5)
    case.check(case.run_loops())
    rising = sorting.Sort(axis).numpy(x)
    np.testing.assert_array_equal(rising, np.sort(x, axis))

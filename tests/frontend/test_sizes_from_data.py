"""Models whose sizes only their data tell: one compiled module, the numbers of onnxruntime.

What an operator makes of so many elements (NonZero, Unique, Compress, branches of different sizes),
and shapes, bounds and limits that are computed as the model runs (Range, Reshape, Expand, Slice).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError
from mlcnb.ir import structural_equal
from mlcnb.relax.analysis.well_formed import assert_well_formed
from tests.frontend.build import graph, ints, model, node


def f32(value: Any) -> np.ndarray:
    return np.array(value, np.float32)


def i64(value: Any) -> np.ndarray:
    return np.array(value, np.int64)


def table(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 5


def flag(value: Any) -> np.ndarray:
    return np.array(value, np.bool_)


def compiled(proto: Any) -> Any:
    """The model, whose text says the same as it does."""
    mod = mlc.from_onnx(proto)
    assert_well_formed(mod)
    text = mod.script(show_meta=True)
    assert structural_equal(mlc.script.from_source(text), mod), text
    return mlc.compile(mod)


def check(proto: Any, *inputs: Sequence[np.ndarray]) -> Any:
    """Compare with onnxruntime for each list of inputs; gives the executable."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(proto.SerializeToString())
    names = [i.name for i in session.get_inputs()]
    ex = compiled(proto)
    for arrays in inputs:
        wanted = session.run(None, dict(zip(names, arrays, strict=True)))
        found = ex(*arrays)
        found = found if isinstance(found, tuple) else (found,)
        for ours, theirs in zip(found, wanted, strict=True):
            ours = np.asarray(ours)
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    return ex


def double(name: str = "g") -> Any:
    """A kernel on what has an open size."""
    return node("Add", f"{name} {name}", "y")


def test_a_range_of_whole_numbers():
    nodes = [node("Range", "a b d", "g"), double()]
    proto = model("a: int64[]; b: int64[]; d: int64[]", nodes, "y: int64[k]")
    cases = [(0, 5, 1), (0, 0, 1), (0, -3, 1), (5, 0, -2), (5, 0, 2), (1, 10, 3), (-7, 8, 4)]
    ex = check(proto, *([i64(v) for v in case] for case in cases))
    with pytest.raises(ExecutionError) as caught:
        ex(i64(0), i64(3), i64(0))
    assert str(caught.value).endswith(": integer division by zero")


def test_a_range_of_numbers_too_far_apart():
    """Their difference is no int64, and wrapped around: the range was empty."""
    nodes = [node("Range", "a b d", "g"), double()]
    ex = compiled(model("a: int64[]; b: int64[]; d: int64[]", nodes, "y: int64[k]"))

    any_number = st.integers(-(2**63), 2**63 - 1)
    long_step = any_number.filter(lambda step: abs(step) >= 2**44)

    @settings(max_examples=60, deadline=None)
    @given(st.tuples(any_number, any_number, long_step))
    @example((-(2**63), 2**63 - 1, 2**63 - 1))
    @example((0, -(2**63), -1))
    def as_python(case):
        try:
            found = np.asarray(ex(*map(i64, case)))
        except ExecutionError:
            assert abs(case[1] - case[0]) >= 2**62
        else:
            np.testing.assert_array_equal(found, 2 * np.array(range(*case), "int64"))

    as_python()


def test_a_range_of_floats():
    proto = model("a: float[]; b: float[]; d: float[]", [node("Range", "a b d", "g"), double()],
                  "y: float[k]")  # fmt: skip
    cases = [(0, 2, 0.3), (2, 0, -0.25), (2, 3, -0.25), (0, 1, 0.125), (0.5, 9.5, 1)]
    ex = check(proto, *([f32(v) for v in case] for case in cases))
    with pytest.raises(ExecutionError, match="dimension 0 of a shape would be -1"):
        ex(f32(0), f32(3), f32(0))


def test_a_range_up_to_the_largest_element():
    nodes = [node("ReduceMax", "x", "m", keepdims=0), node("Range", "z m o", "g"), double()]
    proto = model("x: int64[n]", nodes, "y: int64[k]", z=i64(0), o=i64(1))
    check(proto, [i64([3, 1])], [i64([0])], [i64([1, 9, 2])])


def test_where_elements_are_not_zero():
    nodes = [node("NonZero", "x", "i"), node("Transpose", "i", "t"), node("GatherND", "x t", "g"),
             node("Shape", "g", "size"), double()]  # fmt: skip
    proto = model("x: float[n, m]", nodes, "y: float[k]; size: int64[1]; i: int64[2, q]")
    check(proto, [f32([[1, 0], [0, 2]])], [f32([[0, 0, 0]])], [table(3, 4)])


def test_elements_each_once():
    nodes = [node("Unique", "x", "u i v c", axis=1), node("Shape", "u", "s"),
             node("Expand", "o s", "g"), node("Sub", "u g", "y")]  # fmt: skip
    proto = model("x: float[2, n]", nodes, "y: float[2, k]; v: int64[n]; c: int64[k]", o=f32(1))
    check(proto, [f32([[1, 2, 1], [3, 4, 3]])], [f32([[5], [5]])])


@pytest.mark.parametrize("axis", [{}, {"axis": 1}])
def test_slices_that_a_condition_picks(axis):
    proto = model("x: float[n, m]; c: bool[k]", [node("Compress", "x c", "g", **axis), double()],
                  "y: float")  # fmt: skip
    x = table(4, 6)
    check(proto, [x, flag([1, 0, 1])], [x, flag([0] * 6)], [x, flag([0, 0, 0, 0, 0, 1])])


def test_a_slice_between_bounds_from_data():
    nodes = [node("Slice", "x s e", "g"), double()]
    proto = model("x: float[n, m]; s: int64[2]; e: int64[2]", nodes, "y: float[a, b]")
    bounds = [((0, 0), (2, 2)), ((-2, 1), (9, -1)), ((2, 2), (1, 9)), ((-99, -99), (99, 99))]
    check(proto, *([table(3, 4), i64(s), i64(e)] for s, e in bounds))
    nodes = [node("Slice", "x s e ax st", "g"), double()]
    given = {"e": ints(-1, 4), "ax": ints(1, 0), "st": ints(2, 1)}
    proto = model("x: float[n, m]; s: int64[2]", nodes, "y: float[a, b]", **given)
    check(proto, *([table(4, 5), i64(s)] for s in [(0, 0), (-2, 1), (2, 9)]))


def test_a_slice_backwards_between_bounds_from_data_is_refused():
    nodes = [node("Slice", "x s e ax st", "y", name="cut")]
    given = {"e": ints(-9), "ax": ints(0), "st": ints(-1)}
    with pytest.raises(mlc.MLCError) as caught:
        mlc.from_onnx(model("x: float[n]; s: int64[1]", nodes, "y: float[a]", **given))
    assert str(caught.value) == (
        "the model: node 'cut' (Slice, opset 17): starts, with steps that are not positive, is not "
        "known before the model runs\nhint: make 's' an initializer, or fix the shapes of inputs "
        "with shape="
    )


def test_nothing_in_a_shape_from_data():
    proto = model("x: float[0, 3, 4]; s: int64[3]", [node("Reshape", "x s", "y", allowzero=1)],
                  "y: float[a, b, c]")  # fmt: skip
    check(proto, [table(0, 3, 4), i64((3, 4, 0))], [table(0, 3, 4), i64((0, 5, 5))])


def test_a_shape_from_data():
    nodes = [node("Relu", "x", "g"), node("Reshape", "g s", "y")]
    proto = model("x: float[n, m]; s: int64[3]", nodes, "y: float[a, b, c]")
    shapes = [(0, 0, 1), (2, -1, 3), (-1, 0, 1), (2, 3, 4), (1, 1, -1)]
    ex = check(proto, *([table(4, 6), i64(s)] for s in shapes))
    for wrong in [(5, 5, 1), (-1, -1, 24), (-2, 3, 4), (5, -1, 1)]:
        with pytest.raises(mlc.MLCError):
            ex(table(4, 6), i64(wrong))


def test_to_a_shape_from_data():
    nodes = [node("Relu", "x", "r"), node("Expand", "r s", "g"), node("ConstantOfShape", "s", "z"),
             node("Add", "g z", "y")]  # fmt: skip
    proto = model("x: float[1, m]; s: int64[2]", nodes, "y: float[a, b]")
    check(proto, *([table(1, 6), i64(s)] for s in [(4, 6), (1, 6), (3, 6)]))


def branch(name: str, *nodes: Any) -> Any:
    return graph("", list(nodes), f"{name}: float[q]")


def test_branches_of_different_sizes():
    long = branch("a", node("Concat", "x x", "a", axis=0))
    found = branch("b", node("NonZero", "x", "i"), node("Squeeze", "i ax", "j"),
                   node("Cast", "j", "b", to=1))  # fmt: skip
    nodes = [node("If", "c", "g", then_branch=long, else_branch=found), double()]
    proto = model("x: float[n]; c: bool[]", nodes, "y: float[k]", ax=ints(0))
    check(proto, *([f32([1, 0, 2]), flag(c)] for c in (True, False)), [f32([0]), flag(0)])


def test_what_is_found_among_constants_is_a_constant():
    nodes = [node("NonZero", "c", "i"), node("Squeeze", "i ax", "j"), node("Gather", "x j", "y")]
    proto = model("x: float[3]", nodes, "y: float[2]", c=f32([1, 0, 1]), ax=ints(0))
    assert [b.value.op.name for b in mlc.from_onnx(proto)["main"].body.bindings[:-1]] == [
        "relax.take"
    ]
    check(proto, [f32([1, 2, 3])])

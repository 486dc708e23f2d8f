"""Operators whose sizes their data tell, as loops: nonzero, unique, dynamic_strided_slice and
vision.non_max_suppression, against NumPy, Python and onnxruntime.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError
from mlcnb.ir import structural_equal
from mlcnb.ir.dtype import dtype
from mlcnb.op.set import Nonzero, Unique
from mlcnb.op.vision.non_max_suppression import NonMaxSuppression
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.analysis.well_formed import assert_well_formed
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.relax.transform import LegalizeOps
from mlcnb.tir import SizeVar
from tests.frontend.build import model, node

N = SizeVar("n", "int64")
KINDS = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int64", "uint64", "bool")
SHAPES = ((), (1,), (7,), (0,), (3, 4), (4, 0), (0, 4), (2, 3, 4))


def graph(make: Any, *infos: Any) -> Any:
    """A module that calls an operator on parameters of these shapes and dtypes."""
    bb = BlockBuilder()
    params = [Var(f"x{i}", tensor_info(*info)) for i, info in enumerate(infos)]
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(make(*params)))
    return bb.get()


def built(make: Any, *infos: Any, target: str = "llvm") -> Any:
    """The executable, in which no operator is left but the one that reads sizes."""
    ex = mlc.compile(graph(make, *infos), target=target)
    assert ex.mod.script().count("R.tensor_to_shape") == 1
    assert not any(
        name in ex.mod.script() for name in ("R.nonzero", "R.unique", "R.vision", "R.dy")
    )
    return ex


def values(shape: Any, kind: str, seed: int = 0) -> np.ndarray:
    """Few different numbers; of floats NaN, inf and both zeros among them."""
    rng = np.random.default_rng(seed)
    found = rng.integers(-2, 3, shape)
    made = dtype(kind).numpy
    if kind[0] in "ub":
        found = np.abs(found)
    if kind in ("bool",) or not kind.startswith(("float", "bfloat")):
        return np.asarray(found).astype(made)
    floats = np.where((found == 0) & (rng.random(shape) < 0.5), -0.0, found)
    floats = np.where(rng.random(shape) < 0.15, np.nan, floats)
    return np.asarray(np.where(rng.random(shape) < 0.1, np.inf, floats)).astype(made)


def same(found: Any, wanted: Any) -> None:
    for one, two in zip(parts(found), parts(wanted), strict=True):
        one, two = np.asarray(one), np.asarray(two)
        assert (one.shape, one.dtype) == (two.shape, two.dtype)
        np.testing.assert_array_equal(one.astype("float64"), two.astype("float64"))
        if one.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(one), np.signbit(two))


def parts(found: Any) -> Any:
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_where_elements_are_not_zero(shape: Any, kind: str) -> None:
    ex = built(op.nonzero, (shape, kind))
    for seed in range(2):
        x = values(shape, kind, seed)
        same(ex(x), np.stack(np.nonzero(x)).astype("int64") if shape else Nonzero().numpy(x))


@pytest.mark.parametrize("kind", ["float32", "float16", "bool", "int8", "uint64"])
@pytest.mark.parametrize("shape", [(300,), (5, 67), (64,), (3, 2, 64)], ids=str)
def test_where_many_elements_are_not_zero(shape: Any, kind: str) -> None:
    """Whole runs of zeros, runs with some, and what is left behind the last run."""
    ex, size = built(op.nonzero, (shape, kind)), int(np.prod(shape))
    rng = np.random.default_rng(0)
    for part in (0.0, 0.005, 0.5, 1.0):
        x = (rng.random(shape) < part).astype(kind)
        same(ex(x), np.stack(np.nonzero(x)).astype("int64"))
    for place in (0, 63, size - 1):
        x = np.zeros(size, kind)
        x[place] = 1
        same(ex(x.reshape(shape)), np.stack(np.nonzero(x.reshape(shape))).astype("int64"))
    if kind.startswith("float"):
        x = np.full(shape, np.nan, kind)
        x[..., ::2] = -0.0
        same(ex(x), np.stack(np.nonzero(x)).astype("int64"))


def test_where_elements_of_open_sizes_are_not_zero() -> None:
    ex = built(op.nonzero, ([N, 9], "float32"))
    rng = np.random.default_rng(1)
    for rows in (0, 1, 7, 8, 40):
        x = (rng.random((rows, 9)) < 0.3).astype("float32")
        same(ex(x), np.stack(np.nonzero(x)).astype("int64"))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("kind", ["float32", "float16", "int64", "uint8", "bool"])
def test_slices_that_are_wanted_as_onnxruntime(kind: str, axis: int | None) -> None:
    runtime = pytest.importorskip("onnxruntime")
    attrs = {} if axis is None else {"axis": axis}
    words = {"float32": "float", "float16": "float16", "int64": "int64", "uint8": "uint8"}
    proto = model(
        f"x: {words.get(kind, kind)}[70, 3]; c: bool[n]", [node("Compress", "x c", "y", **attrs)],
        f"y: {words.get(kind, kind)}[{'k' if axis is None else 'k, m'}]",
    )  # fmt: skip
    theirs = runtime.InferenceSession(proto.SerializeToString())
    ex = mlc.compile(mlc.from_onnx(proto))
    x = values((70, 3), kind, 5)
    rng = np.random.default_rng(2)
    size = {None: 210, 0: 70}.get(axis, 3)
    for length, part in itertools.product((0, 1, size - 1, size), (0.0, 0.3, 1.0)):
        wanted = rng.random(length) < part
        same(ex(x, wanted), theirs.run(None, {"x": x, "c": wanted})[0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_elements_each_once(shape: Any, kind: str) -> None:
    """Of 16-bit floats NumPy has no order that knows NaN: they are compared as float32."""
    x = values(shape, kind)
    wide = x.astype("float32") if kind in ("float16", "bfloat16") else x
    for axis in (None, *range(len(shape))):
        ex = built(lambda v, axis=axis: op.unique(v, True, True, True, True, axis), (shape, kind))
        wanted, index, inverse, counts = np.unique(wide, True, True, True, axis=axis)
        more = (index, inverse.reshape(-1), counts)
        same(ex(x), (wanted.astype(x.dtype), *(m.astype("int64") for m in more)))


def in_order_of_occurrence(x: np.ndarray, axis: int | None) -> Any:
    """What `Unique` gives that does not sort, row by row; slices with NaN all differ."""
    rows = list(x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0))
    one_nan = axis is None or x.ndim == 1
    first: list[int] = []
    inverse: list[int] = []
    for i, row in enumerate(rows):
        near = [np.array_equal(row, rows[j], equal_nan=one_nan) for j in first]
        if not any(near):
            first.append(i)
        inverse.append(near.index(True) if any(near) else len(first) - 1)
    counts = [inverse.count(i) for i in range(len(first))]
    taken = np.take(x.reshape(-1) if axis is None else x, np.array(first, "int64"), axis or 0)
    return (taken, *(np.array(v, "int64") for v in (first, inverse, counts)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float32", "int32"])
@pytest.mark.parametrize("shape", [(40,), (0,), (5, 4), (3, 0), (2, 3, 4)], ids=str)
def test_elements_each_once_in_their_order(shape: Any, kind: str) -> None:
    x = values(shape, kind, 3)
    if len(shape) == 2:
        x[3:] = x[: len(x[3:])]
    for axis in (None, *range(len(shape))):
        ex = built(lambda v, axis=axis: op.unique(v, False, True, True, True, axis), (shape, kind))
        same(ex(x), in_order_of_occurrence(x, axis))
        same(Unique(False, True, True, True, axis).numpy(x), in_order_of_occurrence(x, axis))


@pytest.mark.parametrize("target", ["llvm", "cuda-sim", "interp"])
def test_results_of_open_sizes(target: str) -> None:
    x = values((6, 3), "float32")
    x[4] = x[1]
    unique = Unique(True, False, True, True, 0)
    for make, wanted in (
        (op.nonzero, np.stack(np.nonzero(x))),
        (lambda v: op.unique(v, return_inverse=True, return_counts=True, axis=0), unique.numpy(x)),
    ):
        same(mlc.compile(graph(make, ((N, 3), "float32")), target=target)(x), wanted)


ENDS = (0, 1, 2, 5, 6, 7, -1, -3, -6, -7, 2**31, 2**63 - 1, -(2**63))
STEPS = (1, 2, 7, -1, -2, -7, 2**63 - 1, -(2**63))


def test_slices_between_bounds_in_tensors() -> None:
    infos = ((5, N), "float32"), ((2,), "int64"), ((2,), "int64"), ((2,), "int64")
    ex = built(op.dynamic_strided_slice, *infos)
    x = np.arange(30, dtype="float32").reshape(5, 6)
    pair = st.tuples(st.sampled_from(ENDS), st.sampled_from(ENDS))

    @settings(max_examples=300, deadline=None)
    @given(pair, pair, st.tuples(st.sampled_from(STEPS), st.sampled_from(STEPS)))
    @example((4, 5), (-(2**63), -7), (-(2**63), -(2**63)))
    def as_python(begin: Any, end: Any, step: Any) -> None:
        wanted = x[tuple(map(slice, begin, end, step))]
        same(ex(x, *(np.array(v) for v in (begin, end, step))), wanted)

    as_python()


def test_bounds_of_other_dtypes() -> None:
    infos = ((3, 4), "int8"), ((2,), "int32"), ((2,), "uint64"), ((2,), "int8")
    ex = built(op.dynamic_strided_slice, *infos)
    x = np.arange(12, dtype="int8").reshape(3, 4)
    given_ = np.array([-2, 3], "int32"), np.array([2**64 - 1, 0], "uint64"), np.int8([1, -2])
    same(ex(x, *given_), x[-2:, 3:0:-2])


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_a_stride_of_0_stops_the_run(target: str) -> None:
    infos = ((3,), "float32"), ((1,), "int64"), ((1,), "int64"), ((1,), "int64")
    ex = mlc.compile(graph(op.dynamic_strided_slice, *infos), target=target)
    with pytest.raises(ExecutionError, match="dynamic_strided_slice: a stride is 0"):
        ex(np.zeros(3, "float32"), *(np.array([v]) for v in (0, 3, 0)))


def test_bounds_that_are_no_integers_are_refused() -> None:
    infos = ((3,), "float32"), ((1,), "float32"), ((1,), "int64"), ((1,), "int64")
    with pytest.raises(mlc.MLCError, match="begin must hold integers, but is"):
        graph(op.dynamic_strided_slice, *infos)


def boxes_and_scores(samples: int, classes: int, count: int, seed: int, center: bool) -> Any:
    rng = np.random.default_rng(seed)
    corner, side = (
        rng.integers(0, 20, (samples, count, 2)),
        rng.integers(1, 12, (samples, count, 2)),
    )
    second = side if center else corner + side
    boxes = np.concatenate([corner, second], -1).astype("float32")
    scores = (rng.integers(0, 20, (samples, classes, count)) / 20).astype("float32")
    return boxes, scores


def suppression(samples: Any, classes: Any, count: Any, center: bool = False) -> Any:
    one = [((1,), "int64"), ((1,), "float32"), ((1,), "float32")]
    infos = ((samples, count, 4), "float32"), ((samples, classes, count), "float32"), *one
    make = op.vision.non_max_suppression
    return built(lambda *xs: make(*xs, center_point_box=center), *infos)


@pytest.mark.parametrize("center", [False, True])
def test_boxes_that_overlap_as_onnxruntime(center: bool) -> None:
    runtime = pytest.importorskip("onnxruntime")
    proto = model(
        "b: float[2, k, 4]; s: float[2, 3, k]; m: int64[1]; o: float[1]; l: float[1]",
        [node("NonMaxSuppression", "b s m o l", "y", center_point_box=int(center))],
        "y: int64[q, 3]",
    )
    session = runtime.InferenceSession(proto.SerializeToString())
    ex = mlc.compile(mlc.from_onnx(proto))
    for seed, most, share in itertools.product(range(4), (0, 3, 1000), (0.0, 0.25, 0.9)):
        boxes, scores = boxes_and_scores(2, 3, 30 + seed, seed, center)
        limits = np.array([most]), np.float32([share]), np.float32([0.1])
        (wanted,) = session.run(None, dict(zip("bsmol", (boxes, scores, *limits), strict=True)))
        same(ex(boxes, scores, *limits), wanted)


@pytest.mark.parametrize("sizes", [(2, 3, 40), (1, 1, 0), (0, 2, 3), (1, 0, 3)], ids=str)
def test_boxes_with_nan_and_none(sizes: Any) -> None:
    """Boxes without an area and scores that are no numbers overlap nothing and are not taken."""
    samples, classes, count = sizes
    ex = suppression(samples, classes, N)
    boxes, scores = boxes_and_scores(*sizes, 0, False)
    boxes[:, :2], boxes[:, 2:3], scores[:, :, 3:6] = np.nan, np.inf, np.nan
    limits = np.array([9]), np.float32([0.25]), np.float32([0.1])
    with np.errstate(invalid="ignore"):
        wanted = NonMaxSuppression().numpy(boxes, scores, *limits)
    same(ex(boxes, scores, *limits), wanted)


def test_two_kernels_and_one_size_that_is_read() -> None:
    """Nothing of it is computed in Python: kernels only, beside the step that reads the size."""
    ex = built(lambda x: op.negative(op.unique(op.exp(x))), ((2, 3), "float32"))
    rows = [row.kernel for row in mlc.profile(ex, values((2, 3), "float32")).rows]
    assert [r for r in rows if r not in ex.kernels] == ["numpy: relax.tensor_to_shape"]
    assert [r for r in rows if "unique" in r] == ["unique_shape_func", "unique"]
    assert len(rows) == 5


def test_what_follows_is_as_known_as_the_size() -> None:
    """Of a result of unknown size no loops could be made; now there are."""
    before = graph(lambda x: op.add(op.nonzero(x), op.nonzero(x)), ((2, 3), "float32"))
    after = LegalizeOps()(before)
    assert_well_formed(after)
    text = after.script()
    assert structural_equal(mlc.script.from_source(text), after)
    calls = [
        line.partition(" = ")[2] for line in text.splitlines() if "R." in line and " = " in line
    ]
    assert [c.partition("(")[2].partition(",")[0] for c in calls if "call_tir" in c] == [
        "cls.nonzero_shape_func", "cls.nonzero", "cls.nonzero_shape_func", "cls.nonzero", "cls.add",
    ]  # fmt: skip
    assert "out_sinfo=R.Tensor((2, T.Select(T.min(s, s_1) == 0, 0, T.max(s, s_1)))" in calls[-1]

"""Rules on open sizes: the kernels of a graph compiled once equal NumPy and ONNX Runtime at any."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlcnb as mlc
from mlcnb import relax, te
from mlcnb.arith.atoms import variables_of
from mlcnb.core.errors import ExecutionError
from mlcnb.core.node import walk
from mlcnb.ir.expr import FloorDiv, FloorMod, Max, Min, Ramp, Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.meta_schedule.space import DefaultSpace
from mlcnb.observe.peers import onnxruntime_session
from mlcnb.script import relax as R
from mlcnb.target import Target
from mlcnb.tir import SizeVar
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.stmt import Allocate, BufferStore, For, ForKind, LetStmt


def model(nodes, inputs, outputs, constants):
    """A model of float32 from (operator, inputs, output, attributes), with the shapes given."""
    made = [helper.make_node(kind, given, [out], **attrs) for kind, given, out, attrs in nodes]
    sides = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in side.items()]
        for side in (inputs, outputs)
    ]
    held = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(made, "open", *sides, held)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def drawn(*shape: int) -> np.ndarray:
    made = np.random.default_rng(sum(shape)).standard_normal(shape)
    return (made / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


@pytest.fixture(scope="module")
def convolutions():
    """Strides, padding, a residual, one pixel, a window for each channel; and ONNX Runtime's."""
    same = {"pads": [1] * 4}
    nodes = [
        ("Conv", ["x", "first"], "a", {"strides": [2, 2], **same}),
        ("Relu", ["a"], "b", {}),
        ("Conv", ["b", "dense"], "c", same),
        ("Add", ["b", "c"], "d", {}),
        ("Conv", ["d", "depth"], "e", {"group": 32, **same}),
        ("Conv", ["e", "point"], "y", {}),
    ]
    weights = {
        "first": drawn(32, 3, 3, 3),
        "dense": drawn(32, 32, 3, 3),
        "depth": drawn(32, 1, 3, 3),
        "point": drawn(64, 32, 1, 1),
    }
    given = model(nodes, {"x": ["n", 3, "h", "w"]}, {"y": ["n", 64, "p", "q"]}, weights)
    return mlc.compile(mlc.from_onnx(given)), onnxruntime_session(given, 1)


@pytest.mark.parametrize("shape", [(1, 3, 1, 1), (2, 3, 5, 7), (1, 3, 12, 24), (1, 3, 9, 67)])
def test_convolutions(convolutions, shape: tuple[int, ...]):
    ex, session = convolutions
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(ex(x), session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window, pads", [(3, [0] * 4), (2, [1] * 4), (3, [2] * 4), (3, [1] * 4)])
def test_sums_stay_in_registers_whatever_the_result_is_wide(window: int, pads: list[int]):
    """Where it is wider or narrower than the input by some elements too: `h - 2`, `h + 1`."""
    nodes = [("Conv", ["x", "w"], "c", {"pads": pads}), ("Relu", ["c"], "y", {})]
    weights = {"w": drawn(64, 32, window, window)}
    given = model(nodes, {"x": [1, 32, "h", "w"]}, {"y": [1, 64, "p", "q"]}, weights)
    ex = mlc.compile(mlc.from_onnx(given))
    (kernel,) = (k for name, k in ex.kernels.items() if "conv2d" in name)
    made = [n for n in walk(kernel.lowered.body) if isinstance(n, Allocate)]
    sums = [n for n in made if str(n.buffer_var.pointee[1]) == "local"]
    assert sums
    assert all(as_int(extent) is not None for n in sums for extent in n.extents)
    x = np.random.default_rng(0).standard_normal((1, 32, 9, 23)).astype(np.float32)
    wanted = onnxruntime_session(given, 1).run(None, {"x": x})[0]
    np.testing.assert_allclose(ex(x), wanted, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def products():
    """Rows of an open number and rank times a matrix, a bias and a maximum behind it."""
    nodes = [
        ("MatMul", ["x", "w"], "a", {}),
        ("Add", ["a", "v"], "b", {}),
        ("Relu", ["b"], "y", {}),
    ]
    weights = {"w": drawn(40, 96), "v": drawn(96)}
    given = model(nodes, {"x": ["b", "s", 40]}, {"y": ["b", "s", 96]}, weights)
    return mlc.compile(mlc.from_onnx(given)), weights


@pytest.mark.parametrize("shape", [(1, 1, 40), (3, 2, 40), (1, 13, 40), (2, 64, 40)])
def test_products(products, shape: tuple[int, ...]):
    ex, weights = products
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    wanted = np.maximum(x @ weights["w"] + weights["v"], 0)
    np.testing.assert_allclose(ex(x), wanted, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def matrices():
    """Rows, columns and depth of a product are open, and so is the batch; exp of each result."""
    nodes = [("MatMul", ["x", "y"], "a", {}), ("Exp", ["a"], "z", {})]
    given = {"x": ["b", "n", "k"], "y": ["b", "k", "m"]}
    return mlc.compile(mlc.from_onnx(model(nodes, given, {"z": ["b", "n", "m"]}, {})))


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 7), (6, 4, 16), (13, 9, 40), (33, 20, 17)])
def test_matrices(matrices, sizes: tuple[int, int, int]):
    n, k, m = sizes
    x, y = drawn(2, n, k), drawn(2, k, m)
    np.testing.assert_allclose(matrices(x, y), np.exp(x @ y), rtol=1e-4)


REDUCED = {
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdims=True),
    "GlobalMaxPool": lambda x: x.max((2, 3), keepdims=True),
    "Softmax": lambda x: np.exp(x) / np.exp(x).sum(3, keepdims=True),
    "InstanceNormalization": lambda x: (
        (x - x.mean((2, 3), keepdims=True)) / np.sqrt(x.var((2, 3), keepdims=True) + 1e-5)
    ),
}


@pytest.fixture(scope="module", params=REDUCED)
def reduced(request):
    """One operator that goes along rows, and its meaning."""
    kind = request.param
    is_norm = kind == "InstanceNormalization"
    weights = {"one": np.ones(3, "float32"), "zero": np.zeros(3, "float32")} if is_norm else {}
    nodes = [(kind, ["x", *weights], "y", {"axis": 3} if kind == "Softmax" else {})]
    shapes = {"x": ["n", 3, "h", "w"]}, {"y": ["n", 3, "p", "q"]}
    return mlc.compile(mlc.from_onnx(model(nodes, *shapes, weights))), REDUCED[kind]


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("width", [1, 15, 16, 17, 63, 64, 65, 200])
def test_rows(reduced, rows: int, width: int):
    """Whole vectors and what is left of a row, shorter than a vector and longer than all sums."""
    ex, meaning = reduced
    x = np.random.default_rng(width).standard_normal((2, 3, rows, width)).astype(np.float32)
    wanted = meaning(x.astype(np.float64))
    np.testing.assert_allclose(ex(x), wanted, rtol=1e-4, atol=1e-5)


def test_rows_are_added_up_by_vectors(reduced):
    """The main part of a row has no test in it, and takes several elements at a time."""
    ex, _ = reduced
    ((_, kernel),) = ex.kernels.items()
    assert max(facts.looped.vector for facts in kernel.facts.values()) >= 16
    text = kernel.lowered.script()
    assert " // T.int64(" in text


def test_height_and_width_are_one_row(reduced):
    """Images of a few columns fill the vectors too: what lies together is gone along at once."""
    ex, _ = reduced
    (kernel,) = ex.kernels.values()
    loops = [x for x in walk(kernel.lowered.body) if isinstance(x, For)]
    over_both = [x for x in loops if {"h", "w"} <= {v.name for v in variables_of(x.extent)}]
    assert bool(over_both) == ("softmax" not in kernel.name)


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


#: operator, attributes, constants behind the input: what moves and picks elements
MOVED = {
    "last axes": ("Transpose", {"perm": [0, 1, 3, 2]}, []),
    "to channels last": ("Transpose", {"perm": [0, 2, 3, 1]}, []),
    "reversed": ("Transpose", {"perm": [3, 2, 1, 0]}, []),
    "reflect": ("Pad", {"mode": "reflect"}, [_ints(0, 0, 1, 3, 0, 0, 2, 1)]),
    "edge": ("Pad", {"mode": "edge"}, [_ints(0, 0, 0, 2, 0, 0, 1, 0)]),
    "constant": ("Pad", {}, [_ints(0, 0, 2, 1, 0, 0, 0, 4), np.float32(3)]),
    "tile": ("Tile", {}, [_ints(1, 2, 3, 2)]),
    "nearest": ("Resize", {"mode": "nearest"}, ["", np.float32([1, 1, 2, 3])]),
    "linear": ("Resize", {"mode": "linear"}, ["", np.float32([1, 1, 2, 2])]),
    "cubic": ("Resize", {"mode": "cubic"}, ["", np.float32([1, 1, 3, 2])]),
    "asymmetric": (
        "Resize",
        {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        },
        ["", np.float32([1, 1, 2, 2])],
    ),
}


@pytest.fixture(scope="module", params=MOVED)
def moved(request):
    """One operator compiled for any size, and ONNX Runtime's."""
    kind, attributes, constants = MOVED[request.param]
    names = [c if isinstance(c, str) else f"c{n}" for n, c in enumerate(constants)]
    held = {n: np.asarray(c) for n, c in zip(names, constants, strict=True) if n}
    nodes = [(kind, ["x", *names], "y", attributes)]
    given = model(nodes, {"x": ["n", 16, "h", "w"]}, {"y": ["a", "b", "c", "d"]}, held)
    return request.param, mlc.compile(mlc.from_onnx(given)), onnxruntime_session(given, 1)


@pytest.mark.parametrize(
    "size", [(1, 4, 4), (3, 4, 5), (1, 7, 16), (2, 17, 33), (1, 16, 48), (1, 70, 131)]
)
def test_elements_that_move(moved, size: tuple[int, int, int]):
    """Rows shorter than a tile and longer, on one thread and on two."""
    _, ex, session = moved
    n, h, w = size
    x = np.random.default_rng(w).standard_normal((n, 16, h, w)).astype(np.float32)
    wanted = session.run(None, {"x": x})[0]
    for threads in (1, 2):
        mlc.set_num_threads(threads)
        np.testing.assert_allclose(ex(x), wanted, rtol=1e-4, atol=5e-5)


def test_no_rows_at_all(moved):
    name, ex, _ = moved
    if name in ("last axes", "to channels last", "reversed", "tile", "constant"):
        assert ex(np.zeros((0, 16, 3, 5), np.float32)).size == 0


def test_whole_tiles_neither_divide_nor_look_up(moved):
    """In a row's main part lanes lie side by side, or where no size has a say."""
    name, ex, _ = moved
    if name in ("linear", "cubic", "nearest", "reversed"):
        return  # what is picked is blended; 3 does not divide 16; rows of batches are far apart
    (kernel,) = ex.kernels.values()
    lets = [n for n in walk(kernel.lowered.body) if isinstance(n, LetStmt)]
    whole = next(n for n in lets if n.var.name == "start")
    places = [n.indices[-1] for n in walk(whole) if isinstance(n, BufferLoad | BufferStore)]
    assert any(x.dtype.lanes > 4 for x in places)
    for n in walk(whole):
        if isinstance(n, FloorDiv | FloorMod | Min | Max) and n.dtype.lanes > 1:
            assert not any(isinstance(v, Var) for v in walk(n)), n
        if isinstance(n, Ramp):
            assert as_int(n.stride) is not None, n


@pytest.mark.parametrize("width", [5, 6, 40, 1000])
def test_the_first_few_are_found_by_insertion(width: int):
    sizes = [SizeVar(name, "int64") for name in "nw"]
    x = relax.Var("x", R.Tensor(sizes, "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.normalize(relax.op.topk(x, k=5, axis=1, ret_type="values")))
    ex = mlc.compile(bb.get())
    x = np.random.default_rng(width).standard_normal((3, width)).astype(np.float32)
    np.testing.assert_array_equal(ex(x), -np.sort(-x, 1)[:, :5])
    for few in (0, 1, 4):
        with pytest.raises(ExecutionError, match=f"x_dim1 is w = {few}, but has to be"):
            ex(x[:, :few])


def test_threads_are_woken_for_enough_work_only():
    """The loop is parallel in the program; at run time its size decides."""
    nodes = [("Exp", ["x"], "y", {})]
    ex = mlc.compile(mlc.from_onnx(model(nodes, {"x": ["n", "w"]}, {"y": ["n", "w"]}, {})))
    (kernel,) = ex.kernels.values()
    assert "T.parallel(" in kernel.lowered.script()
    assert '"pragma_parallel_least": 16384' in kernel.lowered.script()
    for shape in ((0, 0), (0, 9), (9, 0), (1, 1), (3, 7), (300, 301)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(ex(x), np.exp(x), rtol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_hardmax_along_an_open_axis(axis: int):
    nodes = [("Hardmax", ["x"], "y", {"axis": axis})]
    given = model(nodes, {"x": ["n", 5, "w"]}, {"y": ["n", 5, "w"]}, {})
    ex, session = mlc.compile(mlc.from_onnx(given)), onnxruntime_session(given, 1)
    for n, w in ((1, 1), (3, 7), (9, 40)):
        x = np.random.default_rng(w).integers(0, 4, (n, 5, w)).astype(np.float32)  # many equal
        np.testing.assert_array_equal(ex(x), session.run(None, {"x": x})[0])


POOLS = [
    ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("MaxPool", {"kernel_shape": [2, 3], "strides": [1, 3], "pads": [0, 1, 1, 0], "ceil_mode": 1}),
    ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    ("AveragePool", {"kernel_shape": [2, 4], "strides": [2, 1], "pads": [1, 2, 0, 1]}),
]


@pytest.mark.parametrize("kind, how", POOLS, ids=[f"{k}-{h['kernel_shape']}" for k, h in POOLS])
def test_pools_of_any_height_and_width(kind, how):
    """Fewer rows than are made together, rows shorter than a vector, and longer ones."""
    inputs, outputs = {"x": ["n", 5, "h", "w"]}, {"y": ["n", 5, "p", "q"]}
    given = model([(kind, ["x"], "y", how)], inputs, outputs, {})
    ex, peer = mlc.compile(mlc.from_onnx(given)), onnxruntime_session(given, 1)
    for h, w in itertools.product((4, 7, 8, 9, 33), (4, 13, 16, 17, 40)):
        x = drawn(2, 5, h, w)
        (expected,) = peer.run(None, {"x": x})
        for threads in (1, 2):
            mlc.set_num_threads(threads)
            found = np.asarray(ex(x))
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=f"{h, w}")


def test_open_pools_combine_rows_then_columns():
    """Several rows at a time, whose memory each chunk of rounds asks for once."""
    inputs, outputs = {"x": ["n", 5, "h", "w"]}, {"y": ["n", 5, "p", "q"]}
    given = model([("MaxPool", ["x"], "y", POOLS[0][1])], inputs, outputs, {})
    (kernel,) = mlc.compile(mlc.from_onnx(given)).kernels.values()
    local = [n for n in walk(kernel.lowered.body) if isinstance(n, Allocate)]
    assert {n.buffer_var.name for n in local} >= {"pool_max_h", "pad_temp"}
    # rows shorter than a vector go by shorter ones, not element by element (27 us, now 5: 64x7x7)
    lanes = Target("llvm").lanes("float32")
    loops = [n for n in walk(kernel.lowered.body) if isinstance(n, For)]
    assert not [n for n in loops if n.kind is ForKind.SERIAL and as_int(n.extent) == lanes]
    # of half a vector, where they fill one (480x14x14 63 us, now 41)
    stores = (n for n in walk(kernel.lowered.body) if isinstance(n, BufferStore))
    assert {lanes, max(lanes // 2, 4), 4} <= {n.value.dtype.lanes for n in stores}
    body = next(f for f in kernel.llvm_ir.split("define ") if ".par1.body(" in f.splitlines()[0])
    assert body.rindex("@mlcnb_alloc(") < body.index("\nloop")


def windows(x: np.ndarray, shape: tuple[int, ...], step: int = 1) -> np.ndarray:
    """All windows over the last axes, an axis more for each."""
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    found = np.lib.stride_tricks.sliding_window_view(x.astype("float64"), shape, axes)
    return found[(..., *[slice(None, None, step)] * len(shape), *[slice(None)] * len(shape))]


def axes(**sizes: object) -> list[object]:
    return [te.reduce_axis((0, size), name) for name, size in sizes.items()]


def padded() -> object:
    """Zeros around, a sum, a bias and a maximum."""
    n, m = te.var("n"), te.var("m")
    X, W = te.placeholder((n, 8, m, m), name="X"), te.placeholder((32, 8, 3, 3), name="W")
    b = te.placeholder((32,), name="b")
    zeros = te.compute(
        (n, 8, m + 2, m + 2),
        lambda i, c, y, x: te.if_then_else(
            te.all(y >= 1, y < m + 1, x >= 1, x < m + 1), X[i, c, y - 1, x - 1], 0.0
        ),
        name="Z",
    )
    c, r, q = axes(c=8, r=3, q=3)
    Y = te.compute(
        (n, 32, m, m),
        lambda i, f, y, x: te.sum(zeros[i, c, y + r, x + q] * W[f, c, r, q], axis=[c, r, q]),
        name="Y",
    )
    last = te.compute(Y.shape, lambda i, f, y, x: Max(Y[i, f, y, x] + b[f], 0.0), name="O")
    return te.create_prim_func([X, W, b, last])


def channels_last() -> object:
    n, m = te.var("n"), te.var("m")
    X, W = te.placeholder((n, m, m, 16), name="X"), te.placeholder((3, 3, 16, 32), name="W")
    c, r, q = axes(c=16, r=3, q=3)
    Y = te.compute(
        (n, m - 2, m - 2, 32),
        lambda i, y, x, f: te.sum(X[i, y + r, x + q, c] * W[r, q, c, f], axis=[r, q, c]),
        name="Y",
    )
    return te.create_prim_func([X, W, Y])


def of_step_two() -> object:
    n, m = te.var("n"), te.var("m")
    X = te.placeholder((n, 8, 2 * m + 1, 2 * m + 1), name="X")
    W = te.placeholder((16, 8, 3, 3), name="W")
    c, r, q = axes(c=8, r=3, q=3)
    Y = te.compute(
        (n, 16, m, m),
        lambda i, f, y, x: te.sum(X[i, c, 2 * y + r, 2 * x + q] * W[f, c, r, q], axis=[c, r, q]),
        name="Y",
    )
    return te.create_prim_func([X, W, Y])


def along_a_line() -> object:
    n, m = te.var("n"), te.var("m")
    X, W = te.placeholder((n, 16, m), name="X"), te.placeholder((24, 16, 5), name="W")
    c, r = axes(c=16, r=5)
    Y = te.compute(
        (n, 24, m - 4), lambda i, f, x: te.sum(X[i, c, x + r] * W[f, c, r], axis=[c, r]), name="Y"
    )
    return te.create_prim_func([X, W, Y])


def of_open_depth() -> object:
    n, depth = te.var("n"), te.var("k")
    A, B = te.placeholder((n, depth, 2, 8), name="A"), te.placeholder((depth, 2, 40), name="B")
    k, r = axes(k=depth, r=2)
    C = te.compute(
        (n, 40, 8), lambda i, j, x: te.sum(A[i, k, r, x] * B[k, r, j], axis=[k, r]), name="C"
    )
    return te.create_prim_func([A, B, C])


def of_rows_and_rows() -> object:
    """What is summed is the last axis of both: the second one is turned."""
    n, m = te.var("n"), te.var("m")
    A, B = te.placeholder((3, n, 24), name="A"), te.placeholder((3, m, 24), name="B")
    (k,) = axes(k=24)
    C = te.compute((3, n, m), lambda h, i, j: te.sum(A[h, i, k] * B[h, j, k], axis=k), name="C")
    return te.create_prim_func([A, B, C])


#: how a sum is written, shapes of what it reads and writes for n and m, NumPy's, the least m
WRITTEN = {
    "padded": (
        padded,
        lambda n, m: [(n, 8, m, m), (32, 8, 3, 3), (32,), (n, 32, m, m)],
        lambda x, w, b: np.maximum(
            np.einsum(
                "icyxrq,fcrq->ifyx",
                windows(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3)),
                w,
            )
            + b[:, None, None],
            0,
        ),
        1,
    ),
    "channels last": (
        channels_last,
        lambda n, m: [(n, m, m, 16), (3, 3, 16, 32), (n, m - 2, m - 2, 32)],
        lambda x, w: np.einsum("icyxrq,rqcf->iyxf", windows(x.transpose(0, 3, 1, 2), (3, 3)), w),
        3,
    ),
    "of step two": (
        of_step_two,
        lambda n, m: [(n, 8, 2 * m + 1, 2 * m + 1), (16, 8, 3, 3), (n, 16, m, m)],
        lambda x, w: np.einsum("icyxrq,fcrq->ifyx", windows(x, (3, 3), 2), w),
        1,
    ),
    "along a line": (
        along_a_line,
        lambda n, m: [(n, 16, m), (24, 16, 5), (n, 24, m - 4)],
        lambda x, w: np.einsum("icxr,fcr->ifx", windows(x, (5,)), w),
        5,
    ),
    "of open depth": (
        of_open_depth,
        lambda n, m: [(n, m, 2, 8), (m, 2, 40), (n, 40, 8)],
        lambda a, b: np.einsum("ikrx,krj->ijx", a, b),
        0,
    ),
    "of rows and rows": (
        of_rows_and_rows,
        lambda n, m: [(3, n, 24), (3, m, 24), (3, n, m)],
        lambda a, b: np.einsum("hik,hjk->hij", a, b),
        0,
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_any_sum(name: str):
    """No places, fewer than a tile has, as many, a few more."""
    make, shapes, numpy, least = WRITTEN[name]
    func = make()
    assert DefaultSpace(func, Target("llvm")).first().decisions["rule"] == "sums"
    ex = mlc.compile(func, schedule="default")
    for n, m in itertools.product((0, 1, 2, 5), (least, least + 1, 7, 15, 16, 23, 70)):
        *given, (*result,) = shapes(n, m)
        args = [*(drawn(*x) if 0 not in x else np.zeros(x, np.float32) for x in given)]
        found = np.full(result, 7.0, np.float32)
        ex(*args, found)
        np.testing.assert_allclose(found, numpy(*args), rtol=1e-4, atol=1e-5)

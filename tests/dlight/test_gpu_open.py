"""Rules for GPUs on open sizes: whatever mlcnb builds has a schedule, and is computed right."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import mlcnb as mlc
from mlcnb import te, tir
from mlcnb.core.node import walk
from mlcnb.dlight.gpu import RULES
from mlcnb.dlight.rule import choice
from mlcnb.observe.peers import onnxruntime_session
from mlcnb.script import tir as T
from mlcnb.target import Target
from mlcnb.tir.stmt import For

GPU = Target("cuda -arch=sm_80")


def drawn(shape) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


# -- operators ------------------------------------------------------------------------------------

#: operator, attributes, shapes of its inputs with names for what is open, values of these
OPERATORS = [
    ("ArgMax", {"axis": 0}, [["n", "m"]], [(2, 2), (3, 300), (1, 1)]),
    ("AveragePool", {"kernel_shape": [2, 2]}, [[1, "n", "m", "m"]], [(3, 32), (1, 2), (2, 9)]),
    ("AveragePool", {"kernel_shape": [3], "pads": [1, 1]}, [[1, 3, "n"]], [(1,), (300,)]),
    ("ConvTranspose", {"strides": [3, 2]}, [[1, 3, "n", "m"], [3, 4, 3, 2]], [(7, 6), (1, 1)]),
    ("Conv", {}, [["n", 8, "m"], [1, 8, 1]], [(1, 5), (3, 100)]),
    ("DepthToSpace", {"blocksize": 2}, [["n", 8, "m", "k"]], [(1, 2, 3), (2, 9, 11)]),
    ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}, [[1, 4, "n", "m"]], [(2, 3), (17, 5)]),
    ("Det", {}, [["n", "m", "m"]], [(1, 1), (3, 4)]),
    ("GRU", {"hidden_size": 40}, [["s", "n", 3], [1, 120, 3], [1, 120, 40]], [(1, 1), (3, 6)]),
    ("LSTM", {"hidden_size": 4}, [[2, "n", 3], [1, 16, 3], [1, 16, 4]], [(1,), (4,), (7,)]),
    ("LayerNormalization", {}, [["n", "m", 12], [12]], [(1, 1), (3, 50)]),
]  # fmt: skip


@pytest.mark.parametrize("kind, attributes, shapes, sizes", OPERATORS)
def test_operators(kind, attributes, shapes, sizes):
    """One compilation, several sizes: as ONNX Runtime has it."""
    names = [f"x{n}" for n in range(len(shapes))]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip(names, shapes, strict=True)
    ]
    made = TensorProto.INT64 if kind == "ArgMax" else TensorProto.FLOAT
    output = helper.make_tensor_value_info("y", made, None)
    graph = helper.make_graph(
        [helper.make_node(kind, names, ["y"], **attributes)], "open", inputs, [output]
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    ex, session = (
        mlc.compile(mlc.from_onnx(model), target="cuda-sim"),
        onnxruntime_session(model, 1),
    )
    opened = list(dict.fromkeys(d for shape in shapes for d in shape if isinstance(d, str)))
    for given in sizes:
        known = dict(zip(opened, given, strict=True))
        args = [drawn([known.get(d, d) for d in shape]) for shape in shapes]
        (expected,) = session.run(None, dict(zip(names, args, strict=True)))
        np.testing.assert_allclose(ex(*args), expected, rtol=1e-4, atol=1e-5)


# -- programs that cannot be spread ---------------------------------------------------------------


@T.prim_func
def loose(a: T.handle, b: T.handle):
    """Statements outside of blocks; sums of all that comes before."""
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        B[i] = A[i]
    for i in range(n - 1):
        B[i + 1] = B[i + 1] + B[i]


@T.prim_func
def carried(a: T.handle, b: T.handle):
    """An iteration reads what the one before it wrote."""
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    C = T.alloc_buffer((n + 1,), "float32")
    for i in range(n + 1):
        with T.block("nothing"):
            v = T.axis.spatial(n + 1, i)
            C[v] = T.float32(0)
    for i in range(n):
        with T.block("total"):
            v = T.axis.spatial(n, i)
            C[v + 1] = C[v] + A[v]
    for i in range(n):
        with T.block("copy"):
            v = T.axis.spatial(n, i)
            B[v] = C[v + 1]


@T.prim_func
def work_of_each(a: T.handle, b: T.handle):
    """Each row has memory of a size that only a run knows."""
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("row"):
            v = T.axis.spatial(n, i)
            W = T.alloc_buffer((n,), "float32")
            last = T.alloc_buffer((1,), "float32")
            for j in range(n):
                W[j] = T.if_then_else(j <= v, A[j], T.float32(0))
            last[0] = T.float32(0)
            for j in range(n):
                last[0] = last[0] + W[j]
            B[v] = last[0]


@T.prim_func
def work_of_all(a: T.handle, b: T.handle):
    """The same, of the whole function."""
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    W = T.alloc_buffer((n,), "float32")
    with T.block("all"):
        T.reads(A[0:n], W[0:n])
        T.writes(B[0:n], W[0:n])
        for j in range(n):
            W[j] = A[j]
        for j in range(n - 1):
            W[j + 1] = W[j + 1] + W[j]
        for j in range(n):
            B[j] = W[j]


@T.prim_func
def rows(a: T.handle, b: T.handle):
    """Each row starts anew, with memory of its own: two at once, and the one that is left."""
    n = T.int64()
    A = T.match_buffer(a, (n, 40), "float32")
    B = T.match_buffer(b, (n, 40), "float32")
    with T.block("root"):
        with T.block("all"):
            V = T.alloc_buffer((40,), "float32")
            W = T.alloc_buffer((40,), "float32")
            for i in range(n // 2):
                for j in range(40):
                    V[j] = A[i * 2, j]
                    W[j] = A[i * 2 + 1, j]
                for _ in range(3):
                    for j in range(40):
                        B[i * 2, j] = V[39 - j]
                        B[i * 2 + 1, j] = W[39 - j]
                    for j in range(40):
                        V[j] = B[i * 2, j] + T.float32(1)
                        W[j] = B[i * 2 + 1, j] + T.float32(1)
            for i in range(n % 2):
                for j in range(40):
                    V[j] = A[n // 2 * 2 + i, j]
                for _ in range(3):
                    for j in range(40):
                        B[n // 2 * 2 + i, j] = V[39 - j]
                    for j in range(40):
                        V[j] = B[n // 2 * 2 + i, j] + T.float32(1)


@T.prim_func
def handed_on(a: T.handle, b: T.handle):
    """Rows hand on what their memory holds."""
    n = T.int64()
    A = T.match_buffer(a, (n, 8), "float32")
    B = T.match_buffer(b, (n, 8), "float32")
    with T.block("root"):
        with T.block("all"):
            W = T.alloc_buffer((8,), "float32")
            for _ in range(1):
                for j in range(8):
                    W[j] = T.float32(0)
            for i in range(n):
                for j in range(8):
                    W[j] = W[j] + A[i, j]
                for j in range(8):
                    B[i, j] = W[j]


@T.prim_func
def along_rows(a: T.handle, b: T.handle):
    """The places of a row hand on what they hold."""
    n = T.int64()
    A = T.match_buffer(a, (n, 8), "float32")
    B = T.match_buffer(b, (n, 8), "float32")
    with T.block("root"):
        with T.block("all"):
            W = T.alloc_buffer((9,), "float32")
            for i in range(n):
                for j in range(9):
                    W[j] = T.float32(0)
                for j in range(8):
                    W[j + 1] = W[j] + A[i, j]
                for j in range(8):
                    B[i, j] = W[j + 1]


@T.prim_func
def asked(a: T.handle, b: T.handle):
    """What the memory holds decides what is done."""
    n = T.int64()
    A = T.match_buffer(a, (n, 8), "float32")
    B = T.match_buffer(b, (n, 8), "float32")
    with T.block("root"):
        with T.block("all"):
            W = T.alloc_buffer((8,), "float32")
            for i in range(n):
                for j in range(8):
                    W[j] = A[i, j]
                if W[0] > T.float32(0):
                    for j in range(8):
                        B[i, j] = W[7 - j]


SAME = "is not parallel: its iterations may touch the same elements of W, which block step writes"
OUTSIDE = "something touches memory outside of inner loops, or leaves one"


@pytest.mark.parametrize(
    "func, rule, why, meaning",
    [
        (rows, "by_statements", None, lambda a: a[:, ::-1] + 2),
        (handed_on, "fallback", f"a step is refused: parallel: loop i {SAME}",
         lambda a: np.cumsum(a, 0)),
        (along_rows, "fallback", f"a step is refused: bind: loop j_1 {SAME}",
         lambda a: np.cumsum(a, 1)),
        (asked, "fallback", OUTSIDE, lambda a: np.where(a[:, :1] > 0, a[:, ::-1], 0)),
    ],
)  # fmt: skip
def test_statements_go_to_threads_where_that_is_proved(func, rule, why, meaning):
    """A block of threads for each row, memory for itself: barriers stand between what they do."""
    found = choice(RULES, func, GPU)
    assert found.rule == rule
    assert {x.rule: x.why for x in found.passed}.get("by_statements") == why
    assert "__global__" in mlc.compile(found.schedule.mod, target=GPU).kernels[0].source
    ex = mlc.compile(found.schedule.mod, target="cuda-sim")
    width = func.buffer_map[func.params[0]].shape[1]
    for n in (1, 2, 7):
        a = drawn((n, int(width)))
        b = np.zeros_like(a)
        ex(a, b)
        np.testing.assert_allclose(b, meaning(a), rtol=1e-5, atol=1e-5)


def test_a_recurrent_layer_has_a_thread_for_each_gate():
    """States of four samples in shared memory; the product of a step waits for nobody."""
    shapes = {"x": [5, "n", 3], "w": [1, 128, 3], "r": [1, 128, 32]}
    inputs = [helper.make_tensor_value_info(x, TensorProto.FLOAT, d) for x, d in shapes.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    made = helper.make_node("LSTM", list(shapes), ["y"], hidden_size=32)
    graph = helper.make_graph([made], "open", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    kernels = mlc.compile(mlc.from_onnx(model.SerializeToString()), target=GPU).kernels
    source = next(x.source for name, x in kernels.items() if name.startswith("lstm"))
    assert "__launch_bounds__(128)" in source
    assert source.count("__shared__") == 4 * 3 + 3
    assert source.count("__syncthreads") == 4


REFUSED = "a step is refused: bind: loop i_0 is not parallel: its iterations may touch the same "
NO_SIZE = "a step is refused: the size of W, which each thread needs, is not known"
ALONE = [
    (loose, "one_thread", "the store to B is not bound to threads"),
    (carried, "fallback_in_parts", f"{REFUSED}elements of C, which block total writes"),
    (work_of_each, "one_thread", NO_SIZE),
    (work_of_all, "one_thread", NO_SIZE),
]


@pytest.mark.parametrize("func, rule, why", ALONE)
@pytest.mark.parametrize("target", ["cuda-sim", "cuda -arch=sm_80"])
def test_what_cannot_be_spread_is_done_by_one_thread(func, rule, why, target):
    """All four are sums of what comes before. Why it is alone is told by the rule before it."""
    found = choice(RULES, func, Target(target))
    assert found.rule == rule
    assert {x.rule: x.why for x in found.passed}["fallback"] == why
    ex = mlc.compile(found.schedule.mod, target=target)
    if target != "cuda-sim":
        assert "__global__" in ex.kernels[0].source
        return
    for n in (1, 2, 77):
        a, b = drawn((n,)), np.zeros(n, "float32")
        ex(a, b)
        np.testing.assert_allclose(b, np.cumsum(a, dtype="float64"), rtol=1e-4, atol=1e-5)


def test_only_the_part_that_cannot_be_spread_is_alone():
    """What comes before and after the sums has a thread for each element."""
    func = choice(RULES, carried, GPU).schedule.mod["main"]
    threads = [
        int(n.extent.value)
        for n in walk(func.body)
        if isinstance(n, For) and n.thread_binding == "threadIdx.x"
    ]
    assert threads == [256, 1, 256]


def test_a_buffer_named_as_a_function_of_the_kernel():
    """C++ has one name for both: the buffer takes another."""
    n = te.size_var("n", "int64")
    x = te.placeholder((n, 4), name="x")
    k = te.reduce_axis((0, 4), name="k")
    total = te.compute((n,), lambda i: te.sum(x[i, k], k), name="total")
    func = te.create_prim_func([x, te.compute((n,), lambda i: tir.sigmoid(total[i]), "sigmoid")])
    source = mlc.compile(choice(RULES, func, GPU).schedule.mod, target=GPU).kernels[0].source
    assert "sigmoid(" in source
    assert "sigmoid_1" in source


@T.prim_func
def table(A: T.Buffer((512,), "float32"), B: T.Buffer((512,), "float32")):
    """A thread's array, filled, and read backwards."""
    W = T.alloc_buffer((512,), "float32")
    for i in range(512):
        W[i] = A[i]
    for i in range(128):
        for j in range(4):
            B[i * 4 + j] = W[511 - (i * 4 + j)]


def test_what_is_long_on_one_thread_is_not_written_out():
    """NVRTC would put arrays that such loops fill into registers: an LSTM's took minutes."""
    made = choice(RULES, table, GPU)
    source = mlc.compile(made.schedule.mod, target=GPU).kernels[0].source
    lines = [line.strip() for line in source.splitlines()]
    before = {x: lines[n - 1] for n, x in enumerate(lines) if x.startswith("for (")}
    counts = {x.partition("< ")[2].partition(";")[0]: y for x, y in before.items()}
    assert made.rule == "one_thread"
    assert counts["512"] == counts["128"] == "#pragma unroll 1"
    assert "unroll" not in counts["4"]


@T.prim_func
def open_table(a: T.handle, b: T.handle):
    """The same, of a length that is open."""
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    W = T.alloc_buffer((n,), "float32")
    for i in range(n):
        W[i] = A[i]
    for i in range(n):
        B[i] = W[n - 1 - i]


def test_what_may_be_long_on_one_thread_is_not_written_out():
    """A GRU of open sizes took NVRTC five minutes."""
    made = choice(RULES, open_table, GPU)
    source = mlc.compile(made.schedule.mod, target=GPU).kernels[0].source
    lines = [line.strip() for line in source.splitlines()]
    loops = [n for n, line in enumerate(lines) if line.startswith("for (")]
    assert made.rule == "one_thread"
    assert [lines[n - 1] for n in loops] == ["#pragma unroll 1"] * 2

"""The reference interpreter against NumPy: block form, lowered form, errors, records."""

from __future__ import annotations

import re
import sys
from textwrap import dedent

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import register_func, te, tir
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import ExecutionError, RuntimeInputError, UnsupportedOpError
from mlcnb.core.node import FrozenDict
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.script import parse

RNG = np.random.default_rng(0)


def run(text, *args, record=None):
    return run_prim_func(parse(dedent(text)), list(args), record)


def elementwise(fn, *arrays, out=None):
    """Run `fn` as a te.compute over arrays of one shape."""
    shape = arrays[0].shape
    tensors = [te.placeholder(shape, a.dtype.name, f"x{i}") for i, a in enumerate(arrays)]
    made = te.compute(shape, lambda *i: fn(*(t[i] for t in tensors)), name="out")
    result = np.zeros(shape, made.dtype.numpy)
    run_prim_func(te.create_prim_func([*tensors, made]), [*arrays, result])
    return result


# block form


def test_matmul_in_blocks():
    a, b = RNG.standard_normal((4, 8), "float32"), RNG.standard_normal((8, 6), "float32")
    c = np.full((4, 6), np.nan, "float32")
    run(
        """
        @T.prim_func
        def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 6), "float32"),
                 C: T.Buffer((4, 6), "float32")):
            for i, j, k in T.grid(4, 6, 8):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.float32(0.0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        """,
        a, b, c,
    )  # fmt: skip
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-6)


def test_predicate_and_alloc_buffers():
    a, b = np.arange(15, dtype="float32"), np.zeros(15, "float32")
    run(
        """
        @T.prim_func
        def main(A: T.Buffer((15,), "float32"), B: T.Buffer((15,), "float32")):
            with T.block("root"):
                t = T.alloc_buffer((15,))
                for i, j in T.grid(4, 4):
                    with T.block("t"):
                        T.where(i * 4 + j < 15)
                        vi = T.axis.spatial(15, i * 4 + j)
                        t[vi] = A[vi] * T.float32(2.0)
                for i in range(15):
                    with T.block("B"):
                        vi = T.axis.spatial(15, i)
                        B[vi] = t[vi] + T.float32(1.0)
        """,
        a, b,
    )  # fmt: skip
    np.testing.assert_array_equal(b, a * 2 + 1)


def test_match_buffer_binds_strides_and_offset():
    a, b = np.arange(64, dtype="float32").reshape(8, 8), np.zeros((4, 4), "float32")
    run(
        """
        @T.prim_func
        def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((4, 4), "float32")):
            with T.block("root"):
                for i in range(1):
                    with T.block("copy"):
                        vi = T.axis.spatial(1, i)
                        s0, s1 = T.int32(), T.int32()
                        M = T.match_buffer(A[vi + 2:vi + 6, 1:5], (4, 4), strides=[s0, s1],
                                           offset_factor=1)
                        for x, y in T.grid(4, 4):
                            B[x, y] = M[x, y] + T.Cast("float32", s0 * 10 + s1)
        """,
        a, b,
    )  # fmt: skip
    np.testing.assert_array_equal(b, a[2:6, 1:5] + 81)


def test_init_runs_at_the_first_step_of_all_reduce_axes():
    a, b = np.arange(12, dtype="float32").reshape(3, 4), np.full((), 7, "float32")
    A, i, j = te.placeholder((3, 4), name="A"), te.reduce_axis((0, 3)), te.reduce_axis((0, 4))
    total = te.compute((), lambda: te.sum(A[i, j], axis=[i, j]), name="total")
    run_prim_func(te.create_prim_func([A, total]), [a, b])
    assert b == 66


# lowered form


def test_allocate_let_while_assert():
    a, b = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    buffer_a, buffer_b = tir.decl_buffer((8,), "int32", "A"), tir.decl_buffer((8,), "int32", "B")
    pa, pb = tir.Var("a", dtype("handle")), tir.Var("b", dtype("handle"))
    data = tir.Var("t", dtype("handle"), ("int32", "global"))
    t = tir.decl_buffer((9,), "int32", "t", data=data)
    n, i, start = tir.Var("n"), tir.Var("i"), tir.Var("start")
    counter = tir.BufferLoad(t, (p.const(8),))
    loop = tir.For(
        i, p.const(0), p.const(8), tir.ForKind.SERIAL,
        tir.BufferStore(t, buffer_a[i] * n, (i,)),
    )  # fmt: skip
    step = tir.SeqStmt(
        (
            tir.BufferStore(buffer_b, tir.BufferLoad(t, (counter,)) + start, (counter,)),
            tir.BufferStore(t, counter + 1, (p.const(8),)),
        )
    )
    body = tir.SeqStmt(
        (loop, tir.BufferStore(t, p.const(0), (p.const(8),)), tir.While(counter < 8, step))
    )
    body = tir.AssertStmt(n > 0, "n must be positive", tir.LetStmt(start, n + 100, body))
    body = tir.Allocate(data, dtype("int32"), (p.const(9),), p.const(True), tir.DeclBuffer(t, body))
    func = tir.PrimFunc((pa, pb, n), body, None, FrozenDict({pa: buffer_a, pb: buffer_b}))
    run_prim_func(func, [a, b, 3])
    np.testing.assert_array_equal(b, a * 3 + 103)
    with pytest.raises(ExecutionError, match="assertion failed: n must be positive"):
        run_prim_func(func, [a, b, 0])


def test_vectors():
    a, b = np.arange(16, dtype="float32"), np.zeros(16, "float32")
    A, B = tir.decl_buffer((16,), "float32", "A"), tir.decl_buffer((16,), "float32", "B")
    pa, pb = tir.Var("a", dtype("handle")), tir.Var("b", dtype("handle"))
    i = tir.Var("i")
    lanes = tir.Ramp(i * 4, p.const(1), 4)
    loaded = tir.BufferLoad(A, (lanes,))
    reverse = tir.Shuffle((loaded,), tuple(p.const(k) for k in (3, 2, 1, 0)))
    value = reverse * tir.Broadcast(p.const(2.0), 4) + tir.Select(
        loaded > tir.Broadcast(p.const(7.0), 4), loaded, tir.Broadcast(p.const(0.0), 4)
    )
    body = tir.For(
        i, p.const(0), p.const(4), tir.ForKind.SERIAL, tir.BufferStore(B, value, (lanes,))
    )
    run_prim_func(tir.PrimFunc((pa, pb), body, None, FrozenDict({pa: A, pb: B})), [a, b])
    expected = a.reshape(4, 4)[:, ::-1].reshape(-1) * 2 + np.where(a > 7, a, 0)
    np.testing.assert_array_equal(b, expected)


def test_masked_lanes_are_neither_read_nor_written():
    a, b = np.arange(6, dtype="float32"), np.zeros(6, "float32")
    A, B = tir.decl_buffer((6,), "float32", "A"), tir.decl_buffer((6,), "float32", "B")
    pa, pb = tir.Var("a", dtype("handle")), tir.Var("b", dtype("handle"))
    lanes = tir.Ramp(p.const(4), p.const(1), 4)
    mask = lanes < tir.Broadcast(p.const(6), 4)
    body = tir.BufferStore(B, tir.BufferLoad(A, (lanes,), mask) + 1.0, (lanes,), mask)
    func = tir.PrimFunc((pa, pb), body, None, FrozenDict({pa: A, pb: B}))
    run_prim_func(func, [a, b])
    np.testing.assert_array_equal(b, [0, 0, 0, 0, 5, 6])


def test_threads_meet_at_barriers():
    """Each thread reads what its neighbour wrote to shared memory before the barrier."""
    a, b = np.arange(32, dtype="float32"), np.zeros(32, "float32")
    A, B = tir.decl_buffer((32,), "float32", "A"), tir.decl_buffer((32,), "float32", "B")
    pa, pb = tir.Var("a", dtype("handle")), tir.Var("b", dtype("handle"))
    shared = tir.decl_buffer((8,), "float32", "S", "shared")
    block, ty, tx = tir.Var("bx"), tir.Var("ty"), tir.Var("tx")
    me = ty * 4 + tx
    body = tir.SeqStmt(
        (
            tir.BufferStore(shared, A[block * 8 + me], (me,)),
            tir.Evaluate(tir.tvm_storage_sync("shared")),
            tir.BufferStore(B, shared[7 - me], (block * 8 + me,)),
            tir.Evaluate(tir.tvm_storage_sync("shared")),
        )
    )
    body = tir.DeclBuffer(shared, body)
    body = tir.Allocate(shared.data, dtype("float32"), (p.const(8),), p.const(True), body)
    for var, extent, tag in (
        (tx, 4, "threadIdx.x"),
        (ty, 2, "threadIdx.y"),
        (block, 4, "blockIdx.x"),
    ):
        body = tir.For(var, p.const(0), p.const(extent), tir.ForKind.THREAD_BINDING, body, tag)
    func = tir.PrimFunc((pa, pb), body, None, FrozenDict({pa: A, pb: B}))
    run_prim_func(func, [a, b])
    np.testing.assert_array_equal(b, a.reshape(4, 8)[:, ::-1].reshape(-1))


def test_every_step_of_lowering_gives_the_same_numbers():
    """A scheduled matmul with a fringe: split, reordered, decomposed, vectorized, parallel."""
    A, B = te.placeholder((6, 12), name="A"), te.placeholder((12, 20), name="B")
    k = te.reduce_axis((0, 12), name="k")
    C = te.compute((6, 20), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((6, 20), lambda i, j: te.max(te.tanh(C[i, j]), 0.0), name="D")
    func = te.create_prim_func([A, B, D])
    schedule = tir.Schedule(func)
    block = schedule.get_block("C")
    i, j, k = schedule.get_loops(block)
    i0, i1 = schedule.split(i, [None, 4])
    j0, j1 = schedule.split(j, [None, 8])
    schedule.reorder(i0, j0, k, i1, j1)
    schedule.decompose_reduction(block, k)
    schedule.vectorize(j1)
    schedule.parallel(i0)
    a, b = RNG.standard_normal((6, 12), "float32"), RNG.standard_normal((12, 20), "float32")

    def numbers(version):
        out = np.zeros((6, 20), "float32")
        run_prim_func(version, [a, b, out])
        return out

    expected = numbers(func)
    np.testing.assert_allclose(expected, np.maximum(np.tanh(a @ b), 0), rtol=1e-5, atol=1e-6)
    for version in (func, schedule.mod["main"]):
        for _, lowered, _ in tir.transform.lower(version, steps=True):
            np.testing.assert_array_equal(numbers(lowered), expected)


EXCHANGE = """
@T.prim_func
def main(A: T.Buffer(({n},), "{kind}"), B: T.Buffer(({n},), "{kind}")):
    with T.block("root"):
        S = T.alloc_buffer(({n},), "{kind}", scope="shared")
        for b in T.thread_binding(1, thread="blockIdx.x"):
            for t in T.thread_binding({n}, thread="threadIdx.x"):
                with T.block("S"):
                    v = T.axis.spatial({n}, t)
                    S[v] = A[v]
                with T.block("B"):
                    v = T.axis.spatial({n}, t)
                    T.reads(S[0:{n}])
                    T.writes(B[v])
                    B[v] = S[(v * {step} + {shift}) % {n}]
"""


@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(1, 9),
    step=st.integers(0, 9),
    shift=st.integers(0, 9),
    kind=st.sampled_from(["float32", "int8", "uint32", "float16"]),
)
def test_threads_of_one_loop_see_what_the_others_wrote(n, step, shift, kind):
    """Lowering puts a barrier between the blocks; a loop, round by round, would read too early."""
    func = parse(EXCHANGE.format(n=n, step=step, shift=shift, kind=kind))
    a = np.arange(1, n + 1).astype(kind)
    expected = a[(np.arange(n) * step + shift) % n]
    for target in ("interp", "cuda-sim"):
        b = np.zeros(n, kind)
        mlc.compile(func, target=target)(a, b)
        np.testing.assert_array_equal(b, expected)


def test_barrier_under_a_condition_is_an_error():
    tx = tir.Var("tx")
    wait = tir.Evaluate(tir.tvm_storage_sync("shared"))
    body = tir.For(
        tx, p.const(0), p.const(4), tir.ForKind.THREAD_BINDING,
        tir.IfThenElse(tx < 2, wait), "threadIdx.x",
    )  # fmt: skip
    with pytest.raises(ExecutionError) as error:
        run_prim_func(tir.PrimFunc((), body), [])
    assert error.value.message == (
        "barrier: 2 of 4 threads of the block wait at it; thread (threadIdx.x = 0) does, but "
        "thread (threadIdx.x = 2) has ended"
    )
    assert error.value.hint == (
        "a barrier must not stand under a condition or in a loop that differs by thread"
    )


def test_returned_value():
    n = tir.Var("n")
    func = tir.PrimFunc((n,), tir.Evaluate(tir.ret(n * 2 + 1)), "int32")
    assert run_prim_func(func, [20]) == 41


# symbolic shapes

SYMBOLIC = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, T.int64(4)))
    B = T.match_buffer(b, (n * T.int64(2),))
    for i in range(n * T.int64(2)):
        with T.block("B"):
            vi = T.axis.spatial(n * T.int64(2), i)
            B[vi] = A[vi // T.int64(2), T.int64(0)] + T.Cast("float32", n)
"""


def test_symbolic_dimensions_come_from_the_arrays():
    a, b = RNG.standard_normal((3, 4), "float32"), np.zeros(6, "float32")
    run(SYMBOLIC, a, b)
    np.testing.assert_array_equal(b, np.repeat(a[:, 0], 2) + np.float32(3))


def test_symbolic_dimensions_must_agree():
    a, b = np.zeros((3, 4), "float32"), np.zeros(7, "float32")
    message = "argument B has shape (7,): dimension 0 is 7, but must be 6"
    with pytest.raises(RuntimeInputError, match=re.escape(message)):
        run(SYMBOLIC, a, b)


# arguments

COPY = """
@T.prim_func
def main(A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32")):
    for i, j in T.grid(2, 3):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
"""


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((np.zeros((2, 3), "float32"),), "2 arguments are needed, 1 were given"),
        (
            (np.zeros((2, 3), "float64"), np.zeros((2, 3), "float32")),
            "argument A must be float32, got float64",
        ),
        (
            (np.zeros(6, "float32"), np.zeros((2, 3), "float32")),
            "argument A must have 2 dimensions, got shape (6,)",
        ),
        (
            (np.zeros((2, 4), "float32"), np.zeros((2, 3), "float32")),
            "argument A has shape (2, 4): dimension 1 is 4, but must be 3",
        ),
        (([[1]], np.zeros((2, 3), "float32")), "argument A must be a numpy array, got list"),
    ],
)
def test_arguments_that_do_not_fit(args, message):
    with pytest.raises(RuntimeInputError, match=re.escape(message)):
        run(COPY, *args)


def test_strided_arrays_are_read_and_written_in_place():
    a = np.arange(12, dtype="float32").reshape(3, 4).T[::2]
    whole = np.zeros((4, 6), "float32")
    run(COPY, a, whole[::2, ::2])
    np.testing.assert_array_equal(whole[::2, ::2], a)
    assert whole[1].sum() == 0


# errors


def test_out_of_bounds_names_buffer_index_shape_and_loops():
    a, b = np.zeros((2, 3), "float32"), np.zeros((2, 3), "float32")
    with pytest.raises(ExecutionError) as error:
        run(COPY.replace("= A[vi, vj]", "= A[vi, vj + vi]"), a, b)
    assert error.value.message == (
        "out of bounds: A[1, 3] is read, its shape is (2, 3) at i = 1, j = 2"
    )
    assert "A[vi, vj + vi]" in str(error.value)


def test_axis_outside_of_its_domain():
    with pytest.raises(ExecutionError) as error:
        run(
            """
            @T.prim_func
            def main(B: T.Buffer((8,), "float32")):
                for i in range(8):
                    with T.block("B"):
                        vi = T.axis.spatial(4, i)
                        B[vi] = T.float32(0.0)
            """,
            np.zeros(8, "float32"),
        )
    assert error.value.message == "block B: its axis vi takes the value 4, outside of its domain"


def test_select_evaluates_both_sides_and_if_then_else_one():
    A = te.placeholder((4,), name="A")
    a, b = np.arange(4, dtype="float32"), np.zeros(4, "float32")

    def shifted(choose):
        made = te.compute((4,), lambda i: choose(i < 3, A[i + 1], 0.0), name="B")
        run_prim_func(te.create_prim_func([A, made]), [a, b])

    shifted(tir.if_then_else)
    np.testing.assert_array_equal(b, [1, 2, 3, 0])
    with pytest.raises(ExecutionError, match="out of bounds: A\\[4\\] is read"):
        shifted(p.select)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x, y: tir.floordiv(x, y), "floordiv by zero: 7 by 0"),
        (lambda x, y: tir.floormod(x, y), "floormod by zero: 7 by 0"),
        (lambda x, y: tir.truncdiv(x, y), "division by zero: 7 by 0"),
        (lambda x, y: tir.truncmod(x, y), "remainder by zero: 7 by 0"),
        (lambda x, y: tir.pow(x, y - 1), "integer power with a negative exponent: 7 ** -1"),
    ],
)
def test_integer_operations_without_a_result(build, message):
    with pytest.raises(ExecutionError) as error:
        elementwise(build, np.array([7], "int32"), np.array([0], "int32"))
    assert error.value.message == message


def test_unknown_intrinsics_are_refused():
    with pytest.raises(UnsupportedOpError, match="the interpreter knows no intrinsic tir.nonsense"):
        elementwise(lambda x: tir.call_intrin("float32", "tir.nonsense", x), np.ones(1, "float32"))


def test_fresh_memory_is_not_a_number():
    b = np.zeros(2, "float32")
    run(
        """
        @T.prim_func
        def main(B: T.Buffer((2,), "float32")):
            with T.block("root"):
                t = T.alloc_buffer((2,))
                for i in range(2):
                    with T.block("B"):
                        vi = T.axis.spatial(2, i)
                        B[vi] = t[vi]
        """,
        b,
    )
    assert np.isnan(b).all()


# the record


def test_every_access_is_recorded():
    record = []
    run(
        """
        @T.prim_func
        def main(A: T.Buffer((2, 2), "float32"), B: T.Buffer((2,), "float32")):
            for i, k in T.grid(2, 2):
                with T.block("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = T.float32(0.0)
                    B[vi] = B[vi] + A[vi, vk]
        """,
        np.ones((2, 2), "float32"), np.zeros(2, "float32"), record=record,
    )  # fmt: skip
    first = {"i": 0, "k": 0}
    assert record[:7] == [
        ("B", 0, "w", first),
        ("B", 0, "r", first),
        ("A", 0, "r", first),
        ("B", 0, "w", first),
        ("B", 0, "r", {"i": 0, "k": 1}),
        ("A", 1, "r", {"i": 0, "k": 1}),
        ("B", 0, "w", {"i": 0, "k": 1}),
    ]
    assert len(record) == 2 * 7


def test_the_record_may_be_a_function():
    seen = []
    text = COPY.replace("(2, 3)", "(1, 1)").replace("T.grid(2, 3)", "T.grid(1, 1)")
    run(
        text,
        np.ones((1, 1), "float32"),
        np.zeros((1, 1), "float32"),
        record=lambda *x: seen.append(x),
    )
    assert seen == [("A", 0, "r", {"i": 0, "j": 0}), ("B", 0, "w", {"i": 0, "j": 0})]


# numbers

FLOATS = ["float16", "float32", "float64"]


def floats(kind, count=64):
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-3, -1e3, 0.5, 1.5, 2.5, -2.5])
    return np.concatenate([special, RNG.standard_normal(count) * 3]).astype(kind)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize(
    ("name", "numpy"),
    [
        ("exp", np.exp), ("exp2", np.exp2), ("log", np.log), ("log2", np.log2),
        ("log10", np.log10), ("log1p", np.log1p), ("expm1", np.expm1),
        ("sqrt", np.sqrt), ("tanh", np.tanh),
        ("sin", np.sin), ("cos", np.cos), ("tan", np.tan), ("atan", np.arctan),
        ("asin", np.arcsin), ("acos", np.arccos), ("sinh", np.sinh), ("cosh", np.cosh),
        ("asinh", np.arcsinh), ("acosh", np.arccosh), ("atanh", np.arctanh),
        ("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("round", np.rint),
        ("nearbyint", np.rint), ("fabs", np.abs), ("isnan", np.isnan), ("isinf", np.isinf),
        ("isfinite", np.isfinite), ("rsqrt", lambda x: 1 / np.sqrt(x)),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x.astype("float64")))),
    ],
)  # fmt: skip
def test_unary_intrinsics(name, numpy, kind):
    x = floats(kind)
    with np.errstate(all="ignore"):
        expected = numpy(x)
    got = elementwise(getattr(tir, name), x)
    tolerance = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-12}[kind]
    np.testing.assert_allclose(
        got.astype("float64"), expected.astype("float64"), rtol=tolerance, atol=1e-7
    )


def test_erf():
    from math import erf

    x = floats("float32")
    expected = np.array([erf(v) for v in x.astype("float64")], "float32")
    np.testing.assert_array_equal(elementwise(tir.erf, x), expected)


@pytest.mark.parametrize("kind", [*FLOATS, "int8", "uint8", "int32", "int64", "uint32"])
@pytest.mark.parametrize(
    ("build", "numpy"),
    [
        (p.add, np.add), (p.subtract, np.subtract), (p.multiply, np.multiply),
        (p.minimum, np.minimum), (p.maximum, np.maximum), (p.less, np.less),
        (p.less_equal, np.less_equal), (p.equal, np.equal), (p.not_equal, np.not_equal),
        (p.greater, np.greater), (p.greater_equal, np.greater_equal),
    ],
)  # fmt: skip
def test_binary_operations_as_numpy_has_them(build, numpy, kind):
    if kind in FLOATS:
        x, y = np.meshgrid(floats(kind, 12), floats(kind, 12))
    else:
        info = np.iinfo(kind)
        values = np.array([info.min, info.max, 0, 1, 2, 100, info.max - 3], kind)
        x, y = np.meshgrid(values, values)
    with np.errstate(all="ignore"):
        expected = numpy(x, y)
    np.testing.assert_array_equal(
        elementwise(build, x.reshape(-1), y.reshape(-1)), expected.reshape(-1)
    )


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize(
    ("build", "numpy"),
    [
        (p.div, np.divide), (tir.pow, np.power), (tir.fmod, np.fmod),
        (tir.copysign, np.copysign), (tir.atan2, np.arctan2), (tir.hypot, np.hypot),
        (tir.nextafter, np.nextafter),
    ],
)  # fmt: skip
def test_binary_intrinsics_as_numpy_has_them(build, numpy, kind):
    x, y = np.meshgrid(floats(kind, 8), floats(kind, 8))
    x, y = x.reshape(-1), y.reshape(-1)
    with np.errstate(all="ignore"):
        expected = numpy(x, y)
    tolerance = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-12}[kind]
    np.testing.assert_allclose(elementwise(build, x, y), expected, rtol=tolerance, atol=1e-7)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["int8", "uint8", "int16", "int32", "int64"]),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**63), 2**63 - 1),
)
def test_integer_division(kind, a, b):
    k = dtype(kind)
    x = np.array([p.wrap(a, k)], kind)
    y = np.array([p.wrap(b, k) or 3], kind)
    if int(y[0]) == -1:
        y[0] = 5
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(elementwise(p.floordiv, x, y), x // y)
        np.testing.assert_array_equal(elementwise(p.floormod, x, y), x % y)
        np.testing.assert_array_equal(elementwise(p.truncmod, x, y), np.fmod(x, y))
    quotient = abs(int(x[0])) // abs(int(y[0])) * (1 if (x[0] < 0) == (y[0] < 0) else -1)
    assert elementwise(p.truncdiv, x, y)[0] == quotient


def test_bits_of_truth():
    x, y = np.array([[False, True, False, True], [False, False, True, True]])
    np.testing.assert_array_equal(elementwise(p.bitwise_not, x), ~x)
    np.testing.assert_array_equal(elementwise(p.bitwise_and, x, y), x & y)
    np.testing.assert_array_equal(elementwise(p.bitwise_or, x, y), x | y)
    np.testing.assert_array_equal(elementwise(p.bitwise_xor, x, y), x ^ y)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint32", "int64"])
def test_bits(kind):
    x = np.array([0, 1, 5, 100, 77], kind)
    y = np.array([3, 1, 7, 2, 4], kind)
    np.testing.assert_array_equal(elementwise(p.bitwise_and, x, y), x & y)
    np.testing.assert_array_equal(elementwise(p.bitwise_or, x, y), x | y)
    np.testing.assert_array_equal(elementwise(p.bitwise_xor, x, y), x ^ y)
    np.testing.assert_array_equal(elementwise(p.bitwise_not, x), ~x)
    np.testing.assert_array_equal(elementwise(p.shift_left, x, y), x << y)
    np.testing.assert_array_equal(elementwise(p.shift_right, x, y), x >> y)
    np.testing.assert_array_equal(elementwise(tir.popcount, x), np.bitwise_count(x))


def shifted(build, x, by, kind):
    """By less than 0, or the width or more, only the sign is left."""
    beyond = not 0 <= by < kind.bits
    if build is p.shift_left:
        return 0 if beyond else p.wrap(x << by, kind)
    return -(x < 0) if beyond else x >> by


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["int8", "uint8", "int32", "uint32", "int64", "uint64", "bool"]),
    st.sampled_from([p.shift_left, p.shift_right]),
    st.lists(st.tuples(st.integers(-(2**63), 2**63), st.integers(-70, 70)), min_size=1),
)
def test_shifts_of_any_width_agree_with_numpy(kind, build, pairs):
    of = dtype(kind)
    pairs = [(p.wrap(a, of), p.wrap(b, of)) for a, b in pairs]
    x, y = (np.array(side, kind) for side in zip(*pairs, strict=True))
    expected = np.array([shifted(build, int(a), int(b), of) for a, b in pairs], kind)
    np.testing.assert_array_equal(elementwise(build, x, y), expected)
    tensors = [te.placeholder(x.shape, kind, name) for name in "xy"]
    made = te.compute(x.shape, lambda i: build(*(t[i] for t in tensors)), name="out")
    found = np.zeros(x.shape, kind)
    mlc.compile(te.create_prim_func([*tensors, made]))(x, y, found)
    np.testing.assert_array_equal(found, expected)


def test_shift_right_of_a_negative_number_keeps_its_sign():
    assert elementwise(p.shift_right, np.array([-9], "int32"), np.array([1], "int32"))[0] == -5


@pytest.mark.parametrize(
    "source", ["float32", "float64", "float16", "int8", "int64", "uint8", "bool"]
)
@pytest.mark.parametrize(
    "target", ["float32", "float16", "bfloat16", "int8", "int32", "uint8", "bool"]
)
def test_casts(source, target):
    x = np.array([0, 1, 2, 3.7, 100, 0.5], "float64").astype(source)
    expected = x.astype(dtype(target).numpy)
    got = elementwise(lambda v: p.cast(target, v), x)
    np.testing.assert_array_equal(got.astype("float64"), expected.astype("float64"))


def test_wide_integers_are_rounded_once():
    x = np.array([(1 << 60) + (1 << 36) + 1, -(1 << 62) - 3, 2**53 + 1], "int64")
    np.testing.assert_array_equal(
        elementwise(lambda v: p.cast("float32", v), x), x.astype("float32")
    )


@pytest.mark.parametrize("kind", ["bfloat16", "float8_e4m3fn"])
def test_narrow_floats(kind):
    numpy = np.dtype(getattr(ml_dtypes, kind))
    x = (RNG.standard_normal(32) * 2).astype(numpy)
    y = (RNG.standard_normal(32) * 2).astype(numpy)
    A, B = te.placeholder((32,), kind, "A"), te.placeholder((32,), kind, "B")
    made = te.compute((32,), lambda i: A[i] * B[i] + A[i], name="C")
    out = np.zeros(32, numpy)
    run_prim_func(te.create_prim_func([A, B, made]), [x, y, out])
    np.testing.assert_array_equal(out.astype("float32"), (x * y + x).astype("float32"))


def test_reinterpret():
    x = floats("float32")
    np.testing.assert_array_equal(
        elementwise(lambda v: tir.reinterpret("int32", v), x), x.view("int32")
    )


def test_functions_outside():
    register_func("test.interp.twice", lambda x: x * 2.0, override=True)
    x = np.array([1.5, 2.0, -3.0], "float32")
    twice = elementwise(lambda v: tir.call_pure_extern("float32", "test.interp.twice", v), x)
    np.testing.assert_array_equal(twice, x * 2)
    fma = elementwise(
        lambda v: tir.call_llvm_pure_intrin("float32", "llvm.fma.f32", v, v, p.const(1.0)), x
    )
    np.testing.assert_array_equal(fma, x * x + 1)
    np.testing.assert_allclose(
        elementwise(lambda v: tir.call_pure_extern("float32", "expf", v), x), np.exp(x), rtol=1e-6
    )
    with pytest.raises(UnsupportedOpError, match="the interpreter cannot call nowhere"):
        elementwise(lambda v: tir.call_extern("float32", "nowhere", v), x)


def test_a_step_costs_few_calls():
    """What makes the reference quick enough to be asked all the time, counted: not timed."""
    n, calls = 12, 0

    def count(frame, event, arg):
        nonlocal calls
        calls += event in ("call", "c_call")

    a = np.ones((n, n), "float32")
    A, k = te.placeholder((n, n), name="A"), te.reduce_axis((0, n))
    made = te.compute((n, n), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), name="C")
    func, out = te.create_prim_func([A, made]), np.zeros((n, n), "float32")
    run_prim_func(func, [a, out])
    sys.setprofile(count)
    try:
        run_prim_func(func, [a, out])
    finally:
        sys.setprofile(None)
    assert calls < 50 * n**3
    assert (out == n).all()


def test_expressions_as_deep_as_a_chain_of_two_thousand_terms():
    x, c = tir.Var("x", "int32"), tir.Var("c", "handle")
    total = x
    for n in range(2000):
        total = total + (x if n % 2 else 1)
    C = tir.decl_buffer(1, "int32", "C")
    func = tir.PrimFunc((x, c), tir.BufferStore(C, total, (p.const(0),)), buffer_map={c: C})
    found = np.zeros(1, "int32")
    limit = sys.getrecursionlimit()
    run_prim_func(func, [3, found])
    assert found[0] == 3 + 1000 * 3 + 1000 and sys.getrecursionlimit() == limit


def test_elements_that_are_vectors_are_recorded():
    func = parse("""
@T.prim_func
def main(A: T.Buffer((2,), "float32x4"), B: T.Buffer((2,), "float32x4")):
    for i in range(2):
        B[1 - i] = A[i]
""")
    seen: list = []
    run_prim_func(func, [np.ones((2, 4), "f"), np.zeros((2, 4), "f")], record=seen)
    assert [x[:3] for x in seen] == [("A", 0, "r"), ("B", 1, "w"), ("A", 1, "r"), ("B", 0, "w")]

"""Tensor expressions to loops: whole programs, and their numbers against NumPy."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import mlcnb
from mlcnb import te, tir
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import MLCError
from mlcnb.ir.structural import structural_equal
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.analysis import verify_well_formed

RNG = np.random.default_rng(0)


def check(func, text):
    """The function is well formed, prints as `text`, and the text parses back."""
    verify_well_formed(func)
    printed = "\n".join(func.script().split("\n")[2:])
    assert printed.strip() == dedent(text).strip()
    assert structural_equal(parse(printed), func)


def test_matmul():
    A, B = te.placeholder((4, 16), name="A"), te.placeholder((16, 8), name="B")
    k = te.reduce_axis((0, 16), name="k")
    C = te.compute((4, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    func = te.create_prim_func([A, B, C])
    check(
        func,
        """
        @T.prim_func
        def main(A: T.Buffer((4, 16), "float32"), B: T.Buffer((16, 8), "float32"), C: T.Buffer((4, 8), "float32")):
            T.func_attr({"tir.noalias": True})
            # with T.block("root"):
            for i, j, k in T.grid(4, 8, 16):
                with T.block("C"):
                    v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                    T.reads(A[v_i, v_k], B[v_k, v_j])
                    T.writes(C[v_i, v_j])
                    with T.init():
                        C[v_i, v_j] = T.float32(0.0)
                    C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,  # noqa: E501
    )
    assert dict(func.attrs) == {"global_symbol": "main", "tir.noalias": True}


def test_intermediate_tensors_are_allocated_and_names_are_fresh():
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda *i: A(*i) + 1.0, name="T_add")
    C = te.compute((8,), lambda *i: B(*i) + 1.0, name="T_add")
    check(
        te.create_prim_func([A, C]),
        """
        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), T_add: T.Buffer((8,), "float32")):
            T.func_attr({"tir.noalias": True})
            # with T.block("root"):
            T_add_1 = T.alloc_buffer((8,))
            for i0 in range(8):
                with T.block("T_add"):
                    v_i0 = T.axis.spatial(8, i0)
                    T.reads(A[v_i0])
                    T.writes(T_add_1[v_i0])
                    T_add_1[v_i0] = A[v_i0] + T.float32(1.0)
            for i0 in range(8):
                with T.block("T_add_1"):
                    v_i0 = T.axis.spatial(8, i0)
                    T.reads(T_add_1[v_i0])
                    T.writes(T_add[v_i0])
                    T_add[v_i0] = T_add_1[v_i0] + T.float32(1.0)
        """,
    )


def test_symbolic_extents_make_every_index_int64():
    n = te.var("n", "int64")
    A = te.placeholder((n, 4), name="A")
    B = te.compute((n * 2,), lambda i: A[i // 2, 0] + (i % 4).astype("float32"), name="B")
    check(
        te.create_prim_func([A, B]),
        """
        @T.prim_func
        def main(var_A: T.handle, var_B: T.handle):
            T.func_attr({"tir.noalias": True})
            n = T.int64()
            A = T.match_buffer(var_A, (n, T.int64(4)))
            B = T.match_buffer(var_B, (n * T.int64(2),))
            # with T.block("root"):
            for i in range(n * T.int64(2)):
                with T.block("B"):
                    v_i = T.axis.spatial(n * T.int64(2), i)
                    T.reads(A[v_i // T.int64(2), T.int64(0)])
                    T.writes(B[v_i])
                    B[v_i] = A[v_i // T.int64(2), T.int64(0)] + T.Cast("float32", v_i % T.int64(4))
        """,
    )


def test_static_int64_extents_make_int32_programs():
    A = te.placeholder((tir.const(4, "int64"),), name="A")
    B = te.compute(A.shape, lambda i: A[i], name="B")
    loop = te.create_prim_func([A, B]).body.block.body
    assert loop.loop_var.dtype == "int32" and loop.extent.dtype == "int32"


def test_a_tensor_of_two_gigaelements_needs_int64():
    A = te.placeholder((1 << 16, 1 << 15), name="A")
    B = te.compute((4,), lambda i: A[i, 0], name="B")
    assert te.create_prim_func([A, B]).body.block.body.loop_var.dtype == "int64"


def test_a_scalar_has_one_axis():
    A = te.placeholder((4,), name="A")
    s = te.compute((), lambda: A[2] * 2.0, name="s")
    func = te.create_prim_func([A, s])
    check(
        func,
        """
        @T.prim_func
        def main(A: T.Buffer((4,), "float32"), s: T.Buffer((), "float32")):
            T.func_attr({"tir.noalias": True})
            # with T.block("root"):
            with T.block("s"):
                vi = T.axis.spatial(1, 0)
                T.reads(A[2])
                T.writes(s[()])
                s[()] = A[2] * T.float32(2.0)
        """,
    )
    out = np.zeros((), "float32")
    run_prim_func(func, [np.arange(4, dtype="float32"), out])
    assert out == 4


def test_several_outputs_share_their_loops():
    A = te.placeholder((2, 3), name="A")
    X, Y = te.compute((2, 3), lambda i, j: (A[i, j] + 1.0, A[i, j] * 2.0), name="C")
    func = te.create_prim_func([A, X, Y])
    check(
        func,
        """
        @T.prim_func
        def main(A: T.Buffer((2, 3), "float32"), C_v0: T.Buffer((2, 3), "float32"), C_v1: T.Buffer((2, 3), "float32")):
            T.func_attr({"tir.noalias": True})
            # with T.block("root"):
            for i, j in T.grid(2, 3):
                with T.block("C_v0"):
                    v_i, v_j = T.axis.remap("SS", [i, j])
                    T.reads(A[v_i, v_j])
                    T.writes(C_v0[v_i, v_j])
                    C_v0[v_i, v_j] = A[v_i, v_j] + T.float32(1.0)
                with T.block("C_v1"):
                    v_i, v_j = T.axis.remap("SS", [i, j])
                    T.reads(A[v_i, v_j])
                    T.writes(C_v1[v_i, v_j])
                    C_v1[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        """,  # noqa: E501
    )


def argmax(lhs, rhs):
    """Of two (index, value) pairs the one with the larger value, the first where they are equal."""
    left = te.any(lhs[1] > rhs[1], te.all(lhs[1].equal(rhs[1]), lhs[0] < rhs[0]))
    return te.Select(left, lhs[0], rhs[0]), te.Select(lhs[1] > rhs[1], lhs[1], rhs[1])


def test_reduction_of_tuples():
    A, k = te.placeholder((3, 8), name="A"), te.reduce_axis((0, 8), name="k")
    reducer = te.comm_reducer(argmax, lambda i, v: (tir.const(-1, i), te.min_value(v)))
    index, value = te.compute((3,), lambda i: reducer((k.var, A[i, k]), axis=k), name="argmax")
    func = te.create_prim_func([A, index, value])
    verify_well_formed(func)
    a = RNG.standard_normal((3, 8), "float32")
    i, v = np.zeros(3, "int32"), np.zeros(3, "float32")
    run_prim_func(func, [a, i, v])
    np.testing.assert_array_equal(i, a.argmax(1))
    np.testing.assert_array_equal(v, a.max(1))


def test_a_reducer_compares_as_it_is_written():
    """What is no reduction is simplified, `a >= b` to `b <= a`; a reducer stays."""
    A = te.placeholder((3, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    keep = lambda x, y: (te.if_then_else(x[0] >= y[0], x[0], y[0]), x[1] + y[1])
    reducer = te.comm_reducer(keep, lambda a, b: (te.min_value(a), tir.const(0, b)))
    largest, count = te.compute((3,), lambda i: reducer((A[i, k], A[i, k]), axis=k), name="B")
    C = te.compute((3,), lambda i: te.if_then_else(largest[i] >= count[i], 1, 0), name="C")
    text = te.create_prim_func([A, C]).script()
    assert "B_v0[v_i] >= A[v_i, v_k]" in text
    assert "B_v1[v_i] <= B_v0[v_i]" in text


@pytest.mark.parametrize(
    ("reduce", "numpy"),
    [(te.sum, np.sum), (te.prod, np.prod), (te.max, np.max), (te.min, np.min)],
)
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "float16"])
def test_reductions(reduce, numpy, dtype):
    a = (RNG.standard_normal((3, 5)) * 3).astype(dtype)
    A, k = te.placeholder((3, 5), dtype, "A"), te.reduce_axis((0, 5))
    B = te.compute((3,), lambda i: reduce(A[i, k], axis=k), name="B")
    out = np.zeros(3, dtype)
    run_prim_func(te.create_prim_func([A, B]), [a, out])
    kind = {"dtype": dtype} if numpy in (np.sum, np.prod) else {}
    tolerance = 1e-2 if dtype == "float16" else 1e-6
    np.testing.assert_allclose(out, numpy(a, axis=1, **kind), rtol=tolerance)


@pytest.mark.parametrize(("reduce", "numpy"), [(te.all, np.all), (te.any, np.any)])
def test_logical_reductions(reduce, numpy):
    a = RNG.random((6, 3)) > 0.5
    A, k = te.placeholder((6, 3), "bool", "A"), te.reduce_axis((0, 3))
    B = te.compute((6,), lambda i: reduce(A[i, k], axis=k), name="B")
    out = np.zeros(6, "bool")
    run_prim_func(te.create_prim_func([A, B]), [a, out])
    np.testing.assert_array_equal(out, numpy(a, axis=1))


def test_max_of_minus_infinities_is_minus_infinity():
    A, k = te.placeholder((2,), name="A"), te.reduce_axis((0, 2))
    out = np.zeros((), "float32")
    func = te.create_prim_func([A, te.compute((), lambda: te.max(A[k], axis=k))])
    run_prim_func(func, [np.full(2, -np.inf, "float32"), out])
    assert out == -np.inf


def test_where_of_a_reduction_leaves_elements_out():
    A, k = te.placeholder((6,), name="A"), te.reduce_axis((0, 6))
    B = te.compute((), lambda: te.sum(A[k], axis=k, where=k.var < 4))
    out = np.zeros((), "float32")
    run_prim_func(te.create_prim_func([A, B]), [np.arange(6, dtype="float32"), out])
    assert out == 6


def test_reduce_axes_are_expressions():
    """A convolution whose kernel axes stand in sums and products."""
    a, w = RNG.standard_normal((2, 9), "float32"), RNG.standard_normal((3, 2, 3), "float32")
    A, W = te.placeholder((2, 9), name="A"), te.placeholder((3, 2, 3), name="W")
    c, r = te.reduce_axis((0, 2), "c"), te.reduce_axis((0, 3), "r")
    B = te.compute((3, 4), lambda o, x: te.sum(A[c, x * 2 + r] * W[o, c, r], axis=[c, r]), name="B")
    out = np.zeros((3, 4), "float32")
    run_prim_func(te.create_prim_func([A, W, B]), [a, w, out])
    expected = [[sum(a[c, x * 2 + r] * w[o, c, r] for c in range(2) for r in range(3))
                 for x in range(4)] for o in range(3)]  # fmt: skip
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
    for text in (k := r, r + 1, 1 + r, r * 2, r // 2, r % 2, -r, r - 1):
        assert te.compute((1,), lambda i, t=text: A[0, t], name="x").dtype == "float32"
    assert k is r


def test_padding_then_reading():
    A = te.placeholder((4, 4), name="A")
    P = te.compute(
        (6, 6),
        lambda i, j: te.if_then_else(te.all(i >= 1, i < 5, j >= 1, j < 5), A[i - 1, j - 1], 0.0),
        name="P",
    )
    func = te.create_prim_func([A, P])
    check(
        func,
        """
        @T.prim_func
        def main(A: T.Buffer((4, 4), "float32"), P: T.Buffer((6, 6), "float32")):
            T.func_attr({"tir.noalias": True})
            # with T.block("root"):
            for i, j in T.grid(6, 6):
                with T.block("P"):
                    v_i, v_j = T.axis.remap("SS", [i, j])
                    T.reads(A[v_i - 1, v_j - 1])
                    T.writes(P[v_i, v_j])
                    P[v_i, v_j] = T.if_then_else(1 <= v_i and v_i < 5 and 1 <= v_j and v_j < 5, A[v_i - 1, v_j - 1], T.float32(0.0))
        """,  # noqa: E501
    )
    a, out = RNG.standard_normal((4, 4), "float32"), np.zeros((6, 6), "float32")
    run_prim_func(func, [a, out])
    np.testing.assert_array_equal(out, np.pad(a, 1))


def test_gather_reads_through_the_index():
    A, I = te.placeholder((5, 3), name="A"), te.placeholder((2,), "int64", "idx")
    B = te.compute((2, 3), lambda i, j: A[I[i], j], name="B")
    func = te.create_prim_func([A, I, B])
    block = func.body.block.body.body.body.block
    assert [str(r) for r in block.reads] == ["A[idx[v_i], v_j]", "idx[v_i]"]
    a, out = RNG.standard_normal((5, 3), "float32"), np.zeros((2, 3), "float32")
    run_prim_func(func, [a, np.array([4, 1]), out])
    np.testing.assert_array_equal(out, a[[4, 1]])


def test_attributes_become_annotations():
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i], name="B", attrs={"schedule_rule": "mine", "of": [A]})
    func = te.create_prim_func([A, B])
    annotations = func.body.block.body.body.block.annotations
    assert annotations["schedule_rule"] == "mine"
    assert annotations["of"] == (func.buffers[0],)


def test_scalar_parameters():
    A, alpha = te.placeholder((4,), name="A"), te.var("alpha", "float32")
    B = te.compute((4,), lambda i: A[i] * alpha, name="B")
    func = te.create_prim_func([A, alpha, B])
    out = np.zeros(4, "float32")
    run_prim_func(func, [np.arange(4, dtype="float32"), 0.5, out])
    np.testing.assert_array_equal(out, [0, 0.5, 1, 1.5])


def test_extern_writes_what_no_compute_can():
    A = te.placeholder((6,), name="A")

    def scan(ins, outs):
        i = te.var("i")
        first = tir.BufferStore(outs[0], ins[0][0], (tir.const(0),))
        step = tir.BufferStore(outs[0], outs[0][i] + ins[0][i + 1], (i + 1,))
        loop = tir.For(i, tir.const(0), tir.const(5), tir.ForKind.SERIAL, step)
        return tir.SeqStmt((first, loop))

    B = te.extern((6,), [A], scan, name="cumsum")
    func = te.create_prim_func([A, B])
    check(
        func,
        """
        @T.prim_func
        def main(A: T.Buffer((6,), "float32"), cumsum: T.Buffer((6,), "float32")):
            T.func_attr({"tir.noalias": True})
            with T.block("root"):
                T.reads()
                T.writes()
                with T.block("cumsum"):
                    T.reads(A[0:6], cumsum[0:5])
                    T.writes(cumsum[0:6])
                    cumsum[0] = A[0]
                    for i in range(5):
                        cumsum[i + 1] = cumsum[i] + A[i + 1]
        """,
    )
    out = np.zeros(6, "float32")
    run_prim_func(func, [np.arange(6, dtype="float32"), out])
    np.testing.assert_array_equal(out, np.cumsum(np.arange(6)))


def test_tensor_arithmetic_broadcasts():
    a, b = RNG.standard_normal((3, 1), "float32"), RNG.standard_normal((4,), "float32")
    A, B = te.placeholder((3, 1), name="A"), te.placeholder((4,), name="B")
    C = (A + B) * 2.0 - B / A
    out = np.zeros((3, 4), "float32")
    run_prim_func(te.create_prim_func([A, B, C]), [a, b, out])
    np.testing.assert_allclose(out, (a + b) * np.float32(2) - b / a, rtol=1e-6)
    assert (-A).astype("int32").dtype == "int32"
    with pytest.raises(MLCError, match="dimensions 3 and 2 do not broadcast"):
        te.placeholder((3,)) + te.placeholder((2,))


def test_diamonds_are_computed_once():
    A = te.placeholder((2,), name="A")
    B = te.compute((2,), lambda i: A[i] + 1.0, name="B")
    for _ in range(30):
        B = te.compute((2,), lambda i, t=B: t[i] + t[i], name="B")
    func = te.create_prim_func([A, B])
    assert len(func.body.block.body.seq) == 31


# errors


def fails(message, hint, fn):
    with pytest.raises(MLCError) as error:
        fn()
    assert (error.value.message, error.value.hint) == (message, hint)


def test_errors():
    A = te.placeholder((4, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    short = "tensor A has 2 dimensions, and is read with 1 index"
    fails(short, None, lambda: A(0))
    fails(short, None, lambda: te.compute((4,), lambda i: A[i]))
    fails("tensor A is indexed with a float32, not an integer", None, lambda: A[0, 0.5])
    fails(
        "compute C: the shape has 1 dimensions, the function takes 2 (i, j)",
        "one argument for each dimension: te.compute((n, m), lambda i, j: A[i, j])",
        lambda: te.compute((4,), lambda i, j: A[i, j], name="C"),
    )
    hint = "give the reduction a compute of its own, and read its result"
    fails(
        "compute C: a reduction must be the whole expression",
        hint,
        lambda: te.compute((4,), lambda i: te.sum(A[i, k], axis=k) + 1.0, name="C"),
    )
    C = te.compute((4,), lambda i: A[i, 0], name="C")
    fails(
        "create_prim_func: placeholder A is used but is no parameter",
        "list it among the arguments",
        lambda: te.create_prim_func([C]),
    )
    fails("create_prim_func: A is listed twice", None, lambda: te.create_prim_func([A, A, C]))
    n = te.var("n")
    D = te.compute((4,), lambda i: A[i, n], name="D")
    fails(
        "create_prim_func: variable n is bound by no parameter",
        "list it among the arguments, or give a parameter the shape that holds it",
        lambda: te.create_prim_func([A, D]),
    )


def test_tags_of_a_scope():
    A = te.placeholder((4,), name="A")

    @te.tag_scope(tag="conv")
    def double():
        return te.compute((4,), lambda i: A[i] * 2.0)

    with te.tag_scope("injective"):
        B = te.compute((4,), lambda i: A[i] + 1.0)
        C = te.compute((4,), lambda i: A[i] + 1.0, tag="own")
        fails(
            "tag_scope 'conv' stands in tag_scope 'injective'",
            None,
            double,
        )
    assert [t.op.tag for t in (B, C, double(), te.compute((4,), lambda i: A[i]))] == [
        "injective",
        "own",
        "conv",
        "",
    ]


def test_scans_are_tensors_that_have_no_loops():
    X = te.placeholder((5, 3), name="X")
    state = te.placeholder((5, 3), name="state")
    first = te.compute((1, 3), lambda _, i: X[0, i])
    step = te.compute((5, 3), lambda t, i: state[t - 1, i] + X[t, i])
    total = te.scan(first, step, state, inputs=[X], name="total")
    assert (total.name, total.ndim, total.dtype) == ("total", 2, "float32")
    message = "create_prim_func: Unsupported Operation: ScanOp. total has no loops"
    hint = "write the recurrence with te.extern, or in TVMScript with T.axis.scan"
    fails(message, hint, lambda: te.create_prim_func([X, total]))
    with pytest.raises(TypeError):
        te.create_prim_func([X, total])
    fails(
        "scan s: 2 starts, 1 steps and 1 states",
        None,
        lambda: te.scan([first, first], step, state, name="s"),
    )


def test_slices_take_the_indices_one_by_one():
    A = te.placeholder((2, 3, 4), name="A")
    load = A[1][2][3]
    assert load.producer is A and [int(i) for i in load.indices] == [1, 2, 3]
    assert A[1].dtype == "float32"
    assert A[1][2, 3].indices[2].value == 3


@T.prim_func
def add_one(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 4))
    B = T.match_buffer(b, (n, 4))
    for i, j in T.grid(n, 4):
        with T.block("add"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


def test_a_loop_function_fills_a_tensor():
    A = te.placeholder((3, 4), name="A")
    B = te.extern_primfunc([A], add_one)
    C = te.compute((3, 4), lambda i, j: B[i, j] * 2.0, name="C")
    func = te.create_prim_func([A, C])
    a = np.arange(12, dtype="float32").reshape(3, 4)
    out = np.zeros((3, 4), "float32")
    run_prim_func(func, [a, out])
    np.testing.assert_array_equal(out, (a + 1) * 2)
    n = te.var("n")
    open_size = te.extern_primfunc([te.placeholder((n, 4))], add_one)
    assert open_size.shape[0] is n
    fails(
        "extern_primfunc: A is float32 with 2 dimensions, and is given x, int32 with 1",
        None,
        lambda: te.extern_primfunc([te.placeholder((4,), "int32", name="x")], add_one),
    )
    fails(
        "extern_primfunc: 2 inputs, and the function has 2 buffers among 2 parameters",
        "its parameters are the inputs, then the results",
        lambda: te.extern_primfunc([A, A], add_one),
    )


def test_weights_of_free_layout_are_noted_of_the_function():
    A = te.placeholder((4, 4), name="A")
    B = te.placeholder((4, 4), name="B")
    free = {"layout_free_placeholders": [B]}
    C = te.compute((4, 4), lambda i, j: A[i, j] + B[i, j], name="C", attrs=free)
    D = te.compute((4, 4), lambda i, j: C[i, j] + 1.0, attrs={"layout_free_placeholders": [C]})
    func = te.create_prim_func([A, B, D])
    assert func.attrs["layout_free_buffers"] == (1,)
    one, two = (nest.body.body.block for nest in func.body.block.body.seq)
    assert "layout_free_placeholders" not in one.annotations
    assert [b.name for b in two.annotations["layout_free_placeholders"]] == ["C"]


def test_an_extern_may_be_one_call():
    A = te.placeholder((4,), name="A")

    def twice(source, target):
        target[:4] = source[:4] * 2

    mlcnb.register_func("tests.te.twice", twice, override=True)
    B = te.extern((4,), [A], lambda i, o: tir.call_packed("tests.te.twice", i[0], o[0]), name="B")
    func = te.create_prim_func([A, B])
    check(
        func,
        """
        @T.prim_func
        def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            T.func_attr({"tir.noalias": True})
            with T.block("root"):
                T.reads()
                T.writes()
                with T.block("B"):
                    T.reads(A[0:4], B[0:4])
                    T.writes(A[0:4], B[0:4])
                    T.call_packed("tests.te.twice", A.data, B.data)
        """,
    )
    a, b = RNG.standard_normal(4, "float32"), np.zeros(4, "float32")
    run_prim_func(func, [a, b])
    np.testing.assert_array_equal(b, a * 2)
    fails(
        "extern B: a statement or a call is wanted, not None",
        None,
        lambda: te.extern((4,), [A], lambda i, o: None, name="B"),
    )


def prefix_sums(extent):
    """B[i] = the sum of the first `extent(i)` elements of row i."""
    A = te.placeholder((6, 8), name="A")
    B = te.compute((6,), lambda i: te.sum(A[i, row(extent(i))], axis=runs[-1]), name="B")
    return te.create_prim_func([A, B])


runs = []


def row(extent):
    runs.append(te.reduce_axis((0, extent), "k"))
    return runs[-1]


def test_a_reduce_axis_that_depends_on_the_place():
    func = prefix_sums(lambda i: i + 1)
    check(
        func,
        """
        @T.prim_func
        def main(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6,), "float32")):
            T.func_attr({"tir.noalias": True})
            # with T.block("root"):
            for i in range(6):
                with T.block("B_1"):
                    v_i = T.axis.spatial(6, i)
                    T.reads(A[v_i, 0:v_i + 1])
                    T.writes(B[v_i])
                    for k in range(v_i + 1):
                        with T.block("B"):
                            v_i_1 = T.axis.spatial((v_i, v_i + 1), v_i)
                            v_k = T.axis.reduce(v_i + 1, k)
                            T.reads(A[v_i_1, v_k])
                            T.writes(B[v_i_1])
                            with T.init():
                                B[v_i_1] = T.float32(0.0)
                            B[v_i_1] = B[v_i_1] + A[v_i_1, v_k]
        """,
    )


@pytest.mark.parametrize(
    "extent", [lambda i: i + 1, lambda i: i, lambda i: 7 - i, lambda i: i // 3]
)
def test_a_row_that_may_be_empty_sums_to_zero(extent):
    func = prefix_sums(extent)
    a = RNG.random((6, 8), dtype="float32")
    expected = np.array([a[i, : extent(i)].sum() for i in range(6)], "float32")
    for run in (lambda *arrays: run_prim_func(func, list(arrays)), mlcnb.compile(func)):
        b = np.full(6, np.nan, "float32")
        run(a, b)
        np.testing.assert_allclose(b, expected, rtol=1e-5)


def test_reduce_axes_that_depend_on_each_other_are_refused():
    A = te.placeholder((6, 8), name="A")
    k = te.reduce_axis((0, 6), "k")
    j = te.reduce_axis((0, k.var + 1), "j")
    B = te.compute((1,), lambda i: te.sum(A[k, j], axis=[k, j]), name="B")
    with pytest.raises(MLCError) as error:
        te.create_prim_func([A, B])
    assert str(error.value) == (
        "create_prim_func: B: a reduce axis depends on another one\n"
        "hint: reduce over both in their full ranges, with a condition (where=)"
    )


def test_div_of_integers_rounds_towards_zero():
    """As tir.div (it was refused)."""
    i = te.var("i")
    assert te.div(i, 2).script() == "T.Div(i, 2)"
    assert te.div(te.var("x", "float32"), 2.0).script() == "x / T.float32(2.0)"

"""Analyses of loop programs: regions, patterns, costs, structure, well-formedness."""

from __future__ import annotations

from textwrap import dedent, indent

import numpy as np
import pytest

from mlcnb import te, tir
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import MLCError, WellFormedError
from mlcnb.core.node import FrozenDict, replace, rewrite
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir import analysis


def func_of(text):
    return parse(dedent(text))


def regions(text, name):
    """Reads and writes of a block as its body has them, as text."""
    block = analysis.find_block(func_of(text), name).block
    reads, writes = analysis.detect_buffer_access(block)
    return [str(r) for r in reads], [str(w) for w in writes]


# regions


def test_a_loop_as_long_as_a_local_buffer_says_reaches_everywhere():
    """What only the block knows cannot stand in its regions."""
    text = """
        @T.prim_func
        def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
            with T.block("X"):
                n = T.alloc_buffer((1,), "int32")
                n[0] = A[3]
                for k in range(n[0]):
                    B[k] = A[k]
        """
    assert regions(text, "X") == (["A[0:16]"], ["B[0:16]"])


def test_a_view_of_memory_that_lives_in_a_block_is_no_region_of_it():
    text = """
        @T.prim_func
        def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
            with T.block("X"):
                n = T.alloc_buffer((4, 4), "int32")
                flat = T.decl_buffer((16,), "int32", data=n.data)
                for k in range(16):
                    flat[k] = A[k]
                    B[k] = n[k // 4, k % 4]
        """
    assert regions(text, "X") == (["A[0:16]"], ["B[0:16]"])


@pytest.mark.parametrize(
    ("body", "reads", "writes"),
    [
        ("B[vi] = A[vi]", ["A[vi]"], ["B[vi]"]),
        ("B[vi] = A[vi] + A[vi + 1]", ["A[vi:vi + 2]"], ["B[vi]"]),
        ("B[vi] = A[vi * 4 + 2] + A[vi * 4]", ["A[vi * 4:vi * 4 + 3]"], ["B[vi]"]),
        ("B[vi] = A[T.Cast('int32', C[vi])]", ["A[T.Cast('int32', C[vi])]", "C[vi]"], ["B[vi]"]),
        ("B[vi] = T.if_then_else(vi > 0, A[vi - 1], T.float32(0))", ["A[vi - 1]"], ["B[vi]"]),
        ("for j in range(4):\n    B[vi * 4 + j] = A[j]", ["A[0:4]"], ["B[vi * 4:vi * 4 + 4]"]),
        ("for j in range(4):\n    B[vi] = A[vi + 3 - j]", ["A[vi:vi + 4]"], ["B[vi]"]),
        ("for j in range(3):\n    B[vi] = A[(vi * 6 + j * 2) % 16]", ["A[0:15]"], ["B[vi]"]),
        ("for j, k in T.grid(4, 2):\n    B[vi] = A[(j * 2 + k) // 4]", ["A[0:2]"], ["B[vi]"]),
        (
            "for j in range(8):\n    B[vi] = A[T.min(vi * 4 + j, 15)]",
            ["A[vi * 4:vi * 4 + T.min(16 - vi * 4, 8)]"],
            ["B[vi]"],
        ),
        (
            "for j in range(2):\n    B[vi] = A[T.Cast('int32', C[j])]",
            ["A[0:16]", "C[0:2]"],
            ["B[vi]"],
        ),
        ("B[vi] = B[vi] + A[vi]", ["B[vi]", "A[vi]"], ["B[vi]"]),
    ],
)  # fmt: skip
def test_regions_of_a_block(body, reads, writes):
    text = dedent("""
        @T.prim_func
        def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"),
                 C: T.Buffer((16,), "float32")):
            for i in range(4):
                with T.block("X"):
                    vi = T.axis.spatial(4, i)
        """) + "\n".join("            " + line for line in body.split("\n"))
    found = regions(text, "X")
    expected = [[x.replace("'", '"') for x in side] for side in (reads, writes)]
    assert [list(side) for side in found] == expected


def test_what_a_reduction_updates_is_not_read():
    text = """
        @T.prim_func
        def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
            for i, k in T.grid(4, 8):
                with T.block("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]
        """
    assert regions(text, "B") == (["A[vi, vk]"], ["B[vi]"])


def test_inner_blocks_count_with_their_regions():
    text = """
        @T.prim_func
        def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
            for io in range(4):
                with T.block("outer"):
                    vio = T.axis.spatial(4, io)
                    for ii in range(4):
                        with T.block("inner"):
                            vi = T.axis.spatial(16, vio * 4 + ii)
                            B[vi] = A[vi]
        """
    assert regions(text, "outer") == (["A[vio * 4:vio * 4 + 4]"], ["B[vio * 4:vio * 4 + 4]"])


def test_buffers_inside_do_not_appear_and_matched_ones_do_by_their_source():
    text = """
        @T.prim_func
        def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
            for i in range(2):
                with T.block("X"):
                    vi = T.axis.spatial(2, i)
                    M = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:8], (4, 8), offset_factor=1)
                    t = T.alloc_buffer((8,))
                    for x in range(8):
                        t[x] = M[x // 2, x]
                        B[vi, x] = t[x]
        """
    assert regions(text, "X") == (["A[vi * 4:vi * 4 + 4, 0:8]"], ["B[vi, 0:8]"])


def test_regions_hold_what_the_interpreter_sees():
    """Every recorded access of a random-ish program lies in the region of its block."""
    func = func_of("""
        @T.prim_func
        def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
            for i in range(6):
                with T.block("X"):
                    vi = T.axis.spatial(6, i)
                    for j, k in T.grid(5, 3):
                        B[vi * 7 + j + k * 2] = A[(vi * 3 + j * 4) % 32 + T.max(k - vi, 0)]
        """)
    record = []
    run_prim_func(func, [np.zeros(64, "float32"), np.zeros(64, "float32")], record)
    block = analysis.find_block(func, "X").block
    (read,), (write,) = analysis.detect_buffer_access(block)
    for name, at, _, loops in record:
        region = (read if name == "A" else write).region[0]
        axis = block.iter_vars[0].var
        low, extent = (_value(x, axis, loops["i"]) for x in (region.min, region.extent))
        assert low <= at < low + extent


def _value(x, var, value):
    from mlcnb.arith import simplify

    found = simplify(rewrite(x, lambda n: None, enter={var: p.const(value)}.get))
    assert isinstance(found, tir.IntImm)
    return found.value


# patterns, costs


def placeholders():
    return (
        te.placeholder((8, 8), name="A"),
        te.placeholder((8,), name="b"),
        te.reduce_axis((0, 8), "k"),
    )


def conv():
    A = te.placeholder((1, 3, 6, 6), name="A")
    W = te.placeholder((4, 3, 3, 3), name="W")
    c, r, s = te.reduce_axis((0, 3)), te.reduce_axis((0, 3)), te.reduce_axis((0, 3))
    pad = te.compute(
        (1, 3, 8, 8),
        lambda n, i, y, x: te.if_then_else(
            te.all(y >= 1, y < 7, x >= 1, x < 7), A[n, i, y - 1, x - 1], 0.0
        ),
        name="pad",
    )
    return (
        A,
        W,
        te.compute(
            (1, 4, 6, 6),
            lambda n, o, y, x: te.sum(pad[n, c, y + r, x + s] * W[o, c, r, s], axis=[c, r, s]),
            name="conv",
        ),
    )


def softmax():
    A = te.placeholder((4, 8), name="A")
    k, k2 = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 8), "k")
    largest = te.compute((4,), lambda i: te.max(A[i, k], axis=k), name="max")
    power = te.compute((4, 8), lambda i, j: te.exp(A[i, j] - largest[i]), name="exp")
    total = te.compute((4,), lambda i: te.sum(power[i, k2], axis=k2), name="sum")
    return A, te.compute((4, 8), lambda i, j: power[i, j] / total[i], name="softmax")


def pattern_cases():
    """Functions and the kinds that TVM's AnnotateTIROpPattern gives them."""
    A, b, k = placeholders()
    r = te.reduce_axis((0, 3), "r")
    B, idx = te.placeholder((8, 8), name="B"), te.placeholder((4,), "int32", "idx")
    rows = te.compute((8,), lambda i: te.sum(A[i, k], axis=k))
    square = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k))
    pair = te.comm_reducer(argmax, lambda i, v: (tir.const(-1, i), te.min_value(v)))
    yield "elementwise", (A, te.compute((8, 8), lambda i, j: te.exp(A[i, j]))), 0
    yield "constant", (te.compute((8,), lambda i: tir.const(1.0)),), 0
    yield "bias", (A, b, te.compute((8, 8), lambda i, j: A[i, j] + b[j])), 0
    yield "head", (b, te.compute((4,), lambda i: b[i])), 0
    yield "broadcast", (b, te.compute((8, 8), lambda i, j: b[j])), 1
    yield "transpose", (A, te.compute((8, 8), lambda i, j: A[j, i])), 2
    yield "stride", (b, te.compute((4,), lambda i: b[i * 2])), 2
    yield "gather", (b, idx, te.compute((4,), lambda i: b[idx[i]])), 8
    yield "sum", (A, rows), 3
    yield "argmax", (A, *te.compute((8,), lambda i: pair((k.var, A[i, k]), axis=k))), 3
    yield "gemv", (A, b, te.compute((8,), lambda i: te.sum(A[i, k] * b[k], axis=k))), 3
    yield "mean", (A, te.compute((8,), lambda i: rows[i] * 0.125)), 4
    yield "softmax", softmax(), 4
    yield "matmul", (A, B, square), 4
    yield "relu", (A, B, te.compute((8, 8), lambda i, j: te.max(square[i, j], 0.0))), 4
    yield "pooling", (b, te.compute((6,), lambda i: te.max(b[i + r], axis=r))), 4
    yield "conv", conv(), 4
    yield "extern", (b, te.extern((8,), [b], first_element)), 8


def argmax(lhs, rhs):
    is_left = lhs[1] >= rhs[1]
    return te.Select(is_left, lhs[0], rhs[0]), te.Select(is_left, lhs[1], rhs[1])


def first_element(ins, outs):
    return tir.BufferStore(outs[0], ins[0][0], (p.const(0),))


@pytest.mark.parametrize(("name", "args", "kind"), list(pattern_cases()), ids=lambda x: str(x)[:12])
def test_op_pattern(name, args, kind):
    assert analysis.op_pattern(te.create_prim_func(args)) == kind


def test_costs():
    A, W, C = conv()
    func = te.create_prim_func([A, W, C])
    assert analysis.flops(func) == 2 * 4 * 6 * 6 * 27
    assert {b.name: n for b, n in analysis.bytes_touched(func).items()} == {
        "A": 3 * 36 * 4, "W": 4 * 27 * 4, "conv": 4 * 36 * 4,
    }  # fmt: skip
    assert analysis.allocated_bytes(func) == {"global": 3 * 64 * 4}
    assert analysis.arithmetic_intensity(func) == 2 * 4 * 36 * 27 / (432 + 432 + 576)


def test_only_what_a_strided_access_comes_to_is_counted():
    A = te.placeholder((64,), name="A")
    func = te.create_prim_func([A, te.compute((16,), lambda i: A[i * 4])])
    assert list(analysis.bytes_touched(func).values()) == [64, 64]


def test_costs_over_symbolic_dimensions_are_expressions():
    n = te.var("n", "int64")
    A = te.placeholder((n, 4), name="A")
    func = te.create_prim_func([A, te.compute((n, 4), lambda i, j: A[i, j] * 2.0 + 1.0)])
    assert str(analysis.flops(func)) == "n * T.int64(8)"
    assert [str(v) for v in analysis.bytes_touched(func).values()] == ["n * T.int64(16)"] * 2
    assert analysis.arithmetic_intensity(func, {n: 10}) == 0.25


def test_costs_do_not_change_when_a_split_does_not_divide_or_buffers_are_flattened():
    A, k = te.placeholder((20, 8), name="A"), te.reduce_axis((0, 8), "k")
    func = te.create_prim_func([A, te.compute((20,), lambda i: te.sum(A[i, k], axis=k), "C")])
    schedule = tir.Schedule(func)
    schedule.split(schedule.get_loops("C")[0], [None, 8])
    split = schedule.mod["main"]
    for version in (func, split, tir.transform.lower(func)):
        assert analysis.flops(version) == 160
        assert list(analysis.bytes_touched(version).values()) == [640, 80]


# structure

NESTED = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    with T.block("root"):
        t = T.alloc_buffer((16,))
        for i in range(4):
            for j in range(4):
                with T.block("t"):
                    vi = T.axis.spatial(16, i * 4 + j)
                    t[vi] = A[vi]
            for k in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(16, i * 4 + k)
                    B[vi] = t[vi]
"""


def test_loops_and_blocks():
    func = func_of(NESTED)
    block = analysis.find_block(func, "B")
    assert [loop.loop_var.name for loop in analysis.loops_above(func, block)] == ["i", "k"]
    assert [x.block.name_hint for x in analysis.blocks_of(func)] == ["t", "B"]
    assert analysis.parent_map(func)[block].loop_var.name == "k"
    with pytest.raises(MLCError) as error:
        analysis.find_block(func, "C")
    assert str(error.value) == "no block of name 'C'\nhint: the blocks are t, B"


def test_where_the_uses_of_a_buffer_meet():
    func = func_of(NESTED)
    found = {b.name: x for b, x in analysis.detect_buffer_access_lca(func).items()}
    assert found["A"] is None and found["B"] is None
    assert isinstance(found["t"], tir.For) and found["t"].loop_var.name == "i"


# well-formedness


def pieces():
    A, B = tir.decl_buffer((8,), name="A"), tir.decl_buffer((8,), name="B")
    pa, pb = tir.Var("a", dtype("handle")), tir.Var("b", dtype("handle"))
    return A, B, lambda body: tir.PrimFunc((pa, pb), body, None, FrozenDict({pa: A, pb: B}))


def loop_over(var, body):
    return tir.For(var, p.const(0), p.const(8), tir.ForKind.SERIAL, body)


def ill_formed():
    A, B, func = pieces()
    i, j = tir.Var("i"), tir.Var("j")
    store = tir.BufferStore(B, A[i], (i,))
    C = tir.decl_buffer((8,), name="C")
    axis = tir.IterVar(tir.Range(p.const(0), p.const(8)), tir.Var("vi"))
    block = tir.Block((axis,), (), (), "X", store)
    yield "variable i is used but not defined", func(store)
    yield "variable i is defined twice", func(loop_over(i, loop_over(i, store)))
    yield "buffer C is used but not declared", func(loop_over(i, tir.BufferStore(C, A[i], (i,))))
    yield (
        "buffer A has 1 dimensions and is indexed with 2",
        func(loop_over(i, tir.BufferStore(B, tir.BufferLoad(A, (i, i)), (i,)))),
    )
    yield (
        "an index of A is float32, not an integer",
        func(loop_over(i, tir.BufferStore(B, tir.BufferLoad(A, (p.const(1.0),)), (i,)))),
    )
    yield (
        "a int32 is stored to B, which takes float32",
        func(loop_over(i, tir.BufferStore(B, i, (i,)))),
    )
    yield (
        "Add of int32 and float32",
        func(loop_over(i, tir.BufferStore(B, tir.Add(i, A[i]), (i,)))),
    )
    yield "a condition is int32, not bool", func(loop_over(i, tir.IfThenElse(i, store)))
    yield (
        "block X has 1 axes and 0 values for them",
        func(loop_over(i, tir.BlockRealize((), p.const(True), block))),
    )
    yield (
        "block X uses loop variable i, which is not its axis",
        func(loop_over(i, tir.BlockRealize((i,), p.const(True), block))),
    )
    yield (
        "the start of a loop is float32, not an integer",
        func(tir.For(j, p.const(0.0), p.const(8), tir.ForKind.SERIAL, tir.Evaluate(p.const(0)))),
    )
    yield (
        "loop j is bound to no thread axis",
        func(replace(loop_over(j, tir.Evaluate(p.const(0))), kind=tir.ForKind.THREAD_BINDING)),
    )


@pytest.mark.parametrize(("message", "func"), list(ill_formed()), ids=lambda x: str(x)[:30])
def test_ill_formed(message, func):
    with pytest.raises(WellFormedError) as error:
        analysis.verify_well_formed(func)
    assert error.value.message == message
    assert analysis.verify_well_formed(func, assert_mode=False) is False


def test_well_formed():
    assert analysis.verify_well_formed(func_of(NESTED))
    assert analysis.verify_well_formed(te.create_prim_func(conv()))


def test_undefined_variables():
    A, B, _ = pieces()
    i, n = tir.Var("i"), tir.Var("n")
    store = tir.BufferStore(B, A[i] + n.astype("float32"), (i,))
    assert [v.name for v in analysis.undefined_vars(store)] == ["B", "A", "i", "n"]
    loop = loop_over(i, store)
    assert [v.name for v in analysis.undefined_vars(loop, [A.data, B.data])] == ["n"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "for i in range(16):\n  with T.block('b'):\n    v = T.axis.spatial(8, i)\n"
            "    A[v] = 0.0",
            "axis v of block b takes the value 8 at i = 8, outside of its domain 0..8",
        ),
        (
            "for i, j in T.grid(4, 5):\n  with T.block('b'):\n"
            "    v = T.axis.spatial((1, 16), 12 - i * 4 + j)\n    A[v] = 0.0",
            "axis v of block b takes the value 16 at i = 0, j = 4, outside of its domain 1..16",
        ),
        (
            "with T.block('b'):\n  v = T.axis.opaque(4, 4)\n  A[v] = 0.0",
            "axis v of block b takes the value 4, outside of its domain 0..4",
        ),
        (
            "for i in range(n):\n  with T.block('b'):\n    v = T.axis.spatial(8, i)\n"
            "    A[v] = 0.0",
            "axis v of block b takes the value 8 at n = 9, i = 8, outside of its domain 0..8",
        ),
    ],
)
def test_an_axis_outside_of_its_domain_is_refused(lines: str, message: str) -> None:
    head = '@T.prim_func\ndef main(A: T.Buffer((16,), "float32"), n: T.int32):\n'
    with pytest.raises(WellFormedError) as caught:
        parse(head + indent(lines, "    "), check_well_formed=True)
    assert caught.value.message == message
    assert caught.value.hint == "give the axis the extent that its loops have, or add T.where"


@pytest.mark.parametrize(
    "lines",
    [
        # the predicate, a branch, or no iteration at all keep it away
        "for i in range(16):\n  with T.block('b'):\n    v = T.axis.spatial(8, i)\n"
        "    T.where(i < 8)\n    A[v] = 0.0",
        "for i in range(16):\n  if i < 8:\n    with T.block('b'):\n      v = T.axis.spatial(8, i)\n"
        "      A[v] = 0.0",
        "for i in range(9, 8):\n  with T.block('b'):\n    v = T.axis.spatial(8, i)\n    A[v] = 0.0",
    ],
)
def test_an_axis_that_is_kept_inside_is_left_alone(lines: str) -> None:
    head = '@T.prim_func\ndef main(A: T.Buffer((16,), "float32"), n: T.int32):\n'
    parse(head + indent(lines, "    "), check_well_formed=True)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "for i in T.parallel(16):\n  if i > n:\n    break\n  A[i] = 0.0",
            "loop i is parallel: `break` needs a serial loop",
        ),
        (
            "for i in range(16):\n  if i > n:\n    break\n  with T.block('b'):\n"
            "    v = T.axis.spatial(16, i)\n    A[v] = 0.0",
            "loop i is left early and holds a block",
        ),
        ("return 1.0", "float32 is returned, the signature says int32"),
    ],
)
def test_what_leaves_a_loop_or_a_function_fits_it(lines: str, message: str) -> None:
    head = '@T.prim_func\ndef main(A: T.Buffer((16,), "float32"), n: T.int32) -> T.int32:\n'
    with pytest.raises(WellFormedError) as caught:
        parse(head + indent(lines, "    "), check_well_formed=True)
    assert caught.value.message == message


def test_bytes_touched_where_loops_come_to_more_than_an_integer_says():
    """Each part of an index may take all values of its loops: their product may bound nothing."""

    @T.prim_func
    def func(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i, j, k in T.grid(4096, 4096, 4096):
            B[(i * 7 + j) % 3 + (j * 5 + k) % 5 + (k * 3 + i) % 7] = A[
                (i + j * 3 + k) // 3 % 4 + (i * 3 + j + k) // 5 % 4 + (i + j + k * 7) % 4
            ]

    assert list(analysis.bytes_touched(func).values()) == [40, 52]

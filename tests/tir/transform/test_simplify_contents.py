"""Simplify by what buffers hold."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as tvm
from mlcnb.codegen.interp import run_prim_func
from mlcnb.script import tir as T
from mlcnb.tir.transform import Simplify

PROVE = "propagate_knowns_to_prove_conditional"
PUT_IN = "propagate_knowns_to_simplify_expressions"


def simplified(func, *options):
    mod = tvm.IRModule.from_expr(func)
    with tvm.transform.PassContext(config={"tir.Simplify": dict.fromkeys(options, True)}):
        return Simplify()(mod)["main"]


def becomes(before, expected, *options):
    tvm.ir.assert_structural_equal(simplified(before, *(options or (PROVE,))), expected)


def test_a_stored_value_decides():
    @T.prim_func(private=True)
    def before(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32"), n: T.int32):
        A[0] = 3
        A[1] = n
        if A[0] + A[1] == n + 3:
            B[0] = A[0]
        if A[0] == n:
            B[1] = 1

    @T.prim_func(private=True)
    def expected(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32"), n: T.int32):
        A[0] = 3
        A[1] = n
        B[0] = A[0]
        if A[0] == n:
            B[1] = 1

    @T.prim_func(private=True)
    def put_in(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32"), n: T.int32):
        A[0] = 3
        A[1] = n
        B[0] = 3
        if n == 3:
            B[1] = 1

    becomes(before, expected)
    after = simplified(before, PROVE, PUT_IN)
    assert "B[0] = 3" in after.script()
    becomes(before, before.with_body(before.body), "convert_boolean_to_and_of_ors")


def test_a_test_says_what_is_there_until_it_is_written():
    @T.prim_func(private=True)
    def before(A: T.Buffer((1,), "int32"), n: T.int32):
        if A[0] == n:
            A[0] = A[0] + 1
            if A[0] == n:
                A[0] = 5
            else:
                A[0] = 10

    @T.prim_func(private=True)
    def expected(A: T.Buffer((1,), "int32"), n: T.int32):
        if A[0] == n:
            A[0] = A[0] + 1
            A[0] = 10

    becomes(before, expected)


def test_what_a_side_writes_is_open_behind_it():
    @T.prim_func(private=True)
    def before(A: T.Buffer((1,), "int32"), n: T.int32, m: T.int32):
        if A[0] == n:
            if m == 0:
                A[0] = A[0] + 1
            if A[0] == n:
                A[0] = 5
            else:
                A[0] = 10

    becomes(before, before)


def test_what_is_assumed_holds_in_its_scope():
    @T.prim_func(private=True)
    def before(A: T.Buffer((3,), "int32"), n: T.int32, m: T.int32):
        if m == 0:
            T.assume(n == 0)
            if n == 0:
                A[0] = 1
        if n == 0:
            A[1] = 2
        T.assume(A[2] == 7)
        if A[2] < n and A[2] == 7:
            A[2] = 8

    @T.prim_func(private=True)
    def expected(A: T.Buffer((3,), "int32"), n: T.int32, m: T.int32):
        if m == 0:
            T.assume(n == 0)
            A[0] = 1
        if n == 0:
            A[1] = 2
        T.assume(A[2] == 7)
        if A[2] < n and A[2] == 7:
            A[2] = 8

    becomes(before, expected)


def test_what_every_iteration_says_holds_behind_the_loop():
    @T.prim_func(private=True)
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(14):
            A[i + 2] = i
        for j in range(16):
            if 2 <= j:
                if A[j] == j - 2:
                    B[j] = 1
            if A[j] == j - 2:
                B[j] = 2

    @T.prim_func(private=True)
    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(14):
            A[i + 2] = i
        for j in range(16):
            if 2 <= j:
                B[j] = 1
            if A[j] == j - 2:
                B[j] = 2

    becomes(before, expected)


def test_an_assumption_under_a_test():
    @T.prim_func(private=True)
    def before(A: T.Buffer((16,), "int32")):
        for i in range(16):
            T.assume(i < 14 or A[i] == 0)
        for i in range(16):
            if 14 <= i:
                if A[i] == 0:
                    A[i] = 42
            else:
                if A[i] == 0:
                    A[i] = 100

    @T.prim_func(private=True)
    def expected(A: T.Buffer((16,), "int32")):
        for i in range(16):
            T.assume(i < 14 or A[i] == 0)
        for i in range(16):
            if 14 <= i:
                A[i] = 42
            else:
                if A[i] == 0:
                    A[i] = 100

    becomes(before, expected)


@pytest.mark.parametrize("between", ["A[n] = 1", "T.call_extern('int32', 'f', A.data)", "A[0] = 1"])
def test_what_may_write_ends_it(between):
    text = f"""
    @T.prim_func(private=True)
    def main(A: T.Buffer((2,), "int32"), B: T.Buffer((2,), "int32"), n: T.int32):
        A[0] = 0
        {between}
        if A[0] == 0:
            B[0] = 1
    """
    func = tvm.script.from_source(dedent(text))
    after = simplified(func, PROVE)
    assert ("if" in after.script()) is ("A[0] = 1" not in between)


def test_loops_that_are_not_in_order_and_blocks_say_nothing():
    @T.prim_func(private=True)
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
        for i in T.parallel(16):
            A[i] = 0
        for i in range(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = 1
        for _i in range(n):
            B[0] = 2
        for i in range(16):
            if A[i] == 0:
                A[i] = 1
            if B[0] == 2:
                A[i] = 2

    becomes(before, before)


def test_vectors_and_iterations_that_share_nothing():
    @T.prim_func(private=True)
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        A[0:4] = T.broadcast(7, 4)
        A[T.ramp(4, 1, 4)] = T.ramp(11, 2, 4)
        if A[5] == 13:
            B[0] = 1
        for i in range(8):
            B[i] = 0
        for i in range(8):
            if B[i] < 10:
                B[i] = A[i] + B[i]
            if B[i] < 10:
                B[i] = 3

    @T.prim_func(private=True)
    def expected(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        A[0:4] = T.broadcast(7, 4)
        A[T.ramp(4, 1, 4)] = T.ramp(11, 2, 4)
        B[0] = 1
        for i in range(8):
            B[i] = 0
        for i in range(8):
            B[i] = A[i] + B[i]
            if B[i] < 10:
                B[i] = 3

    becomes(before, expected)


def test_what_has_a_second_name_says_nothing():
    @T.prim_func(private=True)
    def views(A: T.Buffer((4,), "int32")):
        A[0] = 0
        with T.block("view"):
            T.reads()
            T.writes(A[0:4])
            V = T.match_buffer(A[0:4], (4,), "int32")
            V[0] = 1
        if A[0] == 0:
            A[1] = 2

    @T.prim_func(private=True)
    def pointers(A: T.Buffer((4,), "int32")):
        again: T.handle("int32") = A.data
        V = T.decl_buffer((4,), "int32", data=again)
        A[0] = 0
        V[0] = 1
        if A[0] == 0:
            A[1] = 2

    @T.prim_func(private=True)
    def sums(A: T.Buffer((8,), "int32")):
        for i in range(4):
            for j in range(4):
                A[i + j] = i
        for k in range(7):
            if A[k] == 0:
                A[7] = 1

    @T.prim_func(private=True)
    def starts(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.reduce(4, i)
                T.reads(A[0])
                T.writes(A[0], B[0])
                with T.init():
                    if A[0] == 5:
                        B[0] = 1
                A[0] = 5

    for func in (views, pointers, sums, starts):
        becomes(func, func)


_TARGETS = ["0", "1", "n", "i", "i + 1", "3 - i"]
_VALUES = ["0", "1", "n", "i", "A[0]", "A[i] + 1", "A[n]"]
_TESTS = ["A[0] == 0", "A[i] == i", "i < 2", "A[n] == n", "A[1] < 2", "n == 1", "A[i] == A[0]"]


def _lines(draw, depth, indent, loops):
    made = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from("ssif" if depth else "s"))
        var = loops[-1]
        if kind == "s":
            target, value = draw(st.sampled_from(_TARGETS)), draw(st.sampled_from(_VALUES))
            made.append(f"{indent}A[{target}] = {value}".replace("i", var))
        elif kind == "i":
            test = draw(st.sampled_from(_TESTS)).replace("i", var)
            made.append(f"{indent}if {test}:")
            made += _lines(draw, depth - 1, indent + "    ", loops)
            if draw(st.booleans()):
                made.append(f"{indent}else:")
                made += _lines(draw, depth - 1, indent + "    ", loops)
        else:
            fresh = f"j{len(indent)}{len(made)}"
            extent = draw(st.sampled_from(["4", "n", "1", "2"]))
            made.append(f"{indent}for {fresh} in range({extent}):")
            made += _lines(draw, depth - 1, indent + "    ", [*loops, fresh])
    return made


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_random_programs_mean_the_same(data):
    lines = _lines(data.draw, 3, "        ", ["k"])
    text = (
        "@T.prim_func(private=True)\n"
        'def main(A: T.Buffer((5,), "int32"), n: T.int32):\n'
        "    for k in range(4):\n" + "\n".join(lines)
    )
    func = tvm.script.from_source(text)
    after = simplified(func, PROVE, PUT_IN)
    for n in (0, 1, 3):
        for start in ([0, 0, 0, 0, 0], [0, 1, 2, 3, 4], [1, 0, 1, 3, 0]):
            one, two = np.array(start, "int32"), np.array(start, "int32")
            run_prim_func(func, [one, n])
            run_prim_func(after, [two, n])
            np.testing.assert_array_equal(one, two, err_msg=text)

"""Rewriting by patterns: whole programs before and after, and what a rewriter may not do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb import relax
from mlcnb import transform as tvm_transform
from mlcnb.core.errors import PassError
from mlcnb.ir import assert_structural_equal
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.relax.dpl import PatternContext, is_op, rewrite_bindings, rewrite_call, wildcard
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from tests.relax.harness import as_module, same_numbers


def checked(before: Any, after: Any, expected: Any) -> None:
    assert_structural_equal(after, expected)
    assert_well_formed(as_module(after))
    same_numbers(before, after)


def test_rewrite_call_until_nothing_matches() -> None:
    @R.function(private=True)
    def main(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            x2 = R.add(x, x)
            x4 = R.add(x2, x2)
            R.output(x4)
        return x4

    @R.function(private=True)
    def expected(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            x2 = R.multiply(x, R.const(2, "float32"))
            x4 = R.multiply(x2, R.const(2, "float32"))
            R.output(x4)
        return x4

    x = wildcard()
    twice = is_op("relax.add")(x, x)
    after = rewrite_call(twice, lambda _, found: R.multiply(found[x], R.const(2, "float32")), main)
    checked(main, after, expected)

    @R.function(private=True)
    def at_once(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            x4 = R.multiply(x, R.const(4, "float32"))
            R.output(x4)
        return x4

    inner = is_op("relax.add")(x, x)
    four = is_op("relax.add")(inner, inner)
    after = rewrite_call(four, lambda _, found: R.multiply(found[x], R.const(4, "float32")), main)
    checked(main, after, at_once)
    assert rewrite_call(twice, lambda call, _: call, main) is main
    assert rewrite_call(is_op("relax.exp")(wildcard()), lambda call, _: call, main) is main


def test_a_value_that_is_bound_is_named_again() -> None:
    """A part that is a call comes to the rewriter as the call, and leaves it as its variable."""

    @R.function(private=True)
    def main(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.nn.relu(a)
            c = R.add(a, b)
            R.output(c)
        return c

    @R.function(private=True)
    def expected(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.maximum(a, R.const(0.0, "float32"))
            c = R.add(a, b)
            R.output(c)
        return c

    w = wildcard()
    seen = []

    def rewriter(call: Any, found: Any) -> Any:
        seen.append(found[w].op.name)
        return R.maximum(found[w], R.const(0.0, "float32"))

    checked(main, rewrite_call(is_op("relax.nn.relu")(w), rewriter, main), expected)
    assert seen == ["relax.exp"]


def test_rewrite_bindings_joins_products() -> None:
    """Three products of one input become one, whose shared part is computed once."""

    @R.function(private=True)
    def main(
        x: R.Tensor((2, 8), "float32"),
        w0: R.Tensor((8, 4), "float32"),
        w1: R.Tensor((8, 4), "float32"),
    ):
        with R.dataflow():
            a = R.matmul(x, w0)
            b = R.nn.relu(a)
            c = R.matmul(x, w1)
            d = R.add(b, c)
            R.output(d)
        return d

    @R.function(private=True)
    def expected(
        x: R.Tensor((2, 8), "float32"),
        w0: R.Tensor((8, 4), "float32"),
        w1: R.Tensor((8, 4), "float32"),
    ):
        with R.dataflow():
            lv = R.concat((w0, w1), axis=1)
            lv1 = R.matmul(x, lv)
            lv2 = R.split(lv1, indices_or_sections=2, axis=1)
            a = lv2[0]
            b = R.nn.relu(a)
            c = lv2[1]
            d = R.add(b, c)
            R.output(d)
        return d

    with PatternContext() as ctx:
        inp, one, two = wildcard(), wildcard(), wildcard()
        first = is_op("relax.matmul")(inp, one)
        second = is_op("relax.matmul")(inp, two)

    def rewriter(found: Any, values: Any) -> Any:
        whole = R.matmul(found[inp], R.concat([found[one], found[two]], axis=1))
        halves = R.split(whole, 2, axis=1)
        return {
            found[first]: relax.TupleGetItem(halves, 0),
            found[second]: relax.TupleGetItem(halves, 1),
        }

    checked(main, rewrite_bindings(ctx, rewriter, main), expected)
    assert rewrite_bindings(ctx, lambda found, values: {}, main) is main


def test_bindings_move_where_new_values_need_later_ones() -> None:
    @R.function(private=True)
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.negative(x)
            c = R.add(a, b)
            R.output(c)
        return c

    @R.function(private=True)
    def expected(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            b = R.negative(x)
            lv = R.negative(b)
            a = R.exp(lv)
            c = R.add(a, b)
            R.output(c)
        return c

    def context(op: str) -> Any:
        with PatternContext() as ctx:
            e, n = is_op("relax.exp")(wildcard()), is_op("relax.negative")(wildcard())
            e ^ (s := is_op(op)(wildcard(), wildcard(), add_constraint=False))
            n ^ s
        return ctx, e, n

    ctx, e, n = context("relax.add")
    done = []

    def rewriter(found: Any, values: Any) -> Any:
        if done:
            return {}
        done.append(found)
        return {found[e]: R.exp(R.negative(found[n]))}

    checked(main, rewrite_bindings(ctx, rewriter, main), expected)
    with pytest.raises(PassError, match="the new values need each other: a -> b -> a"):
        rewrite_bindings(ctx, lambda f, v: {f[e]: R.exp(f[n]), f[n]: R.negative(f[e])}, main)


@R.rewriter
class AddIsOurs:
    @R.function
    def pattern(A: R.Tensor(("n",), "float32"), B: R.Tensor(("n",), "float32")):
        C = R.add(A, B)
        return C

    @R.function
    def replacement(A: R.Tensor(("n",), "float32"), B: R.Tensor(("n",), "float32")):
        n = T.int64()
        C = R.call_pure_packed("ours", A, B, sinfo_args=R.Tensor((n,), "float32"))
        return C


@R.rewriter
class TwiceIsTimesTwo:
    @R.function
    def pattern(A: R.Tensor((4,), "float32")):
        return R.add(A, A)

    @R.function
    def replacement(A: R.Tensor((4,), "float32")):
        return R.multiply(A, R.const(2.0, "float32"))


@I.ir_module
class Before:
    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        a = R.add(x, y)
        b = R.add(a, a)
        return b


def test_a_rewriter_is_a_function_a_pass_and_a_part_of_others() -> None:
    @I.ir_module
    class Ours:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            a = R.call_pure_packed("ours", x, y, sinfo_args=R.Tensor((4,), "float32"))
            b = R.call_pure_packed("ours", a, a, sinfo_args=R.Tensor((4,), "float32"))
            return b

    @I.ir_module
    class Both:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            a = R.call_pure_packed("ours", x, y, sinfo_args=R.Tensor((4,), "float32"))
            b = R.multiply(a, R.const(2.0, "float32"))
            return b

    assert_structural_equal(AddIsOurs(Before), Ours)
    assert_structural_equal(AddIsOurs(Before["main"]), Ours["main"])
    assert_structural_equal(tvm_transform.Sequential([AddIsOurs])(Before), Ours)
    assert_structural_equal((TwiceIsTimesTwo | AddIsOurs)(Before), Both)
    assert AddIsOurs(Ours) is Ours


def test_a_rewriter_of_two_results() -> None:
    @R.rewriter
    class Joined:
        @R.function
        def pattern(x: R.Tensor((4,), "float32")):
            return (R.sin(x), R.cos(x))

        @R.function
        def replacement(x: R.Tensor((4,), "float32")):
            y = R.negative(x)
            return (R.exp(y), R.tanh(y))

    @R.function(private=True)
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.sin(x)
            b = R.cos(x)
            c = R.add(a, b)
            R.output(c)
        return c

    @R.function(private=True)
    def expected(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            y = R.negative(x)
            a = R.exp(y)
            b = R.tanh(y)
            c = R.add(a, b)
            R.output(c)
        return c

    assert_structural_equal(Joined(main), expected)


def test_what_is_no_rewriter() -> None:
    with pytest.raises(KeyError, match="a rewriter needs a function 'replacement'"):

        @R.rewriter
        class NoReplacement:
            @R.function
            def pattern(x: R.Tensor((4,), "float32")):
                return R.exp(x)

    with pytest.raises(TypeError, match="the pattern of a rewriter is a graph function"):

        @R.rewriter
        class LoopPattern:
            @T.prim_func
            def pattern(A: T.Buffer((4,), "float32")):
                T.evaluate(0)

            @R.function
            def replacement(x: R.Tensor((4,), "float32")):
                return R.exp(x)

    with pytest.raises(ValueError, match="must have the same signature"):

        @R.rewriter
        class Sizes:
            @R.function
            def pattern(x: R.Tensor((4,), "float32")):
                return R.exp(x)

            @R.function
            def replacement(x: R.Tensor((8,), "float32")):
                return R.exp(x)


def test_rewriting_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlcnb.relax.dpl import rewrite

    monkeypatch.setattr(rewrite, "MOST", 5)
    x = wildcard()

    def more(call: Any, found: Any) -> Any:
        return R.exp(R.exp(found[x]))

    @R.function(private=True)
    def main(x: R.Tensor((4,), "float32")):
        return R.exp(x)

    with pytest.raises(PassError, match="the rewriting did not come to an end in 5 rounds"):
        rewrite_call(is_op("relax.exp")(x), more, main)
    with pytest.raises(PassError, match="the rewriter returned an int in place of an expression"):
        rewrite_call(is_op("relax.exp")(x), lambda call, found: 3, main)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ans"), st.integers(0, 9), st.integers(0, 9)), max_size=8)
)
def test_random_programs_mean_the_same(steps: list[tuple[str, int, int]]) -> None:
    """add(x, x) -> 2 x, and -(-x) -> x, anywhere in a random program."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((3,), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            values: list[Any] = [x]
            for kind, i, j in steps:
                a, b = values[i % len(values)], values[j % len(values)]
                made = {"a": R.add(a, b), "n": R.negative(a), "s": R.tanh(a)}[kind]
                values.append(bb.emit(made))
            out = bb.emit_output(R.add(values[-1], values[0]))
        bb.emit_func_output(out)
    before = bb.get()["main"]
    w = wildcard()
    after = rewrite_call(
        is_op("relax.add")(w, w), lambda _, f: R.multiply(f[w], R.const(2.0, "float32")), before
    )
    negative = is_op("relax.negative")
    after = rewrite_call(negative(negative(w)), lambda _, f: f[w], after)
    same_numbers(before, after)
    values_after = relax.analysis.get_var2val(after)
    assert not any(negative(negative(w)).match(v, values_after) for v in values_after)


@R.rewriter
class Both:
    """x + y and y + z in one call."""

    @R.function
    def pattern(
        x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32"), z: R.Tensor((8,), "float32")
    ):
        return (R.add(x, y), R.add(y, z))

    @R.function
    def replacement(
        x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32"), z: R.Tensor((8,), "float32")
    ):
        whole = R.add(R.concat([x, y]), R.concat([y, z]))
        return R.split(whole, 2)


def test_results_that_come_as_one_tuple() -> None:
    @R.function(private=True)
    def main(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")):
        s = R.add(a, b)
        t = R.add(b, a)
        return R.multiply(s, t)

    @R.function(private=True)
    def expected(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")):
        one = R.concat([a, b])
        two = R.concat([b, a])
        whole = R.add(one, two)
        both = R.split(whole, 2)
        return R.multiply(both[0], both[1])

    checked(main, Both(main), expected)

    @R.function(private=True)
    def returned(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")):
        s = R.add(a, b)
        t = R.add(b, a)
        return (s, t)

    @R.function(private=True)
    def expected_pair(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")):
        one = R.concat([a, b])
        two = R.concat([b, a])
        whole = R.add(one, two)
        both = R.split(whole, 2)
        return both

    checked(returned, Both(returned), expected_pair)


def test_results_of_which_one_is_needed_for_another_stay() -> None:
    @R.function(private=True)
    def main(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")):
        s = R.add(a, b)
        u = R.exp(s)
        t = R.add(b, u)
        return R.multiply(s, t)

    assert Both(main) is main


def test_nothing_is_moved_across_effects() -> None:
    @R.rewriter
    class Sum:
        @R.function
        def pattern(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")):
            return R.add(R.exp(x), y)

        @R.function
        def replacement(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")):
            return R.call_pure_packed("fused", x, y, sinfo_args=R.Tensor((8,), "float32"))

    @R.function(private=True, pure=False)
    def apart(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")):
        e = R.exp(x)
        R.print(format="between")
        s = R.add(e, y)
        return s

    assert Sum(apart) is apart

    @R.function(private=True, pure=False)
    def together(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")):
        R.print(format="before")
        e = R.exp(x)
        s = R.add(e, y)
        R.print(format="after")
        return s

    @R.function(private=True, pure=False)
    def expected(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")):
        R.print(format="before")
        s = R.call_pure_packed("fused", x, y, sinfo_args=R.Tensor((8,), "float32"))
        R.print(format="after")
        return s

    assert_structural_equal(Sum(together), expected)


def test_a_rule_brings_the_functions_that_it_calls() -> None:
    @R.rewriter
    class Twice:
        @R.function
        def pattern(x: R.Tensor((8,), "float32")):
            return R.add(x, x)

        @R.function
        def replacement(x: R.Tensor((8,), "float32")):
            return Twice.inner(x)

        @R.function(private=True)
        def inner(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            return R.multiply(x, R.const(2.0, "float32"))

        @R.function(private=True)
        def not_needed(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            return x

    @R.rewriter
    class Square:
        @R.function
        def pattern(x: R.Tensor((8,), "float32")):
            return R.multiply(x, x)

        @R.function
        def replacement(x: R.Tensor((8,), "float32")):
            return R.call_tir(Square.inner, (x,), out_sinfo=R.Tensor((8,), "float32"))

        @T.prim_func(private=True)
        def inner(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("square"):
                    vi = T.axis.spatial(8, i)
                    B[vi] = A[vi] * A[vi]

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")):
            a = R.add(x, x)
            b = R.multiply(a, a)
            return b

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((8,), "float32")):
            a = After.inner(x)
            b = R.call_tir(After.inner_1, (a,), out_sinfo=R.Tensor((8,), "float32"))
            return b

        @R.function(private=True)
        def inner(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            return R.multiply(x, R.const(2.0, "float32"))

        @T.prim_func(private=True)
        def inner_1(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("square"):
                    vi = T.axis.spatial(8, i)
                    B[vi] = A[vi] * A[vi]

    got = (Twice | Square)(Before)
    assert_structural_equal(got, After)
    assert_well_formed(got)
    same_numbers(Before, got)
    with pytest.raises(PassError, match="the rewritten function calls inner, which the rewriter"):
        Twice(Before["main"])
    with pytest.raises(ValueError, match="inner of a rewriter is publicly exposed"):

        @R.rewriter
        class Public:
            @R.function
            def pattern(x: R.Tensor((8,), "float32")):
                return R.add(x, x)

            @R.function
            def replacement(x: R.Tensor((8,), "float32")):
                return Public.inner(x)

            @R.function
            def inner(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
                return x

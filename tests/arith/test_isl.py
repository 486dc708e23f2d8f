"""Expressions as isl's text: they mean what the simplifier's reference says; bounds on the work."""

from __future__ import annotations

import sys
import threading

import islpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcnb.arith import isl
from mlcnb.arith.presburger import NotAffine, Strict, Translator
from mlcnb.core.errors import MissingDependencyError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.buffer import decl_buffer
from tests.arith.programs import evaluate

I, J = e.Var("i", "int32"), e.Var("j", "int32")
NAMES = {I: "i", J: "j"}
NUMBERS = st.integers(-6, 6)
DIVISORS = st.integers(-5, 5).filter(bool)


def affine(deeper):
    """Sums, products by numbers, divisions by numbers, extremes."""
    division = st.sampled_from([p.floordiv, p.floormod, p.truncdiv, p.truncmod])
    return st.one_of(
        st.builds(lambda a, b, c: a * b + c, deeper, NUMBERS, deeper),
        st.builds(lambda a, b: a - b, deeper, deeper),
        st.builds(lambda f, a, b: f(a, p.const(b)), division, deeper, DIVISORS),
        st.builds(lambda f, a, b: f(a, b), st.sampled_from([e.Min, e.Max]), deeper, deeper),
    )


AFFINE = st.recursive(st.sampled_from([I, J]), affine, max_leaves=8)


def at_point(text, i, j):
    """The value that isl finds for a text at one point."""
    found = isl.first_point(
        isl.read_set(f"{{ [v] : exists i, j : i = {i} and j = {j} and v = {text} }}")
    )
    return found.values[0]


@given(AFFINE, st.integers(-20, 20), st.integers(-20, 20))
def test_value_is_the_reference_s(x, i, j):
    wanted = evaluate(x, {I: i, J: j})
    assert at_point(Strict(NAMES.__getitem__).value(x), i, j) == wanted
    open_text = Translator(NAMES)
    assert at_point(open_text.value(x), i, j) == wanted
    assert open_text.exact and not open_text.fresh


@given(AFFINE, AFFINE, *[st.sampled_from([1, 2, 8, 32])] * 2, *[st.integers(-20, 20)] * 2)
def test_an_exclusive_or_of_remainders(x, y, left, right, i, j):
    """Bit by bit it is the number; roughly, any that it may be."""
    a, b = p.floormod(x, left), p.floormod(y, right)
    wanted = evaluate(a, {I: i, J: j}) ^ evaluate(b, {I: i, J: j})
    both = e.Call(a.dtype, "tir.bitwise_xor", (a, b))
    fine, rough = Translator(NAMES), Translator(NAMES)
    fine.by_bits = True
    if isinstance(a, e.FloorMod) and isinstance(b, e.FloorMod):
        assert at_point(fine.value(both), i, j) == wanted
        assert fine.exact and not fine.has_bits
        text = rough.where([f"{rough.value(both)} = {wanted}"])
        assert rough.has_bits and not rough.exact
        assert not isl.read_set(f"{{ [] : {text} }}").is_empty()
        beyond = rough.where([f"{rough.value(both)} >= {max(left, right)}"])
        assert isl.read_set(f"{{ [] : {beyond} }}").is_empty()


@given(AFFINE, AFFINE, st.booleans(), st.integers(-20, 20), st.integers(-20, 20))
def test_condition_is_the_reference_s(a, b, holds, i, j):
    x = p.logical_or(a < b, p.logical_and(a != J, p.logical_not(b >= I)))
    text = Strict(NAMES.__getitem__).condition(x, holds)
    points = isl.read_set(f"{{ [i, j] : i = {i} and j = {j} and {text} }}")
    assert points.is_empty() != (bool(evaluate(x, {I: i, J: j})) is holds)


A = decl_buffer((8,), "int32", "A")


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (I * J, "i * j is not affine: neither factor is a number"),
        (p.floordiv(I, J), "i // j is not affine: it divides by no number"),
        (A[I] + 1, "A[i] is not affine"),
        (p.truncdiv(I, J), "T.Div(i, j) is not affine"),
        (p.if_then_else(I < 3, I, J), "T.if_then_else(i < 3, i, j) is not affine"),
        (e.Ramp(I, 1, 4), "T.Ramp(i, 1, 4) is not affine"),
        (p.cast("int8", I), 'T.Cast("int8", i) is not affine'),
    ],
)
def test_strict_names_what_is_not_affine(x, message):
    with pytest.raises(NotAffine) as error:
        Strict(NAMES.__getitem__).value(x)
    assert str(error.value) == message


def test_what_is_not_linear_may_be_anything():
    text = Translator(NAMES)
    assert text.value(I * J + 1) == "(x0 + 1)"
    assert not text.exact


def hard():
    """A question that takes isl longer than it may."""
    same = isl.read_map("{ [i] -> [j] : exists a : 7 j = 3 i + 11 a and 0 <= i, j <= 1000 }")
    return same.apply_range(same.reverse()).coalesce()


def test_a_bound_is_kept_and_lifted():
    assert isl.ask(hard, 10) is None
    with pytest.raises(isl.Undecided, match="more than 10 operations"), isl.within(10):
        hard()
    assert isl.ask(hard) is not None


def test_the_outermost_bound_counts():
    with isl.within(isl.PROOF):
        assert isl.ask(hard, 10) is not None
    with pytest.raises(isl.Undecided), isl.within(10):
        isl.ask(hard)


def test_each_thread_has_a_context():
    found = []
    other = threading.Thread(target=lambda: found.append(isl.context()))
    other.start()
    other.join()
    assert found[0] is not isl.context() and isl.context() is isl.context()


def test_without_islpy_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "islpy", None)
    with pytest.raises(MissingDependencyError, match="islpy is not installed"):
        isl.read_set("{ [i] }")


def test_where_isl_fails_itself_the_question_is_open():
    below = isl.read_set("{ [i] : i <= 0 }")
    with pytest.raises(islpy.Error):
        below.lexmin()
    assert isl.ask(below.lexmin) is None
    assert isl.first_point(below).values <= (0,)


def test_a_text_that_is_wrong_is_no_open_question():
    with pytest.raises(islpy.Error):
        isl.ask(lambda: isl.read_set("{ [i] : 0 <= }"))


@pytest.mark.parametrize(
    "text, where",
    [
        ("{ [i] -> [j] : 3 <= i < 9 and j = 2 i }", ({}, (3,), (6,))),
        ("[n] -> { [i] -> [j] : 0 <= i < n and n > 4 and j = i + n }", ({"n": 5}, (0,), (5,))),
        ("{ [i] -> [j] : i = j }", None),  # there is no smallest
        ("[n] -> { [i] -> [j] : i = n and j < i }", None),
    ],
)
def test_a_pair_of_a_relation(text, where):
    pair = isl.smallest(isl.read_map(text))
    relation = isl.read_map(text)
    point = f"[{', '.join(map(str, pair.first))}] -> [{', '.join(map(str, pair.second))}]"
    own = " and ".join(f"{k} = {v}" for k, v in pair.parameters.items()) or "true"
    names = f"[{', '.join(pair.parameters)}] -> " if pair.parameters else ""
    assert isl.read_map(f"{names}{{ {point} : {own} }}").is_subset(relation)
    assert where is None or where == (pair.parameters, pair.first, pair.second)

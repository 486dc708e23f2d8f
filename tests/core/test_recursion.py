"""Deep programs: chains of 10,000 terms are walked, compared, saved and compiled."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import te, tir
from mlcnb.arith import simplify
from mlcnb.core.errors import MLCError
from mlcnb.core.node import rewrite, visit, walk
from mlcnb.core.recursion import roomy
from mlcnb.ir import load_json, save_json, structural_equal, structural_hash

LEVELS = 10_000
X = tir.Var("x", "int64")


def chain(levels=LEVELS):
    """x + x + x …"""
    expr = X
    for _ in range(levels):
        expr = tir.Add(expr, X)
    return expr


@pytest.fixture(scope="module")
def deep():
    return chain()


def test_equal_and_hash(deep):
    other = chain()
    assert structural_equal(deep, other)
    assert not structural_equal(deep, chain(LEVELS - 1))
    assert structural_hash(deep) == structural_hash(other)


def test_saved_and_loaded(deep):
    assert structural_equal(load_json(save_json(deep)), deep, map_free_vars=True)


def test_walked_and_visited(deep):
    seen = []
    visit(deep, lambda n: seen.append(n))
    assert len(seen) == len(list(walk(deep))) == 2 * LEVELS + 1


def test_rewritten_once_each(deep):
    """Every node is given to the rule once, although the stack is too small halfway."""
    counts: dict[int, int] = {}

    def rule(n):
        counts[id(n)] = counts.get(id(n), 0) + 1
        return tir.Mul(n.a, n.b) if isinstance(n, tir.Add) else None

    made = rewrite(deep, rule)
    assert sum(isinstance(n, tir.Mul) for n in walk(made)) == LEVELS
    assert rewrite(deep, lambda _n: None) is deep
    assert rewrite(deep, lambda _n: None, enter=lambda n: X if n is deep.a else None).a is X


def test_simplified(deep):
    assert str(simplify(deep)) == f"x * T.int64({LEVELS + 1})"


def test_computed():
    a = te.placeholder((4,), "float32", name="a")

    def element(i):
        value = a[i]
        for _ in range(2000):
            value = value + a[i]
        return value

    func = te.create_prim_func([a, te.compute((4,), element, name="c")])
    found = np.zeros(4, "float32")
    mlc.compile(func)(np.ones(4, "float32"), found)
    np.testing.assert_array_equal(found, np.full(4, 2001, "float32"))


def test_what_has_no_end_is_an_error():
    @roomy
    def forever(n):
        return forever(n + 1)

    before = threading.active_count()
    with pytest.raises(MLCError) as caught:
        forever(0)
    assert str(caught.value) == (
        "forever: the program is nested too deep\n"
        "hint: bind parts of deep expressions to variables, or build them by halves"
    )
    assert threading.active_count() == before


def test_other_errors_and_results_come_through():
    @roomy
    def down(n, error=None):
        if n:
            return _plain(n - 1, error)
        if error:
            raise error
        return n

    def _plain(n, error):
        return down.__wrapped__(n, error)

    assert down(20_000) == 0
    with pytest.raises(KeyError, match="here"):
        down(20_000, KeyError("here"))

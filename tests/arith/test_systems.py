"""Linear systems: every integer solution, and no other; bounds against all points."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from mlcnb.arith import solve_linear_equations, solve_linear_inequalities
from mlcnb.core.errors import MLCError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from tests.arith.programs import FUZZ, evaluate, text

X, Y, Z, N = (e.Var(name) for name in "xyzn")
SETTINGS = settings(max_examples=100 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))


def row(a, b, c, n, d):
    return p.as_expr(X * a + Y * b + Z * c + N * n + d)


rows = st.builds(row, *[st.integers(-4, 4)] * 3, st.integers(-2, 2), st.integers(-6, 6))


def shown(mapping):
    return {var.name: text(x) for var, x in mapping.items()}


def test_one_solution():
    found = solve_linear_equations([p.equal(X + Y, 8), p.equal(X - Y, 2)], [X, Y])
    assert shown(found.src_to_dst) == {"x": "5", "y": "3"}
    assert found.dst.variables == () and found.dst.relations == ()


def test_free_variables():
    found = solve_linear_equations([p.equal(X + Y * 2, N)], [X, Y])
    assert len(found.dst.variables) == 1 and found.dst.relations == ()
    n0 = found.dst.variables[0]
    for n, m in itertools.product(range(-3, 4), repeat=2):
        x, y = (evaluate(found.src_to_dst[v], {N: n, n0: m}) for v in (X, Y))
        assert x + 2 * y == n


def test_no_solution():
    found = solve_linear_equations([p.equal(X * 2 + Y * 4, 5)], [X, Y])
    assert [text(x) for x in found.dst.relations] == ["0"]
    found = solve_linear_equations([p.equal(X, 1), p.equal(X, 2)], [X])
    assert [text(x) for x in found.dst.relations] == ["0"]


def test_ranges_become_conditions():
    bounds = {X: e.Range(p.const(0), p.const(8))}
    found = solve_linear_equations([p.equal(X, N + 3)], [X], bounds)
    assert shown(found.src_to_dst) == {"x": "(n + 3)"}
    assert [text(x) for x in found.dst.relations] == ["(-3 <= n)", "(n < 5)"]


@SETTINGS
@given(st.lists(rows, min_size=1, max_size=3), st.integers(-3, 3))
def test_all_solutions_and_no_other(system, n):
    equations = [p.equal(x, 0) for x in system]
    if any(not isinstance(x, e.EQ) for x in equations):
        return  # a constant
    found = solve_linear_equations(equations, [X, Y, Z])
    note(f"{[text(x) for x in equations]}: {shown(found.src_to_dst)} if {found.dst.relations}")
    for values in itertools.product(range(-5, 6), repeat=3):
        point = {X: values[0], Y: values[1], Z: values[2], N: n}
        if all(evaluate(x, point) == 0 for x in system):
            inside = {v: evaluate(x, point) for v, x in found.dst_to_src.items()} | {N: n}
            assert all(evaluate(x, inside) for x in found.dst.relations)
            assert [evaluate(found.src_to_dst[v], inside) for v in (X, Y, Z)] == list(values)
    for free in itertools.product(range(-2, 3), repeat=len(found.dst.variables)):
        inside = dict(zip(found.dst.variables, free, strict=True)) | {N: n}
        if all(evaluate(x, inside) for x in found.dst.relations):
            point = {v: evaluate(found.src_to_dst[v], inside) for v in (X, Y, Z)} | {N: n}
            assert all(evaluate(x, point) == 0 for x in system)


@SETTINGS
@given(st.lists(rows, min_size=1, max_size=4), st.integers(-3, 3))
def test_bounds_hold_just_where_the_inequalities_do(system, n):
    conditions = [p.less_equal(0, x) for x in system]
    if any(not isinstance(x, e.LE) for x in conditions):
        return
    bounds, rest = solve_linear_inequalities(conditions, [X, Y, Z])
    note(f"{[text(x) for x in conditions]}: {bounds} if {rest}")
    for values in itertools.product(range(-4, 5), repeat=3):
        point = {X: values[0], Y: values[1], Z: values[2], N: n}
        inside = all(evaluate(x, point) for x in rest)
        for var, bound in bounds.items():
            middle = bound.coef * point[var]
            inside = inside and all(evaluate(x, point) <= middle for x in bound.lower)
            inside = inside and all(middle <= evaluate(x, point) for x in bound.upper)
        assert inside == all(evaluate(x, point) >= 0 for x in system)


def test_a_triangle():
    bounds, rest = solve_linear_inequalities([p.less_equal(Y, X)], [Y, X], {
        X: e.Range(p.const(0), N), Y: e.Range(p.const(0), N)})  # fmt: skip
    assert [text(x) for x in bounds[Y].upper] == ["x", "(n - 1)"]
    assert [text(x) for x in bounds[X].lower] == ["0"]
    assert [text(x) for x in rest] == ["(1 <= n)"]


def test_what_is_not_linear_is_refused():
    with pytest.raises(MLCError) as error:
        solve_linear_equations([p.equal(X * Y, 4)], [X, Y])
    assert error.value.message == "x * y == 4 is not linear in x with a constant factor"
    with pytest.raises(MLCError) as error:
        solve_linear_inequalities([p.not_equal(X, 4)], [X])
    assert error.value.message == "x != 4 is no comparison of integers"

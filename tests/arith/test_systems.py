"""Linear systems: every integer solution, and no other; bounds against all points."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from mlcnb.arith import (
    IntConstraintsTransform,
    inequality_bounds,
    solve_linear_equations,
    solve_linear_inequalities,
)
from mlcnb.core.errors import MLCError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.testing import check_bool_expr_is_true, check_int_constraints_trans_consistency
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
    bounds, rest = inequality_bounds(conditions, [X, Y, Z])
    note(f"{[text(x) for x in conditions]}: {bounds} if {rest}")
    for values in itertools.product(range(-4, 5), repeat=3):
        point = {X: values[0], Y: values[1], Z: values[2], N: n}
        inside = all(evaluate(x, point) for x in rest)
        for var, bound in bounds.items():
            middle = bound.coef * point[var]
            inside = inside and all(evaluate(x, point) == middle for x in bound.equal)
            inside = inside and all(evaluate(x, point) <= middle for x in bound.lower)
            inside = inside and all(middle <= evaluate(x, point) for x in bound.upper)
        assert inside == all(evaluate(x, point) >= 0 for x in system)


def test_a_triangle():
    bounds, rest = inequality_bounds([p.less_equal(Y, X)], [Y, X], {
        X: e.Range(p.const(0), N), Y: e.Range(p.const(0), N)})  # fmt: skip
    assert [text(x) for x in bounds[Y].upper] == ["x", "(n - 1)"]
    assert [text(x) for x in bounds[X].lower] == ["0"]
    assert [text(x) for x in rest] == ["((1 - n) <= 0)"]


def test_what_is_not_linear_is_refused():
    with pytest.raises(MLCError) as error:
        solve_linear_equations([p.equal(X * Y, 4)], [X, Y])
    assert error.value.message == "x * y == 4 is not linear in x with a constant factor"
    with pytest.raises(MLCError) as error:
        solve_linear_inequalities([p.not_equal(X, 4)], [X])
    assert error.value.message == "x != 4 is no comparison of integers"


def test_ranges_of_free_variables_and_what_they_do_not_say():
    bounds = {X: e.Range(p.const(-5), p.const(10)), Y: e.Range(p.const(0), p.const(10))}
    found = solve_linear_equations([p.equal(X + Y, 0)], [X, Y], bounds)
    (n0,) = found.dst.variables
    assert shown(found.src_to_dst) == {"x": "n0", "y": "(n0 * -1)"}
    assert text(found.dst.ranges[n0].min) == "-9" and text(found.dst.ranges[n0].extent) == "10"
    assert [text(x) for x in found.dst.relations] == ["(-5 <= n0)"]


def test_an_unsolvable_system_has_no_variables():
    found = solve_linear_equations([p.equal(X + Y, 0), p.equal(X - Y, 0), p.equal(X, 5)], [X, Y])
    assert (found.dst.variables, dict(found.src_to_dst)) == ((), {})
    assert [text(x) for x in found.dst.relations] == ["0"]
    conditions = [p.less_equal(X * 4, 6), p.less_equal(5, X)]
    for solved in (
        solve_linear_inequalities(conditions, [X]),
        solve_linear_inequalities(conditions, [X], deskew_range=True).dst,
    ):
        assert (solved.variables, dict(solved.ranges)) == ((), {})
        assert [text(x) for x in solved.relations] == ["0"]


def test_ranges_that_start_at_zero():
    ranges = {X: e.Range(p.const(-100), p.const(200)), Y: e.Range(p.const(0), p.const(10))}
    conditions = [p.less_equal(X + Y, 20), p.greater_equal(X - Y, 10)]
    solved = solve_linear_inequalities(conditions, [X, Y], ranges)
    assert [(v.name, text(r.min), text(r.extent)) for v, r in solved.ranges.items()] == [
        ("y", "0", "6"),
        ("x", "(y + 10)", "11"),
    ]
    assert [text(x) for x in solved.relations] == ["(x <= (20 - y))"]
    moved = solve_linear_inequalities(conditions, [X, Y], ranges, deskew_range=True)
    assert shown(moved.src_to_dst) == {"y": "y_shifted", "x": "(x_shifted + (y_shifted + 10))"}
    assert shown(moved.dst_to_src) == {"y_shifted": "y", "x_shifted": "((x - y) - 10)"}
    check_int_constraints_trans_consistency(moved)


def test_what_is_not_linear_stays_a_condition():
    conditions = [p.equal(X, 6), p.greater_equal(X, Y * Z), p.less_equal(X, Y * Z)]
    solved = solve_linear_inequalities(conditions, [X, Y, Z])
    assert {v.name: text(r.min) for v, r in solved.ranges.items()} == {"x": "6"}
    relations = ["(x == (y * z))", "((6 - (y * z)) <= 0)", "(((y * z) - 6) <= 0)"]
    assert [text(x) for x in solved.relations] == relations


@settings(max_examples=10 * FUZZ, deadline=None)
@given(st.lists(rows, min_size=1, max_size=3), st.booleans())
def test_solutions_have_their_place_and_come_back(system, equal):
    conditions = [(p.equal if equal else p.less_equal)(x, 0) for x in system]
    if not all(isinstance(x, e.EQ | e.LE) for x in conditions):
        return
    ranges = {var: e.Range(p.const(-3), p.const(7)) for var in (X, Y, Z)}
    fixed = {N: e.Range(p.const(-1), p.const(3))}
    if equal:
        found = solve_linear_equations(conditions, [X, Y, Z], ranges)
    else:
        found = solve_linear_inequalities(conditions, [X, Y, Z], ranges, deskew_range=True)
    check_int_constraints_trans_consistency(found, fixed)


def test_a_system_that_does_not_agree_with_its_solution_is_told():
    found = solve_linear_equations([p.equal(X + Y, 0)], [X, Y])
    (n0,) = found.dst.variables
    wrong = IntConstraintsTransform(found.src, found.dst, {X: n0, Y: n0 + 1}, {n0: X})
    with pytest.raises(AssertionError, match="comes back with another y"):
        check_int_constraints_trans_consistency(wrong)
    with pytest.raises(AssertionError, match="x < 3 does not hold at x = 3"):
        check_bool_expr_is_true(p.less(X, 3), {X: e.Range(p.const(0), p.const(4))})

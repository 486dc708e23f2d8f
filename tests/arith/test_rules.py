"""Rules of rewriting worth having, one line each: before, after, and what is known of variables.

x, y, z may be any integers; a is in 0..4, b in 0..16, n is no less than 1.
"""

from __future__ import annotations

import pytest

from mlcnb.arith import Analyzer
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from tests.arith.programs import evaluate, points, text

X, Y, Z, A, B, N = (e.Var(name) for name in "xyzabn")
BOUNDS = {A: (0, 3), B: (0, 15), N: (1, None)}
div, mod, tdiv, tmod = p.floordiv, p.floormod, p.truncdiv, p.truncmod
low, high, sel = p.minimum, p.maximum, p.select


def short(x):
    return text(Analyzer(BOUNDS).simplify(x))


SUMS = [
    (X + 0, "x"),
    (X - X, "0"),
    (X + Y - X, "y"),
    (X - (Y + X), "(y * -1)"),
    (X * 2 + Y - X, "(x + y)"),
    (X + 3 + Y - 3, "(x + y)"),
    (X * 3 + X * Y, "((x * 3) + (x * y))"),
    (X * Y - Y * X, "0"),
    ((X + Y) * 2 - Y * 2, "(x * 2)"),
    ((X + 2) * 3 - 6, "(x * 3)"),
    (X * 4 * 3, "(x * 12)"),
    (X - Y * -2, "(x + (y * 2))"),
    (low(X, Y) + high(X, Y), "(y + x)"),
    (low(X, Y) - X - low(Y - X, 0), "0"),
    (high(X, Y) - Y - high(X - Y, 0), "0"),
]

DIVISIONS = [
    (div(X * 4, 4), "x"),
    (div(X * 4, 2), "(x * 2)"),
    (div(X * 2, 4), "(x // 2)"),
    (div(X * 4 + Y, 4), "(x + (y // 4))"),
    (div(X * 4 + 5, 4), "(x + 1)"),
    (div(X * 4 - 1, 4), "(x - 1)"),
    (div(X * 4 + A, 4), "x"),
    (div(X * 8 + A, 4), "(x * 2)"),
    (div(X * 4 + A, 8), "(x // 2)"),
    (div(div(X, 4), 4), "(x // 16)"),
    (div(div(X, 4) + 1, 2), "(((x // 4) + 1) // 2)"),
    (div(X + 4, 4), "((x // 4) + 1)"),
    (div(A, 4), "0"),
    (div(A - 4, 4), "-1"),
    (div(B, -4), "(b // -4)"),
    (div(X * -4, -4), "x"),
    (div(X * N, N), "x"),
    (div(X * N + Y * N, N), "(x + y)"),
    (div(N * X + N, N), "(x + 1)"),
    (mod(X * 4, 4), "0"),
    (mod(X * 4 + Y, 4), "(y % 4)"),
    (mod(X * 4 + A, 4), "a"),
    (mod(X * 4 + A, 8), "(((x % 2) * 4) + a)"),
    (mod(X * 2, 4), "((x % 2) * 2)"),
    (mod(mod(X, 8), 4), "(x % 4)"),
    (mod(mod(X, 4), 8), "(x % 4)"),
    (mod(X + 4, 4), "(x % 4)"),
    (mod(X + 8 * Y, 4), "(x % 4)"),
    (mod(A, 4), "a"),
    (mod(X * N, N), "0"),
    (mod(X * N + A, N * 4), "(((x * n) + a) % (n * 4))"),
    (div(X, 4) * 4 + mod(X, 4), "x"),
    (X - div(X, 4) * 4, "(x - ((x // 4) * 4))"),
    (div(X, 8) * 8 + mod(div(X, 4), 2) * 4 + mod(X, 4), "x"),
    (mod(div(X, 4), 2) * 4 + mod(X, 4), "(x % 8)"),
    (div(mod(X, 8), 4), "((x % 8) // 4)"),
    (div(mod(X, 4), 4), "0"),
    (div(B, N) * N + mod(B, N), "b"),
    (tdiv(B, 4), "(b // 4)"),
    (tmod(B, 4), "(b % 4)"),
    (tdiv(X * 0, 4), "0"),
    (div(X, 1), "x"),
    (mod(X, 1), "0"),
    (div(X * 6 + 4, 2), "((x * 3) + 2)"),
    (mod(X * 6 + 4, 2), "0"),
    (div(A + 12, 4), "3"),
    (mod(A + 12, 4), "a"),
]

EXTREMA = [
    (low(X, X), "x"),
    (low(X + 1, X), "x"),
    (high(X + 1, X), "(x + 1)"),
    (low(X, Y) + 1, "(min(x, y) + 1)"),
    (low(X + 1, Y + 1), "(min(x, y) + 1)"),
    (low(low(X, Y), Y), "min(x, y)"),
    (low(low(X, 5), 3), "min(x, 3)"),
    (high(high(X, 5), 3), "max(x, 5)"),
    (low(high(X, Y), Y), "y"),
    (high(low(X, Y), Y), "y"),
    (low(A, 3), "a"),
    (low(A, 4), "a"),
    (high(A, 0), "a"),
    (low(B, A * 16 + 15), "b"),
    (low(X * 4, Y * 4), "min((x * 4), (y * 4))"),
    (high(X * -2, Y * -2), "max((x * -2), (y * -2))"),
    (low(X - 1, X + Y), "(x + min(y, -1))"),
    (high(low(X, 15), 0), "max(min(x, 15), 0)"),
    (low(div(X + 3, 4) * 4, X), "x"),
    (high(div(X + 3, 4) * 4, X), "(((x + 3) // 4) * 4)"),
    (low(mod(X, 8), 7), "(x % 8)"),
]

CONDITIONS = [
    (e.EQ(X, X), "1"),
    (e.NE(X, X), "0"),
    (e.LT(X, X), "0"),
    (e.LE(X, X), "1"),
    (e.LT(X, X + 1), "1"),
    (e.EQ(X + 1, Y + 1), "(x == y)"),
    (e.EQ(X * 2, Y * 2), "(x == y)"),
    (e.EQ(X * 2, Y * 4 + 1), "0"),
    (e.EQ(X - Y, p.const(0)), "(x == y)"),
    (e.LT(X * 4, p.const(8)), "(x < 2)"),
    (e.LT(X * 4, p.const(9)), "(x < 3)"),
    (e.LE(X * 4, p.const(7)), "(x < 2)"),
    (e.GE(X, p.const(4)), "(4 <= x)"),
    (e.LT(X * 4 + A, Y * 4), "(x < y)"),
    (e.LE(X * 4 + A, Y * 4), "(((x * 4) + a) <= (y * 4))"),
    (e.LT(B, p.const(16)), "1"),
    (e.LT(B, p.const(0)), "0"),
    (e.EQ(B, p.const(16)), "0"),
    (e.NE(mod(X, 4), p.const(4)), "1"),
    (e.LT(div(X, 4), p.const(2)), "(x < 8)"),
    (e.LE(p.const(2), div(X, 4)), "(8 <= x)"),
    (e.LT(p.const(0), N), "1"),
    (p.all_of(X < 4, X < 4), "(x < 4)"),
    (p.all_of(X < 4, X < 8), "(x < 4)"),
    (p.all_of(X < 4, X >= 4), "0"),
    (p.any_of(X < 4, X >= 4), "1"),
    (p.all_of(X >= 0, p.any_of(X >= 0, Y < 2)), "(0 <= x)"),
    (p.logical_not(X < Y), "(y <= x)"),
    (p.logical_not(p.logical_not(X < Y)), "(x < y)"),
    (p.logical_not(p.all_of(X < Y, Y < Z)), "((y <= x) or (z <= y))"),
    (p.all_of(A < 4, X < 3), "(x < 3)"),
]

CHOICES = [
    (sel(A < 4, X, Y), "x"),
    (sel(A < 0, X, Y), "y"),
    (sel(X < 4, Y, Y), "y"),
    (sel(X < 4, low(X, 3), 0), "select((x < 4), x, 0)"),
    (p.if_then_else(X < 4, p.if_then_else(X < 5, Y, Z), Z), "if_then_else((x < 4), y, z)"),
    (p.if_then_else(X >= 0, high(X, 0), 0), "if_then_else((0 <= x), x, 0)"),
    (sel(X < 4, Y + 1, Y + 2) - Y, "(select((x < 4), (y + 1), (y + 2)) - y)"),
]


@pytest.mark.parametrize(
    ("before", "after"), [*SUMS, *DIVISIONS, *EXTREMA, *CONDITIONS, *CHOICES], ids=str
)
def test_rule(before, after):
    assert short(before) == after


@pytest.mark.parametrize("before", [x for x, _ in (*SUMS, *DIVISIONS, *EXTREMA)], ids=str)
def test_the_value_stays(before):
    after = Analyzer(BOUNDS).simplify(before)
    box = {X: (-5, 5), Y: (-3, 4), A: (0, 3), B: (0, 15), N: (1, 5)}
    used = {v: box[v] for v in box if text(v) in text(before)}
    for point in points(used):
        assert evaluate(after, point) == evaluate(before, point), point


PROOFS = [
    (X * 4 + A < (X + 1) * 4, True),
    (div(X, 4) * 4 <= X, True),
    (X < div(X, 4) * 4 + 4, True),
    (div(X + 3, 4) * 4 >= X, True),
    (low(X, Y) <= X, True),
    (high(X, Y) >= Y, True),
    (low(X, Y) <= high(X, Y), True),
    (mod(X, N) < N, True),
    (p.equal(mod(X * 4, 2), 0), True),
    (A * 4 + B < 28, True),
    (A * 4 + B < 27, False),
    (X < Y, False),
    (div(X, 4) * 4 >= X, False),
    (X * X >= 0, True),
    (N * A >= 0, True),
    (low(N, 4) >= 1, True),
    (B - mod(B, 4) >= 0, True),
]


@pytest.mark.parametrize(("claim", "holds"), PROOFS, ids=str)
def test_proof(claim, holds):
    assert Analyzer(BOUNDS).can_prove(claim) is holds

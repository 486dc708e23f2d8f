"""What expressions become: before and after, with what is known of the variables."""

from __future__ import annotations

import pytest

from mlcnb import tir
from mlcnb.arith import (
    Analyzer,
    can_prove,
    can_prove_equal,
    const_bounds,
    detect_linear_equation,
    simplify,
)
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from tests.arith.programs import text

I, J, K, N, M = (e.Var(name) for name in "ijknm")
BOUNDS = {I: (0, 15), J: (0, 3)}


def lt(a, b):
    return e.LT(*p.match_dtypes(a, b))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # sums and products
        (I + J - I, "j"),
        (I * 2 + I * 3, "(i * 5)"),
        ((I + 1) * 4 - 4, "(i * 4)"),
        (N - 1 - I, "((n - i) - 1)"),
        (3 - I - (2 - I), "1"),
        ((N + 1) * (M + 1), "((n + 1) * (m + 1))"),
        ((N + 1) * M - N * M, "m"),
        # division
        ((I * 4 + J) // 4, "i"),
        ((I * 4 + J) % 4, "j"),
        ((I * 8 + J) // 4, "(i * 2)"),
        ((I * 4 + J) // 8, "(i // 2)"),
        ((K * 8 + N) // 4, "((k * 2) + (n // 4))"),
        ((K * 8 + N) % 4, "(n % 4)"),
        ((K * 6 + N) % 4, "(((k * 2) + n) % 4)"),
        (K // 4 // 8, "(k // 32)"),
        (K // 4 % 8, "((k % 32) // 4)"),
        (K % 32 % 8, "(k % 8)"),
        (K % 8 // 8, "0"),
        (K // 4 * 4 + K % 4, "k"),
        (K // 8 * 8 + K % 8 // 4 * 4 + K % 4, "k"),
        ((K * 64 + N) % 784 // 28 * 28 + (K * 64 + N) % 28 + (K * 64 + N) // 784 * 784,
         "((k * 64) + n)"),
        ((K + 5) // 4, "((k + 5) // 4)"),
        ((I * 4 + J) % 16 + (I * 4 + J) // 16 * 16, "((i * 4) + j)"),
        ((J - 4) // 4, "-1"),
        ((K * N + J * N) // N, "(k + j)"),
        ((K * N + M) % N, "(m % n)"),
        ((K * N + M) // N * N + (K * N + M) % N, "((k * n) + m)"),
        (tir.truncdiv(I, 4), "(i // 4)"),
        (tir.truncmod(K, 4), "(k truncmod 4)"),
        # min and max
        (p.minimum(I, 20), "i"),
        (p.maximum(J, 3), "3"),
        (p.minimum(K + 1, K + 3), "(k + 1)"),
        (p.minimum(K * 4 + 4, N) - K * 4, "min((n - (k * 4)), 4)"),
        (p.minimum(K, N) + p.maximum(K, N), "(n + k)"),
        (p.minimum(p.minimum(K, 3), N), "min(min(k, n), 3)"),
        (p.maximum(K, N) - N, "max((k - n), 0)"),
        (p.minimum(K, N) + 1, "(min(k, n) + 1)"),
        (p.maximum(p.minimum(I, 15), 0), "i"),
        # conditions
        (lt(I * 4 + J, 16), "(i < 4)"),
        (lt(I * 4 + J, 64), "1"),
        (I >= 4, "(4 <= i)"),
        (I > J + 15, "0"),
        (K * 2 <= N * 2 + 1, "(k <= n)"),
        (K + 1 < N + 1, "(k < n)"),
        (K - 1 < N, "(k <= n)"),
        (p.equal(K * 2, N * 2 + 1), "0"),
        (p.equal(K * 2 + 4, 10), "(k == 3)"),
        (p.not_equal(I, 16), "1"),
        (p.all_of(K < 5, K < 7), "(k < 5)"),
        (p.any_of(K < 5, K < 7), "((k < 5) or (k < 7))"),
        (p.all_of(K < 5, K > 7), "0"),
        (p.any_of(K < 5, K > 3), "1"),
        (p.logical_not(p.all_of(K < 5, N < 3)), "((5 <= k) or (3 <= n))"),
        (p.if_then_else(I < 20, K, N), "k"),
        (p.if_then_else(K < 3, p.minimum(K, 5), N), "if_then_else((k < 3), k, n)"),
        (p.if_then_else(K < 3, N, N), "n"),
        (p.select(K > 3, lt(K, 2), lt(N, 2)), "select((4 <= k), 0, (n < 2))"),
        (p.select(p.equal(N, 0), 0, N), "n"),
        (p.select(p.equal(N, 4), M + 4, M + N), "(m + n)"),
        (p.select(p.equal(N, 3), N * 2, 6), "6"),
        (p.select(p.equal(N, 0), 1, N), "select((n == 0), 1, n)"),
        # a minimum and a number
        (p.equal(p.minimum(N, 64), 0), "(n == 0)"),
        (p.equal(p.minimum(N - 64, 0), -64), "(n == 0)"),
        (p.not_equal(p.minimum(N, 64), 3), "(n != 3)"),
        (p.equal(p.minimum(N, 64), 64), "(min(n, 64) == 64)"),
        (p.equal(p.minimum(N, M), 0), "(min(n, m) == 0)"),
        (tir.likely(I < 20), "1"),
        # bits
        (p.shift_right(I, 2), "(i // 4)"),
        (p.bitwise_and(K, 7) // 8, "0"),
        # casts
        (p.cast("int64", I) // 16, "0"),
    ],
)  # fmt: skip
def test_simplify(before, after):
    assert text(simplify(before, BOUNDS)) == after


def test_what_cannot_be_simplified_is_the_same_object():
    for x in (I * 4 + J + K, p.minimum(K, N), lt(K, N), p.all_of(lt(K, N), lt(I, N)), K // 4):
        same = simplify(x)
        assert same is x or text(same) == text(x)


def test_variables_with_one_value_are_numbers():
    analyzer = Analyzer()
    analyzer.bind(I, e.Range(N, p.const(1)))
    analyzer.bind(J, (3, 3))
    assert text(analyzer.simplify(I * 2 + J)) == "((n * 2) + 3)"


def test_values_in_memory_may_wrap_around():
    """x * 2 // 2 is x for an index, but not for an int32 that was loaded."""
    buffer = tir.decl_buffer((4,), "int32", "A")
    x = buffer[I]
    kept = simplify(p.floordiv(x * 2, 2))
    assert isinstance(kept, e.FloorDiv)
    assert isinstance(simplify(p.less(x, x + 1)), e.LT)
    assert str(simplify(p.floordiv(p.bitwise_and(x, 255) * 2, 2))) == "A[i] & 255"
    small = p.cast("int32", tir.decl_buffer((4,), "int8", "B")[I])
    assert text(simplify(p.less(small, 128))) == "1"


def test_loads_are_equal_by_what_they_read():
    buffer = tir.decl_buffer((64,), "int32", "A")
    assert text(simplify(buffer[I + J] - buffer[J + I])) == "0"
    assert text(simplify(buffer[(I * 4 + J) // 4] - buffer[I], BOUNDS)) == "0"


def test_indices_inside_of_floating_point_expressions_are_simplified():
    buffer = tir.decl_buffer((64,), name="A")
    x = simplify(tir.exp(buffer[(I * 4 + J) // 4]) * 2.0 + 0.0, BOUNDS)
    assert str(x) == "T.exp(A[i]) * T.float32(2.0) + T.float32(0.0)"


def test_vectors_stay_ramps():
    ramp = e.Ramp(I, p.const(1), 4)
    x = ramp * e.Broadcast(p.const(2), 4) + e.Broadcast(N, 4)
    assert str(simplify(x)) == "T.Ramp(i * 2 + n, 2, 4)"


def test_constraints_hold_inside_only():
    analyzer = Analyzer({I: (0, 100)})
    with analyzer.constraint(I < N, p.equal(J % 4, 1)):
        assert analyzer.can_prove(I + 1 <= N)
        assert analyzer.can_prove(N > 0)
        assert analyzer.modular_set(J) == (4, 1)
        assert text(analyzer.simplify(J % 2)) == "1"
        with analyzer.constraint(I >= 50):
            assert analyzer.const_bounds(I) == (50, 100)
    assert not analyzer.can_prove(I + 1 <= N)
    assert analyzer.const_bounds(I) == (0, 100)


def test_conditions_that_are_no_comparisons_are_remembered():
    flag = e.Var("flag", p.dtype("bool"))
    x = p.if_then_else(flag, p.if_then_else(flag, I, J), p.if_then_else(flag, I, K))
    assert text(simplify(x)) == "if_then_else(flag, i, k)"


def test_symbolic_bounds():
    analyzer = Analyzer()
    analyzer.bind(N, (1, None))
    analyzer.bind(M, (1, None))
    analyzer.bind(I, e.Range(p.const(0), N))
    analyzer.bind(J, e.Range(p.const(0), M))
    assert analyzer.can_prove(I * M + J < N * M)
    assert text(analyzer.simplify((I * M + J) // M)) == "i"
    assert text(analyzer.simplify((I * M + J) % M)) == "j"
    assert analyzer.can_prove((I + 3) // 4 * 4 >= I)
    assert not analyzer.can_prove(I < M)
    assert not analyzer.can_prove(I < N - 1)


def test_bounds():
    assert const_bounds(I * 4 + J, BOUNDS) == (0, 63)
    assert const_bounds(I - J, BOUNDS) == (-3, 15)
    assert const_bounds(I % 4 * 2 + 1, BOUNDS) == (1, 7)
    assert const_bounds(p.minimum(I, N), {**BOUNDS, N: (5, 20)}) == (0, 15)
    assert const_bounds(p.if_then_else(N > 0, I, J - 9), BOUNDS) == (-9, 15)
    assert const_bounds(N) == (float("-inf"), float("inf"))
    assert const_bounds(e.SizeVar("s")) == (0, float("inf"))
    assert const_bounds(p.cast("int32", e.Var("b", p.dtype("bool")))) == (0, 1)


def test_proofs():
    assert can_prove(p.all_of(I < 16, J >= 0), BOUNDS)
    assert not can_prove(I < 15, BOUNDS)
    assert can_prove_equal((I + J) * (I - J), I * I - J * J)
    assert not can_prove_equal(I, J)
    assert can_prove_equal(tir.exp(p.cast("float32", I + J)), tir.exp(p.cast("float32", J + I)))


def test_detect_linear_equation():
    found = detect_linear_equation(I * 4 + J * N + (K + N) * 2, [I, J])
    assert [text(x) for x in found] == ["4", "n", "((k * 2) + (n * 2))"]
    assert detect_linear_equation(I * J, [I, J]) == []
    assert detect_linear_equation(I // 4, [I]) == []
    assert [text(x) for x in detect_linear_equation(J // 4, [I])] == ["0", "(j // 4)"]


def test_the_same_call_gives_the_same_text():
    x = p.minimum(p.minimum(N, K), p.maximum(I, J)) + p.maximum(N - K, I)
    assert {text(simplify(x)) for _ in range(5)} == {text(simplify(x))}

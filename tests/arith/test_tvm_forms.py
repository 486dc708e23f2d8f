"""TVM's spellings of arith: names, numbers, scalable vectors, extensions, sets without ends."""

from __future__ import annotations

import itertools

import pytest

from mlcnb import arith, te, tir
from mlcnb.arith import Analyzer, IntervalSet
from mlcnb.core.errors import ArgumentError, MLCError, UnsupportedDtypeError
from mlcnb.ir import Range, structural_equal
from mlcnb.ir import prim_ops as p
from mlcnb.script import from_source
from mlcnb.testing import assert_prim_expr_equal, parameter
from tests.arith.programs import evaluate, text

x, y = te.var("x"), te.var("y")
kind = parameter("int8", "uint8", "uint32", "int64")


def test_a_variable_equals_itself_in_every_integer_dtype(kind):
    n = tir.Var("n", kind)
    assert Analyzer().can_prove(n == n)
    assert not Analyzer().can_prove(n < n + tir.const(1, kind)) or kind == "int64"


def test_another_bound_is_refused_where_it_may_not_replace_the_first():
    n, analyzer = te.var("n"), Analyzer()
    for bound in (Range(0, 10), Range(0, 10), (0, 9)):
        analyzer.bind(x, bound, allow_override=False)
    for bound in (Range(0, 5), (0, 20), 3, Range(0, n)):
        with pytest.raises(ArgumentError, match="bind: x has another bound already"):
            analyzer.bind(x, bound, allow_override=False)
    assert (analyzer.const_int_bound(x).min_value, analyzer.const_int_bound(x).max_value) == (0, 9)
    analyzer.bind(x, Range(0, n))
    analyzer.bind(x, Range(0, n), allow_override=False)
    assert analyzer.can_prove(x < n)


def test_narrow_and_unsigned_integers_are_compared_by_their_bounds():
    n, m = tir.Var("n", "uint8"), tir.Var("m", "int8")
    analyzer = Analyzer()
    assert analyzer.can_prove(n >= tir.const(0, "uint8"))
    assert analyzer.can_prove(n // tir.const(2, "uint8") < tir.const(128, "uint8"))
    assert not analyzer.can_prove(n < tir.const(255, "uint8"))
    assert analyzer.const_bounds(tir.truncmod(m, tir.const(3, "int8"))) == (-2, 2)
    assert analyzer.const_bounds(m + tir.const(1, "int8")) == (-128, 127)  # it may wrap around
    analyzer.bind(n, (1, 4))
    assert analyzer.const_bounds(n + tir.const(1, "uint8")) == (2, 5)


def test_bounds_of_two_divisors_of_any_sign():
    for divide, a, b, expected in (
        (tir.truncdiv, (-9, 4), (-2, 0), (-4, 9)),
        (tir.truncdiv, (-9, 4), (-4, 12), (-9, 9)),
        (tir.truncmod, (-9, 4), (4, 10), (-9, 4)),
        (tir.truncmod, (1, None), (4, 10), (0, 9)),
        (tir.floordiv, (-9, 4), (-4, 12), (-9, 9)),
        (tir.floormod, (0, 6), (-5, 7), (-4, 6)),
        (tir.floormod, (0, 6), (0, None), (0, 6)),
    ):
        assert Analyzer({x: a, y: b}).const_bounds(divide(x, y)) == expected


def test_bounds_of_two_numbers_hold_for_all_their_values():
    rounded = {tir.truncdiv: lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)}
    rounded[tir.truncmod] = lambda a, b: a - rounded[tir.truncdiv](a, b) * b
    rounded[tir.floordiv], rounded[tir.floormod] = (lambda a, b: a // b), (lambda a, b: a % b)
    ends = range(-4, 5)
    for build, compute in rounded.items():
        for a in ((i, j) for i in ends for j in ends if i <= j):
            for b in ((i, j) for i in ends for j in ends if i <= j and (i, j) != (0, 0)):
                low, high = Analyzer({x: a, y: b}).const_bounds(build(x, y))
                found = [
                    compute(i, j) for i in range(a[0], a[1] + 1) for j in range(b[0], b[1] + 1) if j
                ]
                assert low <= min(found), (build.__name__, a, b)
                assert max(found) <= high, (build.__name__, a, b)


def test_residues_of_all_operators():
    def residue(of, *conditions):
        analyzer = Analyzer()
        with analyzer.constraint_scope(tir.all(*conditions)):
            return tuple(analyzer.modular_set(of))

    tmod = tir.truncmod
    assert residue(te.min(x * 3, y * 9)) == (3, 0)
    assert residue(te.max(x * 3 + 1, y * 9 + 4)) == (3, 1)
    assert residue(tir.Select(x > 0, x * 3 + 1, y * 9 + 2)) == (1, 0)
    assert residue((x * 16 + y * 4) & 31) == (4, 0)
    assert residue((x * 16 + y * 4) & 17) == (1, 0)
    assert residue((x * 4 + 2) >> 1) == (2, 1)
    assert residue(tir.Let(x, y * 10, x + 1)) == (10, 1)
    assert residue(x, tmod(x, 4) == 1, tmod(x, 3) == 1) == (12, 1)
    assert residue(x, tmod(x, 3) == 2, tmod(x, 5) == 3, tmod(x, 7) == 2) == (105, 23)
    assert residue((x * 4).astype("int64") + 1) == (4, 1)


def test_what_a_cast_was_bound_to_is_forgotten_with_its_condition():
    analyzer, n = Analyzer(), tir.Var("n", "int64")
    with analyzer.constraint_scope(tir.all(n >= 0, n < 10)):
        assert analyzer.const_bounds(n.astype("int32")) == (0, 9)
    assert analyzer.const_bounds(n.astype("int32")) == (-(2**31), 2**31 - 1)


def test_division_towards_zero_is_division_down_where_the_sign_is_known():
    tdiv, tmod = tir.truncdiv, tir.truncmod
    simplify = Analyzer().simplify
    assert text(simplify(tdiv(x * 8 + 4, 4))) == "((x * 2) + 1)"
    assert text(simplify(tmod(x * 10, -2))) == "0"
    assert Analyzer().can_prove_equal(tdiv(x, -4), tdiv(x, 4) * -1)
    assert text(simplify(tdiv(x, 3) * 3 + tmod(x, 3))) == "x"
    assert Analyzer({y: (None, 0)}).can_prove_equal(tdiv(y, 4), 0 - tir.floordiv(0 - y, 4))
    assert not Analyzer().can_prove_equal(tdiv(y, 4), 0 - tir.floordiv(0 - y, 4))
    assert text(simplify(tdiv(tdiv(x, 3), 4))) == "(x / 12)"
    assert text(simplify(tdiv(tmod(x, 16) * 2, 6))) == "((x truncmod 16) / 3)"
    assert Analyzer().can_prove_equal(tmod(x * 8, 12), tmod(x * 2, 3) * 4)
    assert text(simplify(tdiv(tmod(x, 2), 8))) == "0"


def test_division_towards_zero_keeps_its_value_through_the_normal_form():
    tdiv, tmod = tir.truncdiv, tir.truncmod
    for a, b, c, d in itertools.product((-6, -1, 2, 4), (0, 2, 3), (2, 3, 6), (2, 4)):
        for before in (
            tdiv(x * a + b, c),
            tmod(x * a + b, c),
            tdiv(tdiv(x * a + b, c) * d, 4),
            tmod(tdiv(x * a + b, c) * d, 4),
            tdiv(tmod(x * a + b, c) * d, 6) * c + tmod(x * a + b, c),
        ):
            after = Analyzer().simplify(before)
            for value in range(-13, 14):
                assert evaluate(after, {x: value}) == evaluate(before, {x: value}), text(before)


def test_inequalities_are_followed_from_one_to_the_next():
    i, j, k = (te.var(name) for name in "ijk")
    analyzer = Analyzer()
    with analyzer.constraint_scope(i < j), analyzer.constraint_scope(j < k):
        assert analyzer.can_prove(i < k)
        assert not analyzer.can_prove(k < i + 3)


def test_sets_have_ends_that_stand_for_infinity():
    low, high = arith.int_set.neg_inf(), arith.int_set.pos_inf()
    one, two = IntervalSet(min_value=low, max_value=0), IntervalSet(min_value=1, max_value=high)
    both = arith.int_set.union_lower_bound([one, two])
    assert both.min_value.same_as(low) and both.max_value.same_as(high)
    empty = IntervalSet(min_value=high, max_value=low)
    assert empty.is_nothing() and str(empty.min_value) == "pos_inf"
    apart = arith.int_set.union_lower_bound([empty, IntervalSet(0, 3), IntervalSet(5, 9)])
    assert (apart.min_value.value, apart.max_value.value) == (0, 3)
    assert arith.deduce_bound(x, x % 16 < 10, {}, {}).is_nothing()


def test_parts_of_an_iteration_map_have_tvm_s_names():
    mark = arith.IterMark(x, 10)
    split = arith.IterSplitExpr(mark, 5, 2, 3)
    made = arith.IterSumExpr([split], 0)
    assert isinstance(made, arith.IterMapExpr) and made.args == (split,)
    assert (split.source, split.lower_factor.value) == (mark, 5)
    found = arith.detect_iter_map([x, 3], {x: Range(0, 3)})
    assert [len(one.args) for one in found.indices] == [1, 0]
    assert_prim_expr_equal(found.indices[0].args[0].extent, 3)


def test_a_range_may_be_given_by_its_ends():
    assert structural_equal(Range(8), Range(0, 8))
    assert structural_equal(Range(begin=2, end=6), Range.from_min_extent(2, 4))


def test_scalable_vectors_print_parse_and_simplify():
    func = from_source(
        """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), x: T.int32):
    A[T.Ramp(x, 1, T.vscale() * 4)] = T.Ramp(x * 2, 2, T.vscale() * 4)
"""
    )
    assert structural_equal(from_source(func.script()), func)
    ramp = tir.Ramp(x, 1, tir.vscale() * 4)
    assert (ramp.dtype, ramp.dtype.lanes) == ("int32xvscalex4", -4)
    found = Analyzer().rewrite_simplify(ramp * 2 + y)
    assert structural_equal(found, tir.Ramp(x * 2 + y, 2, tir.vscale() * 4))
    assert arith.IntSet.vector(ramp).max_value is arith.int_set.pos_inf()
    assert Analyzer().can_prove(x < x + tir.vscale())
    assert structural_equal(Analyzer().rewrite_simplify(te.min(x + tir.vscale() * 4, x)), x)


def test_a_vector_whose_length_is_no_number_is_refused():
    with pytest.raises(MLCError) as caught:
        tir.Ramp(x, 1, y)
    assert str(caught.value) == (
        "a vector of y lanes\nhint: lanes are a number, or a multiple of T.vscale()"
    )
    with pytest.raises(UnsupportedDtypeError) as refused:
        _ = tir.Ramp(x, 1, tir.vscale()).dtype.nbytes
    assert str(refused.value) == (
        "int32xvscalex1: no backend has vectors of scalable length\n"
        "hint: give Ramp and Broadcast a number of lanes"
    )


def test_products_are_compared_with_sums_where_that_is_asked_for():
    analyzer = Analyzer()
    condition = x * y < (x + y) * 2048
    with analyzer.constraint_scope(tir.all(x > 0, y > 0, x < 4096, y < 4096)):
        assert not isinstance(analyzer.rewrite_simplify(condition), tir.IntImm)
        analyzer.enabled_extensions = arith.Extension.ComparisonOfProductAndSum
        assert p.as_int(analyzer.rewrite_simplify(condition)) == 1


def test_rewrites_are_counted_and_may_be_limited():
    analyzer = Analyzer()
    analyzer.rewrite_simplify(x + (y - x))
    assert analyzer.rewrite_simplify_stats.rewrites_performed == 1
    analyzer.reset_rewrite_simplify_stats()
    assert analyzer.rewrite_simplify_stats.nodes_visited == 0
    analyzer.set_maximum_rewrite_steps(1)
    with pytest.raises(MLCError) as caught:
        analyzer.rewrite_simplify((x + 2) * 3 + (y - x))
    assert str(caught.value) == (
        "rewrite_simplify: more than 1 rewrites\n"
        "hint: set_maximum_rewrite_steps(0) takes the limit away"
    )


def test_nan_is_kept_where_tvm_cancels_it():
    a = tir.Var("a", "float32")
    simplify = Analyzer().rewrite_simplify
    assert structural_equal(simplify(a - a), a - a)
    assert structural_equal(simplify(tir.Not(a < 1.0)), tir.Not(a < 1.0))
    assert structural_equal(simplify(a / 27), a / 27)
    as_float = x.astype("float32")
    assert structural_equal(simplify(as_float + 0.0), as_float)


def test_operators_take_numbers_on_either_side():
    n = tir.Var("n", "uint8")
    found = [2 | n, 2 & n, 2 ^ n, 1 << n, 64 >> n]
    assert [str(x.dtype) for x in found] == ["uint8"] * 5
    assert [x.op for x in found] == [
        "tir.bitwise_or", "tir.bitwise_and", "tir.bitwise_xor", "tir.shift_left",
        "tir.shift_right",
    ]  # fmt: skip


def test_division_as_c_has_it():
    assert structural_equal(tir.div(x, y), tir.Div(x, y))
    assert structural_equal(tir.div(p.const(-7), 2), p.const(-3))
    assert structural_equal(tir.indexdiv(x, 4), x // 4)
    assert structural_equal(tir.indexmod(x, 4), x % 4)


def test_an_expression_is_no_truth_value_and_an_integer_has_no_infinity():
    with pytest.raises(ValueError) as caught:
        bool(x < y)
    assert str(caught.value) == (
        "a symbolic expression has no truth value\n"
        "hint: use tir.if_then_else, tir.Select, or tir.all / tir.any in place of if, and, or"
    )
    with pytest.raises(UnsupportedDtypeError) as refused:
        tir.infinity("int32")
    assert str(refused.value) == "int32 has no infinity\nhint: max_value is its largest"


def test_a_cast_to_a_vector_is_a_broadcast():
    assert structural_equal(x.astype("int32x2"), tir.Broadcast(x, 2))
    assert structural_equal(x.astype("float32x2"), tir.Broadcast(x.astype("float32"), 2))
    assert structural_equal(p.const(1.0).astype("bool"), p.const(True))
    assert tir.Var("v", "uint1x2").dtype == "boolx2"


def test_bits_are_counted_by_the_bounds_of_the_number():
    for bits in (tir.clz, tir.popcount):
        for low, high in ((1, 15), (0, 0), (-3, 4), (8, 8), (5, 2**31 - 1)):
            analyzer = Analyzer()
            analyzer.bind(x, (low, high))
            least, most = analyzer.const_bounds(bits(x))
            few = range(low, min(high, low + 40) + 1)
            counts = [analyzer.simplify(bits(tir.const(n))).value for n in (*few, high)]
            assert least <= min(counts) and max(counts) <= most
    analyzer = Analyzer()
    analyzer.bind(x, (1, 15))
    assert analyzer.const_bounds(tir.clz(x)) == (28, 31)
    assert analyzer.const_bounds(tir.popcount(x)) == (1, 4)


def test_whole_numbers_are_made_of_constants():
    sixteen = tir.Cast("float64", tir.const(14, "int64"))
    for simplify in (Analyzer().simplify, Analyzer().rewrite_simplify):
        assert simplify(tir.ceil(tir.log2(sixteen))).value == 4
        assert simplify(tir.floor(tir.const(-1.5, "float32"))).value == -2
        assert simplify(tir.trunc(tir.const(-1.5, "float32"))).value == -1
        assert simplify(tir.nearbyint(tir.const(2.5, "float32"))).value == 2
        assert simplify(tir.log2(tir.const(2.0, "float32"))).op == "tir.log2"


def test_a_factor_in_an_extreme_is_seen():
    n = te.var("n")
    assert Analyzer().can_prove_equal(tir.min(n * 8, 64), tir.min(n, 8) * 8)
    assert Analyzer().can_prove_equal(tir.max(n * 6 + 3, x * 9), tir.max(n * 2 + 1, x * 3) * 3)
    assert not Analyzer().can_prove_equal(tir.min(n * 8, 60), tir.min(n, 8) * 8)

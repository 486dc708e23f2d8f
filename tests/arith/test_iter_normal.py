"""Iteration maps against all their points; simplified, normalized and divided ones."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from mlcnb import arith
from mlcnb.arith import IterMapLevel
from mlcnb.core.errors import MLCError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from tests.arith.programs import FUZZ, evaluate, text

I, J, K, N = (e.Var(name) for name in "ijkn")
SETTINGS = settings(max_examples=150 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))


def domains(*extents, starts=(0, 0, 0)):
    pairs = zip((I, J, K), starts, extents, strict=False)
    return {var: e.Range(p.const(start), p.as_expr(n)) for var, start, n in pairs}


@st.composite
def any_map(draw):
    """Indices that may or may not be an iteration map, and their loops."""
    extents = [draw(st.sampled_from([1, 2, 3, 4, 6, 8])) for _ in range(draw(st.integers(1, 3)))]
    variables = (I, J, K)[: len(extents)]
    factor = st.sampled_from([1, 1, 2, 3, 4, 6, 8])

    def index():
        total = draw(st.sampled_from(variables)) * draw(factor)
        for _ in range(draw(st.integers(0, 2))):
            total = total + draw(st.sampled_from(variables)) * draw(factor)
        for _ in range(draw(st.integers(0, 2))):
            by = draw(factor)
            total = p.floordiv(total, by) if draw(st.booleans()) else p.floormod(total, by)
        return p.as_expr(total)

    return [index() for _ in range(draw(st.integers(1, 3)))], extents


def image(indices, extents, starts=(0, 0, 0)):
    """The indices at each point of the loops."""
    variables = (I, J, K)[: len(extents)]
    ranges = [range(s, s + n) for s, n in zip(starts, extents, strict=False)]
    for values in itertools.product(*ranges):
        point = dict(zip(variables, values, strict=True))
        yield point, tuple(evaluate(x, point) for x in indices)


@SETTINGS
@given(any_map())
def test_what_is_surjective_takes_all_combinations_and_what_is_bijective_each_once(case):
    indices, extents = case
    found = [value for _, value in image(indices, extents)]
    sides = [sorted(set(side)) for side in zip(*found, strict=True)]
    note(f"{[text(x) for x in indices]} over {extents}")
    if arith.detect_iter_map(indices, domains(*extents), check_level="surjective"):
        assert set(found) == set(itertools.product(*sides))
    if arith.detect_iter_map(indices, domains(*extents), check_level="bijective"):
        assert len(set(found)) == len(found)
        assert set(found) == set(itertools.product(*sides))
        assert all(side == list(range(side[0], side[0] + len(side))) for side in sides)


@st.composite
def bounded_map(draw):
    """A map and a condition: bounds of sums of the loops, some of them fused or split."""
    indices, extents = draw(any_map())
    variables = (I, J, K)[: len(extents)]
    fused = I
    for var, extent in zip(variables[1:], extents[1:], strict=True):
        fused = fused * extent + var
    sums = st.sampled_from([*variables, fused, fused // 2, fused % 4, variables[-1] + I * 3])
    bounds = [
        draw(st.sampled_from([x < n, n <= x, x <= n, n < x]))
        for x, n in draw(st.lists(st.tuples(sums, st.integers(0, 9)), min_size=1, max_size=3))
    ]
    return [*indices, fused][-draw(st.integers(1, 2)) :], extents, p.all_of(*bounds)


@SETTINGS
@given(bounded_map())
def test_what_is_surjective_under_a_condition_takes_what_its_sums_say(case):
    indices, extents, condition = case
    note(f"{[text(x) for x in indices]} over {extents} where {text(condition)}")
    for level in ("surjective", "bijective"):
        made = arith.detect_iter_map(indices, domains(*extents), condition, level)
        found = [v for point, v in image(indices, extents) if evaluate(condition, point)]
        if not made or not found:
            continue
        sides = [values_of(x) for x in made.indices]
        assert set(found) == set(itertools.product(*sides))
        assert level == "surjective" or len(set(found)) == len(found)


def values_of(made):
    """What a sum of at most one split takes."""
    base = evaluate(made.base, {})
    if not made.args:
        return [base]
    (split,) = made.args
    return [base + p.as_int(split.scale) * n for n in range(p.as_int(split.extent))]


@SETTINGS
@given(any_map(), st.tuples(*[st.integers(-2, 2)] * 3))
def test_simplified_and_normalized_indices_have_the_same_values(case, starts):
    indices, extents = case
    loops = domains(*extents, starts=starts)
    short = arith.iter_map_simplify(indices, loops)
    note(f"{[text(x) for x in indices]} -> {[text(x) for x in short]}")
    for point, values in image(indices, extents, starts):
        assert tuple(evaluate(x, point) for x in short) == values
    loops = domains(*extents)
    for x in indices:
        back = arith.normalize_iter_map_to_expr(arith.normalize_to_iter_sum(x, loops))
        note(f"{text(x)} -> {text(back)}")
        for point, (value,) in image([x], extents):
            assert evaluate(back, point) == value


@SETTINGS
@given(any_map(), st.sampled_from([(I,), (J,), (K,), (I, J), (J, K)]))
def test_divided_bindings_are_put_together_again(case, inner):
    indices, extents = case
    parts = arith.subspace_divide(indices, domains(*extents), inner)
    for x, (outer, low) in zip(indices, parts[:-1], strict=bool(parts)):
        outside, inside = (arith.normalize_iter_map_to_expr(s.source) for s in (outer, low))
        size = p.as_int(low.extent)
        note(f"{text(x)} = {text(outside)} * {size} + {text(inside)}")
        assert not any(text(v) in text(inside) for v in (I, J, K) if v not in inner)
        assert not any(text(v) in text(outside) for v in inner)
        for point, (value,) in image([x], extents):
            assert evaluate(outside, point) * size + evaluate(inside, point) == value


@pytest.mark.parametrize(
    ("indices", "loops", "after"),
    [
        ([(I * 8 + J) // 8, (I * 8 + J) % 8], domains(4, 8), ["i", "j"]),
        ([(I * 8 + J) // 4 % 2], domains(4, 8), ["(j // 4)"]),
        ([I + J], domains(4, 8), ["(i + j)"]),
        ([I], domains(4, starts=(3,)), ["i"]),
    ],
)
def test_simplified(indices, loops, after):
    assert [text(x) for x in arith.iter_map_simplify(indices, loops)] == after


def test_parts_that_a_predicate_bounds_are_divided_with_it():
    x = I * 8 + J * 4 + K
    (binding, conditions) = arith.subspace_divide(
        [x], domains(4, 2, 4), [K], p.all_of(I * 2 + J < 7, I * 2 + J >= 2)
    )
    outer, inner = (text(arith.normalize_iter_map_to_expr(part.source)) for part in binding)
    assert (outer, inner) == ("(((i * 2) + j) + -2)", "(k + 8)")
    wanted = "((0 <= (((i * 2) + j) + -2)) and ((((i * 2) + j) + -2) < 5))"
    assert [text(part.extent) for part in conditions] == [wanted, "1"]


@pytest.mark.parametrize(
    ("index", "loops", "level", "values"),
    [
        (I * 7 + J, domains(3, 8), "surjective", (0, 22)),
        (I * 7 + J, domains(3, 8), "bijective", None),
        (I * 5 + J * 2, domains(4, 3), "surjective", None),
        ((I + 80) // 32, domains(176), "surjective", (2, 6)),
        (I // 15, domains(26), "surjective", (0, 2)),
        (I // 15, domains(26), "bijective", None),
        (I // 15, domains(26), "nocheck", None),
    ],
)
def test_loops_that_overlap_or_are_padded(index, loops, level, values):
    found = arith.detect_iter_map([index], loops, check_level=level)
    shown = [(p.as_int(x.base), p.as_int(x.args[0].extent)) for x in found.indices]
    assert shown == ([] if values is None else [values])


def test_normal_sums_have_the_largest_step_first():
    made = arith.normalize_to_iter_sum(J + I * 8 + N * 3 + 5, domains(4, 8))
    assert [text(split.scale) for split in made.splits] == ["8", "1"]
    assert text(made.base) == "((n * 3) + 5)"


def test_levels():
    assert IterMapLevel.from_str("Bijective") is IterMapLevel.Bijective
    assert arith.detect_iter_map([I], domains(4), check_level=IterMapLevel.NoCheck)
    with pytest.raises(MLCError) as error:
        IterMapLevel.from_str("exact")
    assert str(error.value) == "no check level 'exact'\nhint: bijective, surjective, nocheck"

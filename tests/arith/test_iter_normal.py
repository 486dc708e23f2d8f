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
    for x, (outer, low) in zip(indices, parts, strict=bool(parts)):
        outside, inside = (arith.normalize_iter_map_to_expr(s) for s in (outer, low))
        size = 1
        for split in low.splits:
            size *= p.as_int(split.extent)
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

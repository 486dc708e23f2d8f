"""Iteration maps: which index lists split and fuse loops, and what their inverse is."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb.arith import detect_iter_map, inverse_affine_iter_map, reading
from mlcnb.arith.inverse import solved
from mlcnb.core.errors import MLCError
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from tests.arith.programs import FUZZ, evaluate

I, J, K, N = (e.Var(name) for name in "ijkn")


def domains(**extents):
    variables = {"i": I, "j": J, "k": K}
    return {variables[n]: e.Range(p.const(0), p.as_expr(x)) for n, x in extents.items()}


@pytest.mark.parametrize(
    ("indices", "loops"),
    [
        ([I, J], {"i": 4, "j": 8}),
        ([I * 8 + J], {"i": 4, "j": 8}),
        ([I // 8, I % 8], {"i": 32}),
        ([I // 8, I % 8 // 2, I % 2], {"i": 32}),
        ([I // 8 * 3 + K, I % 8], {"i": 32, "k": 3}),
        ([(I * 16 + J) // 8, J % 8], {"i": 4, "j": 16}),
        ([(I * 6 + J) // 4, (I * 6 + J) % 4], {"i": 4, "j": 6}),
        ([I * N + J], {"i": 4, "j": N}),
        ([J + 3, I - 1], {"i": 4, "j": 8}),
    ],
)
def test_bijective_maps(indices, loops):
    assert detect_iter_map(indices, domains(**loops), check_level="bijective").errors == ()


@pytest.mark.parametrize(
    ("indices", "loops", "message"),
    [
        (
            [I + J],
            {"i": 4, "j": 8},
            "a term has the factor 1; 8 would fuse it with the terms below",
        ),
        ([I, I], {"i": 4}, "a part of i is used 2 times"),
        ([I * J], {"i": 4, "j": 8}, "i * j multiplies loop variables"),
        ([I // 8, I % 8], {"i": 30}, "i // 8: 8 does not divide the extent 30"),
        ([I * 2], {"i": 4}, "the index takes only multiples of 2"),
        ([I], {"i": 4, "j": 8}, "the loop variable j is not used"),
        ([I // 8], {"i": 32}, "a part of i is used twice, or not at all"),
        ([p.minimum(I, 3)], {"i": 32}, "T.min(i, 3) is no sum of splits of loop variables"),
    ],
)
def test_maps_that_are_not_bijective(indices, loops, message):
    assert detect_iter_map(indices, domains(**loops), check_level="bijective").errors == (message,)


def test_a_surjective_map_may_leave_parts_out():
    assert detect_iter_map([I // 8], domains(i=32, j=4), check_level="surjective")
    assert not detect_iter_map([I // 8, I // 4], domains(i=32), check_level="surjective")


def test_a_predicate_cuts_a_fused_loop():
    loops = domains(i=4, j=4)
    found = detect_iter_map([I * 4 + J], loops, I * 4 + J < 15, "bijective")
    assert p.as_int(found.indices[0].splits[0].extent) == 15
    assert not detect_iter_map([I, J], loops, I * 4 + J < 15, "bijective")


def test_unknown_check_level():
    with pytest.raises(MLCError, match="no check level 'exact'"):
        detect_iter_map([I], domains(i=4), check_level="exact")


@st.composite
def split_and_fused(draw):
    """Random indices: loops, some split once or twice, put together in random order."""
    loops, parts = {}, []
    for name, var in (("i", I), ("j", J), ("k", K)):
        factors = draw(st.lists(st.integers(2, 4), min_size=1, max_size=3))
        extent = 1
        for factor in factors:
            extent *= factor
        loops[name] = extent
        below = 1
        for factor in factors:
            parts.append((var // below % factor, factor))
            below *= factor
    parts = draw(st.permutations(parts))
    indices, group = [], None
    for part, extent in parts:
        if group is not None and draw(st.booleans()):
            group = (group[0] * extent + part, group[1] * extent)
        else:
            if group is not None:
                indices.append(group[0])
            group = (part, extent)
    indices.append(group[0])
    return indices, loops


@settings(max_examples=60 * FUZZ, deadline=None)
@given(split_and_fused())
def test_random_splits_and_fusions_are_inverted(case):
    indices, loops = case
    found = detect_iter_map(indices, domains(**loops), check_level="bijective")
    assert found.errors == ()
    outputs = [e.Var(f"o{n}") for n in range(len(indices))]
    inverse = inverse_affine_iter_map(found, outputs)
    bounds = {v: (0, loops[v.name] - 1) for v in (I, J, K)}
    values = [reading.of(x, reading.Context(bounds)) for x in indices]
    alike = solved(values, [reading.of(o) for o in outputs], bounds, bounds)
    assert alike is not None
    ranges = [range(0, n, max(1, n // 4)) for n in loops.values()]
    for values in itertools.product(*ranges):
        point = dict(zip((I, J, K), values, strict=True))
        given_values = {o: evaluate(x, point) for o, x in zip(outputs, indices, strict=True)}
        for var, value in point.items():
            assert evaluate(inverse[var], given_values) == value
            assert evaluate(alike[var].expr("int32"), given_values) == value

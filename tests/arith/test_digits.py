"""Mixed-radix reasoning, against all values one by one: it never says yes wrongly."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb.arith.digits import contiguous, determined
from mlcnb.arith.reading import Context, divided, of, remainder
from mlcnb.arith.sum import Sum
from mlcnb.ir import expr as e

VARS = tuple(e.Var(name, "int32") for name in ("a", "t", "v"))


def bounded(extents):
    return {v: (0, n - 1) for v, n in zip(VARS, extents, strict=True)}


def values(starts, extents):
    """All values of the indices, with those of the variables."""
    for point in product(*map(range, extents)):
        told = {v: Sum(n) for v, n in zip(VARS, point, strict=True)}
        yield point, tuple(of(x.expr("int32"), Context({}, told)).value for x, _ in starts)


def is_a_box(points):
    sides = [range(min(side), max(side) + 1) for side in zip(*points, strict=True)]
    return set(product(*sides)) == set(points)


sums = st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 8]), min_size=3, max_size=3)
atoms = st.tuples(sums, st.sampled_from(["whole", "//", "%"]), st.sampled_from([2, 3, 4, 6]))


@settings(max_examples=400, deadline=None)
@given(
    extents=st.lists(st.integers(1, 6), min_size=3, max_size=3),
    parts=st.lists(st.lists(atoms, min_size=1, max_size=2), min_size=1, max_size=2),
)
def test_never_yes_wrongly(extents, parts):
    known = bounded(extents)
    starts = []
    for terms in parts:
        index = Sum(0)
        for factors, kind, by in terms:
            x = Sum(0, {v: c for v, c in zip(VARS, factors, strict=True) if c})
            if kind != "whole":
                x = (divided if kind == "//" else remainder)(x, by, known)
            index = index.plus(x)
        starts.append((index, 0))
    found = list(values(starts, extents))
    if contiguous(starts, VARS, known):
        assert is_a_box([at for _, at in found])
    for v in determined(starts, VARS, known):
        at = VARS.index(v)
        assert len({(x, point[at]) for point, x in found}) == len({x for _, x in found})


@pytest.mark.parametrize(
    ("extents", "by", "expected"),
    [
        ((2, 4, 4), 8, True),
        ((2, 4, 4), 16, True),
        ((2, 3, 4), 8, True),
        ((2, 3, 2), 8, False),
        ((2, 4, 4), 6, False),
    ],
)
def test_what_threads_and_lanes_fetch(extents, by, expected):
    """The element a * 16 + t * 4 + v of a tile with rows of `by`."""
    known = bounded(extents)
    a, t, v = VARS
    whole = Sum(0, {a: extents[1] * extents[2], t: extents[2], v: 1})
    starts = [(divided(whole, by, known), 0), (remainder(whole, by, known), 0)]
    assert contiguous(starts, VARS, known) == expected
    assert not contiguous([*starts, (Sum(0, {t: 1}), 0)], VARS, known)

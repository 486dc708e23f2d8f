"""Which thread an element is of, by own arithmetic: never wrongly, and in the usual cases."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.runtime.shapes import evaluate
from mlcnb.tir import stmt as s
from mlcnb.tir.access.apart import names_thread
from mlcnb.tir.access.scope import ROOT, Access
from mlcnb.tir.buffer import decl_buffer

TX, TY, N, BLOCK = (e.Var(name, p.const(0).dtype) for name in ("tx", "ty", "n", "block"))
EXTENTS = {TX: 4, TY: 3, N: 2}
OWN = {TX: p.const(4), TY: p.const(3)}


def access(*indices: e.PrimExpr) -> Access:
    """A store under a loop of two."""
    buffer = decl_buffer([1000] * len(indices), "float32", "S")
    body = s.BufferStore(buffer, p.const(0.0, "float32"), indices)
    loop = s.For(N, p.const(0), p.const(2), s.ForKind.SERIAL, body)
    inside = ROOT.loop(loop, N, e.Range(p.const(0), p.const(2)))
    return Access(buffer, body, indices, True, inside, (), body)


def told(*indices: e.PrimExpr) -> bool:
    return names_thread(access(*indices), OWN, OWN, {BLOCK: p.const(8)})


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        ((TY * 4 + TX,), True),
        ((BLOCK * 12 + TY * 4 + TX,), True),
        ((TY * 33 + TX, N), True),
        (((N * 3 + TY) * 4 + TX,), True),
        ((p.floordiv((N * 3 + TY) * 4 + TX, 6), p.floormod((N * 3 + TY) * 4 + TX, 6)), True),
        ((e.Ramp(TY * 16 + TX * 4, p.const(1), 4),), True),
        ((e.Ramp(TY * 16 + TX * 4, p.const(1), 8),), False),
        ((e.Ramp(TY * 4 + TX, p.const(2), 4),), False),
        ((TY * 3 + TX,), False),
        ((TX,), False),
        ((TY * 4 + TX + N,), False),
        ((p.floormod(TY * 4 + TX, 6),), False),
    ],
)
def test_usual_indices(indices, expected):
    assert told(*indices) is expected


def terms():
    numbers = st.integers(0, 12)
    whole = st.builds(lambda a, b, c: TX * a + TY * b + N * c, numbers, numbers, numbers)
    by = st.integers(2, 7)
    return st.one_of(whole, st.builds(p.floordiv, whole, by), st.builds(p.floormod, whole, by))


@given(st.lists(terms(), min_size=1, max_size=3))
def test_it_never_says_so_wrongly(indices):
    if not told(*indices):
        return
    seen: dict[tuple[int, ...], tuple[int, int]] = {}
    for tx, ty, n in product(*map(range, EXTENTS.values())):
        at = tuple(evaluate(i, {TX: tx, TY: ty, N: n}) for i in indices)
        assert seen.setdefault(at, (tx, ty)) == (tx, ty)

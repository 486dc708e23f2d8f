"""Expressions whose parts are shared: each node once, and how many places there are."""

from __future__ import annotations

from mlcnb.core.node import walk
from mlcnb.core.shared import distinct, places
from mlcnb.ir.expr import Add, Var


def doubled(times: int) -> tuple[Var, list[Add]]:
    """x + x, that and that, …"""
    made: list[Add] = []
    x = Var("x", "int32")
    for _ in range(times):
        last = made[-1] if made else x
        made.append(Add(last, last))
    return x, made


def test_each_node_comes_once():
    x, sums = doubled(40)
    assert distinct(sums[-1]) == [*reversed(sums), x]
    assert distinct(x) == [x]


def test_places_are_counted_without_a_walk():
    x, sums = doubled(60)
    assert places(x) == 1
    assert places(sums[-1]) == 2**61 - 1
    assert all(places(s) == len([*walk(s)]) for s in sums[:8])
    assert places(Add(sums[2], x)) == len([*walk(Add(sums[2], x))])

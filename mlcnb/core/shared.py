"""Expressions whose parts are shared: few nodes may stand in very many places.

walk(x)        each place            a = x + x;  b = a + a;  c = b + b;  …
distinct(x)    each node once        30 such lines are 31 nodes, in 2^31 places
places(x)      how many places, without a walk through them
"""

from __future__ import annotations

from mlcnb.core.node import Node, children


def distinct(n: Node) -> list[Node]:
    """Every node below and including `n` once, the node itself first."""
    found: dict[int, Node] = {}
    left = [n]
    while left:
        one = left.pop()
        if id(one) not in found:
            found[id(one)] = one
            left += children(one)
    return [*found.values()]


def places(n: Node) -> int:
    """How many nodes `walk` gives."""
    counts: dict[int, int] = {}
    left = [(n, False)]
    while left:
        one, has_parts = left.pop()
        if id(one) in counts:
            continue
        parts = children(one)
        if parts and not has_parts:
            left.append((one, True))
            left += [(x, False) for x in parts]
        else:
            counts[id(one)] = 1 + sum(counts[id(x)] for x in parts)
    return counts[id(n)]

"""Two graphs of one program, before and after a pass: what is new, gone, or takes other operands.

    marks = compare(before, after)
    marks.before[3]  "-": gone    "~": takes something else, or does it otherwise
    marks.after[2]   "+": new     "~": the same

Nodes are matched by the call that they stand for, then by the variable that it is bound to, then in
order by what they say, as the lines of a text are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from mlcnb.view.graph.model import Model, Node


@dataclass
class Marks:
    """By number of node: its sign, "" for what stayed; and which node it is in the other graph."""

    before: list[str]
    after: list[str]
    partner: dict[int, int] = field(default_factory=dict)


def compare(before: Model, after: Model) -> Marks:
    """The signs of the nodes of both graphs."""
    pairs: dict[int, int] = {}
    for key in (_origin, _var, _place, _sort_of_place):
        _match(before, after, pairs, key)
    _match_in_order(before, after, pairs)
    marks = Marks(["-"] * len(before.nodes), ["+"] * len(after.nodes), pairs)
    takes, takes_after = _sources(before), _sources(after)
    for old, new in pairs.items():
        same = before.nodes[old].lines == after.nodes[new].lines
        same = same and {pairs.get(n, -1) for n in takes[old]} == takes_after[new]
        marks.before[old] = marks.after[new] = "" if same else "~"
    return marks


def _origin(node: Node) -> Any:
    return None if node.origin is None else id(node.origin)


def _var(node: Node) -> Any:
    return None if node.var is None else id(node.var)


def _place(node: Node) -> Any:
    """Where it came from, with what it says: one place may have made several nodes."""
    span = getattr(node.origin, "span", None)
    return None if span is None else (id(span), node.lines)


def _sort_of_place(node: Node) -> Any:
    """The same by the first thing it says: the operator."""
    place = _place(node)
    return None if place is None else (place[0], node.lines[0])


def _match(before: Model, after: Model, pairs: dict[int, int], key: Callable[[Node], Any]) -> None:
    """Pair nodes, not paired yet, that have the same key, in the order of the program."""
    taken = set(pairs.values())
    known: dict[Any, list[int]] = {}
    for node in reversed(after.nodes):
        if node.id not in taken and key(node) is not None:
            known.setdefault(key(node), []).append(node.id)
    for node in before.nodes:
        if node.id not in pairs and known.get(key(node)):
            pairs[node.id] = known[key(node)].pop()


def _match_in_order(before: Model, after: Model, pairs: dict[int, int]) -> None:
    """Pair the nodes that are left and say the same, in the order of the program."""
    taken = set(pairs.values())
    old = [n for n in before.nodes if n.id not in pairs]
    new = [n for n in after.nodes if n.id not in taken]
    texts, others = ([(n.sort, n.lines) for n in nodes] for nodes in (old, new))
    for block in SequenceMatcher(None, texts, others, autojunk=False).get_matching_blocks():
        for i in range(block.size):
            pairs[old[block.a + i].id] = new[block.b + i].id


def _sources(model: Model) -> list[set[int]]:
    """For each node the nodes whose results it takes."""
    found: list[set[int]] = [set() for _ in model.nodes]
    for edge in model.edges:
        found[edge.target].add(edge.source)
    return found

"""Which calls form one kernel: groups in a graph of calls, by pattern and dominance.

    conv2d(4) --> add(1) --> relu(0) -.          {conv2d, add, relu, add}: all paths from conv2d
       |                               >-> add   lead to the last add, and every one of them
    (x) ------------------------------'          is elementwise

The rule is that of TVM's FuseOps: a value may be computed in the same kernel as what uses it if all
its uses lead to one node (its post-dominator) over nodes that are harmless for its kind.
  phase 0   a heavy operator (4) takes in the elementwise chain behind it; light operators (0, 1)
            join what uses them, a reduction (3) too
  phase 1   data movement (2) joins what uses it
A node whose value is seen outside cannot be swallowed; it can only be the last of its group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlcnb.ir.rules import Rule, declare
from mlcnb.tir.analysis import OpPatternKind


@dataclass(slots=True, eq=False)
class Node:
    """A call in the graph.

    index: its place in the program; pattern: its kind; users: (node, pattern of that use), each use
    once; is_seen: its value is used outside of the graph too; origin: the call.
    """

    index: int
    pattern: OpPatternKind
    users: list[tuple[Node, OpPatternKind]] = field(default_factory=list)
    is_seen: bool = False
    origin: Any = None
    #: where all uses meet, and the worst pattern on the way there
    post_dominator: Node | None = None
    path_pattern: OpPatternKind = OpPatternKind.OPAQUE
    depth: int = 0
    #: union-find: itself for the root of a group
    parent: Node | None = None
    group_pattern: OpPatternKind = OpPatternKind.OPAQUE
    group_size: int = 1


def find_groups(nodes: Sequence[Node], max_depth: int) -> list[list[Node]]:
    """Groups of two or more nodes, each in program order.

    Args:
        nodes: in program order: users come after what they use.
        max_depth: the largest number of nodes in one group.
    """
    for node in nodes:
        node.parent, node.group_pattern, node.group_size = None, node.pattern, 1
    for node in reversed(nodes):
        _find_post_dominator(node)
    for phase in (0, 1):
        for node in nodes:
            _fuse_forward(node, phase, max_depth)
    groups: dict[int, list[Node]] = {}
    for node in nodes:
        groups.setdefault(id(root_of(node)), []).append(node)
    return [group for group in groups.values() if len(group) > 1]


def root_of(node: Node) -> Node:
    """The node that stands for the group."""
    while node.parent is not None:
        if node.parent.parent is not None:
            node.parent = node.parent.parent
        node = node.parent
    return node


def _find_post_dominator(node: Node) -> None:
    """The first node that all paths from `node` go through; users have theirs already."""
    node.path_pattern = OpPatternKind.OPAQUE
    if not node.is_seen and node.users:
        meeting: Node | None = None
        worst = OpPatternKind.ELEM_WISE
        for number, (user, pattern) in enumerate(node.users):
            worst = max(worst, pattern)
            if number == 0:
                meeting = user
            else:
                meeting, on_the_way = _meet(meeting, user)
                worst = max(worst, on_the_way)
        node.post_dominator, node.path_pattern = meeting, worst
    above = node.post_dominator
    node.depth = 1 if above is None else above.depth + 1


def _meet(a: Node | None, b: Node | None) -> tuple[Node | None, OpPatternKind]:
    """The lowest common ancestor in the tree of post-dominators, and the worst on the ways."""
    worst = OpPatternKind.ELEM_WISE
    while a is not b:
        if a is None or b is None:
            return None, worst
        if a.depth < b.depth:
            a, b = b, a
        worst = max(worst, a.path_pattern)
        a = a.post_dominator
    return a, worst


Allowed = Callable[[OpPatternKind, bool], bool]


def _fuse_forward(node: Node, phase: int, max_depth: int) -> None:
    """Join the group of `node` to that of its post-dominator, where kind and paths allow."""
    sink = node.post_dominator
    if sink is None or node.pattern in (OpPatternKind.OPAQUE, OpPatternKind.TUPLE):
        return
    if root_of(node) is root_of(sink):
        return
    rule = _rule_for(root_of(node).group_pattern, node.path_pattern, phase)
    if rule is None or not rule.is_on:
        return
    path = _nodes_between(node, sink, rule.function)
    if path is None:
        return
    roots = {id(root_of(n)): root_of(n) for n in path}
    if sum(r.group_size for r in roots.values()) <= max_depth:
        for n in path:
            _join(n, sink)
        rule.fire(*(n.origin for n in path))


def _rule_for(kind: OpPatternKind, path: OpPatternKind, phase: int) -> Rule | None:
    """The rule by which a group of this kind joins what uses it; None: none in this phase."""
    if kind is OpPatternKind.OUT_ELEM_WISE_FUSABLE:
        return EPILOGUE if phase == 0 and path is OpPatternKind.ELEM_WISE else None
    if kind <= OpPatternKind.BROADCAST:
        fits = path <= OpPatternKind.INJECTIVE or path is OpPatternKind.COMM_REDUCE
        return ELEMENTWISE if fits else None
    if kind is OpPatternKind.INJECTIVE:
        return MOVEMENT if phase == 1 and path <= OpPatternKind.INJECTIVE else None
    return None


def _light(pattern: OpPatternKind, is_sink: bool) -> bool:
    """A product takes in the elementwise chain behind it."""
    return pattern <= OpPatternKind.BROADCAST


def _into_anything(pattern: OpPatternKind, is_sink: bool) -> bool:
    """An elementwise operator joins what uses it."""
    if not is_sink:
        return pattern <= OpPatternKind.INJECTIVE
    return pattern <= OpPatternKind.OUT_ELEM_WISE_FUSABLE


def _movement(pattern: OpPatternKind, is_sink: bool) -> bool:
    """Data movement joins what uses it."""
    return pattern <= OpPatternKind.INJECTIVE


#: the function of each says which nodes may lie between, and (flag) at the end
EPILOGUE = declare("FuseOps.epilogue", _light)
ELEMENTWISE = declare("FuseOps.elementwise", _into_anything)
MOVEMENT = declare("FuseOps.movement", _movement)


def _nodes_between(source: Node, sink: Node, allowed: Allowed) -> list[Node] | None:
    """All nodes on paths from `source` to `sink`, both included; None where one is not allowed."""
    seen: dict[int, Node] = {id(source): source}
    stack = [source]
    while stack:
        for user, _ in stack.pop().users:
            if id(user) in seen:
                continue
            if not allowed(root_of(user).group_pattern, user is sink):
                return None
            seen[id(user)] = user
            if user is not sink:
                stack.append(user)
    return list(seen.values())


def _join(node: Node, sink: Node) -> None:
    """The group of `node` becomes part of that of `sink`."""
    one, two = root_of(node), root_of(sink)
    if one is two:
        return
    one.parent = two
    two.group_size += one.group_size
    two.group_pattern = max(one.group_pattern, two.group_pattern)

"""A graph as a page draws it: where everything is, in whole points, as short as can be.

    drawn = drawing(graph)     {"w", "h", "n": [[x, y, w, h, sort, lines, flags, members], …],
                                "e": [[source, target, label, path], …], "c": [[x, y, w, h, title]]}

flags: "k" runs as a kernel, "d" stands for several, "f" was searched for.

    before_after(mod, mod2, rules)     both graphs, a sign for each node, the nodes of each rule
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.ir.module import IRModule
from mlcnb.ir.rules import RuleCount
from mlcnb.view import survey
from mlcnb.view.graph import Graph
from mlcnb.view.graph.compare import compare
from mlcnb.view.graph.layout import Placed, Point
from mlcnb.view.graph.model import Cluster, Model, Node, build

#: nodes of one of two graphs side by side
MOST_NODES = 240


def drawing(graph: Graph, marked: bool = True) -> dict[str, Any]:
    """Nodes, edges and frames of a graph with their places.

    Args:
        graph: what is drawn.
        marked: say which nodes were searched for.

    Raises:
        MissingDependencyError: there is no engine to lay it out.
    """
    placed = graph.plain
    return {
        "w": round(placed.width),
        "h": round(placed.height),
        "n": [_node(node, placed, marked) for node in graph.model.nodes],
        "e": [
            [e.source, e.target, e.label, _path(placed.edges[i][0])]
            for i, e in enumerate(graph.model.edges)
        ],
        "c": [
            _frame(c.title, placed.clusters[c.id])
            for c in graph.model.clusters
            if c.id in placed.clusters
        ],
    }


def _node(node: Node, placed: Placed, marked: bool) -> list[Any]:
    x, y, width, height = placed.nodes[node.id]
    known = ("k", node.kernel), ("d", node.folded), ("f", node.found and marked)
    flags = "".join(f for f, on in known if on)
    corner = (round(x - width / 2), round(y - height / 2), round(width), round(height))
    return [*corner, node.sort, list(node.lines), flags, len(node.members)]


def _frame(title: str, box: tuple[float, float, float, float]) -> list[Any]:
    left, top, right, bottom = map(round, box)
    return [left, top, right - left, bottom - top, title]


def _path(points: list[Point]) -> str:
    """The line of an edge up to its tip, as SVG writes it."""
    start, *rest = (f"{round(x)} {round(y)}" for x, y in points[:-1])
    tip = f"L{round(points[-1][0])} {round(points[-1][1])}"
    return (
        f"M{start}C{' '.join(rest)}{tip}" if len(rest) >= 3 else f"M{start}L{' '.join(rest)}{tip}"
    )


def before_after(before: IRModule, after: IRModule, rules: Sequence[RuleCount]) -> dict[str, Any]:
    """Both graphs as they are drawn, their signs, and the nodes of each use of each rule."""
    old, new = (_model(mod) for mod in (before, after))
    if old is None or new is None:
        return {}
    uses = [_nodes_of(used, old) for used in rules]
    marks = compare(old, new)
    touched = {n for use in uses for nodes in use for n in nodes}
    drawn = [
        _drawn(_in_frames(old, uses), marks.before, touched),
        _drawn(new, marks.after, set()),
    ]
    places = {m: i for i, n in enumerate(drawn[0].model.nodes) for m in n.members}
    lit = [sorted({places[n] for nodes in use for n in nodes if n in places}) for use in uses]
    signs = [_signs(g, s) for g, s in zip(drawn, (marks.before, marks.after), strict=True)]
    told = {"signs": signs, "lit": lit, "partner": _partners(drawn, marks.partner)}
    try:
        return {"graphs": [drawing(g, marked=False) for g in drawn], **told}
    except MLCError:  # no engine: the texts say the same
        return {}


def _model(mod: IRModule) -> Model | None:
    found = survey.graph_functions(mod)
    if not found:
        return None
    name, function = next(((n, f) for n, f in found if n == "main"), found[0])
    made = build(name, function, mod.functions, True)
    return made if made.nodes else None


def _nodes_of(used: RuleCount, model: Model) -> list[list[int]]:
    """For each use of a rule the nodes of the graph that it was applied to."""
    by_id = {id(x): n.id for n in model.nodes for x in (n.var, n.origin) if x is not None}
    by_span: dict[int, list[int]] = {}
    for n in model.nodes:
        by_span.setdefault(id(getattr(n.origin, "span", None)), []).append(n.id)
    return [
        list(dict.fromkeys(by_id[id(x)] for x in nodes if id(x) in by_id))
        or [n for x in nodes for n in by_span.get(id(x), ())]
        for nodes in used.uses
    ]


def _in_frames(model: Model, uses: list[list[list[int]]]) -> Model:
    """Nodes that rules take together stand in a frame: what becomes one kernel."""
    group: dict[int, int] = {}
    for nodes in (n for use in uses for n in use if len(n) > 1):
        roots = {_root(group, n) for n in nodes}
        group.update(dict.fromkeys(roots, min(roots)))
    members: dict[int, list[int]] = {}
    for n in group:
        members.setdefault(_root(group, n), []).append(n)
    if model.clusters or not members:
        return model
    frames = {n: number for number, inside in enumerate(members.values()) for n in inside}
    titles = [f"{len(inside)} become one" for inside in members.values()]
    clusters = [Cluster(number, title) for number, title in enumerate(titles)]
    framed = [replace(n, cluster=frames.get(n.id)) for n in model.nodes]
    return Model(model.name, framed, model.edges, clusters)


def _root(group: dict[int, int], n: int) -> int:
    while group.setdefault(n, n) != n:
        n = group[n]
    return n


def _drawn(model: Model, signs: list[str], touched: set[int]) -> Graph:
    """The graph folded, so that what changed is not."""
    wanted = [n.id for n in model.nodes if signs[n.id] or n.id in touched]
    kept = set(wanted) if len(wanted) <= MOST_NODES // 2 else set()
    nodes = [replace(n, found=n.id in kept) for n in model.nodes]
    return Graph(Model(model.name, nodes, model.edges, model.clusters), MOST_NODES)


def _signs(graph: Graph, signs: list[str]) -> list[str]:
    """The sign of each drawn node: that of its members where they agree, else "~"."""
    found = [{signs[m] for m in n.members} for n in graph.model.nodes]
    return [next(iter(s)) if len(s) == 1 else "~" for s in found]


def _partners(drawn: list[Graph], partner: dict[int, int]) -> list[int]:
    """For each node of the first picture the number of the same one in the second, or -1."""
    places = {m: i for i, n in enumerate(drawn[1].model.nodes) for m in n.members}
    return [
        next((places[partner[m]] for m in n.members if partner.get(m) in places), -1)
        for n in drawn[0].model.nodes
    ]

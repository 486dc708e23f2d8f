"""Graphviz decides where nodes and edges go; what is drawn there is ours (`view.graph.drawing`).

    dot_of(model)   the source: names, labels, sizes, frames
    place(source)   positions, asked of `dot`, or of `graphviz-pure` where there is no `dot`

Text of a model reaches graphviz only as escaped labels; nothing but numbers is taken from what it
answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlcnb.core.errors import MissingDependencyError, MLCError
from mlcnb.observe.engine import find_engine
from mlcnb.view.graph.kinds import LOOKS
from mlcnb.view.graph.model import Cluster, Model, Node

#: points: size of a label's line and of a character in it, and room around
LINE, CHARACTER, ROOM = 14.0, 7.0, 10.0
_INCH = 72.0
_GRAPH = {"rankdir": "TB", "nodesep": "0.2", "ranksep": "0.32", "fontname": "Courier"}
_NODE = {"fixedsize": "true", "fontname": "Courier", "fontsize": "11", "style": "filled"}
_EDGE = {"fontname": "Courier", "fontsize": "10", "arrowsize": "0.6"}

Point = tuple[float, float]


@dataclass(frozen=True)
class Placed:
    """Where everything is, in points, y downwards.

    nodes: centre, width and height by number; edges: (spline points, label's centre or None) by
    number; clusters: (left, top, right, bottom) by number.
    """

    width: float
    height: float
    nodes: dict[int, tuple[float, float, float, float]]
    edges: dict[int, tuple[list[Point], Point | None]]
    clusters: dict[int, tuple[float, float, float, float]]


def size_of(node: Node) -> tuple[float, float]:
    """Width and height that the label needs, in points."""
    longest = max(len(line) for line in node.lines)
    look = LOOKS[node.sort]
    slant = 0.0 if look.shape in ("box", "rounded") else 16.0
    width = longest * CHARACTER + ROOM + slant + (10.0 if node.kernel else 0.0)
    return max(width, 40.0), len(node.lines) * LINE + ROOM


def dot_of(model: Model, labels: bool = True) -> str:
    """The graph as graphviz source; without labels of edges it is laid out five times as fast."""
    import graphviz

    made = graphviz.Digraph("G", graph_attr=_GRAPH, node_attr=_NODE, edge_attr=_EDGE)
    inside: dict[int | None, list[Node]] = {}
    for node in model.nodes:
        inside.setdefault(node.cluster, []).append(node)
    _add(made, None, model.clusters, inside)
    for number, edge in enumerate(model.edges):
        given = {"label": graphviz.escape(edge.label)} if edge.label and labels else {}
        if edge.back:
            given |= {"constraint": "false", "style": "dashed"}
        made.edge(f"n{edge.source}", f"n{edge.target}", id=f"e{number}", **given)
    return made.source


def _add(
    made: Any, frame: int | None, clusters: list[Cluster], inside: dict[int | None, list[Node]]
) -> None:
    """The nodes and frames that stand directly in `frame`."""
    import graphviz

    for node in inside.get(frame, ()):
        look = LOOKS[node.sort]
        width, height = (f"{points / _INCH:.4f}" for points in size_of(node))
        label = graphviz.escape("\n".join(node.lines)).replace("\n", "\\n")
        style = "filled,rounded" if look.shape == "rounded" else "filled"
        made.node(
            f"n{node.id}",
            label=graphviz.quoting.NoHtml(label),
            shape=look.dot,
            width=width,
            height=height,
            fillcolor=look.fill,
            color=look.ink,
            style=style,
        )
    for cluster in clusters:
        if cluster.parent == frame:
            with made.subgraph(name=f"cluster_{cluster.id}") as sub:
                sub.attr(label=graphviz.escape(cluster.title), fontsize="10", color="#8c959f")
                _add(sub, cluster.id, clusters, inside)


@contextmanager
def _hooked(engine: Path) -> Iterator[None]:
    """The `graphviz` package runs this engine inside."""
    from graphviz.backend import dot_command

    before, dot_command.DOT_BINARY = dot_command.DOT_BINARY, engine
    try:
        yield
    finally:
        dot_command.DOT_BINARY = before


def place(source: str) -> Placed:
    """Lay out a graph.

    Raises:
        MissingDependencyError: there is no engine.
        MLCError: it failed.
    """
    import graphviz

    engine = find_engine()
    if engine is None:
        raise MissingDependencyError(
            "no graph can be drawn: there is no `dot` and no `graphviz-pure`",
            hint="pip install graphviz-pure",
        )
    try:
        with _hooked(engine):
            answer = graphviz.pipe_string("dot", "json0", source, encoding="utf-8", quiet=True)
        return _read(json.loads(answer))
    except (graphviz.CalledProcessError, graphviz.ExecutableNotFound, OSError) as error:
        raise MLCError(f"{engine.name} could not lay out the graph: {error}") from error
    except (ValueError, KeyError) as error:
        raise MLCError(f"{engine.name} answered with no layout: {error!r}") from error


def _read(answer: dict[str, Any]) -> Placed:
    """Graphviz's JSON as numbers; it counts y upwards."""
    _, _, width, height = _numbers(answer["bb"])
    placed = Placed(width, height, {}, {}, {})
    for item in answer.get("objects", ()):
        name = item["name"]
        if name.startswith("cluster_"):
            left, bottom, right, top = _numbers(item["bb"])
            placed.clusters[int(name[8:])] = (left, height - top, right, height - bottom)
        else:
            x, y = _numbers(item["pos"])
            size = (float(item["width"]) * _INCH, float(item["height"]) * _INCH)
            placed.nodes[int(name[1:])] = (x, height - y, *size)
    for item in answer.get("edges", ()):
        label = _point(item["lp"], height) if "lp" in item else None
        placed.edges[int(item["id"][1:])] = (_spline(item["pos"], height), label)
    return placed


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def _point(text: str, height: float) -> Point:
    x, y = _numbers(text)
    return x, height - y


def _spline(text: str, height: float) -> list[Point]:
    """The control points of an edge; the last one is the tip of the arrow."""
    points, tip = [], None
    for word in text.split(";")[0].split():
        if word.startswith("e,"):
            tip = _point(word[2:], height)
        elif not word.startswith("s,"):
            points.append(_point(word, height))
    return [*points, tip or points[-1]]

"""The picture of a graph function.

    mod.graph()                         shows itself in a cell
    graph(func, max_nodes=1000)         more of it
    graph(mod, find="conv")             what has this in its name, marked and never folded
    graph(ex, profile=mlc.profile(ex, x))     coloured by time; or colour="bytes", "provenance"
    g.svg()   g.dot   print(g)          the picture, graphviz source, the same in words

Operators are nodes whose shape and colour tell what sort of work they do; edges carry shapes and
dtypes; fused groups stand in frames. Above `max_nodes` the graph is folded (`view.graph.fold`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.ir.module import IRModule
from mlcnb.relax.expr import Call, Function
from mlcnb.view.graph import drawing, fold, layout, paint
from mlcnb.view.graph.model import Model, Node, build
from mlcnb.view.parts import MAX_LINES, Line, Part, Picture, Title, more
from mlcnb.view.registry import shows
from mlcnb.view.survey import graph_functions
from mlcnb.view.words import clip, plural

#: nodes that one picture has at most
MAX_NODES = 400
#: what colours may say
COLOURS = ("kind", "provenance", "bytes", "time")


class Graph(display.Shown):
    """A graph that shows itself: see the package's text.

    Attributes:
        model: nodes, edges and frames as they are drawn.
        full: the same before folding.
        colour: what colours say: "kind", "time", "bytes" or "provenance".
        find: what was searched for.
    """

    def __init__(
        self,
        full: Model,
        max_nodes: int = MAX_NODES,
        colour: str = "kind",
        find: str = "",
        profile: Any = None,
        lit: Collection[Any] = (),
        overview: bool = False,
    ) -> None:
        self.colour, self.find = colour, find
        self.full = paint.find(full, find) if find else full
        if lit:
            self.full = paint.lit(self.full, lit)
        if colour == "time":
            self.full = paint.with_seconds(self.full, profile)
            _check_time(self.full)
        elif colour == "bytes":
            self.full = paint.with_bytes(self.full)
        self.max_nodes = max_nodes
        smaller = fold.overview if overview else fold.fold
        self.model = _painted(smaller(_few_found(self.full, max_nodes), max_nodes), colour)

    @cached_property
    def dot(self) -> str:
        """Graphviz source."""
        return layout.dot_of(self.model)

    @cached_property
    def _placed(self) -> layout.Placed:
        return self.plain if len(self.model.nodes) > MAX_NODES else layout.place(self.dot)

    @cached_property
    def plain(self) -> layout.Placed:
        """Where nodes and edges go without labels on edges: quick."""
        return layout.place(layout.dot_of(self.model, labels=False))

    def svg(self, tooltips: bool = True) -> str:
        """The picture as SVG: no script, no link, no event, everything escaped.

        Args:
            tooltips: hovering over a node shows its program text and where it came from.

        Raises:
            MissingDependencyError: there is no engine to lay it out.
        """
        return drawing.draw(self.model, self._placed, self.title, _tip if tooltips else None)

    @property
    def is_folded(self) -> bool:
        """Whether parts of the graph are left out or joined."""
        return len(self.model.nodes) < len(self.full.nodes)

    @property
    def summary(self) -> str:
        """How large it is, and whether it is folded."""
        told = plural(self.full.operators, "operator")
        if self.is_folded:
            told += f", folded to {plural(len(self.model.nodes), 'node')}"
        if self.find:
            told += f", {len(self.found)} found for {clip(self.find, 30)!r}"
        return told

    @property
    def found(self) -> list[Node]:
        """The nodes that were searched for, of the whole graph."""
        return [n for n in self.full.nodes if n.found]

    @property
    def title(self) -> str:
        """What the picture shows, in words."""
        by = "" if self.colour == "kind" else f", coloured by {self.colour}"
        return f"graph of {clip(self.full.name, 40)}: {self.summary}{by}"

    def explain(self, most: int = MAX_LINES) -> str:
        """The same in words: a line for each node with what it takes, `*` where it was found."""
        takes: dict[int, list[str]] = {}
        for edge in self.model.edges:
            made = f"{_name(self.model.nodes[edge.source])} [{edge.label}]".removeprefix("* ")
            takes.setdefault(edge.target, []).append(made)
        lines = [
            f"{_name(n)} <- {', '.join(takes.get(n.id, ['nothing']))}" for n in self.model.nodes
        ]
        left = more(len(lines) - most, "node", "graph.explain(most=…)")
        return "\n".join([*lines[:most], *([left] if left else [])])

    def parts(self, see: str = "mod.graph()") -> list[Part]:
        """The picture, or what is wrong with the engine and the graph in words."""
        try:
            svg = self.svg(tooltips=False)
        except MLCError as error:
            return [Line(str(error), "note"), *_words(self)]
        parts: list[Part] = [Picture(lambda: svg, self.title, text=self.explain())]
        if self.is_folded:
            parts.append(Line(f"folded; all of it: {self._unfolded(see)}", "note"))
        return parts

    def _unfolded(self, see: str) -> str:
        """The call that shows everything."""
        count = len(self.full.nodes)
        if count <= MAX_NODES:
            return see
        given = see.removesuffix(")")
        return f"{given}{'' if given.endswith('(') else ', '}max_nodes={count})"

    def __repr__(self) -> str:
        return f"{self.title}\n{self.explain()}"


def graph(
    mod: Any,
    function: str = "main",
    groups: bool = True,
    max_nodes: int = MAX_NODES,
    *,
    colour: str = "",
    find: str = "",
    profile: Any = None,
    lit: Collection[Any] = (),
    overview: bool = False,
) -> Graph:
    """The graph of one function.

    Edges say the shape and dtype of what flows.

    Args:
        mod: a module, a graph function, or an executable.
        function: which function of the module (its only graph function, if it has no such one).
        groups: draw fused groups as frames around their operators, not as one node.
        max_nodes: a graph with more is folded.
        colour: what colours say: "kind" (of work), "provenance" (which part of the model a node
            came from), "bytes" (of its result) or "time" (of its calls, from `profile`).
        find: nodes with this text in their label, variable, kernel or origin are marked, and not
            folded.
        profile: what `mlcnb.profile` gave; colours by time.
        lit: variables whose nodes are marked, and not folded.
        overview: of a network of images draw the stages, each the operators of one size of image.

    Raises:
        MLCError: there is no such graph function or colour, or the profile is of another program.
    """
    colour = colour or ("kind" if profile is None else "time")
    if colour not in COLOURS or (colour == "time" and profile is None):
        what = "time needs a profile" if colour == "time" else f"no colour {colour!r}"
        hint = "graph(ex, profile=mlcnb.profile(ex, x))" if colour == "time" else ", ".join(COLOURS)
        raise MLCError(f"graph: {what}", hint=hint)
    looks = {"colour": colour, "find": find, "profile": profile, "lit": lit, "overview": overview}
    if isinstance(mod, Function):
        name = str(mod.attrs.get("global_symbol", "function"))
        return Graph(build(name, mod, {}, groups), max_nodes, **looks)
    mod = mod if isinstance(mod, IRModule) else mod.mod
    name = _entry(mod, function)
    return Graph(build(name, mod[name], mod.functions, groups), max_nodes, **looks)


def _painted(model: Model, colour: str) -> Model:
    """A folded graph in its colours."""
    if colour in ("time", "bytes"):
        return paint.by_amount(model, colour)
    return paint.by_origin(model) if colour == "provenance" else model


def _few_found(model: Model, most: int) -> Model:
    """Of many nodes that were found only so many are kept out of folds that there is room."""
    room = most // 2
    found = [n.id for n in model.nodes if n.found]
    if len(found) <= room:
        return model
    kept = set(found[:room])
    nodes = [replace(n, found=n.id in kept) for n in model.nodes]
    return Model(model.name, nodes, model.edges, model.clusters, model.paints)


def _check_time(model: Model) -> None:
    if not any(n.amount for n in model.nodes):
        raise MLCError(
            "graph: none of the profile's calls is in this graph",
            hint="draw what was timed: graph(ex, profile=mlcnb.profile(ex, x))",
        )


def _entry(mod: IRModule, name: str) -> str:
    names = [n for n, _ in graph_functions(mod)]
    if name == "main" and name not in mod and len(names) == 1:
        return names[0]
    if not isinstance(mod[name], Function):
        known = ", ".join(names) or "none"
        raise MLCError(f"{name!r} is no graph function", hint=f"graph functions: {known}")
    return name


def _name(node: Node) -> str:
    lines = node.lines if node.paint is not None else node.lines[:3]
    return f"{'* ' if node.found else ''}{node.id}:{' + '.join(lines)}"


def _words(drawn: Graph) -> list[Part]:
    from mlcnb.view.highlight import code

    return [code(drawn.explain())]


def _tip(node: Node) -> str:
    """Where a node came from, and its program text."""
    if not isinstance(node.origin, Call):
        return " ".join(node.lines)
    span = node.origin.span
    came = f"from {span.source}: {clip(span.name, 200)}\n" if span is not None else ""
    return f"{came}{clip(display.text(node.origin), 300)}"


@shows("mlcnb.view.graph:Graph")
def _view(drawn: Graph) -> list[Part]:
    """Title and picture."""
    return [Title(drawn.title), *drawn.parts()]

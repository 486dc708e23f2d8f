"""The picture of a graph function.

    mod.graph()                         shows itself in a cell
    graph(func, max_nodes=1000)         more of it
    g.svg()   g.dot   print(g)          the picture, graphviz source, the same in words

Operators are nodes whose shape and colour tell what sort of work they do; edges carry shapes and
dtypes; fused groups stand in frames. Above `max_nodes` the graph is folded (`view.graph.fold`).
"""

from __future__ import annotations

from functools import cached_property

from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.ir.module import IRModule
from mlcnb.relax.expr import Call, Function
from mlcnb.view.graph import drawing, layout
from mlcnb.view.graph.fold import fold
from mlcnb.view.graph.model import Model, Node, build
from mlcnb.view.parts import MAX_LINES, Line, Part, Picture, Title, more
from mlcnb.view.registry import shows
from mlcnb.view.survey import graph_functions
from mlcnb.view.words import clip, plural

#: nodes that one picture has at most
MAX_NODES = 400


class Graph(display.Shown):
    """A graph that shows itself: see the package's text.

    Attributes:
        model: nodes, edges and frames as they are drawn.
        full: the same before folding.
    """

    def __init__(self, full: Model, max_nodes: int = MAX_NODES) -> None:
        self.full = full
        self.max_nodes = max_nodes
        self.model = fold(full, max_nodes)

    @cached_property
    def dot(self) -> str:
        """Graphviz source."""
        return layout.dot_of(self.model)

    @cached_property
    def _placed(self) -> layout.Placed:
        quick = len(self.model.nodes) > MAX_NODES
        return layout.place(layout.dot_of(self.model, labels=False) if quick else self.dot)

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
        size = plural(self.full.operators, "operator")
        if not self.is_folded:
            return size
        return f"{size}, folded to {plural(len(self.model.nodes), 'node')}"

    @property
    def title(self) -> str:
        """What the picture shows, in words."""
        return f"graph of {clip(self.full.name, 40)}: {self.summary}"

    def explain(self, most: int = MAX_LINES) -> str:
        """The same in words: a line for each node, with what it takes."""
        takes: dict[int, list[str]] = {}
        for edge in self.model.edges:
            made = f"{_name(self.model.nodes[edge.source])} [{edge.label}]"
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
    mod: IRModule | Function,
    function: str = "main",
    groups: bool = True,
    max_nodes: int = MAX_NODES,
) -> Graph:
    """The graph of one function.

    Args:
        mod: a module, or a graph function.
        function: which function of the module (its only graph function, if it has no such one).
        groups: draw fused groups as frames around their operators, not as one node.
        max_nodes: a graph with more is folded.

    Raises:
        MLCError: there is no such graph function.
    """
    if isinstance(mod, Function):
        name = str(mod.attrs.get("global_symbol", "function"))
        return Graph(build(name, mod, {}, groups), max_nodes)
    name = _entry(mod, function)
    return Graph(build(name, mod[name], mod.functions, groups), max_nodes)


def _entry(mod: IRModule, name: str) -> str:
    names = [n for n, _ in graph_functions(mod)]
    if name == "main" and name not in mod and len(names) == 1:
        return names[0]
    if not isinstance(mod[name], Function):
        known = ", ".join(names) or "none"
        raise MLCError(f"{name!r} is no graph function", hint=f"graph functions: {known}")
    return name


def _name(node: Node) -> str:
    return f"{node.id}:{' + '.join(node.lines[:3])}"


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

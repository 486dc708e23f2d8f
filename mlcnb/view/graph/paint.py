"""Nodes of a graph coloured by what they take or where they came from, and nodes that are found.

    with_seconds(model, profile), with_bytes(model)     each node's amount, before folding
    by_amount(model, "time")      1.20 ms · 17.0 %: the darker the more
    by_origin(model)              C: layer3: a colour and a letter for each part of the model
    find(model, "conv")           what has this text in its name, origin or kernel

Colour never says a thing alone: the number or the letter stands in the node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from mlcnb.relax.expr import Call
from mlcnb.view import survey
from mlcnb.view.graph.model import Model, Node, Paint
from mlcnb.view.words import clip, percent, seconds, size

#: from which share of the whole a node has the colour
_HEAT = (
    (0.0, "#f6f8fa"),
    (0.01, "#fdebd0"),
    (0.03, "#fbd19b"),
    (0.06, "#f7b25f"),
    (0.12, "#f2994a"),
)
#: tints of Okabe and Ito's palette; each is used again with the next letter
_TINTS = ("#f6d48a", "#b5dcf4", "#8fd3bf", "#f8f2a0", "#a5cbe6", "#f3bd9c", "#e6bfd6", "#d8dee4")
#: how an amount is written
_UNITS: dict[str, Callable[[Any], str]] = {"time": seconds, "bytes": size}
#: parts of the model that the legend names
_NAMED = 8


def with_seconds(model: Model, profile: Any) -> Model:
    """The nodes with the time of their calls, by variable and kernel."""
    known = {(row.name, row.kernel): row.seconds for row in profile.rows}

    def time_of(node: Node) -> float:
        if not isinstance(node.origin, Call):
            return 0.0
        name = getattr(node.var, "name_hint", "")
        kernel = survey.kernel_of(node.origin)
        by_meaning = f"numpy: {getattr(node.origin.op, 'name', '')}"
        return known.get((name, kernel or by_meaning), 0.0)

    return _with(model, lambda node: {"amount": time_of(node)})


def with_bytes(model: Model) -> Model:
    """The nodes with the bytes of what they make."""
    return _with(model, lambda node: {"amount": float(bytes_of(node))})


def bytes_of(node: Node) -> int:
    """Bytes of what a node makes, where a size that is not known counts as 1; 0 of inputs."""
    if not isinstance(node.origin, Call):
        return 0
    return survey.bytes_of(node.origin.struct_info or getattr(node.var, "struct_info", None))


def by_amount(model: Model, what: str) -> Model:
    """Every node that has an amount with its number and a colour for its share of the whole.

    what: "time" or "bytes".
    """
    total = sum(n.amount for n in model.nodes) or 1.0

    def look(node: Node) -> dict[str, Any]:
        if not node.amount:
            return {}
        share = node.amount / total
        told = f"{_UNITS[what](node.amount)} · {percent(share)}"
        step = max(i for i, (least, _) in enumerate(_HEAT) if share >= least)
        return {"lines": (*node.lines, told), "paint": step}

    made = _with(model, look)
    made.paints = tuple(Paint(fill, _words(what, i)) for i, (_, fill) in enumerate(_HEAT))
    return made


def _words(what: str, step: int) -> str:
    if step == 0:
        return f"{what} < {100 * _HEAT[1][0]:.0f} %"
    return f"{what} ≥ {100 * _HEAT[step][0]:.0f} %"


def by_origin(model: Model) -> Model:
    """Every node with the letter and the colour of the part of the model that it came from."""
    places = {n.id: place_of(n) for n in model.nodes}
    parts = [name for name, _ in Counter(p for p in places.values() if p).most_common()]
    order = sorted(parts, key=list(places.values()).index)
    letters = {name: _letter(i) for i, name in enumerate(order)}

    def look(node: Node) -> dict[str, Any]:
        place = places[node.id]
        if not place:
            return {}
        number = order.index(place)
        lines = (*node.lines, f"{letters[place]}: {clip(place, 22)}")
        return {"lines": lines, "paint": number}

    made = _with(model, look)
    words = [f"{letters[name]} {clip(name, 18)}" for name in order]
    if len(words) > _NAMED:
        words[_NAMED:] = [f"and {len(words) - _NAMED} more", *[""] * (len(words) - _NAMED - 1)]
    made.paints = tuple(Paint(_TINTS[i % len(_TINTS)], w) for i, w in enumerate(words))
    return made


def place_of(node: Node) -> str:
    """The part of the model that a node came from: the first folder of its ONNX node's name, else
    what sort of ONNX node it was.
    """
    spans = spans_of(node)
    if not spans or node.sort == "input":
        return ""
    folders = [part for part in spans[0].name.split("/") if part]
    return folders[0] if len(folders) > 1 else spans[0].kind or spans[0].source


def spans_of(node: Node) -> tuple[Any, ...]:
    """Where a node came from: one place, or several that were fused."""
    span = getattr(node.origin, "span", None)
    if span is None:
        return ()
    return span.parts or (span,)


def _letter(number: int) -> str:
    """A … Z, AA, AB …"""
    before, last = divmod(number, 26)
    return (_letter(before - 1) if before else "") + chr(ord("A") + last)


def find(model: Model, text: str) -> Model:
    """The nodes with this text in a label, variable, kernel or origin are marked as found."""
    wanted = text.casefold()
    return _with(model, lambda node: {"found": any(wanted in t for t in _texts(node))})


def lit(model: Model, variables: Collection[Any]) -> Model:
    """The nodes whose result is bound to one of these variables are marked as found, too."""
    wanted = set(variables)
    return _with(model, lambda node: {"found": node.found or node.var in wanted})


def _texts(node: Node) -> list[str]:
    texts = [*node.lines, getattr(node.var, "name_hint", "")]
    if isinstance(node.origin, Call):
        texts.append(survey.op_name(node.origin))
    for span in spans_of(node):
        texts += [span.name, span.kind]
    return [t.casefold() for t in texts]


def _with(model: Model, look: Callable[[Node], Mapping[str, Any]]) -> Model:
    """A model whose nodes have other fields."""
    nodes = [replace(node, **look(node)) for node in model.nodes]
    return Model(model.name, nodes, model.edges, model.clusters, model.paints)

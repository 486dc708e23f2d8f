"""Where a node came from: the provenance that passes, fusion and code generation carry along."""

from __future__ import annotations

from mlcnb.core.node import Node, node


@node
class Span(Node):
    """A place of origin.

    source: what kind of thing ("onnx", "torch", a file name); name: the thing there (an ONNX node's
    name, a function); line and column count from 1, 0 where there are none; parts: the origins that
    were merged into this one by fusion; kind: what the thing is (an ONNX node's op type).
    """

    source: str
    name: str = ""
    line: int = 0
    column: int = 0
    parts: tuple[Span, ...] = ()
    kind: str = ""


def merge(*spans: Span | None) -> Span | None:
    """One span for something made of several: flat, each origin once, in order."""
    flat: dict[tuple, Span] = {}
    for span in spans:
        for part in (span.parts or (span,)) if span is not None else ():
            flat.setdefault((part.source, part.name, part.line, part.column), part)
    parts = tuple(flat.values())
    if len(parts) <= 1:
        return parts[0] if parts else None
    return Span(parts[0].source, " + ".join(p.name for p in parts), parts=parts)


def nodes_of(span: Span | None) -> tuple[Span, ...]:
    """The nodes of a model that something came from; none where it was written as a program."""
    parts = (span.parts or (span,)) if span is not None else ()
    return tuple(p for p in parts if p.name and not p.source.startswith("script:"))


def titled(part: Span) -> str:
    """`linear at net.py:9 (linear)`: a node and what kind of thing it is."""
    return f"{part.name} ({part.kind})" if part.kind else part.name


def told_of(span: Span | None) -> str:
    """In brackets, what a program came from: Gather 'embeddings' + Add 'sum'; "" if not known."""
    names = [f"{p.kind} {p.name!r}".strip() for p in (span.parts or (span,))] if span else []
    return f" ({' + '.join(names)})" if names else ""

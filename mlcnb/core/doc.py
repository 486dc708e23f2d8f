"""A printed program as a tree: text with a kind, and marks that tie a piece of text to its node.

    Doc = str                     plain text
        | Text(text, kind)        a keyword, a number, a name …
        | list or tuple of Doc    one after the other
        | Mark(node, doc)         `doc` is what `node` looks like
        | Indent(doc)             new lines inside start one level deeper
        | NEWLINE

    Page(doc).text                     the plain text
    Page(doc).spans_of(node)           where the node stands: [Where(line, column, …)]
    Page(doc).node_at(line, column)    the innermost node there
    Page(doc).ansi() / .html()         in colours (renderers in `mlcnb.core.render`)

Lines and columns count from 1; `end_column` is the column after the last character.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mlcnb.core import render
from mlcnb.core.render import Text

INDENT = "    "


class Mark:
    """`doc` is the text of `node`."""

    __slots__ = ("doc", "node")

    def __init__(self, node: Any, doc: Doc) -> None:
        self.node = node
        self.doc = doc


class Indent:
    """New lines inside `doc` start one level deeper."""

    __slots__ = ("doc",)

    def __init__(self, doc: Doc) -> None:
        self.doc = doc


class _Newline:
    __slots__ = ()


NEWLINE = _Newline()
Doc = Any  # str | Text | Sequence[Doc] | Mark | Indent | NEWLINE, a recursive type


def join(docs: Iterable[Doc], separator: Doc = ", ") -> list[Doc]:
    """The docs with `separator` between them."""
    joined: list[Doc] = []
    for doc in docs:
        if joined:
            joined.append(separator)
        joined.append(doc)
    return joined


def lines(docs: Iterable[Doc]) -> list[Doc]:
    """The docs, each on its own line."""
    return join(docs, NEWLINE)


def block(header: Doc, body: Sequence[Doc]) -> list[Doc]:
    """`header`, then the lines of `body` one level deeper."""
    return [header, Indent([NEWLINE, lines(body)])]


class Where(NamedTuple):
    """A stretch of text: from (line, column) up to (end_line, end_column), counted from 1."""

    line: int
    column: int
    end_line: int
    end_column: int


class _End:
    """On the layout stack: the mark of `node` that began at (line, column) ends here."""

    __slots__ = ("column", "line", "node")

    def __init__(self, node: Any, line: int, column: int) -> None:
        self.node = node
        self.line = line
        self.column = column


class _Dedent:
    __slots__ = ()


_DEDENT = _Dedent()


class Page:
    """A doc laid out: its lines of tokens, and where each node stands.

    Args:
        doc: what to lay out.
        indent: the text of one level of indentation.
    """

    def __init__(self, doc: Doc, indent: str = INDENT) -> None:
        self.lines: list[list[Text]] = [[]]
        #: id of a node -> the node, and where it stands, as plain tuples
        self.nodes: dict[int, Any] = {}
        self.places: dict[int, list[tuple[int, int, int, int]]] = {}
        self._lay_out(doc, indent)

    def _lay_out(self, doc: Doc, indent: str) -> None:
        """Depth first with a stack of its own: a long program must not overflow Python's."""
        stack: list[Any] = [doc]
        column, level = 0, 0
        line = self.lines[0]
        while stack:
            item = stack.pop()
            kind = type(item)
            if kind is str or kind is Text:
                token = item if kind is Text else Text(item)
                if not token.text:
                    continue
                if not line and level:
                    line.append(Text(indent * level))
                line.append(token)
                column += len(token.text)
            elif kind is list or kind is tuple:
                stack.extend(reversed(item))
            elif kind is Mark:
                stack.append(_End(item.node, len(self.lines), column + 1))
                stack.append(item.doc)
            elif kind is _End:
                place = (item.line, item.column, len(self.lines), column + 1)
                key = id(item.node)
                if key in self.places:
                    self.places[key].append(place)
                else:
                    self.nodes[key] = item.node
                    self.places[key] = [place]
            elif item is NEWLINE:
                line = []
                self.lines.append(line)
                column = len(indent) * level
            elif kind is Indent:
                level += 1
                stack.append(_DEDENT)
                stack.append(item.doc)
            elif item is _DEDENT:
                level -= 1
            else:
                raise TypeError(f"no doc: {item!r}")

    @property
    def text_lines(self) -> list[str]:
        """The plain text, line by line."""
        return ["".join(token.text for token in line) for line in self.lines]

    @property
    def text(self) -> str:
        """The plain text."""
        return "\n".join(self.text_lines)

    def spans_of(self, node: Any) -> list[Where]:
        """Where `node` stands, in the order of the text; empty where it is not printed."""
        return [Where(*place) for place in sorted(self.places.get(id(node), ()))]

    def node_at(self, line: int, column: int) -> Any:
        """The innermost node whose text holds the character at (line, column), or None."""
        best, found = (0, 0, 0, 0), None
        for key, places in self.places.items():
            for first, start, last, end in places:
                if not (first, start) <= (line, column) < (last, end):
                    continue
                if (first, start, -last, -end) > best or found is None:
                    best, found = (first, start, -last, -end), self.nodes[key]
        return found

    def ansi(self, line_numbers: bool = False) -> str:
        """The text with ANSI colours, for a terminal."""
        return render.ansi(self.lines, line_numbers)

    def html(self, line_numbers: bool = False, highlight: Sequence[tuple[Any, str]] = ()) -> str:
        """One `<pre>` in the colours of the page around it, with its style sheet.

        Args:
            line_numbers: number the lines.
            highlight: pairs of node and background colour ("rgba(255,160,60,0.3)").
        """
        ranges = [(w, colour) for node, colour in highlight for w in self.spans_of(node)]
        return render.SHEET + render.html(self.lines, line_numbers, ranges)

    def carets(self, nodes: Iterable[Any]) -> dict[int, str]:
        """For each line that a node stands in, the line of `^^^` to put under it."""
        texts = self.text_lines
        spans = [where for node in nodes for where in self.spans_of(node)]
        return render.carets(texts, spans)

    def underlined(self, nodes: Iterable[Any], notes: Sequence[tuple[Any, str]] = ()) -> str:
        """The text with a line of carets under each of `nodes`, and `# note` after noted lines."""
        under = self.carets(nodes)
        remarks = {self.spans_of(n)[0].line: note for n, note in notes if self.spans_of(n)}
        out = []
        for number, text in enumerate(self.text_lines, 1):
            out.append(f"{text}  # {remarks[number]}" if number in remarks else text)
            if number in under:
                out.append(under[number])
        return "\n".join(out)

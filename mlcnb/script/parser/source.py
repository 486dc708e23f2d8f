"""Source text: where it comes from, and errors that point into it.

error: no name 'Aa' here
  --> matmul.py:7:31
  5 |     with T.block("C"):
  6 |         vi, vj = T.axis.remap("SS", [i, j])
> 7 |         C[vi, vj] = Aa[vi, vj]
    |                     ^^
hint: did you mean 'A'?

Programs that have no file (`python -c "…"`, `python < program.py`) are forgotten by Python when it
has compiled them. Their text is found again on the command line or at the start of the standard
input, and is taken only if it compiles to the very code that is running: a text that somebody
passed to `exec` is another one.
"""

from __future__ import annotations

import ast
import hashlib
import linecache
import os
import stat
import string
import sys
from functools import cached_property, lru_cache
from types import CodeType
from typing import Any

from mlcnb.core.doc import Where
from mlcnb.core.errors import ParseError
from mlcnb.core.recursion import deep
from mlcnb.ir.span import Span
from mlcnb.script.excerpt import around as lines_around

_WORD = string.ascii_letters
#: how deep Python's parser may nest
PARSE_DEPTH = 3000
#: texts whose statements can be found again, the last ones that were read; of at most this size
_REMEMBERED, _LARGEST = 64, 200_000
_texts: dict[str, list[str]] = {}


class SourceError(ParseError):
    """A ParseError with its place: `source_name`, `line` and `column` (counted from 1)."""

    def __init__(self, message: str, hint: str | None, name: str, where: Where, text: str) -> None:
        super().__init__(message, hint=hint)
        self.source_name = name
        self.line = where.line
        self.column = where.column
        self.place = where
        self.picture = text

    def excerpt(self) -> str:
        """Where it is, and the lines around it with carets."""
        return f"  --> {_title(self.source_name)}:{self.line}:{self.column}\n{self.picture}"


def _title(name: str) -> str:
    """A file name for people: a notebook cell's own is a number in a temporary folder."""
    is_cell = "ipykernel_" in name or name.startswith("<ipython-input")
    return "this cell" if is_cell else name


class Source:
    """A text, the name it goes by, and its tree.

    Args:
        text: whole lines of Python source.
        name: a file name, or "<text>".
    """

    def __init__(self, text: str, name: str = "<text>") -> None:
        self.name = name
        self.lines = text.splitlines()
        self.tree = self._parse(text)

    def _parse(self, text: str) -> ast.Module:
        """The tree; Python's own parser recurses in C, so its depth is kept in bounds."""
        try:
            with deep(PARSE_DEPTH):
                return ast.parse(text)
        except SyntaxError as error:
            line, column = error.lineno or 1, error.offset or 1
            last = error.end_offset or column + 1
            if error.end_lineno not in (None, line) or last <= column:
                last = column + 1
            where = Where(line, column, line, last)
            raise self._error(f"no Python syntax: {error.msg}", where, None) from None
        except ValueError as error:  # a null byte
            raise self._error(f"no source text: {error}", Where(1, 1, 1, 2), None) from None
        except (RecursionError, MemoryError):
            raise self._error("the text nests too deeply", Where(1, 1, 1, 2), None) from None

    @cached_property
    def definitions(self) -> dict[str, list[Any]]:
        """The functions and classes of the text by name, the outer ones first."""
        found: dict[str, list[Any]] = {}
        for n in ast.walk(self.tree):
            if isinstance(n, ast.FunctionDef | ast.ClassDef):
                found.setdefault(n.name, []).append(n)
        return found

    @cached_property
    def origin(self) -> str:
        """What spans call this text: a digest, so that they say nothing of files and folders."""
        digest = hashlib.blake2b("\n".join(self.lines).encode(), digest_size=6).hexdigest()
        name = f"script:{digest}"
        if sum(map(len, self.lines)) <= _LARGEST:
            _texts[name] = _texts.pop(name, self.lines)
            while len(_texts) > _REMEMBERED:
                del _texts[next(iter(_texts))]
        return name

    def span(self, place: Any) -> Span:
        """Where a statement of the program comes from."""
        column = self._column(place.lineno, place.col_offset)
        return Span(self.origin, line=place.lineno, column=column)

    def error(self, place: Any, message: str, hint: str | None = None) -> SourceError:
        """An error that points at a node of the tree."""
        return self._error(message, self.where(place), hint)

    def where(self, place: Any) -> Where:
        """The stretch of text of a node of the tree, in characters; of lines with a body their
        first word.
        """
        if isinstance(place, ast.stmt) and hasattr(place, "body"):
            column = self._column(place.lineno, place.col_offset)
            rest = self.lines[place.lineno - 1][column - 1 :] if self.lines else ""
            word = len(rest) - len(rest.lstrip(_WORD)) or 1
            return Where(place.lineno, column, place.lineno, column + word)
        return Where(
            place.lineno,
            self._column(place.lineno, place.col_offset),
            place.end_lineno,
            self._column(place.end_lineno, place.end_col_offset),
        )

    def _column(self, line: int, offset: int) -> int:
        """`ast` counts columns in bytes of UTF-8."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return len(text.encode()[:offset].decode(errors="ignore")) + 1

    def _error(self, message: str, where: Where, hint: str | None) -> SourceError:
        shown = lines_around(self.lines, where) if 0 < where.line <= len(self.lines) else ""
        return SourceError(message, hint, self.name, where, shown)


def is_remark(line: ast.stmt) -> bool:
    """True for a docstring, and whatever else says a constant and no more."""
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def text_of(origin: str) -> list[str] | None:
    """The lines of the text that a span speaks of, if it is one of the last that were read."""
    return _texts.get(origin)


@lru_cache(maxsize=32)
def _tree_of(text: str, name: str) -> Source:
    return Source(text, name)


def source_of_definition(kind: type, name: str, around: CodeType, line: int) -> tuple[Source, Any]:
    """The source file around a definition, and the definition's node.

    Args:
        kind: ast.FunctionDef or ast.ClassDef.
        name: the name that is defined.
        around: the code that the definition stands in; that of a notebook cell has a file name too.
        line: a line of its decorators or of its `class` or `def` line.

    Raises:
        ParseError: there is no source.
    """
    file = around.co_filename
    text = "".join(linecache.getlines(file)) or text_behind(around)
    if text:
        source = _tree_of(text, file)
        named = source.definitions.get(name, ())
        found = [n for n in named if isinstance(n, kind) and _stands_at(n, line)]
        if found:
            return source, found[-1]  # of two, the one that stands inside
    raise ParseError(
        f"the source of {name!r} cannot be found: {file} has no text that can be read back",
        hint="put the program in a file or a notebook cell, or read its text: "
        "mlcnb.script.from_source('''@T.prim_func …''')",
    )


def _stands_at(node: Any, line: int) -> bool:
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return first <= line <= node.body[0].lineno


#: no program on the standard input is longer
MAX_BYTES = 10_000_000


def text_behind(code: CodeType) -> str:
    """The text that `code` (of a module, or inside of one) was compiled from, or ''."""
    text = {"<string>": _argument, "<stdin>": _standard_input}.get(code.co_filename, str)()
    if not text:
        return ""
    try:
        made = compile(text, code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return text if _holds(made, code) else ""


def _argument() -> str:
    """What stands after -c."""
    words = getattr(sys, "orig_argv", [])
    for at, word in enumerate(words[1:], start=1):
        if word == "-c" and at + 1 < len(words):
            return words[at + 1]
        if not word.startswith("-"):
            break
    return ""


def _standard_input() -> str:
    """The standard input from its start, where it is a file: a pipe cannot be read again."""
    try:
        about = os.fstat(0)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_BYTES:
            return ""
        return os.pread(0, about.st_size, 0).decode(errors="replace")
    except (OSError, AttributeError):  # closed, or a system without pread
        return ""


def _holds(module: CodeType, code: CodeType) -> bool:
    stack = [module]
    while stack:
        one = stack.pop()
        if one == code:
            return True
        stack.extend(c for c in one.co_consts if isinstance(c, CodeType))
    return False

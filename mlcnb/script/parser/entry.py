"""Where parsing starts: a text, or a definition under a decorator.

parse(text)                a text with one module or function, and what stands around it:
                           imports of I, R, T, `metadata = {…}`, `n = TypeVar("n")`
parse_definition(…)        the same for a decorated class or function
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.recursion import deep
from mlcnb.core.text import kind_of
from mlcnb.ir.diagnostics import tell
from mlcnb.ir.module import IRModule
from mlcnb.ir.span import Span
from mlcnb.relax.analysis.well_formed import assert_well_formed
from mlcnb.relax.expr import Function
from mlcnb.script import words
from mlcnb.script.dialect import dialect as dialect_of
from mlcnb.script.frames import DimString
from mlcnb.script.parser.evaluate import Evaluator
from mlcnb.script.parser.macro import read_macro
from mlcnb.script.parser.module import FunctionReader, ModuleReader
from mlcnb.script.parser.scope import Scope
from mlcnb.script.parser.source import Source, SourceError, is_remark
from mlcnb.tir.analysis.well_formed import verify_well_formed
from mlcnb.tir.function import PrimFunc


def parse(
    text: str, dialect: str | None = None, check_well_formed: bool = False, **around: Any
) -> Any:
    """The object that a TVMScript text describes.

    Args:
        text: one class under `@I.ir_module`, or one function under `@T.prim_func` or `@R.function`.
        dialect: "0.21" or "0.27", where it matters (`T.alloc_buffer` outside of a block);
            by default the text says it with `import tirx as T`.
        check_well_formed: also check the rules of the IR; off by default, so that a program in the
            middle of a pass reads back as it was printed.
        **around: names that the text may use, besides I, R and T.

    Returns:
        An IRModule, PrimFunc or relax.Function.

    Raises:
        ParseError: the text is no program; the message shows where.
        WellFormedError: it breaks a rule of the IR, and `check_well_formed` is True.
    """
    if not isinstance(text, str):
        raise MLCError(f"parse takes a text, not {kind_of(text)}")
    source = Source(text)
    with deep(), _bounded(source):
        environment = {**words.namespaces(), **around}
        if _is_new(text, dialect):
            environment["T"] = words.find_module("mlcnb.script.tirx")
        made = _Text(source, environment).read()
        return _checked(made) if check_well_formed else made


def parse_definition(source: Source, node: Any, around: Mapping[str, Any], check: bool) -> Any:
    """The object of a decorated definition; `around` holds the names that its Python sees."""
    with deep(), _bounded(source):
        made = _definition(Evaluator(source, Scope(around), trusted=True), node)
        return _checked(made) if check else made


def _checked(made: Any) -> Any:
    """A program that keeps the rules of the IR."""
    if isinstance(made, IRModule | Function):
        assert_well_formed(made)
    if isinstance(made, IRModule | PrimFunc):
        verify_well_formed(made)
    return made


@contextmanager
def _bounded(source: Source) -> Iterator[None]:
    """Nesting beyond all measure is an error of the text; errors are shown to who asks for them."""
    try:
        yield
    except SourceError as error:
        tell(error.message, Span(error.source_name, line=error.line, column=error.column))
        raise
    except RecursionError:
        raise source.error(source.tree.body[-1], "the program nests too deeply") from None


def _is_new(text: str, dialect: str | None) -> bool:
    if dialect is not None:
        return dialect_of(dialect).is_new
    return "import tirx as T" in text


class _Text:
    """The lines of a text: the program, and what it uses."""

    def __init__(self, source: Source, environment: dict[str, Any]) -> None:
        self.source = source
        self.ev = Evaluator(source, Scope(environment), trusted=False)

    def read(self) -> Any:
        """The one program of the text."""
        programs: list[Any] = []
        for line in self.source.tree.body:
            with self.ev.blame(line):
                self._line(line, programs)
        if len(programs) == 1:
            return _definition(self.ev, programs[0])
        if not programs:
            raise MLCError(
                "the text holds no program",
                hint="it needs @I.ir_module, @R.function or @T.prim_func",
            )
        raise self.source.error(
            programs[1],
            "the text holds two programs",
            "put the functions in one @I.ir_module class",
        )

    def _line(self, line: ast.stmt, programs: list[Any]) -> None:
        macro = read_macro(self.ev, line) if isinstance(line, ast.FunctionDef) else None
        if macro is not None:
            self.ev.scope.define(macro.__name__, macro)
        elif isinstance(line, ast.ClassDef | ast.FunctionDef):
            programs.append(line)
        elif isinstance(line, ast.Assign):
            self._assign(line)
        elif isinstance(line, ast.ImportFrom | ast.Import):
            self._import(line)
        elif not is_remark(line):
            raise self.source.error(line, "a text holds one module or one function")

    def _assign(self, line: ast.Assign) -> None:
        """`metadata = {…}`, `n = TypeVar("n")`, a number."""
        target = line.targets[0]
        if not isinstance(target, ast.Name):
            raise self.source.error(line, "a name is expected here")
        value = line.value
        if isinstance(value, ast.Call) and _name(value.func).endswith("TypeVar"):
            self.ev.scope.define(target.id, DimString(target.id))
        elif target.id == "metadata":
            self.ev.scope.define(target.id, self._literal(value))
        else:
            self.ev.scope.define(target.id, self.ev.value(value))

    def _literal(self, value: ast.expr) -> Any:
        try:
            return ast.literal_eval(value)
        except ValueError:
            raise self.source.error(
                value, "metadata is written as a dict of literals",
                "print the program with mlcnb's script(show_meta=True)",
            ) from None  # fmt: skip

    def _import(self, line: ast.ImportFrom | ast.Import) -> None:
        """`from tvm.script import tir as T`: our own words; other imports mean nothing here."""
        if isinstance(line, ast.Import) or (line.module or "") not in _SCRIPT_MODULES:
            return
        for alias in line.names:
            found = words.find_module(f"mlcnb.script.{alias.name}")
            if found is not None:
                self.ev.scope.define(alias.asname or alias.name, found)


_SCRIPT_MODULES = ("tvm.script", "mlcnb.script")


def _name(node: ast.expr) -> str:
    return getattr(node, "id", "") or getattr(node, "attr", "")


def _definition(ev: Evaluator, node: Any) -> Any:
    if isinstance(node, ast.ClassDef):
        return ModuleReader(ev, node).read()
    return FunctionReader(ev).read(node)

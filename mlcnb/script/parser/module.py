"""`@I.ir_module`: all names first, so that functions can call each other; then each function."""

from __future__ import annotations

import ast
from typing import Any

from mlcnb.core.node import FrozenDict
from mlcnb.ir.attrs import frozen
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.function import BaseFunc
from mlcnb.ir.module import IRModule
from mlcnb.relax.expr import ExternFunc
from mlcnb.relax.function_table import FunctionTable
from mlcnb.script import frames, words
from mlcnb.script.parser.advice import ModuleRef
from mlcnb.script.parser.evaluate import Evaluator
from mlcnb.script.parser.relax_func import FunctionParser
from mlcnb.script.parser.source import is_remark
from mlcnb.script.parser.tir_func import PrimFuncParser

#: decorators of classes that are modules
MODULE_WORDS = ("ir_module", "rewriter")


class FunctionReader:
    """Reads one decorated function of either level.

    functions: what is known of the module around it, for calls without annotations; results: the
    dtypes that its loop functions return.
    """

    def __init__(
        self,
        ev: Evaluator,
        functions: dict[GlobalVar, BaseFunc] | None = None,
        results: dict[str, str] | None = None,
    ) -> None:
        self.ev = ev
        self.functions = functions if functions is not None else {}
        self.results = results or {}

    def read(self, node: ast.FunctionDef) -> BaseFunc:
        """The function."""
        kind, options = self.kind(node)
        self.refuse_twice(node.args)
        private = bool(options.get("private", False))
        if kind == "prim_func":
            self.ev.results = self.results
            try:
                return PrimFuncParser(self.ev, node, private, self.is_new(node)).parse()
            finally:
                self.ev.results = None
        pure = bool(options.get("pure", True))
        return FunctionParser(self.ev, node, self.functions, private, pure).parse()

    def refuse_twice(self, given: ast.arguments) -> None:
        """Refuse a name of two parameters: Python's compiler does, its parser does not."""
        names: set[str] = set()
        for arg in (*given.posonlyargs, *given.args):
            if arg.arg in names:
                raise self.ev.error(arg, f"two parameters are named {arg.arg!r}")
            names.add(arg.arg)

    def kind(self, node: ast.FunctionDef) -> tuple[str, dict[str, Any]]:
        """Which decorator it has, with which options."""
        for decorator in node.decorator_list:
            called = isinstance(decorator, ast.Call)
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = getattr(self.ev.value(target), "__name__", "")
            if name in ("prim_func", "function", "pyfunc"):
                keywords = decorator.keywords if isinstance(decorator, ast.Call) and called else []
                return name, {k.arg: self.ev.value(k.value) for k in keywords if k.arg}
        place = node.decorator_list[0] if node.decorator_list else node
        raise self.ev.error(
            place, f"{node.name} is no program", "decorate it with @T.prim_func or @R.function"
        )

    def is_new(self, node: ast.FunctionDef) -> bool:
        """True for the decorator of `tirx`, the namespace of 0.27."""
        targets = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
        owners = [t.value for t in targets if isinstance(t, ast.Attribute)]
        return any(words.is_new_dialect(self.ev.value(owner)) for owner in owners)


class ModuleReader:
    """Reads one class."""

    def __init__(self, ev: Evaluator, node: ast.ClassDef) -> None:
        self.ev = ev
        self.node = node
        self.table = FunctionTable()
        self.functions = self.table.functions
        self.results: dict[str, str] = {}
        self.attrs: dict[str, Any] = {}
        self.infos: dict[str, Any] = {}

    def read(self) -> IRModule:
        """The module."""
        self._check_decorator()
        members = [line for line in self.node.body if not is_remark(line)]
        members = [line for line in members if not self._is_python(line)]
        names = {line.name for line in members if isinstance(line, ast.FunctionDef)}
        names |= {n for line in members for n in _assigned(line)}
        for name in names:
            self.table.names.reserve(name)
        self.ev.table = self.table
        with self.ev.scope.inner():
            self.ev.scope.define(self.node.name, ModuleRef(self.node.name, names))
            self.ev.scope.define("cls", ModuleRef("cls", names))
            for line in members:
                if isinstance(line, ast.Expr):
                    self._member(line)
            self.ev.vdevices = tuple(self.infos.get("vdevice", ()))
            for line in members:
                self._signature(line)
            members = [line for line in members if not isinstance(line, ast.Expr)]
            for line in sorted(members, key=self._rank):
                self._member(line)
        order = [GlobalVar(n) for line in members for n in _defined(line)]
        order += [name for name in self.functions if name not in order]  # of R.emit_te
        functions = {name: self.functions[name] for name in order if name in self.functions}
        return IRModule(FrozenDict(functions), frozen(self.attrs), frozen(self.infos))

    def _check_decorator(self) -> None:
        for decorator in self.node.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            if getattr(self.ev.value(target), "__name__", "") in MODULE_WORDS:
                return
        raise self.ev.error(self.node, f"class {self.node.name} is no module", "@I.ir_module")

    def _is_python(self, line: ast.stmt) -> bool:
        """True for `@I.pyfunc`, which the class keeps; a text has no Python that could run."""
        if (
            not isinstance(line, ast.FunctionDef)
            or FunctionReader(self.ev).kind(line)[0] != "pyfunc"
        ):
            return False
        if not self.ev.trusted:
            raise self.ev.error(
                line, f"{line.name} is Python, which no text runs", "decorate the class in a cell"
            )
        return True

    def _rank(self, line: ast.stmt) -> int:
        """Loop functions before graph functions, whose calls need to know them."""
        if not isinstance(line, ast.FunctionDef):
            return 0
        return 1 if FunctionReader(self.ev).kind(line)[0] == "prim_func" else 2

    def _signature(self, line: ast.stmt) -> None:
        """Know the types of a graph function before any body is read: calls go both ways."""
        if isinstance(line, ast.FunctionDef):
            kind, options = FunctionReader(self.ev).kind(line)
            if kind == "prim_func" and isinstance(line.returns, ast.Attribute):
                self.results[line.name] = line.returns.attr
            if kind == "function":
                pure = bool(options.get("pure", True))
                parser = FunctionParser(self.ev, line, {}, True, pure)
                self.functions[GlobalVar(line.name)] = parser.signature()

    def _member(self, line: ast.stmt) -> None:
        if isinstance(line, ast.FunctionDef):
            made = FunctionReader(self.ev, self.functions, self.results).read(line)
            self.functions[GlobalVar(line.name)] = made
        elif isinstance(line, ast.Assign):
            value = self.ev.value(line.value)
            if not isinstance(value, ExternFunc):
                raise self.ev.error(line.value, "a module holds functions", 'R.ExternFunc("name")')
            for name in _assigned(line):
                self.functions[GlobalVar(name)] = value
        elif isinstance(line, ast.Expr):
            self._words(self.ev.value(line.value), line)
        elif not isinstance(line, ast.Pass):
            raise self.ev.error(line, "a module holds functions")

    def _words(self, value: Any, line: ast.stmt) -> None:
        if isinstance(value, frames.ModuleAttrs):
            self.attrs.update(value.attrs)
        elif isinstance(value, frames.GlobalInfos):
            self.infos.update(value.infos)
        else:
            raise self.ev.error(line, "a module holds functions")


def _assigned(line: ast.stmt) -> list[str]:
    targets = line.targets if isinstance(line, ast.Assign) else []
    return [t.id for t in targets if isinstance(t, ast.Name)]


def _defined(line: ast.stmt) -> list[str]:
    return [line.name] if isinstance(line, ast.FunctionDef) else _assigned(line)

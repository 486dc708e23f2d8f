"""Macros in a loop program: where one is defined, and where its lines are read."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import partial
from typing import Any

from mlcnb.script import words
from mlcnb.script.parser.body import Body
from mlcnb.script.parser.macro import MAX_DEPTH, Macro, bound_names, inside
from mlcnb.script.parser.source import is_remark
from mlcnb.script.parser.tir_loop import LoopParser

_HINT = "@T.macro makes a macro of it; other functions belong outside of the program"


class MacroParser(LoopParser):
    """Reads definitions and calls of macros."""

    def function_(self, node: ast.FunctionDef, out: Body) -> None:
        """A function inside of a program: a macro, or an error."""
        made = read_macro(self.ev, node)
        if made is None:
            raise self.ev.error(node, f"{node.name} is a function inside of a program", _HINT)
        self.ev.scope.define(node.name, made)

    def macro_of(self, node: ast.expr) -> Macro | None:
        """The macro that a line calls, if it calls one."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            return None
        found = self.ev.value(node.func)
        return found if isinstance(found, Macro) else None

    def expand(self, macro: Macro, call: ast.Call, out: Body) -> None:
        """Read the lines of a macro here."""
        if len(self.expanding) >= MAX_DEPTH:
            raise self.ev.error(call, f"macro {macro.__name__} calls itself without end")
        args, kwargs = self.ev.arguments(call)
        names = bound_names(self.ev, macro, args, kwargs, call)
        count = self.expanding_count.get(macro, 0)
        self.expanding_count[macro] = count + 1
        self.expanding.append((macro, f"_{count}" if macro.inline and count else ""))
        with inside(self.ev, macro, names):
            for line in macro.node.body:
                if isinstance(line, ast.Return):
                    raise self.ev.error(line, "a macro has no value to return")
                if not is_remark(line):
                    self.line(line, out)
        self.expanding.pop()

    def block_suffix(self) -> str:
        """What the names of blocks end with: a second call of a T.inline counts."""
        return "".join(suffix for _, suffix in self.expanding)


def read_macro(ev: Any, node: ast.FunctionDef) -> Macro | None:
    """A definition in a text: the macro that it makes, or None where it is none."""
    for decorator in node.decorator_list:
        word = ev.value(decorator.func if isinstance(decorator, ast.Call) else decorator)
        name = getattr(word, "__name__", "")
        if name not in ("macro", "inline") or not words.is_word(word):
            continue
        given = decorator.keywords if isinstance(decorator, ast.Call) else []
        options = {k.arg: ev.value(k.value) for k in given}
        if options.get("hygienic") is False:
            return Macro(ev.source, node, None, ev.trusted)
        live = name == "inline"
        frames = [f if live else dict(f) for f in ev.scope.frames]
        seen = partial(_together, [ev.scope.environment, *frames])
        return Macro(ev.source, node, seen, ev.trusted, inline=live)
    return None


def _together(frames: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The names of all scopes, inner ones over outer ones."""
    found: dict[str, Any] = {}
    for frame in frames:
        found.update(frame)
    return found

"""Macros: lines that are read where they are called, as if they were written there.

@T.macro (R.macro in a graph)         for i in range(16):
def copy(dst, src, i):                    copy(B, A, i)        ->    for i in range(16):
    dst[i] = src[i]                                                      B[i] = A[i]

`T.macro` is hygienic: names that are not its parameters mean what they meant where it was defined.
`T.macro(hygienic=False)` takes them from the place of the call. `T.inline` (0.27) is hygienic too,
but sees later values of those names, as a Python function would.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import partial
from types import FrameType
from typing import Any

from mlcnb.core.errors import ArgumentError, MLCError, ParseError
from mlcnb.script import words
from mlcnb.script.parser.decorators import captured
from mlcnb.script.parser.scope import Scope
from mlcnb.script.parser.source import Source, source_of_definition

Names = Callable[[], Mapping[str, Any]]
#: macros that call macros go no deeper
MAX_DEPTH = 100


class Macro:
    """Lines with parameters.

    names: what it sees besides its parameters, asked for at each call; None: what the place of the
    call sees. `inline` gives the blocks of a second call names of their own.
    """

    def __init__(
        self, source: Source, node: ast.FunctionDef, names: Names | None,
        trusted: bool, inline: bool = False,
    ) -> None:  # fmt: skip
        self.source = source
        self.node = node
        self.names = names
        self.trusted = trusted
        self.inline = inline
        self.__name__ = node.name
        #: the object that it was asked for on, which is its first argument
        self.owner: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return f"<macro {self.__name__}>"

    def __get__(self, owner: Any, _kind: Any = None) -> Any:
        """The macro of a class: asked for on an object, that is its first argument."""
        if owner is None:
            return self
        bound = copy(self)
        bound.owner = (owner,)
        return bound

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A macro is expanded by the parser only."""
        raise MLCError(
            f"macro {self.__name__} stands on a line of its own in a @T.prim_func",
            hint="it has no value",
        )

    def signature(self, value: Callable[[ast.expr], Any]) -> inspect.Signature:
        """Its parameters; `value` evaluates their defaults."""
        args = self.node.args
        plain = [*args.posonlyargs, *args.args]
        missing = [inspect.Parameter.empty] * (len(plain) - len(args.defaults))
        defaults = [*missing, *map(value, args.defaults)]
        kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
        found = [
            inspect.Parameter(a.arg, kind, default=d) for a, d in zip(plain, defaults, strict=True)
        ]
        if args.vararg is not None:
            found.append(inspect.Parameter(args.vararg.arg, inspect.Parameter.VAR_POSITIONAL))
        for a, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
            given = inspect.Parameter.empty if default is None else value(default)
            found.append(inspect.Parameter(a.arg, inspect.Parameter.KEYWORD_ONLY, default=given))
        if args.kwarg is not None:
            found.append(inspect.Parameter(args.kwarg.arg, inspect.Parameter.VAR_KEYWORD))
        return inspect.Signature(found)


def macro(*given: Callable, hygienic: bool = True) -> Any:
    """Lines that are read where they are called: `@T.macro`, `@T.macro(hygienic=False)`.

    Raises:
        ParseError: its source cannot be found.
    """
    frame = sys._getframe(1)
    if given and not callable(given[0]):
        raise ArgumentError("T.macro takes its options by name", hint="@T.macro(hygienic=False)")

    def decorate(func: Callable) -> Macro:
        snapshot = {**_seen(func), **frame.f_locals, **captured(func)}
        return _read(func, frame, (lambda: snapshot) if hygienic else None, inline=False)

    return decorate(given[0]) if given else decorate


def inline(*given: Callable) -> Any:
    """As `T.macro`, with later values of the names around it: the word of 0.27."""
    frame = sys._getframe(1)
    around = frame.f_locals

    def decorate(func: Callable) -> Macro:
        names: Names = lambda: {**_seen(func), **around, **captured(func)}  # noqa: E731
        return _read(func, frame, names, inline=True)

    return decorate(given[0]) if given else decorate


def _read(func: Any, frame: FrameType, names: Names | None, inline: bool) -> Macro:
    line = func.__code__.co_firstlineno
    source, node = source_of_definition(ast.FunctionDef, func.__name__, frame.f_code, line)
    return Macro(source, node, names, trusted=True, inline=inline)


def _seen(func: Any) -> dict[str, Any]:
    return dict(func.__globals__)


def bound_names(ev: Any, macro: Macro, args: Any, kwargs: Any, call: ast.Call) -> dict[str, Any]:
    """The parameters of a macro by name, for a call of it."""
    with inside(ev, macro, {}):
        signature = macro.signature(ev.value)
    try:
        bound = signature.bind(*macro.owner, *args, **kwargs)
    except TypeError as error:
        raise ev.error(call, f"macro {macro.__name__}: {error}") from None
    bound.apply_defaults()
    return bound.arguments


@contextmanager
def inside(ev: Any, macro: Macro, names: dict[str, Any]) -> Iterator[None]:
    """Lines of the macro: its own source, its own names."""
    before = ev.source, ev.scope, ev.trusted
    ev.source, ev.trusted = macro.source, macro.trusted
    if macro.names is not None:
        ev.scope = Scope(macro.names())
    try:
        with ev.scope.inner() as frame:
            frame.update(names)
            yield
    except ParseError as error:
        error.add_note(f"in macro {macro.__name__}")
        raise
    finally:
        ev.source, ev.scope, ev.trusted = before


def expand(body: Any, macro: Macro, args: Any, kwargs: Any, call: ast.Call) -> Any:
    """Read the lines of a macro where a graph calls it; what it returns is the call's value.

    body: reads lines of the graph, and counts the macros that are being read (`macros`).
    """
    body.macros += 1
    if body.macros > MAX_DEPTH:
        raise body.ev.error(call, f"macro {macro.__name__} calls itself without end")
    names = bound_names(body.ev, macro, args, kwargs, call)
    with inside(body.ev, macro, names):
        *lines, last = macro.node.body
        returned = last.value if isinstance(last, ast.Return) else None
        body.lines(lines if isinstance(last, ast.Return) else [*lines, last])
        value = None if returned is None else body.ev.value(returned)
    body.macros -= 1
    return value


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

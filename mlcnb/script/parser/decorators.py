"""`@I.ir_module`, `@R.function`, `@T.prim_func`: parse the source of what they stand above.

Inside a class under `@I.ir_module` the other two leave the function alone: the class reads it.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from mlcnb.core import options
from mlcnb.core.errors import ParseError, WellFormedError


def prim_func(
    func: Callable | None = None, *, private: bool = False, check_well_formed: bool = True,
    s_tir: bool = False,
) -> Any:  # fmt: skip
    """Read a loop function: `@T.prim_func`, or with `private=True` without a global symbol.

    Raises:
        ParseError: the function is no TVMScript, or its source cannot be found.
        WellFormedError: it breaks a rule of the IR, and `check_well_formed` is True.
    """
    return _decorate(func, sys._getframe(1), check_well_formed)


def function(
    func: Callable | None = None, *, pure: bool = True, private: bool = False,
    check_well_formed: bool = True,
) -> Any:  # fmt: skip
    """Read a graph function: `@R.function`, impure with `pure=False`, not exported with `private`.

    Raises:
        ParseError: the function is no TVMScript, or its source cannot be found.
        WellFormedError: it breaks a rule of the IR, and `check_well_formed` is True.
    """
    return _decorate(func, sys._getframe(1), check_well_formed)


def pyfunc(func: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of a module be Python's own: `@I.pyfunc` in a `class M(BasePyModule)`.

    Raises:
        ParseError: at the module, where that is no BasePyModule, or is read from text.
    """
    func.is_pyfunc = True  # type: ignore[attr-defined]
    return func


def ir_module(
    cls: type | None = None, *, check_well_formed: bool = True, s_tir: bool = True
) -> Any:
    """Read a class of functions as an IRModule.

    Args:
        cls: the class.
        check_well_formed: refuse what breaks a rule of the IR.
        s_tir: as 0.27 writes it: loop functions may have blocks, which is always so here.

    Raises:
        ParseError: the class is no TVMScript, or its source cannot be found.
        WellFormedError: it breaks a rule of the IR, and `check_well_formed` is True.
    """
    frame = sys._getframe(1)
    if cls is None:
        return lambda c: module_in(c, frame, check_well_formed)
    return module_in(cls, frame, check_well_formed)


def prim_func_in(frame: FrameType, func: Any, check_well_formed: bool = True) -> Any:
    """Read an undecorated loop function as if `@T.prim_func(private=True)` stood above it.

    Args:
        frame: where the definition stands: for its file, and for the names around it.
        func: the Python function.
        check_well_formed: as of `prim_func`.
    """
    mark = ast.parse("T.prim_func(private=True)", mode="eval").body
    return _function(func, frame, check_well_formed, mark)


def _decorate(func: Any, frame: FrameType, check: bool) -> Any:
    if func is None:
        return lambda f: _function(f, sys._getframe(1), check)
    return _function(func, frame, check)


def _function(func: Any, frame: FrameType, check: bool, mark: ast.expr | None = None) -> Any:
    """Read a function; `mark` is the decorator that it would have."""
    if _in_module_class(frame):
        return func
    from mlcnb.script.parser.entry import parse_definition
    from mlcnb.script.parser.source import source_of_definition

    def read() -> Any:
        line = func.__code__.co_firstlineno
        source, node = source_of_definition(ast.FunctionDef, func.__name__, frame.f_code, line)
        if mark is not None:
            place = ast.copy_location(mark, node)
            node = ast.FunctionDef(**{**vars(node), "decorator_list": [place]})
        return parse_definition(source, node, _around([func], frame), check)

    return _short(read)


def module_in(cls: type, frame: FrameType, check: bool) -> Any:
    """Read a class of functions as an IRModule; `frame` is where it stands.

    A base of the class that has `__ir_module__` says what is made of it and of its Python functions
    (`relax.BasePyModule`).
    """
    from mlcnb.script.parser.entry import parse_definition
    from mlcnb.script.parser.source import source_of_definition

    functions = [f for f in vars(cls).values() if hasattr(f, "__code__")]

    def read() -> Any:
        source, node = source_of_definition(
            ast.ClassDef, cls.__name__, frame.f_code, frame.f_lineno
        )
        return parse_definition(source, node, _around(functions, frame), check)

    make: Any = getattr(cls, "__ir_module__", None)
    python = {f.__name__: f for f in functions if hasattr(f, "is_pyfunc")}
    if make is not None:
        return make(_short(read), python)
    if python:
        raise ParseError(
            f"{cls.__name__} has a Python function, {next(iter(python))}, and is no BasePyModule",
            hint=f"class {cls.__name__}(relax.BasePyModule):",
        )
    return _short(read)


def _short(read: Callable[[], Any]) -> Any:
    """An error shows the program, not the parser: its traceback starts here."""
    try:
        return read()
    except (ParseError, WellFormedError) as error:
        if options.get("debug"):
            raise
        raise error.with_traceback(None) from None


def _in_module_class(frame: FrameType) -> bool:
    """True where `frame` is the body of a class under `@I.ir_module` (or `@R.rewriter`)."""
    if "__qualname__" not in frame.f_locals or "__module__" not in frame.f_locals:
        return False
    first = linecache.getline(frame.f_code.co_filename, frame.f_code.co_firstlineno)
    return "ir_module" in first or "rewriter" in first or not first


def _around(functions: list[Any], frame: FrameType) -> Mapping[str, Any]:
    """What a program sees of the Python around it: closure, then locals, then globals."""
    found: dict[str, Any] = {**frame.f_globals, **frame.f_locals}
    for func in functions:
        found.update(captured(func))
    return found


def captured(func: Any) -> dict[str, Any]:
    """What the closure of a function holds now."""
    found = {}
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found

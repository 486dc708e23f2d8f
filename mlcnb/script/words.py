"""What the parser knows of the namespaces: which objects they are, which words they have.

A word is a function or value of `mlcnb.script.ir`, `.relax`, `.tir` (or `.tirx`). A lazy word has a
method `read(evaluator, call)` and looks at its arguments before they are evaluated.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any

from mlcnb.core.node import Node
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Call as PrimCall
from mlcnb.ir.expr import GlobalVar, PrimExpr
from mlcnb.relax.expr import Call
from mlcnb.script import build
from mlcnb.script.frames import Loop, Loops

#: module -> the letter it usually has
LETTERS = {
    "mlcnb.script.ir": "I",
    "mlcnb.script.relax": "R",
    "mlcnb.script.tir": "T",
    "mlcnb.script.tirx": "T",
}
#: words of the other dialect, or that people expect: word -> what to write
_HINTS = {
    ("T", "jit"): "decorate with T.prim_func; Python values around it are constants",
    ("T", "constexpr"): "a Python value around the program is a constant",
    ("T", "meta_class"): "T.meta_var(value) keeps a Python value",
    ("T", "hint"): "T.attr(node, key, value)",
    ("T", "launch"): "T.launch_thread",
    ("T", "realize"): "T.alloc_buffer",
    ("T", "buffer_decl"): "T.decl_buffer",
    ("T", "preflattened_buffer"): "T.match_buffer",
    ("T", "load"): "A[i]",
    ("T", "store"): "A[i] = value",
    ("T", "unrolled"): "T.unroll",
    ("T", "vectorize"): "T.vectorized",
    ("T", "print"): "run it with the interpreter and record=, or T.call_packed a function of yours",
    ("T", "minimum"): "T.min",
    ("T", "maximum"): "T.max",
    ("T", "thread_return"): "put what follows under an `if`",
    ("T.axis", "O"): "T.axis.opaque",
    ("T.axis", "SSR"): 'T.axis.remap("SSR", [i, j, k])',
    ("R", "call"): "R.call_packed, or call the function itself: cls.f(x)",
}


#: parts of T that speak of one vendor's machine
_VENDORS = frozenset("ptx cuda nki nvshmem metal webgpu tile tmem smem".split())


class Namespace:
    """A part of a namespace, such as `R.nn` or `T.axis`."""

    def __init__(self, name: str, table: dict[str, Any]) -> None:
        self.name = name
        self.table = table

    def __getattr__(self, name: str) -> Any:
        table = self.__dict__["table"]
        if name not in table:
            raise AttributeError(f"{self.__dict__['name']} has no {name!r}")
        return table[name]

    def __dir__(self) -> list[str]:
        return sorted(self.table)

    def __repr__(self) -> str:
        return f"<namespace {self.name}>"


def is_namespace(value: Any) -> bool:
    """True for I, R, T and their parts."""
    if isinstance(value, ModuleType):
        return value.__name__ in LETTERS
    return isinstance(value, Namespace)


def letter(namespace: Any) -> str:
    """`T`, `R.nn`: how a namespace is called in text."""
    return namespace.name if isinstance(namespace, Namespace) else LETTERS[namespace.__name__]


def find(namespace: Any, name: str) -> Any:
    """A word of a namespace, or None."""
    if isinstance(namespace, Namespace):
        return namespace.table.get(name)
    if name in _public(namespace.__name__) or _VECTOR.fullmatch(name):
        return getattr(namespace, name, None)
    return None


_VECTOR = re.compile(r"[a-z][a-z0-9_]*x\d+")


@cache
def _public(module: str) -> frozenset[str]:
    return frozenset(dir(sys.modules[module]))


def unknown(namespace: Any, name: str) -> tuple[str, str | None]:
    """Message and hint for a word that a namespace does not have."""
    called = letter(namespace)
    hint = _HINTS.get((called, name))
    if called == "T" and name.split("_")[0] in _VENDORS:
        hint = (
            f"words of {name.split('_')[0]} are not here: T.call_extern or T.call_intrin names one"
        )
    if hint is None:
        if called == "R" and name in dir(namespace.nn):
            return f"no R.{name}", f"it is R.nn.{name}"
        close = difflib.get_close_matches(name, dir(namespace), n=1)
        hint = f"did you mean {called}.{close[0]}?" if close else None
    return f"no {called}.{name}", hint


def is_lazy(function: Any) -> bool:
    """True for a word that reads its arguments itself."""
    return not isinstance(function, Node | ModuleType) and hasattr(type(function), "read")


def is_word(function: Any) -> bool:
    """True for a function that a text may call: our own, or one of Python's that are offered."""
    module = getattr(function, "__module__", None) or ""
    return module.startswith("mlcnb.") or module == "builtins"


def call_global(function: GlobalVar, args: list[Any], results: dict[str, str] | None = None) -> Any:
    """`cls.f(x)`: a graph call, or a call of a PrimFunc by a PrimFunc.

    results: in a loop function, the dtype that each loop function of the module returns.
    """
    numbers = all(isinstance(a, PrimExpr | int | float) for a in args)
    if numbers and (args or results is not None):
        kind = dtype((results or {}).get(function.name_hint, "void"))
        return PrimCall(kind, function, tuple(build.as_expr(a) for a in args))
    return call_expr(function, args)


def call_expr(function: Any, args: list[Any]) -> Call:
    """A graph call of a function."""
    from mlcnb.script.relax.convert import as_relax

    return Call(function, tuple(as_relax(a) for a in args))


def _word_range(*bounds: Any, annotations: Mapping[str, Any] | None = None) -> Loops:
    """`range(stop)`, `range(start, stop)`, `range(start, stop, step)`: a serial loop."""
    if not 1 <= len(bounds) <= 3:
        raise TypeError("range takes a stop, or a start and a stop, and perhaps a step")
    start, stop = bounds[:2] if len(bounds) > 1 else (0, bounds[0])
    step = bounds[2] if len(bounds) == 3 else None
    return Loops([Loop(start, stop, step=step, annotations=dict(annotations or {}))])


LOOP_RANGE = _word_range


class Let:
    """`T.let[T.int32]`: the annotation of a let in the 0.27 spelling."""


LET = Let()


def find_module(name: str) -> Any:
    """A namespace by its module name, or None."""
    import importlib

    return importlib.import_module(name) if name in LETTERS else None


def namespaces() -> dict[str, Any]:
    """I, R and T, for a text that brings none."""
    return {
        letter: find_module(name) for name, letter in LETTERS.items() if name != "mlcnb.script.tirx"
    }


def is_new_dialect(namespace: Any) -> bool:
    """True for `tirx`, the namespace of the 0.27 spelling."""
    return namespace is sys.modules.get("mlcnb.script.tirx")

"""Programs as listings: a node, a function, a module that may be long.

Where a module is longer than one listing, its graph function comes first, and of the others as many
as there is room for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.core.node import Node
from mlcnb.ir.module import IRModule
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.script.printer import document
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import BlockRealize, BufferStore, Evaluate, For
from mlcnb.view.parts import MAX_LINES, Code, Fold, Part, code_of
from mlcnb.view.registry import shows
from mlcnb.view.survey import graph_functions
from mlcnb.view.words import listed, plural

#: a program of so many lines is open at first
OPEN_LINES = 24


@shows("mlcnb.core.node:Node")
def node(n: Node) -> list[Part]:
    """Any node: its text."""
    return [code_of(document(n, header=False))]


def listing(obj: Any, see: str, **options: Any) -> Code:
    """The text of a program, without header lines."""
    return code_of(document(obj, header=False, **options), see=see)


def folded(title: str, code: Code, see: str, in_text: bool = True) -> Fold:
    """A program under its title and number of lines; a short one is open."""
    count = len(code.lines)
    is_open = count <= OPEN_LINES
    return Fold(f"{title}, {plural(count, 'line')}", [code], see, is_open, in_text)


def function_fold(name: str, function: Any, see: str = "func.show()") -> Fold:
    """The text of one function."""
    words = "loops" if isinstance(function, PrimFunc) else "graph"
    code = listing(function, see, **({"name": name} if name else {}))
    return folded(f"TVMScript ({words})", code, see)


def module_folds(mod: IRModule) -> list[Part]:
    """The text of a module: whole where it is short enough, else function by function."""
    sizes = {v.name_hint: _estimate(f) for v, f in mod.items()}
    if sum(sizes.values()) <= MAX_LINES:
        return [folded("TVMScript", listing(mod, "mod.show()"), "mod.show()")]
    graph = [name for name, _ in graph_functions(mod)]
    first = (["main"] if "main" in sizes else graph or list(sizes))[:1]
    others = [name for name in sizes if name not in first]
    return [*(_one(mod, name) for name in first), *_rest(mod, others, sizes)]


def _one(mod: IRModule, name: str) -> Fold:
    see = f"mod[{name!r}].show()"
    return folded(f"TVMScript of {name}", listing(mod[name], see, name=name), see)


def _rest(mod: IRModule, names: Sequence[str], sizes: dict[str, int]) -> list[Part]:
    """The other functions under one title, as many as make one listing."""
    if not names:
        return []

    def body() -> list[Part]:
        parts: list[Part] = []
        room = MAX_LINES
        for name in names:
            if sizes[name] > room:
                break
            room -= sizes[name]
            parts.append(_one(mod, name))
        return parts

    title = f"TVMScript of {plural(len(names), 'other function')}: {listed(names, 4)}"
    return [Fold(title, body, "mod.show()")]


#: lines that a statement prints as, about
_LINES = {BlockRealize: 4, For: 1, BufferStore: 1, Evaluate: 1}


def _estimate(function: Any) -> int:
    """About how many lines a function prints as."""
    if isinstance(function, rx.Function):
        return 6 + sum(1 for _ in bindings_of(function))
    if not isinstance(function, PrimFunc):
        return 1
    return 3 + sum(_LINES.get(type(n), 0) for n in statements(function.body))

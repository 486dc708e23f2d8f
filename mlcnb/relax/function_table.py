"""FunctionTable: the functions of a module while it is being built; equal ones are kept once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mlcnb.core.node import FrozenDict, replace, rewrite
from mlcnb.ir.conversions import as_int
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.function import BaseFunc
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import structural_digest, structural_equal
from mlcnb.relax.emitter import Names
from mlcnb.relax.expr import Function
from mlcnb.tir.function import PrimFunc


class FunctionTable:
    """Functions by name, with a supply of free names.

    Args:
        functions: what is there already.
    """

    def __init__(self, functions: Mapping[GlobalVar, BaseFunc] | None = None) -> None:
        self.functions: dict[GlobalVar, BaseFunc] = dict(functions or {})
        self.names = Names(k.name_hint for k in self.functions)
        #: what was added to be shared, by what is seen of it at a glance, and its digest once asked
        self._alike: dict[Any, list[GlobalVar]] = {}
        self._digests: dict[GlobalVar, bytes] = {}

    def free_name(self, name: str) -> str:
        """`name`, or the first of name1, name2, … that no function has."""
        taken = self.names.taken
        return next(n for i in itertools.count() if (n := f"{name}{i or ''}") not in taken)

    def add(self, func: BaseFunc, name: str) -> GlobalVar:
        """Add a function under `name`, or a name made from it where that is taken."""
        key = GlobalVar(self.names.fresh(name))
        self.functions[key] = func
        return key

    def add_shared(self, func: BaseFunc, name: str) -> GlobalVar:
        """The name of a function equal to `func` that was added here before; else add it."""
        alike = self._alike.setdefault(_glance(func), [])
        digest = structural_digest(func) if alike else b""  # which reads all of it
        for known in alike:
            if self._digest(known) == digest and structural_equal(self.functions[known], func):
                return known
        alike.append(self.add(func, name))
        return alike[-1]

    def _digest(self, key: GlobalVar) -> bytes:
        if key not in self._digests:
            self._digests[key] = structural_digest(self.functions[key])
        return self._digests[key]

    def set(self, key: GlobalVar, func: BaseFunc) -> None:
        """Put `func` in place of what `key` names."""
        self.names.reserve(key.name_hint)
        self.functions[key] = func

    def rewrite(self, work: Callable[[Function], BaseFunc], *but: str) -> None:
        """Put what `work` makes of each graph function in its place.

        but: attributes of functions that stay as they are.
        """
        for key, func in list(self.functions.items()):
            if isinstance(func, Function) and func.attrs.keys().isdisjoint(but):
                self.set(key, work(func))

    def remove(self, keys: Iterable[GlobalVar]) -> None:
        """Take functions out; their names are free again."""
        for key in keys:
            del self.functions[key]
            self.names.release(key.name_hint)

    def module(self, like: IRModule) -> IRModule:
        """The module with these functions; `like` itself where they are what it has."""
        old = like.functions
        if len(old) == len(self.functions) and all(
            old.get(k) is f for k, f in self.functions.items()
        ):
            return like
        return replace(like, functions=FrozenDict(self.functions))


def _glance(func: BaseFunc) -> Any:
    """What equal functions have in common and others often have not: how their buffers are."""
    if not isinstance(func, PrimFunc):
        return type(func)
    return tuple((b.dtype, *map(as_int, b.shape)) for b in func.buffers)


def with_names(mod: IRModule, new: Mapping[GlobalVar, GlobalVar]) -> IRModule:
    """The module with other names of functions, here and where they are called."""

    def renamed(n: Any) -> Any:
        return new.get(n) if isinstance(n, GlobalVar) else None

    functions = {new.get(k, k): rewrite(f, renamed) for k, f in mod.items()}
    return replace(mod, functions=FrozenDict(functions))

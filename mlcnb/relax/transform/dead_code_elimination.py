"""DeadCodeElimination: what nothing uses goes, bindings and functions.

def main(x):                          def main(x):
    lv = R.exp(x)          ->             gv = R.add(x, x)
    gv = R.add(x, x)                      return gv
    return gv
# helper: called by nobody            # helper is gone
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mlcnb.core.node import replace, walk
from mlcnb.core.text import plural
from mlcnb.ir.expr import Call as PrimCall
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.purity import has_effects
from mlcnb.relax.analysis.struct_info import definable_vars, symbolic_vars
from mlcnb.relax.analysis.variables import (
    all_global_vars,
    bindings_of,
    leaves,
    reached,
    with_nested,
)
from mlcnb.relax.emitter import with_bindings
from mlcnb.relax.infer import Functions
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.tir.function import PrimFunc

Called = Callable[[Any], list[GlobalVar]]


def remove_unused_bindings(func: rx.Function, functions: Functions | None = None) -> rx.Function:
    """`func` without the bindings that nothing uses and that have no effects.

    A match_cast goes where neither its value nor a symbolic variable that it defines is used; one
    of a shape to a shape stays, for it is there to be checked.
    """
    sweep = _Sweep(functions or {}, any(isinstance(b, rx.MatchCast) for b in bindings_of(func)))
    sweep.mention(func.ret_struct_info)
    return replace(func, body=sweep.sequence(func.body))


class _Sweep:
    """Goes through a function backwards; `live` holds what is used further down."""

    def __init__(self, functions: Functions, has_casts: bool) -> None:
        self.functions, self.has_casts = functions, has_casts
        self.live: set[Any] = set()
        self.symbols: set[PrimVar] = set()

    def mention(self, node: Any) -> None:
        if self.has_casts:
            self.symbols.update(symbolic_vars(node))

    def use(self, value: Any) -> None:
        """What a value reads itself; what stands inside of it was looked at by `sequence`."""
        for leaf in leaves(value):
            self.live.add(leaf)
            if isinstance(leaf, rx.ShapeExpr):
                self.mention(leaf)

    def sequence(self, seq: Any) -> rx.SeqExpr:
        self.use(seq.body)
        blocks = tuple(reversed([self.block(b) for b in reversed(seq.blocks)]))
        return replace(seq, blocks=tuple(b for b in blocks if b.bindings))

    def block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        kept = []
        for binding in reversed(block.bindings):
            if self.needed(binding):
                kept.append(self.keep(binding))
        return with_bindings(block, tuple(reversed(kept)))

    def needed(self, binding: rx.Binding) -> bool:
        if binding.var in self.live:
            return True
        if isinstance(binding, rx.MatchCast):
            return isinstance(binding.value, rx.ShapeExpr) or any(
                v in self.symbols for v in definable_vars(binding.struct_info)
            )
        return has_effects(binding.value, self.functions)

    def keep(self, binding: rx.Binding) -> rx.Binding:
        info = binding.var.struct_info
        self.mention(info)
        if isinstance(info, TensorStructInfo) and isinstance(info.shape, rx.Var):
            self.live.add(info.shape)
        value = with_nested(binding.value, self.sequence)
        self.use(value)
        return replace(binding, value=value)


def entry_functions_of(mod: IRModule) -> list[GlobalVar]:
    """The functions that are seen outside: those with a `global_symbol`, else `main`, else all."""
    exposed = [k for k, f in mod.items() if "global_symbol" in f.attrs]
    if exposed:
        return exposed
    return [GlobalVar("main")] if "main" in mod else list(mod)


def remove_unused_functions(mod: IRModule, entries: Iterable[str | GlobalVar] = ()) -> IRModule:
    """`mod` without the functions that no entry function reaches.

    Args:
        mod: the module.
        entries: kept beside those of `entry_functions_of`.
    """
    given = [k if isinstance(k, GlobalVar) else GlobalVar(k) for k in entries]
    kept = _reached(mod, [*entry_functions_of(mod), *given], all_global_vars_of_graph)
    if len(kept) < len(mod):
        kept = _reached(mod, kept, all_global_vars_of_any)
    return mod.without_functions(k for k in mod if k not in kept)


def _reached(mod: IRModule, starts: Iterable[GlobalVar], called: Called) -> set[GlobalVar]:
    found = reached(starts, lambda k: called(mod.functions[k]) if k in mod else ())
    return {k for k in found if k in mod}


def all_global_vars_of_graph(func: Any) -> list[GlobalVar]:
    """What a graph function calls; of a loop function nothing."""
    return all_global_vars(func) if isinstance(func, rx.Function) else []


def all_global_vars_of_any(func: Any) -> list[GlobalVar]:
    """What a function calls; loop functions hardly ever do, so they are looked into last."""
    if not isinstance(func, PrimFunc):
        return all_global_vars_of_graph(func)
    calls = (n for n in walk(func.body) if isinstance(n, PrimCall))
    return [n.op for n in calls if isinstance(n.op, GlobalVar)]


class DeadCodeElimination(ModulePass):
    """Remove bindings that nothing uses, and functions that no entry function reaches.

    Calls with effects stay, and a match_cast, which checks a shape, stays where it binds a size
    that is used. Without `entry_functions` the public functions are entries. Nothing is refused.
    """

    #: names kept beside the functions that have a global_symbol
    entry_functions: Sequence[str] | None = ()

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Functions first, then the bindings of those that remain."""
        before = len(mod)
        mod = remove_unused_functions(mod, self.entry_functions or ())
        changed = {}
        removed = 0
        for key, func in mod.of_kind(rx.Function).items():
            new = remove_unused_bindings(func, mod.functions)
            if new is not func:
                changed[key] = new
                removed += _count(func) - _count(new)
        result = mod.with_functions(changed)
        result = remove_unused_functions(result, self.entry_functions or ())
        if result is not mod or len(result) != before:
            functions = plural(before - len(result), "function")
            ctx.note(f"removed {plural(removed, 'binding')} and {functions}")
        return result


def _count(func: rx.Function) -> int:
    return sum(1 for _ in bindings_of(func))

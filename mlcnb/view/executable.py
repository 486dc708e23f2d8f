"""Executable: what it takes and gives, its memory, its kernels, how long compiling took.

Executable for llvm: main; 40 calls of 28 kernels
  input     data_0: float32 [1, 3, 224, 224]
  memory    arena 6.42 MB (all results together 23.8 MB), constants 4.96 MB
  compiled  in 2.36 s: graph passes 279 ms, kernels 2.08 s
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.relax.analysis import symbolic_vars
from mlcnb.relax.expr import Function
from mlcnb.view import survey
from mlcnb.view.kernels import kernel_parts, table
from mlcnb.view.module import picture
from mlcnb.view.parts import Facts, Fold, Part, Title
from mlcnb.view.program import function_fold
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, dims, listed, plural, seconds, size, tensor


@shows("mlcnb.runtime.executable:Executable")
def executable(ex: Any) -> list[Part]:
    """Summary, memory plan, kernels, graph."""
    name = _entry(ex)
    function = ex.mod[name] if name else None
    told = [f"Executable for {ex.target}", *([clip(name)] if name else [])]
    is_graph = isinstance(function, Function)
    if isinstance(function, Function):
        calls = survey.kernel_calls(function, ex.mod.functions)
        told.append(f"{plural(calls.total(), 'call')} of {plural(len(calls), 'kernel')}")
    pairs = [*(_signature(ex.mod[name]) if name else []), *(_memory(ex, name) if is_graph else [])]
    parts: list[Part] = [Title("; ".join(told)), Facts([*pairs, *_timings(ex)])]
    if len(ex.kernels) == 1 and not is_graph:
        return [*parts, *kernel_parts(ex.kernels[0], "ex.kernels[0]")]
    parts.append(Fold(f"kernels: {len(ex.kernels)}", [table(ex.kernels)], "ex.kernels", True, True))
    if is_graph:
        parts.append(_closed(picture(ex.mod, name)))
        fold = function_fold(name, function, f"ex.mod[{name!r}].show()")
        parts.append(replace(fold, in_text=False))
    return parts


def _closed(fold: Fold) -> Fold:
    return Fold(fold.title, fold.body, fold.see.replace("mod", "ex.mod", 1))


def _entry(ex: Any) -> str:
    try:
        return ex.entry
    except MLCError:  # several functions, none of them main
        return ""


def _signature(function: Any) -> list[tuple[str, str]]:
    if isinstance(function, Function):
        inputs = [f"{clip(p.name_hint, 40)}: {tensor(p.struct_info)}" for p in function.params]
        output = [("output", tensor(function.ret_struct_info))]
        return [("inputs", listed(inputs, 4) or "none"), *output]
    shown = [f"{clip(b.name, 40)}: {b.dtype} {dims(b.shape)}" for b in function.buffers]
    return [("arguments", f"{listed(shown, 6)} (the last are written)")]


def _memory(ex: Any, name: str) -> list[tuple[str, str]]:
    """The plan of a graph whose sizes are all known; else when there will be one."""
    function = ex.mod[name]
    plans = ex.plans(name)
    if not plans.straight:
        return [("memory", "allocated step by step: the graph branches, or is interpreted")]
    if any(symbolic_vars(p.struct_info) for p in function.params):
        return [("memory", "planned anew for each set of sizes")]
    layout = plans.layout({})
    constants = sum(a.nbytes for a in layout.constants)
    told = [f"arena {size(layout.arena_bytes)}{_shared(layout)}", f"constants {size(constants)}"]
    if layout.workspace_bytes:
        told.append(f"{size(layout.workspace_bytes)} of the arena for kernels to work in")
    return [("memory", ", ".join(told))]


def _shared(layout: Any) -> str:
    """What the arena would be if every result had memory of its own."""
    storages = {
        id(arg.storage): arg.storage.size
        for call in layout.calls
        for arg in call.args
        if hasattr(arg, "storage") and arg.storage.kind == "arena"
    }
    return f" (shared by {plural(len(storages), 'result')} of {size(sum(storages.values()))})"


def _timings(ex: Any) -> list[tuple[str, str]]:
    if not ex.timings:
        return []
    steps = ", ".join(f"{name} {seconds(t)}" for name, t in ex.timings)
    return [("compiled in", f"{seconds(sum(t for _, t in ex.timings))}: {steps}")]

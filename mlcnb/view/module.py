"""IRModule: what is in it, its graph, its functions, its text.

IRModule: main, 29 loop functions; 98 operators; 25.6 M parameters (102 MB); 8.21 GFLOP
  inputs     data_0: float32 [1, 3, 224, 224]
  output     float32 [1, 1000]
  operators  conv2d ×53, relu ×49, add ×16, …
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.relax import expr as rx
from mlcnb.tir.function import PrimFunc
from mlcnb.view import survey
from mlcnb.view.parts import Column, Facts, Fold, Part, Table, Title, heads
from mlcnb.view.program import module_folds
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, count, flops, listed, plural, size, tensor

#: rows of a table that are shown unfolded
ROWS = 12
#: nodes of the graph in the view of a module: `mod.graph()` has them all
OVERVIEW = 80


@shows("mlcnb.ir.module:IRModule")
def module(mod: IRModule) -> list[Part]:
    """Summary, graph, table of functions, text."""
    graphs = survey.graph_functions(mod)
    entry = next((f for n, f in graphs if n == "main"), graphs[0][1] if graphs else None)
    parts: list[Part] = [Title(f"IRModule: {'; '.join([_contents(mod), *totals(mod, entry)])}")]
    if entry is not None:
        parts.append(Facts(summary(mod, entry)))
        parts.append(picture(mod, next(n for n, f in graphs if f is entry)))
    if len(mod) > 1:
        parts.append(functions(mod, entry))
    return [*parts, *(module_folds(mod) if len(mod) else ())]


def _contents(mod: IRModule) -> str:
    kinds: dict[str, list[str]] = {}
    for var, f in mod.items():
        kinds.setdefault(kind_of(f), []).append(clip(var.name_hint, 40))
    words = [
        listed(names) if kind == "graph function" and len(names) <= 3 else plural(len(names), kind)
        for kind, names in kinds.items()
    ]
    return ", ".join(words) or "no functions"


def kind_of(function: Any) -> str:
    """What sort of function it is, in words."""
    if isinstance(function, PrimFunc):
        return "loop function"
    if isinstance(function, rx.Function):
        return "fused group" if function.attrs.get("Primitive") else "graph function"
    return "outside function"


def totals(mod: IRModule, entry: rx.Function | None) -> list[str]:
    """Operators, kernel calls, parameters and work of one run of `entry` (of all loops without)."""
    graphs = [*mod.of_kind(rx.Function).values()]
    elements, nbytes = survey.parameters(*graphs)
    told = [_loops(mod)]
    if entry is not None:
        ops = survey.operators(entry, mod.functions).total()
        calls = survey.kernel_calls(entry, mod.functions)
        done = survey.work(entry, mod.functions)
        told = [
            plural(ops, "operator") if ops else "",
            f"{plural(calls.total(), 'call')} of {plural(len(calls), 'kernel')}" if calls else "",
            f"{count(elements)} parameters ({size(nbytes)})" if elements else "",
            flops(done),
        ]
    return [text for text in told if text]


def _loops(mod: IRModule) -> str:
    """The work of a module that has loop functions only."""
    work = [survey.work(f) for _, f in survey.loop_functions(mod)]
    total = sum(w for w in work if isinstance(w, int))
    return flops(total) if total else ""


def summary(mod: IRModule, function: rx.Function) -> list[tuple[str, str]]:
    """Inputs, output, and which operators and kernels, of one graph function."""
    ops = survey.operators(function, mod.functions)
    calls = survey.kernel_calls(function, mod.functions)
    pairs = {
        "inputs": _inputs(function),
        "output": tensor(function.ret_struct_info) if function.ret_struct_info else "",
        "operators": survey.counted(ops),
        "kernels": survey.counted(_made_of(calls, mod), 6),
    }
    return [(name, text) for name, text in pairs.items() if text]


def _made_of(calls: Counter[str], mod: IRModule) -> Counter[str]:
    """The calls counted by what the kernels are made of."""
    found: Counter[str] = Counter()
    for name, n in calls.items():
        func = mod.functions.get(GlobalVar(name))
        parts = survey.words_of(func) if isinstance(func, PrimFunc) else []
        found[clip(" + ".join(parts) or name, 48)] += n
    return found


def _inputs(function: rx.Function) -> str:
    shown = [f"{clip(p.name_hint, 40)}: {tensor(p.struct_info)}" for p in function.params]
    return listed(shown, 4) or "none"


def picture(mod: Any, name: str) -> Fold:
    """The graph of one function; a large one as an overview."""
    from mlcnb.view.graph import graph

    drawn = graph(mod, name, max_nodes=OVERVIEW, overview=True)
    see = "mod.graph()" if name == "main" else f"mod.graph({name!r})"
    return Fold(f"graph: {drawn.summary}", lambda: drawn.parts(see), see, is_open=True)


def functions(mod: IRModule, entry: rx.Function | None) -> Part:
    """A row for each function: what it is made of, what it takes and gives, how often it runs."""
    calls = survey.kernel_calls(entry, mod.functions) if entry is not None else Counter()
    calls += _group_calls(mod, entry)
    columns = heads("function: code | kind | made of | result")
    known = all(isinstance(survey.work(f, mod.functions), int | None) for _, f in mod.items())
    title = "work" if known else "work (sizes = 1)"
    columns += [Column("calls", "number"), Column(title, "number")]
    rows = [_row(mod, var.name_hint, f, calls) for var, f in mod.items()]
    return Table(columns, rows, ROWS, "mod.functions")


def _group_calls(mod: IRModule, entry: rx.Function | None) -> Counter[str]:
    """How often each fused group is called."""
    found: Counter[str] = Counter()
    for call in survey.calls_of(entry) if entry is not None else ():
        name = survey.kernel_of(call) or ""
        if isinstance(mod.functions.get(GlobalVar(name)), rx.Function):
            found[name] += 1
    return found


def _row(mod: IRModule, name: str, function: Any, calls: Counter[str]) -> tuple[Any, ...]:
    made, result = _MADE.get(type(function), _nothing)(mod, function)
    done = survey.work(function, mod.functions) if made else None
    ran = calls.get(name)
    return (
        clip(name, 48),
        kind_of(function).removesuffix(" function"),
        clip(made, 60),
        clip(result, 60),
        f"×{ran}" if ran else "",
        flops(done, told=False),
    )


def _graph_row(mod: IRModule, function: rx.Function) -> tuple[str, str]:
    kernels = _made_of(survey.kernel_calls(function, mod.functions), mod)
    ops = survey.operators(function, mod.functions) + kernels
    return survey.counted(ops, 4), tensor(function.ret_struct_info)


def _loop_row(mod: IRModule, function: PrimFunc) -> tuple[str, str]:
    from mlcnb.view.words import dims

    result = ", ".join(f"{b.dtype} {dims(b.shape)}" for b in survey.outputs_of(function))
    return " + ".join(survey.words_of(function)) or "loops", result


def _nothing(mod: IRModule, function: Any) -> tuple[str, str]:
    return "", ""


_MADE: dict[type, Callable[[IRModule, Any], tuple[str, str]]] = {
    rx.Function: _graph_row,
    PrimFunc: _loop_row,
}


@shows("mlcnb.relax.expr:Function")
def function(func: rx.Function) -> list[Part]:
    """A graph function: summary, graph, text."""
    from mlcnb.view.program import function_fold

    name = str(func.attrs.get("global_symbol", ""))
    alone = IRModule.make({name or "main": func})
    title = f"relax function {clip(name)}" if name else "relax function"
    fold = picture(func, name or "main")
    told = "; ".join([title, *totals(alone, func)])
    return [Title(told), Facts(summary(alone, func)), fold, function_fold(name, func)]

"""What views show, as JSON values, for scripts: `mlcnb show MODEL --json` prints them.

{"schema": "mlcnb.show/1", "kind": "module",  "functions": [FUNCTION…], "graph": GRAPH or null}
{…, "kind": "passes",   "steps": [STEP…]}
{…, "kind": "kernels",  "kernels": [KERNEL…]}
{…, "kind": "loops",    "functions": [{"name", "flop", "loops": [LOOP…]}…]}

FUNCTION  name, kind ("graph" or "loops"), operators and kernels {name: how many}, flop
GRAPH     name; nodes [{id, sort, name, details, size, kernel, cluster, var, from}]: size is the
          number of operators, `from` where it was imported from ("onnx:Conv_12"); edges [{source,
          target, value}] by id; clusters [{id, title, parent}]: fused groups, branches
STEP      number, name, depth, seconds, changed, skipped, reason, functions_changed; operators and
          temporary_bytes as [before, after]; rules [{name, count}]
KERNEL    name, made_of, outputs [{dtype, shape}], flop, object_bytes, llvm_seconds, sizes (what
          shared code is called with); code: for each function of it name, bytes, calls,
          vector_bits, and of all of it (total) and its hot loop (hot, or null) {instructions,
          vector, fma, loads, stores, spills}
LOOP      op "for": name, extent, loop ("serial", "parallel", "threadIdx.x" …), body [LOOP…]
          op "block": name, axes ("SSR"), init, reads, writes, body; op "if": text, body, else;
          op "while", "allocate": text, body; op "store", "call": text

flop is null where it is not known, and text where it depends on symbolic sizes; so are extents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.core.text import kind_of
from mlcnb.ir.expr import IntImm
from mlcnb.ir.module import IRModule
from mlcnb.ir.pass_trace import PassTrace
from mlcnb.relax import expr as rx
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import bodies
from mlcnb.view import survey
from mlcnb.view.graph.model import Model, build
from mlcnb.view.passes import Sizes
from mlcnb.view.words import dim

SCHEMA = "mlcnb.show/1"
Json = dict[str, Any]


def to_data(obj: Any) -> Json:
    """What the views of an object show, as JSON values.

    Args:
        obj: an IRModule, a PassTrace, an Executable or its kernels, a PrimFunc.

    Raises:
        MLCError: there is no such form of this object.
    """
    if isinstance(obj, IRModule):
        if survey.graph_functions(obj):
            return _of("module", **module(obj))
        return loops(dict(survey.loop_functions(obj)))
    if isinstance(obj, PassTrace):
        return _of("passes", steps=[*map(_Steps().step, range(len(obj.steps)), obj.steps)])
    if isinstance(obj, PrimFunc):
        return loops({str(obj.attrs.get("global_symbol", "main")): obj})
    kernels = getattr(obj, "kernels", {obj.name: obj} if hasattr(obj, "facts") else obj)
    if isinstance(kernels, Mapping) and kernels:
        return _of("kernels", kernels=[kernel(name, k) for name, k in kernels.items()])
    raise MLCError(
        f"there is no JSON of {kind_of(obj)}",
        hint="give a module, a PassTrace, an executable or a PrimFunc",
    )


def _of(kind: str, **fields: Any) -> Json:
    return {"schema": SCHEMA, "kind": kind, **fields}


# -- modules ---------------------------------------------------------------------------------------


def module(mod: IRModule) -> Json:
    """The functions of a module, and the graph of its entry."""
    functions = [_function(mod, var.name_hint, f) for var, f in mod.items()]
    graphs = dict(survey.graph_functions(mod))
    name = "main" if "main" in graphs else next(iter(graphs), None)
    made = None if name is None else build(name, graphs[name], mod.functions, True)
    return {"functions": functions, "graph": None if made is None else graph(made)}


def _function(mod: IRModule, name: str, function: Any) -> Json:
    is_graph = isinstance(function, rx.Function)
    counts: list[Json] = [{}, {}]
    if is_graph:
        found = (survey.operators, survey.kernel_calls)
        counts = [dict(count(function, mod.functions)) for count in found]
    return {
        "name": name,
        "kind": "graph" if is_graph else "loops",
        "operators": counts[0],
        "kernels": counts[1],
        "flop": _number(survey.work(function, mod.functions)),
    }


def graph(model: Model) -> Json:
    """All nodes and edges of a graph, none of them folded."""
    nodes = [
        {
            "id": n.id,
            "sort": n.sort,
            "name": n.lines[0] if n.lines else "",
            "details": list(n.lines[1:]),
            "size": n.size,
            "kernel": n.kernel,
            "cluster": n.cluster,
            "var": getattr(n.var, "name_hint", None),
            "from": _span(n.origin),
        }
        for n in model.nodes
    ]
    edges = [{"source": e.source, "target": e.target, "value": e.label} for e in model.edges]
    clusters = [{"id": c.id, "title": c.title, "parent": c.parent} for c in model.clusters]
    return {"name": model.name, "nodes": nodes, "edges": edges, "clusters": clusters}


def _span(origin: Any) -> str | None:
    span = getattr(origin, "span", None)
    return None if span is None else f"{span.source}:{span.name}"


def _number(value: Any) -> int | str | None:
    """A count as a number; a symbolic one as text."""
    if value is None or isinstance(value, int):
        return value
    return value.value if isinstance(value, IntImm) else dim(value)


# -- passes ----------------------------------------------------------------------------------------


class _Steps:
    """Counts each module once."""

    def __init__(self) -> None:
        self.sizes = Sizes()

    def step(self, number: int, step: Any) -> Json:
        """One pass."""
        (ops, made), (ops_after, made_after) = map(self.sizes.of, (step.before, step.after))
        return {
            "number": number,
            "name": step.name,
            "depth": step.depth,
            "seconds": step.seconds,
            "changed": step.changed,
            "skipped": step.skipped,
            "reason": step.reason,
            "functions_changed": list(step.functions_changed),
            "operators": [ops, ops_after],
            "temporary_bytes": [made, made_after],
            "rules": [{"name": r.rule.name, "count": r.count} for r in step.rules],
        }


# -- kernels ---------------------------------------------------------------------------------------


def kernel(name: str, k: Any) -> Json:
    """The facts of one compiled kernel."""
    there = k.is_native and k.is_made
    facts = k.facts.values() if there else ()
    outputs = survey.outputs_of(k.func)
    return {
        "name": name,
        "made_of": list(survey.parts_of(k.func)),
        "outputs": [{"dtype": str(b.dtype), "shape": _shape(b.shape)} for b in outputs],
        "flop": _number(survey.work(k.func)),
        "object_bytes": k.object_size if there else None,
        "llvm_seconds": k.compile_seconds if there else None,
        "sizes": list(k.signature.sizes) if there else [],
        "code": [_code(f) for f in facts],
    }


def _code(f: Any) -> Json:
    return {
        "name": f.name,
        "bytes": f.code_bytes,
        "calls": list(f.calls),
        "vector_bits": f.vector_bits,
        "total": _counts(f.total),
        "hot": _counts(f.hot) if f.hot else None,
    }


def _counts(c: Any) -> Json:
    names = ("instructions", "vector", "fma", "loads", "stores", "spills")
    return {name: getattr(c, name) for name in names}


def _shape(shape: Any) -> list[int | str | None]:
    return [_number(x) for x in shape]


# -- loops -----------------------------------------------------------------------------------------


def loops(functions: Mapping[str, PrimFunc]) -> Json:
    """The loop trees of functions."""
    made = [
        {"name": name, "flop": _number(survey.work(f)), "loops": tree(f.body)}
        for name, f in functions.items()
    ]
    return _of("loops", functions=made)


def tree(n: Any) -> list[Json]:
    """A statement and what is below it."""
    head = _HEADS.get(type(n))
    if head is None or _is_root(n):
        return [made for part in bodies(n) for made in tree(part)]
    made = head(n)
    if isinstance(n, s.IfThenElse):
        other = tree(n.else_case) if n.else_case is not None else []
        return [{**made, "body": tree(n.then_case), "else": other}]
    inner = getattr(n, "body", None)
    return [made if inner is None else {**made, "body": tree(inner)}]


def _is_root(n: Any) -> bool:
    is_block = isinstance(n, s.Block)
    return is_block and n.name_hint == "root" and not n.iter_vars


def _for(n: s.For) -> Json:
    loop = n.thread_binding or n.kind.value
    return {"op": "for", "name": n.loop_var.name, "extent": _number(n.extent), "loop": loop}


def _block(n: s.Block) -> Json:
    axes = "".join(axis.iter_type.value[0] for axis in n.iter_vars)
    reads, writes = ([r.buffer.name for r in regions] for regions in (n.reads, n.writes))
    head = {"op": "block", "name": n.name_hint, "axes": axes, "init": n.init is not None}
    return {**head, "reads": reads, "writes": writes}


def _allocate(n: s.Allocate) -> Json:
    shape = ", ".join(map(dim, n.extents))
    return {"op": "allocate", "text": f"{n.buffer_var.name}: {n.dtype} [{shape}]"}


#: what is told of a statement besides what is in it; of others only that
_HEADS: dict[type, Callable[[Any], Json]] = {
    s.For: _for,
    s.Block: _block,
    s.Allocate: _allocate,
    s.IfThenElse: lambda n: {"op": "if", "text": display.text(n.condition)},
    s.While: lambda n: {"op": "while", "text": display.text(n.condition)},
    s.BufferStore: lambda n: {"op": "store", "text": display.text(n)},
    s.Evaluate: lambda n: {"op": "call", "text": display.text(n)},
}

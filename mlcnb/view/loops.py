"""PrimFunc: what it reads and writes, its loops as a tree with extents and kinds, its text.

loop           extent  kind       times  work
for i             128  parallel     128  32.8 kFLOP
  for j           128  serial    16,384  32.8 kFLOP
    block C  SS                  16,384  32.8 kFLOP  A, B -> C
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.core.node import walk
from mlcnb.ir.expr import IntImm
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis import nested_flops
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.view import survey
from mlcnb.view.cost import cost_parts, moved
from mlcnb.view.parts import Fold, Part, Table, Title, heads
from mlcnb.view.program import function_fold
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, count, dim, dims, flops, listed, plural, size

#: rows of the loop tree
ROWS = 60


@shows("mlcnb.tir.function:PrimFunc")
def prim_func(func: PrimFunc) -> list[Part]:
    """Summary, parameters, loop tree, text."""
    name = str(func.attrs.get("global_symbol", ""))
    tree = loop_tree(func)
    title = "; ".join([f"PrimFunc {clip(name)}".strip(), *_facts(func)]).replace("; ", ": ", 1)
    folded = Fold(f"loops: {_shape(func)}", [tree], "func.show()", is_open=True, in_text=True)
    cost = (
        [Fold("cost", parts, "predict(func)", in_text=True)] if (parts := cost_parts(func)) else []
    )
    return [Title(title), parameters(func), folded, *cost, function_fold(name, func)]


def _facts(func: PrimFunc) -> list[str]:
    told = [f"made of {listed(parts)}"] if (parts := survey.parts_of(func)) else []
    done, touched = survey.work(func), moved(func)
    told += filter(None, [flops(done)])
    if touched:
        told.append(f"touches {size(touched)}")
    if touched and isinstance(done, int) and done:
        told.append(f"{done / touched:.3g} FLOP/B")
    return told


def _shape(func: PrimFunc) -> str:
    loops = sum(isinstance(n, s.For) for n in _statements(func.body))
    blocks = len(survey.blocks_of(func))
    return f"{plural(blocks, 'block')}, {plural(loops, 'loop')}"


def _statements(n: Any) -> Iterator[Any]:
    from mlcnb.tir.analysis.structure import statements

    return statements(n)


def parameters(func: PrimFunc) -> Table:
    """A row for each parameter."""
    read, written = _used(func)
    columns = heads("parameter: code | dtype | shape | size: number | use")
    rows = [_parameter(p, func.buffer_map.get(p), read, written) for p in func.params]
    return Table(columns, rows, 16, "func.params")


def _parameter(param: Any, b: Buffer | None, read: set[Any], written: set[Any]) -> tuple[str, ...]:
    if b is None:
        return clip(param.name, 40), str(param.dtype), "scalar", "", "read"
    use = [w for w, data in (("read", read), ("written", written)) if b.data in data]
    return clip(b.name, 40), str(b.dtype), dims(b.shape), buffer_size(b), ", ".join(use)


def _used(func: PrimFunc) -> tuple[set[Any], set[Any]]:
    """The pointers read and those written: as the blocks say, else by every access."""
    blocks = survey.blocks_of(func)
    if blocks:
        regions = ([r for b in blocks for r in b.reads], [r for b in blocks for r in b.writes])
        return {r.buffer.data for r in regions[0]}, {r.buffer.data for r in regions[1]}
    found: tuple[set[Any], set[Any]] = (set(), set())
    for n in walk(func.body):
        if isinstance(n, BufferLoad | s.BufferStore):
            found[isinstance(n, s.BufferStore)].add(n.buffer.data)
    return found


def buffer_size(buffer: Buffer) -> str:
    """Bytes of a buffer in words; empty where its shape is symbolic."""
    total = buffer.dtype.nbytes
    for extent in buffer.shape:
        if not isinstance(extent, IntImm):
            return ""
        total *= extent.value
    return size(total)


def loop_tree(func: PrimFunc | s.Stmt) -> Table:
    """Loops and blocks, indented as they are nested: how long, how often, how much work."""
    columns = heads(": name | extent: number | kind | times: number | work: number | ")
    body = func.body if isinstance(func, PrimFunc) else func
    return Table(columns, list(_Tree(_work(body)).rows(body)), ROWS, "func.show()")


@survey.remembered
def _work(body: s.Stmt) -> dict[s.Stmt, Any]:
    """Loop or block -> its operations in one run; nothing where they cannot be counted."""
    try:
        return nested_flops(body)
    except (MLCError, AttributeError, TypeError):  # a program that is not well-formed is shown too
        return {}


@dataclass(frozen=True)
class _At:
    """Where a row stands: how deep, and how often it runs (None: not known)."""

    depth: int = 0
    times: int | None = 1

    def row(
        self, text: str, extent: str = "", kind: str = "", work: Any = None, more: str = ""
    ) -> tuple[str, ...]:
        """A row of the table."""
        times = "" if self.times is None else count(self.times)
        indent = "  " * self.depth
        return f"{indent}{clip(text, 40)}", extent, kind, times, clip(flops(work)), clip(more, 90)

    def inside(self, times: int | None = 1) -> _At:
        """One level deeper."""
        known = None if self.times is None or times is None else self.times * times
        return _At(self.depth + 1, known)


class _Tree:
    """Walks statements and makes a row of each that says something."""

    def __init__(self, work: Mapping[s.Stmt, Any]) -> None:
        self.work = work

    def rows(self, n: Any, at: _At = _At()) -> Iterator[tuple[str, ...]]:
        """The rows of a statement and what is below it."""
        rule = _RULES.get(type(n))
        if rule is not None:
            yield from rule(self, n, at)
        elif getattr(n, "body", None) is not None:
            yield from self.rows(n.body, at)

    def loop(self, n: s.For, at: _At) -> Iterator[tuple[str, ...]]:
        """A loop: its extent, its kind, how often its body runs."""
        extent = n.extent.value if isinstance(n.extent, IntImm) else None
        kind = n.thread_binding or n.kind.value
        inner = at.inside(extent)
        notes = ", ".join(f"{k}={_short(v)}" for k, v in n.annotations.items())
        name, here = f"for {n.loop_var.name}", _At(at.depth, inner.times)
        yield here.row(name, dim(n.extent), kind, self.work.get(n), notes)
        yield from self.rows(n.body, inner)

    def block(self, n: s.BlockRealize, at: _At) -> Iterator[tuple[str, ...]]:
        """A block: its axes, what it reads and writes."""
        block = n.block
        if block.name_hint == "root":
            yield from self.rows(block.body, at)
            return
        axes = "".join(axis.iter_type.value[0] for axis in block.iter_vars)
        uses = [listed(_names(regions), 4) for regions in (block.reads, block.writes)]
        flow = f"{uses[0]} -> {uses[1]}" if uses[0] else f"-> {uses[1]}"
        init = ", init" if block.init is not None else ""
        yield at.row(f"block {block.name_hint}", "", f"{axes}{init}", self.work.get(block), flow)
        if not isinstance(block.body, s.BufferStore):
            yield from self.rows(block.body, at.inside())

    def sequence(self, n: s.SeqStmt, at: _At) -> Iterator[tuple[str, ...]]:
        """One after the other."""
        for part in n.seq:
            yield from self.rows(part, at)

    def choice(self, n: s.IfThenElse, at: _At) -> Iterator[tuple[str, ...]]:
        """A condition with its branches."""
        yield at.row(f"if {display.text(n.condition)}")
        yield from self.rows(n.then_case, at.inside())
        if n.else_case is not None:
            yield at.row("else")
            yield from self.rows(n.else_case, at.inside())

    def store(self, n: s.BufferStore, at: _At) -> Iterator[tuple[str, ...]]:
        """What a store writes to (where it is all of a block, the block's row has said that)."""
        yield at.row(f"{display.text(n).partition(' = ')[0]} = …")

    def allocation(self, n: s.Allocate, at: _At) -> Iterator[tuple[str, ...]]:
        """Memory for what is below."""
        yield at.row(f"allocate {n.buffer_var.name}", dims(n.extents), str(n.dtype))
        yield from self.rows(n.body, at)

    def repeat(self, n: s.While, at: _At) -> Iterator[tuple[str, ...]]:
        """A loop of unknown length."""
        yield at.row(f"while {display.text(n.condition)}")
        yield from self.rows(n.body, at.inside(None))

    def call(self, n: s.Evaluate, at: _At) -> Iterator[tuple[str, ...]]:
        """Something done for its effect."""
        yield at.row(display.text(n))


def _names(regions: Any) -> list[str]:
    return list(dict.fromkeys(clip(region.buffer.name, 30) for region in regions))


def _short(value: Any) -> str:
    return clip(str(getattr(value, "value", value)), 30)


_RULES: dict[type, Callable[[_Tree, Any, _At], Iterator[tuple[str, ...]]]] = {
    s.For: _Tree.loop,
    s.BlockRealize: _Tree.block,
    s.SeqStmt: _Tree.sequence,
    s.IfThenElse: _Tree.choice,
    s.BufferStore: _Tree.store,
    s.Allocate: _Tree.allocation,
    s.While: _Tree.repeat,
    s.Evaluate: _Tree.call,
}

"""Analysis of a loop program: work and memory, blocks, loops and what they carry, dependences.

PrimFunc main: 1.02 kFLOP, touches 768 B, 1.33 FLOP/B
block  kind       loops    times        work    touches  FLOP/B
C      reduction  i, j, k    512  1.02 kFLOP      768 B    1.33  sum over vk; A, B -> C
"""

from __future__ import annotations

from typing import Any

from mlcnb.arith import simplify
from mlcnb.tir.access.depend import place_of
from mlcnb.tir.access.scope import loop_name
from mlcnb.view.parts import Column, Facts, Fold, Line, Part, Table, Title, heads
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, count, dim, flops, listed, plural, size

#: rows of each table
ROWS = 40


@shows("mlcnb.tir.schedule.analysis.summary:Analysis")
def analysis(x: Any) -> list[Part]:
    """Title, blocks, loops, memory, dependences, problems."""
    parts: list[Part] = [Title(_title(x)), *([blocks(x)] if x.blocks else []), loops(x)]
    if x.footprint:
        parts.append(Facts(_memory(x)))
    between = [repr(d) for d in x.scope.dependencies]
    if between:
        title = f"{plural(len(between), 'dependence')} between blocks"
        lines = [Line(clip(text, 200)) for text in between[:ROWS]]
        parts.append(Fold(title, lines, "analysis.scope", True, True))
    if x.dependences:
        parts.append(_carried(x))
    parts += [Line(clip(text, 300), "error") for text in x.problems[:ROWS]]
    if not x.problems:
        parts.append(Line("well-formed; every access is proved to be in bounds", "note"))
    return parts


def _title(x: Any) -> str:
    name = str(x.func.attrs.get("global_symbol", ""))
    told = list(filter(None, [flops(x.flops), f"touches {_bytes(sum_of(x.bytes.values()))}"]))
    told += _ratio(x.intensity, " FLOP/B")
    return f"PrimFunc {clip(name)}".strip() + f": {', '.join(told)}"


def sum_of(values: Any) -> Any:
    """The sum of numbers and expressions."""
    total: Any = 0
    for value in values:
        total = total + value
    return total


def _bytes(n: Any) -> str:
    if n is None or isinstance(n, int):
        return "" if n is None else size(n)
    return f"{dim(simplify(n))} B"


def _ratio(x: float | None, unit: str = "") -> list[str]:
    return [] if x is None else [f"{x:.3g}{unit}"]


def blocks(x: Any) -> Table:
    """A row for each block."""
    columns = heads("block: code | kind | loops: code")
    columns += [Column(title, "number") for title in ("times", "work", "touches", "FLOP/B")]
    return Table([*columns, Column("", "prose")], [_block(b) for b in x.blocks], ROWS, "x.blocks")


def _block(b: Any) -> tuple[str, ...]:
    names = [loop.loop_var.name for loop in b.loops]
    return (
        clip(b.block.name_hint or "(unnamed)", 40),
        b.kind.value,
        clip(", ".join(names), 60),
        "" if b.instances is None else count(b.instances),
        flops(b.flops, told=False),
        _bytes(sum_of(b.sizes.values())),
        *(_ratio(b.intensity) or [""]),
        _notes(b),
    )


def _notes(b: Any) -> str:
    """`sum over vk; A, B -> C`, or why the block is opaque."""
    told = [b.reason] if b.reason else []
    if b.reduction is not None and b.reduction.axes:
        over = ", ".join(axis.var.name for axis in b.reduction.axes)
        told.append(f"{b.reduction.reducer} over {over}")
        told += [] if b.reduction.is_sound else ["it does not start at what changes nothing"]
    reads, writes = (
        listed(dict.fromkeys(clip(r.buffer.name, 30) for r in regions), 4)
        for regions in (b.block.reads, b.block.writes)
    )
    told.append(f"{reads} -> {writes}" if reads else f"-> {writes}")
    return "; ".join(told)


def loops(x: Any) -> Table:
    """A row for each loop."""
    columns = heads(
        "loop: code | extent: number | kind | one iteration touches: number | its iterations: prose"
    )
    depth = _depths(x)
    rows = [
        (
            f"{'  ' * depth[r.loop]}{clip(r.loop.loop_var.name, 40)}",
            dim(r.loop.extent),
            r.loop.thread_binding or r.loop.kind.value,
            _bytes(r.working_set),
            r.verdict,
        )
        for r in x.loops
    ]
    return Table(columns, rows, ROWS, "x.loops")


def _depths(x: Any) -> dict[Any, int]:
    """How many loops are around each loop."""
    found: dict[Any, int] = {}
    for report in x.loops:
        around = [n for n in x.tree.ancestors(report.loop) if n in found]
        found[report.loop] = len(around)
    return found


def _memory(x: Any) -> list[tuple[str, str]]:
    pairs = []
    for scope, touched in x.footprint.items():
        own = x.allocated.get(scope)
        extra = f", {_bytes(own)} of it allocated here" if own is not None else ""
        pairs.append((f"memory {scope}", f"{_bytes(touched)} touched{extra}"))
    return pairs


def _carried(x: Any) -> Fold:
    columns = heads(
        "dependence | of: code | blocks: code | carried by: code | distance | direction | "
    )
    rows = [_dependence(d) for d in x.dependences]
    title = f"{plural(len(rows), 'dependence')} between iterations"
    return Fold(title, [Table(columns, rows, ROWS, "x.dependences")], "x.dependences")


def _dependence(d: Any) -> tuple[str, ...]:
    vector = ", ".join("*" if n is None else str(n) for n in d.distance)
    notes = ["a reduction"] * d.is_reduction + ["may be"] * (not d.exact)
    return (
        d.kind.name,
        clip(d.buffer.name, 30),
        clip(f"{place_of(d.source)} -> {place_of(d.target)}", 60),
        "" if d.carried_by is None else clip(loop_name(d.carried_by), 30),
        f"({vector})",
        f"({', '.join(d.direction)})",
        ", ".join(notes),
    )

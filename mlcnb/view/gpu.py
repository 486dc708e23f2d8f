"""A program on a GPU that is not there: races, then each kernel with a time that is predicted.

GPU report of matmul on A100 (sm_80): 1.93 ms at least, predicted (L2)
no two threads race; every access is within its buffer
grid (32, 32, 1), block (32, 32, 1)
occupancy: 64 of 64 warps (100.0 %), by warps; 32 registers a thread, no shared memory
"""

from __future__ import annotations

from typing import Any

from mlcnb.arith.isl import is_missing
from mlcnb.codegen.cuda.sass import Sass
from mlcnb.codegen.races import Race
from mlcnb.machine.warp import LANES
from mlcnb.observe.gpu import GpuKernel, GpuReport
from mlcnb.observe.warps.kernels import GLOBAL, SHARED
from mlcnb.script.printer import document
from mlcnb.view.parts import Facts, Fold, Line, Part, Picture, Table, Title, code_of, heads
from mlcnb.view.pipeline import folded
from mlcnb.view.registry import shows
from mlcnb.view.svg import FAINT, INK, Drawing
from mlcnb.view.warp import summary, table
from mlcnb.view.words import clip, memory, percent, plural, seconds

#: the two statements of a race; used, spare and empty places of an occupancy bar
FIRST, SECOND = "rgba(245,160,30,0.25)", "rgba(60,150,220,0.25)"
USED, SPARE = "#d7f0e5", "#f0f1f3"
#: blocks of the grid and threads of a block that are drawn in one direction
MOST_DRAWN = 32
#: kinds of instructions that are told
MIX = 5
#: what the times are
PREDICTED = (
    "Predicted, not measured: the largest term is the least time. Sectors count as if L1 kept "
    "nothing, latency as if a thread waited for what it needs next. Not modelled: the L1 cache, "
    "what the compiler keeps in registers, launches, clocks that change."
)


@shows("mlcnb.observe.gpu:GpuReport")
def report(r: GpuReport) -> list[Part]:
    """Correctness, kernels, times."""
    limit = f" ({r.kernels[0].predicted.limit})" if len(r.kernels) == 1 else ""
    name = f"GPU report of {clip(r.name)} on {r.gpu.name} ({r.gpu.arch})"
    parts: list[Part] = [Title(f"{name}: {seconds(r.seconds)} at least, predicted{limit}")]
    parts += _correct(r)
    for number, kernel in enumerate(r.kernels, 1):
        of = f"kernel {number} of {len(r.kernels)}: " if len(r.kernels) > 1 else ""
        parts += _kernel(r, kernel, of)
    parts += [folded(x) for x in r.pipelines]
    parts.append(Line(PREDICTED, "note"))
    parts.append(Line(f"Figures: {'; '.join(r.gpu.sources)}.", "note"))
    return parts


def _correct(r: GpuReport) -> list[Part]:
    if is_missing():
        return [Line("races and bounds are not looked at: pip install islpy", "error")]
    parts: list[Part] = []
    for race in r.races[:4]:
        parts += card(race)
    if len(r.races) > 4:
        parts.append(Line(f"{plural(len(r.races) - 4, 'race')} more: found.races", "note"))
    if not r.races:
        told = "no two threads race: proved"
        if r.copies_by_hand:
            told += ", but for when copies that are waited for by hand arrive: run it by interp"
        parts.append(Line(told))
    for problem in r.out_of_bounds[:4]:
        parts.append(Line(clip(problem.message, 200), "error" if problem.exact else "note"))
    if not r.out_of_bounds:
        parts.append(Line("every access is within its buffer: proved"))
    return parts


@shows("mlcnb.codegen.races:Race")
def card(x: Race) -> list[Part]:
    """The race card: who meets where, in which order it goes wrong, what to do."""
    meet = "meet" if x.proved else "may meet (that they do not is not proved)"
    told = f"{x.kind} on {clip(x.element)} in {x.scope} memory"
    parts: list[Part] = [Line(f"{told}: two threads {meet}, and nothing orders them", "error")]
    rows = []
    for number, (axes, loops, (what, _), line) in enumerate(
        zip(x.threads, x.loops, x.accesses, x.lines, strict=True)
    ):
        who = ", ".join(f"{k} = {v}" for k, v in axes.items()) or "some thread"
        inner = ", ".join(f"{k} = {v}" for k, v in loops.items())
        rows.append((("A", "B")[number], who, inner, what, str(line)))
    columns = heads(" | thread | loops | does | line: number")
    parts.append(Table(columns, rows))
    if x.proved:
        steps = [f"{n}. {'AB'[s.who]} {s.verb}s {clip(x.element)} (line {s.line})"
                 for n, s in enumerate(x.interleaving, 1)]  # fmt: skip
        parts.append(Line(f"an order that goes wrong: {'; '.join(steps)}"))
    marks = [(x.accesses[1][1], SECOND), (x.accesses[0][1], FIRST)]
    page = document(x.program, header=False)
    parts.append(Fold("the program as its threads run it", [code_of(page, marks)], "race.program"))
    parts.append(Line(x.hint, "hint"))
    return parts


def _kernel(r: GpuReport, k: GpuKernel, of: str) -> list[Part]:
    found = k.memory.kernel
    parts: list[Part] = [Line(f"{of}grid {found.grid}, block {found.block}")]
    parts.append(Facts(_facts(k)))
    alt = f"blocks, threads and occupancy of {clip(found.name)}"
    parts.append(Picture(lambda: drawn(r, k).svg(alt), alt))
    columns = heads("part of the machine | at least: number | : bar | of what it does")
    most = k.predicted.seconds or 1.0
    parts.append(Table(columns, [
        (x.name, seconds(x.seconds), x.seconds / most, x.of) for x in k.predicted.terms
    ]))  # fmt: skip
    for kind in (GLOBAL, SHARED):
        if any(i.memory == kind for i, _ in k.memory.counts):
            body: list[Part] = [table(k.memory, kind)]
            parts.append(Fold(summary(kind, k.memory.of(kind)), body, "mlc.observe.warp_lens(sch)"))
    parts += _divergence(k)
    for text, reason in list(k.memory.unseen.items())[:4]:
        parts.append(Line(f"not counted: {clip(text)}: {reason}", "note"))
    for what in k.uncounted:
        parts.append(Line(f"not counted: {what}: only a run knows how many", "note"))
    return parts


def _facts(k: GpuKernel) -> list[tuple[str, str]]:
    o = k.occupancy
    registers = f"{k.registers} registers a thread" if k.registers is not None else (
        f"registers not known ({clip(k.silent, 80)})"
    )  # fmt: skip
    spills = k.resources.spill_stores + k.resources.spill_loads if k.resources else 0
    shared = f"{memory(k.shared_bytes)} of shared memory" if k.shared_bytes else "no shared memory"
    at_most = "" if k.registers is not None else "at most "
    told = f"{at_most}{o.warps} of {o.of} warps ({percent(o.share)}), {plural(o.blocks, 'block')}"
    work = f"{k.work.flops:,} operations"
    for kind, count in k.work.on_tensor_cores.items():
        work += f", {count:,} on tensor cores ({kind})"
    code = [("machine code", _mix(k.code))] if k.code is not None else []
    return [
        ("occupancy", f"{told}, by {o.by}"),
        ("a block has", f"{registers}{f', {spills} bytes of spills' if spills else ''}, {shared}"),
        *code,
        ("work", f"{work}; {k.work.distinct:,} bytes, each once"),
        ("waves", f"{k.predicted.waves:,}, the last one {percent(1 - k.predicted.tail)} full"
                  if k.predicted.waves == 1 else
                  f"{k.predicted.waves:,}, {percent(k.predicted.tail)} of their places empty"),
    ]  # fmt: skip


def _mix(code: Sass) -> str:
    """How many instructions there are, and which of them are most in what is run most."""
    mix = code.mix(*(code.hot or (0, None)))
    told = ", ".join(f"{count:,} {name}" for name, count in mix.most_common(MIX))
    where = "" if code.hot is None else f"; the longest of its loops {mix.total():,}"
    return f"{plural(code.instructions, 'instruction')}{where}: {told}"


def _divergence(k: GpuKernel) -> list[Part]:
    if not k.diverging:
        return [Line("no warp runs a statement with idle lanes")] if k.statements else []
    columns = heads("statement: code | warps: number | partial: number | lanes: bar")
    rows = [(clip(x.text, 64), f"{x.warps:,}", f"{x.partial:,}", x.share) for x in k.diverging]
    worst = min(k.diverging, key=lambda x: x.share)
    head = (
        f"divergence: {plural(len(rows), 'statement')} with idle lanes, {percent(worst.share)} used"
    )
    return [Fold(head, [Table(columns, rows, 12, "k.statements")], "k.statements", in_text=True)]


def drawn(r: GpuReport, k: GpuKernel) -> Drawing:
    """The grid of blocks, one block of threads by warps, and the warps of a multiprocessor."""
    d = Drawing()
    left = _boxes(d, 0, k.memory.kernel.grid, "blocks", lambda x, y: SPARE)
    wide = k.memory.kernel.block[0]
    fills = ("#cfe6f7", "#fde2b8", "#d7f0e5", "#f3d3e6")
    right = _boxes(d, max(left, 90) + 24, k.memory.kernel.block, "threads, by warps",
                   lambda x, y: fills[(x + y * wide) // LANES % len(fills)])  # fmt: skip
    start = max(right, max(left, 90) + 150) + 24
    o = k.occupancy
    d.text(start, 10, f"one multiprocessor: {o.warps} of {o.of} warps", INK, bold=True, size=10)
    d.cells([
        (start + n % 16 * 13.0, 18.0 + n // 16 * 13, 13.0, 13.0, USED if n < o.warps else SPARE, "")
        for n in range(o.of)
    ])  # fmt: skip
    below = 18 + -(-o.of // 16) * 13 + 14
    d.text(start, below, f"set by {o.by}", FAINT, size=10)
    return d


def _boxes(d: Drawing, left: float, sizes: Any, noun: str, fill: Any) -> float:
    """A grid of cells, as far as it is drawn; where it ends."""
    x, y, z = sizes
    shown = min(x, MOST_DRAWN), min(y * z, MOST_DRAWN)
    side = max(3.0, min(12.0, 130 / max(shown)))
    told = " x ".join(str(n) for n in sizes[: 3 if z > 1 else 2])
    d.text(left, 10, f"{told} {noun}", INK, bold=True, size=10)
    d.cells([
        (left + column * side, 18.0 + row * side, side, side, fill(column, row), "")
        for row in range(shown[1]) for column in range(shown[0])
    ])  # fmt: skip
    if shown != (x, y * z):
        d.text(
            left, 18 + shown[1] * side + 12, f"the first {shown[0]} x {shown[1]}", FAINT, size=10
        )
    return left + max(shown[0] * side, len(f"{told} {noun}") * 6.2)

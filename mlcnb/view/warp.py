"""Warps as they stand still: coalescing, bank conflicts, and which lane touches what.

Warp lens of transpose: warp 0 of block (0, 0, 0), threads (0, 0, 0) to (31, 0, 0)
global memory: 262,144 sectors in 65,536 requests, 262,144 at best: coalesced
shared memory: 1,081,344 wavefronts in 65,536 requests, 65,536 at best: 32-way bank conflicts
  A_shared[ax1 * 32 + j_1_0 * 8 + ax0]  read  …  32-way bank conflict
    lanes 0–31, bank of each: 0 0 0 0 0 0 0 0 …
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters, digits

from mlcnb.machine.warp import BANKS, LANES, WORD, group_size
from mlcnb.observe.warps.kernels import GLOBAL, SHARED
from mlcnb.observe.warps.lens import WarpRun
from mlcnb.observe.warps.requests import Request
from mlcnb.observe.warps.totals import Count
from mlcnb.view.parts import Column, Line, Part, Picture, Table, Title, heads
from mlcnb.view.registry import shows
from mlcnb.view.svg import FAINT, INK, Drawing
from mlcnb.view.words import clip, listed, more_and_less, percent, plural

#: fills of sectors, one after the other; of words that come first in their bank, and later
SECTORS = ("#cfe6f7", "#fde2b8", "#d7f0e5", "#f3d3e6", "#e3dcf4", "#f7f0b3", "#d9dee3", "#f7c8a8")
FIRST, LATER, IDLE = "#d7f0e5", "#f7c8a8", "#f0f1f3"
#: sectors are named by letters
LETTERS = ascii_letters + digits
#: strips that are drawn
MOST_STRIPS = 16
#: what is counted, and what is not
ASSUMED = (
    "Instructions are the loads and stores of the CUDA C++ that is written for the program; what "
    "the compiler keeps in registers is counted too. Arrays begin at a multiple of 128 bytes. "
    "Global memory: 32-byte sectors, 4 to a line of 128. Shared memory: 32 banks of 4 bytes; one "
    "word of a bank at a time, the same word goes to all lanes that want it; 8 bytes are served by "
    "half warps and 16 by quarters (NVIDIA, compute capability 5.0 and newer). Caches and latency "
    "are not modelled."
)


@shows("mlcnb.observe.warps.lens:WarpRun")
def one(r: WarpRun) -> list[Part]:
    """One kernel."""
    return parts_of([r])


def parts_of(runs: Sequence[WarpRun]) -> list[Part]:
    """Totals and the first requests of each."""
    parts: list[Part] = [Title(title(runs))]
    parts += [Line(text) for text in verdicts(runs)]
    for r in runs:
        parts += _of_one(r, len(runs) > 1)
    parts.append(Line(ASSUMED, "note"))
    return parts


def title(runs: Sequence[WarpRun]) -> str:
    """Which programs, and which warp."""
    names = listed([clip(r.name) for r in runs])
    r = runs[0]
    kernel = r.kernel
    of = f", kernel {kernel.number + 1} of {kernel.launches}" if kernel.launches > 1 else ""
    return f"Warp lens of {names}{of}: warp {r.warp} of block {r.block}, {threads(r)}"


def threads(r: WarpRun) -> str:
    """`threads (0, 0, 0) to (31, 0, 0)`"""
    first, last = r.warp * LANES, min((r.warp + 1) * LANES, r.kernel.threads) - 1
    ends = [thread(r, n) for n in (first, last)]
    return f"threads {ends[0]} to {ends[1]}"


def thread(r: WarpRun, number: int) -> tuple[int, int, int]:
    """threadIdx (x, y, z) of a thread by number."""
    x, y, _ = r.kernel.block
    return number % x, number // x % y, number // (x * y)


def verdicts(runs: Sequence[WarpRun]) -> list[str]:
    """Who takes fewer sectors and wavefronts."""
    found = []
    for memory in (GLOBAL, SHARED) if len(runs) > 1 else ():
        counts = [(r.of(memory).taken, r.name) for r in runs]
        if any(taken for taken, _ in counts):
            found.append(f"{memory} memory: {more_and_less(counts, noun_of(memory))}")
    return found


def noun_of(memory: str) -> str:
    """What requests to a memory take."""
    return "wavefronts" if memory == SHARED else "sectors"


def summary(memory: str, c: Count) -> str:
    """`shared memory: 1,081,344 wavefronts in 65,536 requests, 65,536 at best (6.1 %)`"""
    share = "" if c.taken == c.ideal else f" ({percent(c.efficiency)})"
    return (
        f"{memory} memory: {c.taken:,} {noun_of(memory)} in {c.requests:,} requests, "
        f"{c.ideal:,} at best{share}: {finding(memory, c)}"
    )


def finding(memory: str, c: Count) -> str:
    """What is to be said of an instruction, or of all of a memory."""
    if not c.requests:
        return "never done"
    if memory == SHARED:
        return f"{c.worst}-way bank conflict" if c.worst > 1 else "no bank conflict"
    if c.taken == c.ideal:
        return "coalesced"
    taken, ideal = c.taken / c.requests, c.ideal / c.requests
    return f"not coalesced: {taken:.3g} sectors a request for {ideal:.3g}"


def _of_one(r: WarpRun, is_named: bool) -> list[Part]:
    kernel = r.kernel
    name = f"{clip(r.name)}: " if is_named else ""
    parts: list[Part] = [Line(f"{name}grid {kernel.grid}, block {kernel.block}{sample(r)}")]
    for memory in (GLOBAL, SHARED):
        if any(i.memory == memory for i, _ in r.counts):
            parts += [Line(summary(memory, r.of(memory))), table(r, memory)]
    for text, reason in list(r.unseen.items())[:8]:
        parts.append(Line(f"not counted: {clip(text)}: {reason}", "note"))
    shown = firsts(r)
    head = "the first request of each instruction, lane by lane"
    text = "\n".join([f"{head}:", *(line for q in shown for line in strip_text(q))])
    alt = f"{head}, of {clip(r.name)}"
    return [*parts, Picture(lambda: _strips(shown).svg(alt), alt, text)]


def sample(r: WarpRun) -> str:
    """What is said where not all blocks were counted."""
    found = r.totals
    if found.blocks == found.of:
        return ""
    return f"; counted in a sample of {found.blocks:,} of its {found.of:,} blocks"


def table(r: WarpRun, memory: str) -> Table:
    """A row for each instruction."""
    noun = noun_of(memory)
    columns = heads("instruction: code |  | bytes a lane: number")
    columns += [Column("requests", "number"), Column(noun, "number"), Column("at best", "number")]
    columns += heads("efficiency: number | ")
    rows = []
    for i, c in r.counts:
        if i.memory == memory:
            told = (f"{c.requests:,}", f"{c.taken:,}", f"{c.ideal:,}", percent(c.efficiency))
            rows.append((clip(i.text, 64), i.verb, str(i.width), *told, finding(memory, c)))
    return Table(columns, rows, 24, "found.runs[0].counts")


def firsts(r: WarpRun) -> list[Request]:
    """The first request of each instruction, as far as they are drawn."""
    found: dict[int, Request] = {}
    for q in r.requests:
        found.setdefault(q.instruction.number, q)
    return list(found.values())[:MOST_STRIPS]


def verdict(q: Request) -> str:
    """What one request takes."""
    if q.is_shared:
        told = plural(q.taken, "wavefront")
        return f"{told}, {q.ways}-way bank conflict" if q.ways > 1 else f"{told}, no bank conflict"
    lines = plural(q.lines, "line")
    best = "coalesced" if q.taken == q.ideal else f"{q.ideal} at best ({percent(q.efficiency)})"
    return f"{plural(q.taken, 'sector')} in {lines}, {best}"


def letters(q: Request) -> list[str]:
    """Of each lane a letter for its sector (in order of address), or the number of its bank."""
    if q.is_shared:
        return ["·" if bank < 0 else str(bank) for bank in q.banks.tolist()]
    rank = {sector: n for n, sector in enumerate(sorted({*q.sectors.tolist()} - {-1}))}
    return ["·" if x < 0 else LETTERS[rank[x] % len(LETTERS)] for x in q.sectors.tolist()]


def passes(q: Request) -> list[int]:
    """Of each lane the place of its word among those of its bank, from 0; -1: inactive.

    Of several words the place of the one that waits longest; in its own half or quarter.
    """
    found = [-1] * LANES
    size, words = group_size(q.instruction.width), max(1, q.instruction.width // WORD)
    for first in range(0, LANES, size):
        of_bank: dict[int, list[int]] = {}
        for lane in range(first, first + size):
            if not q.active[lane]:
                continue
            start = int(q.at[lane]) // WORD
            for word in range(start, start + words):
                own = of_bank.setdefault(word % BANKS, [])
                if word not in own:
                    own.append(word)
                found[lane] = max(found[lane], own.index(word))
    return found


def fills(q: Request) -> list[str]:
    """Of each lane its colour."""
    if q.is_shared:
        return [IDLE if n < 0 else FIRST if n == 0 else LATER for n in passes(q)]
    named = letters(q)
    return [IDLE if x == "·" else SECTORS[LETTERS.index(x) % len(SECTORS)] for x in named]


def head_of(q: Request) -> str:
    """`read A[…] at k = 0: 4 sectors in 1 line, coalesced`"""
    at = ", ".join(f"{name} = {value}" for name, value in q.loops)
    where = f" at {clip(at)}" if at else ""
    return f"{q.instruction.verb} {clip(q.instruction.text, 64)}{where}: {verdict(q)}"


def strip_text(q: Request) -> list[str]:
    """The lanes in words: letters of sectors, or numbers of banks."""
    told = letters(q)
    if q.is_shared:
        return [f"  {head_of(q)}", f"    bank of each lane: {_runs(told)}"]
    groups = ["".join(told[n : n + 8]) for n in range(0, LANES, 8)]
    return [f"  {head_of(q)}", f"    sector of each lane: {' '.join(groups)}"]


def _runs(told: Sequence[str]) -> str:
    """`0 × 32`; `0 1 2 …` in full where they differ."""
    if len(set(told)) == 1:
        return f"{told[0]} × {len(told)}"
    return " ".join(told)


def _strips(shown: Sequence[Request]) -> Drawing:
    d = Drawing()
    top = 0.0
    for q in shown:
        d.text(0, top + 10, clip(head_of(q), 110), INK, bold=True, size=10)
        boxes = [
            (lane * 21.0, top + 16, 21.0, 18.0, fill, text)
            for lane, (fill, text) in enumerate(zip(fills(q), letters(q), strict=True))
        ]
        d.cells(boxes)
        top += 46
    legend = "lanes 0 to 31: a letter is a sector of 32 bytes, a number is a bank; orange waits"
    d.text(0, top + 8, legend, FAINT, size=10)
    return d

"""Linked source: where each line of a kernel's loops came from, and what became of it.

Linked source of main: 30 instructions in the hot loop on znver4 at O3, 28 of them with a line
  read from     14 lines of Python
  line  lowered program                  TensorIR  Python  steps  LLVM IR  assembly  kinds
    17  C_local_1[i_2 * 64:i_2 * 64 …    26        9              24       24        16 FMA, 8 loads
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from mlcnb.codegen.llvm.assembly import KINDS
from mlcnb.core.errors import MLCError
from mlcnb.ir.span import titled
from mlcnb.view.highlight import ASSEMBLY, LLVM, code
from mlcnb.view.kernels import machine_code
from mlcnb.view.parts import Code, Column, Facts, Fold, Line, Part, Table, Title, filled, heads
from mlcnb.view.registry import shows
from mlcnb.view.roofline import spans
from mlcnb.view.words import clip, listed, percent, plural

#: rows that are shown unfolded
ROWS = 40


@shows("mlcnb.codegen.llvm.linked:Linked")
def linked(x: Any) -> list[Part]:
    """Facts, a row for each line of the lowered program, remarks, passes, the listings."""
    made = x.code()
    title = f"Linked source of {clip(x.kernel.name)}: {told_of(x, made)}"
    parts: list[Part] = [Title(title), Facts(facts(x)), machine_code(list(made.facts.values())[:8])]
    parts.append(lines_table(x, made))
    parts += [remarks(x), passes(x), *listings(x, made)]
    return parts


def told_of(x: Any, made: Any) -> str:
    """How much of the hot loop has a line."""
    found, all_ = x.hot_located
    where = " of the hot loop" if made.assembly.hot else ""
    share = f" ({percent(found / all_)})" if all_ else ""
    return (
        f"{found} of {plural(all_, 'instruction')}{where} have a line{share}; "
        f"{clip(made.machine, 40)} at O{made.level}"
    )


def facts(x: Any) -> list[tuple[str, str]]:
    """What the kernel came from, and whether the code is that of the kernel."""
    pairs = []
    span = x.kernel.func.span
    if span is not None:
        names = list(map(titled, span.parts or (span,)))
        pairs.append(("made from", f"{clip(span.source)}: {listed(map(clip, names), 6)}"))
    if x.source is not None:
        last = x.source.first + len(x.source.lines) - 1
        pairs.append(("read from", f"Python, lines {x.source.first} to {last} of its text"))
    if x.trace is not None:
        pairs.append(("scheduled by", plural(len(x.schedule.trace), "step")))
    same = "the same LLVM IR as the kernel that runs, but for debug locations"
    other = "not the LLVM IR of the kernel that runs: it was compiled another way"
    return [*pairs, ("code", same if x.is_exact else other)]


def lines_table(x: Any, made: Any) -> Table:
    """A row for each line of the lowered program that has code or an origin."""
    columns = heads("line: number | lowered program: code")
    columns += [Column(name) for name in ("TensorIR", "Python", "step")]
    columns += [Column("node of the model", "prose")] if x.model else []
    columns += [Column(name, "number") for name in ("LLVM IR", "assembly")] + [Column("kinds")]
    rows = [_row(x, made, n) for n in range(1, len(x.lowered.lines) + 1)]
    rows = [row for row in rows if any(row[2:])]
    without = [made.ir, made.assembly]
    lost = [str(total - found) for found, total in (part.located() for part in without)]
    none = [""] * (len(columns) - 5)
    rows.append(("", "no line: LLVM made, merged or moved it", *none, *lost, _lost(made)))
    return filled(columns, rows, ROWS, "mlc.explore(kernel)")


def _row(x: Any, made: Any, line: int) -> tuple[str, ...]:
    rows = made.assembly.at(line)
    ir = made.ir.at(line)
    return (
        str(line),
        clip(x.lowered.texts[line - 1].strip(), 60),
        _lines(x.scheduled, line),
        _lines(x.source, line),
        _lines(x.trace, line),
        *([_nodes(x.model, line)] if x.model else []),
        str(len(ir)) if ir else "",
        str(len(rows)) if rows else "",
        kinds(made.assembly, rows),
    )


def _lines(form: Any, line: int) -> str:
    """The lines of a form that a lowered line came from: `4-6, 9`."""
    if form is None:
        return ""
    return spans([n for n, links in enumerate(form.links, form.first) if line in links])


def _nodes(model: Any, line: int) -> str:
    """The nodes of the model that a lowered line came from."""
    found = [model.texts[n] for n, links in enumerate(model.links) if line in links]
    return listed([clip(name, 40) for name in found], 2)


def kinds(assembly: Any, rows: list[int]) -> str:
    """`16 vector multiply-add, 8 load`"""
    if not assembly.kinds:
        return ""
    counts = Counter(assembly.kinds[row] for row in rows)
    return ", ".join(f"{counts[k]} {name}" for k, name in KINDS.items() if counts[k])


def _lost(made: Any) -> str:
    code_ = made.assembly
    rows = [n for n, place in enumerate(code_.places) if place is None and code_.code[n]]
    return kinds(code_, rows)


def remarks(x: Any) -> Part:
    """What LLVM says about lines."""
    try:
        found = x.remarks
    except MLCError as error:
        return Line(f"LLVM's remarks are not known: {error.message}", "note")
    if not found:
        return Line("LLVM has no remarks on vectorising, unrolling or spills.", "note")
    rows = [(str(r.line or ""), clip(r.text, 120), str(r.times)) for r in found]
    columns = heads("line: number | remark: prose | times: number")
    title = f"LLVM's remarks: {len(rows)}"
    return Fold(title, [Table(columns, rows, ROWS)], "Linked(kernel).remarks", in_text=True)


def passes(x: Any) -> Part:
    """The passes that changed the function with the hot loop."""
    try:
        found = x.passes
    except MLCError as error:
        return Line(f"LLVM's passes are not known: {error.message}", "note")
    columns = heads("pass | on: code")
    columns += [Column(n, "number") for n in ("lines added", "removed", "lines after")]
    rows = [
        (clip(p.name, 60), clip(p.unit, 40), *map(str, p.counts), str(len(p.after))) for p in found
    ]
    title = f"LLVM's passes: {len(rows)} changed the function with the hot loop"
    return Fold(title, [Table(columns, rows, ROWS)], "Linked(kernel).passes")


def listings(x: Any, made: Any) -> list[Part]:
    """Every form, folded."""
    shown: list[Part] = []
    for name, form, see in (
        ("Python", x.source, "source"),
        ("schedule", x.trace, "trace"),
        ("TensorIR, scheduled", x.scheduled, "scheduled"),
        ("TensorIR, lowered", x.lowered, "lowered"),
    ):
        if form is not None:
            see = f"Linked(kernel).{see}.texts"
            title = f"{name}, {plural(len(form.lines), 'line')}"
            shown.append(Fold(title, [Code(form.lines, (), see)], see))
    for name, part, language in (
        ("LLVM IR after optimisation", made.ir, LLVM),
        ("assembly", made.assembly, ASSEMBLY),
    ):
        see = "kernel.llvm_ir_optimized" if part is made.ir else "kernel.asm"
        title = f"{name}, {plural(len(part.lines), 'line')}"
        text = "\n".join(part.lines)
        shown.append(Fold(title, [code(text, language, f"print({see})")], f"print({see})"))
    return shown

"""Strips: one kernel in three lines, all kernels in a table, and as dots under the roof.

Strip of fused_conv2d_relu: 231 MFLOP, 2.4 MB, 96.2 FLOP/B
  counted    hot loop of 170 instructions: 97.1 % vector (512 bits), 108 FMA, 57 loads, 0 stores
  in loops   0 spills; 1,492 bytes of code for znver4
  measured   2.10 ms, 110 GFLOP/s on 1 thread
  predicted  112 GFLOP/s at most (compute): 98.2 % of the roof
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.view.parts import Column, Facts, Fold, Part, Table, Title
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, flops, listed, percent, plural, rate, seconds, size

#: rows that are shown unfolded
ROWS = 24


@shows("mlcnb.runtime.strip:Strip")
def strip(s: Any) -> list[Part]:
    """What was counted, measured and predicted, each named as such."""
    told = [flops(s.flops), size(s.nbytes) if s.nbytes else ""]
    told.append(f"{s.intensity:.3g} FLOP/B" if s.intensity else "")
    work = ", ".join(filter(None, told))
    pairs = [("counted", _counted(s)), ("in loops", _looped(s))]
    if s.calls:
        pairs.append(("calls", listed(map(clip, s.calls), 6)))
    pairs += _measured(s)
    return [Title(f"Strip of {clip(s.kernel, 60)}{': ' + work if work else ''}"), Facts(pairs)]


def _counted(s: Any) -> str:
    hot, width = s.hot, f" ({s.facts.vector_bits} bits)" if s.facts.vector_bits else ""
    what = "hot loop of" if s.facts.hot else "no loop,"
    return (
        f"{what} {plural(hot.instructions, 'instruction')}: {percent(hot.vector_share)} vector"
        f"{width}, {hot.fma} FMA, {plural(hot.loads, 'load')}, {plural(hot.stores, 'store')}"
    )


def _looped(s: Any) -> str:
    code = "" if s.code_bytes is None else f"; {s.code_bytes:,} bytes of code"
    return f"{plural(s.spills, 'spill')}{code} for {clip(s.cpu)}"


def _measured(s: Any) -> list[tuple[str, str]]:
    if s.seconds is None:
        return []
    roof = s.roofline
    speed = f", {rate(s.gflops)} GFLOP/s" if s.gflops else ""
    if not s.gflops and s.bandwidth:
        speed = f", {rate(s.bandwidth)} GB/s"
    pairs = [("measured", f"{seconds(s.seconds)}{speed} on {plural(roof.threads, 'thread')}")]
    if s.share is not None:
        least = seconds(roof.least_seconds(s.flops or 0, s.nbytes))
        most = f"{s.attainable:.1f} GFLOP/s at most" if s.attainable else f"{least} at least"
        limit = clip(roof.limit(s.flops or 0, s.nbytes))
        pairs.append(("predicted", f"{most} ({limit}): {percent(s.share)} of the roof"))
    return pairs


@shows("mlcnb.runtime.strip:Strips")
def strips(all_: Any) -> list[Part]:
    """A row for each kernel: what its hot loop is made of, how near it comes; its work folded."""
    names: tuple[str, ...] = ("hot loop", "vector", "FMA", "spills")
    names += ("time", "GFLOP/s", "of roof", "limit") if any(s.seconds for s in all_) else ()
    columns = [Column("kernel", "code"), *(Column(name, "number") for name in names)]
    rows = [_row(s)[: len(columns)] for s in all_]
    work = [Column("kernel", "code")]
    work += [Column(name, "number") for name in ("code", "work", "FLOP/B")]
    sizes = Table(work, [_work(s) for s in all_], ROWS, "ex.strip(NAME)")
    told = f"{plural(len(all_), 'kernel')}; spills are those inside loops"
    threads = {s.roofline.threads for s in all_ if s.roofline is not None}
    if threads:
        told += f"; each measured alone on {plural(max(threads), 'thread')}"
    table = Table(columns, rows, ROWS, "ex.strip(NAME)")
    return [Title(f"Strips: {told}"), table, Fold("code and work", [sizes], "", in_text=True)]


def _work(s: Any) -> tuple[str, ...]:
    return (
        clip(s.kernel, 48),
        "" if s.code_bytes is None else size(s.code_bytes),
        flops(s.flops),
        f"{s.intensity:.3g}" if s.intensity else "",
    )


def _row(s: Any) -> tuple[str, ...]:
    hot, known = s.hot, s.share is not None
    return (
        clip(s.kernel, 48),
        f"{hot.instructions:,}" if s.facts.hot else "none",
        percent(hot.vector_share),
        str(hot.fma),
        str(s.spills),
        "" if s.seconds is None else seconds(s.seconds),
        rate(s.gflops) if s.seconds is not None and s.gflops else "",
        percent(s.share) if known else "",
        clip(s.roofline.limit(s.flops or 0, s.nbytes)) if known else "",
    )


def plot(all_: Any, ax: Any = None) -> Any:
    """The kernels that were measured, as dots under the roof of their machine."""
    shown = [s for s in all_ if s.gflops and s.intensity and s.roofline is not None]
    if not shown:
        raise MLCError("plot: no kernel was measured", hint="ex.strips(measured=True)")
    dots = [(s.kernel, s.intensity, s.gflops) for s in shown]
    return shown[0].roofline.plot(dots, ax)

"""Figures as JSON and as tables, and one from the other.

{"schema": "mlcnb-benchmark-1", "machine": {…}, "settings": {…}, "missing": {peer: why},
 "roofline": {"1": {"peak": GFLOP/s, "levels": [{"name", "nbytes", "bandwidth"}]}},
 "rows": [{"suite", "case", "threads", "flops", "nbytes", "best_peer",
           "results": {name: {"median_ms", "low_ms", "high_ms", "runs", "error", "failed"}},
           "ratio": {peer: our time by theirs}, "of_roof", "seconds": {…}}],
 "summary": [{"suite", "threads", "peer", "geometric_mean", "worst", "worst_case", "cases"}]}
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from mlcnb.machine import Level, Roofline
from tests.benchmarks.contestants import OURS
from tests.benchmarks.measure import Result, Row

SCHEMA = "mlcnb-benchmark-1"
#: in a summary, the fastest peer of each row
BEST = "best of them"


def as_json(
    rows: Iterable[Row],
    machine: dict[str, str],
    settings: dict[str, Any],
    missing: dict[str, str],
    rooflines: dict[int, Roofline],
) -> dict[str, Any]:
    """All that was measured, as plain data."""
    rows = list(rows)
    return {
        "schema": SCHEMA,
        "machine": machine,
        "settings": settings,
        "missing": missing,
        "roofline": {str(n): _roofline(r) for n, r in rooflines.items()},
        "rows": [_row(row, rooflines.get(row.threads)) for row in rows],
        "summary": summary(rows),
    }


def _roofline(r: Roofline) -> dict[str, Any]:
    return {"peak": r.peak, "levels": [asdict(level) for level in r.levels]}


def _row(row: Row, roofline: Roofline | None) -> dict[str, Any]:
    peers = [name for name in row.results if name != OURS]
    ours = row.results.get(OURS, Result()).median_ms
    known = roofline is not None and ours
    return {
        **asdict(row),
        "best_peer": row.best_peer,
        "ratio": {p: row.ratio(p) for p in peers if row.ratio(p) is not None},
        "of_roof": roofline.share(row.flops, row.nbytes, ours / 1e3) if known else None,
    }


def rows_of(data: dict[str, Any]) -> list[Row]:
    """The rows of a JSON report.

    Raises:
        ValueError: it is no such report.
    """
    if data.get("schema") != SCHEMA:
        raise ValueError(f"no report of {SCHEMA}: schema is {data.get('schema')!r}")
    names = ("suite", "case", "threads", "flops", "nbytes")
    return [
        Row(
            *(row[n] for n in names),
            {name: Result(**found) for name, found in row["results"].items()},
            row["seconds"],
        )
        for row in data["rows"]
    ]


def rooflines_of(data: dict[str, Any]) -> dict[int, Roofline]:
    """The rooflines of a JSON report, by number of threads."""
    return {
        int(n): Roofline(r["peak"], tuple(Level(**v) for v in r["levels"]), int(n))
        for n, r in data["roofline"].items()
    }


def summary(rows: list[Row]) -> list[dict[str, Any]]:
    """For each suite, number of threads and peer: geometric mean of the ratios, and the worst."""
    found = []
    for suite, threads in dict.fromkeys((r.suite, r.threads) for r in rows):
        own = [r for r in rows if (r.suite, r.threads) == (suite, threads)]
        peers = dict.fromkeys(name for r in own for name in r.results if name != OURS)
        for peer in (*peers, *([BEST] if len(peers) > 1 else [])):
            ratios = {r.case: _ratio(r, peer) for r in own}
            known = {case: ratio for case, ratio in ratios.items() if ratio is not None}
            if known:
                worst = max(known, key=lambda case: known[case])
                found.append(
                    {
                        "suite": suite,
                        "threads": threads,
                        "peer": peer,
                        "geometric_mean": statistics.geometric_mean(known.values()),
                        "worst": known[worst],
                        "worst_case": worst,
                        "cases": len(known),
                    }
                )
    return found


def _ratio(row: Row, peer: str) -> float | None:
    best = row.best_peer if peer == BEST else peer
    return row.ratio(best) if best else None


# text ------------------------------------------------------------------------------------------


def heading(contestants: list[str]) -> str:
    """The head of `line`s."""
    cells = "".join(f"{name[:12]:>13}" for name in contestants)
    return f"{'milliseconds':<44}{'threads':>8}{cells}{'ratio':>8}{'error':>9}"


def line(row: Row, contestants: list[str]) -> str:
    """One case: medians, the ratio to the fastest peer, our error; and who failed."""
    cells = "".join(f"{_median(row.results.get(name)):>13}" for name in contestants)
    ratio = _ratio(row, BEST)
    error = row.results.get(OURS, Result()).error
    told = (
        f"{'' if ratio is None else f'{ratio:.2f}':>8}{'' if error is None else f'{error:.0e}':>9}"
    )
    name = f"{row.suite} {row.case}"
    text = f"{name[:43]:<44}{row.threads:>8}{cells}{told}"
    failed = [f"    {n}: {r.failed}" for n, r in row.results.items() if r.failed]
    return "\n".join([text, *failed])


def _median(result: Result | None) -> str:
    if result is None:
        return ""
    return "failed" if result.median_ms is None else milliseconds(result.median_ms)


def milliseconds(ms: float) -> str:
    """Three digits."""
    if ms >= 100:
        return f"{ms:.0f}"
    return f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}" if ms >= 0.1 else f"{ms:.4f}"


def summary_lines(rows: list[Row]) -> list[str]:
    """`models, 1 thread: 0.86 onnxruntime, 0.91 openvino, 0.93 best of them (worst 1.12: vgg19)`"""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for found in summary(rows):
        groups.setdefault((found["suite"], found["threads"]), []).append(found)
    return [_summary_line(*key, found) for key, found in groups.items()]


def _summary_line(suite: str, threads: int, found: list[dict[str, Any]]) -> str:
    means = ", ".join(f"{s['geometric_mean']:.2f} {s['peer']}" for s in found)
    worst = f"worst {found[-1]['worst']:.2f}: {found[-1]['worst_case']}"
    return f"{suite}, {threads} thread{'s' if threads > 1 else ''}: {means} ({worst})"


# Markdown --------------------------------------------------------------------------------------


def markdown(rows: list[Row], suite: str, contestants: list[str]) -> str:
    """A suite's table for a page: a row for each case; of every number of threads ms and ratios."""
    own = [r for r in rows if r.suite == suite]
    counts = sorted({r.threads for r in own})
    shown = [n for n in contestants if any(n in r.results for r in own)]
    peers = [n for n in shown if n != OURS]
    head = [""]
    for n in counts:
        head += [f"{name}, {n} thr." if name == OURS else name for name in shown] + ["ratio"]
    head.append("error")
    lines = [_cells(head), _cells(["---", *["---:"] * (len(head) - 1)])]
    for case in dict.fromkeys(r.case for r in own):
        by_threads = {r.threads: r for r in own if r.case == case}
        lines.append(_cells(_case(case, by_threads, counts, shown)))
    for peer in (*peers, *([BEST] if len(peers) > 1 else [])):
        lines.append(_cells(_means(own, peer, counts, shown)))
    return "\n".join(lines)


def _cells(cells: list[str]) -> str:
    return f"| {' | '.join(escaped(c) for c in cells)} |"


def escaped(text: str) -> str:
    """A name in a Markdown table."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _case(name: str, rows: dict[int, Row], counts: list[int], shown: list[str]) -> list[str]:
    cells, errors = [name], []
    for n in counts:
        row = rows.get(n)
        results = row.results if row else {}
        cells += [_median(results.get(c)) for c in shown]
        ratio = _ratio(row, BEST) if row else None
        cells.append("" if ratio is None else f"{ratio:.2f}")
        error = results.get(OURS, Result()).error
        errors += [] if error is None else [error]
    return [*cells, f"{max(errors):.0e}" if errors else ""]


def _means(rows: list[Row], peer: str, counts: list[int], shown: list[str]) -> list[str]:
    cells = [f"geometric mean by {peer}"]
    for n in counts:
        found = [s for s in summary([r for r in rows if r.threads == n]) if s["peer"] == peer]
        cells += [""] * len(shown) + [f"{found[0]['geometric_mean']:.2f}" if found else ""]
    return [*cells, ""]

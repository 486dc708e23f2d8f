"""Pages from a report: plots, and the tables between two marks of a page.

    python -m tests.benchmarks.pages build/bench.json [more.json …]

    docs/images/ratios_1.svg       our time by each peer's, a bar for each model
    docs/images/gemm_1.svg         GFLOP/s by size
    docs/images/roofline_1.svg     convolutions and products under the roof
    docs/benchmarks.md, tests/benchmarks/RESULTS.md, README.md
        <!-- bench: models -->     what stands from here …
        <!-- end -->               … to here is written anew

Rows of several reports are put together; of a case that is in two, the later report counts.

Figures of another CPU than the one that the pages name go between marks of their own, such as
`bench: gemm znver3`, without plots: no machine's figures stand in for another's.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlcnb.view.words import plural
from tests.benchmarks import machine, report
from tests.benchmarks.contestants import OURS, PEERS
from tests.benchmarks.measure import Row

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
PAGES = (
    ROOT / "docs" / "benchmarks.md",
    ROOT / "tests" / "benchmarks" / "RESULTS.md",
    ROOT / "README.md",
)
CONTESTANTS = [OURS, *PEERS]
#: colour and hatch of each contestant, told apart without colours too
LOOKS = {
    OURS: ("#1f5fa8", ""),
    "numpy": ("#8c959f", "//"),
    "torch": ("#c4622d", "\\\\"),
    "onnxruntime": ("#3a7d44", ".."),
    "openvino": ("#7b4fa3", "xx"),
    "ncnn": ("#8a6d1d", "++"),
    "mnn": ("#a83e6c", "oo"),
    "tvm": ("#57606a", "--"),
}


def main(paths: list[str]) -> int:
    """Write what the reports have figures for."""
    data = [json.loads(Path(path).read_text(encoding="utf-8")) for path in paths]
    if not data:
        print(__doc__)
        return 2
    for path in write(data):
        print(path.relative_to(ROOT))
    return 0


def write(data: list[dict[str, Any]]) -> list[Path]:
    """Plots and pages; gives the files that were written."""
    rows = together(data)
    sections = sections_of(rows, data[-1])
    other = other_cpu(data[-1])
    if other:
        sections = {f"{name} {other}": text for name, text in sections.items()}
    written = [] if other else plots(rows, report.rooflines_of(data[-1]))
    for page in PAGES:
        if page.exists():
            before = page.read_text(encoding="utf-8")
            after = filled(before, sections)
            if after != before:
                page.write_text(after, encoding="utf-8")
                written.append(page)
    return written


def other_cpu(data: dict[str, Any]) -> str | None:
    """The report's CPU, if the pages are about another one."""
    for page in filter(Path.exists, PAGES):
        told = re.search(r"<!-- bench: machine -->\s*cpu (\S+),", page.read_text(encoding="utf-8"))
        if told and told[1] != data["machine"]["cpu"]:
            return str(data["machine"]["cpu"])
    return None


def together(data: list[dict[str, Any]]) -> list[Row]:
    """The rows of all reports, each case once: the latest."""
    rows = {(r.suite, r.case, r.threads): r for each in data for r in report.rows_of(each)}
    return list(rows.values())


# text ------------------------------------------------------------------------------------------


def sections_of(rows: list[Row], data: dict[str, Any]) -> dict[str, str]:
    """The text of each section that there are figures for."""
    found = {"machine": machine.line(data["machine"]), "summary": summary(rows)}
    for suite in dict.fromkeys(r.suite for r in rows):
        found[suite] = report.markdown(rows, suite, CONTESTANTS)
    if any(r.suite == "models" for r in rows):
        models = [r for r in rows if r.suite == "models"]
        found |= {
            "short": short(models),
            "headline": headline(models),
            "compile": compiling(models),
        }
    if data["roofline"]:
        found["ceilings"] = ceilings(data)
    return found


def filled(page: str, sections: dict[str, str]) -> str:
    """The page with its marked sections written anew; one without figures stays as it is."""

    def put(match: re.Match[str]) -> str:
        text = sections.get(match[2])
        return match[0] if text is None else f"{match[1]}\n\n{text}\n\n{match[4]}"

    mark = r"(<!-- bench: (\w+(?: \w+)?) -->)(.*?)(<!-- end -->)"
    return re.sub(mark, put, page, flags=re.DOTALL)


def summary(rows: list[Row]) -> str:
    """A row for each suite and number of threads; a column for each peer."""
    found = report.summary(rows)
    peers = [p for p in (*PEERS, report.BEST) if any(s["peer"] == p for s in found)]
    lines = [f"| suite | threads | {' | '.join(peers)} | worst case |"]
    lines.append(f"| --- | ---: |{' ---: |' * len(peers)} --- |")
    for suite, threads in dict.fromkeys((s["suite"], s["threads"]) for s in found):
        own = {s["peer"]: s for s in found if (s["suite"], s["threads"]) == (suite, threads)}
        means = [f"{own[p]['geometric_mean']:.2f}" if p in own else "" for p in peers]
        last = own.get(report.BEST) or next(iter(own.values()))
        worst = f"{report.escaped(last['worst_case'])}: {last['worst']:.2f}"
        lines.append(f"| {suite} | {threads} | {' | '.join(means)} | {worst} |")
    return "\n".join(lines)


def headline(rows: list[Row]) -> str:
    """The geometric means and the worst case, in a sentence for each number of threads."""
    told = []
    for n in sorted({r.threads for r in rows}):
        found = [s for s in report.summary(rows) if s["threads"] == n and s["peer"] != report.BEST]
        means = " and ".join(f"{s['geometric_mean']:.2f} of {s['peer']}'s" for s in found)
        worst = max(found, key=lambda s: s["worst"])
        name, peer = report.escaped(worst["worst_case"]), worst["peer"]
        told.append(
            f"On {plural(n, 'thread')}, the geometric mean of {found[0]['cases']} models "
            f"is {means} time; the slowest is {name}, at {worst['worst']:.2f} times {peer}'s."
        )
    return " ".join(told)


def compiling(rows: list[Row]) -> str:
    """Seconds from a model's file to the first run, of the first and of the next time."""
    took: dict[str, list[float]] = {}
    for row in rows:
        if f"{OURS} ready" in row.seconds:
            took.setdefault(row.case, []).append(row.seconds[f"{OURS} ready"])
    lines = ["| | kernels compiled anew | from the cache |", "| --- | ---: | ---: |"]
    for case, (first, *later) in took.items():
        again = f"{later[0]:.1f} s" if later else ""
        lines.append(f"| {report.escaped(case)} | {first:.1f} s | {again} |")
    return "\n".join(lines)


def short(rows: list[Row]) -> str:
    """The models on the fewest threads that were timed: milliseconds only."""
    least = min(r.threads for r in rows)
    own = [r for r in rows if r.threads == least]
    shown = [c for c in CONTESTANTS if any(c in r.results for r in own)]
    lines = [f"| ms, {least} thread{'s' if least > 1 else ''} | {' | '.join(shown)} |"]
    lines.append(f"| --- |{' ---: |' * len(shown)}")
    for row in own:
        medians = (row.results.get(c) for c in shown)
        cells = [
            "" if m is None or m.median_ms is None else report.milliseconds(m.median_ms)
            for m in medians
        ]
        lines.append(f"| {report.escaped(row.case)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ceilings(data: dict[str, Any]) -> str:
    """What the machine can do: a row for each number of threads."""
    lines = []
    for n, roofline in report.rooflines_of(data).items():
        if not lines:
            names = " | ".join(f"{v.name}, GB/s" for v in roofline.levels)
            lines = [
                f"| threads | GFLOP/s | {names} |",
                f"| ---: | ---: |{' ---: |' * len(roofline.levels)}",
            ]
        speeds = " | ".join(f"{v.bandwidth:.0f}" for v in roofline.levels)
        lines.append(f"| {n} | {roofline.peak:.0f} | {speeds} |")
    return "\n".join(lines)


# plots -----------------------------------------------------------------------------------------


def plots(rows: list[Row], rooflines: dict[int, Any]) -> list[Path]:
    """Every plot that there are figures for."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "mlcnb"  # the same figures, the same file
    matplotlib.rcParams["font.size"] = 9
    written = []
    for threads in sorted({r.threads for r in rows}):
        own = [r for r in rows if r.threads == threads]
        models = [r for r in own if r.suite == "models" and r.best_peer]
        products = [r for r in own if r.suite == "gemm" and r.gflops(OURS)]
        under = [r for r in own if r.suite in ("conv", "gemm") and r.gflops(OURS)]
        if models:
            written.append(_saved(f"ratios_{threads}", ratios, models))
        if products:
            written.append(_saved(f"gemm_{threads}", speeds, products, rooflines.get(threads)))
        if under and threads in rooflines:
            written.append(_saved(f"roofline_{threads}", dots, under, rooflines[threads]))
    return written


def _saved(name: str, draw: Callable[..., Any], *args: Any) -> Path:
    """A plot on white paper, readable on a dark page too."""
    import matplotlib.pyplot as plt

    figure = draw(*args)
    path = IMAGES / f"{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, facecolor="white", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return path


def ratios(rows: list[Row]) -> Any:
    """Our time by each peer's; left of the line mlcnb is the faster one."""
    import matplotlib.pyplot as plt

    peers = [p for p in PEERS if any(row.ratio(p) for row in rows)]
    figure, ax = plt.subplots(figsize=(8, 1 + 0.42 * len(rows)), layout="constrained")
    height = 0.8 / len(peers)
    for n, peer in enumerate(peers):
        places = [i + (n - (len(peers) - 1) / 2) * height for i in range(len(rows))]
        values = [row.ratio(peer) or 0 for row in rows]
        colour, hatch = LOOKS[peer]
        bars = ax.barh(
            places, values, height, color=colour, hatch=hatch, edgecolor="white", label=peer
        )
        ax.bar_label(bars, [f"{v:.2f}" if v else "" for v in values], padding=3, fontsize=7)
    ax.axvline(1, color="#a40e26", linewidth=1)
    ax.set_yticks(range(len(rows)), [row.case for row in rows])
    ax.invert_yaxis()
    threads = f"{rows[0].threads} thread{'s' if rows[0].threads > 1 else ''}"
    ax.set_xlabel(f"time of mlcnb by the peer's, {threads}; below 1 mlcnb is faster")
    return _finished(figure, ax)


def speeds(rows: list[Row], roofline: Any) -> Any:
    """GFLOP/s of everybody for each shape, and the peak."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
    for name, (colour, _) in LOOKS.items():
        values = [row.gflops(name) for row in rows]
        if name != "tvm" and any(values):
            width, style = (2.0, "o-") if name == OURS else (1.0, ".--")
            ax.plot(range(len(rows)), values, style, color=colour, linewidth=width, label=name)
    if roofline is not None:
        ax.axhline(roofline.peak, color="#a40e26", linewidth=1)
        ax.annotate("peak", (0, roofline.peak), (0, 2), textcoords="offset points", color="#a40e26")
    ax.set_xticks(range(len(rows)), [row.case for row in rows], rotation=60, ha="right", fontsize=7)
    ax.set_ylim(bottom=0)
    ax.set_ylabel(f"GFLOP/s, {rows[0].threads} thread{'s' if rows[0].threads > 1 else ''}")
    return _finished(figure, ax)


def dots(rows: list[Row], roofline: Any) -> Any:
    """Convolutions and products under the roof, ours beside the fastest peer's."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
    ridges = [roofline.peak / v.bandwidth for v in roofline.levels]
    every = [r.flops / r.nbytes for r in rows]
    roofline.plot(ax=ax, span=(min(*every, *ridges) / 2, max(*every, *ridges) * 2))
    marks = {"conv": "o", "gemm": "s"}
    for suite, mark in marks.items():
        own = [r for r in rows if r.suite == suite]
        places = [r.flops / r.nbytes for r in own]
        for name, colour in ((None, "#3a7d44"), (OURS, LOOKS[OURS][0])):
            values = [r.gflops(name or r.best_peer or OURS) for r in own]
            label = f"{suite}, {name or 'fastest peer'}"
            face = colour if name else "none"
            ax.scatter(
                places, values, 22, marker=mark, facecolor=face, edgecolor=colour, label=label
            )
    ax.set_ylim(min(r.gflops(OURS) or 1 for r in rows) / 2, roofline.peak * 1.7)
    return _finished(figure, ax)


def _finished(figure: Any, ax: Any) -> Any:
    figure.legend(
        *ax.get_legend_handles_labels(),
        loc="outside upper right",
        ncols=5,
        fontsize=8,
        frameon=False,
    )
    ax.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

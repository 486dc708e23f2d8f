"""What a person asked for: class names, a comparison with a library, what the machine has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.view.highlight import code
from mlcnb.view.parts import Column, Fold, Line, Part, Table, Title, heads
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, listed, percent, plural, seconds

#: sections that are of the machine, and not of packages
MACHINE = ("machine", "a core")


@shows("mlcnb.observe.image:Classes")
def classes(found: Any) -> list[Part]:
    """The likeliest classes with bars."""
    if not found:
        return [Title("no classes")]
    columns = heads("class | number: number | probability: number")
    rows = [
        (clip(c.name or "?", 60), str(c.number), percent(c.probability), float(c.probability))
        for c in found
    ]
    best = found[0]
    title = f"top-1: {clip(best.name or f'class {best.number}')} {best.probability:.3f}"
    return [Title(title), Table([*columns, Column("", "bar")], rows, 20)]


@shows("mlcnb.observe.peers:Comparison")
def comparison(c: Any) -> list[Part]:
    """Two times, with bars."""
    columns = heads(" | median: number | : bar")
    slowest = max(c.ours_ms, c.peer_ms)
    pairs = (("mlcnb", c.ours_ms), (clip(c.peer), c.peer_ms))
    rows = [(name, seconds(ms / 1e3), float(ms / slowest)) for name, ms in pairs]
    told = f"{plural(c.runs, 'run')} in turns on {plural(c.threads, 'thread')}"
    return [
        Title(f"ratio to {clip(c.peer)}: {c.ratio:.2f}"),
        Table([*columns], rows),
        Line(f"{told}; largest difference of the results {c.max_difference:.1e}", "note"),
    ]


@shows("mlcnb.observe.diagnosis:Diagnosis")
def diagnosis(d: Any) -> list[Part]:
    """The machine, then a fold for each set of packages: open where what everybody needs is
    missing; each with the commands that bring what is missing.
    """
    parts: list[Part] = [Title("what this machine has")]
    for title, findings in d.sections.items():
        inside = _findings(title, findings)
        if title in MACHINE:
            parts += inside
            continue
        missing = [f.name for f in findings if not f.ok]
        told = f"{len(findings) - len(missing)} of {plural(len(findings), 'package')}"
        told += f"; missing: {listed(missing, 4)}" if missing else ""
        parts.append(Fold(f"{title}: {told}", inside, "", title == "base" and bool(missing), True))
    return parts


def _findings(title: str, findings: Sequence[Any]) -> list[Part]:
    columns = [
        Column(title if title in ("machine", "a core") else ""),
        *heads(" | : prose"),
    ]
    rows = [(f.name, "" if f.ok else "✗", clip(f.value, 200)) for f in findings]
    parts: list[Part] = [Table(columns, rows, 60)]
    for remedy in dict.fromkeys(f.remedy for f in findings if f.remedy):
        parts += [Line("to install:", "note"), code(remedy)]
    return parts

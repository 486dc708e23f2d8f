"""Tuning records: a record with its steps; a database as a table, and how each workload got faster.

MemoryDatabase: 3 records of 1 workload
  workload  records     best  GFLOP/s  first / best
  matmul          3  12.1 us     43.3          8.25
matmul: record by record
"""

from __future__ import annotations

from typing import Any

from mlcnb.view.highlight import PYTHON, code
from mlcnb.view.parts import Facts, Fold, Line, Part, Table, Title, heads
from mlcnb.view.program import function_fold
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, flops, plural, seconds

#: workloads whose records are listed
MOST = 8


@shows("mlcnb.meta_schedule.database.record:TuningRecord")
def record(r: Any) -> list[Part]:
    """What it took, on what, and its steps as Python."""
    name = clip(r.workload.name, 60)
    took = seconds(r.seconds) if r.seconds is not None else "no run"
    facts = [("instructions", str(len(r))), ("target", str(r.target) if r.target else "not said")]
    if r.gflops is not None:
        facts.append(("work", f"{flops(r.workload.flops)}, {r.gflops:.3g} GFLOP/s"))
    if len(r.run_secs) > 1:
        spread = f"{seconds(min(r.run_secs))} to {seconds(max(r.run_secs))}"
        facts.append(("runs", f"{len(r.run_secs)}, {spread}"))
    return [
        Title(f"Tuning record of {name}: {took}"),
        Facts(facts),
        Fold("steps", lambda: [code(str(r.trace), PYTHON)], "print(record.trace)"),
        function_fold(r.workload.name, r.workload.func, "record.workload.mod.show()"),
    ]


@shows("mlcnb.meta_schedule.database.database:Database")
def database(db: Any) -> list[Part]:
    """A row for each workload; under it its records in the order in which they came."""
    kind = type(db).__name__
    workloads = db.workloads
    told = f"{plural(len(db), 'record')} of {plural(len(workloads), 'workload')}"
    parts: list[Part] = [Title(f"{kind}: {told}")]
    if not workloads:
        return [*parts, Line("db.commit(sch, run_secs) keeps what a schedule took", "hint")]
    columns = heads(
        "workload: code | records: number | best: number | GFLOP/s: number | first / best: number"
    )
    parts.append(Table(columns, [_row(db, w) for w in workloads], 40, "db.workloads"))
    for workload in workloads[:MOST]:
        records = db.records_of(workload)
        if records:
            title = f"{clip(workload.name, 60)}: record by record"
            see = "db.get_all_tuning_records()"
            parts.append(Fold(title, [_trials(records)], see, len(workloads) == 1, True))
    return parts


def _row(db: Any, workload: Any) -> tuple[Any, ...]:
    records = db.records_of(workload)
    name, many = clip(workload.name, 60), str(len(records))
    timed = [r for r in records if r.seconds is not None]
    if not timed:
        return (name, many, "no run", "", "")
    best = min(timed, key=lambda r: r.seconds)
    rate = "" if best.gflops is None else f"{best.gflops:.3g}"
    return (name, many, seconds(best.seconds), rate, f"{timed[0].seconds / best.seconds:.3g}")


def _trials(records: list[Any]) -> Table:
    """The speed of each as a bar, the fastest so far marked."""
    columns = heads(
        ": number | mean: number | speed: bar | so far | instructions: number | target: code"
    )
    least = min((r.seconds for r in records if r.seconds is not None), default=None)
    rows, best = [], None
    for number, r in enumerate(records, 1):
        took = r.seconds
        is_best = took is not None and (best is None or took < best)
        best = took if is_best else best
        share = 0.0 if took is None or least is None else least / took
        shown = "no run" if took is None else seconds(took)
        target = clip(str(r.target), 60) if r.target else ""
        rows.append((str(number), shown, share, "fastest" if is_best else "", str(len(r)), target))
    return Table(columns, rows, 40, "db.get_all_tuning_records()")

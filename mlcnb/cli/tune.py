"""Search schedules for a model's kernels that are faster than the default ones.

What is found is kept in the folder --db, which mlcnb compile --db takes; what was found before
stays.
Ctrl-C ends the search and keeps what was measured.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import mlcnb
from mlcnb.cli import _model
from mlcnb.core import display


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _model.add_model(parser)
    parser.add_argument("--seconds", type=float, default=300.0, help="of search (default: 300)")
    parser.add_argument("--trials", type=_model.positive, metavar="N", help="for each kernel")
    parser.add_argument("--db", type=Path, required=True, metavar="DIR", help="where it is kept")
    parser.add_argument("--target", default="llvm", help="what to tune for (default: llvm)")
    parser.add_argument("--threads", type=_model.threads, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    _model.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Tune, keep, and show a row for each kernel."""
    mod = _model.load(args)
    found: Any = mlcnb.tune(
        mod,
        args.target,
        args.seconds,
        trials=args.trials,
        threads=args.threads,
        seed=args.seed,
        database=mlcnb.meta_schedule.JSONDatabase(work_dir=args.db),
    )
    then = f"mlcnb compile {args.model} --db {args.db} -o OUT takes what was found"
    return _model.answer(
        args, lambda: f"{display.plain(found)}\n{then}", lambda: report(found), indent=2
    )


def report(found: Any) -> dict[str, Any]:
    """The ratio of all kernels, and of each: times in seconds, what was decided otherwise."""
    from mlcnb.view import search

    kernels = [
        {
            "kernel": one.name,
            "calls": calls,
            "default": one.default.seconds,
            "best": search.fastest(one, one.ratio),
            "ratio": one.ratio,
            "interval": one.interval,
            "tried": len(one.trials),
            "choices": one.best.candidate.choices,
        }
        for one, calls in found.tasks
    ]
    return {"ratio": found.ratio, "seconds": found.seconds, "kernels": kernels, "left": found.left}

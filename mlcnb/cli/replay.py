"""Do a schedule again step by step: compile, run, count and time what each kind of step made.

FILE is a file of TVMScript, or a model, of which --kernel names one. Without --steps the steps are
those of the default rules: what the compiler would do.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import mlcnb
from mlcnb.cli import _loops, _model


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _loops.add_loops(parser)
    parser.add_argument(
        "--at", type=numbers, metavar="0,5,12", help="after these steps (default: where kinds end)"
    )
    parser.add_argument("--threads", type=_model.threads, default=1, metavar="N")
    _model.add_form(parser)


def run(args: argparse.Namespace) -> int:
    """Replay, and print a row for each stage, or JSON, or write a page."""
    name, function = _loops.function_of(args)
    sch = _loops.schedule_of(args, function)
    if args.steps is None:
        sch = mlcnb.dlight.cpu.schedule_cpu(function, mlcnb.target.Target("llvm")) or sch
    found = replace(mlcnb.replay(sch, at=args.at, threads=args.threads), name=name)
    _model.give(found, args, lambda: report(found))
    return 0


def numbers(text: str) -> list[int]:
    """Read `0,5,12`."""
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not like 0,5,12")
    return [int(part) for part in parts]


def report(found: Any) -> dict[str, Any]:
    """The stages: steps done, seconds of a call, the hot loop's instructions."""
    return {
        "name": found.name,
        "steps": found.steps,
        "threads": found.threads,
        "stages": [_stage(x) for x in found],
    }


def _stage(stage: Any) -> dict[str, Any]:
    return {
        "step": stage.step,
        "calls": list(stage.calls),
        "difference": float(stage.difference),
        **_model.strip_data(stage.strip),
    }

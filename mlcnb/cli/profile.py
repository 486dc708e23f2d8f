"""Run a model and tell where the time goes, kernel by kernel, and how near that is to the roof.

MODEL is an ONNX file, or what mlcnb compile has made of one. Inputs are as mlcnb run takes them;
those that are not given are drawn at random.
"""

from __future__ import annotations

import argparse
from typing import Any

import mlcnb
from mlcnb.cli import _inputs, _model


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _model.add_model(parser)
    _inputs.add_inputs(parser)
    _inputs.add_batch(parser)
    parser.add_argument("--repeat", type=_model.positive, default=10, metavar="N", help="runs")
    parser.add_argument("--threads", type=_model.threads, metavar="N")
    _model.add_form(parser)


def run(args: argparse.Namespace) -> int:
    """Profile, and print a row for each call, or JSON, or write a page."""
    _inputs.check_named(args)
    if args.threads:
        mlcnb.set_num_threads(args.threads)
    ex = _model.executable(args)
    arrays = _inputs.read_inputs(args, _inputs.inputs_of(ex.mod), args.batch)
    found = mlcnb.profile(ex, *arrays, repeat=args.repeat)
    _model.give(found, args, lambda: report(found))
    return 0


def report(found: Any) -> dict[str, Any]:
    """Settings, and of each call seconds, share of the total, work and share of the roof."""
    names = ("name", "kernel", "seconds", "share", "flops", "nbytes", "gflops", "bandwidth")
    rows = [
        {name: getattr(row, name) for name in names} | {"of_roof": found.of_roof(row)}
        for row in found.rows
    ]
    head = {name: getattr(found, name) for name in ("seconds", "repeat", "threads")}
    return {**head, "calls": rows}

"""Compile a model to a file that runs without it.

mlcnb run takes the file, as does mlcnb.load_module in Python.
"""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import mlcnb
from mlcnb.cli import _model


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _model.add_model(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT")
    parser.add_argument("--target", default="llvm", help="what to compile for (default: llvm)")
    parser.add_argument(
        "--convolution",
        choices=("auto", "direct"),
        default="auto",
        help="direct: never by Winograd's algorithm, which is faster and rounds more",
    )
    parser.add_argument("--db", type=Path, metavar="DIR", help="what mlcnb tune has found")
    _model.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Compile, write the file, and say how large it is and how long it took."""
    start = time.perf_counter()
    _model.check_output(args.output)
    tuned: Any = nullcontext()
    if args.db:
        tuned = mlcnb.meta_schedule.JSONDatabase(work_dir=args.db, allow_missing=False)
    with tuned:
        ex = mlcnb.compile(_model.load(args), target=args.target, convolution=args.convolution)
    ex.export_library(args.output)
    report = {
        "output": str(args.output),
        "bytes": args.output.stat().st_size,
        "kernels": len(ex.kernels),
        "seconds": round(time.perf_counter() - start, 3),
    }
    words = "{output}: {kernels} kernels, {bytes:,} bytes, {seconds:.1f} s"
    return _model.answer(args, lambda: words.format(**report), lambda: report, indent=2)

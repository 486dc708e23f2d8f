"""Measure what this machine can do, and where a model's kernels stand under that roof.

Without a MODEL the roof alone: the peak of arithmetic, the bandwidth of each level of memory. With
one a row for each of its kernels, run alone: what its hot loop is made of, and its share of the
roof. Kernels are made for sizes that are known: those that MODEL leaves open are as --batch says.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import mlcnb
from mlcnb.cli import _inputs, _model


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _model.add_model(parser, words="a model, or what mlcnb compile made of one", nargs="?")
    _inputs.add_batch(parser)
    parser.add_argument("--threads", type=_model.threads, metavar="N")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it too: .png, .svg or .pdf")
    _model.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, and print the table or JSON, and draw."""
    if args.plot is not None:
        _model.check_output(args.plot)
    if args.threads:
        mlcnb.set_num_threads(args.threads)
    kernels: Any = () if args.model is None else _model.executable(args, args.batch).strips()
    roof = mlcnb.roofline(args.threads)
    if args.plot is not None:
        _draw(kernels or roof, args.plot)
    return _model.answer(
        args,
        lambda: _model.text_of(roof, *([kernels] if kernels else [])),
        lambda: {**asdict(roof), "kernels": [_model.strip_data(x) for x in kernels]},
    )


def _draw(shown: Any, path: Path) -> None:
    """Write the plot of a roof, or of kernels under it."""
    import matplotlib

    matplotlib.use("agg")
    try:
        shown.plot().figure.savefig(path)
    except ValueError as error:
        raise mlcnb.MLCError(f"{path}: {error}", hint="end it with .png, .svg or .pdf") from None

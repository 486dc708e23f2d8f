"""Run a model once, on arrays or on a photo.

MODEL is an ONNX file, or what mlcnb compile has made of one.
An input is NAME=FILE, or FILE alone where the model has one input. A file is an array (.npy) or a
picture: its short side is resized, the centre cut out, and (x / 255 - MEAN) / STD taken, channels
first. What comes out is summed up; --output keeps it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import mlcnb
from mlcnb.cli import _inputs, _model
from mlcnb.core.files import replacing


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _model.add_model(parser)
    _inputs.add_inputs(parser)
    parser.add_argument("--labels", type=Path, metavar="FILE", help="class names, one a line")
    parser.add_argument(
        "--top", type=_model.positive, default=5, metavar="N", help="classes to print"
    )
    parser.add_argument("--threads", type=_model.threads, metavar="N")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.npz", help="keep the results")
    _model.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Load, run, and show the results."""
    _inputs.check_named(args)
    if args.threads:
        mlcnb.set_num_threads(args.threads)
    names = _model.read_text(args.labels).splitlines() if args.labels else None
    is_compiled = args.model.exists() and args.model.suffix != ".onnx"
    ex = mlcnb.load_module(args.model) if is_compiled else None
    mod = _model.load(args) if ex is None else ex.mod
    arrays = _inputs.read_inputs(args, _inputs.inputs_of(mod))
    results = mlcnb.peers.as_list((ex or mlcnb.compile(mod, target="llvm"))(*arrays))
    if args.output:
        # by its name, savez would add .npz to it
        with replacing(args.output) as part, part.open("wb") as file:
            np.savez(file, *results)
    reports = [describe(array, names, args.top) for array in results]
    return _model.answer(args, lambda: "\n".join(map(show, reports)), lambda: reports, indent=2)


def describe(array: np.ndarray, names: list[str] | None, top: int) -> dict[str, Any]:
    """Shape, dtype and range of a result, and its likeliest classes where it is a row of scores."""
    report: dict[str, Any] = {"shape": list(array.shape), "dtype": str(array.dtype)}
    if array.size and array.dtype.kind in "fiu":
        low, mean, high = (float(f(array)) for f in (np.min, np.mean, np.max))
        report |= {"min": low, "mean": mean, "max": high}
    is_row = array.ndim >= 2 and array.shape[1] == array.size > 1
    if is_row and array.dtype.kind == "f":
        report["classes"] = classes(array.reshape(-1).astype(np.float64), names, top)
    return report


def classes(scores: np.ndarray, names: list[str] | None, top: int) -> list[dict[str, Any]]:
    """The likeliest classes as plain data."""
    best = mlcnb.observe.image.top(scores, names, top)
    return [{"class": c.number, "name": c.name, "p": c.probability} for c in best]


def show(report: dict[str, Any]) -> str:
    """The report of one result as text."""
    lines = [f"{report['dtype']} {report['shape']}"]
    if "mean" in report:
        lines[0] += "  min {min:.6g}  mean {mean:.6g}  max {max:.6g}".format(**report)
    for row in report.get("classes", ()):
        lines.append(f"  {row['p']:.3f}  {row['name'] or 'class ' + str(row['class'])}")
    return "\n".join(lines)

"""Run a model once, on arrays or on a photo.

MODEL is an ONNX file, or what mlcnb compile has made of one.
An input is NAME=FILE, or FILE alone where the model has one input. A file is an array (.npy) or a
picture: its short side is resized, the centre cut out, and (x / 255 - MEAN) / STD taken, channels
first. What comes out is summed up; --output keeps it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import mlcnb
from mlcnb.cli import _model
from mlcnb.core.errors import RuntimeInputError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _model.add_model(parser)
    parser.add_argument("--input", action="append", default=[], metavar="[NAME=]FILE")
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--mean", type=float, default=0.498, help="of a picture (default: 0.498)")
    parser.add_argument("--std", type=float, default=0.502, help="of a picture (default: 0.502)")
    parser.add_argument("--labels", type=Path, metavar="FILE", help="class names, one a line")
    parser.add_argument("--top", type=int, default=5, metavar="N", help="classes to print")
    parser.add_argument("--threads", type=_model.threads, metavar="N")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.npz", help="keep the results")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Load, run, and show the results."""
    if args.files:
        raise RuntimeInputError(
            f"what to do with {args.files[0]}? inputs are named",
            hint=" ".join(f"--input {file}" for file in args.files),
        )
    if args.threads:
        mlcnb.set_num_threads(args.threads)
    is_compiled = args.model.exists() and args.model.suffix != ".onnx"
    ex = mlcnb.load_module(args.model) if is_compiled else None
    mod = _model.load(args) if ex is None else ex.mod
    arrays = read_inputs(args, _model.inputs_of(mod))
    results = mlcnb.peers.as_list((ex or mlcnb.compile(mod, target="llvm"))(*arrays))
    if args.output:
        with args.output.open("wb") as file:  # by its name, savez would add .npz to it
            np.savez(file, *results)
    names = args.labels.read_text().splitlines() if args.labels else None
    reports = [describe(array, names, args.top) for array in results]
    if args.json:
        print(json.dumps(reports, indent=2))
    else:
        print("\n".join(show(report) for report in reports))
    return 0


def read_inputs(args: argparse.Namespace, wanted: list[_model.Input]) -> list[np.ndarray]:
    """One array for each input of the model, from the files on the command line."""
    files = dict(_name_and_file(text, wanted) for text in args.input)
    missing = [str(each) for each in wanted if each.name not in files]
    if missing:
        raise RuntimeInputError(f"no --input for {'; '.join(missing)}", hint="--input NAME=FILE")
    return [read(files[each.name], each, args.mean, args.std) for each in wanted]


def _name_and_file(text: str, wanted: list[_model.Input]) -> tuple[str, Path]:
    names = [each.name for each in wanted]
    name, equals, file = text.partition("=")
    if not equals and len(names) == 1:
        return names[0], Path(text)
    if name not in names:
        raise RuntimeInputError(
            f"the model has no input {name!r}", hint=f"one of {', '.join(names)}"
        )
    return name, Path(file)


def read(file: Path, wanted: _model.Input, mean: float, std: float) -> np.ndarray:
    """The array in a .npy file, or a picture made to fit the input."""
    _model.check_file(file)
    if file.suffix == ".npy":
        return read_array(file)
    if len(wanted.dims) != 4:
        raise RuntimeInputError(f"{file}: a picture does not fit {wanted}", hint="give a .npy file")
    return read_picture(file, wanted, mean, std)


def read_array(file: Path) -> np.ndarray:
    """The array in a .npy file; one that would run code to be read is refused."""
    try:
        return np.load(file, allow_pickle=False)
    except ValueError:
        raise RuntimeInputError(f"{file} is not a plain array") from None


def read_picture(file: Path, wanted: _model.Input, mean: float, std: float) -> np.ndarray:
    """A picture as the input wants it: 224 where a dimension is open."""
    height, width = (dim or 224 for dim in wanted.dims[2:])
    return mlcnb.observe.image.load(file, height, width, mean, std, wanted.dtype)


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

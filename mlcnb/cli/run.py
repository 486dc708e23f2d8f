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
from mlcnb.core.errors import MissingDependencyError, MLCError, RuntimeInputError
from mlcnb.diagnosis import install_command


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _model.add_model(parser)
    parser.add_argument("--input", action="append", default=[], metavar="[NAME=]FILE")
    parser.add_argument("--mean", type=float, default=0.498, help="of a picture (default: 0.498)")
    parser.add_argument("--std", type=float, default=0.502, help="of a picture (default: 0.502)")
    parser.add_argument("--labels", type=Path, metavar="FILE", help="class names, one a line")
    parser.add_argument("--top", type=int, default=5, metavar="N", help="classes to print")
    parser.add_argument("--threads", type=_model.threads, metavar="N")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.npz", help="keep the results")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Load, run, and show the results."""
    if args.threads:
        mlcnb.set_num_threads(args.threads)
    is_compiled = args.model.exists() and args.model.suffix != ".onnx"
    ex = mlcnb.load_module(args.model) if is_compiled else None
    mod = _model.load(args) if ex is None else ex.mod
    arrays = read_inputs(args, _model.inputs_of(mod))
    results = as_list((ex or mlcnb.compile(mod, target="llvm"))(*arrays))
    if args.output:
        np.savez(args.output, *results)
    names = args.labels.read_text().splitlines() if args.labels else None
    reports = [describe(array, names, args.top) for array in results]
    if args.json:
        print(json.dumps(reports, indent=2))
    else:
        print("\n".join(show(report) for report in reports))
    return 0


def as_list(results: Any) -> list[np.ndarray]:
    """The results as arrays: a model has one or a tuple of them."""
    parts = results if isinstance(results, list | tuple) else [results]
    return [np.asarray(part) for part in parts]


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
    """A picture as [1, 3, height, width]: short side resized to 8/7 of it, centre cut out."""
    try:
        from PIL import Image
    except ImportError:
        hint = install_command("lab")
        raise MissingDependencyError("pictures are read by pillow", hint=hint) from None
    height, width = (dim or 224 for dim in wanted.dims[2:])
    try:
        picture = Image.open(file).convert("RGB")
    except Image.UnidentifiedImageError:
        raise MLCError(f"{file} is neither a picture nor a .npy file") from None
    scale = max(height / picture.height, width / picture.width) * 8 / 7
    size = round(picture.width * scale), round(picture.height * scale)
    picture = picture.resize(size, Image.Resampling.BICUBIC)
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    pixels = np.asarray(picture.crop((left, top, left + width, top + height)), np.float32)
    return ((pixels / 255 - mean) / std).transpose(2, 0, 1)[None].astype(wanted.dtype)


def describe(array: np.ndarray, names: list[str] | None, top: int) -> dict[str, Any]:
    """Shape, dtype and range of a result, and its likeliest classes where it is a row of scores."""
    report: dict[str, Any] = {"shape": list(array.shape), "dtype": str(array.dtype)}
    if array.size and array.dtype.kind in "fiu":
        low, mean, high = (float(f(array)) for f in (np.min, np.mean, np.max))
        report |= {"min": low, "mean": mean, "max": high}
    if array.ndim == 2 and array.shape[0] == 1 and array.dtype.kind == "f" and array.size > 1:
        report["classes"] = classes(array[0].astype(np.float64), names, top)
    return report


def classes(scores: np.ndarray, names: list[str] | None, top: int) -> list[dict[str, Any]]:
    """The highest scores with their softmax, unless they already are probabilities."""
    if scores.min() < 0 or not np.isclose(scores.sum(), 1, atol=1e-3):
        scores = np.exp(scores - scores.max())
        scores /= scores.sum()
    best = np.argsort(-scores, kind="stable")[:top]
    known = names or []
    return [
        {"class": int(i), "name": known[i] if i < len(known) else None, "p": float(scores[i])}
        for i in best
    ]


def show(report: dict[str, Any]) -> str:
    """The report of one result as text."""
    lines = [f"{report['dtype']} {report['shape']}"]
    if "mean" in report:
        lines[0] += "  min {min:.6g}  mean {mean:.6g}  max {max:.6g}".format(**report)
    for row in report.get("classes", ()):
        lines.append(f"  {row['p']:.3f}  {row['name'] or 'class ' + str(row['class'])}")
    return "\n".join(lines)

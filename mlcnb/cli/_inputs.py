"""What the commands that run a model share: its inputs, from files or drawn at random."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mlcnb
from mlcnb.cli import _model
from mlcnb.core.errors import MLCError, RuntimeInputError


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Declare --input and what a picture is made to fit by."""
    parser.add_argument("--input", action="append", default=[], metavar="[NAME=]FILE")
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument(
        "--mean", type=_model.finite, default=0.498, help="of a picture (default: 0.498)"
    )
    parser.add_argument(
        "--std", type=_model.not_zero, default=0.502, help="of a picture (default: 0.502)"
    )


def add_batch(parser: argparse.ArgumentParser) -> None:
    """Declare --batch."""
    parser.add_argument(
        "--batch", type=_model.positive, default=1, help="size of a dimension that is open"
    )


def check_named(args: argparse.Namespace) -> None:
    """Refuse a file that stands there without --input."""
    if args.files:
        raise RuntimeInputError(
            f"what to do with {args.files[0]}? inputs are named",
            hint=" ".join(f"--input {file}" for file in args.files),
        )


@dataclass(frozen=True)
class Input:
    """An input of a model: its name, dtype, and dimensions (None where any size will do)."""

    name: str
    dtype: str
    dims: tuple[int | None, ...]

    def __str__(self) -> str:
        dims = ", ".join("?" if dim is None else str(dim) for dim in self.dims)
        return f"{self.name}: {self.dtype} [{dims}]"


def inputs_of(mod: Any) -> list[Input]:
    """The inputs of a module's `main`."""
    return [_input(param) for param in mod["main"].params]


def _input(param: Any) -> Input:
    info = param.struct_info
    dims = getattr(info, "dims", None)
    if dims is None:
        raise MLCError(f"input {param.name_hint} is not a tensor of known rank: {info}")
    return Input(param.name_hint, str(info.dtype), tuple(getattr(d, "value", None) for d in dims))


def read_inputs(
    args: argparse.Namespace, wanted: list[Input], batch: int | None = None
) -> list[np.ndarray]:
    """One array for each input of the model, from the files on the command line.

    Args:
        args: what `add_inputs` declares.
        wanted: the inputs of the model.
        batch: where it is given, inputs without a file are drawn, open dimensions of this size.
    """
    given = [_name_and_file(text, wanted) for text in args.input]
    files = dict(given)
    if len(files) < len(given):
        twice = next(name for name in files if sum(name == n for n, _ in given) > 1)
        raise RuntimeInputError(f"--input gives {twice} twice", hint="one file for each input")
    missing = [str(each) for each in wanted if each.name not in files]
    if missing and batch is None:
        raise RuntimeInputError(f"no --input for {'; '.join(missing)}", hint="--input NAME=FILE")
    return [
        read(files[each.name], each, args.mean, args.std)
        if each.name in files
        else random_array(each, batch or 1)
        for each in wanted
    ]


def _name_and_file(text: str, wanted: list[Input]) -> tuple[str, Path]:
    names = [each.name for each in wanted]
    name, equals, file = text.partition("=")
    if not equals and len(names) == 1:
        return names[0], Path(text)
    if name not in names:
        raise RuntimeInputError(
            f"the model has no input {name!r}", hint=f"one of {', '.join(names)}"
        )
    return name, Path(file)


def read(file: Path, wanted: Input, mean: float, std: float) -> np.ndarray:
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
        with file.open("rb") as opened:
            return np.lib.format.read_array(opened, allow_pickle=False)
    except MemoryError:
        raise RuntimeInputError(f"{file} is larger than memory", hint="give a part of it") from None
    except (ValueError, EOFError, TypeError, OverflowError) as error:
        raise RuntimeInputError(
            f"{file} is not a plain array: {str(error).splitlines()[0] if str(error) else 'empty'}",
            hint="np.save(file, array) writes one; arrays of objects are refused",
        ) from None


def read_picture(file: Path, wanted: Input, mean: float, std: float) -> np.ndarray:
    """A picture as the input wants it: 224 where a dimension is open."""
    height, width = (dim or 224 for dim in wanted.dims[2:])
    return mlcnb.observe.image.load(file, height, width, mean, std, wanted.dtype)


def random_array(wanted: Input, batch: int) -> np.ndarray:
    """Normal values for floats, zeros for the rest; the same at every call."""
    dims = tuple(batch if dim is None else dim for dim in wanted.dims)
    dtype = np.dtype(wanted.dtype)
    if dtype.kind != "f":
        return np.zeros(dims, dtype)
    return np.random.default_rng(0).standard_normal(dims).astype(dtype)

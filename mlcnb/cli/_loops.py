"""What the commands that take a loop function share: its arguments, and a schedule of it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlcnb
from mlcnb.cli import _model
from mlcnb.core.errors import MLCError
from mlcnb.core.means import within_means

if TYPE_CHECKING:
    from mlcnb.tir.schedule import Schedule


def add_loops(parser: argparse.ArgumentParser) -> None:
    """Declare FILE, --kernel, --shape and --steps."""
    _model.add_model(parser, "FILE", "a file of TVMScript, which is read, not run; or a model")
    parser.add_argument("--kernel", metavar="NAME", help="this loop function, where it has several")
    parser.add_argument(
        "--steps", type=Path, metavar="TRACE.json", help="steps to do: sch.trace.as_json()"
    )


def schedule_of(args: argparse.Namespace, function: Any = None) -> Schedule:
    """A schedule of the loop function that the arguments name, with the steps of --steps done."""
    sch = mlcnb.tir.Schedule(function or function_of(args)[1])
    if args.steps is not None:
        mlcnb.tir.schedule.Trace.apply_json_to_schedule(_read_json(args.steps), sch)
    return sch


def function_of(args: argparse.Namespace) -> tuple[str, Any]:
    """The name of the loop function that the arguments say, and itself before any schedule."""
    _model.check_file(args.model)
    found = _model.chosen(_functions(args), args.kernel)
    if len(found) > 1:
        raise MLCError(
            f"{args.model} has {len(found)} loop functions",
            hint=f"--kernel NAME, one of {', '.join(found)}",
        )
    return next(iter(found.items()))


def _functions(args: argparse.Namespace) -> dict[str, Any]:
    """The loop functions of a script; of a model those that the default passes make of it."""
    if args.model.suffix != ".onnx" and not args.model.is_dir():
        _model.check_model(args.model)
        return _model.read_script(args.model)
    return _model.loop_functions(mlcnb.get_pipeline("default")(_model.load(args)))


def _read_json(path: Path) -> Any:
    _model.check_file(path)
    try:
        with within_means(str(path), MLCError):
            return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        hint = "json.dump(sch.trace.as_json(), file) writes one"
        raise MLCError(f"{path} is no JSON: {error}", hint=hint) from None

"""Say in words what a page shows, or what becomes of one step of a schedule.

mlcnb explain MODEL.onnx                       each node: what it takes, where it came from
mlcnb explain LOOPS.py                         the loops, and what they are predicted to cost
mlcnb explain LOOPS.py split j "factors=[None, 8]"   how the step is known to be legal, and what it
                                               changes; or why not: two iterations whose order it
                                               would turn round, and what can be done instead

The step is done on what FILE and --steps make. PLACE is the name of a block or loop, or several
with commas between them. The exit code is 1 where the step is refused.
"""

from __future__ import annotations

import argparse
import ast
from functools import partial
from typing import Any

import mlcnb
from mlcnb.cli import _loops, _model
from mlcnb.core.errors import MLCError, ScheduleError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _loops.add_loops(parser)
    parser.add_argument("step", nargs="?", metavar="STEP", help="a primitive's name: split, …")
    parser.add_argument("place", nargs="?", metavar="PLACE", help="a block or loop, or some: i,j")
    parser.add_argument("given", nargs="*", metavar="NAME=VALUE", help="the other arguments")
    _model.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the words, or their JSON."""
    if args.step is None:
        text = _page(args).explain()
        return _model.answer(args, lambda: text, lambda: {"text": text.splitlines()})
    if args.place is None:
        raise MLCError(f"{args.step} at which block or loop?", hint="mlcnb legal FILE lists them")
    sch = _loops.schedule_of(args)
    page: Any = mlcnb.explore(sch)
    place = args.place.split(",") if "," in args.place else args.place
    try:
        page.do(args.step, place, **dict(map(argument, args.given)))
    except ScheduleError as error:
        if error.root is None:  # no step was tried: there is no such place, or argument
            raise
        _model.answer(args, partial(_model.text_of, error), partial(refusal, error))
        return 1
    before, after = sch.steps[-2], sch.steps[-1]
    change = mlcnb.diff(before.mod, after.mod)
    words = _model.text_of(change)
    call = page.code.splitlines()[-1]
    data = {"legal": True, "proof": after.proof, "call": call, "change": change.summary}
    return _model.answer(args, lambda: f"legal, {after.proof}: {call}\n{words}", lambda: data)


def _page(args: argparse.Namespace) -> Any:
    """The page of a model, or of the loop function that is named."""
    is_model = args.model.suffix == ".onnx" or args.model.is_dir()
    if is_model and args.kernel is None:
        return mlcnb.explore(_model.load(args))
    return mlcnb.explore(_loops.schedule_of(args))


def argument(text: str) -> tuple[str, Any]:
    """Read `factors=[None, 8]`: a name and a literal of Python; what is no literal is text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise MLCError(f"{text[:60]!r} is not like NAME=VALUE", hint='"factors=[None, 8]"')
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return name, value


def refusal(error: ScheduleError) -> dict[str, Any]:
    """Why a step was refused, and legal steps near it."""
    found = error.counterexample
    return {
        "legal": False,
        "message": error.message,
        "hint": error.advice,
        "counterexample": [] if found is None else list(found.lines),
        "instead": [x.text for x in mlcnb.tir.schedule.offers.repairs.repairs(error)],
    }

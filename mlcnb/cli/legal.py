"""List what a schedule could do at a block or loop, and why the rest is refused.

FILE is a file of TVMScript, or a model, of which --kernel names one. PLACE is the name of a block
or of a loop; without it all of them are listed. mlcnb explain tells more of one step.
"""

from __future__ import annotations

import argparse
from typing import Any

import mlcnb
from mlcnb.cli import _loops, _model


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _loops.add_loops(parser)
    parser.add_argument("place", nargs="?", metavar="PLACE", help="the name of a block or loop")
    _model.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what is legal at a place, or at each."""
    sch = _loops.schedule_of(args)
    explorer: Any = mlcnb.explore(sch)
    found = everywhere(sch) if args.place is None else [explorer.legal(args.place)]
    return _model.answer(args, lambda: _model.text_of(*found), lambda: list(map(report, found)))


def everywhere(sch: Any) -> list[Any]:
    """What is legal at each loop and block of a schedule, in the order of the program."""
    from mlcnb.tir.schedule.offers.legal import legal_at
    from mlcnb.widgets.storyboard import functions_of, places

    return [
        legal_at(sch, name, place.node)
        for name in functions_of(sch)
        for place in places(sch.mod[name])
    ]


def report(found: Any) -> dict[str, Any]:
    """A place with its legal calls, what a caller has to choose, and the refusals."""
    calls = [{"primitive": x.primitive, "call": x.text, "proof": x.proof} for x in found]
    return {"where": found.where, "steps": calls, "free": found.free, "refused": found.refused}

"""Tell what this machine has, and how to install what is missing.

Exit code 1 where something that every part of mlcnb needs is missing or too old.
"""

from __future__ import annotations

import argparse

import mlcnb
from mlcnb.cli import _model


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--measure",
        action="store_true",
        help="measure what a core does in a cycle, some seconds; what is compiled goes by it",
    )
    _model.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the diagnosis; 1 where a base dependency is missing or too old."""
    diagnosis = mlcnb.doctor(measure=args.measure)
    _model.answer(args, lambda: diagnosis, diagnosis.as_dict, indent=2)
    return 0 if diagnosis.is_healthy else 1

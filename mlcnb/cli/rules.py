"""Say which default rule schedules each function, and why the rules before it do not.

mlcnb rules LOOPS.py --target cuda      the functions of a file of TVMScript; it is read, not run
mlcnb rules MODEL.onnx                  the kernels that a model becomes
"""

from __future__ import annotations

import argparse
from typing import Any

import mlcnb
from mlcnb.cli import _model


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _model.add_model(parser, "FILE", "a file of TVMScript, or an ONNX model")
    parser.add_argument("--target", default="llvm", help='"llvm", "cuda", … (default: llvm)')
    parser.add_argument("--kernel", metavar="NAME", help="only this function")
    _model.add_form(parser)


def run(args: argparse.Namespace) -> int:
    """Print the report, its JSON, or write its page."""
    target = mlcnb.target.Target(args.target)
    found = _model.chosen(_functions(args, target), args.kernel)
    report = mlcnb.dlight.rule_report(mlcnb.IRModule(found), target)
    _model.give(report, args, report.to_data)
    return 0


def _functions(args: argparse.Namespace, target: Any) -> dict[str, Any]:
    """The loop functions of a file, or those of a model as the target's pipeline leaves them."""
    if args.model.suffix != ".onnx":
        return _model.read_script(args.model)
    with target:
        return _model.loop_functions(mlcnb.get_pipeline("default")(_model.load(args)))

"""Say what a GPU would make of a loop program, without one.

FILE holds TVMScript: a function under @T.prim_func, or a module of several; it is read, not run.
Functions that are bound to threads are taken as they are, others are scheduled by default rules.
Printed are races and accesses out of bounds with who and where, memory requests, idle lanes,
occupancy, and a least time that is predicted, term by term. The exit code is 1 where two threads
are proved to race, or an access to leave its buffer.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlcnb
from mlcnb.cli import _model

if TYPE_CHECKING:
    from mlcnb.observe.gpu import GpuReport


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from mlcnb.machine.gpu import GPUS

    parser.add_argument("file", type=Path, metavar="FILE", help="a file of TVMScript")
    parser.add_argument("--device", default="A100", help=f"{', '.join(GPUS)}, or sm_90a, …")
    parser.add_argument("--kernel", metavar="NAME", help="only this function")
    _model.add_form(parser)


def run(args: argparse.Namespace) -> int:
    """Print the reports, their JSON, or write a page of one."""
    from mlcnb.machine.gpu import gpu
    from mlcnb.observe.gpu import gpu_report

    _model.check_file(args.file)
    device = gpu(args.device)
    found = [gpu_report(f, device) for f in _functions(args)]
    if args.export is not None and len(found) > 1:
        raise mlcnb.MLCError("a page is of one function", hint="name it: --kernel NAME")
    if args.json or args.export is not None:
        _model.give(found[0], args, lambda: [x.to_data() for x in found])
    else:
        print(_model.text_of(*found))
    return int(any(map(_is_wrong, found)))


def _functions(args: argparse.Namespace) -> list[Any]:
    """The loop functions of a file, bound to threads."""
    from mlcnb.codegen.kernel import scheduled_by
    from mlcnb.dlight.gpu import schedule_gpu

    loops = _model.chosen(_model.read_script(args.file), args.kernel)
    target = mlcnb.target.Target("cuda")
    return [scheduled_by(schedule_gpu(f, target), f) for f in loops.values()]


def _is_wrong(report: GpuReport) -> bool:
    return any(x.proved for x in report.races) or any(x.exact for x in report.out_of_bounds)

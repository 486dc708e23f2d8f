"""Say what a GPU would make of a loop program, without one.

FILE holds TVMScript: a function under @T.prim_func, or a module of several; it is read, not run.
Functions that are bound to threads are taken as they are, others are scheduled by default rules.
Printed are races and accesses out of bounds with who and where, memory requests, idle lanes,
occupancy, and a least time that is predicted, term by term. The exit code is 1 where two threads
are proved to race, or an access to leave its buffer.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import mlcnb
from mlcnb.cli import _model
from mlcnb.codegen.kernel import scheduled_by
from mlcnb.dlight.gpu import schedule_gpu
from mlcnb.machine.gpu import GPUS, gpu
from mlcnb.observe.gpu import GpuReport, gpu_report
from mlcnb.script import parse
from mlcnb.target import Target
from mlcnb.view import to_text
from mlcnb.widgets import export


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a file of TVMScript")
    parser.add_argument("--device", default="A100", help=f"{', '.join(GPUS)}, or sm_90a, …")
    parser.add_argument("--kernel", metavar="NAME", help="only this function")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print it as JSON")
    form.add_argument("--export", type=Path, metavar="FILE", help="write a page: .html or .md")


def run(args: argparse.Namespace) -> int:
    """Print the reports, their JSON, or write a page of one."""
    _model.check_file(args.file)
    device = gpu(args.device)
    found = [gpu_report(f, device) for f in _functions(args)]
    if args.json:
        print(json.dumps([x.to_data() for x in found], indent=1, allow_nan=False))
    elif args.export is not None:
        if len(found) > 1:
            raise mlcnb.MLCError("a page is of one function", hint="name it: --kernel NAME")
        print(export(found[0], args.export))
    else:
        print("\n\n".join(to_text(x, colours=sys.stdout.isatty()) for x in found))
    return int(any(map(_is_wrong, found)))


def _functions(args: argparse.Namespace) -> list[Any]:
    """The loop functions of a file, bound to threads."""
    read = parse(args.file.read_text(encoding="utf-8"), check_well_formed=False)
    mod = read if isinstance(read, mlcnb.IRModule) else {read.__name__: read}
    named = {getattr(v, "name_hint", v): f for v, f in mod.items()}
    loops = {name: f for name, f in named.items() if isinstance(f, mlcnb.tir.PrimFunc)}
    return [
        scheduled_by(schedule_gpu(f, Target("cuda")), f)
        for f in _model.chosen(loops, args.kernel).values()
    ]


def _is_wrong(report: GpuReport) -> bool:
    return any(x.proved for x in report.races) or any(x.exact for x in report.out_of_bounds)

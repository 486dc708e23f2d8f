"""From the file to the first answer, in processes of their own: mlcnb and ONNX Runtime.

    cold       nothing of the model is kept: it is read, compiled and run
    second     the next process, with what the first one kept on disk
    peer       ONNX Runtime, which keeps nothing

Seconds by the clock from the start of the process (Python and imports count) until the first
answer is there, and seconds of CPU in all processes that took part. Python's own bytecode is kept,
as it is for whoever installs a package. Medians. The weights are drawn at random, as for timings.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks import machine
from tests.benchmarks.memory import ROOT
from tests.benchmarks.models import cases

CHILD = Path(__file__).with_name("starts_child.py")
#: processes of each kind
COLD, SECOND = 3, 7


class Start(NamedTuple):
    """Seconds until the first answer."""

    clock: float
    cpu: float


def run(args: argparse.Namespace) -> None:
    """Measure the models whose names contain one of the wanted parts; print rows."""
    print(machine.line(machine.describe("onnxruntime", "llvmlite", "numpy")), flush=True)
    print(f"{'seconds (of CPU)':22}{'cold':>18}{'second':>18}{'ONNX Runtime':>18}{'ratio':>8}")
    rows: list[dict[str, Any]] = []
    for case in cases(names=tuple(args.names)):
        with tempfile.TemporaryDirectory() as kept, tempfile.TemporaryDirectory() as code:
            words = {"PYTHONPYCACHEPREFIX": code, "MLCNB_CACHE_DIR": f"{kept}/first"}
            for engine in ("mlcnb", "onnxruntime"):
                started(engine, str(case.path), max(args.threads), words)  # bytecode, pages of disk
            cold, second, other = [], [], []
            for n in range(COLD):
                here = words | {"MLCNB_CACHE_DIR": f"{kept}/{n}"}
                cold.append(started("mlcnb", str(case.path), max(args.threads), here))
            for _ in range(SECOND):
                second.append(started("mlcnb", str(case.path), max(args.threads), words))
                other.append(started("onnxruntime", str(case.path), max(args.threads), words))
        a, b, c = map(_median, (cold, second, other))
        told = "".join(f"{x.clock:>9.2f} ({x.cpu:5.2f}) " for x in (a, b, c))
        print(f"{case.name:22}{told}{b.clock / c.clock:>8.2f}", flush=True)
        rows.append({"model": case.name, "cold": a, "second": b, "peer": c})
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


def _median(found: list[Start]) -> Start:
    return Start(*(statistics.median(x) for x in zip(*found, strict=True)))


def started(engine: str, path: str, threads: int, words: dict[str, str]) -> Start:
    """One process, until it has said that the first answer is there."""
    where = {**os.environ, "PYTHONPATH": str(ROOT), **words}
    where.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, str(CHILD), engine, path, str(threads)]
    begin = time.perf_counter()
    with subprocess.Popen(command, env=where, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        clock = time.perf_counter() - begin
    return Start(clock, float(said))

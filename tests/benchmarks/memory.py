"""Peak memory: every model in processes of its own, with mlcnb and with ONNX Runtime.

    load       the most that was in memory until the model was ready to run
    run        the most while it ran
    whole      the most of the process: Python, the libraries and their code as well

`load` and `run` count from what the process held when it had loaded and run a model of one Relu, so
both libraries are in memory by then. mlcnb is read twice: with an empty kernel cache, when LLVM
works in the process, and with the cache that the first process left. All in MB, resident (Linux).
The weights are drawn at random, as for the timings: a library may keep equal weights only once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.models import cases

ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("memory_child.py")


@dataclass(frozen=True)
class Peaks:
    """Of one process, in MB: the most while loading and while running, above its start; of all."""

    load: float
    run: float
    whole: float

    def __str__(self) -> str:
        return f"{self.load:>9.1f}{self.run:>9.1f}{self.whole:>9.1f}"


@dataclass(frozen=True)
class Row:
    """A model's peaks: mlcnb without a kernel cache, with one, and ONNX Runtime."""

    model: str
    cold: Peaks
    warm: Peaks
    peer: Peaks

    def __str__(self) -> str:
        ratios = self.warm.run / self.peer.run, self.warm.whole / self.peer.whole
        parts = f"{self.cold} |{self.warm} |{self.peer}"
        return f"{self.model:<20}{parts} |{ratios[0]:>7.2f}{ratios[1]:>7.2f}"


def heading() -> str:
    """What the columns are."""
    three = "".join(f"{name:>9}" for name in ("load", "run", "whole"))
    who = (
        f"{'MB':<20}{'mlcnb, cold':>27} |{'warm':>27} |{'ONNX Runtime':>27} |{'run':>7}{'whole':>7}"
    )
    return f"{who}\n{'':<20}{three} |{three} |{three} |{'warm / peer':>14}"


def run(names: list[str], threads: int) -> list[Row]:
    """Measure the models whose names contain one of `names` (all without any); print rows."""
    rows = []
    print(heading())
    for case in cases(names=tuple(names)):
        path = Path(case.path)
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = (_peaks_of("mlcnb", path, threads, cache) for _ in range(2))
        rows.append(Row(case.name, cold, warm, _peaks_of("onnxruntime", path, threads, "")))
        print(rows[-1], flush=True)
    return rows


def as_json(rows: list[Row]) -> list[dict[str, Any]]:
    """The rows as plain data."""
    return [asdict(row) for row in rows]


def _peaks_of(engine: str, path: Path, threads: int, cache: str) -> Peaks:
    command = [sys.executable, str(CHILD), engine, str(path), str(threads)]
    where = {**os.environ, "MLCNB_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=where, cwd=ROOT, capture_output=True, text=True, check=True)
    return Peaks(**json.loads(done.stdout.splitlines()[-1]))

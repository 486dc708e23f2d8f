"""The ten models: import, compile and run times beside ONNX Runtime's, and how results differ.

The timing itself is what `mlcnb bench` does; here are the models, thread counts and the summary.
Kernels are compiled anew: the cache is an empty folder, so the first row of a model is a cold start
and the next one a warm start.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import mlcnb as mlc
from mlcnb.cli.bench import Timing, heading, row, time_model

NOTEBOOKS = Path(__file__).parents[2] / "notebooks" / "assets"


def model_files() -> dict[str, Path]:
    """Name -> file of the ten models."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    files = {p.stem.removeprefix("light_"): p for p in sorted(folder.glob("light_*.onnx"))}
    return {**files, "efficientnet_lite0": NOTEBOOKS / "efficientnet_lite0.onnx"}


def input_of(session: Any) -> tuple[str, np.ndarray]:
    """The name of a session's only input, and a value for it: the suite's arange(n) / n."""
    (first,) = session.get_inputs()
    shape = [d if isinstance(d, int) else 1 for d in first.shape]
    size = int(np.prod(shape))
    return first.name, (np.arange(size, dtype=np.float32) / size).reshape(shape)


def run(names: list[str], thread_counts: list[int], seconds: float) -> list[Timing]:
    """Time the models whose names contain one of `names` (all, if there are none); print rows."""
    timings = []
    chosen = {n: p for n, p in model_files().items() if not names or any(x in n for x in names)}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["MLCNB_CACHE_DIR"] = cache
        for path in chosen.values():
            for threads in thread_counts:
                mlc.set_num_threads(threads)
                timings.append(time_model(path, threads, seconds=seconds))
                if len(timings) == 1:
                    print(f"{'':4}{heading(threads)}")
                print(f"{threads:<4}{row(timings[-1])}", flush=True)
    return timings


def summary(timings: list[Timing]) -> str:
    """The geometric mean of the ratios at each number of threads."""
    lines = []
    for threads in sorted({t.threads for t in timings}):
        ratios = [t.ratio for t in timings if t.threads == threads and t.ratio is not None]
        if ratios:
            mean = statistics.geometric_mean(ratios)
            lines.append(f"{threads} threads: geometric mean of the ratios {mean:.2f}")
    return "\n".join(lines)


def as_json(timings: list[Timing]) -> list[dict[str, Any]]:
    """The timings as plain data."""
    return [asdict(t) for t in timings]

"""The ten models: import, compile and run times beside ONNX Runtime's, and how results differ."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx

import mlcnb as mlc
from mlcnb.peers import interleaved, onnxruntime_session

NOTEBOOKS = Path(__file__).parents[2] / "notebooks" / "assets"


@dataclass
class Result:
    """One model at one number of threads; milliseconds, but for import and compile (seconds)."""

    model: str
    threads: int
    import_s: float
    compile_s: float
    mlcnb_ms: float
    onnxruntime_ms: float
    ratio: float
    onnxruntime_load_s: float
    difference: float
    kernels: int


def model_files() -> dict[str, Path]:
    """Name -> file of the ten models."""
    folder = Path(os.path.dirname(onnx.__file__)) / "backend" / "test" / "data" / "light"
    files = {p.stem.removeprefix("light_"): p for p in sorted(folder.glob("light_*.onnx"))}
    return {**files, "efficientnet_lite0": NOTEBOOKS / "efficientnet_lite0.onnx"}


def input_of(session: object) -> tuple[str, np.ndarray]:
    """The name of a session's only input, and a value for it: the suite's arange(n) / n."""
    (first,) = session.get_inputs()  # type: ignore[attr-defined]
    shape = [d if isinstance(d, int) else 1 for d in first.shape]
    size = int(np.prod(shape))
    return first.name, (np.arange(size, dtype=np.float32) / size).reshape(shape)


def run_model(name: str, path: Path, thread_counts: list[int], seconds: float) -> list[Result]:
    """Compile a model once; time it beside ONNX Runtime at each number of threads."""
    start = time.perf_counter()
    mod = mlc.from_onnx(path)
    imported = time.perf_counter()
    ex = mlc.compile(mod, target="llvm")
    compiled = time.perf_counter()
    results = []
    for threads in thread_counts:
        begin = time.perf_counter()
        session = onnxruntime_session(path, threads)
        loaded = time.perf_counter() - begin
        input_name, x = input_of(session)
        mlc.set_num_threads(threads)
        run = session.run  # type: ignore[attr-defined]
        peer = run(None, {input_name: x})[0]
        found = np.asarray(ex(x))
        contestants = {"mlcnb": partial(ex, x), "ort": partial(run, None, {input_name: x})}
        times = interleaved(contestants, seconds)
        ours, theirs = (statistics.median(t) * 1e3 for t in times.values())
        difference = float(np.max(np.abs(found - peer) / (np.abs(peer) + 1e-4)))
        results.append(
            Result(
                name,
                threads,
                imported - start,
                compiled - imported,
                ours,
                theirs,
                ours / theirs,
                loaded,
                difference,
                len(ex.kernels),
            )
        )
        del session
    return results


def table(results: list[Result]) -> str:
    """The results as text."""
    head = (
        f"{'model':20}{'threads':>8}{'import s':>10}{'compile s':>10}{'mlcnb ms':>10}"
        f"{'ort ms':>10}{'ratio':>8}{'rel. diff':>11}{'kernels':>9}"
    )
    rows = [
        f"{r.model:20}{r.threads:8}{r.import_s:10.2f}{r.compile_s:10.2f}{r.mlcnb_ms:10.2f}"
        f"{r.onnxruntime_ms:10.2f}{r.ratio:8.2f}{r.difference:11.1e}{r.kernels:9}"
        for r in results
    ]
    return "\n".join([head, *rows, *_means(results)])


def _means(results: list[Result]) -> list[str]:
    lines = []
    for threads in sorted({r.threads for r in results}):
        ratios = [r.ratio for r in results if r.threads == threads]
        mean = np.exp(np.mean(np.log(ratios)))
        lines.append(f"geometric mean of the ratios at {threads} threads: {mean:.2f}")
    return lines


def as_json(results: list[Result]) -> list[dict]:
    """The results as plain data."""
    return [asdict(r) for r in results]

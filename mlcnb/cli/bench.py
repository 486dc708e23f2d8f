"""Time models, side by side with ONNX Runtime where it is installed.

Both run in this process, in turns, on the same random inputs and as many threads; the time is the
median. ratio is mlcnb's time by ONNX Runtime's: below 1, mlcnb is the faster one. Without a MODEL
the tour's model and the light_* models that come with the onnx package are timed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import mlcnb
from mlcnb.cli import _inputs, _model
from mlcnb.cli.lab import find_notebooks

Runner = Callable[[], Sequence[np.ndarray]]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("models", type=Path, nargs="*", metavar="MODEL", help="ONNX files")
    parser.add_argument("--threads", type=_model.threads, default=1, metavar="N")
    _inputs.add_batch(parser)
    parser.add_argument("--seconds", type=float, default=2.0, help="of timing for each model")
    _model.add_json(parser)


@dataclass(frozen=True)
class Timing:
    """The times of one model in milliseconds, and how far the two results lie apart."""

    model: str
    threads: int
    import_ms: float
    compile_ms: float
    run_ms: float
    runs: int
    peer: str | None = None
    peer_load_ms: float | None = None
    peer_run_ms: float | None = None
    ratio: float | None = None
    max_difference: float | None = None


def run(args: argparse.Namespace) -> int:
    """Time each model and print a row for it as soon as it is there."""
    mlcnb.set_num_threads(args.threads)
    timings = []
    if not args.json:
        print(heading(args.threads))
    for model in args.models or default_models():
        timings.append(time_model(model, args.threads, args.batch, args.seconds))
        if not args.json:
            print(row(timings[-1]), flush=True)
    if args.json:
        print(json.dumps([asdict(timing) for timing in timings], indent=2))
    return 0


def default_models() -> list[Path]:
    """The ONNX files that are at hand wherever mlcnb is installed."""
    import onnx

    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return [*sorted(find_notebooks().glob("assets/*.onnx")), *sorted(light.glob("*.onnx"))]


def time_model(model: Path, threads: int, batch: int = 1, seconds: float = 2.0) -> Timing:
    """Import, compile and run a model, in turns with ONNX Runtime.

    Args:
        model: an ONNX file.
        threads: how many threads both may use.
        batch: the size of each dimension that the model leaves open.
        seconds: how long to repeat the runs, at least five times.
    """
    from mlcnb.observe.peers import as_list, difference, onnxruntime_session
    from mlcnb.runtime.turns import interleaved

    _model.check_model(model)
    import_ms, mod = timed(lambda: mlcnb.from_onnx(model))
    inputs = _inputs.inputs_of(mod)
    compile_ms, ex = timed(lambda: mlcnb.compile(mod, target="llvm"))
    arrays = {each.name: _inputs.random_array(each, batch) for each in inputs}
    runners: dict[str, Runner] = {"ours": lambda: as_list(ex(*arrays.values()))}
    peer_load_ms = None
    if importlib.util.find_spec("onnxruntime"):
        peer_load_ms, session = timed(lambda: onnxruntime_session(model, threads))
        feed = dict(zip((i.name for i in session.get_inputs()), arrays.values(), strict=True))
        runners["peer"] = lambda: session.run(None, feed)
    times = interleaved(runners, seconds)
    medians = [statistics.median(found) * 1e3 for found in times.values()]
    results, runs = [runner() for runner in runners.values()], len(times["ours"])
    ours = (model.stem, threads, import_ms, compile_ms, medians[0], runs)
    if peer_load_ms is None:
        return Timing(*ours)
    peer = f"onnxruntime {metadata.version('onnxruntime')}"
    apart = max(difference(a, b) for a, b in zip(*results, strict=True))
    return Timing(*ours, peer, peer_load_ms, medians[1], medians[0] / medians[1], apart)


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds that a call took, and what it returned."""
    start = time.perf_counter()
    result = function()
    return (time.perf_counter() - start) * 1e3, result


def heading(threads: int) -> str:
    """What the columns of `row` are."""
    names = ("import", "compile", "run", "ort load", "ort run")
    columns = "".join(f"{name:>10}" for name in names)
    return f"{f'ms, {threads} thread(s)':<26}{columns}{'ratio':>8}{'difference':>12}"


def row(timing: Timing) -> str:
    """One model as a line of the table."""
    ours = (timing.import_ms, timing.compile_ms, timing.run_ms)
    line = f"{timing.model:<26}" + "".join(f"{ms:>10.2f}" for ms in ours)
    if timing.peer is None:
        return f"{line}  (onnxruntime is not installed)"
    peer = f"{timing.peer_load_ms:>10.2f}{timing.peer_run_ms:>10.2f}"
    return f"{line}{peer}{timing.ratio:>8.2f}{timing.max_difference:>12.1e}"

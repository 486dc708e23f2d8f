"""Side by side with other libraries: in one process, in turns, on the same inputs and threads.

mlc.compare(ex, "model.onnx", x)      ratio to ONNX Runtime: 0.95 (9.1 ms against 9.6 ms, …)
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from mlcnb.core import display
from mlcnb.core.errors import MissingDependencyError
from mlcnb.runtime.executable import Executable
from mlcnb.runtime.threads import get_num_threads
from mlcnb.runtime.turns import interleaved


def onnxruntime_session(model: str | Path | bytes, threads: int, exact: bool = True) -> Any:
    """ONNX Runtime's session on the CPU with so many threads and all its optimisations.

    exact: sums of products of bytes are exact; by default ONNX Runtime lets pairs of them saturate
    at 16 bits on CPUs that have AVX2 and no dot products, and its results then differ by CPU.

    Its threads spin while it runs, as they do by default, and stop when it returns: else they go on
    for milliseconds, and whoever has the next turn is one core short.

    Raises:
        MissingDependencyError: onnxruntime is not installed.
    """
    try:
        import onnxruntime
    except ImportError:
        hint = "pip install 'mlcnb[bench]'"
        raise MissingDependencyError("onnxruntime is not installed", hint=hint) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.add_session_config_entry("session.x64quantprecision", "1" if exact else "0")
    given = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])


@dataclass(frozen=True)
class Comparison(display.Shown):
    """Medians in milliseconds of an executable and of ONNX Runtime; how far the results differ.

    ratio is ours by theirs: below 1, mlcnb is the faster one.
    """

    ours_ms: float
    peer_ms: float
    peer: str
    threads: int
    runs: int
    max_difference: float

    @property
    def ratio(self) -> float:
        """Our time by the peer's."""
        return self.ours_ms / self.peer_ms

    def __repr__(self) -> str:
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        return (
            f"ratio to {self.peer}: {self.ratio:.2f} "
            f"({self.ours_ms:.2f} ms against {self.peer_ms:.2f} ms, medians of {self.runs} runs "
            f"in turns on {threads}, largest difference {self.max_difference:.1e})"
        )


def compare(
    ex: Executable, model: str | Path | bytes, *inputs: np.ndarray, seconds: float = 2.0
) -> Comparison:
    """Time `ex` beside ONNX Runtime on the model it came from.

    The inputs have the shapes and dtypes of the model's.

    Args:
        ex: what `compile` made of the model.
        model: the ONNX file, or its bytes.
        inputs: the inputs, in order.
        seconds: how long to measure.

    Raises:
        MissingDependencyError: onnxruntime is not installed.
    """
    threads = get_num_threads()
    session = onnxruntime_session(model, threads)
    names = [i.name for i in session.get_inputs()]
    feed = dict(zip(names, inputs, strict=True))
    contestants = {"ours": lambda: ex(*inputs), "peer": lambda: session.run(None, feed)}
    times = interleaved(contestants, seconds)
    apart = max(
        difference(a, b) for a, b in zip(as_list(ex(*inputs)), session.run(None, feed), strict=True)
    )
    return Comparison(
        statistics.median(times["ours"]) * 1e3,
        statistics.median(times["peer"]) * 1e3,
        f"ONNX Runtime {metadata.version('onnxruntime')}",
        threads,
        len(times["ours"]),
        apart,
    )


def as_list(results: Any) -> list[np.ndarray]:
    """The results of a program as arrays: it has one, or a tuple of them."""
    parts = results if isinstance(results, list | tuple) else [results]
    return [np.asarray(part) for part in parts]


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """The largest absolute difference of two arrays."""
    return float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)), initial=0.0))

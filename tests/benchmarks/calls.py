"""What calling costs: a graph of one Relu on 16 numbers, from Python, beside ONNX Runtime.

There is next to nothing to compute, so the time is that of checking arguments, allocating the
result and going in and out of native code. Microseconds, medians, in turns.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import mlcnb as mlc
from mlcnb.observe.peers import onnxruntime_session
from mlcnb.runtime.turns import interleaved
from tests.benchmarks.memory_child import RELU

#: calls that are timed together
TIMES = 200


def run() -> dict[str, float]:
    """Microseconds of one call of each; prints them."""
    x = np.zeros((1, 16), np.float32)
    ex = mlc.compile(mlc.from_onnx(RELU), target="llvm")
    session = onnxruntime_session(RELU, 1)
    runners = {
        "mlcnb": repeated(lambda: ex(x)),
        "ONNX Runtime": repeated(lambda: session.run(None, {"x": x})),
        "NumPy": repeated(lambda: np.maximum(x, 0)),
    }
    times = interleaved(runners, seconds=2.0, clock=time.perf_counter)
    found = {name: statistics.median(t) / TIMES * 1e6 for name, t in times.items()}
    for name, microseconds in found.items():
        print(f"a call of one Relu, {name:<14}{microseconds:>8.2f} us", flush=True)
    return found


def repeated(call: Callable[[], object]) -> Callable[[], object]:
    """The call many times."""

    def many() -> None:
        for _ in range(TIMES):
            call()

    return many

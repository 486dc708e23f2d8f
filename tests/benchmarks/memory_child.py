"""The process whose memory is read: it loads a model, runs it, and prints its peaks as JSON.

python memory_child.py mlcnb|onnxruntime MODEL THREADS

It imports what the engine needs and nothing else. The start, from which peaks are counted, is when
it has loaded and run a model of one Relu.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

#: float32 x[1, 16] -> Relu -> y[1, 16], as the bytes of an ONNX file
RELU = bytes.fromhex(
    "08083a3e0a0c0a0178120179220452656c75120472656c755a130a0178120e0a0c080112080a0208010a0208"
    "1062130a0179120e0a0c080112080a0208010a02081042040a001011"
)


def peaks(engine: str, path: str, threads: int) -> dict[str, float]:
    """In MB: the most while loading and while running, above the start; the most of all."""
    load = {"mlcnb": ours, "onnxruntime": peer}[engine]
    load(RELU, threads)()
    start = status("VmRSS")
    reset_peak()
    model = load(path, threads)
    loaded = status("VmHWM")
    reset_peak()
    for _ in range(3):
        model()
    ran = status("VmHWM")
    return {"load": loaded - start, "run": ran - start, "whole": max(loaded, ran)}


def ours(model: str | bytes, threads: int) -> Callable[[], Any]:
    """What a program does that keeps nothing but the executable."""
    import mlcnb as mlc

    mlc.set_num_threads(threads)
    ex = mlc.compile(mlc.from_onnx(model), target="llvm")
    infos = [p.struct_info for p in ex.mod["main"].params]
    arrays = [random(info.shape.values, str(info.dtype)) for info in infos]
    return lambda: ex(*arrays)


def peer(model: str | bytes, threads: int) -> Callable[[], Any]:
    """ONNX Runtime as it comes, on so many threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    kinds = {"tensor(float)": "float32", "tensor(int64)": "int64"}
    feed = {i.name: random(i.shape, kinds[i.type]) for i in session.get_inputs()}
    return lambda: session.run(None, feed)


def random(dims: Any, dtype: str) -> np.ndarray:
    """Normal values, or ones where they are whole numbers; a dimension that is open is 1."""
    shape = [int(d) if isinstance(d, int) or hasattr(d, "value") else 1 for d in dims]
    if dtype != "float32":
        return np.ones(shape, dtype)
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def status(key: str) -> float:
    """A line of /proc/self/status in MB: VmRSS is what is resident, VmHWM the most it has been."""
    with open("/proc/self/status") as file:
        line = next(each for each in file if each.startswith(f"{key}:"))
    return int(line.split()[1]) * 1024 / 1e6


def reset_peak() -> None:
    """Let VmHWM begin again at what is resident now."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


if __name__ == "__main__":
    print(json.dumps(peaks(sys.argv[1], sys.argv[2], int(sys.argv[3]))))

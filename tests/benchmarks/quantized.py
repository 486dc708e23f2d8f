"""EfficientNet-Lite0 in float32 and in int8, both quantised forms, beside ONNX Runtime.

python -m tests.benchmarks quantized --threads 1 2

Milliseconds, medians; all programs of a number of threads take turns. `differing`: logits of one
photo that are not ONNX Runtime's.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np

import mlcnb as mlc
from mlcnb.observe.peers import onnxruntime_session
from mlcnb.runtime.turns import interleaved
from tests.models.quantized import FORMS, SCALES, SOURCE, photos, quantized_model


def run(args: argparse.Namespace) -> None:
    """Time float32 and the quantised forms, and print a row for each."""
    files = {"float32": SOURCE}
    files |= {
        f"{form} {scales}": quantized_model(form, scales) for form in FORMS for scales in SCALES
    }
    programs = {name: mlc.compile(mlc.from_onnx(file), "llvm") for name, file in files.items()}
    x = photos()[0]
    print(f"{'ms':24}{'threads':>8}{'mlcnb':>8}{'ort':>8}{'ratio':>8}{'differing':>11}")
    for threads in args.threads:
        mlc.set_num_threads(threads)
        for name, file in files.items():
            ex, session = programs[name], onnxruntime_session(file, threads)
            runs = {"ours": lambda: ex(x), "peer": lambda: session.run(None, {"x": x})}  # noqa: B023
            times = interleaved(runs, args.seconds or 1.5)
            ours, peer = (statistics.median(times[who]) * 1e3 for who in runs)
            apart = int((np.asarray(ex(x)) != session.run(None, {"x": x})[0]).sum())
            told = f"{threads:>8}{ours:>8.2f}{peer:>8.2f}{ours / peer:>8.2f}{apart:>11}"
            print(f"{name:24}{told}", flush=True)

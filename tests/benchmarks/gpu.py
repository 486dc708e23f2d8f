"""Kernels and models on a GPU beside cuBLAS, cuDNN and torch: python -m tests.benchmarks.gpu

Everything lies on the GPU before the clock runs. Ours and the peer's launches are CUDA graphs, so
that kernels are compared; a figure is the median of repeats of some replays in a row, timed by
events of the GPU. `call` is a whole call of ours from Python. Results are compared with the peer's.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import mlcnb as mlc
from mlcnb import dlight as dl
from mlcnb import relax
from mlcnb.relax.struct_info import TensorStructInfo

op = relax.op
Make = Callable[..., Any]


@dataclass(frozen=True)
class Work:
    """One operator: ours from relax variables, the peer's from torch's tensors.

    flops, bytes: what it takes at least, of which the rate is told. exact: what ours is compared
    with, where that is not the peer's result. options: of `mlc.compile`.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    ours: Make
    peer: Make
    flops: float = 0
    bytes: float = 0
    dtype: str = "float32"
    tolerance: float = 1e-3
    exact: Make | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """Microseconds, and how far the results are apart, relative to the largest value."""

    name: str
    ours_us: float
    peer_us: float
    call_us: float
    rate: str
    error: float

    @property
    def ratio(self) -> float:
        """Our time by the peer's."""
        return self.ours_us / self.peer_us


def product(n: int, m: int, k: int, dtype: str = "float32") -> Work:
    """A matrix product; of halves the sums are float32."""
    made: Make = op.matmul
    if dtype != "float32":
        made = lambda x, w: op.astype(op.matmul(x, w, out_dtype="float32"), dtype)
    return Work(
        f"matmul {dtype} {n}x{m}x{k}", ((n, k), (k, m)), made, lambda x, w: x @ w,
        flops=2.0 * n * m * k, dtype=dtype, tolerance=1e-3 if dtype == "float32" else 1e-2,
    )  # fmt: skip


def by_warpgroups(n: int, m: int, k: int, loads: str = "cp.async") -> Work:
    """A product of halves by `wgmma`, compared with one in float64."""
    made = product(n, m, k, "float16")
    options = {"target": "cuda -arch=sm_90a", "schedule": warpgroups(loads)}
    exact: Make = lambda x, w: x.double() @ w.double()
    by = "wgmma" + (" and TMA" if loads == "tma" else "")
    return replace(made, name=f"{made.name} by {by}", exact=exact, options=options)


def rounded(n: int, m: int, k: int) -> Work:
    """A product of float32 rounded to tf32, by both; compared with one in float64."""
    import torch

    def peer(x: Any, w: Any) -> Any:
        asked = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return x @ w
        finally:
            torch.backends.cuda.matmul.allow_tf32 = asked

    exact: Make = lambda x, w: x.double() @ w.double()
    made = product(n, m, k)
    return replace(made, name=f"{made.name} by tf32", peer=peer, exact=exact, tolerance=2e-3,
                   options={"schedule": by_rule(dl.gpu.Matmul(tf32=True))})  # fmt: skip


def in_wide_tiles(n: int, m: int, k: int) -> Work:
    """A product of float32 in tiles of 256 x 128."""
    made = product(n, m, k)
    options = {"schedule": by_rule(dl.gpu.Matmul(wide=True))}
    return replace(made, name=f"{made.name} in wide tiles", options=options)


def warpgroups(loads: str) -> Callable[[Any, Any], Any]:
    """The schedules of `WarpgroupMatmul`, which no default takes."""
    return by_rule(dl.gpu.WarpgroupMatmul(loads=loads))


def by_rule(rule: Any) -> Callable[[Any, Any], Any]:
    """The schedules of a rule that is named."""

    def schedule(func: Any, target: Any) -> Any:
        made = rule.apply(func, target)
        if made is None:
            raise AssertionError(f"{rule} does not take the product")
        return made

    return schedule


def works() -> Iterator[Work]:
    """What is timed."""
    import torch
    import torch.nn.functional as F

    for n in (512, 1024, 2048, 4096):
        yield product(n, n, n)
    for n in (1024, 2048, 4096):
        yield in_wide_tiles(n, n, n)
    for n in (1024, 2048, 4096):
        yield product(n, n, n, "float16")
    for n in (1024, 2048, 4096):
        yield rounded(n, n, n)
    if torch.cuda.get_device_capability() == (9, 0):
        for n in (2048, 4096, 8192):
            yield by_warpgroups(n, n, n)
            yield by_warpgroups(n, n, n, "tma")
    yield product(1, 4096, 4096)
    square, size = (4096, 4096), 4.0 * 4096 * 4096
    yield Work("add", (square, square), op.add, lambda x, y: x + y, bytes=3 * size)
    yield Work("sum of rows", (square,), lambda x: op.sum(x, axis=-1), lambda x: x.sum(-1),
               bytes=size)  # fmt: skip
    yield Work("softmax", (square,), lambda x: op.nn.softmax(x, axis=-1),
               lambda x: F.softmax(x, -1), bytes=2 * size)  # fmt: skip
    yield Work("layer norm", (square, (4096,), (4096,)),
               lambda x, g, b: op.nn.layer_norm(x, g, b, axes=[-1]),
               lambda x, g, b: F.layer_norm(x, (4096,), g, b), bytes=2 * size)  # fmt: skip
    yield Work("transpose", (square,), op.permute_dims, lambda x: x.T.contiguous(), bytes=2 * size)
    heads = (2, 512, 16, 64)
    yield Work("attention", (heads,) * 3, op.nn.attention,
               lambda q, k, v: F.scaled_dot_product_attention(
                   *(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2),
               flops=4.0 * 2 * 16 * 512 * 512 * 64)  # fmt: skip
    for c, size_, o, w in ((64, 56, 64, 3), (256, 14, 256, 3), (256, 56, 64, 1)):
        yield Work(f"conv2d 8x{c}x{size_}x{size_} to {o}, {w}x{w}",
                   ((8, c, size_, size_), (o, c, w, w)),
                   lambda x, y, w=w: op.nn.conv2d(x, y, padding=w // 2),
                   lambda x, y, w=w: F.conv2d(x, y, padding=w // 2),
                   flops=2.0 * 8 * c * size_ * size_ * o * w * w)  # fmt: skip


def time_of(call: Callable[[], Any], repeats: int = 9, seconds: float = 0.02) -> float:
    """Microseconds of a call on the GPU's current stream: the median of repeats."""
    import torch

    def once(count: int) -> float:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(count):
            call()
        last.record()
        last.synchronize()
        return 1e3 * first.elapsed_time(last) / count

    once(3)
    count = max(3, min(1000, int(seconds * 1e6 / once(3))))
    return statistics.median(once(count) for _ in range(repeats))


def graph_of(work: Work) -> Any:
    """A module of one operator."""
    params = [
        relax.Var(f"x{n}", TensorStructInfo(s, work.dtype)) for n, s in enumerate(work.shapes)
    ]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(work.ours(*params))
        bb.emit_func_output(out)
    return bb.get()


def compiled(mod: Any, target: str = "cuda", **options: Any) -> Any:
    """For this GPU, replayed as one CUDA graph."""
    with mlc.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
        return mlc.compile(mod, target=target, **options)


def of_operator(work: Work) -> Figure:
    """Time one operator, results compared."""
    import torch

    torch.manual_seed(0)
    given = [torch.randn(s, device="cuda").to(getattr(torch, work.dtype)) for s in work.shapes]
    ex = compiled(graph_of(work), **work.options)
    found, expected = as_torch(ex(*given)), (work.exact or work.peer)(*given)
    far = float((found.float() - expected.float()).abs().max() / expected.float().abs().max())
    if not far < work.tolerance:
        raise AssertionError(f"{work.name}: results are {far} apart")
    ours, call = times_of(ex, given)
    peer = time_of(recorded(lambda: work.peer(*given)))
    speed = f"{work.flops / ours / 1e6:.1f} TFLOP/s"
    rate = speed if work.flops else f"{work.bytes / ours / 1e3:.0f} GB/s"
    return Figure(work.name, ours, peer, call, rate, far)


def times_of(ex: Any, given: Any) -> tuple[float, float]:
    """Of the replayed launches alone, and of a whole call."""
    ex(*given)  # this one is recorded
    call = time_of(lambda: ex(*given))
    return time_of(ex.plans().plan().bound.replay), call


def recorded(call: Callable[[], Any]) -> Callable[[], Any]:
    """The launches of torch's, to be replayed."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = call()
    return lambda: (kept, graph.replay())


def as_torch(array: Any) -> Any:
    """A result as torch's tensor, shared."""
    import torch

    return torch.as_tensor(array, device="cuda")


def of_models() -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Networks of torchvision with random weights, one picture, beside torch's CUDA graph."""
    import torch
    import torchvision

    def figure(name: str) -> Figure:
        torch.manual_seed(0)
        model = getattr(torchvision.models, name)().eval()
        x = torch.randn(1, 3, 224, 224)
        mod = relax.frontend.torch.from_exported_program(torch.export.export(model, (x,)))
        ex = compiled(mod)
        model, x = model.cuda(), x.cuda()
        with torch.no_grad():
            found, expected = ex(x), model(x)
            found = as_torch(found[0] if isinstance(found, tuple | list) else found)
            far = float((found - expected).abs().max() / expected.abs().max())
            if not far < 1e-3:
                raise AssertionError(f"{name}: results are {far} apart")
            ours, call = times_of(ex, (x,))
            peer = time_of(recorded(lambda: model(x)))
        launches = f"{len(ex.plans().launches())} launches"
        return Figure(f"{name}, batch 1", ours, peer, call, launches, far)

    for name in ("resnet18", "mobilenet_v2", "resnet50"):
        yield name, lambda name=name: figure(name)


def table(figures: list[Figure]) -> str:
    """Figures as a table in Markdown."""
    columns = "ours, us", "peer, us", "ratio", "rate", "error"
    columns = "ours, us", "peer, us", "ratio", "call, us", "rate", "error"
    lines = [f"| | {' | '.join(columns)} |", "| --- |" + " --: |" * len(columns)]
    for x in figures:
        times = f"{x.ours_us:.1f} | {x.peer_us:.1f} | {x.ratio:.2f} | {x.call_us:.0f}"
        lines.append(f"| {x.name} | {times} | {x.rate} | {x.error:.0e} |")
    if figures:
        mean = math.exp(statistics.fmean(math.log(x.ratio) for x in figures))
        lines.append(f"| geometric mean | | | {mean:.2f} | | | |")
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    """The GPU and the versions of what was timed."""
    import cupy
    import torch

    device = torch.cuda.get_device_properties(0)
    return {
        "gpu": device.name, "processors": device.multi_processor_count, "torch": torch.__version__,
        "cupy": cupy.__version__, "cuda": torch.version.cuda, "numpy": np.__version__,
    }  # fmt: skip


def main() -> int:
    """Time, print and write what was asked for; 1 if something failed."""
    import torch

    made = argparse.ArgumentParser(prog="python -m tests.benchmarks.gpu", description=__doc__)
    made.add_argument("names", nargs="*", help="parts of cases' names; all without any")
    made.add_argument("--json", type=Path, help="write the figures here, after each row")
    asked = made.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    figures: list[Figure] = []
    failed: dict[str, str] = {}
    print(machine(), flush=True)
    todo: list[tuple[str, Callable[[], Figure]]] = [
        *((w.name, lambda w=w: of_operator(w)) for w in works()), *of_models()
    ]  # fmt: skip
    for name, run in todo:
        if asked.names and not any(n in name for n in asked.names):
            continue
        try:
            figures.append(run())
            print(table(figures[-1:]).splitlines()[2], flush=True)
        except Exception as error:  # noqa: BLE001 the others are still timed
            failed[name] = f"{type(error).__name__}: {error}"
            print(name, failed[name][:1500], flush=True)
        if asked.json:
            asked.json.parent.mkdir(parents=True, exist_ok=True)
            told = {"machine": machine(), "figures": [asdict(x) for x in figures], "failed": failed}
            asked.json.write_text(json.dumps(told, indent=1))
    print(table(figures))
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())

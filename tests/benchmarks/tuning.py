"""What half a minute of search finds for each case, beside the default schedule and the best peer.

python -m tests.benchmarks tuning --threads 1 --seconds 30 [--json FILE]

For each case the kernels of its model are tuned, then default, tuned and peers take turns; whole
models are cases too. Programs whose name begins with "generic" are searched without default rules:
by TVM's generic ones, 64 candidates of them, however long that takes, which is told. `ratio` is the
tuned time by the default's as these turns say, `search` what the search itself said (with
its 95 % interval where there is one kernel), `by peer` the tuned time by that of the fastest peer.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

import mlcnb as mlc
from mlcnb import meta_schedule as ms
from mlcnb.meta_schedule.contest import arguments
from mlcnb.runtime.turns import clock_for, interleaved
from mlcnb.script import from_source
from tests.benchmarks import conv, gemm, machine, models, singles
from tests.benchmarks.case import Case
from tests.benchmarks.contestants import (
    OURS,
    NotForThis,
    installed,
    ready,
    threads_of_all,
    versions,
)

#: candidates of a search by generic rules
TRIALS = 64
PRODUCT = """
@T.prim_func
def main(A: T.Buffer((1024, 1024), "float32"), B: T.Buffer((1024, 1024), "float32"),
         C: T.Buffer((1024, 1024), "float32")):
    for i, j, k in T.grid(1024, 1024, 1024):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
CONVOLUTION = """
@T.prim_func
def main(X: T.Buffer((1, 64, 58, 58), "float32"), W: T.Buffer((64, 64, 3, 3), "float32"),
         Y: T.Buffer((1, 64, 56, 56), "float32")):
    for n, f, y, x, c, r, q in T.grid(1, 64, 56, 56, 64, 3, 3):
        with T.block("conv"):
            vn, vf, vy, vx, vc, vr, vq = T.axis.remap("SSSSRRR", [n, f, y, x, c, r, q])
            with T.init():
                Y[vn, vf, vy, vx] = T.float32(0)
            Y[vn, vf, vy, vx] = (
                Y[vn, vf, vy, vx] + X[vn, vc, vy + vr, vx + vq] * W[vf, vc, vr, vq]
            )
"""
#: sizes of products that no tile divides
ODD = ((1, 1001, 999), (100, 100, 100), (49, 119, 217), (112, 238, 310))
#: the operators in which the default schedules stand furthest from the best peer, by parts of names
WORST = (
    "top 5 of", "top 100 of", "gather", "rows of a table", "pad by reflection", "stride 1",
    "softmax", "5x5", "transpose",
)  # fmt: skip


def cases() -> Iterator[Case]:
    """Products of odd sizes, then the worst operators."""
    yield from (gemm.product("tuning", *size) for size in ODD)
    for case in chain.from_iterable(singles.cases(suite) for suite in singles.SUITES):
        if any(part in case.name for part in WORST):
            yield case


def generic() -> Iterator[tuple[str, Any, Case]]:
    """Naive loops of a product and of ResNet-50's 3x3 convolution, and what the default makes."""
    size, given = (1024, 1024, 1024), {"pads": [1] * 4, "strides": [1, 1]}
    yield "generic 1024x1024x1024", from_source(PRODUCT), gemm.product("tuning", *size)
    whole = conv.convolution("tuning", "", (1, 64, 56, 56), (64, 64, 3, 3), False, given)
    yield "generic conv 3x3, 64x56", from_source(CONVOLUTION), whole


def run(args: argparse.Namespace) -> None:
    """Tune each case; a row for each, and the geometric means."""
    peers, _ = installed(("numpy", "torch", "onnxruntime"))
    facts = machine.describe("llvmlite") | versions(peers)
    print(machine.line(facts), f"load {os.getloadavg()[0]:.1f}", sep="\n")
    heads = f"{'default':>12}{'tuned':>12}{'ratio':>8}{'search':>22}{'by peer':>9}{'tried':>7}"
    print(f"{'case':44}{heads}")
    rows = []
    for threads in args.threads:
        with threads_of_all(threads, peers):
            whole = models.cases(names=tuple(args.names))
            for case in chain((c for c in cases() if _wanted(c.name, args)), whole):
                rows.append(_row(case, threads, peers, args.seconds or 30.0))
            for name, func, case in generic():
                if _wanted(name, args):
                    _generic_row(name, func, case, threads)
    if rows:
        ratio, peer = (statistics.geometric_mean(r[k] for r in rows) for k in ("ratio", "peer"))
        print(f"geometric means: {ratio:.3f} of the default's time, {peer:.3f} of the peer's")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"machine": facts, "rows": rows}, file, indent=1)


def _wanted(name: str, args: argparse.Namespace) -> bool:
    return not args.names or any(part in name for part in args.names)


def _generic_row(name: str, func: Any, case: Case, threads: int) -> None:
    """Search naive loops by generic rules, and race the best against what is made by default."""
    start, used = time.perf_counter(), sum(os.times()[:4])
    database = ms.tune_tir(
        func, "llvm", "", TRIALS, num_trials_per_iter=16, space="post-order-apply",
        strategy="evolutionary", database="memory", seed=0,
    )  # fmt: skip
    took, used = time.perf_counter() - start, sum(os.times()[:4]) - used
    best = ms.compile_tir(database, func, "llvm")
    assert best is not None
    tuned = mlc.compile(best.mod, "llvm", schedule=None)
    args = arguments(func)
    runs = {"default": ready(OURS, case, threads, {}), "tuned": lambda: tuned(*args)}
    found = interleaved(runs, 4.0, clock=clock_for(threads, True)[1])
    times = {k: statistics.median(v) for k, v in found.items()}
    ratio = times["tuned"] / times["default"]
    print(
        f"{name:44}{times['default'] * 1e6:>9.1f} us{times['tuned'] * 1e6:>9.1f} us{ratio:>8.3f}"
        f"{took:>8.0f} s, {used:.0f} of CPU  {len(database)} tried; {1 / ratio:.2f} of its speed",
        flush=True,
    )


def _row(case: Case, threads: int, peers: list[str], seconds: float) -> dict[str, Any]:
    """Tune the kernels of a case, then let all take turns."""
    mod = case.loops if case.loops is not None else mlc.from_onnx(case.model)
    found: Any = mlc.tune(mod, seconds=seconds, threads=threads)
    runs = {"default": ready(OURS, case, threads, {})}
    with found.database:
        runs["tuned"] = ready(OURS, case, threads, {})
    for name in peers:
        with suppress(NotForThis):
            runs[name] = ready(name, case, threads, {})
    times = {k: statistics.median(v) for k, v in interleaved(runs, 2.0).items()}
    peer = min((times[p] for p in peers if p in times), default=times["default"])
    ratio = times["tuned"] / times["default"]
    told = f"{found.ratio:.3f}"
    if hasattr(found, "interval"):
        told += " [{:.3f}, {:.3f}]".format(*found.interval)
    tasks = [t for t, _ in found.tasks] if hasattr(found, "tasks") else [found]
    tried = sum(len(t.trials) for t in tasks)
    print(
        f"{case.name[:42]:44}{times['default'] * 1e6:>9.1f} us{times['tuned'] * 1e6:>9.1f} us"
        f"{ratio:>8.3f}{told:>22}{times['tuned'] / peer:>9.2f}{tried:>7}",
        flush=True,
    )
    return {
        "case": case.name, "threads": threads, "default": times["default"],
        "tuned": times["tuned"], "ratio": ratio, "search": found.ratio,
        "peer": times["tuned"] / peer, "tried": tried,
    }  # fmt: skip

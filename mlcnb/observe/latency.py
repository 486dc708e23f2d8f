"""How long the threads of a block wait: for memory, and for their own sums.

waiting_of_blocks(kernel, device, occupancy)     cycles of a kernel's blocks
waiting(statement, device.latency, lengths)      of one thread, from a statement on
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy as np

from mlcnb.arith.atoms import variables_of
from mlcnb.arith.evaluate import evaluate
from mlcnb.core.node import Node, children, walk
from mlcnb.ir import expr as e
from mlcnb.ir.prim_ops import as_int
from mlcnb.machine.gpu import Gpu, Occupancy
from mlcnb.observe.warps import totals
from mlcnb.observe.warps.kernels import Kernel
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import SHARED_SCOPES
from mlcnb.tir.buffer import BufferLoad

#: iterations of a loop that the compiler writes out whole, and of a longer one at a time (NVCC's
#: habit, where no barrier is in it): their loads are on the way together
WHOLE, AT_ONCE = 32, 4


def waiting_of_blocks(kernel: Kernel, device: Gpu, occupancy: Occupancy) -> float:
    """Cycles that a block waits, for each wave of blocks: where blocks differ, as long as they do
    on average, and the longest one at least once.
    """
    body = kernel.launch.body
    lengths = [(n, totals.range_of(n, kernel)[1]) for n in walk(body) if isinstance(n, s.For)]
    most = {n: count for n, count in lengths if count < 1 << 31}
    grid = kernel.launch.grid.values()
    sizes = [as_int(axis.dom.extent) or 1 for axis in grid]
    differing = [n for n in most if as_int(n.extent) is None]
    if not differing or prod(sizes) > totals.MOST:
        return waiting(body, device.latency, most)
    places = [x.reshape(-1) for x in np.indices(sizes)]
    frame = {axis.var: at for axis, at in zip(grid, places, strict=True)}
    columns = [evaluate(n.extent, frame, most[n]) for n in differing]
    rows = np.stack([np.broadcast_to(x, len(places[0])) for x in columns], axis=1)
    found, often = np.unique(np.maximum(rows, 0), axis=0, return_counts=True)
    cycles = np.array([
        waiting(body, device.latency, {**most, **dict(zip(differing, map(int, row), strict=True))})
        for row in found
    ])  # fmt: skip
    waves = math.ceil(kernel.blocks / max(1, device.multiprocessors * max(1, occupancy.blocks)))
    return max(float(np.average(cycles, weights=often)), float(cycles.max()) / waves)


def waiting(n: Node, latency: Mapping[str, int], lengths: Mapping[Any, int]) -> float:
    """Cycles that a thread waits for memory and for its own sums, from a kernel's first statement.

    lengths: of loops; one that is not there counts as one iteration.

    What does not depend on what is on its way does not wait for it: loads of one statement, of
    statements between two barriers that share no buffer, and of iterations that the compiler writes
    out beside each other. Everything else comes one after the other.
    """
    if isinstance(n, s.SeqStmt):
        return _in_order(n.seq, latency, lengths)
    if isinstance(n, s.For):
        count = lengths.get(n, 1)
        inner = waiting(n.body, latency, lengths)
        sums = latency["arithmetic"] * count if _sums_up(n) else 0
        if n.kind in (s.ForKind.UNROLLED, s.ForKind.VECTORIZED) or not inner:
            return max(inner, sums)
        if any(_waits(x) for x in walk(n.body)):
            return inner * count
        return max(inner * (1 if count <= WHOLE else math.ceil(count / AT_ONCE)), sums)
    if _waits(n):
        return latency["barrier"]
    parts = [x for x in children(n) if isinstance(x, s.Stmt)]
    own = [x for x in children(n) if not isinstance(x, s.Stmt)]
    loads = {x.buffer.scope for part in own for x in walk(part) if isinstance(x, BufferLoad)}
    cycles = latency["global"] if "global" in loads else 0
    cycles += latency["shared"] if loads & set(SHARED_SCOPES) else 0
    return cycles + max((waiting(part, latency, lengths) for part in parts), default=0)


def _in_order(
    parts: Iterable[s.Stmt], latency: Mapping[str, int], lengths: Mapping[Any, int]
) -> float:
    """Statements one after the other: the longest chain of those that depend on each other."""
    total, ends = 0.0, []  # type: float, list[tuple[float, set[Any]]]
    for part in parts:
        cycles = waiting(part, latency, lengths)
        if any(_waits(x) for x in walk(part)):
            total += max((end for end, _ in ends), default=0) + cycles
            ends = []
            continue
        read = {x.buffer.data for x in walk(part) if isinstance(x, BufferLoad)}
        written = {x.buffer.data for x in walk(part) if isinstance(x, s.BufferStore)}
        start = max((end for end, made in ends if made & read), default=0)
        ends.append((start + cycles, written))
    return total + max((end for end, _ in ends), default=0)


def _waits(n: Node) -> bool:
    return isinstance(n, e.Call) and n.op == "tir.tvm_storage_sync"


def _sums_up(loop: s.For) -> bool:
    """True if iterations update one element after the other."""
    stores = (x for x in walk(loop.body) if isinstance(x, s.BufferStore))
    return any(loop.loop_var not in variables_of(x.indices) for x in stores)

"""What all warps of a kernel ask of memory, counted without following each of them.

    found = totals(kernel)
    found.counts[number].requests, .taken, .ideal, .worst      exact, of a kernel of any size

What a request takes depends on where its lanes lie beside each other, and on where the first one
lies within 128 bytes. So variables in which an address is linear, and which decide nothing else
(usually those of the blocks and of the long loops), need not be gone through: of each only the
remainders of its steps by 128 count, and remainders of sums are found by convolution. The other
variables are gone through, with all threads of a block at once, and patterns of lanes that come
again are counted together.

Where these are too many, a sample of the blocks is counted; `Totals.blocks` says how many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, product
from math import prod
from typing import Any

import numpy as np

from mlcnb.arith import Analyzer, detect_linear_equation
from mlcnb.arith.evaluate import Frame, Unknown, evaluate
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir.expr import Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.machine.warp import LANES, PERIOD
from mlcnb.observe.warps.kernels import Instruction, Kernel, Sizes
from mlcnb.observe.warps.requests import UNFOLLOWED, Reader, served
from mlcnb.tir import stmt as s
from mlcnb.tir.access.scope import ROOT, Scope, parts
from mlcnb.tir.buffer import BufferLoad, reads_memory
from mlcnb.tir.functor import heads

#: threads times iterations of one statement that are gone through at most, and at once
MOST, AT_ONCE = 1 << 23, 1 << 19
#: requests that are looked at together
_ROWS = 1 << 15


@dataclass
class Count:
    """One instruction in all warps that were counted.

    Attributes:
        requests: times that a warp did it.
        lanes: lanes that took part, of all of them together.
        taken: sectors, or wavefronts of shared memory.
        ideal: the fewest that it could take.
        worst: the most sectors of one request; in shared memory the n of the worst n-way conflict.
    """

    requests: int = 0
    lanes: int = 0
    taken: int = 0
    ideal: int = 0
    worst: int = 0

    @property
    def efficiency(self) -> float:
        """`ideal` of `taken`."""
        return self.ideal / self.taken if self.taken else 1.0

    def __add__(self, other: Count) -> Count:
        a, b = self, other
        requests, lanes = a.requests + b.requests, a.lanes + b.lanes
        return Count(requests, lanes, a.taken + b.taken, a.ideal + b.ideal, max(a.worst, b.worst))


@dataclass
class Totals:
    """What was counted.

    Attributes:
        counts: by the number of the instruction's site; none for those of `unseen`.
        blocks: how many blocks were counted; of: how many there are.
        unseen: numbers of instructions whose addresses are not known, and why.
    """

    counts: dict[int, Count]
    blocks: int
    of: int
    unseen: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Statement:
    """A statement with what decides whether and how often it runs."""

    node: Any
    scope: Scope

    @property
    def loops(self) -> list[s.For]:
        """The loops around it, outermost first."""
        return [x for x in self.scope.loops if isinstance(x, s.For)]


@dataclass(frozen=True)
class Plan:
    """How a statement is counted.

    through: variables that are gone through, with first value and count; fixed: the others' first
    values; steps: of each site the others' (bytes in each step, count).
    """

    statement: Statement
    through: dict[Var, tuple[int, int]]
    fixed: Frame
    steps: dict[int, list[tuple[int, int]]]

    @property
    def points(self) -> int:
        """How many values the variables that are gone through take together."""
        return prod(count for _, count in self.through.values())


def totals(kernel: Kernel, most: int = MOST) -> Totals:
    """What all warps ask for.

    Args:
        kernel: the kernel.
        most: threads times iterations of one statement that are gone through; where there are
            more, fewer blocks are counted.
    """
    reader = Reader(kernel)
    statements = list(statements_of(kernel.launch.body, reader))
    axes = {axis.var: axis.dom for axis in kernel.launch.grid.values()}
    plans = [_planned(kernel, x, set(axes)) for x in statements]
    blocks = None
    if any(plan.points * kernel.threads > most for plan in plans):
        plans = [_planned(kernel, x, set()) for x in statements]
        dear = max(plan.points for plan in plans) * kernel.threads
        blocks = sample_of(kernel, max(1, min(most // max(dear, 1), kernel.blocks)))
    counts: dict[int, Count] = {}
    for plan in plans:
        if plan.points * kernel.threads > 4 * most:
            reader.skip(plan.statement.node, f"more than {most:,} threads and iterations")
            continue
        _count(kernel, plan, blocks, reader, counts)
    counts = {number: c for number, c in counts.items() if number not in reader.unseen}
    counted = kernel.blocks if blocks is None else len(blocks)
    return Totals(counts, counted, kernel.blocks, reader.unseen)


def sample_of(kernel: Kernel, count: int) -> list[Sizes]:
    """Blocks evenly spread over the grid, the first and (of several) the last among them."""
    last = kernel.blocks - 1
    numbers = {round(n * last / max(count - 1, 1)) for n in range(count)}
    return [kernel.at(n) for n in sorted(numbers)]


# -- statements ------------------------------------------------------------------------------------


#: what decides how often a body runs, and must not be read from memory
_DECIDES = {
    s.For: "a loop whose length is read from memory",
    s.IfThenElse: "a condition that is read from memory",
}


def statements_of(n: s.Stmt, reader: Reader, scope: Scope = ROOT) -> Iterator[Statement]:
    """The statements of a kernel that touch memory."""
    touching = [x for x in heads(n) if reads_memory(x)]
    if isinstance(n, UNFOLLOWED):
        reader.skip(n, type(n).__name__)
    elif touching and type(n) in _DECIDES:
        reader.skip(n, _DECIDES[type(n)])
    elif isinstance(n, s.BufferStore):
        yield Statement(n, scope)
    else:
        yield from (Statement(x, scope) for x in touching)
        for part, inner in parts(n, scope):
            asks = isinstance(n, s.AssertStmt)  # what stands behind it is thought to run
            yield from statements_of(part, reader, scope if asks else inner)


def _planned(kernel: Kernel, x: Statement, blocks: set[Var]) -> Plan:
    """Which variables are gone through; those of blocks that are not named are left to samples."""
    ranges = {n.loop_var: range_of(n, kernel) for n in x.loops}
    for axis in kernel.launch.grid.values():
        if axis.var in blocks:
            ranges[axis.var] = 0, as_int(axis.dom.extent) or 1
    deciding = deciding_of(x)
    accesses = [n for n in walk(x.node) if isinstance(n, BufferLoad | s.BufferStore)]
    linear: dict[Var, dict[int, int]] = {}
    for var in ranges:
        steps = None if var in deciding else _steps(kernel, accesses, var)
        if steps is not None:
            linear[var] = steps
    through = {var: r for var, r in ranges.items() if var not in linear}
    numbers = [kernel.program.numbers[n.buffer] for n in accesses]
    return Plan(
        x,
        through,
        {var: ranges[var][0] for var in linear},
        {n: [(steps.get(n, 0), ranges[var][1]) for var, steps in linear.items()] for n in numbers},
    )


def range_of(n: s.For, kernel: Kernel) -> tuple[int, int]:
    """First value and count of a loop: bounds of them where other variables decide."""
    first, extent = as_int(n.min), as_int(n.extent)
    if first is not None and extent is not None:
        return first, extent
    analyzer = Analyzer()
    for axis in kernel.launch.axes.values():
        analyzer.bind(axis.var, axis.dom)
    low, high = analyzer.const_bounds(n.min)[0], analyzer.const_bounds(n.min + n.extent)[1]
    if not abs(low) < 1 << 31 or not abs(high) < 1 << 31:
        return 0, 1 << 62  # nobody knows: it is too long to be counted
    return int(low), max(int(high) - int(low), 0)


def deciding_of(x: Statement) -> set[Var]:
    """Variables that decide whether, or how often, a part of a statement runs."""
    found: set[Var] = set()
    for loop in x.loops:
        found |= _variables(loop.min) | _variables(loop.extent)
        if as_int(loop.min) is None or as_int(loop.extent) is None:
            found.add(loop.loop_var)
    parts = [*x.scope.conditions, *(value for _, value in x.scope.values)]
    for n in walk(x.node):
        match n:
            case e.Call(op="tir.if_then_else", args=args):
                parts.append(args[0])
            case e.Select(condition=condition):
                parts.append(condition)
            case e.And() | e.Or():
                parts.append(n)
            case e.Let(value=value):
                parts.append(value)
            case BufferLoad(predicate=lanes) | s.BufferStore(predicate=lanes) if lanes is not None:
                parts.append(lanes)
    return found.union(*map(_variables, parts))


def _variables(x: Any) -> set[Var]:
    return {n for n in walk(x) if isinstance(n, Var)}


def _steps(kernel: Kernel, accesses: list[Any], var: Var) -> dict[int, int] | None:
    """Of each access how many bytes it moves for each step of a variable; None: not linear."""
    found = {}
    for n in accesses:
        number = kernel.program.numbers[n.buffer]
        instruction = kernel.instructions.get(number)
        if instruction is None:
            continue
        moved = _linear(n, var)
        if moved is None:
            return None
        found[number] = moved * kernel.program.sites[number].itemsize
    return found


def _linear(n: Any, var: Var) -> int | None:
    if not any(var in _variables(i) for i in n.indices):
        return 0
    if len(n.indices) != 1:
        return None
    index: Any = n.indices[0]
    if isinstance(index, e.Ramp):
        if var in _variables(index.stride):
            return None
        index = index.base
    if index.dtype.lanes != 1:
        return None
    parts = detect_linear_equation(index, [var])
    return as_int(parts[0]) if parts else None


# -- counting --------------------------------------------------------------------------------------


def _count(
    kernel: Kernel,
    plan: Plan,
    blocks: list[Sizes] | None,
    reader: Reader,
    counts: dict[int, Count],
) -> None:
    """Add what the instructions of a statement take."""
    patterns: dict[int, list[np.ndarray]] = {}
    for frame, active in frames_of(kernel, plan, blocks):
        active = active & runs_of(plan.statement, frame, active, reader)
        if not active.any():
            continue
        for instruction, at, on in reader.columns(plan.statement.node, frame, active):
            found = _patterns(at.reshape(-1, LANES), on.reshape(-1, LANES))
            patterns.setdefault(instruction.number, []).append(found)
    for number, found_of in patterns.items():
        rows = np.concatenate(found_of)
        table, inverse = np.unique(rows[:, :-1], axis=0, return_inverse=True)
        times = np.zeros(len(table), np.int64)
        np.add.at(times, inverse.reshape(-1), rows[:, -1])
        own = _taken(kernel.instructions[number], table, times, _remainders(plan.steps[number]))
        counts[number] = counts.get(number, Count()) + own


def frames_of(
    kernel: Kernel, plan: Plan, blocks: list[Sizes] | None
) -> Iterator[tuple[Frame, np.ndarray]]:
    """Values of all variables, for all threads of a block in many iterations at once."""
    threads = np.arange(kernel.warps * LANES)
    exist = threads < kernel.threads
    of_thread = kernel.thread_frame(np.minimum(threads, kernel.threads - 1))
    ranges = [range(first, first + count) for first, count in plan.through.values()]
    points = product([None] if blocks is None else blocks, *ranges)
    size = max(1, AT_ONCE // len(threads))
    while some := list(islice(points, size)):
        frame: Frame = {var: np.tile(x, len(some)) for var, x in of_thread.items()}
        frame.update(plan.fixed)
        for n, var in enumerate(plan.through, 1):
            frame[var] = np.repeat(np.array([p[n] for p in some]), len(threads))
        if blocks is not None:
            at = [kernel.block_frame(p[0]) for p in some]  # type: ignore[arg-type]
            for var in at[0]:
                frame[var] = np.repeat(np.array([f[var] for f in at]), len(threads))
        yield frame, np.tile(exist, len(some))


def runs_of(x: Statement, frame: Frame, active: np.ndarray, reader: Reader) -> np.ndarray:
    """For which threads and iterations a statement runs; values of its `let`s join the frame."""
    on = active
    try:
        for var, value in x.scope.values:
            frame[var] = None if reads_memory(value) else evaluate(value, frame, None)
        for loop in x.loops:
            if as_int(loop.min) is None or as_int(loop.extent) is None:
                first, extent = evaluate(loop.min, frame), evaluate(loop.extent, frame)
                value = frame[loop.loop_var]
                on = on & (value >= first) & (value < first + extent)
        for condition in x.scope.conditions:
            on = on & np.asarray(evaluate(condition, frame), bool)
    except Unknown as reason:
        reader.skip(x.node, str(reason))
        return np.zeros_like(active)
    return on


def _patterns(at: np.ndarray, on: np.ndarray) -> np.ndarray:
    """Rows of [remainder of the first byte, bytes of each lane from there or -1, how often]."""
    runs = on.any(axis=1)
    at, on = at[runs], on[runs]
    if not len(at):
        return np.empty((0, LANES + 2), np.int64)
    first = np.where(on, at, np.iinfo(np.int64).max).min(axis=1)
    beside = np.where(on, at - first[:, None], -1)
    rows, times = np.unique(
        np.hstack([(first % PERIOD)[:, None], beside]), axis=0, return_counts=True
    )
    return np.hstack([rows, times[:, None]])


def _remainders(steps: list[tuple[int, int]]) -> np.ndarray:
    """How often sums of steps leave each remainder by PERIOD."""
    found = np.zeros(PERIOD, object)
    found[0] = 1
    for nbytes, count in steps:
        own = [0] * PERIOD
        for turn in range(min(count, PERIOD)):
            own[turn * nbytes % PERIOD] += count // PERIOD + (turn < count % PERIOD)
        turned = [times * np.roll(found, r) for r, times in enumerate(own) if times]
        found = np.sum(turned, axis=0) if turned else np.zeros_like(found)
    return found


def _taken(of: Instruction, rows: np.ndarray, times: np.ndarray, remainders: np.ndarray) -> Count:
    """What patterns take, at each remainder as often as it comes."""
    total = Count()
    active = rows[:, 1:] >= 0
    for shift in np.flatnonzero(remainders).tolist():
        often = int(remainders[shift])
        for start in range(0, len(rows), _ROWS):
            part = slice(start, start + _ROWS)
            on = active[part]
            at = rows[part, 1:] + (rows[part, :1] + shift) % PERIOD
            found, own = served(of, np.where(on, at, 0), on), times[part]
            total += Count(
                often * int(own.sum()), often * int(on.sum(axis=1) @ own),
                often * int(found.taken @ own), often * int(found.ideal @ own),
                int(found.worst.max(initial=0)),
            )  # fmt: skip
    return total

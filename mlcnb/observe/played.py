"""A block of a kernel, played: what its threads do with asynchronous copies, and when.

    played = Played(kernel, own, block, rates, device)
    played.run(home)                 home: of `homes`, a statement that holds a whole pipeline
    played.spans, played.starts      copies on their way, waits, barriers, products; steps

How often things happen follows from the program; how long they take is predicted: a group arrives
a latency after its bytes came through the block's part of L2, one group after the other. Threads
have clocks of their own, so that a warp that has tiles copied runs ahead of those that multiply;
what it waits for, stages that are given back, is no span.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlcnb.arith.evaluate import Frame, evaluate
from mlcnb.codegen.arrivals import COMMIT, WAIT
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir.prim_ops import as_int
from mlcnb.machine.gpu import Gpu, Occupancy
from mlcnb.observe.latency import waiting
from mlcnb.observe.warps import totals
from mlcnb.observe.warps.kernels import Kernel, Sizes, place
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.bulk import ARRIVE, BARRIERS, BULKS, EXPECT, number_of
from mlcnb.tir.analysis.bulk import WAIT as PHASE
from mlcnb.tir.analysis.cost import flops, tensor_flops
from mlcnb.tir.analysis.kernels import BLOCK_AXES, IN_BLOCK_AXES, launch_of
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import StmtFunctor, bodies
from mlcnb.tir.transform.inject_ptx_async_copy import ASYNC_COPY

BARRIER = "tir.tvm_storage_sync"
#: what issues copies, what waits for them: for groups, or for phases of barriers
COPIES, WAITS = {ASYNC_COPY, *BULKS}, {WAIT, PHASE}
#: steps of a loop that are played; a longer one is cut there, and says so
MOST_STEPS = 2048


@dataclass(frozen=True)
class Span:
    """What happens from one cycle to another.

    Attributes:
        kind: "copy" (of a group, on its way), "wait", "barrier" or "product".
        step: the number of the step in which it begins; start, end: cycles.
        group: the number of the group of a copy, or of the last one waited for; else -1.
        nbytes: that a group brings, of all threads of the block.
    """

    kind: str
    step: int
    start: float
    end: float
    group: int = -1
    nbytes: int = 0

    @property
    def cycles(self) -> float:
        """How long it takes."""
        return self.end - self.start


@dataclass(frozen=True)
class Rates:
    """What a block gets of its multiprocessor.

    Attributes:
        nbytes: through L2 in a cycle; latency: cycles until a copy arrives; barrier: of one.
        flops: in a cycle; blocks: that share the multiprocessor.
    """

    nbytes: float
    latency: int
    barrier: int
    flops: float
    blocks: int

    @staticmethod
    def of(device: Gpu, kernel: Kernel, occupancy: Occupancy) -> Rates:
        """The rates of one block, where others of the kernel run beside it."""
        busy = math.ceil(kernel.blocks / device.multiprocessors)
        blocks = max(1, min(occupancy.blocks, busy))
        through_l2 = min(device.l2 / min(device.multiprocessors, kernel.blocks), 64)
        return Rates(
            through_l2 / blocks, device.latency["global"], device.latency["barrier"],
            device.flops / blocks, blocks,
        )  # fmt: skip


def longest(kernel: Kernel, own: PrimFunc) -> Sizes:
    """The block whose loops have the most iterations: the first one where all are alike."""
    launch = launch_of(own.body)
    lengths = [n.extent for n in walk(launch.body) if isinstance(n, s.For)]
    open_ones = [n for n in lengths if as_int(n) is None]
    if not open_ones or kernel.blocks > totals.MOST:
        return kernel.at(0)
    of_axis = dict(zip(BLOCK_AXES, _places(kernel.grid), strict=True))
    frame: Frame = {axis.var: of_axis[tag] for tag, axis in launch.grid.items()}
    total = sum(np.broadcast_to(evaluate(n, frame, 0), kernel.blocks) for n in open_ones)
    return kernel.at(int(np.argmax(total)))


def _calls(n: Any) -> set[str]:
    return {x.op for x in walk(n) if isinstance(x, e.Call)}


def homes(n: Any) -> Iterator[s.Stmt]:
    """The smallest statements that hold a whole pipeline: what issues, closes and waits."""
    inner = [x for x in bodies(n) if _calls(x) & {*COPIES, COMMIT, *WAITS}]
    whole = [x for x in inner if _calls(x) & COPIES and _calls(x) & WAITS]
    if len(inner) == 1 and whole and not (isinstance(n, s.For) and not _is_whole(whole[0])):
        yield from homes(whole[0])
    elif len(whole) > 1 and len(whole) == len(inner) and all(map(_is_whole, whole)):
        for x in whole:
            yield from homes(x)
    elif inner or (_calls(n) & COPIES and _calls(n) & WAITS):
        yield n


def _is_whole(n: Any) -> bool:
    """Whether a statement begins its pipeline itself: copies stand before a loop that waits."""
    loops = [x for x in walk(n) if isinstance(x, s.For) and WAITS & _calls(x)]
    before = [x for x in walk(n) if isinstance(x, s.SeqStmt)]
    return any(
        COPIES & _calls(part) and not WAITS & _calls(part) and any(y in loops for y in x.seq)
        for x in before
        for part in x.seq
    )


class Played(StmtFunctor):
    """A block as it comes by, with the cycle at which it is."""

    def __init__(
        self, kernel: Kernel, own: PrimFunc, block: Sizes, rates: Rates, device: Gpu
    ) -> None:
        self.kernel, self.own, self.rates, self.device = kernel, own, rates, device
        self.axes = launch_of(own.body).axes
        places = *_places(kernel.block), *block
        at = dict(zip((*IN_BLOCK_AXES, *BLOCK_AXES), places, strict=True))
        self.frame: Frame = {axis.var: at[tag] for tag, axis in self.axes.items()}
        #: the threads that come by, and of each thread the cycle at which it is
        threads = int(np.prod(kernel.block))
        self.mask, self.clocks = np.ones(threads, bool), np.zeros(threads)
        self.channel = 0.0
        #: bytes issued and not yet closed; arrival of each group
        self.open = 0.0
        self.groups: list[float] = []
        #: of each barrier when its phase ends, and the group that comes with it; -1: none
        self.phases: dict[int, tuple[float, int]] = {}
        self.spans: list[Span] = []
        #: (begin, groups closed before) of each step; whether a loop gives the steps
        self.starts: list[tuple[float, int]] = [(0.0, 0)]
        self.in_loop = False
        self.is_cut = False
        self.known: dict[tuple[int, int], tuple[Any, float]] = {}
        self.told: dict[int, tuple[Any, set[str]]] = {}

    @property
    def now(self) -> float:
        """The cycle at which all are that come by."""
        return float(self.clocks[self.mask].max())

    def calls(self, n: Any) -> set[str]:
        """The calls in a statement, found once."""
        if id(n) not in self.told:
            self.told[id(n)] = n, _calls(n)
        return self.told[id(n)][1]

    def run(self, n: Any) -> None:
        """Play a statement."""
        if self.calls(n) & {*COPIES, COMMIT, *WAITS, BARRIER, *BARRIERS}:
            self.visit_stmt(n)
        else:
            self.spend("product", self.cycles(n))

    def visit_inside(self, n: Any) -> None:
        """What stands in a statement, in order."""
        for part in bodies(n):
            self.run(part)

    def visit_let_stmt_(self, n: s.LetStmt) -> None:
        """A value of all threads, if it is known."""
        self.frame[n.var] = evaluate(n.value, self.frame, None)
        self.run(n.body)

    def visit_for_(self, n: s.For) -> None:
        """Iterations; those of the loop that waits are steps."""
        first = _one(evaluate(n.min, self.frame, 0))
        count = _one(evaluate(n.extent, self.frame, totals.range_of(n, self.kernel)[1]))
        is_step = bool(WAITS & self.calls(n)) and not self.in_loop
        self.is_cut = self.is_cut or count > MOST_STEPS
        for i in range(min(count, MOST_STEPS)):
            self.frame[n.loop_var] = first + i
            if is_step:
                self.begin()
            self.in_loop = self.in_loop or is_step
            self.run(n.body)
            self.in_loop = self.in_loop and not is_step

    def visit_if_then_else_(self, n: s.IfThenElse) -> None:
        """As many threads as the condition holds for go one way, the others the other one."""
        holds = np.broadcast_to(evaluate(n.condition, self.frame, True), self.mask.shape)
        outer = self.mask
        for part, mask in ((n.then_case, outer & holds), (n.else_case, outer & ~holds)):
            if part is not None and mask.any():
                self.mask = mask
                self.run(part)
        self.mask = outer

    def visit_evaluate_(self, n: s.Evaluate) -> None:
        """A copy, the end of a group, a wait, a barrier."""
        call: Any = n.value
        if call.op == ASYNC_COPY:
            reads = np.mean(evaluate(call.args[5], self.frame, True)) if len(call.args) > 5 else 1
            self.open += _one(call.args[4]) * int(self.mask.sum()) * float(reads)
        elif call.op == EXPECT:  # the copies that bring these bytes follow at once
            self.open = _one(call.args[1]) * int(self.mask.sum())
            self.close()
            self.arrive(call, self.groups[-1], len(self.groups) - 1)
        elif call.op == ARRIVE:
            self.arrive(call, self.now)
        elif call.op == COMMIT:
            self.close()
        elif call.op == PHASE:
            self.wait_phase(call)
        elif call.op == WAIT:
            self.wait(_one(call.args[0]))
        elif call.op == BARRIER:
            self.spend("barrier", self.rates.barrier)

    def close(self) -> None:
        """The group that is open is on its way, behind those before it."""
        if not self.open:
            self.groups.append(self.now)
            return
        self.channel = max(self.channel, self.now) + self.open / self.rates.nbytes
        arrived = self.channel + self.rates.latency
        number = len(self.groups)
        step = bisect_right([start for start, _ in self.starts], self.now) - 1
        self.spans.append(Span("copy", step, self.now, arrived, number, round(self.open)))
        self.groups.append(arrived)
        self.open = 0.0

    def wait(self, but: int) -> None:
        """Until all but so many groups have arrived."""
        if not self.in_loop:
            self.begin()
        wanted = len(self.groups) - but
        until = max([self.now, *self.groups[: max(wanted, 0)]])
        self.spend("wait", until - self.now, wanted - 1)

    def arrive(self, call: e.Call, cycle: float, group: int = -1) -> None:
        """A phase of a barrier ends at a cycle, or later."""
        number = _one(evaluate(number_of(call), self.frame, 0))
        before, known = self.phases.get(number, (0.0, -1))
        self.phases[number] = max(before, cycle), max(known, group)

    def wait_phase(self, call: e.Call) -> None:
        """Until the last phase in which somebody arrived has ended."""
        number = _one(evaluate(number_of(call), self.frame, 0))
        until, group = self.phases.get(number, (0.0, -1))
        if group >= 0:
            if not self.in_loop:
                self.begin()
            self.spend("wait", until - self.now, group)
        else:
            self.clocks[self.mask] = max(until, self.now)

    def begin(self) -> None:
        """A step begins."""
        self.starts.append((self.now, len(self.groups)))

    def spend(self, kind: str, cycles: float, group: int = -1) -> None:
        """Threads do something for so long."""
        if cycles > 0:
            step = len(self.starts) - 1
            now = self.now
            self.spans.append(Span(kind, step, now, now + cycles, group))
            self.clocks[self.mask] = now + cycles

    def cycles(self, n: s.Stmt) -> float:
        """How long a statement takes that neither copies nor meets."""
        key = id(n), int(self.mask.sum())
        if key not in self.known:
            body = n
            for axis in reversed(self.axes.values()):
                body = s.AttrStmt(axis, "thread_extent", axis.dom.extent, body)
            own = self.own.with_body(body)
            on_tensors = {kind: as_int(count) or 0 for kind, count in tensor_flops(own).items()}
            rest = (as_int(flops(own)) or 0) - sum(on_tensors.values())
            lengths = {x: as_int(x.extent) or 1 for x in walk(n) if isinstance(x, s.For)}
            share = key[1] / (len(self.mask) * self.kernel.blocks)
            busy = share * self.rates.blocks * self.device.tensor_cycles(on_tensors)
            waits = waiting(n, self.device.latency, lengths)
            terms = share * rest / self.rates.flops, busy, waits
            self.known[key] = n, max(terms)
        return self.known[key][1]


def _one(x: Any) -> int:
    """One value for all threads: the largest, where they differ."""
    found = as_int(x)
    return int(np.max(x)) if found is None else found


def _places(sizes: Sizes) -> Any:
    """x, y and z of everything in a box, x fastest."""
    return place(np.arange(int(np.prod(sizes))), sizes)

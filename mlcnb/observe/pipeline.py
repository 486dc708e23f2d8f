"""The timeline of a pipeline: a block's asynchronous copies beside its products, step by step.

    timeline = mlc.observe.gpu_report(sch).pipelines[0]
    timeline.steps[3].phase        "prologue", "steady" or "epilogue"
    timeline.spans                 copies on their way, waits, barriers, products, in cycles
    timeline.limit                 "products" or "copies", with why
    timeline.to_data()             the same for JSON

The lowered kernel is played for one block, the one that has most to do, as its threads come by:
`cp.async`, what closes a group of them, waits, barriers, and everything between. How often things
happen is exact. How long they take is predicted: a group arrives a latency after its bytes came
through the block's part of L2, one group after the other; what is computed takes as long as the
slowest of FLOPs, tensor cores and the wait for shared memory, with other blocks on the same
multiprocessor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlcnb.arith.evaluate import Frame, evaluate
from mlcnb.codegen.arrivals import COMMIT, WAIT
from mlcnb.core import display
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir.prim_ops import as_int
from mlcnb.machine.gpu import Gpu, Occupancy
from mlcnb.observe.latency import waiting
from mlcnb.observe.warps import totals
from mlcnb.observe.warps.kernels import Kernel, Sizes, place
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.cost import flops, tensor_flops
from mlcnb.tir.analysis.kernels import BLOCK_AXES, IN_BLOCK_AXES, launch_of
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import bodies
from mlcnb.tir.transform.inject_ptx_async_copy import ASYNC_COPY

BARRIER = "tir.tvm_storage_sync"
#: a share of the steady state that waits: above it copies limit
NOTICED = 0.05
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
class Step:
    """One iteration of the pipeline, or what stands before or behind its loops.

    Attributes:
        phase: "prologue" (copies, nothing computed yet), "steady", "epilogue" (no more copies).
        start, end: cycles; waits, products: of them.
        nbytes: copied by the groups that it issues; in_flight: groups on their way at its end.
    """

    number: int
    phase: str
    start: float
    end: float
    waits: float
    products: float
    nbytes: int
    in_flight: int


@dataclass(frozen=True)
class Rates:
    """What a block gets of its multiprocessor.

    Attributes:
        nbytes: through L2 in a cycle; latency: cycles until a copy arrives; barrier: of one.
        flops, tensor_flops: in a cycle; blocks: that share the multiprocessor.
    """

    nbytes: float
    latency: int
    barrier: int
    flops: float
    tensor_flops: float
    blocks: int

    @staticmethod
    def of(device: Gpu, kernel: Kernel, occupancy: Occupancy) -> Rates:
        """The rates of one block, where others of the kernel run beside it."""
        busy = math.ceil(kernel.blocks / device.multiprocessors)
        blocks = max(1, min(occupancy.blocks, busy))
        through_l2 = min(device.l2 / min(device.multiprocessors, kernel.blocks), 64)
        return Rates(
            through_l2 / blocks, device.latency["global"], device.latency["barrier"],
            device.flops / blocks, device.tensor_flops / blocks, blocks,
        )  # fmt: skip


class PipelineTimeline(display.Shown):
    """A pipeline of one kernel, played for one block.

    Attributes:
        name: of the function; kernel: the number of the launch in it; gpu: whose figures are used.
        block: that is played, (x, y, z); rates: what it gets.
        spans, steps: in order; is_cut: whether later steps are left out.
    """

    def __init__(
        self, kernel: Kernel, device: Gpu, block: Sizes, rates: Rates, played: _Played
    ) -> None:
        self.name, self.kernel, self.gpu = kernel.name, kernel.number, device
        self.block, self.rates = block, rates
        self.spans = tuple(sorted(played.spans, key=lambda x: (x.start, x.kind)))
        self.steps = tuple(_steps(played))
        self.is_cut = played.is_cut

    @property
    def cycles(self) -> float:
        """From the first copy to the last product, predicted."""
        return max((x.end for x in self.spans), default=0.0)

    @property
    def depth(self) -> int:
        """The most groups that are on their way at the end of a step."""
        return max((x.in_flight for x in self.steps), default=0)

    @property
    def steady(self) -> list[Step]:
        """The steps in which copies run beside products; all that compute, where there is none."""
        found = [x for x in self.steps if x.phase == "steady"]
        # the first one waits for what was issued right before
        return found[1:] or found or [x for x in self.steps if x.products]

    @property
    def waits(self) -> float:
        """The share of the steady state in which threads wait for copies."""
        total = sum(x.end - x.start for x in self.steady)
        return sum(x.waits for x in self.steady) / total if total else 0.0

    @property
    def limit(self) -> str:
        """What the steady state takes its time from: "copies" or "products"."""
        return "copies" if self.waits > NOTICED else "products"

    @property
    def why(self) -> str:
        """What limits, with the figures."""
        steps = self.steady or self.steps
        each, waits, work = (
            sum(found) / len(steps)
            for found in zip(*((x.end - x.start, x.waits, x.products) for x in steps), strict=True)
        )
        nbytes = max((x.nbytes for x in self.spans if x.kind == "copy"), default=0)
        through = nbytes / self.rates.nbytes
        told = f"a step takes {each:,.0f} cycles, of them {work:,.0f} of products"
        if self.limit == "products":
            return f"{told}; its copies arrive in time (waits: {waits:,.0f})"
        if through >= work:
            cause = (
                f"{nbytes:,} bytes of a group take {through:,.0f} through the block's part of L2"
            )
        else:
            cause = (
                f"a group arrives {self.rates.latency + through:,.0f} after it is issued: more "
                "stages would issue it earlier"
            )
        return f"{told} and {waits:,.0f} of waits for copies: {cause}"

    def to_data(self) -> dict[str, Any]:
        """The same for JSON; cycles are predicted."""
        return {
            "block": self.block, "limit": self.limit, "why": self.why, "depth": self.depth,
            "predicted_cycles": self.cycles, "cut": self.is_cut,
            "steps": [
                {"number": x.number, "phase": x.phase, "start": x.start, "end": x.end,
                 "waits": x.waits, "products": x.products, "bytes": x.nbytes,
                 "in_flight": x.in_flight}
                for x in self.steps
            ],
            "spans": [
                {"kind": x.kind, "step": x.step, "start": x.start, "end": x.end,
                 "group": x.group, "bytes": x.nbytes}
                for x in self.spans
            ],
        }  # fmt: skip


def pipelines_of(
    kernel: Kernel, own: PrimFunc, device: Gpu, occupancy: Occupancy
) -> tuple[PipelineTimeline, ...]:
    """The pipelines of a kernel: one for each place where groups of copies are waited for.

    own: the function lowered to the end, with this launch as its body.
    """
    block, rates = longest(kernel, own), Rates.of(device, kernel, occupancy)
    made = []
    for home in _homes(launch_of(own.body).body):
        played = _Played(kernel, own, block, rates, device)
        played.run(home)
        if played.groups:
            made.append(PipelineTimeline(kernel, device, block, rates, played))
    return tuple(made)


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


def _homes(n: Any) -> Iterator[s.Stmt]:
    """The smallest statements that hold a whole pipeline: what issues, closes and waits."""
    inner = [x for x in bodies(n) if _calls(x) & {ASYNC_COPY, COMMIT, WAIT}]
    whole = [x for x in inner if {ASYNC_COPY, WAIT} <= _calls(x)]
    if len(inner) == 1 and whole and not (isinstance(n, s.For) and not _is_whole(whole[0])):
        yield from _homes(whole[0])
    elif len(whole) > 1 and len(whole) == len(inner) and all(map(_is_whole, whole)):
        for x in whole:
            yield from _homes(x)
    elif inner or {ASYNC_COPY, WAIT} <= _calls(n):
        yield n


def _is_whole(n: Any) -> bool:
    """Whether a statement begins its pipeline itself: copies stand before a loop that waits."""
    loops = [x for x in walk(n) if isinstance(x, s.For) and WAIT in _calls(x)]
    before = [x for x in walk(n) if isinstance(x, s.SeqStmt)]
    return any(
        ASYNC_COPY in _calls(part) and WAIT not in _calls(part) and any(y in loops for y in x.seq)
        for x in before
        for part in x.seq
    )


class _Played:
    """A block as it comes by, with the cycle at which it is."""

    def __init__(
        self, kernel: Kernel, own: PrimFunc, block: Sizes, rates: Rates, device: Gpu
    ) -> None:
        self.kernel, self.own, self.rates, self.device = kernel, own, rates, device
        self.axes = launch_of(own.body).axes
        places = *_places(kernel.block), *block
        at = dict(zip((*IN_BLOCK_AXES, *BLOCK_AXES), places, strict=True))
        self.frame: Frame = {axis.var: at[tag] for tag, axis in self.axes.items()}
        self.now = self.channel = 0.0
        #: bytes issued and not yet closed; arrival of each group
        self.open = 0.0
        self.groups: list[float] = []
        self.spans: list[Span] = []
        #: (begin, groups closed before) of each step; whether a loop gives the steps
        self.starts: list[tuple[float, int]] = [(0.0, 0)]
        self.in_loop = False
        self.is_cut = False
        self.share = 1.0
        self.known: dict[int, tuple[Any, float]] = {}
        self.told: dict[int, tuple[Any, set[str]]] = {}

    def calls(self, n: Any) -> set[str]:
        """The calls in a statement, found once."""
        if id(n) not in self.told:
            self.told[id(n)] = n, _calls(n)
        return self.told[id(n)][1]

    def run(self, n: Any) -> None:
        """Play a statement."""
        if not self.calls(n) & {ASYNC_COPY, COMMIT, WAIT, BARRIER}:
            self.spend("product", self.cycles(n))
        elif isinstance(n, s.For):
            self.loop(n)
        elif isinstance(n, s.IfThenElse):
            self.branch(n)
        elif isinstance(n, s.Evaluate) and isinstance(n.value, e.Call):
            self.call(n.value)
        else:
            if isinstance(n, s.LetStmt):
                self.frame[n.var] = evaluate(n.value, self.frame, None)
            for part in bodies(n):
                self.run(part)

    def loop(self, n: s.For) -> None:
        first = _one(evaluate(n.min, self.frame, 0))
        count = _one(evaluate(n.extent, self.frame, totals.range_of(n, self.kernel)[1]))
        is_step = WAIT in self.calls(n) and not self.in_loop
        self.is_cut = self.is_cut or count > MOST_STEPS
        for i in range(min(count, MOST_STEPS)):
            self.frame[n.loop_var] = first + i
            if is_step:
                self.begin()
            self.in_loop = self.in_loop or is_step
            self.run(n.body)
            self.in_loop = self.in_loop and not is_step

    def branch(self, n: s.IfThenElse) -> None:
        """As many threads as the condition holds for go one way, the others the other one."""
        holds = float(np.mean(evaluate(n.condition, self.frame, True)))
        before = self.share
        for part, share in ((n.then_case, holds), (n.else_case, 1 - holds)):
            if part is not None and share > 0:
                self.share = before * share
                self.run(part)
        self.share = before

    def call(self, call: e.Call) -> None:
        if call.op == ASYNC_COPY:
            reads = np.mean(evaluate(call.args[5], self.frame, True)) if len(call.args) > 5 else 1
            self.open += _one(call.args[4]) * self.kernel.threads * self.share * float(reads)
        elif call.op == COMMIT:
            self.close()
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
        self.spans.append(
            Span("copy", len(self.starts) - 1, self.now, arrived, number, round(self.open))
        )
        self.groups.append(arrived)
        self.open = 0.0

    def wait(self, but: int) -> None:
        """Until all but so many groups have arrived."""
        if not self.in_loop:
            self.begin()
        wanted = len(self.groups) - but
        until = max([self.now, *self.groups[: max(wanted, 0)]])
        self.spend("wait", until - self.now, wanted - 1)

    def begin(self) -> None:
        self.starts.append((self.now, len(self.groups)))

    def spend(self, kind: str, cycles: float, group: int = -1) -> None:
        if cycles > 0:
            step = len(self.starts) - 1
            self.spans.append(Span(kind, step, self.now, self.now + cycles, group))
            self.now += cycles

    def cycles(self, n: s.Stmt) -> float:
        """How long a statement takes that neither copies nor meets."""
        if id(n) not in self.known:
            body = n
            for axis in reversed(self.axes.values()):
                body = s.AttrStmt(axis, "thread_extent", axis.dom.extent, body)
            own = self.own.with_body(body)
            on_tensors = (as_int(tensor_flops(own)) or 0) / self.kernel.blocks
            rest = (as_int(flops(own)) or 0) / self.kernel.blocks - on_tensors
            lengths = {x: as_int(x.extent) or 1 for x in walk(n) if isinstance(x, s.For)}
            terms = (
                rest / self.rates.flops, on_tensors / self.rates.tensor_flops,
                waiting(n, self.device.latency, lengths),
            )  # fmt: skip
            self.known[id(n)] = n, max(terms)
        return self.known[id(n)][1]


def _one(x: Any) -> int:
    """One value for all threads: the largest, where they differ."""
    found = as_int(x)
    return int(np.max(x)) if found is None else found


def _places(sizes: Sizes) -> Any:
    """x, y and z of everything in a box, x fastest."""
    return place(np.arange(int(np.prod(sizes))), sizes)


def _steps(played: _Played) -> Iterator[Step]:
    """The steps of what was played, with their phases."""
    ends = [start for start, _ in played.starts[1:]] + [played.now]
    computed = False
    for number, ((start, _), end) in enumerate(zip(played.starts, ends, strict=True)):
        own = [x for x in played.spans if x.step == number]
        if not own:
            continue
        waits, products = (
            sum((x.cycles for x in own if x.kind == kind), 0.0) for kind in ("wait", "product")
        )
        copied = sum(x.nbytes for x in own if x.kind == "copy")
        computed = computed or products > 0
        phase = "prologue" if not computed else "steady" if copied else "epilogue"
        flying = sum(x.kind == "copy" and x.step <= number and x.end > end for x in played.spans)
        yield Step(number, phase, start, end, waits, products, copied, flying)

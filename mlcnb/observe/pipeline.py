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

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mlcnb.core import display
from mlcnb.machine.gpu import Gpu, Occupancy
from mlcnb.observe.played import Played, Rates, homes, longest
from mlcnb.observe.warps.kernels import Kernel, Sizes
from mlcnb.tir.analysis.kernels import launch_of
from mlcnb.tir.function import PrimFunc

#: a share of the steady state that waits: above it copies limit
NOTICED = 0.05


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


class PipelineTimeline(display.Shown):
    """A pipeline of one kernel, played for one block.

    Attributes:
        name: of the function; kernel: the number of the launch in it; gpu: whose figures are used.
        block: that is played, (x, y, z); rates: what it gets.
        spans, steps: in order; is_cut: whether later steps are left out.
    """

    def __init__(
        self, kernel: Kernel, device: Gpu, block: Sizes, rates: Rates, played: Played
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
    for home in homes(launch_of(own.body).body):
        played = Played(kernel, own, block, rates, device)
        played.run(home)
        if played.groups:
            made.append(PipelineTimeline(kernel, device, block, rates, played))
    return tuple(made)


def _steps(played: Played) -> Iterator[Step]:
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

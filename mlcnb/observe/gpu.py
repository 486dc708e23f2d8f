"""What a GPU makes of a program, without one: an exact report, and a time that is predicted.

    r = mlc.observe.gpu_report(sch)               a schedule, a PrimFunc, a module of one, a kernel
    r = mlc.observe.gpu_report(sch, "H100")       A100, H100, RTX 5090, or "sm_90a"
    r.races, r.out_of_bounds                      () where it is proved that there are none
    k = r.kernels[0]
    k.memory.globals, k.memory.shared             sectors and wavefronts of all warps (`warp_lens`)
    k.statements                                  how many lanes of its warps each statement uses
    k.registers, k.occupancy                      from the cubin where NVRTC is there; else None
    k.predicted.seconds, k.predicted.limit        predicted, never measured; with its terms
    r.pipelines                                   timelines of asynchronous copies beside products
    r.to_data()                                   the same for JSON

Counts are exact for programs of fixed sizes (`mlcnb.observe.warps` says what is left out), races
and bounds where indices are linear; figures of GPUs and the rules of the prediction are
`mlcnb.machine.gpu`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from mlcnb.codegen.arrivals import copies_by_hand
from mlcnb.codegen.cuda.backend import CudaKernel
from mlcnb.codegen.cuda.nvrtc import Resources
from mlcnb.codegen.cuda.sass import Sass
from mlcnb.codegen.races import Race, races
from mlcnb.core import display
from mlcnb.core.errors import CodegenError, MissingDependencyError, MLCError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.prim_ops import as_int
from mlcnb.machine.gpu import Gpu, Occupancy, PredictedTime, Work, gpu
from mlcnb.machine.warp import LANES
from mlcnb.observe.access import function_of
from mlcnb.observe.latency import waiting_of_blocks
from mlcnb.observe.pipeline import PipelineTimeline, pipelines_of
from mlcnb.observe.warps import totals
from mlcnb.observe.warps.kernels import Kernel, kernels_of, words_in
from mlcnb.observe.warps.lens import WarpRun
from mlcnb.observe.warps.requests import Reader
from mlcnb.script import text_of
from mlcnb.target import Target
from mlcnb.tir import stmt as s
from mlcnb.tir.access.inside import OutOfBounds, check_bounds
from mlcnb.tir.analysis.cost import bytes_touched, flops, tensor_flops
from mlcnb.tir.analysis.kernels import kernels_in, launch_of
from mlcnb.tir.analysis.verify_gpu_code import (
    GpuLimits,
    is_verified,
    shared_bytes,
    verify_gpu_code,
)
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.transform.lower import lower


@dataclass(frozen=True)
class Lanes:
    """How a statement uses the lanes of the warps that come by.

    Attributes:
        text: the statement's first line.
        warps: times that a warp runs it with some lane; partial: of those with some lanes idle.
        lanes: that run it, all together.
    """

    text: str
    warps: int
    partial: int
    lanes: int

    @property
    def share(self) -> float:
        """Lanes that run it, of those of the warps that do."""
        return self.lanes / (self.warps * LANES) if self.warps else 1.0


@dataclass(frozen=True)
class GpuKernel:
    """One kernel of a program on a GPU.

    Attributes:
        memory: what its warps ask for: `.globals`, `.shared`, `.counts` by instruction.
        statements: those that some warps run with idle lanes are where threads diverge.
        shared_bytes: of shared memory for each block.
        resources: of the cubin; None: not known, `silent` says why.
        occupancy: with the registers of the cubin, or (`resources` None) without that limit.
        work: what is predicted from; predicted: the least time with its terms.
        uncounted: what of the work only a run knows; it counts as nothing.
        code: its machine code; None: not known without NVRTC and nvdisasm.
    """

    memory: WarpRun
    statements: tuple[Lanes, ...]
    shared_bytes: int
    resources: Resources | None
    silent: str
    occupancy: Occupancy
    work: Work
    predicted: PredictedTime
    uncounted: tuple[str, ...] = ()
    code: Sass | None = None

    @property
    def registers(self) -> int | None:
        """Of a thread; None: not known without NVRTC."""
        return self.resources.registers if self.resources is not None else None

    @property
    def diverging(self) -> list[Lanes]:
        """The statements that some warps run with idle lanes."""
        return [x for x in self.statements if x.partial]

    def to_data(self) -> dict[str, Any]:
        """The same for JSON."""
        kernel, found = self.memory.kernel, self.resources
        return {
            "grid": kernel.grid, "block": kernel.block,
            "instructions": [
                {"text": i.text, "memory": i.memory, "verb": i.verb, "bytes": i.width,
                 "requests": c.requests, "taken": c.taken, "ideal": c.ideal, "worst": c.worst}
                for i, c in self.memory.counts
            ],
            "unseen": self.memory.unseen,
            "uncounted": list(self.uncounted),
            "divergence": [
                {"text": x.text, "warps": x.warps, "partial": x.partial, "lanes": x.lanes}
                for x in self.statements
            ],
            "shared_bytes": self.shared_bytes,
            "registers": self.registers,
            "spills": None if found is None else found.spill_stores + found.spill_loads,
            "machine_code": None if self.code is None else {
                "instructions": dict(self.code.mix().most_common()),
                "hot": self.code.hot and dict(self.code.mix(*self.code.hot).most_common()),
            },
            "occupancy": {
                "blocks": self.occupancy.blocks, "warps": self.occupancy.warps,
                "of": self.occupancy.of, "by": self.occupancy.by,
                "limits": dict(self.occupancy.limits),
            },
            "flops": self.work.flops, "tensor_flops": self.work.tensor_flops,
            "on_tensor_cores": dict(self.work.on_tensor_cores),
            "bytes": self.work.distinct,
            "predicted": {
                "seconds": self.predicted.seconds, "limit": self.predicted.limit,
                "waves": self.predicted.waves, "tail": self.predicted.tail,
                "terms": {x.name: x.seconds for x in self.predicted.terms},
            },
        }  # fmt: skip


class GpuReport(display.Shown):
    """What a GPU makes of a program: correctness first, then each kernel.

    Attributes:
        name: of the program; func: as scheduled; gpu: whose figures are used.
        kernels: its kernels, in order.
    """

    def __init__(self, func: PrimFunc, device: Gpu, name: str = "") -> None:
        self.func = func
        self.gpu = device
        found = kernels_of(func, name)
        self.name = found[0].name
        compiled, silent = _compiled(self.name, func, device)
        code = _code(compiled)
        made: Any = [None] * len(found)
        if compiled is not None:
            made = [(compiled.resources[n], code.get(n)) for n in compiled.sources]
        steps = lower(func, steps=True)
        program, last = steps["UnrollLoop"].before, steps.result
        launches = [program.with_body(n) for n in kernels_in(program.body)]
        self.kernels = tuple(
            _kernel(x, own, device, one, silent)
            for x, own, one in zip(found, launches, made, strict=True)
        )
        self._last = [last.with_body(n) for n in kernels_in(last.body)]

    @cached_property
    def races(self) -> tuple[Race, ...]:
        """Two threads that meet, for each pair of statements; (): there are none, proved.

        Of `copies_by_hand` not all are followed: one that is not told may still come too late.
        """
        return races(self.func)

    @cached_property
    def pipelines(self) -> tuple[PipelineTimeline, ...]:
        """Timelines of asynchronous copies beside products, of all kernels; (): none copies so."""
        return tuple(
            found
            for k, own in zip(self.kernels, self._last, strict=True)
            for found in pipelines_of(k.memory.kernel, own, self.gpu, k.occupancy)
        )

    @property
    def copies_by_hand(self) -> bool:
        """Whether the program itself says when asynchronous copies are waited for."""
        return copies_by_hand(self.func)

    @cached_property
    def out_of_bounds(self) -> tuple[OutOfBounds, ...]:
        """Accesses that leave their buffers, or may; (): none does, proved.

        What tensor cores and copies in bulk take is asked of the kernels (`VerifyGPUCode`).
        """
        limits = GpuLimits.of(Target({"kind": "cuda", "arch": self.gpu.arch}))
        fits = all(verify_gpu_code(x, limits) for x in self._last)
        return tuple(x for x in check_bounds(self.func) if not (fits and is_verified(x.access)))

    @property
    def seconds(self) -> float:
        """Predicted: the least time of all kernels, one after the other."""
        return sum(x.predicted.seconds for x in self.kernels)

    @property
    def flop_rate(self) -> float:
        """Operations a second at the predicted time."""
        work = sum(x.work.flops + x.work.tensor_flops for x in self.kernels)
        return work / self.seconds if self.seconds else 0.0

    def to_data(self) -> dict[str, Any]:
        """The same for JSON; times are seconds, and predicted."""
        return {
            "schema": "mlcnb.gpu/1", "name": self.name, "gpu": self.gpu.name,
            "arch": self.gpu.arch, "sources": list(self.gpu.sources),
            "predicted_seconds": self.seconds,
            "races": [x.to_data() for x in self.races],
            "out_of_bounds": [x.message for x in self.out_of_bounds],
            "kernels": [x.to_data() for x in self.kernels],
            "pipelines": [{"kernel": x.kernel, **x.to_data()} for x in self.pipelines],
        }  # fmt: skip


def gpu_report(program: Any, device: str | Gpu = "A100") -> GpuReport:
    """What a GPU would make of a program, exactly where it can be known, and a predicted time.

    Args:
        program: of fixed shapes and bound to the threads of a GPU: a PrimFunc, a module of one, a
            schedule, or a kernel of `cuda-sim` or `cuda`.
        device: "A100", "H100", "RTX 5090", or their architectures.

    Raises:
        MLCError: it is not bound to threads, or its sizes are open.
        TargetError: no figures of that GPU are known.
    """
    return GpuReport(function_of(program), gpu(device))


def _compiled(name: str, func: PrimFunc, device: Gpu) -> tuple[CudaKernel | None, str]:
    """The kernels as NVRTC compiles them; None where nobody can, and why."""
    try:
        made = CudaKernel(name, func, Target({"kind": "cuda", "arch": device.arch}))
        return (made if made.resources else None), ""
    except MLCError as error:  # no text for it yet, no compiler here, or too large for the GPU
        return None, error.message.splitlines()[0]


def _code(made: CudaKernel | None) -> dict[str, Sass]:
    """The machine code of the kernels, where it can be read."""
    with suppress(MissingDependencyError, CodegenError):
        return made.disassembly if made else {}
    return {}


def _kernel(
    kernel: Kernel,
    own: PrimFunc,
    device: Gpu,
    made: tuple[Resources, Sass | None] | None,
    silent: str,
) -> GpuKernel:
    resources, code = made or (None, None)
    shared = sum(shared_bytes(kernel.launch).values())
    registers = None if resources is None else resources.registers
    occupancy = device.occupancy(kernel.threads, registers, shared)
    memory = WarpRun(kernel, kernel.at(0), 0)
    scale = memory.totals.of / max(1, memory.totals.blocks)
    of_tensors, operations = tensor_flops(own), flops(own)
    on_tensors = {kind: _number(count) for kind, count in of_tensors.items()}
    touched = sum(bytes_touched(_in_loops(own)).values())
    told = [("operations", operations), ("bytes", touched)]
    told[1:1] = [("operations on tensor cores", count) for count in of_tensors.values()]
    work = Work(
        blocks=kernel.blocks,
        threads=kernel.threads,
        flops=_number(operations) - sum(on_tensors.values()),
        on_tensor_cores=on_tensors,
        distinct=_number(touched),
        sectors=round(memory.globals.taken * scale),
        wavefronts=round((memory.shared.taken + memory.globals.requests) * scale),
        cycles=waiting_of_blocks(kernel, device, occupancy),
        occupancy=occupancy,
    )
    return GpuKernel(
        memory, tuple(lanes_of(kernel)), shared, resources, silent, occupancy, work,
        device.predict(work), tuple(dict.fromkeys(what for what, n in told if as_int(n) is None)),
        code,
    )  # fmt: skip


def _in_loops(func: PrimFunc) -> PrimFunc:
    """A kernel with loops for its axes."""
    launch = launch_of(func.body)
    body = launch.body
    for axis in launch.axes.values():
        body = s.For(axis.var, axis.dom.min, axis.dom.extent, s.ForKind.SERIAL, body)
    return func.with_body(body)


def _number(x: Any) -> int:
    return as_int(x) or 0


def lanes_of(kernel: Kernel, most: int = totals.MOST) -> Iterator[Lanes]:
    """How the warps of all blocks run each statement that touches memory.

    Statements of which that is not known (values in memory decide) are left out; where too many
    threads and iterations decide, a sample of the blocks counts for all, as in `totals`.
    """
    reader = Reader(kernel)
    axes = {axis.var for axis in kernel.launch.grid.values()}
    for x in totals.statements_of(kernel.launch.body, reader):
        ranges = {n.loop_var: totals.range_of(n, kernel) for n in x.loops}
        for axis in kernel.launch.grid.values():
            ranges[axis.var] = 0, as_int(axis.dom.extent) or 1
        deciding = totals.deciding_of(totals.Statement(p.const(0), x.scope))
        through = {v: r for v, r in ranges.items() if v in deciding}
        plan = totals.Plan(
            x, through, {v: r[0] for v, r in ranges.items() if v not in deciding}, {}
        )
        blocks = None
        if plan.points * kernel.threads > most:  # a sample of the blocks, as `totals` takes it
            through = {v: r for v, r in through.items() if v not in axes}
            plan = totals.Plan(x, through, plan.fixed, {})
            blocks = totals.sample_of(kernel, max(1, most // max(plan.points * kernel.threads, 1)))
        if plan.points * kernel.threads > 4 * most:
            continue
        often = prod(count for v, (_, count) in ranges.items() if v not in deciding)
        if blocks is not None:
            often = often * kernel.blocks // (len(blocks) * prod(
                count for v, (_, count) in ranges.items() if v in axes and v not in deciding
            ))  # fmt: skip
        found = np.zeros(3, np.int64)
        for frame, active in totals.frames_of(kernel, plan, blocks):
            on = (active & totals.runs_of(x, frame, active, reader)).reshape(-1, LANES)
            lanes = on.sum(axis=1)
            found += [(lanes > 0).sum(), ((lanes > 0) & (lanes < LANES)).sum(), lanes.sum()]
        if found[0]:
            yield Lanes(_told(kernel, x.node), *(int(n) * often for n in found))


def _told(kernel: Kernel, n: Any) -> str:
    if isinstance(n, s.BufferStore):
        return f"{words_in(kernel.program, n)} = …"
    return str(text_of(n)).strip().splitlines()[0]

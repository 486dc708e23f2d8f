"""GPUs as figures: how many warps of a kernel stay on one, and the least time of what they do.

    a100 = gpu("A100")
    a100.occupancy(256, registers=64, shared=32 << 10)      4 blocks, 32 of 64 warps, by registers
    a100.predict(work)                                      terms in seconds: the largest counts

No figure here was measured by this project. Those of one chip are from its maker's data sheet,
those of an architecture from the CUDA C++ Programming Guide (technical specifications per compute
capability), latencies from published microbenchmarks; `Gpu.sources` names them. A prediction is the
largest of the times that each part of the machine needs by itself, so it says what is in the way,
and is no more than that: a least time, not the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from mlcnb.core.errors import TargetError
from mlcnb.machine.warp import LANES

#: registers are given to a warp in so many at once, warps to the four parts of a multiprocessor
REGISTERS_AT_ONCE, PARTS = 256, 4
#: bytes of shared memory are given in so many at once; each block needs some more for itself
SHARED_AT_ONCE, SHARED_OF_SYSTEM = 128, 1024
#: registers that a thread can have
MOST_REGISTERS = 255

_GUIDE = "CUDA C++ Programming Guide, technical specifications per compute capability"
_LATENCIES = "Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU, arXiv 2402.13499"


@dataclass(frozen=True)
class Occupancy:
    """How much of a multiprocessor a kernel keeps busy.

    Attributes:
        blocks: that one multiprocessor holds at once; 0: not even one fits.
        warps: of those blocks, of `of` that it could hold.
        limits: what bounds the blocks ("warps", "blocks", "registers", "shared memory") -> blocks.
    """

    blocks: int
    warps: int
    of: int
    limits: Mapping[str, int]

    @property
    def share(self) -> float:
        """`warps` of `of`."""
        return self.warps / self.of

    @property
    def by(self) -> str:
        """What sets the number of blocks."""
        return min(self.limits, key=lambda name: self.limits[name])


@dataclass(frozen=True)
class Work:
    """What one kernel does, all its threads together.

    Attributes:
        blocks, threads: of the grid, and of a block.
        flops: operations on CUDA cores.
        on_tensor_cores: those on tensor cores, by what their operands are (`Gpu.tensor_flops`).
        distinct: bytes of global memory, each counted once.
        sectors: of 32 bytes that its requests touch.
        wavefronts: passes of the load and store units: of shared memory, and one for each request
            of global memory at least.
        cycles: of one thread that waits for its memory, by the latencies of a GPU.
        occupancy: of the kernel on that GPU.
    """

    blocks: int
    threads: int
    flops: int
    on_tensor_cores: Mapping[str, int]
    distinct: int
    sectors: int
    wavefronts: int
    cycles: float
    occupancy: Occupancy

    @property
    def tensor_flops(self) -> int:
        """All of `on_tensor_cores`."""
        return sum(self.on_tensor_cores.values())


@dataclass(frozen=True)
class Term:
    """One part of a machine, the seconds that it needs by itself, and what `of`."""

    name: str
    seconds: float
    of: str


@dataclass(frozen=True)
class PredictedTime:
    """A least time, predicted: the largest of its terms.

    Attributes:
        terms: each part of the machine.
        waves: rounds of blocks that the whole GPU takes; tail: the share of the last one's places
            that stay empty.
    """

    terms: tuple[Term, ...]
    waves: int
    tail: float

    @property
    def seconds(self) -> float:
        """The largest term."""
        return max(x.seconds for x in self.terms)

    @property
    def limit(self) -> str:
        """What it is the time of."""
        return max(self.terms, key=lambda x: x.seconds).name


@dataclass(frozen=True)
class Gpu:
    """One GPU.

    Attributes:
        name, arch: "A100", "sm_80".
        multiprocessors: how many; clock: cycles of each in a second.
        flops: of float32, in one cycle of one multiprocessor.
        tensor_flops: the same of its tensor cores, by what their operands are; dense, with sums in
            float32 or int32.
        dram: bytes a second of its memory; l2: bytes a cycle of the L2 cache; l2_size: bytes.
        warps, blocks, registers, shared: what one multiprocessor holds; shared memory in bytes.
        latency: cycles until "global" and "shared" memory answers, and of "arithmetic".
        sources: where the figures are from.
    """

    name: str
    arch: str
    multiprocessors: int
    clock: float
    flops: int
    tensor_flops: Mapping[str, int]
    dram: float
    l2: int
    l2_size: int
    warps: int
    blocks: int
    shared: int
    registers: int = 65_536
    latency: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    sources: tuple[str, ...] = ()

    def occupancy(self, threads: int, registers: int | None, shared: int) -> Occupancy:
        """How many blocks one multiprocessor holds.

        Args:
            threads: of a block.
            registers: of a thread; None: not known, and then no limit.
            shared: bytes of shared memory of a block.
        """
        warps = -(-threads // LANES)
        limits = {"warps": self.warps // warps, "blocks": self.blocks}
        if registers is not None:
            each = -(-registers * LANES // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE
            fitting = self.registers // PARTS // each * PARTS
            limits["registers"] = fitting // warps if registers <= MOST_REGISTERS else 0
        used = -(-(shared + SHARED_OF_SYSTEM) // SHARED_AT_ONCE) * SHARED_AT_ONCE
        limits["shared memory"] = self.shared // used
        blocks = min(limits.values())
        return Occupancy(blocks, blocks * warps, self.warps, MappingProxyType(limits))

    def tensor_cycles(self, work: Mapping[str, float]) -> float:
        """Cycles that the tensor cores of one multiprocessor need for so many operations.

        Raises:
            TargetError: they have no such operands, or their rate is not known.
        """
        for kind in work:
            if kind not in self.tensor_flops:
                raise TargetError(
                    f"no rate of the tensor cores of {self.name} for {kind}",
                    hint=f"there are {', '.join(self.tensor_flops)}",
                )
        return sum(count / self.tensor_flops[kind] for kind, count in work.items())

    def predict(self, work: Work) -> PredictedTime:
        """The least time of a kernel, term by term: no cache but for what is counted once.

        DRAM: distinct bytes. L2: every sector that is asked for, as if L1 kept nothing. Load and
        store units: one wavefront a cycle. Arithmetic: at one FMA a lane and cycle. Latency: the
        rounds of blocks one after the other, each as long as one of its threads waits. What
        multiprocessors do is as slow as the busiest of them.
        """
        places = max(1, self.multiprocessors * max(1, work.occupancy.blocks))
        waves = -(-work.blocks // places)
        tail = 1 - work.blocks / (waves * places) if work.blocks else 0.0
        most = -(-work.blocks // self.multiprocessors)  # blocks of the busiest one
        cycles = self.clock * work.blocks / max(1, most)
        l2 = min(self.l2, 64 * self.multiprocessors) * self.clock
        terms = [
            Term("DRAM", work.distinct / self.dram, f"{work.distinct:,} bytes, each once"),
            Term("L2", work.sectors * 32 / l2, f"{work.sectors:,} sectors of 32 bytes"),
            Term("load/store", work.wavefronts / cycles, f"{work.wavefronts:,} wavefronts"),
            Term("FLOPs", work.flops / (cycles * self.flops), f"{work.flops:,} operations"),
        ]
        if work.tensor_flops:
            seconds = self.tensor_cycles(work.on_tensor_cores) / cycles
            terms.append(Term("tensor cores", seconds, f"{work.tensor_flops:,} operations"))
        waits = waves * work.cycles / self.clock
        told = f"{waves:,} {'wave' if waves == 1 else 'waves'} of {work.cycles:,.0f} cycles"
        return PredictedTime((*terms, Term("latency", waits, told)), waves, tail)


def _latency(memory: int, shared: int) -> Mapping[str, int]:
    return MappingProxyType({"global": memory, "shared": shared, "arithmetic": 4, "barrier": 20})


def _tensor(tf32: int, halves: int, int8: int, fp8: int = 0) -> Mapping[str, int]:
    """Rates of tensor cores; of float16 and bfloat16 they are the same, fp8: of its two forms."""
    found = {"tf32": tf32, "float16": halves, "bfloat16": halves, "int8": int8}
    if fp8:
        found |= {"float8_e4m3fn": fp8, "float8_e5m2": fp8}
    return MappingProxyType(found)


#: GPUs that predictions are made for
GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("A100", "sm_80", 108, 1.41e9, 128, _tensor(1024, 2048, 4096), 2039e9, 5120,
            40 << 20, 64, 32, 164 << 10, latency=_latency(466, 29),
            sources=("NVIDIA A100 Tensor Core GPU Architecture (SXM4, 80 GB)", _GUIDE, _LATENCIES)),
        Gpu("H100", "sm_90a", 132, 1.83e9, 256, _tensor(2048, 4096, 8192, 8192), 3352e9, 5120,
            50 << 20, 64, 32, 228 << 10, latency=_latency(479, 29),
            sources=("NVIDIA H100 Tensor Core GPU Architecture (SXM5), at the clock of its tensor "
                     "figures; L2 as the A100's", _GUIDE, _LATENCIES)),
        Gpu("RTX 5090", "sm_120", 170, 2.407e9, 256, _tensor(256, 512, 2048, 1024), 1792e9,
            10_880, 96 << 20, 48, 24, 100 << 10, latency=_latency(541, 30),
            sources=("NVIDIA RTX Blackwell GPU Architecture; L2 at 64 bytes a cycle and "
                     "multiprocessor, an upper bound; latencies of the RTX 4090", _GUIDE,
                     _LATENCIES)),
    )
}  # fmt: skip


def gpu(name: str | Gpu) -> Gpu:
    """A GPU by its name ("A100") or its architecture ("sm_80").

    Raises:
        TargetError: no figures of it are known.
    """
    if isinstance(name, Gpu):
        return name
    wanted = name.lower().removesuffix("a").replace(" ", "")
    for known in GPUS.values():
        if wanted in (known.name.lower().replace(" ", ""), known.arch.removesuffix("a")):
            return known
    raise TargetError(f"no figures of a GPU {name!r}", hint=f"there are {', '.join(GPUS)}")

"""strip: what the machine code of a kernel is made of, and how near it comes to the roof.

    ex.strip("fused_conv2d_relu")     one kernel
    ex.strips()                       all of an executable, the one with the most work first

    counted     in the assembly: instructions, the share that works on vectors, multiply-adds and
                spills of the hot loop; in the loops: FLOPs and bytes of a call
    measured    the median of calls on arrays of its own, nothing else running
    predicted   what the roofline allows for such FLOPs and bytes, `mlcnb.machine`

A kernel is measured alone and again and again, so its data are as near as they can be. In a graph
they come from the kernel before, or from memory: that is what `mlcnb.profile` measures.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mlcnb.codegen.llvm.backend import CompiledKernel
from mlcnb.codegen.llvm.inspect import Counts, Facts
from mlcnb.core import above, display
from mlcnb.core.errors import ExecutionError, MLCError
from mlcnb.machine.roofline import Roofline
from mlcnb.runtime import kernel_call
from mlcnb.runtime.shapes import evaluate
from mlcnb.runtime.tensor import aligned_empty
from mlcnb.runtime.threads import get_num_threads
from mlcnb.tir.analysis import bytes_touched, flops
from mlcnb.tir.buffer import Buffer

#: timed calls of a kernel at most, and seconds after which no other is begun; the first of all
#: does not count
CALLS, SECONDS = 15, 0.3


@dataclass(frozen=True, repr=False)
class Strip(display.Shown):
    """One kernel. Bytes and FLOPs are of one call; None where sizes are not known.

    Attributes:
        facts: of the function with the hottest loop.
        instructions, code_bytes: of all its functions together.
        spills: stores and loads of vectors on the stack, inside the loops of all its functions.
        calls: functions outside of the kernel that it calls.
        seconds: of one call, measured; None where it was not run.
        roofline: of the machine that it ran on.
    """

    kernel: str
    cpu: str
    facts: Facts
    instructions: int
    code_bytes: int | None
    spills: int
    calls: tuple[str, ...]
    flops: int | None
    nbytes: int | None
    seconds: float | None = None
    roofline: Roofline | None = None

    @property
    def hot(self) -> Counts:
        """Counts of the hot loop; of the whole function where nothing loops."""
        return self.facts.hot or self.facts.total

    @property
    def intensity(self) -> float | None:
        """FLOPs for each byte of the arguments."""
        return self.flops / self.nbytes if self.flops is not None and self.nbytes else None

    @property
    def gflops(self) -> float | None:
        """Measured: 10^9 floating-point operations a second."""
        return self.flops / self.seconds / 1e9 if self.flops and self.seconds else None

    @property
    def bandwidth(self) -> float | None:
        """Measured: 10^9 bytes of its arguments a second."""
        return self.nbytes / self.seconds / 1e9 if self.nbytes and self.seconds else None

    @property
    def attainable(self) -> float | None:
        """Predicted: the GFLOP/s that the roofline allows."""
        if self.roofline is None or not self.flops or not self.nbytes:
            return None
        return self.roofline.attainable(self.flops, self.nbytes)

    @property
    def share(self) -> float | None:
        """Measured by predicted: 1.0 is the roof."""
        if self.roofline is None or self.seconds is None or self.nbytes is None:
            return None
        return self.roofline.share(self.flops or 0, self.nbytes, self.seconds)


class Strips(tuple[Strip, ...], display.Shown):
    """The strips of an executable; shows itself as a table."""

    __slots__ = ()

    def plot(self, ax: Any = None) -> Any:
        """Each kernel as a dot under the roof."""
        return display.load("mlcnb.view.strip:plot")(self, ax)  # type: ignore[call-arg]

    def __repr__(self) -> str:
        return display.text(self)


def strip(kernel: Any, measured: bool = True) -> Strip:
    """The strip of a compiled kernel.

    Args:
        kernel: one of `ex.kernels`.
        measured: run it as well (and, once for a process, measure the machine's roofline).

    Raises:
        MLCError: it is interpreted or for a GPU, and has no assembly.
    """
    counted = count(kernel)
    seconds = measure(kernel) if measured else None
    return counted if seconds is None else beside_roof(counted, seconds)


def beside_roof(counted: Strip, seconds: float) -> Strip:
    """The strip with a measured time, and the roofline of this machine."""
    roofline = above.ask("roofline")(get_num_threads())
    return replace(counted, seconds=seconds, roofline=roofline)


def count(kernel: Any) -> Strip:
    """The strip of a kernel that is not run."""
    if not kernel.is_native:
        raise MLCError(
            f"kernel {kernel.name} has no assembly of a CPU to count",
            hint='compile with target="llvm"',
        )
    code = kernel.facts
    sizes = [f.code_bytes for f in code.values()]
    own, called = set(code), (name for f in code.values() for name in f.calls)
    return Strip(
        kernel.name,
        kernel.compiled.cpu.cpu,
        code.hottest,
        sum(f.total.instructions for f in code.values()),
        None if None in sizes else sum(n for n in sizes if n is not None),
        sum(f.looped.spills for f in code.values()),
        tuple(sorted({name for name in called if name not in own})),
        *work_of(kernel.func),
    )


def strips(kernels: Iterable[Any], measured: bool = True) -> Strips:
    """The strips of kernels whose code is there, the one with the most work first."""
    made = [strip(kernel, measured) for kernel in kernels if kernel.is_made]
    return Strips(sorted(made, key=lambda s: (-(s.flops or 0), -(s.nbytes or 0))))


def work_of(func: Any) -> tuple[int | None, int | None]:
    """FLOPs and bytes of one call, where its sizes are known."""
    done, touched = flops(func), bytes_touched(func).values()
    nbytes = sum(touched) if all(isinstance(n, int) for n in touched) else None
    return (done if isinstance(done, int) else None), nbytes


def measure(kernel: CompiledKernel) -> float | None:
    """Median seconds of a call on arrays of its own; None where it cannot be called like that.

    A kernel that is made for another machine, that has open sizes or takes numbers is not run.
    """
    args = arguments(kernel)
    return None if args is None else measure_on(kernel, args)


def measure_on(kernel: CompiledKernel, args: list[np.ndarray]) -> float | None:
    """The same on given arrays; None where the kernel asserts something that they are not."""
    times: list[int] = []
    try:
        kernel_call.run(kernel, args)
        end = time.perf_counter() + SECONDS
        while not times or (len(times) < CALLS and time.perf_counter() < end):
            times.append(kernel_call.run_timed(kernel, args)[0])
    except ExecutionError:
        return None
    return statistics.median(times) / 1e9


def arguments(kernel: CompiledKernel) -> list[np.ndarray] | None:
    """Arrays for every parameter of a kernel that runs here; None where that does not do."""
    params = kernel.signature.params
    if kernel.library is None or kernel.signature.dims:
        return None
    if not all(isinstance(p, Buffer) for p in params):
        return None
    return [_array(p, seed) for seed, p in enumerate(params)]


def _array(buffer: Buffer, seed: int) -> np.ndarray:
    """Small positive floats; zeros of any other dtype, which are indices that are always legal."""
    shape = tuple(evaluate(d, {}) for d in buffer.shape)
    made = aligned_empty(shape, np.dtype(buffer.dtype.numpy))
    made[...] = np.random.default_rng(seed).random(shape) if buffer.dtype.is_float else 0
    return made

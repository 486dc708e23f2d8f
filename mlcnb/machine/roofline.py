"""Roofline: the least time that a piece of work can take on a machine, and what sets it.

           GFLOP/s
    peak |          ____________     least time = max(FLOPs / peak,
         |       / /                                  bytes / bandwidth of the level they fit in)
         |  L2 / / L3                intensity  = FLOPs / bytes
         |   / /                     attainable = min(peak, intensity x bandwidth)
         +----------------
            FLOP per byte

A roof is measured (`mlcnb.roofline`), never taken from a data sheet. Bytes are those of a kernel's
arguments, each counted once; they are taken to lie in the smallest level that holds them all, which
is the most that can be hoped for: a share of the roof is never flattered by it.

Source: S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.core import display

#: what the units of arithmetic are called where they set the limit
COMPUTE = "compute"


@dataclass(frozen=True)
class Level:
    """A level of memory: its name, bytes that fit in it (None: no limit), 10^9 bytes a second."""

    name: str
    nbytes: int | None
    bandwidth: float


@dataclass(frozen=True, repr=False)
class Roofline(display.Shown):
    """The ceilings of a machine on so many threads.

    Attributes:
        peak: 10^9 floating-point operations a second with nothing loaded or stored.
        levels: nearest first; the last one has no limit.
        threads: how many worked when it was measured.
        dtype: of the operations.
    """

    peak: float
    levels: tuple[Level, ...]
    threads: int
    dtype: str = "float32"

    def level(self, nbytes: int) -> Level:
        """The nearest level that holds so many bytes."""
        fitting = (v for v in self.levels if v.nbytes is None or nbytes <= v.nbytes)
        return next(fitting, self.levels[-1])

    def least_seconds(self, flops: int, nbytes: int) -> float:
        """The least time of so many operations on so many bytes."""
        moving = nbytes / self.level(nbytes).bandwidth
        return max(flops / self.peak, moving) / 1e9

    def attainable(self, flops: int, nbytes: int) -> float:
        """GFLOP/s that such work can reach."""
        least = self.least_seconds(flops, nbytes)
        return flops / least / 1e9 if least else 0.0

    def limit(self, flops: int, nbytes: int) -> str:
        """What sets the least time: "compute", or the name of a level."""
        level = self.level(nbytes)
        return COMPUTE if flops / self.peak >= nbytes / level.bandwidth else level.name

    def share(self, flops: int, nbytes: int, seconds: float) -> float:
        """The least time by the time taken: 1.0 is the roof."""
        return self.least_seconds(flops, nbytes) / seconds if seconds else 0.0

    def predicted(
        self, flops: int, traffic: Sequence[int], share: float = 1.0
    ) -> tuple[float, str]:
        """GFLOP/s of work that moves these bytes between the levels, and what sets them.

        Args:
            flops: of one call.
            traffic: bytes that come into the first level from the second, into the second from
                the third, …: a model's, where nothing counted them.
            share: of the peak that the program's vectors and threads can reach.
        """
        times = [(flops / (self.peak * share), COMPUTE if share == 1 else "vector width")]
        below = zip(traffic, self.levels[1:], strict=False)
        times += [(nbytes / level.bandwidth, level.name) for nbytes, level in below]
        least, limit = max(times, key=lambda pair: pair[0])
        return (flops / least if least else 0.0), limit

    def plot(self, dots: Any = (), ax: Any = None, span: tuple[float, float] | None = None) -> Any:
        """The roof over the FLOPs per byte, and where programs stand under it.

        Args:
            dots: (name, FLOP per byte, GFLOP/s) of each program.
            ax: matplotlib axes; by default new ones.
            span: least and largest FLOP per byte that are shown; by default what the dots need.
        """
        return display.load("mlcnb.view.roofline:plot")(self, dots, ax, span)  # type: ignore[call-arg]

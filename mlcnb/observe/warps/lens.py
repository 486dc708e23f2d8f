"""One warp of a kernel, request by request, and what all warps take.

run = warp_run(func, block=(0, 0), warp=0)
run.requests[0].taken, run.requests[0].ways
run.counts                                    each instruction with its `Count`
run.globals, run.shared                       their sums
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from itertools import islice
from operator import add
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.observe.warps.kernels import GLOBAL, SHARED, Instruction, Kernel, Sizes, kernels_of
from mlcnb.observe.warps.requests import Request, requests
from mlcnb.observe.warps.totals import Count, Totals, totals
from mlcnb.tir.function import PrimFunc

#: requests of one warp that are followed
MOST_REQUESTS = 4_096


class WarpRun(display.Shown):
    """A warp of a block of a kernel.

    Attributes:
        name: of the program.
        kernel: the kernel.
        block, warp: which one.
        requests, is_whole: what it asks for, in order: all of it, or the first MOST_REQUESTS;
            followed when they are first looked at.
    """

    def __init__(self, kernel: Kernel, block: Sizes, warp: int, name: str = "") -> None:
        self.kernel = kernel
        self.name = name or kernel.name
        self.block = block
        self.warp = warp

    @cached_property
    def _followed(self) -> list[Request]:
        return list(islice(requests(self.kernel, self.block, self.warp), MOST_REQUESTS + 1))

    @property
    def requests(self) -> list[Request]:
        """What the warp asks for, in order; at most MOST_REQUESTS."""
        return self._followed[:MOST_REQUESTS]

    @property
    def is_whole(self) -> bool:
        """Whether `requests` are all of them."""
        return len(self._followed) <= MOST_REQUESTS

    def __len__(self) -> int:
        return len(self.requests)

    def moved(self, block: Sizes, warp: int) -> WarpRun:
        """Another warp of the same kernel; the totals are kept.

        Raises:
            MLCError: there is no such block or warp.
        """
        at = checked_block(self.kernel, block), checked_warp(self.kernel, warp)
        run = WarpRun(self.kernel, *at, self.name)
        run.totals = self.totals
        return run

    @cached_property
    def totals(self) -> Totals:
        """What all warps take."""
        return totals(self.kernel)

    @property
    def counts(self) -> list[tuple[Instruction, Count]]:
        """Each instruction and what it takes in all warps; not those whose address is not known."""
        numbers = self.kernel.instructions
        return [(i, self.totals.counts.get(n, Count())) for n, i in numbers.items()
                if n not in self.totals.unseen]  # fmt: skip

    def of(self, memory: str) -> Count:
        """The sum of the instructions of one memory, "global" or "shared"."""
        return reduce(add, (c for i, c in self.counts if i.memory == memory), Count())

    @property
    def globals(self) -> Count:
        """What all loads and stores of global memory take, in sectors."""
        return self.of(GLOBAL)

    @property
    def shared(self) -> Count:
        """What all loads and stores of shared memory take, in wavefronts."""
        return self.of(SHARED)

    @property
    def unseen(self) -> dict[str, str]:
        """Loads and stores whose addresses are not known, and why."""
        of_sites = {
            self.kernel.instructions[n].text: reason for n, reason in self.totals.unseen.items()
        }
        return {**self.kernel.unseen, **of_sites}


def warp_run(
    func: PrimFunc, block: Any = None, warp: int = 0, kernel: int = 0, name: str = ""
) -> WarpRun:
    """A warp of a program that is bound to threads.

    Args:
        func: the program, with fixed sizes.
        block: which block: (x, y, z), of which those that are left out are 0, or x alone.
        warp: which warp of the block: threads 32 * warp to 32 * warp + 31, x fastest.
        kernel: which kernel, where the program is several.
        name: of the program; default: its symbol.

    Raises:
        MLCError: there is no such kernel, block or warp, or the program cannot be followed.
    """
    found = kernels_of(func, name)
    if not 0 <= kernel < len(found):
        raise MLCError(f"warp_lens: no kernel {kernel}", hint=f"there are 0 to {len(found) - 1}")
    wanted = found[kernel]
    return WarpRun(wanted, checked_block(wanted, block), checked_warp(wanted, warp), name)


def checked_block(kernel: Kernel, block: Any) -> Sizes:
    """(x, y, z) of a block.

    Raises:
        MLCError: the grid has no such block.
    """
    given: Sequence[int] = (block,) if isinstance(block, int) else tuple(block or ())
    at = (*given, 0, 0, 0)[:3]
    inside = all(
        isinstance(n, int) and 0 <= n < size for n, size in zip(at, kernel.grid, strict=True)
    )
    if len(given) > 3 or not inside:
        raise MLCError(
            f"warp_lens: no block {tuple(given)}", hint=f"the grid is {kernel.grid}: (x, y, z)"
        )
    return at[0], at[1], at[2]


def checked_warp(kernel: Kernel, warp: int) -> int:
    """The number of a warp of a block.

    Raises:
        MLCError: a block has fewer.
    """
    if not (isinstance(warp, int) and 0 <= warp < kernel.warps):
        raise MLCError(
            f"warp_lens: no warp {warp}",
            hint=f"a block of {kernel.block} has warps 0 to {kernel.warps - 1}",
        )
    return warp

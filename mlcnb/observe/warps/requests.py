"""What one warp asks of memory, in order: its instructions with the address of each lane.

    for request in requests(kernel, (0, 0, 0), warp=0): …

All lanes of a warp run together: a loop or a branch that some of them take runs with the others
switched off, as on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mlcnb.arith.evaluate import Frame, Unknown, evaluate
from mlcnb.core.node import walk
from mlcnb.machine import warp as rules
from mlcnb.machine.touching import ThroughIndices, Touched, both, matrix
from mlcnb.machine.warp import BANKS, LANES, LINE, SECTOR, WORD, Served
from mlcnb.observe.warps.kernels import SHARED, Instruction, Kernel, Sizes
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer, BufferLoad, reads_memory
from mlcnb.tir.functor import bodies

#: statements that no warp is followed into
UNFOLLOWED = (s.While, s.Block, s.BlockRealize)
#: site, addresses and activity, one column for each instruction that a vector takes
Column = tuple[Instruction, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Request:
    """One instruction of a warp, done once.

    Attributes:
        instruction: the load or store.
        loops: names and values of the loops around it.
        at: of each lane the first byte that it asks for, from where the array begins, int64 [32].
        active: the lanes that take part, bool [32].
    """

    instruction: Instruction
    loops: tuple[tuple[str, int], ...]
    at: np.ndarray
    active: np.ndarray

    @cached_property
    def served(self) -> Served:
        """What it takes, as arrays of one."""
        return served(self.instruction, self.at[None], self.active[None])

    @property
    def is_shared(self) -> bool:
        """It goes to shared memory."""
        return self.instruction.memory == SHARED

    @property
    def taken(self) -> int:
        """Sectors that it touches; in shared memory: wavefronts."""
        return int(self.served.taken[0])

    @property
    def ideal(self) -> int:
        """The fewest sectors (or wavefronts) that it could take."""
        return int(self.served.ideal[0])

    @property
    def efficiency(self) -> float:
        """`ideal` of `taken`."""
        return self.ideal / self.taken if self.taken else 1.0

    @property
    def ways(self) -> int:
        """n of its n-way bank conflict; 1: there is none."""
        return int(self.served.worst[0]) if self.is_shared else 1

    @property
    def lines(self) -> int:
        """Lines of 128 bytes of global memory that it touches."""
        width = self.instruction.width
        return int(rules.lines(self.at[None], width, self.active[None])[0])

    @property
    def sectors(self) -> np.ndarray:
        """Of each lane the number of its 32-byte sector in the array; -1 where it is inactive."""
        return np.where(self.active, self.at // SECTOR, -1)

    @property
    def line_numbers(self) -> np.ndarray:
        """Of each lane the number of its 128-byte line in the array; -1 where it is inactive."""
        return np.where(self.active, self.at // LINE, -1)

    @property
    def banks(self) -> np.ndarray:
        """Of each lane the bank of its first word; -1 where it is inactive."""
        return np.where(self.active, self.at // WORD % BANKS, -1)


def served(instruction: Instruction, at: np.ndarray, active: np.ndarray) -> Served:
    """What requests of an instruction take: a row of 32 addresses for each."""
    rule = rules.wavefronts if instruction.memory == SHARED else rules.sectors
    return rule(at, instruction.width, active)


def requests(kernel: Kernel, block: Sizes, warp: int) -> Iterator[Request]:
    """What a warp asks for, in order.

    Raises:
        Unknown: which of its statements it runs depends on values in memory.
    """
    threads = warp * LANES + np.arange(LANES)
    active = threads < kernel.threads
    frame = {**kernel.thread_frame(threads), **kernel.block_frame(block)}
    yield from _Walk(kernel).stmt(kernel.launch.body, frame, active, ())


class _Forgiving(ThroughIndices):
    """Accesses; those at addresses that nobody knows are noted, with the reason."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel.program)
        self.unseen: dict[int, str] = {}

    def store(self, n: s.BufferStore, frame: Frame, mask: Any = None) -> Iterator[Touched]:
        for index in n.indices:
            yield from self.value(index, frame, mask)
        yield from super().store(n, frame, mask)

    def access(
        self, buffer: Buffer, indices: Any, predicate: Any, frame: Frame, mask: Any
    ) -> Touched:
        try:
            return super().access(buffer, indices, predicate, frame, mask)
        except Unknown as reason:
            number = self.program.numbers[buffer]
            self.unseen.setdefault(number, str(reason))
            return number, None, mask


class Reader:
    """Accesses of single statements, for lanes at once."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.toucher = _Forgiving(kernel)

    @property
    def unseen(self) -> dict[int, str]:
        """Instructions that could not be followed, and why."""
        return {n: why for n, why in self.toucher.unseen.items() if n in self.kernel.instructions}

    def columns(self, n: Any, frame: Frame, active: np.ndarray) -> Iterator[Column]:
        """The instructions of a store or a call (or of a value), in order."""
        touched: Any = self.toucher.store if isinstance(n, s.BufferStore) else self.toucher.value
        try:
            found = list(touched(n.value if isinstance(n, s.Evaluate) else n, frame, active))
        except Unknown as reason:
            self.skip(n, str(reason))
            return
        for number, position, mask in found:
            instruction = self.kernel.instructions.get(number)
            if instruction is not None and position is not None:
                yield from self._split(instruction, position, mask, active)

    def _split(self, of: Instruction, position: Any, mask: Any, active: np.ndarray) -> Any:
        at = matrix(position, len(active)) - of.array.base
        on = np.broadcast_to(matrix(both(mask, active), len(active)), at.shape)
        if of.width > of.array.itemsize:  # a vector that goes at once
            yield of, at[:, 0], on[:, 0]
            return
        for lane in range(at.shape[1]):
            yield of, at[:, lane], on[:, lane]

    def skip(self, n: Any, reason: str) -> None:
        """A statement whose accesses are not followed."""
        for x in walk(n):
            if isinstance(x, BufferLoad | s.BufferStore):
                self.toucher.unseen.setdefault(self.kernel.program.numbers[x.buffer], reason)


class _Walk:
    """One warp through a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.reader = Reader(kernel)

    def stmt(
        self, n: Any, frame: Frame, active: np.ndarray, loops: tuple[tuple[str, int], ...]
    ) -> Iterator[Request]:
        """What a statement asks for."""
        if not active.any():
            return
        match n:
            case s.For():
                yield from self.loop(n, frame, active, loops)
            case s.IfThenElse(condition, yes, no):
                on = self.truth(condition, frame, n)
                if on is not None:
                    yield from self.stmt(yes, frame, active & on, loops)
                    if no is not None:
                        yield from self.stmt(no, frame, active & ~on, loops)
            case s.LetStmt(var, value, body):
                yield from self.access(value, frame, active, loops)
                known = None if reads_memory(value) else evaluate(value, frame, None)
                yield from self.stmt(body, {**frame, var: known}, active, loops)
            case _ if isinstance(n, UNFOLLOWED):
                self.reader.skip(n, type(n).__name__)
            case _:
                if not bodies(n):
                    yield from self.access(n, frame, active, loops)
                for part in bodies(n):
                    yield from self.stmt(part, frame, active, loops)

    def access(
        self, n: Any, frame: Frame, active: np.ndarray, loops: tuple[tuple[str, int], ...]
    ) -> Iterator[Request]:
        for instruction, at, on in self.reader.columns(n, frame, active):
            if on.any():
                yield Request(instruction, loops, at, on)

    def truth(self, condition: Any, frame: Frame, n: s.Stmt) -> np.ndarray | None:
        """Which lanes take a branch; None where that is not known."""
        try:
            return np.broadcast_to(np.asarray(evaluate(condition, frame), bool), (LANES,))
        except Unknown as reason:
            self.reader.skip(n, str(reason))
            return None

    def loop(
        self, n: s.For, frame: Frame, active: np.ndarray, loops: tuple[tuple[str, int], ...]
    ) -> Iterator[Request]:
        try:
            first, extent = (np.asarray(evaluate(x, frame)) for x in (n.min, n.extent))
        except Unknown as reason:
            self.reader.skip(n, str(reason))
            return
        for count in range(int(extent.max(initial=0))):
            value = first + count
            shown = int(value.reshape(-1)[0])
            inner = {**frame, n.loop_var: value if value.ndim else shown}
            on = active & np.broadcast_to(count < extent, (LANES,))
            yield from self.stmt(n.body, inner, on, (*loops, (n.loop_var.name, shown)))

"""The accesses of a program, and what caches make of them.

    found = accesses(func)             every access in order: addresses, and which load or store
    found.stream                       as NumPy makes it of the loops, else as the interpreter runs

One truth: the stream is what the reference interpreter records, byte for byte; where no value in
memory has a say in it, it is made of the loops by NumPy, which is the same and a hundred times as
fast (`mlcnb.machine.stream`).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import MLCError
from mlcnb.driver import progress_bar
from mlcnb.machine.addresses import Placed
from mlcnb.machine.indices import Unknown
from mlcnb.machine.stream import MOST, Stream, stream, too_long
from mlcnb.tir.function import PrimFunc

#: accesses that the interpreter makes at most: about ten seconds
MOST_INTERPRETED = 2_000_000
#: accesses after which a progress bar moves
_TICK = 10_000


def recorded(program: Placed, args: Sequence[Any] | None = None, most: int = MOST) -> Stream:
    """Every access of a program, in order.

    Args:
        program: the program with the places of its arrays.
        args: what it runs on, where that decides what it touches; by default arrays of zeros.
        most: accesses at most.

    Raises:
        MLCError: more accesses than `most`, or a program that cannot be run.
    """
    try:
        with progress_bar("finding accesses", most) as bar:
            return stream(program, most, bar.update)
    except Unknown:
        return interpreted(program, args, min(most, MOST_INTERPRETED))


def interpreted(program: Placed, args: Sequence[Any] | None = None, most: int = MOST) -> Stream:
    """The same by the reference interpreter, which runs the program."""
    record = _Record(program, most)
    with progress_bar("interpreting", most) as bar:
        record.bar = bar
        run_prim_func(program.func, _arguments(program.func) if args is None else args, record)
    return Stream(
        np.frombuffer(record.addresses, np.int64).copy(),
        np.frombuffer(record.sites, np.int32).copy(),
    )


class _Record:
    """Told of every access by the interpreter."""

    def __init__(self, program: Placed, most: int) -> None:
        self.addresses, self.sites = array("q"), array("i")
        self.most = most
        self.bar: Any = None
        bases = [program.arrays[site.array].base for site in program.sites]
        self.places = {
            str(n): (n, base, site.itemsize)
            for n, (site, base) in enumerate(zip(program.sites, bases, strict=True))
        }

    def __call__(self, name: str, at: int, what: str, loops: Mapping[str, int]) -> None:
        """An access of the site that the buffer is named for."""
        number, base, itemsize = self.places[name]
        self.addresses.append(base + at * itemsize)
        self.sites.append(number)
        if len(self.sites) % _TICK == 0:
            self.bar.update(_TICK)
            if len(self.sites) > self.most:
                raise too_long(self.most)


def _arguments(func: PrimFunc) -> list[np.ndarray]:
    """Zeros: indices that are read from memory are in range."""
    if len(func.buffers) != len(func.params):
        numbers = [p.name for p in func.params if p not in func.buffer_map]
        raise MLCError(
            f"replay: the value of {', '.join(numbers)} is not known", hint="pass args=[…]"
        )
    return [np.zeros([int(n.value) for n in b.shape], b.dtype.numpy) for b in func.buffers]  # type: ignore[attr-defined]

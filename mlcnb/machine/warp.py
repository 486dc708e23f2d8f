"""What the memory of a GPU makes of one instruction of a warp: sectors, and banks.

    sectors(at, 4, active)       global memory: of each request the 32-byte sectors that it touches
    wavefronts(at, 4, active)    shared memory: of each request how often the banks are asked

`at` holds the byte that each of the 32 lanes asks for first, a row for each request; `active` says
which lanes take part. The rules are those of NVIDIA's GPUs from Maxwell (compute capability 5.0)
on, as the CUDA C++ Programming Guide and Nsight Compute's guide to memory tables give them:

- Global memory goes through L1 and L2 in sectors of 32 bytes, four to a line of 128. A request
  touches each sector once, however many lanes want it. The fewest that could hold what the lanes
  ask for is `ideal`: 4 for 32 lanes of 4 bytes, 16 for 32 lanes of 16 bytes. A request that
  touches no more is coalesced.
- Shared memory has 32 banks, each 4 bytes wide; successive words lie in successive banks. A bank
  gives one word at a time: n different words of one bank take n passes ("wavefronts"), which is an
  n-way bank conflict. Lanes that want the same word, or bytes of it, share it (a broadcast), and
  lanes that write the same word do so together.
- Accesses of 8 bytes are served half a warp at a time and accesses of 16 bytes a quarter: so that
  each group asks for at most one word of each bank where there is no conflict. (Hardware may serve
  two groups that ask for the same words at once; that is not counted here.)

Accesses are aligned to their size, as CUDA demands.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: lanes of a warp
LANES = 32
#: bytes of a sector and of a line of global memory
SECTOR, LINE = 32, 128
#: banks of shared memory, and bytes of a word in one
BANKS, WORD = 32, 4
#: after so many bytes the same sectors, lines and banks begin again
PERIOD = 128


@dataclass(frozen=True)
class Served:
    """What requests take.

    Attributes:
        taken: of each request the sectors, or wavefronts.
        ideal: the fewest that it could take.
        worst: the sectors again, or the most words of one bank: n of an n-way conflict.
    """

    taken: np.ndarray
    ideal: np.ndarray
    worst: np.ndarray


def sectors(at: np.ndarray, width: int, active: np.ndarray) -> Served:
    """The sectors of global memory that requests touch.

    Args:
        at: byte addresses, int64 [requests, 32].
        width: bytes of each access.
        active: which lanes take part, bool [requests, 32].
    """
    ends = np.hstack([at // SECTOR, (at + width - 1) // SECTOR])
    taken = _distinct(ends, np.hstack([active, active]))
    asked = _distinct(at, active) * width
    ideal = np.minimum(-(-asked // SECTOR), taken)
    return Served(taken, ideal, taken)


def lines(at: np.ndarray, width: int, active: np.ndarray) -> np.ndarray:
    """Of each request the lines of 128 bytes that it touches; arguments as of `sectors`."""
    ends = np.hstack([at // LINE, (at + width - 1) // LINE])
    return _distinct(ends, np.hstack([active, active]))


def group_size(width: int) -> int:
    """How many lanes are served together: all, a half or a quarter of a warp."""
    return LANES // max(1, width // WORD)


def wavefronts(at: np.ndarray, width: int, active: np.ndarray) -> Served:
    """How often the banks of shared memory are asked; arguments as of `sectors`."""
    size, words = group_size(width), max(1, width // WORD)
    asked = (at // WORD)[:, :, None] + np.arange(words)
    asked = np.where(active[:, :, None], asked, -1).reshape(-1, size * words)
    asked = np.sort(asked, axis=1)
    is_new = asked >= 0
    is_new[:, 1:] &= asked[:, 1:] != asked[:, :-1]
    rows = np.arange(len(asked))[:, None]
    keys = (rows * BANKS + asked % BANKS)[is_new]
    of_bank = np.bincount(keys, minlength=len(asked) * BANKS).reshape(-1, BANKS)
    of_group = of_bank.max(axis=1, initial=0).reshape(len(at), LANES // size)
    return Served(of_group.sum(axis=1), (of_group > 0).sum(axis=1), of_group.max(axis=1, initial=0))


def _distinct(values: np.ndarray, active: np.ndarray) -> np.ndarray:
    """How many different values (not negative) each row has where it is active."""
    values = np.sort(np.where(active, values, -1), axis=1)
    is_new = values >= 0
    is_new[:, 1:] &= values[:, 1:] != values[:, :-1]
    return is_new.sum(axis=1)

"""Pages of memory: large ones where weights stream by, none for what has been freed.

in_large_pages([w0, w1, arena])     how many pages of 2 MB hold these arrays now
release_freed()                     what the C library keeps for later goes back to the system

A run reads each weight once, so every page of 4 KB costs a walk through the page tables, and ends
what the hardware fetches ahead. Linux 6.1 and newer joins small pages into a large one on request
(`MADV_COLLAPSE`); elsewhere nothing happens. Addresses and contents stay as they are.
"""

from __future__ import annotations

import ctypes
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from mlcnb.ir.memory import address_of

#: bytes of a large page on x86-64, and on AArch64 with small pages of 4 KB
LARGE_PAGE = 2 << 20
#: joining costs a copy, about a millisecond for each MB: at most this much
MOST = 48 << 20

_MADV_COLLAPSE = 25


def in_large_pages(arrays: Sequence[np.ndarray]) -> int:
    """Put what fills at least half of a large page into one; the number of such pages.

    Does nothing for more than 48 MB: what is that large waits for memory, not for page tables.
    """
    if sum(a.nbytes for a in arrays) > MOST:
        return 0
    madvise = _c_function("madvise", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    covered: Counter[int] = Counter()
    for array in arrays:
        start, stop = address_of(array), address_of(array) + array.nbytes
        for page in range(start // LARGE_PAGE, -(-stop // LARGE_PAGE)):
            first, last = page * LARGE_PAGE, (page + 1) * LARGE_PAGE
            covered[page] += min(stop, last) - max(start, first)
    wanted = [page for page, nbytes in sorted(covered.items()) if 2 * nbytes >= LARGE_PAGE]
    if madvise is None:
        return 0
    return sum(madvise(page * LARGE_PAGE, LARGE_PAGE, _MADV_COLLAPSE) == 0 for page in wanted)


def release_freed() -> None:
    """Give the system the memory that has been freed, where the C library can (glibc).

    A compilation makes and drops weights in several layouts. The C library keeps what is dropped,
    of ResNet-50 200 MB, until it is asked: some milliseconds.
    """
    trim = _c_function("malloc_trim", ctypes.c_size_t)
    if trim is not None:
        trim(0)


@cache
def _c_function(name: str, *kinds: Any) -> Any:
    """A function of the C library on Linux that gives an int; None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function.argtypes, function.restype = kinds, ctypes.c_int
    return function

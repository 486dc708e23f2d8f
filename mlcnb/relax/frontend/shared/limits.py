"""How much a model may ask for: what lies beyond is refused before anything is built.

A tensor may have `max_tensor_bytes` (an option of mlcnb); the other limits stand here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlcnb.core import options
from mlcnb.ir.dtype import DType
from mlcnb.ir.prim_ops import as_int

#: bytes of a model file: protobuf holds no more
MAX_FILE_BYTES = (1 << 31) - 1
#: graphs inside of graphs (branches, loop bodies)
MAX_GRAPH_DEPTH = 24
#: functions that call functions
MAX_FUNCTION_DEPTH = 40
#: nodes after all functions and loops are written out
MAX_NODES = 100_000
#: turns of a loop that is written out
MAX_TURNS = 1_000
#: elements of a constant that says how to build (a shape, axes, pads)
MAX_KNOWN_ELEMENTS = 1 << 16
#: dimensions of a tensor, as in NumPy
MAX_NDIM = 64
#: no product of dimensions reaches this, whatever the option says
MAX_PRODUCT = (1 << 63) - 1


def element_count(dims: Iterable[int]) -> int | None:
    """How many elements a tensor has; None where a dimension is negative or a product overflows.

    The product of the dimensions that are not 0 must fit as well: indices are computed from it.
    None, too, where there are more dimensions than a tensor may have.
    """
    count, nonzero = 1, 1
    for number, d in enumerate(dims):
        count *= d
        nonzero *= d or 1
        if d < 0 or nonzero > MAX_PRODUCT or number >= MAX_NDIM:
            return None
    return count


def least_bytes(dims: Iterable[Any], dtype: DType) -> int | None:
    """The bytes of a tensor, symbolic dimensions counted as 1; None as in `element_count`."""
    known = (as_int(d) for d in dims)
    count = element_count(1 if d is None else d for d in known)
    return None if count is None else count * max(dtype.nbytes, 1)


def max_tensor_bytes() -> int:
    """The largest tensor that may come into being."""
    return int(options.get("max_tensor_bytes"))


def size_text(count: int) -> str:
    """`2.0 GiB`"""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024 or unit == "PiB":
            return f"{count} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{count} bytes"

"""topi.tag: words that TVM tags operations with."""

from __future__ import annotations

ELEMWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
COMM_REDUCE_IDX = "comm_reduce_idx"


def is_broadcast(tag: str) -> bool:
    """True for an elementwise operation, with broadcasting or without."""
    return tag in (ELEMWISE, BROADCAST) or tag.startswith((f"{ELEMWISE},", f"{BROADCAST},"))


def is_injective(tag: str) -> bool:
    """True where each element of the result comes from one element of each input."""
    return tag.startswith(INJECTIVE) or is_broadcast(tag)

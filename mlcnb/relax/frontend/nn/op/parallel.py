"""Collectives of several machines: there are none here, and they say so."""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import UnsupportedOpError
from mlcnb.relax.frontend.nn.tensor import Tensor


def _refused(name: str) -> UnsupportedOpError:
    return UnsupportedOpError(
        f"nn.op.{name}: programs run on one machine here", hint="export the model for one worker"
    )


def ccl_allreduce(
    x: Tensor, op_type: str = "sum", in_group: bool = True, name: str = "ccl_allreduce"
) -> Any:
    """Refused: UnsupportedOpError."""
    raise _refused("ccl_allreduce")


def ccl_allgather(x: Tensor, num_workers: int, name: str = "ccl_allgather") -> Any:
    """Refused: UnsupportedOpError."""
    raise _refused("ccl_allgather")


def ccl_broadcast_from_worker0(x: Tensor, name: str = "broadcast_from_worker") -> Any:
    """Refused: UnsupportedOpError."""
    raise _refused("ccl_broadcast_from_worker0")

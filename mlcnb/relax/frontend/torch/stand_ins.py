"""What a node stands for where it has no value: an input, what is not made, what is refused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlcnb.core.errors import UnsupportedOpError
from mlcnb.relax.frontend.torch.node import Node

#: stands for what a node that is refused would have made, and for all that needs it
REFUSED = object()


class Refused(UnsupportedOpError):
    """A value is read that a refused node would have made: the refusal itself is told."""


@dataclass(frozen=True)
class Missing:
    """Stands for a value that is not made: an output that nothing reads, a size from data."""

    node: Node
    why: str


@dataclass(frozen=True)
class Input:
    """A placeholder of the graph.

    name: what the parameter is called; data: its value where the model brings one.
    """

    name: str
    data: np.ndarray | None = None

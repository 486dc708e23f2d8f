"""Marks for gradients: grad.no_grad, grad.start_checkpoint, grad.end_checkpoint; each is its input.

c = R.grad.start_checkpoint(a)      what lies between is computed again on the way back,
d = R.grad.end_checkpoint(f(c))     in place of being kept
"""

from __future__ import annotations

from typing import Any

from mlcnb import te
from mlcnb.op._elementwise import Unchanged
from mlcnb.relax.operator import Tensor, operator


class Mark(Unchanged):
    """What all marks have in common: the result is the input."""

    __slots__ = ()

    input: Tensor

    def compute(self, input: Any) -> Any:
        """A copy."""
        return te.compute(input.shape, lambda *i: input(*i), name="identity")


@operator("relax.grad.no_grad")
class NoGrad(Mark):
    """The input; no gradient goes through it."""


@operator("relax.grad.start_checkpoint")
class StartCheckpoint(Mark):
    """The input, where a part begins that is computed again for its gradient."""


@operator("relax.grad.end_checkpoint")
class EndCheckpoint(Mark):
    """The input, where a part ends that is computed again for its gradient."""

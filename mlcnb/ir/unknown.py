"""`tir.Any()`: a number without a name."""

from __future__ import annotations

from mlcnb.ir.expr import Var


def Any() -> Var:
    """A dimension of which nothing is known: a variable of its own, which equals itself only."""
    return Var("any_dim")

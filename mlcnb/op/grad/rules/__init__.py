"""Gradients of operators, one rule each; what a rule is stands in `registry`."""

from __future__ import annotations

from mlcnb.op.grad.rules import elementwise, moving, products
from mlcnb.op.grad.rules.registry import (
    differentiable,
    register_gradient,
    register_te_gradient,
    shares,
)

__all__ = [
    "differentiable",
    "elementwise",
    "moving",
    "products",
    "register_gradient",
    "register_te_gradient",
    "shares",
]

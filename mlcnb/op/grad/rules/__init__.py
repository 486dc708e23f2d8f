"""Gradients of operators, one rule each; what a rule is stands in `registry`."""

from __future__ import annotations

from mlcnb.op.grad.rules import (
    activation,
    algebra,
    elementwise,
    images,
    indexing,
    moving,
    norms,
    products,
    scans,
    windows,
)
from mlcnb.op.grad.rules.registry import (
    differentiable,
    register_gradient,
    register_te_gradient,
    shares,
)

__all__ = [
    "activation",
    "algebra",
    "differentiable",
    "elementwise",
    "images",
    "indexing",
    "moving",
    "norms",
    "products",
    "register_gradient",
    "register_te_gradient",
    "scans",
    "shares",
    "windows",
]

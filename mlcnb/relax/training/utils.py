"""TVM's names for what training registers."""

from __future__ import annotations

from mlcnb.op.grad.rules import register_te_gradient

__all__ = ["register_te_gradient"]

"""simplify."""

from __future__ import annotations

from typing import Any

from mlcnb.ir.expr import PrimExpr


def simplify(expr: PrimExpr, bounds: Any = None) -> PrimExpr:
    """Same value."""
    return expr

"""Reasoning about integers: simplify, bounds, sets, iteration maps, proofs."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.arith.analyzer": "Analyzer simplify can_prove can_prove_equal const_bounds",
        "mlcnb.arith.int_set": "IntSet set_of",
    },
)

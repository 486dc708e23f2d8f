"""Reasoning about integers: simplify, bounds, sets, iteration maps, proofs."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.arith.analyzer": "Analyzer simplify can_prove can_prove_equal const_bounds",
        "mlcnb.arith.int_set": "IntSet set_of",
        "mlcnb.arith.linear": "detect_linear_equation",
        "mlcnb.arith.iter_sum": "IterMap IterMark IterSplit IterSum",
        "mlcnb.arith.iter_map": "detect_iter_map",
        "mlcnb.arith.iter_inverse": "inverse_affine_iter_map",
    },
)

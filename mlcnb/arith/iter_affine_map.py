"""Iteration maps, by the names of `tvm.arith.iter_affine_map`."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.arith.iter_sum": (
            "IterMapExpr IterMapLevel IterMark IterSplitExpr=IterSplit IterSumExpr=IterSum "
            "IterMapResult=IterMap"
        ),
        "mlcnb.arith.iter_map": "detect_iter_map",
        "mlcnb.arith.iter_normal": (
            "iter_map_simplify normalize_iter_map_to_expr normalize_to_iter_sum"
        ),
        "mlcnb.arith.iter_divide": "subspace_divide",
        "mlcnb.arith.inverse": "inverse_affine_iter_map",
    },
)

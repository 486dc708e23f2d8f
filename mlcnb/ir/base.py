"""Equality, hash and JSON of nodes, by the names of `tvm.ir.base`."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.core.node": "Node",
        "mlcnb.ir.attrs": "make_node",
        "mlcnb.ir.span": "Span",
        "mlcnb.ir.structural": "structural_equal structural_hash assert_structural_equal",
        "mlcnb.ir.json": "save_json load_json",
    },
)

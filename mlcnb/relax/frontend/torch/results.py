"""What a program of PyTorch returns: the outputs of its graph, and values as expressions."""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import UnsupportedDtypeError, UnsupportedError
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.prim_ops import as_expr, const
from mlcnb.op._complex import Complex
from mlcnb.relax import expr as rx


def returned(graph: Any) -> list[Any]:
    """The outputs of a graph."""
    found = next(n for n in reversed(graph.nodes) if n.op == "output").args[0]
    return list(found) if isinstance(found, tuple | list) else [found]


def as_result(found: Any, source: str) -> rx.Expr:
    """A value as an expression: numbers as values of Relax."""
    if isinstance(found, rx.Expr):
        return found
    if isinstance(found, PrimExpr):
        return rx.PrimValue(found)
    if isinstance(found, Complex):
        raise UnsupportedDtypeError(
            f"{source}: an output is complex", hint="return torch.view_as_real(x)"
        )
    if isinstance(found, bool | int):
        return rx.PrimValue(const(found, "bool" if isinstance(found, bool) else "int64"))
    if isinstance(found, float):
        return rx.PrimValue(as_expr(found))
    if isinstance(found, list):
        return rx.Tuple(tuple(as_result(v, source) for v in found))
    raise UnsupportedError(f"{source}: an output is {found!r}", hint="return tensors and numbers")

"""Functions of three tensors, element by element, broadcast: where, ewise_fma."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.core.errors import TypeInferError
from mlcnb.op._dims import one_dtype, want_same_dtype
from mlcnb.op._elementwise import (
    BOOLS,
    NUMBERS,
    Elementwise,
    broadcast_compute,
    broadcast_info,
    want_kinds,
)
from mlcnb.op._spell import call
from mlcnb.op._sugar import sugar
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator


@operator("relax.where")
class Where(OpDecl):
    """x1 where `condition` is true, else x2; all three broadcast.

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.where.html
    """

    elementwise = finite = True

    condition: Tensor
    x1: Tensor
    x2: Tensor

    def infer(self, condition: Any, x1: Any, x2: Any) -> Any:
        """What the three broadcast to, in the dtype of x1 and x2."""
        want_kinds(self, BOOLS, condition=condition)
        want_same_dtype(self, x1=x1, x2=x2)
        return broadcast_info(self, one_dtype(x1, x2), condition, x1, x2)

    def numpy(self, condition: Any, x1: Any, x2: Any) -> Any:
        """numpy.where"""
        return np.asarray(np.where(condition, x1, x2)).astype(x1.dtype, copy=False)

    def compute(self, condition: Any, x1: Any, x2: Any) -> Any:
        """One loop nest; both sides are read."""
        return broadcast_compute(te.Select, condition, x1, x2, name="where")


def _fused(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


@operator("relax.ewise_fma")
class EwiseFma(Elementwise):
    """x1 * x2 + x3, elementwise."""

    follows = True

    x1: Tensor
    x2: Tensor
    x3: Tensor
    meaning = staticmethod(_fused)
    loop = staticmethod(_fused)
    accepts = NUMBERS
    cost = 2


@sugar("masked_fill")
def masked_fill(x: Expr, mask: Expr, value: Any) -> Expr:
    """`value` where `mask` is true, else x: `where` with a constant.

    `mask` is bool and broadcasts with x; `value` is a tensor, or a number that becomes one of x's
    dtype.

    Raises:
        TypeInferError: the mask is no bool, shapes do not broadcast, or x holds integers and the
            number is none.
    """
    kind = getattr(x.struct_info, "dtype", None)
    if kind is not None and kind.is_integer and isinstance(value, float) and value % 1:
        raise TypeInferError(f"masked_fill: {value} is no {kind}", hint="x.astype before")
    fill = value if isinstance(value, Expr) else const(value, kind)
    return make_call(Where, mask, fill, x)


@onnx("Where")
def onnx_where(n: OnnxNode, condition: Expr, x: Expr, y: Expr) -> Expr:
    """As NumPy's where."""
    if n.dtype(condition) != "bool":
        condition = n.emit(call("relax.astype", condition, dtype="bool"))
    return make_call(Where, condition, x, y)

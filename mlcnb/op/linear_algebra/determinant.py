"""The determinant: linalg.det. There are no loops, the virtual machine calls the meaning."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.op._dims import differ, refuse, tell, tensor
from mlcnb.op._elementwise import FLOATS, want_kinds
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator


@operator("relax.linalg.det")
class Det(OpDecl):
    """The determinants of the matrices in the last two dimensions.

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.linalg.det.html
    """

    x: Tensor

    def infer(self, x: Any) -> Any:
        """x without its last two dimensions."""
        want_kinds(self, FLOATS, x=x)
        if x.ndim in (0, 1) or (x.dims is not None and differ(*x.dims[-2:])):
            refuse(self, f"{tell(x)} holds no square matrices")
        rank = max(x.ndim - 2, -1)
        return tensor(None if x.dims is None else x.dims[:-2], x.dtype, rank)

    def numpy(self, x: Any) -> Any:
        """numpy.linalg.det, in float64"""
        return np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype)


@onnx("Det", since=11)
def onnx_det(n: OnnxNode, x: Expr) -> Expr:
    """As ours."""
    return make_call(Det, x)

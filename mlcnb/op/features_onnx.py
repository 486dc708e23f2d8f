"""ONNX's operators on features (ai.onnx.ml): Binarizer, ArrayFeatureExtractor."""

from __future__ import annotations

import numpy as np

from mlcnb.op._spell import call
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const

DOMAIN = "ai.onnx.ml"


@onnx("Binarizer", domain=DOMAIN)
def onnx_binarizer(n: OnnxNode, x: Expr) -> Expr:
    """1 where x is larger than `threshold`, else 0."""
    kind = n.dtype(x)
    above = n.emit(call("relax.greater", x, const(np.array(n.attr("threshold", 0.0)), kind)))
    return call("relax.astype", above, dtype=kind)


@onnx("ArrayFeatureExtractor", domain=DOMAIN)
def onnx_array_feature_extractor(n: OnnxNode, x: Expr, indices: Expr) -> Expr:
    """Some columns of x, as a matrix where x is a vector."""
    if len(n.dims(x)) == 1:
        x = n.emit(call("relax.expand_dims", x, axis=0))
    flat = n.emit(call("relax.flatten", indices))
    return call("relax.take", x, flat, axis=len(n.dims(x)) - 1, mode="signed")

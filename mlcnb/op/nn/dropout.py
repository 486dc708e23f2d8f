"""nn.dropout: in inference it changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import const
from mlcnb.ir.rules import rule
from mlcnb.op._spell import scalar_of
from mlcnb.op.creation.filled import OnesLike
from mlcnb.op.manipulate.broadcast import BroadcastTo
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Call, Expr, Tuple
from mlcnb.relax.expr import const as constant
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator
from mlcnb.relax.struct_info import TupleStructInfo


@operator("relax.nn.dropout")
class Dropout(OpDecl):
    """A tuple: `x` as it is, and a mask of ones. The training form (random zeros) is not there.

    rate: the share that training would drop. Source: Srivastava et al. 2014, jmlr.org/papers/v15.
    """

    follows = True

    x: Tensor
    rate: float = 0.5

    @rule("SimplifyOps", "dropout")
    def simplified(self, call: Call, value_of: Any) -> Any:
        """The input, and a mask that is left for dead code elimination where nobody wants it."""
        return Tuple((call.args[0], make_call(OnesLike, call.args[0])))

    def infer(self, x: Any) -> Any:
        """A tuple of two like x."""
        return TupleStructInfo((x, x))

    def numpy(self, x: Any) -> Any:
        """x, and ones"""
        return x, np.ones_like(x)

    def compute(self, x: Any) -> Any:
        """A copy, and a loop that writes ones."""
        kept = te.compute(x.shape, lambda *i: x(*i), name="dropout")
        return kept, te.compute(x.shape, lambda *i: const(1, x.dtype), name="dropout_mask")


@onnx("Dropout")
def onnx_dropout(
    n: OnnxNode, x: Expr, ratio: Expr | None = None, training_mode: Expr | None = None
) -> Any:
    """The input; the mask, where it is used, is all true."""
    if training_mode is not None and bool(scalar_of(n, training_mode, "training_mode")):
        if scalar_of(n, ratio, "ratio", 0.5) != 0:
            n.refuse("training_mode is random", hint="export the model in inference mode")
    if n.opset < 7 and not n.attr("is_test", 0):
        n.refuse("the training form of opset 1 to 6 is random", hint="set is_test = 1")
    if n.num_outputs == 1:
        return x
    kind = "bool" if n.opset >= 10 else n.dtype(x)
    return x, make_call(BroadcastTo, constant(np.ones((), np.bool_), kind), list(n.dims(x)))

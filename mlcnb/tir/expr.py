"""The scalar expressions by TVM's path: `from mlcnb.tir.expr import IntImm`.

They are shared with the graph level and live in `mlcnb.ir.expr`.
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.ir.expr": (
            "PrimExpr Var SizeVar IntImm FloatImm StringImm Cast "
            "BinaryOpExpr=BinaryOp CmpExpr=CmpOp Add Sub Mul Div Mod FloorDiv FloorMod Min Max "
            "EQ NE LT LE GT GE And Or Not Select Let Call Ramp Broadcast Shuffle"
        ),
        "mlcnb.tir.buffer": "BufferLoad ProducerLoad",
        "mlcnb.tir.stmt": "CommReducer IterVar Reduce",
    },
)

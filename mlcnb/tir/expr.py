"""`tir.expr`: expressions by TVM's path."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.ir.expr": (
            "PrimExpr Var SizeVar IntImm FloatImm StringImm Cast Add Sub Mul Div Mod FloorDiv "
            "FloorMod Min Max EQ NE LT LE GT GE And Or Not Select Let Call Ramp Broadcast Shuffle "
            "BinaryOp BinaryOpExpr=BinaryOp CmpOp CmpExpr=CmpOp EqualOp=EQ NotEqualOp=NE"
        ),
        "mlcnb.ir.unknown": "Any",
        "mlcnb.ir.range": "Range",
        "mlcnb.ir.prim_ops": "const",
        "mlcnb.tir.buffer": "BufferLoad ProducerLoad",
        "mlcnb.tir.stmt": "IterVar CommReducer Reduce",
    },
)

"""Tensor expressions: what a tensor holds at each index, from which loops are made.

A = te.placeholder((n, 128), name="A")
k = te.reduce_axis((0, 128), name="k")
C = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="C")
te.create_prim_func([A, C])
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.te.tensor": (
            "Tensor TensorSlice PlaceholderOp ComputeOp ExternOp ScanOp ReduceAxis tag_scope"
        ),
        "mlcnb.te.operation": (
            "placeholder compute reduce_axis thread_axis extern extern_primfunc scan var size_var "
            "const"
        ),
        "mlcnb.te.prim_func": "create_prim_func",
        "mlcnb.ir.prim_ops": (
            "add subtract multiply indexdiv=floordiv indexmod=floormod floordiv floormod "
            "truncdiv truncmod ceildiv if_then_else min_value max_value infinity bitwise_and "
            "bitwise_or bitwise_xor bitwise_not shift_left shift_right"
        ),
        "mlcnb.ir.expr": "Select",
        "mlcnb.tir.index_map": "AXIS_SEPARATOR",
        "mlcnb.tir.op": (
            "comm_reducer sum prod max min all any exp exp2 exp10 expm1 log log2 log10 log1p sqrt "
            "div rsqrt tanh sigmoid erf sin cos tan asin acos atan sinh cosh asinh acosh atanh "
            "floor ceil trunc round nearbyint abs fabs atan2 fmod copysign hypot nextafter power "
            "pow ldexp isnan isinf isfinite popcount clz likely reinterpret"
        ),
    },
)

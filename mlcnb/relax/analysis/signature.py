"""The struct info of a loop function: what a graph program would see of it.

def f(A: T.Buffer((n, 4), "float32"), k: T.int32)      R.Callable((R.Tensor((n, 4), "float32"),
                                                        R.Prim("int32")), R.Tuple, purity=False)
"""

from __future__ import annotations

from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Var
from mlcnb.relax.expr import ShapeExpr
from mlcnb.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from mlcnb.tir.analysis.verify import is_pure_function
from mlcnb.tir.function import PrimFunc


def signature(func: PrimFunc) -> FuncStructInfo:
    """Buffers are tensors, with dimensions of int64, scalars numbers, other handles objects.

    A function that returns nothing returns an empty tuple; it is pure where it changes none of its
    buffers.
    """
    result: StructInfo = TupleStructInfo(())
    if func.ret_type not in (None, "", "void"):
        result = PrimStructInfo(p.dtype(str(func.ret_type)))
    params = tuple(_parameter(func, param) for param in func.params)
    return FuncStructInfo(params, result, is_pure_function(func))


def _parameter(func: PrimFunc, param: Var) -> StructInfo:
    buffer = func.buffer_map.get(param)
    if buffer is not None:
        dims = tuple(p.cast("int64", dim) for dim in buffer.shape)
        return TensorStructInfo(ShapeExpr(dims), buffer.dtype)
    return ObjectStructInfo() if param.dtype.is_handle else PrimStructInfo(param.dtype)

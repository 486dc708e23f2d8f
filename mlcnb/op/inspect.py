"""What a tensor is, told as the program runs: inspect.tensor_ndim, tensor_shape_i, …

n = R.inspect.tensor_shape_i(x, R.prim_value(0))          the extent of dimension 0, an int64

Tensors lie in memory row by row from their first byte on: strides follow from the shape, offsets
are 0. The number of a kind of dtype is DLPack's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb.ir.dtype import DType
from mlcnb.ir.dtype import dtype as make_dtype
from mlcnb.ir.prim_ops import as_int, cast
from mlcnb.op._dims import product, refuse, tell
from mlcnb.relax.operator import OpDecl, Scalar, Tensor, operator
from mlcnb.relax.struct_info import PrimStructInfo


def _code(kind: DType) -> int:
    """DLDataTypeCode"""
    if kind.is_float:
        return 4 if str(kind).startswith("bfloat") else 2
    return 6 if kind.is_bool else int(kind.is_uint)


def _told(name: str, kind: str, ask: Callable[[DType], int], text: str) -> Any:
    """Declare an operator that tells something of a dtype, or a number that is always the same."""

    class Told(OpDecl):
        data: Tensor

        def infer(self, data: Any) -> Any:
            """A scalar; its value where the dtype is known."""
            known = None if data.dtype is None else ask(data.dtype)
            return _scalar(kind, known)

        def numpy(self, data: Any) -> Any:
            """The number"""
            return make_dtype(kind).numpy.type(ask(make_dtype(np.asarray(data).dtype.name)))

    Told.__doc__ = text
    Told.__module__ = __name__
    return operator(f"relax.inspect.{name}")(Told)


def _scalar(kind: str, value: Any = None) -> PrimStructInfo:
    if value is None:
        return PrimStructInfo(make_dtype(kind))
    return PrimStructInfo(value=cast(kind, value))


TensorDtypeCode = _told("tensor_dtype_code", "uint8", _code, "The number of the kind of dtype.")
TensorDtypeBits = _told("tensor_dtype_bits", "uint8", lambda d: d.bits, "How many bits a lane has.")
TensorDtypeLanes = _told("tensor_dtype_lanes", "uint16", lambda d: d.lanes, "How many lanes.")
TensorByteOffset = _told("tensor_byte_offset", "uint64", lambda d: 0, "Where it begins, in bytes.")
TensorElemOffset = _told("tensor_elem_offset", "uint64", lambda d: 0, "Where it begins.")


@operator("relax.inspect.tensor_ndim")
class TensorNdim(OpDecl):
    """How many dimensions it has."""

    data: Tensor

    def infer(self, data: Any) -> Any:
        """An int32; its value where it is known."""
        return _scalar("int32", None if data.ndim == -1 else data.ndim)

    def numpy(self, data: Any) -> Any:
        """numpy.ndim"""
        return np.int32(np.ndim(data))


class OfDimension(OpDecl):
    """What is told of one dimension."""

    __slots__ = ()

    data: Tensor
    axis: Scalar

    def infer(self, data: Any, axis: Any) -> Any:
        """An int64; its value where the dimension is known."""
        at = None if axis.value is None else as_int(axis.value)
        if at is None:
            return _scalar("int64")
        if at < 0 or (data.ndim != -1 and at >= data.ndim):
            refuse(self, f"{tell(data)} has no dimension {at}")
        return _scalar("int64", None if data.dims is None else self.told(data.dims, at))

    def numpy(self, data: Any, axis: Any) -> Any:
        """The number"""
        return np.int64(self.told(np.shape(data), int(axis)))

    def told(self, dims: Any, at: int) -> Any:
        """What is told, of the dimensions."""
        raise NotImplementedError


@operator("relax.inspect.tensor_shape_i")
class TensorShapeI(OfDimension):
    """The extent of dimension `axis`."""

    def told(self, dims: Any, at: int) -> Any:
        """The dimension."""
        return dims[at]


@operator("relax.inspect.tensor_stride_i")
class TensorStrideI(OfDimension):
    """How many elements lie between neighbours along dimension `axis`."""

    def told(self, dims: Any, at: int) -> Any:
        """The product of the dimensions after it."""
        return product(list(dims[at + 1 :]))

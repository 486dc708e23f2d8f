"""Memory as graph programs say it, after lowering: allocate, view, kill; no loops, no ONNX.

s = R.memory.alloc_storage(R.shape([64]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
t = R.memory.alloc_tensor(s, R.prim_value(0), R.shape([4, 4]), R.dtype("float32"))
cls.relu(x, t)
R.memory.kill_tensor(t)

All of them have effects, so that no pass merges, moves or drops them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mlcnb.arith import Analyzer
from mlcnb.core.errors import ExecutionError
from mlcnb.core.node import walk
from mlcnb.ir.dtype import dtype as make_dtype
from mlcnb.ir.expr import Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import product, refuse, tell, tensor
from mlcnb.op._elementwise import Unchanged
from mlcnb.op._sugar import sugar
from mlcnb.relax.operator import (
    Dtype,
    Object,
    OpDecl,
    OptionalDtype,
    OptionalScalar,
    OptionalShape,
    Scalar,
    Shape,
    String,
    Tensor,
    make_call,
    operator,
)
from mlcnb.relax.struct_info import ObjectStructInfo, TupleStructInfo


class Allocates(OpDecl):
    """What makes new memory, or a tensor in some."""

    __slots__ = ()
    pure: ClassVar[bool] = False
    allocates: ClassVar[bool] = True


@operator("relax.builtin.alloc_tensor")
class AllocTensor(Allocates):
    """A new tensor, its elements not set."""

    shape: Shape
    dtype: Dtype
    runtime_device_index: Scalar
    storage_scope: String

    def infer(self, shape: Any, dtype: Any, runtime_device_index: Any, storage_scope: Any) -> Any:
        """Tensor of that shape and dtype."""
        return tensor(shape.values, dtype, shape.ndim)

    def numpy(self, shape: Any, dtype: Any, runtime_device_index: Any, storage_scope: Any) -> Any:
        """numpy.zeros: a run can be repeated"""
        return np.zeros(shape, make_dtype(dtype).numpy)


@sugar("builtin.alloc_tensor")
def alloc_tensor(
    shape: Any, dtype: Any, runtime_device_index: Any = 0, storage_scope: Any = "global"
) -> Any:
    """A new tensor, its elements not set, in the memory that `storage_scope` names."""
    return make_call(AllocTensor, shape, dtype, runtime_device_index, storage_scope)


class Storage(Allocates):
    """A piece of memory of `size` bytes, which comes first."""

    __slots__ = ()

    def infer(self, size: Any, *_: Any) -> Any:
        """An object."""
        return ObjectStructInfo()

    def numpy(self, size: Any, *_: Any) -> Any:
        """Bytes, all zero"""
        return np.zeros(int(np.prod(size)), np.uint8)


@operator("relax.memory.alloc_storage")
class AllocStorage(Storage):
    """A piece of memory of `size` bytes, in which tensors can be placed, mostly of `dtype`."""

    size: Shape
    virtual_device_index: Scalar
    storage_scope: String
    dtype: Dtype


class InStorage(Allocates):
    """A tensor that lies in a storage."""

    __slots__ = ()
    storage: Object
    offset: Scalar
    shape: Shape
    dtype: Dtype

    def infer(self, storage: Any, offset: Any, shape: Any, dtype: Any) -> Any:
        """Tensor of that shape and dtype."""
        return tensor(shape.values, dtype, shape.ndim)

    def numpy(self, storage: Any, offset: Any, shape: Any, dtype: Any) -> Any:
        """A view of the bytes"""
        kind = make_dtype(dtype).numpy
        count = int(np.prod(shape)) * kind.itemsize
        if offset + count > storage.size:
            raise ExecutionError(
                f"memory.alloc_tensor: {count} bytes from {offset} on do not lie in the "
                f"{storage.size} of the storage"
            )
        return storage[offset : offset + count].view(kind).reshape(shape)


@operator("relax.memory.alloc_tensor")
class AllocTensorFromStorage(InStorage):
    """A tensor that lies in `storage`, `offset` bytes from its start."""


@operator("relax.memory.view")
class View(OpDecl):
    """The bytes of `data` from an offset on as a tensor of another shape and dtype; what is left
    out is that of `data`. It stays inside of `data`'s bytes.

    Semantics: https://tvm.apache.org/docs/reference/api/python/relax/op.html (memory.view)
    """

    data: Tensor
    shape: OptionalShape
    dtype: OptionalDtype
    relative_byte_offset: OptionalScalar

    def infer(self, data: Any, shape: Any, dtype: Any, relative_byte_offset: Any) -> Any:
        """Tensor of that shape and dtype."""
        kind = make_dtype(dtype) if dtype else data.dtype
        dims, ndim = (data.dims, data.ndim) if shape is None else (shape.values, shape.ndim)
        start = 0 if relative_byte_offset is None else as_int(relative_byte_offset.value)
        if dtype and str(dtype) == "void":
            refuse(self, "a tensor has no elements of dtype void")
        has, wants = _bytes(data.dims, data.dtype), _bytes(dims, kind)
        if start is not None and (start < 0 or None not in (has, wants) and start + wants > has):  # type: ignore[operator]
            refuse(self, f"{wants} bytes from byte {start} on are not inside of {tell(data)}")
        if start and shape is None and not dtype:
            refuse(self, f"all of {tell(data)} from byte {start} on is not inside of it")
        if not dtype and _has_more(dims, data.dims):
            refuse(self, f"{tell(tensor(dims, kind, ndim))} has more elements than {tell(data)}")
        return tensor(dims, kind, ndim)

    def numpy(self, data: Any, shape: Any, dtype: Any, relative_byte_offset: Any) -> Any:
        """The bytes, read anew"""
        shape = data.shape if shape is None or not isinstance(shape, tuple) else shape
        kind = make_dtype(dtype).numpy if dtype else data.dtype
        start, size = int(relative_byte_offset or 0), int(np.prod(shape)) * kind.itemsize
        if start < 0 or start + size > data.nbytes:
            raise ExecutionError(
                f"memory.view: {size} bytes from byte {start} on are not inside of {data.nbytes}"
            )
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        return np.array(flat[start : start + size]).view(kind).reshape(shape)


@sugar("memory.view")
def view(data: Any, shape: Any = None, dtype: Any = None, relative_byte_offset: Any = None) -> Any:
    """The bytes of `data` from an offset on, as another shape and dtype."""
    return make_call(View, data, shape, dtype, relative_byte_offset)


def _bytes(dims: Any, kind: Any) -> int | None:
    """How many bytes a tensor has, where that is known."""
    count = None if dims is None or not kind else as_int(product(dims))
    return None if count is None else count * kind.numpy.itemsize


def _has_more(dims: Any, than: Any) -> bool:
    """True if a shape has more elements than another one in every run that has any."""
    if dims is None or than is None:
        return False
    one, two = product(dims), product(than)
    sizes = {v: (1, None) for d in (*dims, *than) for v in walk(d) if isinstance(v, Var)}
    return Analyzer(sizes).can_prove(one > two)


@operator("relax.memory.ensure_zero_offset")
class EnsureZeroOffset(Unchanged):
    """The tensor, from the first byte of its memory on: every tensor lies so, or is copied."""

    data: Tensor


class Kill(OpDecl):
    """What tells that something is not needed any more."""

    __slots__ = ()
    pure: ClassVar[bool] = False

    def infer(self, what: Any) -> Any:
        """The empty tuple."""
        return TupleStructInfo(())

    def numpy(self, what: Any) -> Any:
        """Nothing"""
        return ()


@operator("relax.memory.kill_tensor")
class KillTensor(Kill):
    """Nothing uses the tensor from here on."""

    tensor: Object


@operator("relax.memory.kill_storage")
class KillStorage(Kill):
    """Nothing lies in the storage from here on."""

    storage: Object

"""What a virtual machine is told beside the values: an object is not needed any more; no loops.

_ = R.vm.kill_object(x)
y = R.builtin.stop_lift_params(x)      x itself; LiftTransformParams lifts nothing that reads it
"""

from __future__ import annotations

from typing import Any, ClassVar

from mlcnb.op._elementwise import Unchanged
from mlcnb.op._sugar import sugar
from mlcnb.op.memory import InStorage, Kill, Storage
from mlcnb.relax.operator import (
    Dtype,
    Object,
    OpDecl,
    Scalar,
    Shape,
    String,
    Tensor,
    make_call,
    operator,
)
from mlcnb.relax.struct_info import TupleStructInfo


@operator("relax.vm.alloc_storage")
class VMAllocStorage(Storage):
    """A piece of memory, as `memory.alloc_storage`; the dtype stands before the scope."""

    size: Shape
    runtime_device_index: Scalar
    dtype: Dtype
    storage_scope: String


@sugar("vm.alloc_storage")
def alloc_storage(
    size: Any, runtime_device_index: Any, dtype: Any, storage_scope: Any = "global"
) -> Any:
    """A piece of memory of `size` bytes, in the memory that `storage_scope` names."""
    return make_call(VMAllocStorage, size, runtime_device_index, dtype, storage_scope)


@operator("relax.vm.alloc_tensor")
class VMAllocTensor(InStorage):
    """A tensor in a storage, as `memory.alloc_tensor`."""


@operator("relax.vm.kill_object")
class KillObject(Kill):
    """Nothing uses the object from here on. As TVM's `vm.kill_object`."""

    obj: Object


@operator("relax.builtin.stop_lift_params")
class StopLiftParams(Unchanged):
    """`x` itself, as a sign for LiftTransformParams. As TVM's `builtin.stop_lift_params`."""

    x: Tensor


@operator("relax.vm.call_tir_dyn")
class CallTirDyn(OpDecl):
    """The call of a loop function that writes into tensors that are there: tensors, and a shape
    last, whose dimensions are the function's scalars. As TVM's `vm.call_tir_dyn`.
    """

    pure: ClassVar[bool] = False
    func: Object
    args: Object

    def infer(self, func: Any, args: Any) -> Any:
        """The empty tuple."""
        return TupleStructInfo(())

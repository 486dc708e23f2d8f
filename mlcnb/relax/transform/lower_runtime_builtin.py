"""LowerAllocTensor and LowerRuntimeBuiltin: memory in the words of a virtual machine.

LowerAllocTensor        alloc = R.builtin.alloc_tensor(R.shape([4]), "float32", 0, "global")
                        ->
                        storage = R.memory.alloc_storage(R.shape([16]), 0, "global", "uint8")
                        alloc = R.memory.alloc_tensor(storage, 0, R.shape([4]), "float32")

LowerRuntimeBuiltin     alloc_storage, alloc_tensor and kills of `R.memory` become those of `R.vm`
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.prim_ops import const as prim_const
from mlcnb.op.memory import (
    AllocStorage,
    AllocTensor,
    AllocTensorFromStorage,
    KillStorage,
    KillTensor,
)
from mlcnb.relax import op
from mlcnb.relax.expr import Call, PrimValue, ShapeExpr, Var
from mlcnb.relax.operator import called
from mlcnb.relax.transform.written_out import CallPass, Reader


class LowerAllocTensor(CallPass):
    """Put every tensor that is allocated into a storage of its own.

    A storage has shape (bytes,) and dtype uint8, its size may be symbolic. A tensor whose shape is
    a variable stays as it is, nothing is refused.
    """


class _Storages(Reader, of=LowerAllocTensor):
    def visit_call(self, call: Call, var: Var) -> Any:
        """A storage of as many bytes, and the tensor at its start; one of unknown size stays."""
        if called(call) is not AllocTensor:
            return None
        shape, kind, device, scope = call.args
        if not isinstance(shape, ShapeExpr):
            return None
        nbytes: Any = prim_const(kind.value.nbytes, "int64")  # type: ignore[attr-defined]
        for dim in shape.values:
            nbytes = nbytes * dim
        storage = op.memory.alloc_storage(ShapeExpr((nbytes,)), device, scope, "uint8")
        place = self.emit(storage, "storage")
        zero = PrimValue(prim_const(0, "int64"))
        return op.memory.alloc_tensor(place, zero, shape, kind)


class LowerRuntimeBuiltin(CallPass):
    """Put the virtual machine's operators in place of those of memory.

    Shapes and dtypes are handed over as they are; `R.builtin.alloc_tensor` stays (LowerAllocTensor
    goes before). Nothing is refused.
    """


class _Builtins(Reader, of=LowerRuntimeBuiltin):
    def visit_call(self, call: Call, var: Var) -> Any:
        """Allocations in a storage, tensors in it, and kills, by the operator."""
        operator = called(call)
        if operator in (KillTensor, KillStorage):
            return op.vm.kill_object(*call.args)
        if operator is AllocStorage:
            size, device, scope, kind = call.args
            return op.vm.alloc_storage(size, device, kind, scope)
        if operator is AllocTensorFromStorage:
            return op.vm.alloc_tensor(*call.args)
        return None

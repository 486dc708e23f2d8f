"""FuseTransposeMatmul: a product with a transposed matrix reads the matrix as it lies.

wt = R.permute_dims(w, axes=[1, 0])           gv = R.call_tir(cls.NT_matmul, (x, w), …)
gv = R.matmul(x, wt)                 ->
                                              @T.prim_func(private=True)
                                              def NT_matmul(x, w, NT_matmul):  … x[i, k] * w[j, k]

The loop function is named as TVM's; schedules know it by its accesses.

at = R.permute_dims(a, axes=[1, 0])           row = R.reshape(x, (1, 640))
gv = R.matmul(at, x)      x: (640, 1)   ->    y = R.matmul(row, a)      a: (640, 320)
                                              gv = R.reshape(y, (320, 1))

A column with a transposed matrix is a row with the matrix as it lies, for which there is no copy.
"""

from __future__ import annotations

from typing import Any

from mlcnb import te
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import as_int, cast
from mlcnb.ir.transform import PassContext
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.op.manipulate.permute import PermuteDims
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import same_dims
from mlcnb.relax.expr import Call, Function
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.te_call import te_call
from mlcnb.relax.transform.written_out import CallPass, Reader, order_of


class FuseTransposeMatmul(CallPass, says="transpositions fused", quiet=True, prunes=True):
    """Put one loop function where a matrix is transposed to be multiplied with; a product with a
    column, or with a tensor of one axis, is that of a row.

    Known shapes; the matrix has two dimensions or the batch dimensions of the left operand; the
    result has the operand's dtype of 32 bits or more, or a wider one. Other products stay, none is
    refused.

    matrices_only: batches of transposed matrices stay as they are, but those that rows are
        multiplied with: a large batch is transposed faster than it is read across.
    """

    matrices_only: bool = False

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """All graph functions, with one table of loop functions."""
        table = FunctionTable(mod.functions)
        for key, func in mod.of_kind(Function).items():
            fuser = _Fuser(table.functions, self)
            fuser.table = table
            table.set(key, self.rewritten(func, fuser, ctx))
        return table.module(mod)


class _Fuser(Reader):
    table: FunctionTable

    @FuseTransposeMatmul.rewrites(Matmul)
    def transposed(self, call: Any, attrs: Any) -> Any:
        """The call of a product that reads its operand as it lies: the right one by rows."""
        turned = self.column(call, attrs)
        if turned is not None:
            return turned
        x, moved = call.args[0], self.call_of(call.args[1], PermuteDims)
        if moved is None or not _swaps_last_two(moved) or not _fits(x, moved.args[0], call):
            return None
        is_row = as_int(x.struct_info.dims[-2]) == 1
        if self.options.matrices_only and moved.struct_info.ndim > 2 and not is_row:
            return None
        kind = call.struct_info.dtype
        made = te_call(_nt_matmul, (x, moved.args[0], kind), {})
        return made.by(self.table.add_shared(made.func.without_attr("global_symbol"), "NT_matmul"))

    def column(self, call: Any, attrs: Any) -> Any:
        """A transposed matrix times a column as a row times the matrix."""
        x, moved = call.args[1], self.call_of(call.args[0], PermuteDims)
        if moved is None or not _swaps_last_two(moved):
            return None
        dims, to = x.struct_info.dims, call.struct_info.dims
        if x.struct_info.ndim == 1:
            return op.matmul(x, moved.args[0], **attrs)
        if dims is None or to is None or as_int(dims[-1]) != 1:
            return None
        row = self.emit(op.reshape(x, [*dims[:-2], 1, dims[-2]]))
        return op.reshape(self.emit(op.matmul(row, moved.args[0], **attrs)), to)


def _swaps_last_two(moved: Call) -> bool:
    if moved.args[0].struct_info.dims is None:  # type: ignore[union-attr]
        return False
    order = order_of(moved)
    ndim = len(order)
    return ndim >= 2 and order == (*range(ndim - 2), ndim - 1, ndim - 2)


def _fits(x: Any, w: Any, call: Any) -> bool:
    """Known shapes; w is one matrix, or has the batch dimensions of x; results are not narrower."""
    a, b, kind = x.struct_info, w.struct_info, call.struct_info.dtype
    if a.dims is None or a.ndim < 2 or kind is None or a.dtype is None:
        return False
    same = b.ndim == 2 or (a.ndim == b.ndim and same_dims(a.dims[:-2], b.dims[:-2]))
    return same and (kind == a.dtype and kind.bits >= 32 or kind.bits > a.dtype.bits)


def _nt_matmul(x: Any, w: Any, kind: Any) -> Any:
    """sum over k of x[..., i, k] * w[..., j, k]"""
    k = te.reduce_axis((0, x.shape[-1]), name="k")
    shape = (*x.shape[:-1], w.shape[-2])

    def element(*index: Any) -> Any:
        *batch, i, j = index
        right = w(j, k) if len(w.shape) == 2 else w(*batch, j, k)
        return te.sum(cast(kind, x(*batch, i, k)) * cast(kind, right), axis=k)

    return te.compute(shape, element, name="NT_matmul")

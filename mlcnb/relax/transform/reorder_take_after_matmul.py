"""ReorderTakeAfterMatmul: rows of a table of weights are chosen after the product, not before.

w = R.take(table, which, axis=1)              all = R.matmul(x, table)
gv = R.matmul(x, w)                 ->        gv = R.take(all, which, axis=1)

The product then reads the table as it lies, and what is chosen is a row of results. Where whole
matrices are chosen, one for each sample (axis 0), the table becomes one wide matrix:

w = R.take(table, which, axis=0)              wide = R.reshape(R.permute_dims(table), (k, t * n))
gv = R.matmul(x, w)                 ->        all = R.reshape(R.matmul(x, wide), (b, m, t, n))
                                              gv = R.einsum((R.take(all, which, axis=2),), …)
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.module import IRModule
from mlcnb.ir.rules import rule
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.op.indexing.take import Take
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import same_dim
from mlcnb.relax.expr import Call, Function, Var, shape_expr
from mlcnb.relax.operator import attrs_of, called, make_call
from mlcnb.relax.transform.written_out import Reader, rewritten


class ReorderTakeAfterMatmul(FunctionPass):
    """Multiply with the whole table of weights, and take from the results.

    Known shapes; indices of one dimension that choose columns of a table (axis -1), or matrices of
    a table (T, K, N) for as many samples. Others stay, nothing is refused.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Every product whose right operand is a take of columns, or of a matrix a sample."""
        return rewritten(func, _Reorderer(mod.functions), ctx, "takes after their product")


class _Reorderer(Reader):
    @rule("ReorderTakeAfterMatmul", "take_results")
    def visit_call(self, call: Call, var: Var) -> Any:
        """By the axis that is taken along: the table's columns, or its matrices."""
        if called(call) is not Matmul:
            return None
        x, take = call.args[0], self.call_of(call.args[1], Take)
        if take is None or take.args[1].struct_info.ndim != 1:
            return None
        infos = (x.struct_info, take.args[0].struct_info)
        axis = attrs_of(take).axis  # type: ignore[attr-defined]
        if axis is None or any(i.dims is None or i.ndim < 2 for i in infos):
            return None
        ndim = infos[1].ndim
        if axis % ndim == ndim - 1:
            made: Any = _columns(call, x, take)
        elif axis % ndim == 0 and ndim == 3 and infos[0].ndim == 3:
            made = _matrices(call, x, take)
        else:
            return None
        self.found += made is not None
        return made


def _columns(call: Call, x: Any, take: Call) -> Call:
    """All columns are multiplied, then some are taken."""
    table, which = take.args
    ndim = max(x.struct_info.ndim, table.struct_info.ndim)
    attrs: Any = attrs_of(take)
    product = Call(call.op, (x, table), call.attrs)
    return make_call(type(attrs), product, which, axis=ndim - 1, mode=attrs.mode)


def _matrices(call: Call, x: Any, take: Call) -> Call | None:
    """Every sample is multiplied with every matrix; of each sample one result is taken."""
    table, which = take.args
    batch, rows = x.struct_info.dims[:2]
    count, inner, columns = table.struct_info.dims
    if not same_dim(batch, which.struct_info.dims[0]):
        return None
    moved = op.permute_dims(table, axes=(1, 0, 2))
    wide = op.reshape(moved, shape_expr([inner, count * columns]))
    product = Call(call.op, (x, wide), call.attrs)
    apart = op.reshape(product, shape_expr([batch, rows, count, columns]))
    attrs: Any = attrs_of(take)
    taken = make_call(type(attrs), apart, which, axis=2, mode=attrs.mode)
    return op.einsum((taken,), subscripts="ijik->ijk")

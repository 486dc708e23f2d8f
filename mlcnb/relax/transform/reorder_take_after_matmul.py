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

from mlcnb.op.indexing.take import Take
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import same_dim
from mlcnb.relax.expr import Call, shape_expr
from mlcnb.relax.operator import attrs_of, make_call
from mlcnb.relax.transform.written_out import CallPass, Reader


class ReorderTakeAfterMatmul(CallPass, says="takes after their product", quiet=True, prunes=True):
    """Multiply with the whole table of weights, and take from the results.

    Known shapes; indices of one dimension that choose columns of a table (axis -1), or matrices of
    a table (T, K, N) for as many samples. Others stay, nothing is refused.
    """


@ReorderTakeAfterMatmul.rewrites(Matmul)
def _take_results(r: Reader, call: Any, _attrs: Any) -> Any:
    """By the axis that is taken along: the table's columns, or its matrices."""
    x, take = call.args[0], r.call_of(call.args[1], Take)
    if take is None or take.args[1].struct_info.ndim != 1:
        return None
    infos = (x.struct_info, take.args[0].struct_info)
    axis = attrs_of(take).axis  # type: ignore[attr-defined]
    if axis is None or any(i.dims is None or i.ndim < 2 for i in infos):
        return None
    ndim = infos[1].ndim
    if axis % ndim == ndim - 1:
        return _columns(call, x, take)
    if axis % ndim == 0 and ndim == 3 and infos[0].ndim == 3:
        return _matrices(call, x, take)
    return None


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

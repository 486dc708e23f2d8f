"""FlattenRows: rows that lie in several axes are rows of one matrix.

y = R.matmul(x, w)      x: (32, b, 512)         x1 = R.reshape(x, (32 * b, 512))
                                          ->    y1 = R.matmul(x1, w)
                                                y = R.reshape(y1, (32, b, 256))

A sequence that comes before its batch, as recurrent networks want it, has as many rows beside each
other as the batch has samples: of an open batch often one. A matrix that is transposed to be
multiplied with (a weight that is given, as when a model is trained) would be read across for each
sample. The reshapes cost nothing, and what is done to each element goes before the last one
(SinkReshape).
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import product
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.op.manipulate.permute import PermuteDims
from mlcnb.relax import op
from mlcnb.relax.expr import Constant
from mlcnb.relax.transform.written_out import CallPass, Reader


class FlattenRows(CallPass, says="products whose rows are one axis"):
    """Make one axis of the rows of products with one matrix: where the last of them is open and the
    matrix constant, or where the matrix is transposed, which each piece would read across anew.

    Tensors of three and more dimensions, known or symbolic, of any dtype, times a matrix of two.
    Other products stay, none is refused.
    """


@FlattenRows.rewrites(Matmul, name="open rows")
def _open_rows(r: Reader, call: Any, attrs: Any) -> Any:
    """A product of two dimensions between reshapes."""
    x, weight = call.args
    dims = x.struct_info.dims
    if weight.struct_info.ndim != 2 or dims is None:
        return None
    *rows, depth = dims
    if len(rows) < 2 or all(as_int(d) == 1 for d in rows[:-1]):
        return None
    is_open = isinstance(weight, Constant) and as_int(rows[-1]) is None
    if not is_open and r.call_of(weight, PermuteDims) is None:
        return None
    flat = r.emit(op.reshape(x, [product(rows), depth]))
    kind = getattr(attrs, "out_dtype", None)
    made = r.emit(op.matmul(flat, weight, out_dtype=kind))
    return op.reshape(made, [*rows, weight.struct_info.dims[1]])

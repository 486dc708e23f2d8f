"""PackMatmul: a constant matrix on the right lies in blocks of columns.

y = R.matmul(x, w)          ->      w1 = R.layout_transform(w, src="KN", dst="NK32n")
                                    y = R.nn.matmul_packed(x, w1, columns=1000)

The conversion of the constant is folded later, so a kernel reads each block from front to back.
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.prim_ops import as_int
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.relax import op
from mlcnb.relax.expr import Constant
from mlcnb.relax.transform.written_out import CallPass, Reader


class PackMatmul(CallPass, says="constant matrices packed", says_one="constant matrix packed"):
    """Pack the constant matrices of matmuls into blocks of columns.

    float32 matrices of shape (K, N), N above 1, times tensors of two or more dimensions; other
    products stay, none is refused: a column is read as fast as it lies.

    lanes: columns in a vector; 0 takes those of the current target's float32 vectors.
    """

    lanes: int = 0


@PackMatmul.rewrites(Matmul)
def _matrix(r: Reader, call: Any, attrs: Any) -> Any:
    """A constant matrix lies in blocks of columns."""
    if not _is_packable(call, attrs):
        return None
    x, weight = call.args
    rows = [as_int(d) for d in x.struct_info.dims[:-1]]
    # a row alone is read with four vectors at once, several rows with two
    block = r.lanes("float32") * (4 if all(d == 1 for d in rows) else 2)
    packed = r.emit(op.layout_transform(weight, src="KN", dst=f"NK{block}n"))
    columns = weight.data.shape[1]
    return op.nn.matmul_packed(x, packed, columns=columns)


def _is_packable(call: Any, attrs: Any) -> bool:
    x, weight = call.args
    info: Any = x.struct_info
    if not isinstance(weight, Constant) or weight.data.ndim != 2 or info.dims is None:
        return False
    if weight.data.shape[1] == 1:
        return False
    plain = getattr(attrs, "out_dtype", None) in (None, "float32")
    return plain and weight.data.dtype == "float32" == info.dtype and info.ndim >= 2

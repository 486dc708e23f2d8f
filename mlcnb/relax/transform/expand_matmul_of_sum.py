"""ExpandMatmulOfSum: a product with a sum of matrices becomes a sum of products.

w = R.add(a, b)                       xa = R.matmul(x, a)
gv = R.matmul(x, w)         ->        xb = R.matmul(x, b)
                                      gv = R.add(xa, xb)

What the products of the parts are for: a low-rank part b = u v is then multiplied in its cheaper
order (AdjustMatmulOrder). A sum of two weights is left, for it is known before the model runs.
"""

from __future__ import annotations

from typing import Any

from mlcnb.op.binary import Add
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.op.manipulate.permute import PermuteDims
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import same_dims
from mlcnb.relax.expr import Call
from mlcnb.relax.transform.written_out import CallPass, Reader, order_of


class ExpandMatmulOfSum(CallPass, says="products of sums written out", quiet=True, prunes=True):
    """x (a + b) becomes x a + x b, where a + b is not known before the model runs.

    Sums that broadcast, to another shape than both parts have, stay; so does a sum of weights.
    Floats are then rounded in another order. Nothing is refused.
    """


class _Expander(Reader, of=ExpandMatmulOfSum):
    @ExpandMatmulOfSum.rewrites(Matmul)
    def distribute(self, call: Any, _attrs: Any) -> Any:
        """x a + x b in place of x (a + b), or of x with a sum transposed."""
        x, parts = call.args[0], self.summands(call.args[1])
        if parts is None:
            return None
        products = [Call(call.op, (x, part), call.attrs) for part in parts]
        return op.add(*products)

    def summands(self, w: Any) -> list[Any] | None:
        """The two matrices whose sum `w` is; None where they are weights or broadcast."""
        moved = self.call_of(w, PermuteDims)
        total = self.call_of(w if moved is None else moved.args[0], Add)
        if total is None or all(map(self.is_known, total.args)):
            return None
        shapes = [a.struct_info.dims for a in total.args]
        if None in shapes or len(shapes[0]) != len(shapes[1]) or not same_dims(*shapes):
            return None
        if moved is None:
            return list(total.args)
        axes = order_of(moved)
        return [op.permute_dims(a, axes=axes) for a in total.args]

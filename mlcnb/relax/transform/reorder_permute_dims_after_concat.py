"""ReorderPermuteDimsAfterConcat: several transpositions that are joined become one of the whole.

at = R.permute_dims(a)                        ab = R.concat((a, b), axis=0)
bt = R.permute_dims(b)              ->        gv = R.permute_dims(ab)
gv = R.concat((at, bt), axis=1)
"""

from __future__ import annotations

from typing import Any

from mlcnb.op.manipulate.join import Concat
from mlcnb.op.manipulate.permute import PermuteDims
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Tuple
from mlcnb.relax.transform.written_out import (
    CallPass,
    Reader,
    order_of,
)


class ReorderPermuteDimsAfterConcat(
    CallPass, says="transpositions after the join", quiet=True, prunes=True
):
    """Join first and transpose once, where all parts are transposed the same way.

    Of any shapes and dtypes that concat takes, the ranks known; parts in different orders stay,
    nothing is refused.
    """


@ReorderPermuteDimsAfterConcat.rewrites(Concat)
def _join_first(r: Reader, call: Any, attrs: Any) -> Any:
    """permute_dims of the concat along the axis that the old one came from."""
    parts = r.value_of(call.args[0])
    fields = parts.fields if isinstance(parts, Tuple) else ()
    moved = [r.call_of(f, PermuteDims) for f in fields]
    if len(moved) < 2 or None in moved or attrs.axis is None:
        return None
    if any(m.args[0].struct_info.ndim < 1 for m in moved):
        return None
    orders = {order_of(m) for m in moved}
    if len(orders) != 1:
        return None
    (order,) = orders
    inner = tuple(m.args[0] for m in moved)
    joined = op.concat(inner, axis=order[attrs.axis % len(order)])
    return Call(moved[0].op, (joined,), moved[0].attrs)

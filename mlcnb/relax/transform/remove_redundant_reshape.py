"""RemoveRedundantReshape: reshapes that change nothing go, and of two in a row only the last stays.

lv = R.reshape(x, (1, 6))                     gv = R.reshape(x, (3, 2))
gv = R.reshape(lv, (3, 2))          ->
"""

from __future__ import annotations

from typing import Any

from mlcnb.op.manipulate.reshape import Reshape
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import same_known
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.relax.transform.written_out import CallPass, Reader


class RemoveRedundantReshape(CallPass, says="reshapes less", quiet=True, prunes=True):
    """Read through reshapes of reshapes; drop those that give the shape that was there.

    A reshape of a shape that is not known stays; none is refused.
    """


@RemoveRedundantReshape.rewrites(Reshape)
def _last_counts(r: Reader, call: Any, _attrs: Any) -> Any:
    """The operand itself, or a reshape of what was reshaped before."""
    source: Any = call.args[0]
    inner = r.call_of(source, Reshape)
    while inner is not None:
        source = inner.args[0]
        inner = r.call_of(source, Reshape)
    info = call.struct_info
    if not isinstance(info, TensorStructInfo) or info.dims is None:
        return None
    if same_known(source.struct_info, info):
        return source
    if source is call.args[0]:
        return None
    return op.reshape(source, info.shape)

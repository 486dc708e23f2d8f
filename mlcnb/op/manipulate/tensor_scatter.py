"""ONNX TensorScatter: new rows put into a cache, at a place of each sample's own.

present[b, …, write_indices[b] + s, …] = update[b, …, s, …]
"""

from __future__ import annotations

import numpy as np

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import tell_dims
from mlcnb.op._spell import call, place_of
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const


@onnx("TensorScatter", since=24)
def onnx_tensor_scatter(
    n: OnnxNode, cache: Expr, update: Expr, write_indices: Expr | None = None
) -> Expr:
    """Said as a read: each place of the cache takes the update that belongs there, if any."""
    dims, mode = n.dims(cache), n.attr("mode", "linear")
    axis = place_of(n, n.attr("axis", -2), dims)
    room, count = as_int(dims[axis]), as_int(n.dims(update)[axis])
    if room is None or count is None or mode not in ("linear", "circular"):
        n.refuse(f"mode {mode!r} on a cache of {tell_dims(dims)}")
    line = [room if i == axis else 1 for i in range(len(dims))]
    places = n.emit(call("relax.arange", 0, room, 1, dtype="int64"))
    places = n.emit(call("relax.reshape", places, line))
    first: Expr = const(np.zeros([1] * len(dims), np.int64))
    if write_indices is not None:
        first = n.emit(call("relax.reshape", write_indices, [dims[0], *[1] * (len(dims) - 1)]))
        first = n.emit(call("relax.astype", first, dtype="int64"))
    away = n.emit(call("relax.subtract", places, first))
    if mode == "circular":
        away = n.emit(call("relax.floor_mod", away, const(room, "int64")))
    after = n.emit(call("relax.greater_equal", away, const(0, "int64")))
    before = n.emit(call("relax.less", away, const(count, "int64")))
    new = n.emit(call("relax.logical_and", after, before))
    inside = call("relax.minimum", away, const(count - 1, "int64"))
    inside = n.emit(call("relax.maximum", n.emit(inside), const(0, "int64")))
    index = n.emit(call("relax.broadcast_to", inside, list(dims)))
    read = n.emit(call("relax.gather_elements", update, index, axis=axis))
    return call("relax.where", new, read, cache)

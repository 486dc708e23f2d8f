"""ONNX's auto_pad of images of open sizes, in steps of more than one: a pad of its own.

SAME_UPPER, kernel 3, stride 2, of n places:   max((ceil(n / 2) - 1) * 2 + 3 - n, 0) around them
"""

from __future__ import annotations

from collections.abc import Sequence

from mlcnb.op.manipulate.pad import filled_around
from mlcnb.op.nn._window import is_open_same, same_pads
from mlcnb.op.onnx import OnnxNode
from mlcnb.relax.expr import Expr


def same_padded(
    n: OnnxNode,
    x: Expr,
    kernel: Sequence[int | None],
    strides: Sequence[int],
    dilation: Sequence[int],
    value: float,
) -> Expr:
    """x as `auto_pad` pads it, with this value, where only a run knows by how much; else x."""
    spatial = n.dims(x)[2:]
    if not len(spatial) == len(kernel) == len(strides) == len(dilation):
        return x
    if not is_open_same(n, spatial, strides):
        return x
    pairs = same_pads(n, spatial, kernel, strides, dilation)
    return n.emit(filled_around(n, x, [(0, 0), (0, 0), *pairs], value))

"""ONNX's DFT and STFT, as products with matrices of sines and cosines.

    DFT     X[k] = sum over t of x[t] e^(-2 pi i k t / n)       one matmul
    STFT    the same of frames that begin every `step` values     one conv1d, of stride `step`

Complex numbers are pairs in the last dimension. Semantics:
https://onnx.ai/onnx/operators/onnx__DFT.html, https://onnx.ai/onnx/operators/onnx__STFT.html
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import tell_dims, tidy
from mlcnb.op._spell import affordable, call, scalar_of
from mlcnb.op.linear_algebra._fourier import folded, matrix
from mlcnb.op.manipulate.pad import filled_around
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const


def _axis(n: OnnxNode, axis: Expr | None, rank: int) -> int:
    given = int(scalar_of(n, axis, "axis", -2)) if n.opset >= 20 else n.attr("axis", 1)
    at = given + rank if given < 0 else given
    if not 0 <= at < rank - 1:
        n.refuse(f"axis {given} is none of the {rank - 1} before the last")
    return at


@onnx("DFT", since=17)
def onnx_dft(n: OnnxNode, x: Expr, length: Expr | None = None, axis: Expr | None = None) -> Expr:
    """Over one axis whose size is known, or brought to `dft_length`, by zeros or a cut."""
    dims = n.dims(x)
    at, pairs = _axis(n, axis, len(dims)), as_int(dims[-1])
    inverse, one_sided = bool(n.attr("inverse", 0)), bool(n.attr("onesided", 0))
    real = inverse and one_sided
    if as_int(dims[at]) is None and length is not None:
        want = int(scalar_of(n, length, "dft_length"))
        want = want // 2 + 1 if real else want
        widths = [(0, tidy(want - d)) if i == at else (0, 0) for i, d in enumerate(dims)]
        x = n.emit(filled_around(n, x, widths, 0.0))
        dims = (*dims[:at], want, *dims[at + 1 :])
        x = n.emit(call("relax.reshape", x, dims))
    given = as_int(dims[at])
    if given is None or pairs not in (1, 2):
        n.refuse(f"an axis of unknown size, or numbers that are no pairs, in {tell_dims(dims)}")
    size = int(scalar_of(n, length, "dft_length", 2 * (given - 1) if real else given))
    if size < 1 or (one_sided and not inverse and pairs == 2) or (real and pairs == 1):
        n.refuse(f"length {size}, onesided of complex numbers, or an inverse of real ones")
    used = min(given, size // 2 + 1 if real else size)
    bins = size // 2 + 1 if one_sided and not inverse else size
    affordable(n, "a transform", used * pairs, bins * 2)
    if real:
        table = folded(size, used) / size
    else:
        table = matrix(size, bins, pairs, 1 if inverse else -1)[:used] / (size if inverse else 1)
    order = [i for i in range(len(dims)) if i not in (at, len(dims) - 1)]
    rows = n.emit(call("relax.permute_dims", x, axes=(*order, at, len(dims) - 1)))
    if used < given:
        cut = call("relax.strided_slice", rows, (len(dims) - 2,), (0,), (used,))
        rows = n.emit(cut)
    lead = [dims[i] for i in order]
    rows = n.emit(call("relax.reshape", rows, (*lead, used * pairs)))
    parts = table.shape[-1]
    weight = const(table.reshape(used * pairs, -1).astype(_kind(n, x)))
    made = n.emit(call("relax.matmul", rows, weight))
    made = n.emit(call("relax.reshape", made, (*lead, table.shape[2], parts)))
    back = [order.index(i) if i in order else len(order) for i in range(len(dims) - 1)]
    return call("relax.permute_dims", made, axes=(*back, len(dims) - 1))


def _kind(n: OnnxNode, x: Expr) -> Any:
    kind = n.dtype(x)
    if kind not in ("float32", "float64"):
        n.refuse(f"numbers of {kind}", hint="float32 or float64")
    return kind


@onnx("STFT", since=17)
def onnx_stft(
    n: OnnxNode,
    signal: Expr,
    frame_step: Expr,
    window: Expr | None = None,
    frame_length: Expr | None = None,
) -> Expr:
    """(batch, frames, bins, 2); the window and the step must be known, the signal's length not."""
    dims = n.dims(signal)
    pairs, step = as_int(dims[-1]), int(scalar_of(n, frame_step, "frame_step"))
    shape = None if window is None else n.constant(window, "window").astype(np.float64)
    size = int(scalar_of(n, frame_length, "frame_length", 0 if shape is None else len(shape)))
    one_sided = bool(n.attr("onesided", 1))
    if len(dims) != 3 or pairs not in (1, 2) or size < 1 or step < 1:
        n.refuse(f"a signal of {tell_dims(dims)}, frames of {size} every {step}")
    if shape is not None and shape.shape != (size,):
        n.refuse(f"a window of {len(shape)} for frames of {size}")
    if one_sided and pairs == 2:
        n.refuse("onesided of complex numbers")
    bins = size // 2 + 1 if one_sided else size
    affordable(n, "a transform", size * pairs, bins * 2)
    table = matrix(size, bins, pairs, -1)
    if shape is not None:
        table = table * shape[:, None, None, None]
    kind = _kind(n, signal)
    weight = const(
        np.ascontiguousarray(table.reshape(size, pairs, -1).transpose(2, 1, 0)).astype(kind)
    )
    rows = n.emit(call("relax.permute_dims", signal, axes=(0, 2, 1)))
    made = n.emit(call("relax.nn.conv1d", rows, weight, strides=step))
    made = n.emit(call("relax.permute_dims", made, axes=(0, 2, 1)))
    batch, frames, _ = n.dims(made)
    return call("relax.reshape", made, (batch, frames, bins, 2))

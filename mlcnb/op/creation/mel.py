"""MelWeightMatrix: triangles over frequencies, at equal steps of pitch; a constant at import.

    weight            /\\    /\\      /\\
                     /  \\  /  \\    /  \\        mel(f) = 2595 log10(1 + f / 700)
    frequency  ─────────────────────────────────>

Semantics: https://onnx.ai/onnx/operators/onnx__MelWeightMatrix.html
"""

from __future__ import annotations

import numpy as np

from mlcnb.op._spell import affordable, dtype_of, scalar_of
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const

_NAMES = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")


@onnx("MelWeightMatrix", since=17)
def onnx_mel_weight_matrix(
    n: OnnxNode, bins: Expr, length: Expr, rate: Expr, lower: Expr, upper: Expr
) -> Expr:
    """All five inputs must be known."""
    given = zip((bins, length, rate, lower, upper), _NAMES, strict=True)
    values = [scalar_of(n, x, name) for x, name in given]
    count, size, frequency, low, high = values
    affordable(n, "the matrix", int(count) + 2, int(size) // 2 + 1)
    if frequency <= 0 or not 0 <= low <= high <= frequency / 2:
        n.refuse(f"edges of {low} and {high} Hz at a rate of {frequency} Hz")
    return const(mel_weights(*values), dtype_of(n, "output_datatype", "float32"))


def mel_weights(bins: int, length: int, rate: float, lower: float, upper: float) -> np.ndarray:
    """The matrix (length // 2 + 1, bins): how much of each frequency goes into each band."""
    low, high = (2595 * np.log10(1 + edge / 700) for edge in (lower, upper))
    pitch = low + np.arange(bins + 2) * (high - low) / (bins + 2)
    corners = np.floor((length + 1) * 700 * (10 ** (pitch / 2595) - 1) / rate).astype(int)
    weights = np.zeros((length // 2 + 1, bins))
    for band, (left, top, right) in enumerate(
        zip(corners[:-2], corners[1:-1], corners[2:], strict=True)
    ):
        weights[top, band] = 1
        weights[left:top, band] = (np.arange(left, top) - left) / max(top - left, 1)
        weights[top:right, band] = (right - np.arange(top, right)) / max(right - top, 1)
    return weights

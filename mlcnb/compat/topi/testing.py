"""topi.testing: operators in NumPy, to compare with; by TVM's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.compat.topi.nn import _around, _pair
from mlcnb.relax.operator import declaration


def conv2d_nchw_python(a_np: Any, w_np: Any, stride: Any, padding: Any, groups: int = 1) -> Any:
    """Convolution of (N, C, H, W) with (O, I, KH, KW)."""
    options = {"strides": _pair(stride), "padding": _around(padding), "groups": groups}
    return declaration("relax.nn.conv2d")(**options).numpy(a_np, w_np)


def softmax_python(a_np: Any, axis: int = -1) -> Any:
    """e ** x over their sum along an axis."""
    return declaration("relax.nn.softmax")(axis=axis).numpy(a_np)


def log_softmax_python(a_np: Any, axis: int = -1) -> Any:
    """The logarithm of softmax."""
    return declaration("relax.nn.log_softmax")(axis=axis).numpy(a_np)


def batch_matmul(x: Any, y: Any, out_dtype: str | None = None) -> Any:
    """Products of matrices, the second of each pair transposed."""
    made = np.matmul(x, np.swapaxes(y, -1, -2))
    return made if out_dtype is None else made.astype(out_dtype)


def dense(x: Any, y: Any, bias: Any = None, use_bias: bool = False, use_relu: bool = False) -> Any:
    """x times the transposed y, the bias added, and no less than 0, as asked for."""
    made = x @ y.T
    made = made + bias if use_bias else made
    return np.maximum(made, 0) if use_relu else made

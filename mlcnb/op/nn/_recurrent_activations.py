"""The functions that cells of recurrent layers apply: of arrays, and of expressions.

Names, alpha and beta are ONNX's: https://onnx.ai/onnx/operators/onnx__LSTM.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mlcnb import te
from mlcnb.ir import prim_ops as p


class Activation(NamedTuple):
    """A function of arrays, and the same of expressions."""

    meaning: Callable[[Any], Any]
    loop: Callable[[Any], Any]


def _of(x: Any, number: float) -> Any:
    return p.const(number, x.dtype)


def _sigmoid(x: Any, alpha: float, beta: float) -> Any:
    return 1 / (1 + np.exp(-np.clip(x, -500, 500)))


def _hard_sigmoid(x: Any, alpha: float, beta: float) -> Any:
    return np.clip(alpha * x + beta, 0, 1)


def _hard_sigmoid_loop(x: Any, alpha: float, beta: float) -> Any:
    line = x * _of(x, alpha) + _of(x, beta)
    return p.maximum(p.minimum(line, _of(x, 1)), _of(x, 0))


def _elu(x: Any, alpha: float, beta: float) -> Any:
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _elu_loop(x: Any, alpha: float, beta: float) -> Any:
    return te.Select(x < _of(x, 0), (te.exp(x) - _of(x, 1)) * _of(x, alpha), x)


def _softplus_loop(x: Any, alpha: float, beta: float) -> Any:
    return p.maximum(x, _of(x, 0)) + te.log(_of(x, 1) + te.exp(_of(x, 0) - te.abs(x)))


#: name -> of arrays, of expressions; each of x, alpha and beta
TABLE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "Sigmoid": (_sigmoid, lambda x, a, b: te.sigmoid(x)),
    "Tanh": (lambda x, a, b: np.tanh(x), lambda x, a, b: te.tanh(x)),
    "Relu": (lambda x, a, b: np.maximum(x, 0), lambda x, a, b: p.maximum(x, _of(x, 0))),
    "Affine": (lambda x, a, b: a * x + b, lambda x, a, b: x * _of(x, a) + _of(x, b)),
    "LeakyRelu": (
        lambda x, a, b: np.where(x < 0, a * x, x),
        lambda x, a, b: te.Select(x < _of(x, 0), x * _of(x, a), x),
    ),
    "ThresholdedRelu": (
        lambda x, a, b: np.where(x > a, x, 0),
        lambda x, a, b: te.Select(x > _of(x, a), x, _of(x, 0)),
    ),
    "ScaledTanh": (
        lambda x, a, b: a * np.tanh(b * x),
        lambda x, a, b: te.tanh(x * _of(x, b)) * _of(x, a),
    ),
    "HardSigmoid": (_hard_sigmoid, _hard_sigmoid_loop),
    "Elu": (_elu, _elu_loop),
    "Softsign": (
        lambda x, a, b: x / (1 + np.abs(x)),
        lambda x, a, b: x / (_of(x, 1) + te.abs(x)),
    ),
    "Softplus": (lambda x, a, b: np.logaddexp(x, 0), _softplus_loop),
}


def activation(name: str, alpha: float, beta: float) -> Activation:
    """An entry of the table with its numbers put in."""
    meaning, loop = TABLE[name]
    return Activation(lambda x: meaning(x, alpha, beta), lambda x: loop(x, alpha, beta))

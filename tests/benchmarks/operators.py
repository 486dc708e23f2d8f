"""Operators over rows: softmax, layer norm, attention. The other single ones are in singles.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from onnx import helper

from tests.benchmarks.case import Case, model_of, random

ROWS = ((128, 384), (1536, 128), (64, 1000), (512, 768), (4096, 1024), (1, 32000), (1000, 37))
#: heads, length, width of a head: MiniLM, BERT at 128 and 512 tokens, a language model
HEADS = ((12, 128, 32), (12, 128, 64), (12, 512, 64), (32, 1024, 64))


def softmax(quick: bool = False) -> Iterator[Case]:
    """Along the rows of a matrix."""
    for shape in ROWS[:2] if quick else ROWS:
        node = helper.make_node("Softmax", ["x"], ["y"], axis=-1)
        yield _rows("softmax", shape, [node], {}, _softmax, _torch_softmax)


def layernorm(quick: bool = False) -> Iterator[Case]:
    """Along the rows of a matrix, with scale and bias."""
    for shape in ROWS[:2] if quick else ROWS:
        weights = {"g": 1 + random(shape[1], seed=6, scale=0.1), "b": random(shape[1], seed=7)}
        node = helper.make_node("LayerNormalization", ["x", "g", "b"], ["y"], axis=-1, epsilon=1e-5)
        yield _rows("layernorm", shape, [node], weights, _layernorm(weights), _torch_norm(weights))


def _rows(suite: str, shape: Any, nodes: Any, weights: Any, numpy: Any, torch: Any) -> Case:
    model = model_of(nodes, {"x": shape}, "y", weights)
    return Case(suite, "x".join(map(str, shape)), model, (random(*shape),), numpy, torch)


def _softmax(x: np.ndarray) -> Callable[[], Any]:
    def run() -> np.ndarray:
        y = np.exp(x - x.max(-1, keepdims=True))
        y /= y.sum(-1, keepdims=True)
        return y

    return run


def _torch_softmax(x: Any) -> Callable[[], Any]:
    return lambda: x.softmax(-1)


def _layernorm(weights: dict[str, np.ndarray]) -> Any:
    def bound(x: np.ndarray) -> Callable[[], Any]:
        def run() -> np.ndarray:
            centred = x - x.mean(-1, keepdims=True)
            variance = np.square(centred).mean(-1, keepdims=True)
            return centred / np.sqrt(variance + 1e-5) * weights["g"] + weights["b"]

        return run

    return bound


def _torch_norm(weights: dict[str, np.ndarray]) -> Any:
    def bound(x: Any) -> Callable[[], Any]:
        import torch

        g, b = (torch.from_numpy(weights[n]) for n in "gb")
        return lambda: torch.nn.functional.layer_norm(x, x.shape[-1:], g, b)

    return bound


def attention(quick: bool = False) -> Iterator[Case]:
    """softmax(q kT / sqrt(d)) v, as exporters write it: product, scale, softmax, product."""
    for heads, length, width in HEADS[:1] if quick else HEADS:
        shape = (1, heads, length, width)
        nodes = [
            helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
            helper.make_node("MatMul", ["q", "t"], ["s"]),
            helper.make_node("Mul", ["s", "scale"], ["m"]),
            helper.make_node("Softmax", ["m"], ["p"], axis=-1),
            helper.make_node("MatMul", ["p", "v"], ["y"]),
        ]
        scale = {"scale": np.array(width**-0.5, np.float32)}
        model = model_of(nodes, dict.fromkeys("qkv", shape), "y", scale)
        inputs = tuple(random(*shape, seed=8 + n) for n in range(3))
        name = f"{heads} heads, {length} x {width}"
        yield Case("attention", name, model, inputs, _attention, _torch_attention)


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Callable[[], Any]:
    scale = np.float32(q.shape[-1] ** -0.5)

    def run() -> np.ndarray:
        s = q @ k.swapaxes(-1, -2) * scale
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        return p @ v

    return run


def _torch_attention(q: Any, k: Any, v: Any) -> Callable[[], Any]:
    import torch

    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)

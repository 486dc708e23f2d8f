"""ONNX operators that are formulas of others, with open sizes: as ONNX's own reference has them.

A case is a node, its inputs with names for what is open, and values of these.
"""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import mlcnb as mlc
from mlcnb.codegen.cuda import nvrtc
from mlcnb.core.errors import ExecutionError
from tests.frontend.build import model, node

HEADS = "q: float[b, h, s, d]; k: float[b, g, t, d]; v: float[b, g, t, e]"
FLAT = "q: float[b, s, c]; k: float[b, t, c]; v: float[b, t, e]"
ATTENDED = [(1, 4, 3, 8, 2, 5, 4), (2, 6, 7, 16, 6, 9, 24), (1, 8, 1, 64, 1, 33, 64)]
PAST = f"{HEADS}; m: float[s, l]; pk: float[b, g, p, d]; pv: float[b, g, p, e]"
TURNED = "x: float[b, h, s, d]; c: float[m, a]; e: float[m, a]; p: int64[b, s]"
HINT = "\nhint: these dimensions are open in the program: call it with sizes that agree"

#: name -> inputs, node, values of what is open in the order in which it is met
CASES = {
    "attention": (HEADS, node("Attention", "q k v", "y"), ATTENDED),
    "attention_causal": (
        HEADS, node("Attention", "q k v", "y", is_causal=1, softcap=2.0), ATTENDED),
    "attention_flat": (
        FLAT, node("Attention", "q k v", "y", q_num_heads=3, kv_num_heads=3),
        [(1, 3, 24, 5, 6), (2, 9, 48, 2, 96)]),
    "attention_past": (
        PAST, node("Attention", "q k v m pk pv", "y", is_causal=1),
        [(1, 4, 3, 8, 2, 5, 4, 11, 6), (2, 4, 1, 16, 4, 1, 16, 9, 30),
         (1, 2, 2, 8, 1, 3, 8, 3, 1)]),
    "rotary": (TURNED, node("RotaryEmbedding", "x c e p", "y"),
               [(2, 4, 3, 8, 50, 4), (1, 1, 9, 64, 50, 32)]),
    "rotary_neighbours": (
        TURNED, node("RotaryEmbedding", "x c e p", "y", interleaved=1),
        [(2, 4, 3, 8, 50, 4), (1, 1, 9, 64, 50, 32)]),
    "rotary_part": (
        TURNED, node("RotaryEmbedding", "x c e p", "y", rotary_embedding_dim=4),
        [(2, 4, 3, 8, 50, 2), (1, 3, 9, 4, 50, 2)]),
    "center_crop_pad": (
        "x: float[a, b, 3]", node("CenterCropPad", "x z", "y", axes=[0, 1]),
        [(20, 8), (3, 4), (10, 7), (11, 9), (0, 1)]),
    "depth_to_space": (
        "x: float[n, c, h, w]", node("DepthToSpace", "x", "y", blocksize=2),
        [(1, 8, 2, 3), (2, 4, 5, 7)]),
    "transposed": (
        "x: float[n, c, 5, w]; k: float[c, m, p, q]",
        node("ConvTranspose", "x k", "y", strides=[2, 3], pads=[1, 0, 0, 1], dilations=[1, 2]),
        [(1, 3, 4, 2, 3, 2), (2, 1, 1, 8, 5, 1), (1, 16, 7, 16, 2, 4)]),
    "causal_conv": (
        "x: float[n, c, t]; k: float[c, 1, p]", node("CausalConvWithState", "x k", "y z"),
        [(1, 4, 9, 3), (2, 1, 1, 5), (1, 7, 6, 1)]),
    "causal_conv_channels": (
        "x: float[n, 4, t]; k: float[4, 1, p]", node("CausalConvWithState", "x k", "y z"),
        [(1, 9, 3), (2, 1, 5), (1, 6, 1)]),
    "rnn": (
        "x: float[t, n, c]; w: float[1, h, c]; r: float[1, h, h]",
        node("RNN", "x w r", "y", direction="reverse"), [(3, 2, 4, 5), (1, 7, 3, 8)]),
    "gru": (
        "x: float[t, n, c]; w: float[1, g, c]; r: float[1, g, h]; b: float[1, s]",
        node("GRU", "x w r b", "y", linear_before_reset=1),
        [(3, 2, 4, 15, 5, 30), (2, 5, 1, 3, 1, 6)]),
    "lstm": (
        "x: float[t, n, c]; w: float[d, g, c]; r: float[d, g, h]",
        node("LSTM", "x w r", "y"), [(3, 2, 4, 1, 20, 5), (2, 5, 1, 1, 4, 1)]),
    "last_largest": (
        "x: float[n, m]", node("ArgMax", "x", "y", axis=1, select_last_index=1),
        [(2, 2), (3, 300), (4, 1)]),
    "last_smallest": (
        "x: float[n, m]", node("ArgMin", "x", "y", axis=-2, keepdims=0, select_last_index=1),
        [(2, 2), (300, 3)]),
}  # fmt: skip
STORED = {"z": np.array([10, 7], np.int64)}


def made(name: str):
    inputs, kind, _ = CASES[name]
    stored = {key: value for key, value in STORED.items() if key in kind.input}
    element = "int64" if kind.op_type.startswith("Arg") else "float"
    outputs = "; ".join(f"{name}: {element}" for name in kind.output)
    return model(inputs, [kind], outputs, opset=27, **stored)


def drawn(proto, sizes) -> dict[str, np.ndarray]:
    """Inputs of these sizes; whole numbers, so that some are equal."""
    stored = {t.name for t in proto.graph.initializer}
    kinds = {i.name: i.type.tensor_type for i in proto.graph.input if i.name not in stored}
    shapes = {name: kind.shape.dim for name, kind in kinds.items()}
    opened = dict.fromkeys(d.dim_param for dims in shapes.values() for d in dims if d.dim_param)
    known = dict(zip(opened, sizes, strict=True))
    rng, found = np.random.default_rng(0), {}
    for name, dims in shapes.items():
        shape = [known.get(d.dim_param, d.dim_value) for d in dims]
        is_float = kinds[name].elem_type == 1
        values = rng.integers(-3, 4, shape) if is_float else rng.integers(0, 50, shape)
        found[name] = values.astype(np.float32 if is_float else np.int64)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("target", ["llvm", "cuda-sim"])
@pytest.mark.parametrize("name", CASES)
def test_one_compilation_for_several_sizes(name, target):
    proto = made(name)
    ex, peer = mlc.compile(mlc.from_onnx(proto), target=target), ReferenceEvaluator(proto)
    for sizes in CASES[name][2]:
        given = drawn(proto, sizes)
        with np.errstate(all="ignore"):
            expected = peer.run(None, given)
        made_by_us = ex(*given.values())
        results = made_by_us if len(expected) > 1 else [made_by_us]
        for theirs, ours in zip(expected, map(np.asarray, results), strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5, err_msg=str(sizes))


@pytest.mark.slow
@pytest.mark.skipif(not nvrtc.is_available(), reason="NVRTC is not installed")
def test_attention_compiles_for_a_gpu():
    ex = mlc.compile(mlc.from_onnx(made("attention_past")), target="cuda -arch=sm_80")
    assert all(kernel.binary.cubin for kernel in ex.kernels.values())


def test_heads_that_do_not_divide_are_refused_as_it_runs():
    proto = made("attention")
    with pytest.raises(ExecutionError) as caught:
        mlc.compile(mlc.from_onnx(proto))(*drawn(proto, (1, 4, 3, 8, 3, 5, 4)).values())
    each = "h // T.max(g, T.int64(1))"
    assert str(caught.value) == (
        f"node 'y' (Attention): size is b * h * t * d = 160, but has to be b * g * ({each}) * t * d"
        f" = 120{HINT}"
    )


def test_a_mask_that_is_longer_than_the_keys_is_refused_as_it_runs():
    proto = made("attention_past")
    with pytest.raises(ExecutionError, match=r"condition is T\.Select\(T\.int64\(0\) <= .* = 0"):
        mlc.compile(mlc.from_onnx(proto))(*drawn(proto, (1, 2, 2, 8, 1, 3, 8, 5, 1)).values())


def test_weights_of_another_size_are_refused_as_it_runs():
    """Nothing is read beyond them."""
    lstm = mlc.compile(mlc.from_onnx(made("lstm")))
    with pytest.raises(ExecutionError, match="node 'y' .LSTM.: size is d = 2, but has to be 1"):
        lstm(*drawn(made("lstm"), (3, 2, 4, 2, 20, 5)).values())
    gru = mlc.compile(mlc.from_onnx(made("gru")))
    with pytest.raises(ExecutionError, match=r"T\.Select\(T\.int64\(6\) \* h <= s, .* = 0"):
        gru(*drawn(made("gru"), (3, 2, 4, 15, 5, 29)).values())


def test_parts_that_do_not_add_up_are_refused_as_it_runs():
    """The last part took what was left."""
    sizes = np.array([2, 4], np.int64)
    proto = model("x: float[n]", [node("Split", "x s", "y z")], "y: float; z: float", s=sizes)
    ex = mlc.compile(mlc.from_onnx(proto))
    assert [np.asarray(part).shape for part in ex(np.ones(6, np.float32))] == [(2,), (4,)]
    with pytest.raises(ExecutionError) as caught:
        ex(np.ones(7, np.float32))
    assert str(caught.value) == f"node 'y' (Split): size is n = 7, but has to be 6{HINT}"

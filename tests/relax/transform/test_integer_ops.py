"""IntegerOps, and ONNX Runtime's quantised operators: what they become, and the same bytes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlcnb as mlc
from mlcnb.observe.peers import onnxruntime_session
from mlcnb.relax.transform import IntegerOps, SimplifyOps

pytest.importorskip("onnxruntime")
RANDOM = np.random.default_rng(0)


def model(nodes, inputs, outputs, **constants) -> bytes:
    """A model with com.microsoft's operators; constants are NumPy arrays."""
    stored = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets)
    made.ir_version = 8
    return made.SerializeToString()


def value(name: str, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def node(op: str, inputs: str, output: str, domain: str = "", **attrs):
    return helper.make_node(op, inputs.split(), [output], domain=domain, **attrs)


def operators(mod) -> list[str]:
    """The operators of main, in order."""
    bindings = mod["main"].body.bindings
    return [b.value.op.name.removeprefix("relax.") for b in bindings if hasattr(b.value, "op")]


def same_as_onnxruntime(content: bytes, *arrays) -> None:
    session = onnxruntime_session(content, 1)
    feed = dict(zip((i.name for i in session.get_inputs()), arrays, strict=True))
    (expected,) = session.run(None, feed)
    ex = mlc.compile(mlc.from_onnx(onnx.load_from_string(content)), target="llvm")
    np.testing.assert_array_equal(np.asarray(ex(*arrays)), expected)


def qdq(*, activation=None, float_bias=False) -> bytes:
    """dequantize, a convolution with bias (and an activation), quantize."""
    random = np.random.default_rng(0)  # the same weights in whatever order tests run
    weight = random.integers(-127, 128, (5, 3, 3, 3)).astype(np.int8)
    bias = random.integers(-2000, 2000, 5).astype(np.int32)
    scale = np.linspace(0.002, 0.01, 5).astype(np.float32)
    unit = np.float32(0.05) * scale
    nodes = [
        node("QuantizeLinear", "x xs xz", "xq"),
        node("DequantizeLinear", "xq xs xz", "xf"),
        node("DequantizeLinear", "w ws wz", "wf", axis=0),
        *([] if float_bias else [node("DequantizeLinear", "b bs bz", "bf", axis=0)]),
        node("Conv", "xf wf bf", "c", pads=[1, 1, 1, 1]),
        *([node(activation, "c", "a")] if activation else []),
        node("QuantizeLinear", f"{'a' if activation else 'c'} ys yz", "yq"),
        node("DequantizeLinear", "yq ys yz", "y"),
    ]
    constants = {
        "xs": np.float32(0.05),
        "xz": np.uint8(120),
        "ys": np.float32(0.04),
        "yz": np.uint8(101),
        "w": weight,
        "ws": scale,
        "wz": np.zeros(5, np.int8),
        **({"bf": (bias * unit).astype(np.float32)} if float_bias else {}),
        **({} if float_bias else {"b": bias, "bs": unit, "bz": np.zeros(5, np.int32)}),
    }
    ends = [value("x", [1, 3, 6, 7])], [value("y", [1, 5, 6, 7])]
    return model(nodes, *ends, **constants)


def images(seed: int = 1) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((1, 3, 6, 7)) * 4).astype(np.float32)


def test_a_convolution_between_dequantize_and_quantize():
    before = mlc.from_onnx(onnx.load_from_string(qdq()))
    after = SimplifyOps()(IntegerOps()(before))
    assert operators(before) == [
        *["quantize", "dequantize", "dequantize", "dequantize", "nn.conv2d", "reshape", "add"],
        *["quantize", "dequantize"],
    ]
    assert operators(after) == ["quantize", "qnn.conv2d", "add", "qnn.requantize", "dequantize"]
    same_as_onnxruntime(qdq(), images())


def test_relu_becomes_a_bound_of_bytes():
    after = IntegerOps()(mlc.from_onnx(onnx.load_from_string(qdq(activation="Relu"))))
    assert "maximum" in operators(after)
    assert "nn.relu" not in operators(after)
    same_as_onnxruntime(qdq(activation="Relu"), images())


def test_a_bias_of_floats_is_quantised():
    after = IntegerOps()(mlc.from_onnx(onnx.load_from_string(qdq(float_bias=True))))
    assert "qnn.conv2d" in operators(after)
    assert "nn.conv2d" not in operators(after)


def test_a_value_that_is_used_as_floats_stays_so():
    """The sum is an output too, so it has to be formed."""
    nodes = [
        node("DequantizeLinear", "a s z", "af"),
        node("DequantizeLinear", "b s z", "bf"),
        node("Add", "af bf", "sum"),
        node("QuantizeLinear", "sum s z", "y"),
    ]
    U8 = TensorProto.UINT8
    ends = [value("a", [4], U8), value("b", [4], U8)], [value("y", [4], U8), value("sum", [4])]
    content = model(nodes, *ends, s=np.float32(0.1), z=np.uint8(3))
    mod = mlc.from_onnx(onnx.load_from_string(content))
    assert operators(IntegerOps()(mod)) == operators(mod)


@pytest.mark.parametrize("seed", range(4))
def test_sums_round_where_onnxruntime_rounds(seed):
    """All pairs of bytes."""
    random = np.random.default_rng(seed)
    scales = {n: np.float32(random.uniform(0.005, 0.1)) for n in ("sa", "sb", "sc")}
    zeros = {n: np.uint8(random.integers(0, 256)) for n in ("za", "zb", "zc")}
    add = node("QLinearAdd", "a sa za b sb zb sc zc", "y", "com.microsoft")
    U8, n = TensorProto.UINT8, 65536
    ends = [value("a", [n], U8), value("b", [n], U8)], [value("y", [n], U8)]
    pairs = [p.reshape(-1).astype(np.uint8) for p in np.mgrid[:256, :256]]
    same_as_onnxruntime(model([add], *ends, **scales, **zeros), *pairs)


def test_the_mean_of_an_image():
    pool = node("QLinearGlobalAveragePool", "x xs xz ys yz", "y", "com.microsoft")
    constants = {"xs": np.float32(0.02), "xz": np.uint8(9), "ys": np.float32(0.013)}
    U8 = TensorProto.UINT8
    ends = [value("x", [2, 5, 7, 7], U8)], [value("y", [2, 5, 1, 1], U8)]
    x = RANDOM.integers(0, 256, (2, 5, 7, 7)).astype(np.uint8)
    same_as_onnxruntime(model([pool], *ends, **constants, yz=np.uint8(3)), x)


def test_a_product_with_a_zero_point_known_at_run_time():
    """DynamicQuantizeLinear and MatMulInteger: what dynamic quantisation writes."""
    nodes = [
        node("DynamicQuantizeLinear", "x", "q"),
        node("MatMulInteger", "q w z wz", "y"),
    ]
    nodes[0].output.extend(["s", "z"])
    weight = RANDOM.integers(-128, 128, (12, 37)).astype(np.int8)
    ends = [value("x", [6, 12])], [value("y", [6, 37], TensorProto.INT32)]
    content = model(nodes, *ends, w=weight, wz=np.int8(0))
    assert "qnn.matmul" in operators(mlc.from_onnx(onnx.load_from_string(content)))
    same_as_onnxruntime(content, RANDOM.standard_normal((6, 12)).astype(np.float32))


def quantised_conv(inner: int, outer: int, groups: int, kind: str, point, size: int = 3) -> bytes:
    """QLinearConv of 9 x 9 places with weights of the whole range of their kind."""
    random, ends = np.random.default_rng(1), np.iinfo(kind)
    weight = random.integers(
        ends.min, ends.max, (outer, inner // groups, size, size), kind, endpoint=True
    )
    op = node("QLinearConv", "x xs xz w ws wz ys yz", "y", pads=[size // 2] * 4, group=groups)
    constants = {"xs": np.float32(0.02), "xz": np.uint8(120), "ws": np.float32(0.01)}
    constants |= {"ys": np.float32(0.7), "yz": np.uint8(110), "w": weight, "wz": np.array(point)}
    U8 = TensorProto.UINT8
    ends_of = [value("x", [1, inner, 9, 9], U8)], [value("y", [1, outer, 9, 9], U8)]
    return model([op], *ends_of, **constants)


def bytes_are_multiplied(content: bytes) -> bool:
    """By an instruction that sums four products, in all convolutions."""
    mod = mlc.from_onnx(onnx.load_from_string(content))
    ex = mlc.compile(mod, "llvm -mcpu=icelake-server")
    loops = [k.asm for n, k in ex.kernels.items() if "qconv" in ex.mod[n].script()]
    return bool(loops) and all("vpdpbusd" in asm for asm in loops)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(
    "inner, outer, groups", [(7, 21, 1), (16, 32, 1), (12, 12, 12), (32, 32, 2), (6, 9, 3)]
)
def test_weights_that_are_no_int8_without_their_zero_point(inner, outer, groups, size):
    """uint8 around 130: values to -130. What the zero point adds is one sum for each place."""
    content = quantised_conv(inner, outer, groups, "uint8", np.uint8(130), size)
    same_as_onnxruntime(content, RANDOM.integers(0, 256, (1, inner, 9, 9)).astype(np.uint8))
    assert bytes_are_multiplied(content)


def test_a_product_with_weights_that_are_no_int8_without_their_zero_point():
    weight = np.random.default_rng(1).integers(0, 256, (12, 37)).astype(np.uint8)
    op = node("QLinearMatMul", "x xs xz w ws wz ys yz", "y")
    constants = {"xs": np.float32(0.02), "xz": np.uint8(120), "ws": np.float32(0.01)}
    constants |= {"ys": np.float32(0.3), "yz": np.uint8(110), "w": weight, "wz": np.uint8(140)}
    ends = [value("x", [6, 12], TensorProto.UINT8)], [value("y", [6, 37], TensorProto.UINT8)]
    content = model([op], *ends, **constants)
    same_as_onnxruntime(content, RANDOM.integers(0, 256, (6, 12)).astype(np.uint8))
    assert "qnn.matmul" in operators(mlc.from_onnx(onnx.load_from_string(content)))


@pytest.mark.parametrize(
    "inner, outer, groups", [(40, 40, 4), (64, 32, 2), (32, 32, 8), (6, 9, 3), (16, 32, 16)]
)
def test_groups_of_channels_are_multiplied_as_bytes(inner, outer, groups):
    """Groups that fill no blocks join, with zeros for what is another group's."""
    content = quantised_conv(inner, outer, groups, "int8", np.int8(0))
    same_as_onnxruntime(content, RANDOM.integers(0, 256, (1, inner, 9, 9)).astype(np.uint8))
    assert bytes_are_multiplied(content)

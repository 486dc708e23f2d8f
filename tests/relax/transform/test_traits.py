"""What declarations say of operators, and passes ask for: traits."""

from __future__ import annotations

import hypothesis.strategies as some
import numpy as np
import pytest
from hypothesis import given, settings

import mlcnb as mlc
from mlcnb import relax
from mlcnb.relax import op
from mlcnb.relax.operator import called, declarations
from mlcnb.relax.transform import ConvertLayout, IntegerOps
from mlcnb.target import Target
from mlcnb.tir import FloatImm


def module(build, *shapes, dtype="float32"):
    """main(*xs) = build(*xs), a value for each step that `build` makes."""
    bb = relax.BlockBuilder()
    params = [
        relax.Var(f"x{i}", relax.TensorStructInfo(shape, dtype)) for i, shape in enumerate(shapes)
    ]
    with bb.function("main", params):
        with bb.dataflow():
            result = bb.emit_output(build(*params))
        bb.emit_func_output(result)
    return bb.get()


def names(mod) -> list[str]:
    """The operators of main, in order."""
    return [called(b.value).sugar for b in mod["main"].body.bindings if called(b.value).op_name]


def run(mod, *arrays):
    return np.asarray(mlc.compile(mod, relax_pipeline="zero")(*arrays))


def dequantized(x):
    return op.dequantize(x, op_const(0.5, "float32"), op_const(3, "int8"))


def quantized(x):
    return op.quantize(x, op_const(0.5, "float32"), op_const(3, "int8"))


def op_const(value, dtype):
    return relax.const(np.array(value, dtype))


# called ------------------------------------------------------------------------------------------


def test_what_is_no_call_has_no_traits():
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    for value in (x, relax.Tuple((x,)), None, relax.Call(x, ())):
        found = called(value)
        assert (found.op_name, found.elementwise, found.moves, found.view) == ("", *[False] * 3)


def test_each_view_moves():
    assert not {n for n, d in declarations().items() if d.view and not d.moves}


# IntegerOps: moves and clamps --------------------------------------------------------------------


@pytest.mark.parametrize(
    "move",
    [
        lambda x: op.nn.max_pool1d(x, pool_size=(3,), strides=(2,), padding=(1, 1)),
        lambda x: op.flip(x, axis=0),
        lambda x: op.stack((x, x), axis=0),
        lambda x: op.nn.batch_flatten(x),
        lambda x: op.concat((x, x), axis=1),
    ],
)
def test_what_moves_values_moves_bytes(move):
    mod = module(lambda x: quantized(move(dequantized(x))), (2, 2, 4), dtype="int8")
    made = IntegerOps()(mod)
    assert "dequantize" not in names(made)
    x = np.arange(-128, 128, 16, dtype="int8").reshape(2, 2, 4)
    np.testing.assert_array_equal(run(made, x), run(mod, x))


ENDS = some.tuples(some.integers(-8, 8), some.integers(-8, 8))


@given(some.lists(ENDS, min_size=1, max_size=3))
@settings(max_examples=25, deadline=None)
def test_bounds_within_bounds(chain):
    """clip(clip(x, 0, 2), 5, 9) is 5."""

    def build(x):
        value = op.reshape(dequantized(x), (4, 4))
        for low, high in chain:
            value = op.clip(value, float(low), float(high))
        return quantized(value)

    mod = module(build, (16,), dtype="int8")
    made = IntegerOps()(mod)
    assert "clip" not in names(made)
    x = np.arange(-32, 32, 4, dtype="int8")
    expected = (x.astype("float32") - 3) * 0.5
    for low, high in chain:
        expected = np.minimum(np.maximum(expected, low), high)
    np.testing.assert_array_equal(run(made, x).reshape(-1), np.rint(expected / 0.5) + 3)


# ConvertLayout: what takes blocks ----------------------------------------------------------------


def convolved(after):
    """`after` of a convolution whose channels lie in blocks."""
    weight = np.random.default_rng(0).standard_normal((16, 16, 3, 3)).astype("float32")

    def build(x):
        return after(op.nn.conv2d(x, relax.const(weight), padding=(1, 1)))

    return module(build, (1, 16, 6, 6))


AFTER = {
    "a field of a tuple": lambda y: relax.TupleGetItem(op.nn.dropout(y), 0),
    "a scalar beside": lambda y: op.add(y, relax.PrimValue(FloatImm("float32", 2.0))),
    "another layout of the result": lambda y: op.nn.max_pool2d(
        y, pool_size=(2, 2), strides=(2, 2), layout="NCHW", out_layout="NHWC"
    ),
    "adaptive pooling": lambda y: op.nn.adaptive_avg_pool2d(y, output_size=(2, 2)),
    "the largest": lambda y: op.max(y, axis=(2, 3), keepdims=True),
    "bounds": lambda y: op.clip(y, -1.0, 1.0),
    "a choice": lambda y: op.where(op.greater(y, relax.const(0.0)), y, relax.const(0.5)),
    "what is not finite": lambda y: op.divide(y, y),
}


@pytest.mark.parametrize("after", AFTER.values(), ids=AFTER)
@pytest.mark.parametrize("layouts", [None, {"relax.nn.conv2d": ["NHWC", "OHWI"]}])
def test_layouts_flow_on_and_mean_the_same(after, layouts):
    mod = convolved(after)
    with Target("llvm"):
        made = ConvertLayout(layouts)(mod)
    x = np.random.default_rng(1).standard_normal((1, 16, 6, 6)).astype("float32")
    np.testing.assert_allclose(run(made, x), run(mod, x), rtol=1e-4, atol=1e-4)

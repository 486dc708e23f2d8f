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
from mlcnb.relax.transform import IntegerOps


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


def test_each_view_moves_but_those_of_memory():
    views = {n for n, d in declarations().items() if d.view and not d.moves}
    assert views == {"relax.memory.view"}


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

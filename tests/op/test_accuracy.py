"""Every operator of one or two floats, over all magnitudes: no more units in the last place off
than its line of the table says, in its meaning, in the interpreter and in LLVM's vector code.

The reference is the function in float64, in a form that loses no digits. Denormal numbers stand
apart: they may be 0, as arguments, as results, and in between.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import mlcnb as mlc
from mlcnb.ir.dtype import dtype
from mlcnb.op import binary, unary
from mlcnb.op._elementwise import Elementwise, Kinds
from mlcnb.op.nn import activation
from mlcnb.relax import BlockBuilder, TensorStructInfo, Var, const, op
from mlcnb.relax.numpy_call import call_numpy
from mlcnb.relax.operator import declaration, make_call
from tests.frontend.build import model, node

KINDS = {k: np.dtype(k) for k in ("float32", "float16")} | {
    "bfloat16": np.dtype(ml_dtypes.bfloat16)
}
erf, erfc = (np.vectorize(f, otypes=[np.float64]) for f in (math.erf, math.erfc))


def sigmoid(x):
    return np.where(x < 0, np.exp(-np.abs(x)), 1) / (1 + np.exp(-np.abs(x)))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def mish(x):
    e = np.exp(-np.abs(x))
    n = np.where(x < 0, e * (e + 2), 1 + 2 * e)
    return x * n / (n + np.where(x < 0, 2, 2 * e * e))


def gelu_tanh(x):
    return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def selu(x):
    low = activation.SELU_ALPHA * np.expm1(np.minimum(x, 0))
    return activation.SELU_SCALE * np.where(x > 0, x, low)


@dataclass(frozen=True)
class Bound:
    """exact: the function of float64. ulps: what compiled float32 may be off, in units in the last
    place of `of`: "result" (the default), or "operands", where the result may be the small
    difference of large numbers. Half precision is computed in float32 and rounded once.
    """

    exact: Callable[..., Any]
    ulps: float
    of: str = "result"


TABLE = {
    "relax.exp": Bound(np.exp, 2),
    "relax.expm1": Bound(np.expm1, 2),
    "relax.log": Bound(np.log, 2),
    "relax.sqrt": Bound(np.sqrt, 0.51),
    "relax.rsqrt": Bound(lambda x: 1 / np.sqrt(x), 2),
    "relax.square": Bound(np.square, 0.51),
    "relax.erf": Bound(erf, 3),
    "relax.sigmoid": Bound(sigmoid, 3),
    "relax.sin": Bound(np.sin, 2),
    "relax.cos": Bound(np.cos, 2),
    "relax.tan": Bound(np.tan, 3),
    "relax.asin": Bound(np.arcsin, 3),
    "relax.acos": Bound(np.arccos, 2),
    "relax.atan": Bound(np.arctan, 2),
    "relax.sinh": Bound(np.sinh, 3),
    "relax.cosh": Bound(np.cosh, 3),
    "relax.tanh": Bound(np.tanh, 3),
    "relax.asinh": Bound(np.arcsinh, 2),
    "relax.acosh": Bound(np.arccosh, 2),
    "relax.atanh": Bound(np.arctanh, 2),
    "relax.abs": Bound(np.abs, 0),
    "relax.negative": Bound(np.negative, 0),
    "relax.sign": Bound(np.sign, 0),
    "relax.floor": Bound(np.floor, 0),
    "relax.ceil": Bound(np.ceil, 0),
    "relax.trunc": Bound(np.trunc, 0),
    "relax.round": Bound(np.rint, 0),
    "relax.add": Bound(np.add, 0.51),
    "relax.subtract": Bound(np.subtract, 0.51),
    "relax.multiply": Bound(np.multiply, 0.51),
    "relax.divide": Bound(np.divide, 0.51),
    "relax.maximum": Bound(np.maximum, 0),
    "relax.minimum": Bound(np.minimum, 0),
    "relax.mod": Bound(np.fmod, 0),
    "relax.floor_mod": Bound(np.mod, 0.51),
    "relax.power": Bound(np.power, 0.6),
    "relax.log_add_exp": Bound(np.logaddexp, 3, "operands"),
    "relax.atan2": Bound(np.arctan2, 2),
    "relax.nn.relu": Bound(lambda x: np.maximum(x, 0), 0),
    "relax.nn.relu6": Bound(lambda x: np.clip(x, 0, 6), 0),
    "relax.nn.leakyrelu": Bound(lambda x: np.where(x > 0, x, x * float(np.float32(0.01))), 0.51),
    "relax.nn.gelu": Bound(lambda x: 0.5 * x * erfc(-x / math.sqrt(2)), 3, "operands"),
    "relax.nn.gelu_tanh": Bound(gelu_tanh, 200),  # an exponent near 88 is rounded in it
    "relax.nn.silu": Bound(lambda x: x * sigmoid(x), 5),
    "relax.nn.selu": Bound(selu, 4),
    "relax.nn.softplus": Bound(softplus, 3),
    "Elu": Bound(lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x), 3),
    "Celu": Bound(lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x), 3),
    "Mish": Bound(mish, 6),
    "Softplus": Bound(softplus, 3),
    "Softsign": Bound(lambda x: x / (1 + np.abs(x)), 2),
    "Swish": Bound(lambda x: x * sigmoid(x), 4),
    "Reciprocal": Bound(np.reciprocal, 0.51),
}
#: floor(x1 / x2) jumps: where the quotient is rounded to a whole number, it is another one
JUMPS = {"relax.floor_divide"}
BINARY = {
    name: bound for name, bound in TABLE.items() if name in {
        f"relax.{n}" for n in (
            "add", "subtract", "multiply", "divide", "maximum", "minimum", "mod", "floor_mod",
            "power", "log_add_exp", "atan2",
        )
    }
}  # fmt: skip
UNARY = {name: bound for name, bound in TABLE.items() if name not in BINARY}


def magnitudes(count: int) -> np.ndarray:
    """Numbers of both signs from the smallest to the largest, closer together where most happens;
    infinities, nan and zeros.
    """
    found = [10.0 ** np.linspace(-37.9, 38.5, count), np.linspace(0, 30, count)]
    found += [np.linspace(30, 110, count // 2), [np.inf, 0.0, 1.0]]
    one_sign = np.concatenate(found).astype(np.float32)
    return np.concatenate([one_sign, -one_sign, [np.float32(np.nan)]]).astype(np.float32)


def pairs(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of all magnitudes, of like ones, and of nearly equal numbers."""
    rng = np.random.default_rng(seed)
    sign = rng.choice([-1, 1], (2, count))
    wide = sign * 10.0 ** rng.uniform(-37, 38, (2, count))
    near = rng.normal(0, 30, (2, count))
    equal = np.stack([near[0], near[0] * (1 + 1e-6 * rng.normal(0, 1, count))])
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2.5])
    every = np.stack([np.repeat(special, 8), np.tile(special, 8)])
    both = np.concatenate([wide, near, equal, every], 1).astype(np.float32)
    return both[0], both[1]


def narrowed(x: np.ndarray, kind: str) -> np.ndarray:
    """As numbers of a dtype, none of them denormal."""
    with np.errstate(over="ignore"):
        found = x.astype(KINDS[kind])
    tiny = float(ml_dtypes.finfo(KINDS[kind]).tiny)
    wide = found.astype(np.float64)
    return np.where((np.abs(wide) < tiny) & (wide != 0), found.dtype.type(1), found)


def module(name: str, kind: str, count: int, arguments: int) -> Any:
    """One operator, of mlcnb or of ONNX, on vectors."""
    if name in ("Elu", "Celu", "Mish", "Softplus", "Softsign", "Swish", "Reciprocal"):
        return mlc.from_onnx(onnx_model(name, kind, count))
    bb = BlockBuilder()
    given = [Var(f"x{i}", TensorStructInfo((count,), kind)) for i in range(arguments)]
    with bb.function("main", given):
        with bb.dataflow():
            out = bb.emit_output(bb.emit(make_call(declaration(name), *given)))
        bb.emit_func_output(out)
    return bb.get()


def onnx_model(name: str, kind: str, count: int) -> onnx.ModelProto:
    number = helper.np_dtype_to_tensor_dtype(KINDS[kind])
    x, y = (helper.make_tensor_value_info(n, number, [count]) for n in "xy")
    graph = helper.make_graph([helper.make_node(name, ["x"], ["y"])], "one", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)


def off(got: Any, args: list[np.ndarray], bound: Bound, kind: str) -> np.ndarray:
    """How many units in the last place each result is off; inf where only one is a number."""
    limits = ml_dtypes.finfo(KINDS[kind])
    tiny, wide = float(limits.tiny), [a.astype(np.float64) for a in args]
    with np.errstate(all="ignore"):
        exact = bound.exact(*wide)
        rounded = exact.astype(KINDS[kind]).astype(np.float64)
        got = np.asarray(got).astype(np.float64)
        scale = np.abs(exact)
        if bound.of == "operands":
            scale = np.maximum.reduce([scale, *map(np.abs, wide)])
        unit = 2.0 ** np.floor(np.log2(np.maximum(scale, tiny))) * float(limits.eps)
        distance = np.abs(got - exact)
        # a denormal number on the way was 0, and then multiplied by an argument
        spared = tiny * np.maximum.reduce([np.ones_like(exact), *map(np.abs, wide)])
        distance = np.where(distance <= spared, 0, distance)
        finite = np.isfinite(got) & np.isfinite(rounded)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        over = np.isfinite(exact) & (np.abs(exact) > 0.999 * float(limits.max))
    found = np.where(finite, distance / unit, np.where(same | over, 0.0, np.inf))
    return np.where(np.isinf(wide[0]), np.where(same | np.isnan(got), 0.0, np.inf), found)


def check(got: Any, args: list[np.ndarray], bound: Bound, kind: str, ulps: float) -> None:
    found = off(got, args, bound, kind)
    worst = int(found.argmax())
    at = [float(a[worst]) for a in args]
    assert found[worst] <= ulps, f"{found[worst]} ulps at {at}: {np.asarray(got)[worst]}"


def allowed(bound: Bound, kind: str) -> float:
    """In half precision: what float32 is off, seldom seen, and one rounding."""
    if kind == "float32" or bound.ulps == 0:
        return bound.ulps
    return 0.51 + bound.ulps / (2.0**13 if kind == "float16" else 2.0**16) * 2


def arguments(name: str, kind: str, count: int) -> list[np.ndarray]:
    given = pairs(count) if name in BINARY else (magnitudes(count),)
    return [narrowed(x, kind) for x in given]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TABLE)
def test_vector_code(name, kind):
    args = arguments(name, kind, 3000)
    executable = mlc.compile(module(name, kind, args[0].size, len(args)))
    check(executable(*args), args, TABLE[name], kind, allowed(TABLE[name], kind))


@pytest.mark.parametrize("name", TABLE)
def test_interpreter(name):
    args = arguments(name, "float32", 100)
    executable = mlc.compile(module(name, "float32", args[0].size, len(args)), "interp")
    check(executable(*args), args, TABLE[name], "float32", TABLE[name].ulps)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [n for n in TABLE if n.startswith("relax.")])
def test_meaning(name, kind):
    args = arguments(name, kind, 3000)
    call = make_call(declaration(name), *map(const, args))
    with np.errstate(all="ignore"):
        found = call_numpy(call, None)
    ulps = max(allowed(TABLE[name], kind), 3 if TABLE[name].ulps > 0.6 and kind == "float32" else 0)
    check(found, args, TABLE[name], kind, ulps)


def takes_floats(decl: Any) -> bool:
    accepts = getattr(decl, "accepts", None)
    return isinstance(accepts, Kinds) and accepts.holds(dtype("float32"))


def test_no_operator_is_forgotten():
    found = {
        decl.op_name
        for where in (unary, binary, activation)
        for decl in vars(where).values()
        if isinstance(decl, type) and issubclass(decl, Elementwise | activation.Activation)
        and getattr(decl, "op_name", "") and getattr(decl, "gives", None) is None
        and (issubclass(decl, activation.Activation) or takes_floats(decl))
    }  # fmt: skip
    assert found - JUMPS == {name for name in TABLE if name.startswith("relax.")}


# statistics


def standard(x: np.ndarray, axes: tuple[int, ...], epsilon: float = 1e-5) -> np.ndarray:
    """In float64, of float32."""
    wide = x.astype(np.float64)
    mean, variance = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    return (wide - mean) / np.sqrt(variance + epsilon)


def near(base: float, shape: tuple[int, ...]) -> np.ndarray:
    """Random numbers around a large one."""
    return (base + np.random.default_rng(0).standard_normal(shape)).astype(np.float32)


def one_call(build: Callable[..., Any], *args: np.ndarray) -> Any:
    """A graph that calls `build` of its arguments."""
    bb = BlockBuilder()
    given = [Var(f"x{i}", TensorStructInfo(a.shape, str(a.dtype))) for i, a in enumerate(args)]
    with bb.function("main", given):
        with bb.dataflow():
            out = bb.emit_output(bb.emit(build(*given)))
        bb.emit_func_output(out)
    return bb.get()


ONES, ZEROS = np.ones(6, np.float32), np.zeros(6, np.float32)
NORMS = {
    "layer_norm": lambda x: op.nn.layer_norm(
        x, const(np.ones(64, np.float32)), const(np.zeros(64, np.float32)), axes=-1
    ),
    "instance_norm": lambda x: op.nn.instance_norm(
        x, const(ONES), const(ZEROS), channel_axis=1, axes=[2, 3]
    ),
    "group_norm": lambda x: op.nn.group_norm(
        x, const(ONES), const(ZEROS), num_groups=3, channel_axis=1, axes=[2, 3]
    ),
    "batch_norm": lambda x: op.nn.batch_norm(
        x, const(ONES), const(ZEROS), const(ZEROS), const(ONES), axis=1, training=True
    ),
    "variance": lambda x: op.variance(x, axis=[1, 3], keepdims=True),
    "std": lambda x: op.std(x, axis=[0, 2]),
}
SHAPE = (2, 6, 40, 64)


def expected(name: str, x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    if name == "group_norm":
        return standard(x.reshape(2, 3, 2, -1, 64), (2, 3, 4)).reshape(x.shape)
    if name == "variance":
        return wide.var((1, 3), keepdims=True)
    if name == "std":
        return wide.std((0, 2))
    axes = {"layer_norm": (3,), "instance_norm": (2, 3), "batch_norm": (0, 2, 3)}
    return standard(x, axes[name])


@pytest.mark.parametrize("base", [0, -300, 1e4, 1e6, -7e6])
@pytest.mark.parametrize("name", NORMS)
def test_numbers_around_a_large_one(name, base):
    x = near(base, SHAPE)
    found = mlc.compile(one_call(NORMS[name], x))(x)
    found = found[0] if name == "batch_norm" else found
    np.testing.assert_allclose(found, expected(name, x), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", NORMS)
def test_numbers_around_a_large_one_in_the_interpreter(name):
    x = near(1e6, (2, 6, 4, 64))
    found = mlc.compile(one_call(NORMS[name], x), "interp")(x)
    found = found[0] if name == "batch_norm" else found
    np.testing.assert_allclose(found, expected(name, x), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", NORMS)
def test_meaning_of_numbers_around_a_large_one(name):
    x = near(1e6, SHAPE)
    found = call_numpy(NORMS[name](const(x)), None)
    found = found[0] if name == "batch_norm" else found
    np.testing.assert_allclose(found, expected(name, x), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["layer_norm", "variance", "std"])
def test_equal_numbers_have_no_variance(name):
    x = np.full(SHAPE, 1e6 + 1 / 3, np.float32)
    assert (mlc.compile(one_call(NORMS[name], x))(x) == 0).all()


@pytest.mark.parametrize("dims", [(3, 0), (0, 3)])
def test_statistics_of_nothing(dims):
    x = np.zeros(dims, np.float32)
    found = mlc.compile(one_call(lambda v: op.variance(v, axis=1), x))(x)
    assert found.shape == dims[:1] and np.isnan(found).all()


@pytest.mark.parametrize("far", [0.0, 1e4, 1e6, 1e7])
def test_mean_variance_normalisation_far_from_zero(far):
    """A mean of 1e6 in float32 is off by 0.03, which was all in the result."""
    x = (np.random.default_rng(1).standard_normal((2, 4, 64)) + far).astype("float32")
    nodes = [node("MeanVarianceNormalization", "x", "y", axes=[2])]
    found = np.asarray(
        mlc.compile(mlc.from_onnx(model("x: float[2, 4, 64]", nodes, "y: float[2, 4, 64]")))(x)
    )
    wide = x.astype("float64")
    away = wide - wide.mean(2, keepdims=True)
    np.testing.assert_allclose(found, away / wide.std(2, keepdims=True), rtol=1e-5, atol=1e-6)

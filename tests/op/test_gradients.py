"""Gradients of operators against differences of their values, in float64.

Of f(x) = sum(op(x) * c), the derivative by each element is (f(x + h) - f(x - h)) / 2h.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from mlcnb import relax
from mlcnb.core.errors import UnsupportedOpError
from mlcnb.op.grad.rules import differentiable, register_gradient, registry
from mlcnb.relax import op
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.relax.expr import const
from mlcnb.relax.transform import Gradient
from mlcnb.script import relax as R
from mlcnb.testing import evaluate
from tests.op.gradient_cases import MORE, Cases, of, positive

STEP = 1e-6

LABELS = np.array([[0, 2], [1, 1], [2, 0], [1, 2]])
BITS = np.array([[True, False, True], [False, False, True]])


def _nll_loss(x: Any, w: Any, **options: Any) -> Any:
    return op.nn.nll_loss(x, const(LABELS), w, **options)


CASES: Cases = {
    **MORE,
    "add": [(op.add, [of(2, 3), of(3)]), (op.add, [of(2, 1), of(4, 1, 3)])],
    "subtract": [(op.subtract, [of(2, 3), of(2, 1)]), (op.subtract, [of(), of(2)])],
    "multiply": [(op.multiply, [of(2, 3), of(3)]), (lambda x: op.multiply(x, x), [of(2, 3)])],
    "divide": [(op.divide, [of(2, 3), positive(3)])],
    "power": [(op.power, [positive(2, 3), of(3)])],
    "maximum": [(op.maximum, [of(2, 3), of(3, seed=1)])],
    "minimum": [(op.minimum, [of(2, 3), of(3, seed=1)])],
    "floor_mod": [(op.floor_mod, [of(2, 3), positive(3) + 0.3])],
    "tan": [(op.tan, [of(2, 3, low=-1, high=1)])],
    "sinh": [(op.sinh, [of(2, 3)])],
    "cosh": [(op.cosh, [of(2, 3)])],
    "asin": [(op.asin, [of(2, 3, low=-0.9, high=0.9)])],
    "acos": [(op.acos, [of(2, 3, low=-0.9, high=0.9)])],
    "atan": [(op.atan, [of(2, 3)])],
    "asinh": [(op.asinh, [of(2, 3)])],
    "acosh": [(op.acosh, [of(2, 3, low=1.2, high=3)])],
    "atanh": [(op.atanh, [of(2, 3, low=-0.9, high=0.9)])],
    "expm1": [(op.expm1, [of(2, 3)])],
    "clip": [(lambda x: op.clip(x, -0.5, 1.0), [of(3, 4)])],
    "nn.leakyrelu": [(lambda x: op.nn.leakyrelu(x, 0.2), [of(2, 3)])],
    "nn.softplus": [(lambda x: op.nn.softplus(x, 2.0, 3.0), [of(4, 5)])],
    "stack": [
        (lambda x, y: op.stack([x, y, x], axis=1), [of(2, 3), of(2, 3, seed=1)]),
        (lambda x: op.stack([x], axis=-1), [of(2, 3)]),
        (lambda x, y: op.stack([x, y], axis=-1), [of(3), of(3, seed=1)]),
    ],
    "flip": [(lambda x: op.flip(x, axis=1), [of(2, 3)])],
    "tile": [
        (lambda x: op.tile(x, (2, 3)), [of(2, 3)]),
        (lambda x: op.tile(x, 2), [of(2, 3)]),
        (lambda x: op.tile(x, (2, 1, 3)), [of(2, 3)]),
    ],
    "repeat": [
        (lambda x: op.repeat(x, 3, axis=-2), [of(2, 3)]),
        (lambda x: op.repeat(x, 2), [of(2, 3)]),
    ],
    "strided_slice": [
        (lambda x: op.strided_slice(x, [1], [1], [3]), [of(2, 4)]),
        (lambda x: op.strided_slice(x, [0, -1], [-1, 0], [9, 5], [1, 2]), [of(3, 2, 5)]),
        (lambda x: op.strided_slice(x, [1], [3], [0], [-2]), [of(2, 5)]),
        (lambda x: op.strided_slice(x, [], [], []), [of(2, 3)]),
    ],
    "gather_elements": [
        (
            lambda x: op.gather_elements(x, const(np.array([[2, 0, 2], [1, 1, 0]])), axis=1),
            [of(2, 3)],
        )
    ],
    "where": [(lambda x, y: op.where(const(BITS), x, y), [of(2, 3), of(3)])],
    "abs": [(op.abs, [of(2, 3)])],
    "negative": [(op.negative, [of(2, 3)])],
    "exp": [(op.exp, [of(2, 3)])],
    "log": [(op.log, [positive(2, 3)])],
    "sqrt": [(op.sqrt, [positive(2, 3)])],
    "rsqrt": [(op.rsqrt, [positive(2, 3)])],
    "square": [(op.square, [of(2, 3)])],
    "sin": [(op.sin, [of(2, 3)])],
    "cos": [(op.cos, [of(2, 3)])],
    "tanh": [(op.tanh, [of(2, 3)])],
    "sigmoid": [(op.sigmoid, [of(2, 3)])],
    "erf": [(op.erf, [of(2, 3)])],
    "nn.relu": [(op.nn.relu, [of(2, 3)])],
    "nn.silu": [(op.nn.silu, [of(2, 3)])],
    "nn.gelu": [(op.nn.gelu, [of(2, 3)])],
    "astype": [(lambda x: op.astype(x * const(2.0, "float64"), "float64"), [of(2, 3)])],
    "triu": [(lambda x: op.triu(x, 1), [of(3, 4)])],
    "tril": [(lambda x: op.tril(x, -1), [of(2, 3, 4)])],
    "sum": [
        (op.sum, [of(2, 3)]),
        (lambda x: op.sum(x, axis=[0, -1]), [of(2, 3, 4)]),
        (lambda x: op.sum(x, axis=1, keepdims=True), [of(2, 3)]),
    ],
    "mean": [(op.mean, [of(2, 3)]), (lambda x: op.mean(x, axis=[-1]), [of(2, 3, 4)])],
    "variance": [
        (op.variance, [of(2, 3)]),
        (lambda x: op.variance(x, axis=[0, 2]), [of(2, 3, 4)]),
        (lambda x: op.variance(x, axis=1, keepdims=True), [of(2, 3)]),
    ],
    "max": [(lambda x: op.max(x, axis=1), [of(2, 3)]), (op.max, [of(2, 3)])],
    "min": [(lambda x: op.min(x, axis=[0], keepdims=True), [of(2, 3)])],
    "permute_dims": [
        (op.permute_dims, [of(2, 3, 4)]),
        (lambda x: op.permute_dims(x, axes=[1, -1, 0]), [of(2, 3, 4)]),
    ],
    "reshape": [(lambda x: op.reshape(x, (4, 3)), [of(2, 6)])],
    "flatten": [(op.flatten, [of(2, 3)])],
    "nn.batch_flatten": [(op.nn.batch_flatten, [of(2, 3, 4)])],
    "squeeze": [(op.squeeze, [of(2, 1, 3)])],
    "expand_dims": [(lambda x: op.expand_dims(x, axis=[0, 2]), [of(2, 3)])],
    "broadcast_to": [(lambda x: op.broadcast_to(x, (4, 2, 3)), [of(2, 1)])],
    "collapse_sum_to": [(lambda x: op.collapse_sum_to(x, (2, 1)), [of(4, 2, 3)])],
    "concat": [
        (lambda x, y: op.concat([x, y, x], axis=1), [of(2, 3), of(2, 1)]),
        (lambda x: op.concat([x], axis=0), [of(2, 3)]),
    ],
    "split": [(lambda x: op.split(x, [1, 4], axis=1)[1], [of(2, 6)])],
    "take": [
        (lambda x: op.take(x, const(np.array([2, 0, 2])), axis=1), [of(2, 3)]),
        (lambda x: op.take(x, const(np.array([[1, 1], [3, 0]]))), [of(4)]),
    ],
    "matmul": [
        (op.matmul, [of(2, 3), of(3, 4)]),
        (op.matmul, [of(3), of(3)]),
        (op.matmul, [of(3), of(2, 3, 4)]),
        (op.matmul, [of(2, 5, 3), of(3)]),
        (op.matmul, [of(2, 1, 5, 3), of(4, 3, 2)]),
        (op.matmul, [of(2, 5, 3), of(3, 4)]),
        (op.matmul, [of(2, 1, 5, 3), of(3, 1)]),
    ],
    "nn.softmax": [(lambda x: op.nn.softmax(x, axis=0), [of(2, 3)])],
    "nn.log_softmax": [(op.nn.log_softmax, [of(2, 3)])],
    "nn.cross_entropy_with_logits": [
        (op.nn.cross_entropy_with_logits, [of(4, 3), of(4, 3, seed=1)]),
        (op.nn.cross_entropy_with_logits, [of(3), of(3, seed=1)]),
    ],
    "nn.nll_loss": [
        (lambda x: op.nn.nll_loss(x, const(LABELS), reduction="mean"), [of(4, 3, 2)]),
        *(
            (
                partial(_nll_loss, reduction=reduction, ignore_index=ignored),
                [of(4, 3, 2), positive(3)],
            )
            for reduction in ("none", "sum", "mean")
            for ignored in (-100, 2)
        ),
        (lambda x, w: op.nn.nll_loss(x, const(np.array(1)), w), [of(3), positive(3)]),
        (
            lambda x: op.nn.nll_loss(x, const(LABELS), const(positive(3)), reduction="sum"),
            [of(4, 3, 2)],
        ),
    ],
    "nn.conv2d": [
        (op.nn.conv2d, [of(2, 3, 5, 4), of(2, 3, 3, 2)]),
        (
            lambda x, w: op.nn.conv2d(x, w, strides=2, padding=[1, 0, 2, 1], dilation=[1, 2]),
            [of(1, 2, 6, 7), of(3, 2, 2, 3)],
        ),
        (
            lambda x, w: op.nn.conv2d(x, w, strides=2, padding=1),
            [of(2, 3, 6, 7), of(2, 3, 3, 3)],
        ),
        (
            lambda x, w: op.nn.conv2d(x, w, strides=[3, 2]),
            [of(1, 2, 9, 6), of(3, 2, 1, 1)],
        ),
        (
            lambda x, w: op.nn.conv2d(x, w, strides=4, padding=[2, 2, 0, 0]),
            [of(1, 2, 2, 2), of(3, 2, 1, 1)],
        ),
        (
            lambda x, w: op.nn.conv2d(x, w, strides=10, padding=[0, 1, 5, 0]),
            [of(1, 2, 2, 3), of(3, 2, 1, 2)],
        ),
        (
            lambda x, w: op.nn.conv2d(x, w, strides=[2, 1], padding=1, groups=2),
            [of(2, 4, 4, 3), of(6, 2, 3, 3)],
        ),
    ],
    "nn.max_pool2d": [
        (lambda x: op.nn.max_pool2d(x, 2, strides=2, padding=[1, 0, 0, 1]), [of(1, 2, 5, 4)])
    ],
    "nn.avg_pool2d": [
        (lambda x: op.nn.avg_pool2d(x, [3, 2], strides=2, padding=1), [of(1, 2, 5, 4)])
    ],
}
#: they have no tensor to be differentiated by, or give nothing back
GIVE_NOTHING = {
    *"equal not_equal less less_equal greater greater_equal".split(),
    *"zeros ones full zeros_like ones_like full_like grad.no_grad".split(),
    *"floor ceil round trunc sign floor_divide".split(),
    "call_tir_with_grad",
}


def test_every_gradient_has_a_case() -> None:
    found = {name.removeprefix("relax.") for name in differentiable()}
    assert found == CASES.keys() | GIVE_NOTHING


def program(call: Callable[..., Any], given: list[np.ndarray]) -> Any:
    """The module of `sum(call(x0, x1, …) * c)`."""
    builder = relax.BlockBuilder()
    params = [relax.Var(f"x{i}", R.Tensor(x.shape, "float64")) for i, x in enumerate(given)]
    with builder.function("main", params):
        with builder.dataflow():
            made = builder.emit(call(*params))
            shape = [int(d) for d in made.struct_info.dims]
            weighed = op.multiply(made, const(of(*shape, seed=9)))
            out = builder.emit_output(op.sum(weighed))
        builder.emit_func_output(out)
    return builder.get()


def difference(mod: Any, given: list[np.ndarray], number: int) -> np.ndarray:
    """The derivative by argument `number`, element by element."""
    found = np.empty_like(given[number])
    for place in np.ndindex(found.shape):
        sides = []
        for step in (STEP, -STEP):
            moved = [x.copy() for x in given]
            moved[number][place] += step
            sides.append(float(evaluate(mod, *moved)))
        found[place] = (sides[0] - sides[1]) / (2 * STEP)
    return found


PAIRS = [(name, i) for name, cases in CASES.items() for i in range(len(cases))]


@pytest.mark.parametrize("name, number", PAIRS, ids=str)
def test_against_differences(name: str, number: int) -> None:
    call, given = CASES[name][number]
    mod = program(call, given)
    both = Gradient("main")(mod)
    assert_well_formed(both)
    value, adjoints = evaluate(both, *given, name="main_adjoint")
    np.testing.assert_allclose(value, evaluate(mod, *given), rtol=1e-12)
    for i, found in enumerate(adjoints):
        np.testing.assert_allclose(found, difference(mod, given, i), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["equal", "floor", "floor_divide", "zeros_like", "full_like", "grad.no_grad"]
)
def test_nothing_goes_back(name: str) -> None:
    calls = {
        "floor": op.floor,
        "floor_divide": lambda x: op.floor_divide(x, const(0.7, "float64")),
        "equal": lambda x: op.astype(op.equal(x, x), "float64"),
        "zeros_like": op.zeros_like,
        "full_like": lambda x: op.full_like(x, op.sum(x)),
        "grad.no_grad": op.grad.no_grad,
    }
    given = of(2, 3)
    both = Gradient("main")(program(calls[name], [given]))
    _, (found,) = evaluate(both, given, name="main_adjoint")
    np.testing.assert_array_equal(found, np.zeros((2, 3)))


def test_a_gradient_of_ones_own() -> None:
    given = positive(1, 1)  # of which the triangle is the root
    mod = program(op.linalg.cholesky, [given])
    with pytest.raises(UnsupportedOpError) as error:
        Gradient("main")(mod)
    assert error.value.message == "lv: linalg.cholesky has no gradient"

    @register_gradient("relax.linalg.cholesky")
    def cholesky_gradient(var: Any, call: Any, grad: Any, builder: Any) -> list[Any]:
        return [grad * const(0.5, "float64") / var]

    try:
        _, (found,) = evaluate(Gradient("main")(mod), given, name="main_adjoint")
        np.testing.assert_allclose(found, difference(mod, [given], 0), rtol=1e-6)
    finally:
        del registry._RULES["relax.linalg.cholesky"]


def test_the_power_of_zero_and_to_zero() -> None:
    """Where a factor of the product rule is infinite, and the derivative is 0."""
    given = [np.array([0.0, 0.0, 0.0, 3.0, -2.0]), np.array([2.5, 1.0, 0.0, 0.0, 0.0])]
    _, found = evaluate(Gradient("main")(program(op.power, given)), *given, name="main_adjoint")
    weights = of(5, seed=9)
    np.testing.assert_allclose(found[0], weights * [0, 1, 0, 0, 0])
    np.testing.assert_allclose(found[1][:4], weights[:4] * [0, 0, 0, np.log(3.0)])

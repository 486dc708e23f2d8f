"""FastMathTransform: which calls become loops, and how far their numbers are from exact ones."""

from __future__ import annotations

from math import erf

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import relax
from mlcnb.ir import assert_structural_equal
from mlcnb.op.fast_math import FAST
from mlcnb.relax.transform import FastMathTransform
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from tests.relax.harness import check_pass


def module(call: str, dtype: str = "float32") -> mlc.IRModule:
    return mlc.script.from_source(
        "@I.ir_module\nclass Module:\n    @R.function\n"
        f"    def main(x: R.Tensor((3, 2001), '{dtype}')):\n"
        f"        y = {call}\n        return y\n"
    )


def called(mod: mlc.IRModule) -> list[str]:
    return [v.name_hint for v in mod.get_global_vars() if v.name_hint != "main"]


LIMITS = np.array([-87.3, 88.376], "float32").astype("float64")
EDGES = np.array([0, -0.0, 1e-30, -1e-8, 88, -87, 100, -100, 200, -200, 9, -9], "float32")


def values() -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.uniform(-20, 20, (3, 2001)).astype("float32")
    x[0, : len(EDGES)] = EDGES
    x[1, :1000] = np.linspace(-1, 1, 1000)
    return x


def soft(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize(
    ("call", "name", "exact", "rtol", "atol"),
    [
        ("R.exp(x)", "fast_exp", lambda x: np.exp(np.clip(x, *LIMITS)), 1e-6, 0),
        ("R.tanh(x)", "fast_tanh", np.tanh, 0, 1e-6),
        ("R.erf(x)", "fast_erf", np.vectorize(erf), 0, 1e-6),
        ("R.nn.softmax(x, axis=1)", "fast_softmax", soft, 1e-5, 1e-9),
    ],
)
def test_numbers_are_near_the_exact_ones(call, name, exact, rtol, atol) -> None:
    after = FastMathTransform()(module(call))
    assert called(after) == [name]
    x = values()
    want = exact(x.astype("float64"))
    np.testing.assert_allclose(mlc.compile(after)(x), want, rtol=rtol, atol=atol)


def test_nan_stays_nan() -> None:
    x = values()
    x[2, ::7] = np.nan
    for call in ("R.exp(x)", "R.tanh(x)", "R.erf(x)"):
        found = mlc.compile(FastMathTransform()(module(call)))(x)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(x))


def test_what_it_does_not_know_stays() -> None:
    @I.ir_module
    class Others:
        @R.function
        def main(x: R.Tensor((4,), "float16"), y: R.Tensor((4,), "float32")):
            a = R.exp(x)
            b = R.sigmoid(y)
            return (a, b)

    check_pass(FastMathTransform(), Others, Others)


def test_a_call_becomes_a_call_of_loops() -> None:
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        y = builder.emit_te(FAST["relax.exp"][1], x, primfunc_name_hint="fast_exp")
        builder.emit_func_output(y)
    before = mlc.script.from_source(
        "@I.ir_module\nclass Module:\n    @R.function\n"
        "    def main(x: R.Tensor((4,), 'float32')):\n        y = R.exp(x)\n        return y\n"
    )
    assert_structural_equal(FastMathTransform()(before), builder.get())

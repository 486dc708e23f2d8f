"""RoundProducts: what products read is rounded once, everything else stays in float32."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import PassError
from mlcnb.ir.transform import Sequential
from mlcnb.op._convert import convert
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.transform import (
    DeadCodeElimination,
    EliminateCommonSubexpr,
    RoundProducts,
    SimplifyOps,
    get_pipeline,
)
from mlcnb.script import relax as R
from mlcnb.target import Target
from tests.models import minilm
from tests.models.quantized import SOURCE, photos
from tests.relax.harness import as_module, check_pass, same_numbers

HOST = Target("llvm")
CLEAN = [SimplifyOps(), EliminateCommonSubexpr(), DeadCodeElimination()]


def test_a_value_is_rounded_where_it_is_made_and_read_rounded_by_all() -> None:
    @R.function
    def before(x: R.Tensor((4, 6), "float32")):
        with R.dataflow():
            y = R.nn.relu(x)
            z = R.matmul(y, R.const([[0.1] * 6] * 6, "float32"))
            s = R.nn.softmax(R.add(z, y))
            R.output(s)
        return s

    @R.function
    def after(x: R.Tensor((4, 6), "float32")):
        with R.dataflow():
            lv = R.nn.relu(x)
            lv1 = R.astype(lv, dtype="bfloat16")
            y = R.astype(lv1, dtype="float32")
            z = R.matmul(lv1, R.const([[0.1] * 6] * 6, "bfloat16"), out_dtype="float32")
            s = R.nn.softmax(R.add(z, y))
            R.output(s)
        return s

    check_pass(RoundProducts(dtype="bfloat16"), before, after, tolerance=2e-2)


def test_roundings_move_up_over_moves() -> None:
    """Reshapes and pooling by maxima; the numbers are those of rounding below."""

    @R.function
    def before(x: R.Tensor((1, 2, 4, 4), "float32")):
        with R.dataflow():
            y = R.exp(x)
            p = R.nn.max_pool2d(y, pool_size=[2, 2], strides=[2, 2])
            f = R.reshape(p, R.shape([2, 4]))
            z = R.matmul(f, R.const([[0.5, 0.3]] * 4, "float32"))
            R.output(z)
        return z

    @R.function
    def after(x: R.Tensor((1, 2, 4, 4), "float32")):
        with R.dataflow():
            y = R.exp(x)
            lv = R.astype(y, dtype="float16")
            p = R.nn.max_pool2d(lv, pool_size=[2, 2], strides=[2, 2])
            f = R.reshape(p, R.shape([2, 4]))
            z = R.matmul(f, R.const([[0.5, 0.3]] * 4, "float16"), out_dtype="float32")
            R.output(z)
        return z

    check_pass(Sequential([RoundProducts(), *CLEAN]), before, after, tolerance=2e-3)


def test_the_result_can_be_rounded_too() -> None:
    @R.function
    def before(x: R.Tensor((4, 6), "float32"), w: R.Tensor((6, 2), "float32")):
        with R.dataflow():
            z = R.exp(R.matmul(x, w))
            R.output(z)
        return z

    @R.function
    def after(x: R.Tensor((4, 6), "float32"), w: R.Tensor((6, 2), "float32")):
        with R.dataflow():
            lv = R.astype(x, dtype="float16")
            lv1 = R.astype(w, dtype="float16")
            lv2 = R.matmul(lv, lv1, out_dtype="float16")
            lv3 = R.astype(lv2, dtype="float32")
            z = R.exp(lv3)
            R.output(z)
        return z

    check_pass(RoundProducts(out_dtype="float16"), before, after, tolerance=1e-2)


def test_parameters_can_be_handed_over_in_half_precision() -> None:
    @R.function
    def before(x: R.Tensor((4, 6), "float32"), w: R.Tensor((6, 2), "float32")):
        with R.dataflow():
            z = R.matmul(x, w)
            R.output(z)
        return z

    @R.function
    def after(x: R.Tensor((4, 6), "float32"), w: R.Tensor((6, 2), "float16")):
        with R.dataflow():
            lv = R.astype(x, dtype="float16")
            z = R.matmul(lv, w, out_dtype="float32")
            R.output(z)
        return z

    passes = Sequential([RoundProducts(fp16_input_names=("w",)), *CLEAN])
    made = passes(as_module(before))
    from mlcnb.ir import assert_structural_equal

    assert_structural_equal(made, as_module(after), map_free_vars=True)
    with pytest.raises(PassError, match="no float32 parameters v"):
        RoundProducts(fp16_input_names=("v",))(as_module(before))


def test_what_is_no_product_of_float32_stays() -> None:
    @R.function
    def before(x: R.Tensor((2, 4, 6), "float32"), y: R.Tensor((4, 4), "float64")):
        with R.dataflow():
            a = R.matmul(x, R.permute_dims(x, axes=[0, 2, 1]))
            b = R.matmul(y, y)
            R.output(a, b)
        return (a, b)

    mod = as_module(before)
    assert RoundProducts()(mod) is mod
    made = RoundProducts(batched=True)(mod)
    assert made["main"] is not mod["main"]
    same_numbers(mod, made, tolerance=1e-2)


@pytest.mark.parametrize(
    "options",
    [{"dtype": "int8"}, {"dtype": "bfloat16", "out_dtype": "float16"}, {"out_dtype": "float64"}],
)
def test_other_dtypes_are_refused(options) -> None:
    @R.function
    def program(x: R.Tensor((4, 4), "float32")):
        return R.matmul(x, x)

    with pytest.raises(PassError, match="RoundProducts: no dtype"):
        RoundProducts(**options)(as_module(program))


def test_branches_and_blocks_outside_of_dataflow() -> None:
    @R.function
    def program(c: R.Tensor((), "bool"), x: R.Tensor((4, 4), "float32")):
        y = R.exp(x)
        if c:
            z = R.matmul(y, y)
        else:
            z = R.add(y, R.matmul(x, y))
        return R.matmul(z, y)

    mod = as_module(program)
    rng = np.random.default_rng(0)
    for which in (True, False):
        args = [np.array(which), rng.standard_normal((4, 4)).astype("float32") / 4]
        same_numbers(mod, RoundProducts()(mod), args, tolerance=2e-2)


# whole models ------------------------------------------------------------------------------------


def rounded_encoder(precision: str | None):
    """A narrow MiniLM of two layers."""
    weights = minilm.seeded(layers=2, width=64, inner=128, words=50)
    model = minilm.encoder(weights, 128, 1, heads=4, form="fused", opset=17)
    return get_pipeline("default", precision=precision)(mlc.from_onnx(model.SerializeToString()))


@pytest.mark.slow
@pytest.mark.parametrize("precision, bound", [("bfloat16", 2e-2), ("float16", 2e-3)])
def test_an_encoder(precision, bound) -> None:
    """As many kernels as in float32 where an instruction sums pairs; small errors."""
    given = minilm.feed(128, 1, words=50).values()
    plain, mixed = rounded_encoder(None), rounded_encoder(precision)
    expected = np.asarray(mlc.compile(plain, target="llvm", relax_pipeline=None)(*given))
    ex = mlc.compile(mixed, target="llvm", relax_pipeline=None)
    error = np.abs(np.asarray(ex(*given)) - expected).max() / np.abs(expected).max()
    assert 0 < error < bound
    if HOST.sums_pairs(precision):
        assert len(mixed["main"].body.blocks) == len(plain["main"].body.blocks)
        count = [sum(1 for _ in bindings_of(m["main"])) for m in (plain, mixed)]
        assert count[1] <= count[0] + 1
        products = [k for name, k in ex.kernels.items() if "matmul_packed" in name]
        assert products and all("vdpbf16ps" in k.asm for k in products)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_the_photos_are_what_they_were(precision) -> None:
    """EfficientNet-Lite0: the first of a thousand classes is the same for each photo."""
    plain = mlc.compile(mlc.from_onnx(SOURCE), target="llvm")
    mixed = mlc.compile(
        mlc.from_onnx(SOURCE),
        target="llvm",
        relax_pipeline=get_pipeline("default", precision=precision),
    )
    for photo in photos():
        expected, found = np.asarray(plain(photo)), np.asarray(mixed(photo))
        assert found.argmax() == expected.argmax()
        bound = 0.1 if precision == "bfloat16" else 0.02
        assert 0 < np.abs(found - expected).max() < bound * np.abs(expected).max()


def test_constants_are_rounded_as_numpy_rounds() -> None:
    x = np.array([1 + 2**-9, 1 + 3 * 2**-9, -(2**-130), np.inf], "float32")
    found = convert(x, "bfloat16").astype("float32")
    np.testing.assert_array_equal(found, [1, 1 + 2**-7, -(2**-130), np.inf])

"""FoldConstant, FoldBatchNorm, DecomposeOpsForInference."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core import options
from mlcnb.ir.instrument import trace
from mlcnb.ir.span import Span
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.expr import Constant, TupleGetItem, Var, const, tensor_info
from mlcnb.relax.operator import declaration
from mlcnb.relax.transform import (
    DecomposeOpsForInference,
    FoldBatchNorm,
    FoldConstant,
    LegalizeOps,
)
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import evaluate
from tests.relax.harness import as_module, check_pass, constant


def ops_of(mod) -> list[str]:
    values = [b.value for b in bindings_of(mod["main"])]
    return [getattr(v.op, "name", "?").removeprefix("relax.") for v in values if hasattr(v, "op")]


# FoldConstant ------------------------------------------------------------------------------------


def test_calls_of_constants_are_computed() -> None:
    @R.function
    def before(x: R.Tensor((2, 2), "float32")):
        with R.dataflow():
            a = R.permute_dims(R.const([[1.0, 2.0], [3.0, 4.0]], "float32"), axes=[1, 0])
            b = R.add(a, R.const(1.0, "float32"))
            gv = R.matmul(x, b)
            R.output(gv)
        c = R.split(R.const([1, 2, 3, 4], "int32"), 2, axis=0)
        d = c[1]
        return (gv, d)

    @R.function
    def after(x: R.Tensor((2, 2), "float32")):
        with R.dataflow():
            gv = R.matmul(x, R.const([[2.0, 4.0], [3.0, 5.0]], "float32"))
            R.output(gv)
        c = (R.const([1, 2], "int32"), R.const([3, 4], "int32"))
        return (gv, R.const([3, 4], "int32"))

    check_pass(FoldConstant(), before, after)


def test_shapes_are_known_where_dimensions_are() -> None:
    @R.function
    def before(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        s = R.shape_of(x)
        y = R.reshape(x, s)
        t = R.shape_to_tensor(R.shape([2, 3]))
        u = R.tensor_to_shape(t)
        z = R.broadcast_to(R.const(1.0, "float32"), u)
        return (y, z)

    @R.function
    def after(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        y = R.reshape(x, R.shape([n, 4]))
        return (y, R.const([[1.0] * 3] * 2, "float32"))

    check_pass(FoldConstant(), before, after)


def test_a_branch_that_is_known_is_taken() -> None:
    @R.function
    def before(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        c = R.less(R.const(1.0, "float32"), R.const(2.0, "float32"))
        if c:
            y = R.exp(x)
            z = R.add(y, y)
        else:
            z = R.nn.relu(x)
        return z

    @R.function
    def after(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.exp(x)
        z = R.add(y, y)
        return z

    got = check_pass(FoldConstant(), before)
    assert ops_of(got) == ops_of(as_module(after))


def test_what_would_grow_stays() -> None:
    @R.function
    def before(x: R.Tensor((2,), "float32")):
        a = R.zeros(R.shape([2, 2]), dtype="float32")
        b = R.zeros(R.shape([4096, 4096]), dtype="float32")
        c = R.broadcast_to(R.const([1.0], "float32"), R.shape([1000, 1000]))
        return (a, b, c)

    got = check_pass(FoldConstant(), before, args=False)
    assert ops_of(got) == ["zeros", "broadcast_to"]


def test_no_tensor_above_the_limit_is_made() -> None:
    bb = BlockBuilder()
    with bb.function("main", []):
        bb.emit_func_output(bb.emit(op.exp(constant(64, 64))))
    mod = bb.get()
    assert ops_of(FoldConstant()(mod)) == []
    assert ops_of(FoldConstant(max_tensor_bytes=100)(mod)) == ["exp"]
    with options.scoped(max_tensor_bytes=100):
        assert FoldConstant()(mod) is mod


def test_what_cannot_be_computed_is_said_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self, x):
        raise ValueError("no such number\nmore of it")

    monkeypatch.setattr(declaration("relax.exp"), "numpy", fails)

    @R.function
    def before(x: R.Tensor((2,), "float32")):
        a = R.exp(R.const([1.0, 2.0], "float32"))
        return a

    run = trace(FoldConstant(), as_module(before))
    assert not run[0].changed and run[0].reason == "not folded: exp: no such number"


def test_small_loop_functions_are_interpreted() -> None:
    @R.function
    def before(x: R.Tensor((2,), "float32")):
        a = R.exp(R.const([1.0, 2.0], "float32"))
        b = R.add(x, a)
        return b

    lowered = LegalizeOps()(as_module(before))
    got = check_pass(FoldConstant(), lowered)
    (binding,) = got["main"].body.bindings
    np.testing.assert_allclose(binding.value.args[1].fields[1].data, np.exp([1.0, 2.0]), rtol=1e-6)


def test_large_loop_functions_are_not() -> None:
    bb = BlockBuilder()
    with bb.function("main", []):
        bb.emit_func_output(bb.emit(op.exp(constant(400, 400))))
    lowered = LegalizeOps()(bb.get())
    assert FoldConstant()(lowered) is lowered


def test_effects_are_not_folded() -> None:
    @R.function(pure=False)
    def before():
        a = R.builtin.alloc_tensor(
            R.shape([2]), R.dtype("float32"), R.prim_value(0), R.str("global")
        )
        return a

    check_pass(FoldConstant(), before, before)


# FoldBatchNorm -----------------------------------------------------------------------------------


def statistics(count: int, seed: int = 3) -> list[Constant]:
    rng = np.random.default_rng(seed)
    gamma, beta, mean = (rng.standard_normal(count).astype("float32") for _ in range(3))
    return [const(v) for v in (gamma, beta, mean, rng.uniform(0.5, 2, count).astype("float32"))]


def network(build, *shape: int):
    bb = BlockBuilder()
    x = Var("x", tensor_info(shape, "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            gv = bb.emit_output(build(bb, x))
        bb.emit_func_output(gv)
    return bb.get()


def batch_norm(bb, x, count: int, **attrs):
    return bb.emit(
        TupleGetItem(op.nn.batch_norm(x, *statistics(count), training=False, **attrs), 0)
    )


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("attrs", [{}, {"scale": False}, {"center": False}, {"epsilon": 0.1}])
def test_batch_norm_goes_into_the_convolution(bias: bool, attrs: dict) -> None:
    def build(bb, x):
        y = bb.emit(op.nn.conv2d(x, constant(4, 3, 3, 3), padding=1))
        y = bb.emit(op.add(y, constant(1, 4, 1, 1, seed=2))) if bias else y
        return op.nn.relu(batch_norm(bb, y, 4, **attrs))

    got = check_pass(FoldBatchNorm(), network(build, 1, 3, 5, 5), tolerance=1e-4)
    assert ops_of(got) == ["nn.conv2d", "add", "nn.relu"]


@pytest.mark.parametrize(
    ("convolution", "shape", "axis"),
    [
        (lambda x: op.nn.conv1d(x, constant(4, 3, 3)), (1, 3, 5), 1),
        (lambda x: op.nn.conv3d(x, constant(4, 3, 1, 3, 2)), (1, 3, 2, 5, 4), 1),
        (lambda x: op.nn.conv2d(x, constant(6, 1, 3, 3), groups=3), (1, 3, 5, 5), 1),
        (lambda x: op.nn.conv2d(x, constant(3, 3, 3, 4), data_layout="NHWC", kernel_layout="HWIO"),
         (1, 5, 5, 3), 3),
        (lambda x: op.nn.conv2d(x, constant(3, 3, 3, 4), data_layout="NHWC", kernel_layout="HWIO"),
         (1, 5, 5, 3), -1),
    ],
)  # fmt: skip
def test_convolutions_of_all_kinds(convolution, shape: tuple[int, ...], axis: int) -> None:
    def build(bb, x):
        y = bb.emit(convolution(x))
        count = int(y.struct_info.dims[axis])
        return batch_norm(bb, y, count, axis=axis)

    got = check_pass(FoldBatchNorm(), network(build, *shape), tolerance=1e-4)
    assert "nn.batch_norm" not in ops_of(got) and "multiply" not in ops_of(got)


def test_scales_and_shifts_of_channels_go_in_too() -> None:
    def build(bb, x):
        y = bb.emit(op.nn.conv2d(x, constant(4, 3, 1, 1)))
        y = batch_norm(bb, y, 4)
        y = bb.emit(op.multiply(y, constant(4, 1, 1)))
        y = bb.emit(op.divide(y, const(2.0)))
        y = bb.emit(op.add(constant(1, 4, 1, 1), y))
        y = bb.emit(op.subtract(y, const(1.0)))
        return op.nn.relu(y)

    got = check_pass(FoldBatchNorm(), network(build, 1, 3, 4, 4), tolerance=1e-4)
    assert ops_of(got) == ["nn.conv2d", "add", "nn.relu"]


def test_what_is_used_elsewhere_is_not_changed() -> None:
    def build(bb, x):
        y = bb.emit(op.nn.conv2d(x, constant(4, 3, 1, 1)))
        z = batch_norm(bb, y, 4)
        return op.add(y, z)

    got = check_pass(FoldBatchNorm(), network(build, 1, 3, 4, 4), tolerance=1e-4)
    assert ops_of(got) == ["nn.conv2d", "multiply", "add", "add"]


def test_constants_that_are_not_one_a_channel_stay_outside() -> None:
    def build(bb, x):
        y = bb.emit(op.nn.conv2d(x, constant(4, 3, 1, 1)))
        y = bb.emit(op.multiply(y, constant(1, 4, 1, 4)))
        y = bb.emit(op.multiply(y, constant(4)))
        return op.multiply(y, constant(2, 4, 1, 1))

    got = check_pass(FoldBatchNorm(), network(build, 1, 3, 4, 4))
    assert ops_of(got) == ["nn.conv2d", "multiply", "multiply"]  # the first two in one


def test_alone_it_becomes_scale_and_shift_and_training_stays() -> None:
    got = check_pass(
        FoldBatchNorm(), network(lambda bb, x: batch_norm(bb, x, 3), 2, 3, 4), tolerance=1e-4
    )
    assert ops_of(got) == ["multiply", "add"]

    def training(bb, x):
        return bb.emit(TupleGetItem(op.nn.batch_norm(x, *statistics(3), training=True), 0))

    mod = network(training, 2, 3, 4)
    assert FoldBatchNorm()(mod) is mod


def _chain(*steps, shape=(2, 3, 4), dtype="float32", keep=None):
    """x and so many operators with constants, one after the other; `keep`: a result given, too."""
    builder = BlockBuilder()
    x = Var("x", tensor_info(shape, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            made = [x]
            for operator, value in steps:
                made.append(builder.emit(operator(made[-1], const(np.asarray(value, dtype)))))
            wanted = [made[-1]] if keep is None else [made[keep], made[-1]]
            found = [builder.emit_output(y) for y in wanted]
        builder.emit_func_output(found[0] if keep is None else mlc.relax.Tuple(found))
    return builder.get()


def _rows(*values):
    return np.reshape(values, (3, 1))


def test_products_and_sums_after_one_another_are_one_of_each() -> None:
    a, b, c, d = (_rows(1.5, -2, 0.25), _rows(3, 4, -1), 0.5, _rows(7, 0, 1))
    mod = _chain((op.multiply, a), (op.add, b), (op.divide, c), (op.subtract, d))
    made = FoldBatchNorm()(mod)
    assert ops_of(made) == ["multiply", "add"]
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    wanted = (x.astype("float64") * a + b) / c - d
    np.testing.assert_allclose(evaluate(made, x), wanted, rtol=1e-6)
    thrice = FoldBatchNorm()(_chain((op.multiply, a), (op.multiply, b), (op.multiply, 3)))
    assert ops_of(thrice) == ["multiply"]
    np.testing.assert_allclose(evaluate(thrice, x), x.astype("float64") * a * b * 3, rtol=1e-6)


def test_products_and_sums_that_stay() -> None:
    def stays(*steps, **how) -> None:
        mod = _chain(*steps, **how)
        assert ops_of(FoldBatchNorm()(mod)) == ops_of(mod)

    a, b = _rows(1.5, -2, 0.25), np.reshape([1.0, 2, 3, 4], (1, 4))
    stays((op.subtract, 1e6), (op.multiply, a), (op.add, 2))  # exact where x is about 1e6
    stays((op.multiply, a), (op.multiply, b))  # the product of both is larger than either
    stays((op.multiply, a), (op.add, 1), (op.multiply, 2), keep=2)
    stays((op.multiply, 1e30), (op.multiply, 1e30), (op.multiply, 1e-30))  # overflows on the way
    stays((op.multiply, 1e-30), (op.multiply, 1e-30))
    stays((op.multiply, 3), (op.add, 1), (op.multiply, 2), dtype="int32")
    stays((op.multiply, np.ones((5, 1, 3, 1)) * 2), (op.multiply, a), shape=(1, 3, 4))
    stays((op.multiply, a), (op.add, 1))


def test_the_new_convolution_comes_from_all_that_went_into_it() -> None:
    def build(bb, x):
        with bb.origin(Span("onnx", "conv1")):
            y = bb.emit(op.nn.conv2d(x, constant(4, 3, 1, 1)))
        with bb.origin(Span("onnx", "bn1")):
            return batch_norm(bb, y, 4)

    got = FoldBatchNorm()(network(build, 1, 3, 4, 4))
    spans = [b.value.span for b in got["main"].body.bindings if hasattr(b.value, "span")]
    assert spans[0].name == "conv1 + bn1"


# DecomposeOpsForInference ------------------------------------------------------------------------


def test_batch_norm_of_unknown_statistics_is_written_out() -> None:
    @R.function
    def before(
        x: R.Tensor(("n", 3, 4), "float32"),
        g: R.Tensor((3,), "float32"),
        b: R.Tensor((3,), "float32"),
        m: R.Tensor((3,), "float32"),
        v: R.Tensor((3,), "float32"),
    ):
        n = T.int64()
        with R.dataflow():
            y = R.nn.batch_norm(x, g, b, m, v, training=False)
            gv = y[0]
            R.output(gv)
        return gv

    rng = np.random.default_rng(0)
    args = [rng.uniform(0.5, 2, s).astype("float32") for s in [(2, 3, 4), 3, 3, 3, 3]]
    got = check_pass(DecomposeOpsForInference(), before, args=args, tolerance=1e-4)
    assert ops_of(got) == [
        "add", "sqrt", "divide", "reshape", "multiply", "multiply", "subtract", "reshape", "add",
    ]  # fmt: skip
    mod = as_module(before)
    assert DecomposeOpsForInference("other")(mod) is mod


def test_inference_is_what_the_name_of_the_pass_says() -> None:
    """As TVM's: a batch_norm that trains (the default) normalises by its moving statistics then;
    what compiles a program leaves its meaning.
    """

    @R.function
    def before(x: R.Tensor((2, 3), "float32"), s: R.Tensor((3,), "float32")):
        with R.dataflow():
            gv = R.nn.batch_norm(x, s, s, s, s, axis=1)[0]
            R.output(gv)
        return gv

    rng = np.random.default_rng(0)
    x, s = (rng.uniform(0.5, 2, n).astype("float32") for n in ((2, 3), 3))
    by_moving = (x - s) / np.sqrt(s + 1e-5) * s + s
    by_batch = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) * s + s
    mod = as_module(before)
    made = DecomposeOpsForInference()(mod)
    assert "nn.batch_norm" not in ops_of(made)
    np.testing.assert_allclose(evaluate(made, x, s), by_moving, rtol=1e-4)
    assert DecomposeOpsForInference(keep_training=True)(mod) is mod
    np.testing.assert_allclose(mlc.compile(mod)(x, s), by_batch, rtol=1e-4, atol=1e-5)

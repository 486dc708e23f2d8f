"""Operators that somebody declares in one file, with traits, take part in every pass: none names
them.
"""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import relax
from mlcnb.relax import op, operator, transform
from mlcnb.relax.operator import called, make_call
from mlcnb.target import Target

FILE = '''
"""Six operators, and what passes may know of them."""

import numpy as np

from mlcnb import te
from mlcnb.core.node import replace
from mlcnb.ir.prim_ops import const, maximum, minimum
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.relax import op
from mlcnb.relax.operator import OpDecl, Tensor, operator


class Alike(OpDecl):
    """The result is like the first argument."""

    __slots__ = ()

    def infer(self, x, *rest):
        return x


@operator("relax.toy.ramp")
class Ramp(Alike):
    """x, but at least 0 and at most 2."""

    elementwise = finite = idempotent = True

    x: Tensor

    def clamps(self, x):
        return 0.0, 2.0

    def numpy(self, x):
        return np.clip(x, 0, 2)

    def compute(self, x):
        low, high = const(0, x.dtype), const(2, x.dtype)
        return te.compute(x.shape, lambda *i: minimum(maximum(x(*i), low), high), name="ramp")


@operator("relax.toy.turn")
class Turn(Alike):
    """The last dimension backwards."""

    moves = True

    x: Tensor

    def numpy(self, x):
        return x[..., ::-1]

    def compute(self, x):
        last = x.shape[-1]
        return te.compute(x.shape, lambda *i: x(*i[:-1], last - 1 - i[-1]), name="turn")


@operator("relax.toy.plus")
class Plus(Alike):
    """x1 + x2, where x2 is one number, or one a channel: (C, 1, 1)."""

    commutative, neutral = True, 0
    line = staticmethod(lambda c: (np.ones_like(c), c))

    x1: Tensor
    x2: Tensor

    def numpy(self, x1, x2):
        return x1 + x2


@operator("relax.toy.twice")
class Twice(Alike):
    """2 x + 1"""

    x: Tensor

    def for_inference(self, call, emit):
        x = call.args[0]
        return op.add(emit(op.add(x, x)), op.ones_like(x))

    def numpy(self, x):
        return 2 * x + 1


@operator("relax.toy.heads")
class Heads(Alike):
    """Along `axis` the first element everywhere."""

    x: Tensor
    axis: int = 1

    def in_order(self, order):
        return replace(self, axis=order.index(self.axis)), order

    def numpy(self, x):
        return np.broadcast_to(x.take([0], self.axis), x.shape)

    def compute(self, x):
        def first(*index):
            return x(*(0 if i == self.axis else at for i, at in enumerate(index)))

        return te.compute(x.shape, first, name="heads")


@operator("relax.toy.dot")
class Dot(OpDecl):
    """x1 @ x2, of two matrices."""

    product = rounds = True

    x1: Tensor
    x2: Tensor
    out_dtype: str | None = None

    def infer(self, x1, x2):
        return _matmul(self).infer(x1, x2)

    def numpy(self, x1, x2):
        return _matmul(self).numpy(x1, x2)

    def compute(self, x1, x2):
        return _matmul(self).compute(x1, x2)


def _matmul(self):
    return Matmul(out_dtype=self.out_dtype)
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The module of that file, its operators declared while the test runs."""
    monkeypatch.setattr(operator, "_declared", dict(operator.declarations()))
    path = tmp_path / "toy_operators.py"
    path.write_text(FILE)
    spec = importlib.util.spec_from_file_location("toy_operators", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "toy_operators", module)
    spec.loader.exec_module(module)
    return module


def module(build, **shapes):
    """main(…) = build(…); a shape may end in a dtype."""
    bb = relax.BlockBuilder()
    params = []
    for name, shape in shapes.items():
        dims = [d for d in shape if not isinstance(d, str)]
        kind = next((d for d in shape if isinstance(d, str)), "float32")
        params.append(relax.Var(name, relax.TensorStructInfo(dims, kind)))
    with bb.function("main", params):
        with bb.dataflow():
            result = bb.emit_output(build(*params))
        bb.emit_func_output(result)
    return bb.get()


def names(mod):
    """The operators of main, in order."""
    return [called(b.value).sugar for b in mod["main"].body.bindings if called(b.value).op_name]


def random(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def kernels(*shape):
    return relax.const(random(*shape))


def run(mod, *arrays):
    return np.asarray(mlc.compile(mod, relax_pipeline="zero")(*arrays))


def test_twice_is_once_and_a_neutral_number_goes(toy):
    def build(x):
        ramp = make_call(toy.Ramp, make_call(toy.Ramp, x))
        plus = make_call(toy.Plus, ramp, relax.const(0.0))
        return make_call(toy.Plus, relax.const(np.zeros((2, 3), "float32")), plus)

    assert names(transform.SimplifyOps()(module(build, x=(2, 3)))) == ["toy.ramp"]


def test_a_known_value_is_folded(toy):
    mod = module(lambda x: op.add(x, make_call(toy.Ramp, kernels(2, 3))), x=(2, 3))
    made = transform.FoldConstant()(mod)
    assert names(made) == ["add"]
    x = random(2, 3)
    np.testing.assert_allclose(run(made, x), x + np.clip(random(2, 3), 0, 2))


def test_smaller_operators_take_its_place(toy):
    mod = module(lambda x: make_call(toy.Twice, x), x=(2, 3))
    made = transform.DecomposeOpsForInference()(mod)
    assert names(made) == ["add", "ones_like", "add"]
    x = random(2, 3)
    np.testing.assert_allclose(run(made, x), 2 * x + 1)
    assert names(transform.DecomposeOpsForTraining()(mod)) == ["toy.twice"]


def test_it_flows_in_blocks_and_in_an_order(toy):
    def build(x):
        y = op.nn.conv2d(x, kernels(16, 16, 3, 3), padding=(1, 1))
        y = make_call(toy.Ramp, y)
        return op.nn.conv2d(y, kernels(16, 16, 1, 1))

    mod, x = module(build, x=(1, 16, 6, 6)), random(1, 16, 6, 6)
    with Target("llvm"):
        blocked = transform.ConvertLayout()(mod)
    changes = ["layout_transform"] * 2
    wanted = [*changes, "nn.conv2d", "toy.ramp", changes[0], "nn.conv2d", changes[0]]
    assert names(blocked) == wanted
    np.testing.assert_allclose(run(blocked, x), run(mod, x), rtol=1e-3, atol=1e-3)

    ordered = transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(
        module(lambda x: make_call(toy.Heads, build(x)), x=(1, 16, 6, 6))
    )
    turned = ["permute_dims"]
    assert names(ordered) == [
        *[*turned * 2, "nn.conv2d", "toy.ramp", *turned, "nn.conv2d", "toy.heads", *turned]
    ]
    expected = np.broadcast_to(run(mod, x)[:, :1], x.shape)
    np.testing.assert_allclose(run(ordered, x), expected, rtol=1e-3, atol=1e-3)


def test_it_is_fused_with_what_it_follows(toy):
    mod = module(lambda x: make_call(toy.Ramp, op.matmul(x, kernels(8, 8))), x=(4, 8))
    ex = mlc.compile(mod)
    assert [name for name in ex.kernels if "ramp" in name] == [*ex.kernels]
    assert len(ex.kernels) == 1
    x = random(4, 8)
    np.testing.assert_allclose(ex(x), np.clip(x @ random(8, 8), 0, 2), rtol=1e-4, atol=1e-5)


def test_it_comes_before_the_reshape_of_a_product(toy):
    def build(x):
        return make_call(toy.Ramp, op.reshape(op.matmul(x, kernels(8, 8)), (2, 2, 8)))

    made = transform.DeadCodeElimination()(transform.SinkReshape()(module(build, x=(4, 8))))
    assert names(made) == ["matmul", "toy.ramp", "reshape"]


def test_bytes_are_turned_and_clamped(toy):
    scale = relax.const(np.float32(0.5)), relax.const(np.int8(3))

    def build(x):
        return op.quantize(make_call(toy.Turn, op.dequantize(x, *scale)), *scale)

    assert names(transform.IntegerOps()(module(build, x=(4, 4, "int8")))) == ["toy.turn"]

    def clamped(x):
        flat = op.permute_dims(op.dequantize(x, *scale))
        return op.quantize(make_call(toy.Ramp, flat), *scale)

    mod = module(clamped, x=(4, 4, "int8"))
    made = transform.IntegerOps()(mod)
    assert names(made) == ["permute_dims", "maximum", "minimum"]
    x = np.arange(-24, 24, 3, dtype="int8").reshape(4, 4)
    np.testing.assert_array_equal(run(made, x), run(mod, x))


def test_channels_that_are_shifted_go_into_the_bias(toy):
    def build(x):
        y = op.add(op.nn.conv2d(x, kernels(4, 3, 3, 3)), kernels(4, 1, 1))
        return make_call(toy.Plus, y, kernels(4, 1, 1))

    mod = module(build, x=(1, 3, 6, 6))
    made = transform.FoldBatchNorm()(mod)
    assert names(made) == ["nn.conv2d", "add"]


def test_its_products_are_rounded_and_moved_and_computed_wide(toy):
    def build(x, w):
        return make_call(toy.Dot, make_call(toy.Turn, x), w)

    mixed = transform.ToMixedPrecision()(module(build, x=(4, 8), w=(8, 8)))
    assert names(mixed) == ["astype", "toy.turn", "astype", "toy.dot"]
    wide = transform.NarrowProducts()(module(build, x=(4, 8, "float16"), w=(8, 8, "float16")))
    assert names(wide) == ["toy.turn", "astype", "astype", "toy.dot", "astype"]

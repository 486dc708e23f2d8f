"""Gradient: programs there and back, and what is refused. Rules: tests/op/test_gradients.py"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb import relax, te
from mlcnb.core.errors import PassError, UnsupportedOpError
from mlcnb.ir import assert_structural_equal
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.relax.training.utils import register_te_gradient
from mlcnb.relax.transform import Gradient
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import evaluate
from tests.relax.harness import inputs_of


@I.ir_module
class Affine:
    @R.function
    def main(
        x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), b: R.Tensor((4,), "float32")
    ):
        with R.dataflow():
            lv = R.matmul(x, w)
            lv1 = R.add(lv, b)
            gv = R.sum(lv1)
            R.output(gv)
        return gv


@I.ir_module
class AffineAndBack:
    @R.function
    def main(
        x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), b: R.Tensor((4,), "float32")
    ):
        with R.dataflow():
            lv = R.matmul(x, w)
            lv1 = R.add(lv, b)
            gv = R.sum(lv1)
            R.output(gv)
        return gv

    @R.function
    def main_adjoint(
        x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), b: R.Tensor((4,), "float32")
    ):
        with R.dataflow():
            lv = R.matmul(x, w)
            lv1 = R.add(lv, b)
            gv = R.sum(lv1)
            gv_adjoint = R.ones(R.shape([]), "float32")
            lv1_adjoint = R.broadcast_to(gv_adjoint, R.shape([2, 4]))
            lv_adjoint = lv1_adjoint
            b_adjoint = R.collapse_sum_to(lv1_adjoint, R.shape([4]))
            lv2 = R.permute_dims(w, axes=[1, 0])
            x_adjoint = R.matmul(lv_adjoint, lv2)
            lv3 = R.permute_dims(x, axes=[1, 0])
            w_adjoint = R.matmul(lv3, lv_adjoint)
            x_adjoint_out = x_adjoint
            w_adjoint_out = w_adjoint
            b_adjoint_out = b_adjoint
            R.output(gv, x_adjoint_out, w_adjoint_out, b_adjoint_out)
        return (gv, (x_adjoint_out, w_adjoint_out, b_adjoint_out))


def test_there_and_back() -> None:
    assert_structural_equal(Gradient("main")(Affine), AffineAndBack)
    x, w, b = inputs_of(Affine["main"])
    value, (of_x, of_w, of_b) = tvm.compile(AffineAndBack)["main_adjoint"](x, w, b)
    np.testing.assert_allclose(value, np.sum(x @ w + b), rtol=1e-5)
    np.testing.assert_allclose(of_x, np.tile(w.sum(1), (2, 1)), rtol=1e-5)
    np.testing.assert_allclose(of_w, np.tile(x.sum(0)[:, None], (1, 4)), rtol=1e-5)
    np.testing.assert_allclose(of_b, np.full(4, 2), rtol=1e-5)


def test_what_is_there_already() -> None:
    assert Gradient("main")(AffineAndBack) is AffineAndBack
    only_w = Gradient("main", require_grads=AffineAndBack["main"].params[1])
    with pytest.raises(PassError, match="^Gradient: the module has another function main_adjoint"):
        only_w(AffineAndBack)


def back_of(mod: Any, **options: Any) -> str:
    """What `main_adjoint` does, its first line left out."""
    made = Gradient("main", **options)(mod)
    assert_well_formed(made)
    text: str = made["main_adjoint"].script(show_all_struct_info=False)
    return "\n".join(line.strip() for line in text[text.index("with R.dataflow") :].splitlines())


def test_variables_inside() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((3,), "float32")):
            with R.dataflow():
                lv = R.multiply(x, y)
                gv = R.sum(lv)
                R.output(gv)
            return gv

    lv = Module["main"].body.blocks[0].bindings[0].var
    expected = """\
with R.dataflow():
lv = R.multiply(x, y)
gv = R.sum(lv)
gv_adjoint = R.ones(R.shape([]), dtype="float32")
lv_adjoint = R.broadcast_to(gv_adjoint, R.shape([2, 3]))
lv1 = R.multiply(lv_adjoint, x)
y_adjoint = R.collapse_sum_to(lv1, R.shape([3]))
y_adjoint_out = y_adjoint
lv_adjoint_out = lv_adjoint
R.output(gv, y_adjoint_out, lv_adjoint_out)
return (gv, (y_adjoint_out, lv_adjoint_out))"""
    wanted = [Module["main"].params[1], lv]
    assert back_of(Module, require_grads=wanted) == expected


def test_tuples() -> None:
    """A field that nothing read gets zeros, one that was read twice a sum."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((3,), "float32"))):
            with R.dataflow():
                a = x[0]
                both = (a, (a, a))
                inner = both[1]
                c = R.add(inner[0], inner[1])
                gv = R.sum(c)
                R.output(gv)
            return gv

    value, ((found, unread),) = evaluate(
        Gradient("main")(Module),
        (np.ones(2, "float32"), np.ones(3, "float32")),
        name="main_adjoint",
    )
    np.testing.assert_array_equal(value, 4)
    np.testing.assert_array_equal(found, [2, 2])
    np.testing.assert_array_equal(unread, [0, 0, 0])


def test_computed_again() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            with R.dataflow():
                start = R.grad.start_checkpoint(x)
                a = R.exp(start)
                b = R.sin(a)
                end = R.grad.end_checkpoint(b)
                gv = R.sum(end)
                R.output(gv)
            return gv

    expected = """\
with R.dataflow():
a = R.exp(x)
b = R.sin(a)
gv = R.sum(b)
gv_adjoint = R.ones(R.shape([]), dtype="float32")
a_cp = R.exp(x)
b_adjoint = R.broadcast_to(gv_adjoint, R.shape([2]))
lv = R.cos(a_cp)
a_adjoint = R.multiply(b_adjoint, lv)
x_adjoint = R.multiply(a_adjoint, a_cp)
x_adjoint_out = x_adjoint
R.output(gv, x_adjoint_out)
return (gv, (x_adjoint_out,))"""
    assert back_of(Module) == expected


def test_products_of_transposed_matrices() -> None:
    """What comes back through a transpose is the product of the transposed."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3, 2), "float32"), y: R.Tensor((3, 4), "float32")):
            with R.dataflow():
                lv = R.permute_dims(x)
                lv1 = R.matmul(lv, y)
                gv = R.sum(lv1)
                R.output(gv)
            return gv

    expected = """\
with R.dataflow():
lv = R.permute_dims(x)
lv1 = R.matmul(lv, y)
gv = R.sum(lv1)
gv_adjoint = R.ones(R.shape([]), dtype="float32")
lv1_adjoint = R.broadcast_to(gv_adjoint, R.shape([2, 4]))
y_adjoint = R.matmul(x, lv1_adjoint)
lv4 = R.permute_dims(lv1_adjoint, axes=[1, 0])
x_adjoint = R.matmul(y, lv4)
x_adjoint_out = x_adjoint
y_adjoint_out = y_adjoint
R.output(gv, x_adjoint_out, y_adjoint_out)
return (gv, (x_adjoint_out, y_adjoint_out))"""
    assert back_of(Module) == expected


def test_loops_with_a_gradient_of_their_own() -> None:
    @register_te_gradient("scaled_gradient")
    def scaled_gradient(grad: Any, x: Any, k: Any) -> Any:
        return te.compute(x.shape, lambda *i: grad(*i) * k, name="scaled_gradient")

    def scaled(x: Any) -> Any:
        return te.compute(x.shape, lambda *i: x(*i) * T.float32(3), name="scaled")

    builder, x = relax.BlockBuilder(), relax.Var("x", R.Tensor((2, 3), "float32"))
    grad = {"te_grad_name": "scaled_gradient", "te_grad_kwargs": {"k": T.float32(3)}}
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_te_with_grad(scaled, x, **grad)
            out = builder.emit_output(relax.op.sum(y))
        builder.emit_func_output(out)
    mod = builder.get()
    call = mod["main"].body.blocks[0].bindings[0].value
    assert (call.op.name, call.attrs.te_grad_name) == (
        "relax.call_tir_with_grad",
        "scaled_gradient",
    )

    both = Gradient("main")(mod)
    assert_well_formed(both)
    assert "call_tir_with_grad" not in both["main_adjoint"].script()
    _, (found,) = tvm.compile(both)["main_adjoint"](np.ones((2, 3), "float32"))
    np.testing.assert_array_equal(found, np.full((2, 3), 3))


def test_a_network_as_torch_says() -> None:
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")

    @I.ir_module
    class Net:
        @R.function
        def main(
            x: R.Tensor((4, 1, 8, 8), "float32"),
            w1: R.Tensor((3, 1, 3, 3), "float32"),
            w2: R.Tensor((48, 5), "float32"),
            b2: R.Tensor((5,), "float32"),
            labels: R.Tensor((4,), "int64"),
        ):
            with R.dataflow():
                a = R.nn.conv2d(x, w1, padding=1)
                b = R.nn.relu(a)
                c = R.nn.max_pool2d(b, pool_size=[2, 2], strides=[2, 2])
                d = R.reshape(c, (4, 48))
                e = R.add(R.matmul(d, w2), b2)
                f = R.nn.log_softmax(e)
                gv = R.nn.nll_loss(f, labels)
                R.output(gv)
            return gv

    rng = np.random.default_rng(0)
    given = [
        rng.normal(size=s).astype("float32") for s in [(4, 1, 8, 8), (3, 1, 3, 3), (48, 5), (5,)]
    ]
    labels = np.array([0, 4, 2, 2])
    both = Gradient("main", require_grads=Net["main"].params[:4])(Net)
    loss, adjoints = tvm.compile(both)["main_adjoint"](*given, labels)

    F = torch.nn.functional
    x, w1, w2, b2 = (torch.tensor(g, requires_grad=True) for g in given)
    hidden = F.max_pool2d(F.relu(F.conv2d(x, w1, padding=1)), 2).reshape(4, 48)
    expected = F.cross_entropy(hidden @ w2 + b2, torch.tensor(labels))
    expected.backward()
    np.testing.assert_allclose(loss, expected.item(), rtol=1e-5)
    for found, of in zip(adjoints, (x, w1, w2, b2), strict=True):
        np.testing.assert_allclose(found, of.grad.numpy(), rtol=1e-4, atol=1e-5)


@I.ir_module
class Refused:
    @R.function
    def blocks(x: R.Tensor((2,), "float32")):
        gv = R.sum(x)
        return gv

    @R.function
    def matrix(x: R.Tensor((2,), "float32"), n: R.Tensor((2,), "int32")):
        with R.dataflow():
            gv = R.add(x, x)
            total = R.sum(x)
            R.output(gv, total)
        return (gv, total)

    @R.function
    def cast(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            lv = R.match_cast(x, R.Tensor((2,), "float32"))
            gv = R.sum(lv)
            R.output(gv)
        return gv

    @R.function
    def called(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            lv = R.call_pure_packed("f", x, sinfo_args=R.Tensor((), "float32"))
            R.output(lv)
        return lv

    @T.prim_func
    def loops(a: T.Buffer((2,), "float32")):
        a[0] = T.float32(0)


REFUSALS = [
    (Gradient("nowhere"), "Gradient: the module has no function nowhere"),
    (Gradient("loops"), "Gradient: loops is no graph function"),
    (Gradient("blocks"), "Gradient: blocks is not one dataflow block"),
    (
        Gradient("matrix"),
        "Gradient: result 0 of matrix is no variable that holds a float tensor without dimensions, "
        'but R.Tensor((2,), dtype="float32")',
    ),
    (Gradient("matrix", target_index=2), "Gradient: matrix has 2 results, target_index is 2"),
    (
        Gradient("matrix", Affine["main"].params[0], 1),
        "Gradient: matrix has no variable x",
    ),
    (
        Gradient("matrix", [Refused["matrix"].params[0]] * 2, 1),
        "Gradient: x is in require_grads twice",
    ),
    (
        Gradient("matrix", Refused["matrix"].params[1], 1),
        'Gradient: n is R.Tensor((2,), dtype="int32")',
    ),
    (Gradient("cast"), "Gradient: lv is a match_cast, which has no gradient"),
]


@pytest.mark.parametrize("pass_, message", REFUSALS, ids=lambda p: str(p)[:60])
def test_refused(pass_: Gradient, message: str) -> None:
    with pytest.raises(PassError) as error:
        pass_(Refused)
    assert error.value.message == message


def test_what_has_no_gradient() -> None:
    with pytest.raises(UnsupportedOpError) as error:
        Gradient("called")(Refused)
    assert error.value.message == "lv: call_pure_packed has no gradient"

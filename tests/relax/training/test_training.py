"""Losses, optimizers, SetupTrainer and Trainer, against PyTorch where it is at hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb import relax
from mlcnb.core.errors import ArgumentError, PassError, RuntimeInputError
from mlcnb.ir import assert_structural_equal
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.relax.training import AppendLoss, SetupTrainer, Trainer
from mlcnb.relax.training.loss import (
    CategoricalCrossEntropyLoss,
    CrossEntropyLoss,
    L1Loss,
    MSELoss,
)
from mlcnb.relax.training.optimizer import SGD, Adam, MomentumSGD
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.testing import evaluate

RNG = np.random.default_rng(0)


def info(*shape: int, dtype: str = "float32") -> relax.TensorStructInfo:
    return relax.TensorStructInfo(shape, dtype)


def value(func: relax.Function, *args: Any) -> Any:
    return evaluate(tvm.IRModule({"main": func}), *args)


# losses ------------------------------------------------------------------------------------------


def test_a_loss_is_a_graph_function() -> None:
    @R.function
    def mse_loss(predictions: R.Tensor((3, 5), "float32"), targets: R.Tensor((3, 5), "float32")):
        R.func_attr({"global_symbol": "mse_loss"})
        with R.dataflow():
            lv = R.subtract(predictions, targets)
            lv1 = R.multiply(lv, lv)
            gv = R.sum(lv1)
            R.output(gv)
        return gv

    made = MSELoss(reduction="sum")(info(3, 5), info(3, 5))
    assert_structural_equal(made, mse_loss)
    assert MSELoss().num_backbone_outputs == 1


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_are_those_of_pytorch(reduction: str) -> None:
    torch = pytest.importorskip("torch")
    x, y = (RNG.normal(size=(4, 5)).astype("float32") for _ in range(2))
    classes, weights = np.array([0, 3, 2, 3]), RNG.uniform(1, 2, 5).astype("float32")
    shares = np.eye(5, dtype="float32")[classes]
    nn, tensor, same, of = torch.nn.functional, torch.tensor, info(4, 5), info(4, dtype="int64")

    def check(func: relax.Function, args: tuple, wanted: Any) -> None:
        np.testing.assert_allclose(value(func, *args), wanted.numpy(), rtol=1e-5)

    options = {"reduction": reduction}
    check(L1Loss(reduction)(same, same), (x, y), nn.l1_loss(tensor(x), tensor(y), **options))
    check(MSELoss(reduction)(same, same), (x, y), nn.mse_loss(tensor(x), tensor(y), **options))
    wanted = nn.cross_entropy(
        tensor(x), tensor(classes), tensor(weights), ignore_index=3, **options
    )
    loss = CrossEntropyLoss(reduction, ignore_index=3)(same, of, info(5))
    check(loss, (x, classes, weights), wanted)
    ones, each = info(4, 5, dtype="int64"), -nn.log_softmax(tensor(x), 1) * tensor(shares * weights)
    wanted = each if reduction == "none" else getattr(each, reduction)()
    loss = CategoricalCrossEntropyLoss(reduction)(same, ones, info(5))
    check(loss, (x, shares.astype("int64"), weights), wanted)
    wanted = nn.cross_entropy(tensor(x), tensor(classes), ignore_index=3, **options)
    loss = CategoricalCrossEntropyLoss(reduction, 3)(same, ones)
    check(loss, (x, shares.astype("int64")), wanted)


def test_what_is_no_loss() -> None:
    with pytest.raises(ArgumentError, match="mse_loss: there is no reduction 'max'"):
        MSELoss("max")
    with pytest.raises(ArgumentError, match="targets is a variable or a struct info, not 3"):
        MSELoss()(info(3), 3)


# optimizers --------------------------------------------------------------------------------------


def test_a_step_is_a_graph_function() -> None:
    @R.function
    def SGD_(
        params: R.Tuple(R.Tensor((3,), "float32")),
        gradients: R.Tuple(R.Tensor((3,), "float32")),
        optim_states: R.Tuple(R.Tensor((), "int64")),
    ):
        R.func_attr({"global_symbol": "SGD"})
        with R.dataflow():
            lv = optim_states[0]
            num_steps_new = R.add(lv, R.const(1, "int64"))
            w = params[0]
            lv1 = gradients[0]
            lv2 = R.multiply(R.const(0.5, "float32"), lv1)
            w_new = R.subtract(w, lv2)
            params_new = (w_new,)
            optim_states_new = (num_steps_new,)
            R.output(params_new, optim_states_new)
        return (params_new, optim_states_new)

    opt = SGD(0.5).init(relax.Var("w", info(3)))
    assert_structural_equal(opt.get_function(), SGD_)
    assert [s.numpy() for s in opt.state] == [0]


@pytest.mark.parametrize(
    ("made", "name", "options"),
    [
        (SGD(0.1), "SGD", {"lr": 0.1}),
        (SGD(0.1, 0.01), "SGD", {"lr": 0.1, "weight_decay": 0.01}),
        (MomentumSGD(0.1, 0.9), "SGD", {"lr": 0.1, "momentum": 0.9}),
        (
            MomentumSGD(0.1, 0.9, weight_decay=0.02, nesterov=True),
            "SGD",
            {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.02, "nesterov": True},
        ),
        (Adam(0.1), "Adam", {"lr": 0.1}),
        (
            Adam(0.01, (0.8, 0.99), 1e-7, 0.1),
            "Adam",
            {"lr": 0.01, "betas": (0.8, 0.99), "eps": 1e-7, "weight_decay": 0.1},
        ),
    ],
)
def test_optimizers_step_as_those_of_pytorch(made: Any, name: str, options: dict) -> None:
    torch = pytest.importorskip("torch")
    start = [RNG.normal(size=s).astype("float32") for s in ((3, 4), (4,))]
    func = made.init([relax.Var("w", info(3, 4)), relax.Var("b", info(4))]).get_function()
    run = relax.VirtualMachine(relax.build(tvm.IRModule({"step": func}), "llvm"))["step"]
    held = [torch.nn.Parameter(torch.tensor(x)) for x in start]
    peer = getattr(torch.optim, name)(held, **options)
    params, states = tuple(map(np.array, start)), tuple(s.numpy() for s in made.state)
    for step in range(4):
        grads = [RNG.normal(size=p.shape).astype("float32") for p in start]
        for p, g in zip(held, grads, strict=True):
            p.grad = torch.tensor(g)
        peer.step()
        params, states = run(params, tuple(grads), states)
        assert states[0] == step + 1
        for a, b in zip(params, held, strict=True):
            np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_dampening_holds_from_the_first_step() -> None:
    func = MomentumSGD(1.0, 0.5, dampening=0.25).init(relax.Var("w", info(1))).get_function()
    one = np.ones(1, "float32")
    (w,), (_, v) = value(func, (one,), (one,), (np.int64(0), one * 2))
    assert (v, w) == (1.75, -0.75)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ([], "SGD: there are no parameters"),
        ([relax.Var("w", info(3, dtype="int32"))], "SGD: parameter w is R.Tensor"),
        ([relax.Var("w", info(3)), relax.Var("b", info(3, dtype="float64"))], "b is of float64"),
        ([relax.Var("w", relax.ShapeStructInfo((3,)))], "is no tensor variable"),
    ],
)
def test_parameters_that_are_not_trained(params: list, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        SGD(0.1).init(params)


def test_what_is_no_optimizer() -> None:
    w = relax.Var("w", info(3))
    with pytest.raises(ArgumentError, match="w is there twice"):
        SGD(0.1).init([w, w])
    with pytest.raises(ArgumentError, match="knows no parameters yet"):
        SGD(0.1).get_function()
    with pytest.raises(ArgumentError, match="lr is -1"):
        SGD(-1)
    with pytest.raises(ArgumentError, match="nesterov with momentum 0"):
        MomentumSGD(0.1, 0, nesterov=True)
    with pytest.raises(ArgumentError, match="betas are"):
        Adam(0.1, (0.9, 1.0))


# a model and its loss ----------------------------------------------------------------------------


@I.ir_module
class Model:
    @R.function
    def predict(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 3), "float32")):
        with R.dataflow():
            out = R.matmul(x, w)
            twice = R.add(out, out)
            R.output(out, twice)
        return (out, twice)


def test_a_loss_is_appended() -> None:
    @R.function
    def expected(
        x: R.Tensor(("n", 4), "float32"),
        w: R.Tensor((4, 3), "float32"),
        targets: R.Tensor(("n", 3), "float32"),
    ):
        R.func_attr({"global_symbol": "predict_loss"})
        with R.dataflow():
            out = R.matmul(x, w)
            twice = R.add(out, out)
            lv = R.subtract(out, targets)
            lv1 = R.abs(lv)
            gv = R.mean(lv1)
            R.output(out, twice, gv)
        return (gv, twice)

    m = tvm.tir.Var("m", "int64")
    open_info = relax.TensorStructInfo((m, 3), "float32")
    made = AppendLoss("predict", L1Loss()(open_info, open_info))(Model)
    assert_well_formed(made)
    assert_structural_equal(made["predict_loss"], expected)
    assert made["predict"] is Model["predict"]


def test_a_loss_that_does_not_fit() -> None:
    loss = L1Loss()(info(2, 5), info(2, 5))
    with pytest.raises(PassError, match=r"the loss takes predictions: Tensor\(\(2, 5\), float32\)"):
        AppendLoss("predict", loss)(Model)
    with pytest.raises(PassError, match="the module has no function main"):
        AppendLoss("main", loss)(Model)
    with pytest.raises(PassError, match="there is a function predict"):
        AppendLoss("predict", loss, new_func_name="predict")(Model)


# training ----------------------------------------------------------------------------------------


@I.ir_module
class Backbone:
    I.module_attrs({"param_num": 2, "state_num": 2})

    @R.function
    def backbone(
        x: R.Tensor((8, 4), "float32"),
        w: R.Tensor((4, 3), "float32"),
        b: R.Tensor((3,), "float32"),
        mean: R.Tensor((4,), "float32"),
        var: R.Tensor((4,), "float32"),
    ):
        with R.dataflow():
            one = R.ones((4,), "float32")
            zero = R.zeros((4,), "float32")
            bn = R.nn.batch_norm(x, one, zero, mean, var, axis=1)
            x0 = bn[0]
            out = R.add(R.matmul(x0, w), b)
            new_mean = bn[1]
            new_var = bn[2]
            R.output(out, new_mean, new_var)
        return (out, new_mean, new_var)


def _trainer() -> Trainer:
    loss, of = CrossEntropyLoss(), [info(8, 3), info(8, dtype="int64")]
    mod = SetupTrainer(loss, Adam(0.05), of)(Backbone)
    return Trainer(mod, relax.VirtualMachine(relax.build(mod, "llvm")), tvm.cpu())


def test_a_module_is_set_up() -> None:
    mod = SetupTrainer(MSELoss(), SGD(0.1), [info(8, 3), info(8, 3)], legalize=False)(Backbone)
    assert_well_formed(mod)
    names = sorted(key.name_hint for key in mod)
    assert names == ["backbone", "backbone_loss", "backbone_loss_adjoint", "optimizer"]
    assert "batch_norm" not in mod.script()
    assert (mod.attrs["input_num"], len(mod.attrs["optim_state"])) == (1, 1)


def test_steps_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    x, y = RNG.normal(size=(8, 4)).astype("float32"), RNG.integers(0, 3, 8)
    w, b = RNG.normal(size=(4, 3)).astype("float32"), np.zeros(3, "float32")
    trainer = _trainer()
    trainer.load_params([w, b])
    trainer.load_states({"mean": np.zeros(4, "float32"), "var": np.ones(4, "float32")})
    norm = torch.nn.BatchNorm1d(4, affine=False)
    params = [torch.nn.Parameter(torch.tensor(p)) for p in (w, b)]
    peer = torch.optim.Adam(params, lr=0.05)
    for _ in range(5):
        loss = torch.nn.functional.cross_entropy(
            norm(torch.tensor(x)) @ params[0] + params[1], torch.tensor(y)
        )
        peer.zero_grad()
        loss.backward()
        peer.step()
        np.testing.assert_allclose(
            trainer.update([x], [y]), loss.detach().numpy(), rtol=1e-4, atol=1e-6
        )
    np.testing.assert_allclose(
        trainer.export_params()["w"].numpy(), params[0].detach().numpy(), rtol=1e-3, atol=1e-5
    )
    np.testing.assert_allclose(
        trainer.export_states()["mean"].numpy(), norm.running_mean.numpy(), rtol=1e-3, atol=1e-5
    )
    mean, var = (s.numpy() for s in trainer.export_states().values())
    values = [p.numpy() for p in trainer.export_params().values()]
    wanted = (x - mean) / np.sqrt(var + 1e-5) @ values[0] + values[1]
    np.testing.assert_allclose(trainer.predict(x), wanted, rtol=1e-4, atol=1e-5)
    assert trainer.profile_adjoint([x], [y]).rows


def test_parameters_begin_somewhere() -> None:
    trainer = _trainer()
    assert not any(p.numpy().any() for p in trainer.export_params().values())
    trainer.xaiver_uniform_init_params()
    w = trainer.export_params()["w"].numpy()
    assert w.any() and np.abs(w).max() <= np.sqrt(6 / 7)
    with pytest.raises(RuntimeInputError, match="parameter b is missing"):
        trainer.load_params({"w": w})
    with pytest.raises(RuntimeInputError, match="parameter w is R.Tensor"):
        trainer.load_params([w[1:], w[0]])
    empty = Trainer(trainer.mod, trainer.vm, zero_init_param_state=False)
    with pytest.raises(RuntimeInputError, match="there are no parameters yet"):
        empty.predict(np.ones((8, 4), "float32"))


def test_modules_that_do_not_train() -> None:
    setup = SetupTrainer(MSELoss(), SGD(0.1), [info(8, 3), info(8, 3)])
    with pytest.raises(PassError, match="no graph function backbone"):
        setup(Model)
    with pytest.raises(PassError, match="the module's attribute param_num is None"):
        setup(tvm.IRModule({"backbone": Backbone["backbone"]}))
    with pytest.raises(PassError, match="5 parameters, of which 5 are said to be trained"):
        setup(Backbone.with_attr("param_num", 5))
    with pytest.raises(RuntimeInputError, match="this module does not train"):
        Trainer(Backbone, None)

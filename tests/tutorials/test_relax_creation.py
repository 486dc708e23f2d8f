"""Graphs from text, from nn.Module, from a builder; across the two levels."""

from __future__ import annotations

import numpy as np

import mlcnb as tvm
from mlcnb import relax, topi
from mlcnb.relax.frontend import nn
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T

rng = np.random.default_rng(0)
shapes = ((3, 16), (12, 16), (12,), (4, 12), (4,))
data, w0, b0, w1, b1 = (rng.standard_normal(s).astype("float32") for s in shapes)
expected = np.maximum(data @ w0.T + b0, 0) @ w1.T + b1


@tvm.register_func("env.linear", override=True)
def linear(x, w, b, out):
    np.copyto(out, np.asarray(x) @ np.asarray(w).T + np.asarray(b))


def run(mod, *args):
    relax.analysis.assert_well_formed(mod)
    mod = mod.with_function("main", mod["forward"].with_attr("global_symbol", "main"))
    return np.asarray(tvm.compile(mod.without_functions(["forward"]), "llvm")(*args))


@I.ir_module
class RelaxModule:
    @R.function
    def forward(
        data: R.Tensor(("n", 16), dtype="float32"),
        w0: R.Tensor((12, 16), dtype="float32"),
        b0: R.Tensor((12,), dtype="float32"),
        w1: R.Tensor((4, 12), dtype="float32"),
        b1: R.Tensor((4,), dtype="float32"),
    ) -> R.Tensor(("n", 4), dtype="float32"):
        with R.dataflow():
            lv0 = R.matmul(data, R.permute_dims(w0)) + b0
            lv1 = R.nn.relu(lv0)
            lv2 = R.matmul(lv1, R.permute_dims(w1)) + b1
            R.output(lv2)
        return lv2


@I.ir_module
class RelaxModuleWithTIR:
    @T.prim_func
    def relu(x: T.handle, y: T.handle):
        n, m = T.int64(), T.int64()
        X = T.match_buffer(x, (n, m), "float32")
        Y = T.match_buffer(y, (n, m), "float32")
        for i, j in T.grid(n, m):
            with T.block("relu"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    @R.function
    def forward(
        data: R.Tensor(("n", 16), dtype="float32"),
        w0: R.Tensor((12, 16), dtype="float32"),
        b0: R.Tensor((12,), dtype="float32"),
        w1: R.Tensor((4, 12), dtype="float32"),
        b1: R.Tensor((4,), dtype="float32"),
    ) -> R.Tensor(("n", 4), dtype="float32"):
        n = T.int64()
        cls = RelaxModuleWithTIR
        with R.dataflow():
            lv0 = R.matmul(data, R.permute_dims(w0)) + b0
            lv1 = R.call_tir(cls.relu, lv0, R.Tensor((n, 12), dtype="float32"))
            lv2 = R.matmul(lv1, R.permute_dims(w1)) + b1
            R.output(lv2)
        return lv2


def test_text_of_one_level_and_of_two(capsys):
    for mod in (RelaxModule, RelaxModuleWithTIR):
        mod.show()
        assert "R.matmul(data, lv)" in capsys.readouterr().out
        np.testing.assert_allclose(run(mod, data, w0, b0, w1, b1), expected, rtol=1e-4, atol=1e-4)


class NNModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 12)
        self.relu1 = nn.ReLU()
        self.fc2 = nn.Linear(12, 4)

    def forward(self, x):
        x = self.fc1(x)
        x = self.relu1(x)
        x = self.fc2(x)
        return x


def test_modules_of_layers(capsys):
    mod, params = NNModule().export_tvm({"forward": {"x": nn.spec.Tensor(("n", 16), "float32")}})
    mod.show()
    assert "def forward" in capsys.readouterr().out
    assert [name for name, _ in params] == ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    np.testing.assert_allclose(run(mod, data, w0, b0, w1, b1), expected, rtol=1e-4, atol=1e-4)


@T.prim_func
def tir_linear(x: T.handle, w: T.handle, b: T.handle, z: T.handle):
    M, N, K = T.int64(), T.int64(), T.int64()
    X = T.match_buffer(x, (M, K), "float32")
    W = T.match_buffer(w, (N, K), "float32")
    B = T.match_buffer(b, (N,), "float32")
    Z = T.match_buffer(z, (M, N), "float32")
    for i, j, k in T.grid(M, N, K):
        with T.block("linear"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Z[vi, vj] = 0
            Z[vi, vj] = Z[vi, vj] + X[vi, vk] * W[vj, vk]
    for i, j in T.grid(M, N):
        with T.block("add"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = Z[vi, vj] + B[vj]


class NNModuleWithTIR(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 12)
        self.fc2 = nn.Linear(12, 4)

    def forward(self, x):
        n = x.shape[0]
        x = nn.extern(
            "env.linear",
            [x, self.fc1.weight, self.fc1.bias],
            out=nn.Tensor.placeholder((n, 12), "float32"),
        )
        x = nn.tensor_expr_op(topi.nn.relu, "relu", [x])
        x = nn.tensor_ir_op(
            tir_linear,
            "tir_linear",
            [x, self.fc2.weight, self.fc2.bias],
            out=nn.Tensor.placeholder((n, 4), "float32"),
        )
        return x


def test_modules_that_call_all_kinds_of_functions():
    mod, params = NNModuleWithTIR().export_tvm(
        {"forward": {"x": nn.spec.Tensor(("n", 16), "float32")}}
    )
    assert "env.linear" in mod.script() and "tir_linear" in [v.name_hint for v in mod]
    np.testing.assert_allclose(run(mod, data, w0, b0, w1, b1), expected, rtol=1e-4, atol=1e-4)


def variables():
    n = T.int64()
    x = relax.Var("x", R.Tensor((n, 16), "float32"))
    fc1_weight = relax.Var("fc1_weight", R.Tensor((12, 16), "float32"))
    fc1_bias = relax.Var("fc1_bias", R.Tensor((12,), "float32"))
    fc2_weight = relax.Var("fc2_weight", R.Tensor((4, 12), "float32"))
    fc2_bias = relax.Var("fc2_bias", R.Tensor((4,), "float32"))
    return n, x, fc1_weight, fc1_bias, fc2_weight, fc2_bias


def test_a_builder():
    bb = relax.BlockBuilder()
    n, x, fc1_weight, fc1_bias, fc2_weight, fc2_bias = variables()
    with bb.function("forward", [x, fc1_weight, fc1_bias, fc2_weight, fc2_bias]):
        with bb.dataflow():
            lv0 = bb.emit(relax.op.matmul(x, relax.op.permute_dims(fc1_weight)) + fc1_bias)
            lv1 = bb.emit(relax.op.nn.relu(lv0))
            gv = bb.emit(relax.op.matmul(lv1, relax.op.permute_dims(fc2_weight)) + fc2_bias)
            bb.emit_output(gv)
        bb.emit_func_output(gv)
    mod = bb.get()
    np.testing.assert_allclose(run(mod, data, w0, b0, w1, b1), expected, rtol=1e-4, atol=1e-4)


def test_a_builder_across_levels():
    bb = relax.BlockBuilder()
    n, x, fc1_weight, fc1_bias, fc2_weight, fc2_bias = variables()
    with bb.function("forward", [x, fc1_weight, fc1_bias, fc2_weight, fc2_bias]):
        with bb.dataflow():
            lv0 = bb.emit(
                relax.call_dps_packed(
                    "env.linear",
                    [x, fc1_weight, fc1_bias],
                    out_sinfo=relax.TensorStructInfo((n, 12), "float32"),
                )
            )
            lv1 = bb.emit_te(topi.nn.relu, lv0)
            tir_gv = bb.add_func(tir_linear, "tir_linear")
            gv = bb.emit(
                relax.call_tir(
                    tir_gv,
                    [lv1, fc2_weight, fc2_bias],
                    out_sinfo=relax.TensorStructInfo((n, 4), "float32"),
                )
            )
            bb.emit_output(gv)
        bb.emit_func_output(gv)
    mod = bb.get()
    np.testing.assert_allclose(run(mod, data, w0, b0, w1, b1), expected, rtol=1e-4, atol=1e-4)

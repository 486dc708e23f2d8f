"""Passes over a graph: built in, in sequence, and one's own."""

from __future__ import annotations

import mlcnb as tvm
from mlcnb import IRModule, relax
from mlcnb.relax.expr_functor import PyExprMutator, mutator
from mlcnb.relax.frontend import nn


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


def module() -> IRModule:
    origin_mod, params = NNModule().export_tvm(
        {"forward": {"x": nn.spec.Tensor(("n", 16), "float32")}}
    )
    return origin_mod


def test_built_in_passes(capsys):
    origin_mod = module()
    text = origin_mod.script()
    mod = tvm.relax.transform.LegalizeOps()(origin_mod)
    mod.show()
    names = [v.name_hint for v in mod.get_global_vars()]
    assert {"matmul", "relu", "forward"} <= set(names)
    mod = tvm.ir.transform.Sequential(
        [
            tvm.relax.transform.AnnotateTIROpPattern(),
            tvm.relax.transform.FuseOps(),
            tvm.relax.transform.FuseTIR(),
        ]
    )(mod)
    mod.show()
    assert any("fused" in v.name_hint for v in mod.get_global_vars())
    assert origin_mod.script() == text and "def forward" in capsys.readouterr().out


@mutator
class ReluRewriter(PyExprMutator):
    def __init__(self, mod):
        super().__init__(mod)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        if call.op.name == "relax.nn.relu":
            return relax.op.nn.gelu(call.args[0])
        return super().visit_call_(call)


@tvm.transform.module_pass(opt_level=0, name="ReluToGelu")
class ReluToGelu:
    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        rewriter = ReluRewriter(mod)
        for g_var, func in mod.functions_items():
            if isinstance(func, relax.Function):
                func = rewriter.visit_expr(func)
                rewriter.builder_.update_func(g_var, func)
        return rewriter.builder_.get()


def test_a_pass_of_ones_own():
    origin_mod = module()
    mod = ReluToGelu()(origin_mod)
    assert "R.nn.gelu" in mod.script() and "R.nn.relu" not in mod.script()
    assert "R.nn.relu" in origin_mod.script()
    relax.analysis.assert_well_formed(mod)

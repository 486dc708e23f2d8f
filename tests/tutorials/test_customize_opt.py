"""A pipeline of one's own: a library for a part of the graph; what needs a GPU is left out."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import mlcnb as tvm
import mlcnb.relax.backend.cuda.cublas as _cublas  # noqa: F401
from mlcnb import IRModule, relax
from mlcnb.relax.frontend import nn


class RelaxModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 16)
        self.relu1 = nn.ReLU()
        self.fc2 = nn.Linear(16, 5, bias=False)

    def forward(self, x):
        x = self.fc1(x)
        x = self.relu1(x)
        x = self.fc2(x)
        return x


@tvm.transform.module_pass(opt_level=0, name="CublasDispatch")
class CublasDispatch:
    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        if not tvm.get_global_func("relax.ext.cublas", True):
            raise Exception("CUBLAS is not enabled.")
        patterns = [relax.backend.get_pattern("cublas.matmul_transposed_bias_relu")]
        mod = relax.transform.FuseOpsByPattern(patterns, annotate_codegen=True)(mod)
        mod = relax.transform.RunCodegen()(mod)
        return mod


def module() -> IRModule:
    mod, params = RelaxModel().export_tvm({"forward": {"x": nn.spec.Tensor((1, 20), "float32")}})
    return mod


def test_a_library_that_is_not_here_is_refused_and_the_module_stays():
    if importlib.util.find_spec("cupy"):
        pytest.skip("CuPy is installed")
    mod = module()
    text = mod.script()
    with pytest.raises(tvm.MLCError, match="cublas: CuPy is not installed"):
        CublasDispatch()(mod)
    assert mod.script() == text


def test_the_part_for_a_library_is_marked_and_the_rest_goes_on():
    mod = module()
    patterns = [relax.backend.get_pattern("cublas.matmul_transposed_bias_relu")]
    assert patterns[0] in relax.backend.get_patterns_with_prefix("cublas")
    mod = relax.transform.FuseOpsByPattern(patterns, annotate_codegen=True)(mod)
    marked = [f for f in mod.functions.values() if f.attrs.get("Codegen") == "cublas"]
    assert len(marked) == 1 and marked[0].script().count("R.matmul") == 1
    assert mod["forward"].script().count("R.matmul") == 1
    relax.analysis.assert_well_formed(mod)


def test_what_no_library_takes_is_tuned_and_its_records_applied(tmp_path):
    """`MetaScheduleTuneTIR` and `MetaScheduleApplyDatabase` behind a pipeline, in one sequence."""
    x, w1, b1, w2 = (
        np.random.default_rng(0).random(s, dtype="float32")
        for s in [(1, 20), (16, 20), (16,), (5, 16)]
    )
    with tvm.target.Target("llvm"):
        tuned = tvm.ir.transform.Sequential(
            [
                relax.get_pipeline("zero"),
                relax.transform.MetaScheduleTuneTIR(work_dir=str(tmp_path), max_trials_global=3),
                relax.transform.MetaScheduleApplyDatabase(work_dir=str(tmp_path)),
            ]
        )(module())
    loops = [f for f in tuned.functions.values() if isinstance(f, tvm.tir.PrimFunc)]
    assert loops and all(f.attrs.get("tir.is_scheduled") for f in loops)
    ex = tvm.compile(tuned, target="llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    found = vm["forward"](x, w1, b1, w2)
    np.testing.assert_allclose(found, np.maximum(x @ w1.T + b1, 0) @ w2.T, rtol=1e-5)

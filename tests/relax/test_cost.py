"""Operations of modules: of graphs, legalized, fused, as loop functions; never silently none."""

from __future__ import annotations

import pytest

import mlcnb as tvm
from mlcnb import relax
from mlcnb.script import ir as I
from mlcnb.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 16), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.nn.relu(y)
            R.output(z)
        return z


MATMUL, RELU = 2 * 4 * 8 * 16, 4 * 16


def test_each_form_of_a_module_counts_the_same():
    legal = relax.transform.LegalizeOps()(Module)
    fused = relax.get_pipeline("zero")(Module)
    assert len([f for f in fused.functions.values() if isinstance(f, tvm.tir.PrimFunc)]) == 1
    for mod in (Module, legal, fused):
        assert relax.analysis.flops(mod) == MATMUL + RELU
        assert relax.analysis.flops(mod["main"], mod.functions) == MATMUL + RELU
    for mod in (legal, fused):
        assert tvm.tir.analysis.estimate_tir_flops(mod) == MATMUL + RELU
    assert tvm.tir.analysis.estimate_tir_flops(Module) == 0  # it has no loop functions
    groups = tvm.transform.Sequential(
        [
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FuseOps(),
        ]
    )(Module)
    assert relax.analysis.flops(groups) == MATMUL + RELU


def test_a_call_of_what_is_not_given_is_refused():
    legal = relax.transform.LegalizeOps()(Module)
    with pytest.raises(tvm.MLCError) as error:
        relax.analysis.flops(legal["main"])
    assert str(error.value) == (
        "flops: 'matmul' is called, and is not among the functions\n"
        "hint: relax.analysis.flops(mod), or flops(func, mod.functions)"
    )
    two = tvm.IRModule({"a": Module["main"], "b": Module["main"]})
    with pytest.raises(tvm.MLCError, match="the module has 2 graph functions and no 'main'"):
        relax.analysis.flops(two)


def test_memory_of_a_function():
    (found,) = relax.analysis.estimate_memory_usage(Module)
    assert (found.name, found.inputs, found.peak) == ("main", 4 * (4 * 8 + 8 * 16), 2 * 4 * 64)

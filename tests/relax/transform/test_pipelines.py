"""Named pipelines, their stages, and passes that a user writes with a decorator."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb import relax, tir
from mlcnb.core.errors import PassError
from mlcnb.ir import assert_structural_equal
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.relax.transform import DataflowUseInplaceCalls, DecomposeOpsForTraining, LegalizeOps
from mlcnb.relax.transform import pipeline as stages
from mlcnb.script import from_source
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import evaluate
from tests.relax.harness import as_module, check_pass, inputs_of, same_numbers


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((4, 5), "float32"), w: R.Tensor((5, 3), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.relu(a)
            c = R.reshape(b, (12,))
            gv = R.exp(c)
            R.output(gv)
        return gv


@pytest.mark.parametrize("name", ["zero", "default", "default_build", "cpu_generic", "gpu_generic"])
def test_every_stage_of_a_pipeline_means_the_same_and_is_text(name: str) -> None:
    args = inputs_of(Model["main"])
    mod = Model
    for step in relax.get_pipeline(name):
        mod = step(mod)
        assert_well_formed(mod)
        text = mod.script(show_meta=True)
        assert_structural_equal(from_source(text), mod)
    same_numbers(Model, mod, args)


@pytest.mark.parametrize("name", ["default_build", "cpu_generic"])
def test_what_is_lowered_to_explicit_memory_runs(name: str) -> None:
    x, w = inputs_of(Model["main"])
    ex = tvm.compile(Model, target="llvm", relax_pipeline=name)
    got = relax.VirtualMachine(ex)["main"](x, w)
    np.testing.assert_allclose(got, evaluate(Model, x, w), 1e-5)


def test_the_pipeline_of_a_target() -> None:
    assert relax.get_default_pipeline(tvm.target.Target("llvm")).name == "cpu_generic"
    assert relax.get_default_pipeline("cuda").name == "cuda"
    names = [p.name for p in relax.get_default_pipeline("llvm")]
    assert names == [
        "LegalizeOps", "AnnotateTIROpPattern", "FoldConstant", "FuseOps", "FuseTIR",
        "RewriteDataflowReshape", "ToNonDataflow", "RemovePurityChecking", "CallTIRRewrite",
        "StaticPlanBlockMemory", "RewriteCUDAGraph", "LowerAllocTensor", "KillAfterLastUse",
        "LowerRuntimeBuiltin", "AttachGlobalSymbol",
    ]  # fmt: skip
    target = tvm.target.Target("llvm")
    staged = [
        *stages.library_dispatch_passes(target),
        *stages.legalize_passes(target),
        *stages.dataflow_lower_passes(target),
        *stages.finalize_passes(target),
    ]
    assert [p.name for p in staged] == names
    of_cpu = relax.backend.cpu_generic
    for where in (of_cpu, relax.backend.gpu_generic, relax.backend.cuda):
        assert [p.name for p in where.legalize_passes(target)] == names[:5]
        assert [p.name for p in where.finalize_passes(target)] == names[9:]
    assert [p.name for p in of_cpu.get_default_pipeline(target)] == names


@pytest.mark.parametrize("name", ["default", "cpu", "cpu_generic", "default_build", "lower"])
def test_a_target_may_be_named(name: str) -> None:
    whole = relax.get_pipeline(name, target=tvm.target.Target("llvm"))(Model)
    assert_structural_equal(relax.get_pipeline(name, target="llvm")(Model), whole)


def test_the_pipeline_of_tuned_loops() -> None:
    from mlcnb.meta_schedule.database import MemoryDatabase

    with MemoryDatabase():
        mod = relax.get_pipeline("static_shape_tuning", total_trials=0)(Model)
    same_numbers(Model, mod)
    with pytest.raises(PassError, match="static_shape_tuning: cpu_weight_prepack is not done"):
        relax.get_pipeline("static_shape_tuning", cpu_weight_prepack=True)


@pytest.mark.usefixtures("own_pipelines")
def test_a_pipeline_of_ones_own() -> None:
    @relax.register_pipeline("tests.only_legalize")
    def only_legalize(target=None):
        return [LegalizeOps()]

    mod = relax.get_pipeline("tests.only_legalize")(Model)
    assert len(mod) == 5
    with pytest.raises(PassError, match="no pipeline 'nothing'"):
        relax.get_pipeline("nothing")


def test_decorated_functions_in_all_spellings() -> None:
    seen = []

    @tvm.transform.module_pass(opt_level=1, name="Look", required=["Normalize"], traceable=True)
    def look(mod, ctx):
        assert isinstance(ctx, tvm.transform.PassContext)
        seen.append("module")
        return mod

    @relax.transform.function_pass(opt_level=0)
    def rename(func, mod, ctx):
        seen.append("function")
        return func.with_attr("seen", 1)

    @relax.transform.dataflowblock_pass(opt_level=0)
    def block_only(block, mod, ctx):
        seen.append("block")
        return block

    @tir.transform.prim_func_pass(opt_level=0)
    def loops(func, mod, ctx):
        seen.append("loops")
        return func

    def plain(mod, ctx):
        seen.append("plain")
        return mod

    direct = tvm.ir.transform.module_pass(plain, opt_level=0)
    assert look.info.name == "Look" and look.info.required == ("Normalize",)
    assert look.info.traceable and look.info.opt_level == 1
    mod = tvm.transform.Sequential([look, rename, block_only, loops, direct])(Model)
    assert seen == ["module", "function", "block", "plain"]
    assert mod["main"].attrs["seen"] == 1
    loops(LegalizeOps()(Model))
    assert seen.count("loops") == 4
    with pytest.raises(PassError, match="a pass is made of a function or a class, not of 3"):
        tvm.transform.module_pass(3, opt_level=0)


def test_decorated_classes_with_arguments() -> None:
    @relax.transform.function_pass(opt_level=0)
    class Replace:
        def __init__(self, new_attr, times=1):
            self.new_attr, self.times = new_attr, times

        def transform_function(self, func, mod, ctx):
            return func.with_attr(self.new_attr, self.times)

    @tir.transform.prim_func_pass(opt_level=0)
    class Mark:
        def transform_function(self, func, mod, ctx):
            return func.with_attr("marked", True)

    @relax.transform.dataflowblock_pass(opt_level=0)
    class Blocks:
        def transform_dataflowblock(self, block, mod, ctx):
            return block

    @tvm.transform.module_pass(opt_level=0)
    class Module:
        def transform_module(self, mod, ctx):
            return Blocks()(mod)

    assert Replace("a", times=2)(Model)["main"].attrs["a"] == 2
    assert repr(Replace("a", times=2)) == "Replace('a', times=2)"
    marked = Mark()(LegalizeOps()(Model))
    assert all("marked" in f.attrs for k, f in marked.items() if k.name_hint != "main")
    assert Module()(Model) is Model


def test_loops_of_ones_own_for_an_operator() -> None:
    def softer(bb, call):
        half = relax.const(0.5, "float32")
        return bb.normalize(R.multiply(R.nn.relu(call.args[0]), half))

    def with_te(bb, call):
        def twice(a):
            return tvm.te.compute(a.shape, lambda *i: a(*i) * 2.0, name="twice")

        return bb.call_te(twice, call.args[0], primfunc_name_hint="twice")

    mod = LegalizeOps({"relax.nn.relu": with_te}, skip_ops=["relax.exp"])(Model)
    assert sorted(k.name_hint for k in mod) == ["main", "matmul", "reshape", "twice"]
    assert "R.exp" in mod.script()
    x, w = inputs_of(Model["main"])
    np.testing.assert_allclose(evaluate(mod, x, w), np.exp(2 * (x @ w).reshape(12)), 1e-5)
    got = LegalizeOps({"relax.exp": softer})(Model)
    expected = np.maximum((x @ w).reshape(12), 0) * 0.5
    np.testing.assert_allclose(evaluate(got, x, w), expected, 1e-5)


def test_operators_without_loops_are_named() -> None:
    @R.function
    def main(x: R.Tensor((4,), "int64")):
        gv = R.tensor_to_shape(x)
        return gv

    with pytest.warns(UserWarning, match="LegalizeOps: tensor_to_shape stays: it has no loop nest"):
        LegalizeOps(enable_warning=True)(as_module(main))


def test_normalisations_for_training() -> None:
    @R.function
    def before(
        x: R.Tensor((2, 3, 4, 4), "float32"),
        g: R.Tensor((3,), "float32"),
        b: R.Tensor((3,), "float32"),
        s: R.Tensor((4, 4), "float32"),
    ):
        with R.dataflow():
            n = R.nn.batch_norm(x, g, b, g, R.abs(b), axis=1)
            gv = R.nn.layer_norm(n[0], s, s, axes=[-2, -1])
            gv1 = (gv, n[1], n[2])
            R.output(gv1)
        return gv1

    got = check_pass(DecomposeOpsForTraining(), before, tolerance=1e-4)
    assert "_norm" not in got.script()
    assert DecomposeOpsForTraining("other")(as_module(before)) is not None


def test_operators_write_over_what_dies() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.add(x, y)
                b = R.exp(a)
                c = R.multiply(b, x)
                d = R.reshape(c, (2, 2))
                e = R.negative(c)
                gv = (R.nn.relu(e), d)
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @T.prim_func(private=True)
        def exp_inplace(x: T.Buffer((T.int64(4),), "float32")):
            T.func_attr({"tir.noalias": True})
            for i in range(T.int64(4)):
                with T.block("exp"):
                    v = T.axis.spatial(T.int64(4), i)
                    x[v] = T.exp(x[v])

        @T.prim_func(private=True)
        def multiply_inplace(
            x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")
        ):
            T.func_attr({"tir.noalias": True})
            for i in range(T.int64(4)):
                with T.block("multiply"):
                    v = T.axis.spatial(T.int64(4), i)
                    x[v] = x[v] * y[v]

        @T.prim_func(private=True)
        def relu_inplace(x: T.Buffer((T.int64(4),), "float32")):
            T.func_attr({"tir.noalias": True})
            for i in range(T.int64(4)):
                with T.block("relu"):
                    v = T.axis.spatial(T.int64(4), i)
                    x[v] = T.max(x[v], T.float32(0))

        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            cls = After
            with R.dataflow():
                a = R.add(x, y)
                b = R.call_tir_inplace(
                    cls.exp_inplace,
                    (a,),
                    inplace_indices=[0],
                    out_sinfo=R.Tensor((4,), "float32"),
                )
                c = R.call_tir_inplace(
                    cls.multiply_inplace,
                    (b, x),
                    inplace_indices=[0],
                    out_sinfo=R.Tensor((4,), "float32"),
                )
                d = R.reshape(c, (2, 2))
                e = R.negative(c)
                r = R.call_tir_inplace(
                    cls.relu_inplace,
                    (e,),
                    inplace_indices=[0],
                    out_sinfo=R.Tensor((4,), "float32"),
                )
                gv = (r, d)
                R.output(gv)
            return gv

    got = DataflowUseInplaceCalls()(Before)
    assert_structural_equal(got, After)
    assert_well_formed(got)
    args = inputs_of(Before["main"])
    same_numbers(Before, got, [a.copy() for a in args])
    ex = tvm.compile(got, target="llvm", relax_pipeline=None)
    for one, two in zip(ex(*args), evaluate(Before, *args), strict=True):
        np.testing.assert_allclose(one, two, 1e-5)


def test_what_is_read_later_or_handed_out_is_not_written_over() -> None:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.negative(a)
            c = R.add(a, b)
            gv = (a, b, c)
            R.output(gv)
        return gv

    check_pass(DataflowUseInplaceCalls(), main, main)

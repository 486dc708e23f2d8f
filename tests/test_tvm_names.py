"""Code in the spelling of TVM 0.21 runs after `import mlcnb as tvm`."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb import relax, te, tir
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T


@I.ir_module
class Module:
    @T.prim_func
    def mm_relu(
        A: T.Buffer((128, 128), "float32"),
        B: T.Buffer((128, 128), "float32"),
        C: T.Buffer((128, 128), "float32"),
    ):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((128, 128), dtype="float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(128, 128):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))

    @R.function
    def main(x: R.Tensor((128, 128), "float32"), w: R.Tensor((128, 128), "float32")):
        cls = Module
        with R.dataflow():
            lv0 = R.call_tir(cls.mm_relu, (x, w), out_sinfo=R.Tensor((128, 128), "float32"))
            lv1 = R.nn.softmax(lv0, axis=-1)
            R.output(lv1)
        return lv1


def arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal((2, 128, 128)).astype("float32"))


def test_a_loop_function_scheduled_built_and_called():
    sch = tvm.tir.Schedule(Module["mm_relu"])
    block = sch.get_block("Y", func_name="main")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, factors=[None, 8])
    sch.reorder(i, j0, k, j1)
    sch.reverse_compute_at(sch.get_block("C", func_name="main"), j0)
    sch.decompose_reduction(block, k)
    sch.vectorize(j1)
    rt_lib = tvm.build(sch.mod, target="llvm")
    a, b = arrays()
    c = tvm.nd.empty((128, 128), dtype="float32")
    rt_lib["main"](tvm.nd.array(a), tvm.nd.array(b), c)
    np.testing.assert_allclose(c.numpy(), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-4)


def test_a_tensor_expression():
    n = te.var("n", "int64")
    A = te.placeholder((n, 16), name="A")
    k = te.reduce_axis((0, 16), name="k")
    B = te.compute((n,), lambda i: te.sum(te.exp(A[i, k]), axis=k), name="B")
    func = te.create_prim_func([A, B]).with_attr("global_symbol", "sum_exp")
    lib = tvm.compile(tvm.IRModule({"sum_exp": func}), target=tvm.target.Target("llvm"))
    a, b = arrays()[0][:, :16].copy(), tvm.runtime.empty((128,), "float32")
    lib["sum_exp"](a, b)
    np.testing.assert_allclose(b.numpy(), np.exp(a).sum(1), rtol=1e-4)


def test_a_graph_through_a_pipeline_on_the_virtual_machine():
    with tvm.transform.PassContext(opt_level=3):
        mod = relax.get_pipeline("zero")(Module)
        ex = relax.build(mod, tvm.target.Target("llvm"))
    vm = relax.VirtualMachine(ex, tvm.cpu())
    a, b = arrays()
    out = vm["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b))
    e = np.exp(np.maximum(a @ b, 0) - np.maximum(a @ b, 0).max(-1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(-1, keepdims=True), rtol=1e-4, atol=1e-5)


def test_passes_in_order_and_ones_own():
    seen = []

    @tvm.transform.module_pass(opt_level=0, name="Look")
    def look(mod, ctx):
        seen.append(sorted(v.name_hint for v in mod.get_global_vars()))
        return mod

    seq = tvm.transform.Sequential(
        [look, relax.transform.LegalizeOps(), look, relax.transform.DeadCodeElimination(["main"])]
    )
    with tvm.transform.PassContext(instruments=[tvm.ir.instrument.PassTimingInstrument()]):
        seq(Module)
    assert seen == [["main", "mm_relu"], ["main", "mm_relu", "softmax"]]


def test_a_block_builder_and_a_registered_function():
    name = "tests.names.add_one"
    tvm.register_func(name, lambda x: x + 1, override=True)
    assert tvm.get_global_func(name)(1) == 2
    bb = relax.BlockBuilder()
    n = tir.Var("n", "int64")
    x = relax.Var("x", relax.TensorStructInfo((n, 4), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(relax.op.nn.relu(x))
            z = bb.emit(relax.op.add(y, relax.const(1.0, "float32")))
            gv = bb.emit_output(
                relax.call_dps_packed(
                    "tests.names.copy", (z,), relax.TensorStructInfo((n, 4), "float32")
                )
            )
        bb.emit_func_output(gv)
    tvm.register_func("tests.names.copy", lambda a, out: np.copyto(out, a), override=True)
    mod = bb.get()
    assert relax.analysis.well_formed(mod)
    a = arrays()[0][:3, :4].copy()
    np.testing.assert_array_equal(tvm.compile(mod, "llvm")(a), np.maximum(a, 0) + 1)


def test_text_and_json():
    text = Module.script()
    again = tvm.script.from_source(text)
    tvm.ir.assert_structural_equal(again, Module)
    tvm.ir.assert_structural_equal(tvm.ir.load_json(tvm.ir.save_json(Module)), Module)
    assert tvm.ir.structural_hash(again) == tvm.ir.structural_hash(Module)
    assert isinstance(Module, tvm.IRModule) and isinstance(Module["mm_relu"], tvm.tir.PrimFunc)


@pytest.mark.parametrize(
    "name",
    """
    IRModule compile build cpu cuda device nd.array nd.empty nd.NDArray register_func
    get_global_func target.Target target.Target.current runtime.tensor runtime.empty
    runtime.device runtime.load_module runtime.from_dlpack transform.PassContext
    transform.Sequential transform.module_pass ir.transform.PassContext
    ir.instrument.PassTimingInstrument ir.IRModule ir.GlobalVar ir.Range ir.save_json ir.load_json
    ir.structural_equal ir.structural_hash ir.assert_structural_equal script.ir script.relax
    script.tir script.from_source arith.Analyzer te.placeholder te.compute te.reduce_axis te.sum
    te.create_prim_func tir.Schedule tir.PrimFunc tir.Var tir.IndexMap tir.TensorIntrin
    tir.transform.LowerInitBlock tir.analysis tir.schedule.Schedule tir.const relax.Var
    relax.TensorStructInfo relax.BlockBuilder relax.VirtualMachine relax.get_pipeline relax.build
    relax.op.matmul relax.op.nn.relu relax.call_tir relax.const relax.ExternFunc
    relax.transform.FuseOps relax.transform.LegalizeOps relax.analysis.well_formed
    relax.frontend.onnx.from_onnx
    """.split(),
)
def test_name(name):
    found = tvm
    for part in name.split("."):
        found = getattr(found, part)
    assert found.__doc__


@pytest.mark.parametrize("package", ["", "relax.", "tir.", "ir.", "runtime.", "te.", "script."])
def test_wrong_names_are_refused(package):
    module = tvm
    for part in filter(None, package.split(".")):
        module = getattr(module, part)
    with pytest.raises(AttributeError, match=f"'{module.__name__}' has no attribute 'nothing'"):
        module.nothing


def test_names_of_the_loop_level():
    from mlcnb.ir import PointerType, PrimType
    from mlcnb.ir.diagnostics import override_renderer
    from mlcnb.tir.schedule.record.state import ScheduleDebugMask

    assert tvm.te.AXIS_SEPARATOR == tir.IndexMap.AXIS_SEPARATOR
    state = tir.ScheduleState(Module["mm_relu"], debug_mask=ScheduleDebugMask.VERIFY_SREF_TREE)
    root = state.get_sref(state.mod["main"].body.block)
    assert isinstance(root, tir.StmtSRef) and root.parent is None
    pointer = T.handle("float32", "shared").type_annotation
    assert pointer == PointerType(PrimType("float32"), "shared")
    assert isinstance(tvm.ir.Range(2, 10), tvm.ir.Range) and tvm.ir.Range(2, 10).extent == 8
    assert tvm.ir.Range(6).min == 0 and tvm.ir.Range.from_min_extent(2, 10).extent == 10
    assert Module["mm_relu"].__name__ == "mm_relu"
    seen = []
    override_renderer(lambda context: seen.extend(context.diagnostics))
    with pytest.raises(tvm.error.DiagnosticError):
        tvm.script.from_source("@T.prim_func\ndef f():\n    T.evaluate(a)")
    override_renderer(None)
    assert [(d.span.line, d.message) for d in seen] == [(3, "no name 'a' here")]
    target = tvm.target.Target("nvidia/nvidia-a100", host="llvm")
    assert (target.kind, target.attrs["arch"]) == ("cuda", "sm_80")


def test_calls_of_older_text():
    @T.prim_func
    def old(A: T.Buffer((4,), "float32")):
        T.evaluate(T.call_extern("f", A.data, dtype=""))
        A[0] = T.if_then_else(A[1] > 0.0, A[1], T.float32(0), dtype="float32")
        A[1] = T.exp(A[2], dtype="float32")
        T.evaluate(T.call_intrin("tir.clz", 3, dtype="int32"))
        T.evaluate(T.address_of(A[0], dtype="handle"))
        for i in T.grid(2, 2):
            A[i[0]] = T.float32(1)

    assert old.script(header=False) == (
        "@T.prim_func\n"
        'def old(A: T.Buffer((4,), "float32")):\n'
        '    T.call_extern("void", "f", A.data)\n'
        "    A[0] = T.if_then_else(A[1] > T.float32(0.0), A[1], T.float32(0.0))\n"
        "    A[1] = T.exp(A[2])\n"
        "    T.clz(3)\n"
        "    T.address_of(A[0])\n"
        "    for i_0, i_1 in T.grid(2, 2):\n"
        "        A[i_0] = T.float32(1.0)"
    )


def test_conditions_and_parameters_of_tests():
    from mlcnb import testing

    testing.assert_allclose(np.ones(3), np.ones(3) + 1e-9)
    with pytest.raises(AssertionError):
        testing.assert_allclose(np.ones(3), np.ones(4))
    assert testing.device_enabled("llvm -mcpu=x86-64-v3")
    (mark,) = testing.requires_hexagon(test_a_tensor_expression).pytestmark
    assert mark.name == "skipif" and mark.args == (True,)
    del test_a_tensor_expression.pytestmark
    with pytest.raises(tvm.TVMError, match="give values or by_dict"):
        testing.parameter(1, by_dict={"one": 1})


def test_the_loop_level_under_its_newer_names():
    from mlcnb import s_tir, tirx

    assert tirx is s_tir is tvm.tir is tvm.tirx
    assert relax.VDevice is tvm.ir.VDevice and relax.DummyGlobalInfo is tvm.ir.DummyGlobalInfo
    assert (s_tir.SBlock, s_tir.SBlockRealize) == (tir.Block, tir.BlockRealize)
    assert tirx.transform.StmtSimplify is tir.transform.Simplify
    sch = tvm.s_tir.Schedule(Module["mm_relu"])
    assert sch.get_loops(sch.get_sblock("Y", func_name="main"))

"""The calls of the course's chapters on whole models: end to end, and tuned by hand."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb import relax
from mlcnb.script import relax as R
from mlcnb.script import tir as T

rng = np.random.default_rng(0)
mlp_params = {
    "w0": rng.standard_normal((12, 20)).astype("float32"),
    "b0": rng.standard_normal(12).astype("float32"),
    "w1": rng.standard_normal((5, 12)).astype("float32"),
    "b1": rng.standard_normal(5).astype("float32"),
}
img = rng.standard_normal((1, 20)).astype("float32")


def numpy_mlp(data, w0, b0, w1, b1):
    lv0 = data @ w0.T + b0
    lv1 = np.maximum(lv0, 0)
    return lv1 @ w1.T + b1


expected = numpy_mlp(img, **mlp_params)
data_nd = tvm.nd.array(img)
nd_params = {k: tvm.nd.array(v) for k, v in mlp_params.items()}


@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def relu0(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (1, n), "float32")
        Y = T.match_buffer(y, (1, n), "float32")
        for i, j in T.grid(1, n):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    @T.prim_func
    def linear0(x: T.handle, w: T.handle, b: T.handle, z: T.handle):
        m, n, k = T.int64(), T.int64(), T.int64()
        X = T.match_buffer(x, (1, m), "float32")
        W = T.match_buffer(w, (n, m), "float32")
        B = T.match_buffer(b, (n,), "float32")
        Z = T.match_buffer(z, (1, n), "float32")
        Y = T.alloc_buffer((1, n), "float32")
        for i, j, k in T.grid(1, n, m):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, n):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(
        x: R.Tensor((1, "m"), dtype="float32"),
        w0: R.Tensor(("n", "m"), dtype="float32"),
        b0: R.Tensor(("n",), dtype="float32"),
        w1: R.Tensor(("k", "n"), dtype="float32"),
        b1: R.Tensor(("k",), dtype="float32"),
    ):
        m, n, k = T.int64(), T.int64(), T.int64()
        with R.dataflow():
            lv0 = R.call_dps_packed("linear0", (x, w0, b0), R.Tensor((1, n), dtype="float32"))
            lv1 = R.call_dps_packed("relu0", (lv0,), R.Tensor((1, n), dtype="float32"))
            out = R.call_dps_packed("linear0", (lv1, w1, b1), R.Tensor((1, k), dtype="float32"))
            R.output(out)
        return out


def run(mod, *args):
    ex = relax.build(mod, target="llvm")
    assert type(ex) is relax.Executable
    vm = relax.VirtualMachine(ex, tvm.cpu())
    return vm["main"](*args)


def test_functions_of_the_module_by_their_names():
    nd_res = run(MyModule, data_nd, *(nd_params[k] for k in ("w0", "b0", "w1", "b1")))
    np.testing.assert_allclose(nd_res.numpy(), expected, rtol=1e-4, atol=1e-5)
    assert np.argmax(nd_res.numpy(), axis=1) == expected.argmax(axis=1)


@tvm.script.ir_module
class MyModuleWithExternCall:
    @R.function
    def main(
        x: R.Tensor((1, "m"), dtype="float32"),
        w0: R.Tensor(("n", "m"), dtype="float32"),
        b0: R.Tensor(("n",), dtype="float32"),
        w1: R.Tensor(("k", "n"), dtype="float32"),
        b1: R.Tensor(("k",), dtype="float32"),
    ):
        m, n, k = T.int64(), T.int64(), T.int64()
        with R.dataflow():
            lv0 = R.call_dps_packed("env.linear", (x, w0, b0), R.Tensor((1, n), dtype="float32"))
            lv1 = R.call_dps_packed("env.relu", (lv0,), R.Tensor((1, n), dtype="float32"))
            out = R.call_dps_packed("env.linear", (lv1, w1, b1), R.Tensor((1, k), dtype="float32"))
            R.output(out)
        return out


def register() -> None:
    torch = pytest.importorskip("torch")

    @tvm.register_func("env.linear", override=True)
    def torch_linear(x: tvm.nd.NDArray, w: tvm.nd.NDArray, b: tvm.nd.NDArray, out: tvm.nd.NDArray):
        x_torch = torch.from_dlpack(x)
        w_torch = torch.from_dlpack(w)
        b_torch = torch.from_dlpack(b)
        out_torch = torch.from_dlpack(out)
        torch.mm(x_torch, w_torch.T, out=out_torch)
        torch.add(out_torch, b_torch, out=out_torch)

    @tvm.register_func("env.relu", override=True)
    def lnumpy_relu(x: tvm.nd.NDArray, out: tvm.nd.NDArray):
        x_torch = torch.from_dlpack(x)
        out_torch = torch.from_dlpack(out)
        torch.maximum(x_torch, torch.Tensor([0.0]), out=out_torch)


def test_functions_of_the_environment():
    register()
    nd_res = run(MyModuleWithExternCall, data_nd, *nd_params.values())
    np.testing.assert_allclose(nd_res.numpy(), expected, rtol=1e-4, atol=1e-5)


@tvm.script.ir_module
class MyModuleMixture:
    @T.prim_func
    def linear0(
        X: T.Buffer((1, 20), "float32"),
        W: T.Buffer((12, 20), "float32"),
        B: T.Buffer((12,), "float32"),
        Z: T.Buffer((1, 12), "float32"),
    ):
        T.func_attr({"global_symbol": "linear0", "tir.noalias": True})
        Y = T.alloc_buffer((1, 12), "float32")
        for i, j, k in T.grid(1, 12, 20):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, 12):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(
        x: R.Tensor((1, 20), "float32"),
        w0: R.Tensor((12, 20), "float32"),
        b0: R.Tensor((12,), "float32"),
        w1: R.Tensor((5, 12), "float32"),
        b1: R.Tensor((5,), "float32"),
    ):
        cls = MyModuleMixture
        with R.dataflow():
            lv0 = R.call_tir(cls.linear0, (x, w0, b0), R.Tensor((1, 12), dtype="float32"))
            lv1 = R.call_dps_packed("env.relu", (lv0,), R.Tensor((1, 12), dtype="float32"))
            out = R.call_dps_packed("env.linear", (lv1, w1, b1), R.Tensor((1, 5), dtype="float32"))
            R.output(out)
        return out


def test_parameters_bound_and_a_function_put_in_anew():
    register()
    MyModuleWithParams = relax.transform.BindParams("main", nd_params)(MyModuleMixture)
    ex = relax.build(MyModuleWithParams, target="llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    np.testing.assert_allclose(vm["main"](data_nd).numpy(), expected, rtol=1e-4, atol=1e-5)
    ftimer = vm.module.time_evaluator("main", tvm.cpu(), number=3)
    assert ftimer(data_nd).mean * 1000 > 0

    mod_linear = tvm.IRModule.from_expr(
        MyModuleMixture["linear0"].with_attr("global_symbol", "main")
    )
    sch = tvm.tir.Schedule(mod_linear)
    block = sch.get_block("Y")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, factors=sch.sample_perfect_tile(j, n=2))
    sch.reorder(i, j0, k, j1)
    sch.decompose_reduction(block, k)

    MyModuleWithParams2 = relax.transform.BindParams("main", nd_params)(MyModuleMixture)
    new_func = sch.mod["main"].with_attr("global_symbol", "linear0")
    gv = MyModuleWithParams2.get_global_var("linear0")
    MyModuleWithParams2.update_func(gv, new_func)
    assert "Y_init" in MyModuleWithParams2.script()
    assert "Y_init" not in MyModuleWithParams.script() + MyModuleMixture.script()
    nd_res = run(MyModuleWithParams2, data_nd)
    np.testing.assert_allclose(nd_res.numpy(), expected, rtol=1e-4, atol=1e-5)


def stochastic_schedule_mm(sch: tvm.tir.Schedule):
    block_C = sch.get_block("Y", "main")
    i, j, k = sch.get_loops(block=block_C)
    j_factors = sch.sample_perfect_tile(loop=j, n=2)
    j_0, j_1 = sch.split(loop=j, factors=j_factors)
    sch.reorder(i, j_0, k, j_1)
    sch.decompose_reduction(block_C, k)
    return sch


def test_a_random_search():
    mod = tvm.IRModule.from_expr(MyModuleMixture["linear0"].with_attr("global_symbol", "main"))
    args = [data_nd, nd_params["w0"], nd_params["b0"], tvm.nd.empty((1, 12), "float32")]
    best_result = best_sch = None
    for _ in range(3):
        sch = stochastic_schedule_mm(tvm.tir.Schedule(mod))
        lib = tvm.build(sch.mod, target="llvm")
        result = lib.time_evaluator("main", tvm.cpu())(*args).mean
        if best_result is None or result < best_result:
            best_result, best_sch = result, sch
    assert "sample_perfect_tile" in str(best_sch.trace) and best_result > 0

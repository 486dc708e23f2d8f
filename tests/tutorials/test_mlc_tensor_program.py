"""The calls of the course's chapter on tensor programs, and of its exercises."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb.ir.module import IRModule
from mlcnb.script import tir as T

dtype = "float32"
a_np = np.random.rand(32, 32).astype(dtype)
b_np = np.random.rand(32, 32).astype(dtype)
c_mm_relu = np.maximum(a_np @ b_np, 0)


@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def mm_relu(
        A: T.Buffer((32, 32), "float32"),
        B: T.Buffer((32, 32), "float32"),
        C: T.Buffer((32, 32), "float32"),
    ):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((32, 32), dtype="float32")
        for i, j, k in T.grid(32, 32, 32):
            with T.block("Y"):
                vi = T.axis.spatial(32, i)
                vj = T.axis.spatial(32, j)
                vk = T.axis.reduce(32, k)
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(32, 32):
            with T.block("C"):
                vi = T.axis.spatial(32, i)
                vj = T.axis.spatial(32, j)
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


def transform(mod, jfactor):
    sch = tvm.tir.Schedule(mod)
    block_Y = sch.get_block("Y", func_name="mm_relu")
    i, j, k = sch.get_loops(block_Y)
    j0, j1 = sch.split(j, factors=[None, jfactor])
    sch.reorder(j0, k, j1)
    block_C = sch.get_block("C", "mm_relu")
    sch.reverse_compute_at(block_C, j0)
    return sch.mod


def test_built_transformed_and_timed():
    assert type(MyModule) is IRModule and type(MyModule["mm_relu"]) is tvm.tir.PrimFunc
    sch = tvm.tir.Schedule(MyModule)
    block_Y = sch.get_block("Y", func_name="mm_relu")
    i, j, k = sch.get_loops(block_Y)
    j0, j1 = sch.split(j, factors=[None, 4])
    sch.reorder(j0, k, j1)
    block_C = sch.get_block("C", "mm_relu")
    sch.reverse_compute_at(block_C, j0)
    sch.decompose_reduction(block_Y, k)
    rt_lib = tvm.build(MyModule, target="llvm")
    a_nd = tvm.nd.array(a_np)
    b_nd = tvm.nd.array(b_np)
    c_nd = tvm.nd.empty((32, 32), dtype="float32")
    assert type(c_nd) is tvm.nd.NDArray
    func_mm_relu = rt_lib["mm_relu"]
    func_mm_relu(a_nd, b_nd, c_nd)
    np.testing.assert_allclose(c_mm_relu, c_nd.numpy(), rtol=1e-5)
    rt_lib_after = tvm.build(sch.mod, target="llvm")
    rt_lib_after["mm_relu"](a_nd, b_nd, c_nd)
    np.testing.assert_allclose(c_mm_relu, c_nd.numpy(), rtol=1e-5)
    f_timer_before = rt_lib.time_evaluator("mm_relu", tvm.cpu())
    assert f_timer_before(a_nd, b_nd, c_nd).mean > 0
    f_timer_after = rt_lib_after.time_evaluator("mm_relu", tvm.cpu())
    assert f_timer_after(a_nd, b_nd, c_nd).mean > 0
    mod_transformed = transform(MyModule, jfactor=8)
    rt_lib_transformed = tvm.build(mod_transformed, "llvm")
    f_timer_transformed = rt_lib_transformed.time_evaluator("mm_relu", tvm.cpu())
    assert f_timer_transformed(a_nd, b_nd, c_nd).mean > 0
    np.testing.assert_allclose(c_mm_relu, c_nd.numpy(), rtol=1e-5)


def test_made_from_an_expression():
    from mlcnb import te

    A = te.placeholder((32, 32), "float32", name="A")
    B = te.placeholder((32, 32), "float32", name="B")
    k = te.reduce_axis((0, 32), "k")
    Y = te.compute((32, 32), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="Y")
    C = te.compute((32, 32), lambda i, j: te.max(Y[i, j], 0), name="C")
    te_func = te.create_prim_func([A, B, C]).with_attr({"global_symbol": "mm_relu"})
    MyModuleFromTE = tvm.IRModule({"mm_relu": te_func})
    out = np.empty((32, 32), "float32")
    tvm.build(MyModuleFromTE, "llvm")["mm_relu"](a_np, b_np, out)
    np.testing.assert_allclose(c_mm_relu, out, rtol=1e-5)


@tvm.script.ir_module
class MyAdd:
    @T.prim_func
    def add(
        A: T.Buffer((4, 4), "int64"), B: T.Buffer((4, 4), "int64"), C: T.Buffer((4, 4), "int64")
    ):
        T.func_attr({"global_symbol": "add"})
        for i, j in T.grid(4, 4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                vj = T.axis.spatial(4, j)
                C[vi, vj] = A[vi, vj] + B[vi, vj]


def test_exercise_element_by_element():
    a = np.arange(16).reshape(4, 4)
    b = np.arange(16, 0, -1).reshape(4, 4)
    rt_lib = tvm.build(MyAdd, target="llvm")
    a_tvm = tvm.nd.array(a)
    b_tvm = tvm.nd.array(b)
    c_tvm = tvm.nd.array(np.empty((4, 4), dtype=np.int64))
    rt_lib["add"](a_tvm, b_tvm, c_tvm)
    np.testing.assert_allclose(c_tvm.numpy(), a + b, rtol=1e-5)
    sch = tvm.tir.Schedule(MyAdd)
    block = sch.get_block("C", func_name="add")
    i, j = sch.get_loops(block)
    i0, i1 = sch.split(i, factors=[2, 2])
    sch.parallel(i0)
    sch.unroll(i1)
    sch.vectorize(j)
    tvm.build(sch.mod, target="llvm")["add"](a_tvm, b_tvm, c_tvm)
    np.testing.assert_allclose(c_tvm.numpy(), a + b, rtol=1e-5)


N, CI, H, W, CO, K = 1, 1, 8, 8, 2, 3
OUT_H, OUT_W = H - K + 1, W - K + 1


@tvm.script.ir_module
class MyConv:
    @T.prim_func
    def conv(
        A: T.Buffer((N, CI, H, W), "int64"),
        F: T.Buffer((CO, CI, K, K), "int64"),
        C: T.Buffer((N, CO, OUT_H, OUT_W), "int64"),
    ):
        T.func_attr({"global_symbol": "conv", "tir.noalias": True})
        for b, k, i, j, di, dj, q in T.grid(N, CO, OUT_H, OUT_W, K, K, CI):
            with T.block("C"):
                vb, vk, vi, vj = T.axis.remap("SSSS", [b, k, i, j])
                vdi, vdj, vq = T.axis.remap("RRR", [di, dj, q])
                with T.init():
                    C[vb, vk, vi, vj] = T.int64(0)
                C[vb, vk, vi, vj] += A[vb, vq, vi + vdi, vj + vdj] * F[vk, vq, vdi, vdj]


def test_exercise_convolution():
    torch = pytest.importorskip("torch")
    data = np.arange(N * CI * H * W).reshape(N, CI, H, W)
    weight = np.arange(CO * CI * K * K).reshape(CO, CI, K, K)
    conv_torch = torch.nn.functional.conv2d(torch.Tensor(data), torch.Tensor(weight))
    rt_lib = tvm.build(MyConv, target="llvm")
    data_tvm = tvm.nd.array(data)
    weight_tvm = tvm.nd.array(weight)
    conv_tvm = tvm.nd.array(np.empty((N, CO, OUT_H, OUT_W), dtype=np.int64))
    rt_lib["conv"](data_tvm, weight_tvm, conv_tvm)
    np.testing.assert_allclose(conv_tvm.numpy(), conv_torch.numpy().astype(np.int64), rtol=1e-5)


@tvm.script.ir_module
class MyBmmRelu:
    @T.prim_func
    def bmm_relu(
        A: T.Buffer((4, 16, 16), "float32"),
        B: T.Buffer((4, 16, 16), "float32"),
        C: T.Buffer((4, 16, 16), "float32"),
    ):
        T.func_attr({"global_symbol": "bmm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((4, 16, 16), dtype="float32")
        for n, i, j, k in T.grid(4, 16, 16, 16):
            with T.block("Y"):
                vn, vi, vj, vk = T.axis.remap("SSSR", [n, i, j, k])
                with T.init():
                    Y[vn, vi, vj] = T.float32(0)
                Y[vn, vi, vj] = Y[vn, vi, vj] + A[vn, vi, vk] * B[vn, vk, vj]
        for n, i, j in T.grid(4, 16, 16):
            with T.block("C"):
                vn, vi, vj = T.axis.remap("SSS", [n, i, j])
                C[vn, vi, vj] = T.max(Y[vn, vi, vj], T.float32(0))


@tvm.script.ir_module
class TargetModule:
    @T.prim_func
    def bmm_relu(
        A: T.Buffer((4, 16, 16), "float32"),
        B: T.Buffer((4, 16, 16), "float32"),
        C: T.Buffer((4, 16, 16), "float32"),
    ) -> None:
        T.func_attr({"global_symbol": "bmm_relu", "tir.noalias": True})
        Y = T.alloc_buffer([4, 16, 16], dtype="float32")
        for i0 in T.parallel(4):
            for i1, i2_0 in T.grid(16, 2):
                for ax0_init in T.vectorized(8):
                    with T.block("Y_init"):
                        n, i = T.axis.remap("SS", [i0, i1])
                        j = T.axis.spatial(16, i2_0 * 8 + ax0_init)
                        Y[n, i, j] = T.float32(0)
                for ax1_0 in T.serial(4):
                    for ax1_1 in T.unroll(4):
                        for ax0 in T.serial(8):
                            with T.block("Y_update"):
                                n, i = T.axis.remap("SS", [i0, i1])
                                j = T.axis.spatial(16, i2_0 * 8 + ax0)
                                k = T.axis.reduce(16, ax1_0 * 4 + ax1_1)
                                Y[n, i, j] = Y[n, i, j] + A[n, i, k] * B[n, k, j]
                for i2_1 in T.vectorized(8):
                    with T.block("C"):
                        n, i = T.axis.remap("SS", [i0, i1])
                        j = T.axis.spatial(16, i2_0 * 8 + i2_1)
                        C[n, i, j] = T.max(Y[n, i, j], T.float32(0))


def test_exercise_to_a_given_program():
    sch = tvm.tir.Schedule(MyBmmRelu)
    Y = sch.get_block("Y", func_name="bmm_relu")
    C = sch.get_block("C", func_name="bmm_relu")
    n, i, j = sch.get_loops(C)
    j0, j1 = sch.split(j, factors=[None, 8])
    sch.compute_at(Y, j0)
    *_, ax0, ax1 = sch.get_loops(Y)
    k0, k1 = sch.split(ax1, factors=[None, 4])
    sch.reorder(k0, k1, ax0)
    Y_init = sch.decompose_reduction(Y, k0)
    sch.parallel(n)
    sch.vectorize(sch.get_loops(Y_init)[-1])
    sch.unroll(k1)
    sch.vectorize(j1)
    tvm.ir.assert_structural_equal(sch.mod, TargetModule)
    after_rt_lib = tvm.build(sch.mod, target="llvm")
    a, b = (np.random.rand(4, 16, 16).astype("float32") for _ in range(2))
    a_tvm, b_tvm = tvm.nd.array(a), tvm.nd.array(b)
    c_tvm = tvm.nd.array(np.random.rand(4, 16, 16).astype("float32"))
    after_rt_lib["bmm_relu"](a_tvm, b_tvm, c_tvm)
    np.testing.assert_allclose(c_tvm.numpy(), np.maximum(a @ b, 0), rtol=1e-5)
    f_timer = after_rt_lib.time_evaluator("bmm_relu", tvm.cpu())
    assert "ms" in str(f_timer(a_tvm, b_tvm, c_tvm))

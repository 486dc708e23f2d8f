"""Loop programs from text, from Python's variables, with open sizes, from tensor expressions."""

from __future__ import annotations

import numpy as np

import mlcnb as tvm
from mlcnb import te
from mlcnb.script import ir as I
from mlcnb.script import tir as T


@I.ir_module
class MyModule:
    @T.prim_func
    def mm_relu(
        A: T.Buffer((16, 24), "float32"),
        B: T.Buffer((24, 32), "float32"),
        C: T.Buffer((16, 32), "float32"),
    ):
        Y = T.alloc_buffer((16, 32), dtype="float32")
        for i in range(16):
            for j in range(32):
                for k in range(24):
                    with T.block("Y"):
                        vi = T.axis.spatial(16, i)
                        vj = T.axis.spatial(32, j)
                        vk = T.axis.reduce(24, k)
                        T.reads(A[vi, vk], B[vk, vj])
                        T.writes(Y[vi, vj])
                        with T.init():
                            Y[vi, vj] = T.float32(0)
                        Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i in range(16):
            for j in range(32):
                with T.block("C"):
                    vi = T.axis.spatial(16, i)
                    vj = T.axis.spatial(32, j)
                    T.reads(Y[vi, vj])
                    T.writes(C[vi, vj])
                    C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


@I.ir_module
class ConciseModule:
    @T.prim_func
    def mm_relu(
        A: T.Buffer((16, 24), "float32"),
        B: T.Buffer((24, 32), "float32"),
        C: T.Buffer((16, 32), "float32"),
    ):
        Y = T.alloc_buffer((16, 32), dtype="float32")
        for i, j, k in T.grid(16, 32, 24):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(16, 32):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


M, N, K = 16, 32, 24
dtype = "float32"


@I.ir_module
class ConciseModuleFromPython:
    @T.prim_func
    def mm_relu(
        A: T.Buffer((M, K), dtype),
        B: T.Buffer((K, N), dtype),
        C: T.Buffer((M, N), dtype),
    ):
        Y = T.alloc_buffer((M, N), dtype)
        for i, j, k in T.grid(M, N, K):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.cast(T.float32(0), dtype)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(M, N):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.cast(T.float32(0), dtype))


def test_the_forms_of_one_program_are_equal():
    assert tvm.ir.structural_equal(MyModule, ConciseModule)
    assert tvm.ir.structural_equal(ConciseModule, ConciseModuleFromPython)


@I.ir_module
class DynamicShapeModule:
    @T.prim_func
    def mm_relu(a: T.handle, b: T.handle, c: T.handle):
        M, N, K = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, [M, K], dtype)
        B = T.match_buffer(b, [K, N], dtype)
        C = T.match_buffer(c, [M, N], dtype)
        Y = T.alloc_buffer((M, N), dtype)
        for i, j, k in T.grid(M, N, K):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.cast(T.float32(0), dtype)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(M, N):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.cast(T.float32(0), dtype))


def evaluate_dynamic_shape(lib: tvm.runtime.Module, m: int, n: int, k: int):
    A = tvm.nd.array(np.random.uniform(-1, 1, size=(m, k)).astype("float32"))
    B = tvm.nd.array(np.random.uniform(-1, 1, size=(k, n)).astype("float32"))
    C = tvm.nd.array(np.zeros((m, n), dtype="float32"))
    lib(A, B, C)
    expected = np.maximum(A.numpy() @ B.numpy(), 0)
    np.testing.assert_allclose(C.numpy(), expected, rtol=1e-5, atol=1e-5)
    return C.numpy()


def test_one_compilation_serves_all_sizes():
    dyn_shape_lib = tvm.compile(DynamicShapeModule, target="llvm")
    assert evaluate_dynamic_shape(dyn_shape_lib, m=4, n=4, k=4).shape == (4, 4)
    assert evaluate_dynamic_shape(dyn_shape_lib, m=17, n=33, k=9).shape == (17, 33)


def test_from_a_tensor_expression(capsys):
    A = te.placeholder((16, 24), "float32", name="A")
    B = te.placeholder((24, 32), "float32", name="B")
    k = te.reduce_axis((0, 24), "k")
    Y = te.compute((16, 32), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="Y")
    C = te.compute((16, 32), lambda i, j: te.max(Y[i, j], 0), name="C")
    te_func = te.create_prim_func([A, B, C]).with_attr({"global_symbol": "mm_relu"})
    TEModule = tvm.IRModule({"mm_relu": te_func})
    TEModule.show()
    assert "def mm_relu" in capsys.readouterr().out
    a, b = (np.random.uniform(-1, 1, s).astype("float32") for s in ((16, 24), (24, 32)))
    c = np.zeros((16, 32), "float32")
    tvm.compile(TEModule, target="llvm")(a, b, c)
    np.testing.assert_allclose(c, np.maximum(a @ b, 0), rtol=1e-5, atol=1e-5)


def test_from_a_tensor_expression_with_open_sizes(capsys):
    M, N, K = te.var("m"), te.var("n"), te.var("k")
    A = te.placeholder((M, K), "float32", name="A")
    B = te.placeholder((K, N), "float32", name="B")
    k = te.reduce_axis((0, K), "k")
    Y = te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="Y")
    C = te.compute((M, N), lambda i, j: te.max(Y[i, j], 0), name="C")
    dyn_te_func = te.create_prim_func([A, B, C]).with_attr({"global_symbol": "mm_relu"})
    DynamicTEModule = tvm.IRModule({"mm_relu": dyn_te_func})
    DynamicTEModule.show()
    assert "m = T.int32()" in capsys.readouterr().out
    evaluate_dynamic_shape(tvm.compile(DynamicTEModule, target="llvm"), m=3, n=5, k=7)

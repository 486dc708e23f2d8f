"""Blocks without a schedule get threads."""

from __future__ import annotations

import numpy as np

import mlcnb as tvm
from mlcnb.codegen.interp import run_prim_func
from mlcnb.script import ir as I
from mlcnb.script import tir as T
from mlcnb.tir.transform import DefaultGPUSchedule


def on_gpu(mod):
    with tvm.target.Target("cuda"):
        return DefaultGPUSchedule()(mod)


def test_few_elements():
    @I.ir_module
    class Before:
        @T.prim_func
        def add(A: T.Buffer((6, 5), "float32"), B: T.Buffer((6, 5), "float32")):
            for i, j in T.grid(6, 5):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + T.float32(1)

    @I.ir_module
    class Expected:
        @T.prim_func
        def add(A: T.Buffer((6, 5), "float32"), B: T.Buffer((6, 5), "float32")):
            T.func_attr({"tir.is_scheduled": True})
            for bx in T.thread_binding(1, thread="blockIdx.x"):
                for tx in T.thread_binding(30, thread="threadIdx.x"):
                    with T.block("B"):
                        vi = T.axis.spatial(6, bx * 6 + tx // 5)
                        vj = T.axis.spatial(5, tx % 5)
                        B[vi, vj] = A[vi, vj] + T.float32(1)

    after = on_gpu(Before)
    tvm.ir.assert_structural_equal(after, Expected)
    assert on_gpu(after) is after
    a, b = np.random.default_rng(0).normal(size=(6, 5)).astype("float32"), np.zeros((6, 5), "f")
    run_prim_func(after["add"], [a, b])
    np.testing.assert_array_equal(b, a + 1)


def test_more_elements_than_threads():
    @I.ir_module
    class Before:
        @T.prim_func
        def add(a: T.handle, b: T.handle):
            n, m = T.int64(), T.int64()
            A = T.match_buffer(a, (n, m))
            B = T.match_buffer(b, (n, m))
            for i, j in T.grid(n, m):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj]

    after = on_gpu(Before)["add"].script()
    for line in (
        'in T.thread_binding(T.int64(256), thread="blockIdx.x"):',
        'in T.thread_binding(T.int64(1024), thread="threadIdx.x"):',
        "in range((n * m + T.int64(262143)) // T.int64(262144)):",
    ):
        assert line in after


def test_reductions_and_scalars_are_done_by_one_thread():
    @I.ir_module
    class Before:
        @T.prim_func
        def total(A: T.Buffer((4, 4), "float32"), B: T.Buffer((), "float32")):
            for i, j in T.grid(4, 4):
                with T.block("B"):
                    vi, vj = T.axis.remap("RR", [i, j])
                    with T.init():
                        B[()] = T.float32(0)
                    B[()] = B[()] + A[vi, vj]

        @T.prim_func
        def one(A: T.Buffer((), "float32"), B: T.Buffer((), "float32")):
            with T.block("B"):
                vi = T.axis.spatial(1, 0)
                B[()] = A[()] + T.float32(1)

        @T.prim_func
        def host(A: T.Buffer((4,), "float32")):
            T.func_attr({"target": T.target("llvm")})
            for i in range(4):
                with T.block("A"):
                    vi = T.axis.spatial(4, i)
                    A[vi] = T.float32(0)

    @I.ir_module
    class Expected:
        @T.prim_func
        def total(A: T.Buffer((4, 4), "float32"), B: T.Buffer((), "float32")):
            T.func_attr({"tir.is_scheduled": True})
            for _bx in T.thread_binding(1, thread="blockIdx.x"):
                for _tx in T.thread_binding(1, thread="threadIdx.x"):
                    for i, j in T.grid(4, 4):
                        with T.block("B"):
                            vi, vj = T.axis.remap("RR", [i, j])
                            with T.init():
                                B[()] = T.float32(0)
                            B[()] = B[()] + A[vi, vj]

        @T.prim_func
        def one(A: T.Buffer((), "float32"), B: T.Buffer((), "float32")):
            T.func_attr({"tir.is_scheduled": True})
            for _bx in T.thread_binding(1, thread="blockIdx.x"):
                for _tx in T.thread_binding(1, thread="threadIdx.x"):
                    with T.block("B"):
                        vi = T.axis.spatial(1, 0)
                        B[()] = A[()] + T.float32(1)

        @T.prim_func
        def host(A: T.Buffer((4,), "float32")):
            T.func_attr({"target": T.target("llvm"), "tir.is_scheduled": True})
            for i in range(4):
                with T.block("A"):
                    vi = T.axis.spatial(4, i)
                    A[vi] = T.float32(0)

    tvm.ir.assert_structural_equal(on_gpu(Before), Expected)

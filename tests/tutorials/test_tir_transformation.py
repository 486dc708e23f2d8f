"""A loop program scheduled step by step, built and timed after each."""

from __future__ import annotations

import numpy as np

import mlcnb as tvm
from mlcnb.script import ir as I
from mlcnb.script import tir as T


@I.ir_module
class MyModule:
    @T.prim_func
    def main(
        A: T.Buffer((32, 32), "float32"),
        B: T.Buffer((32, 32), "float32"),
        C: T.Buffer((32, 32), "float32"),
    ):
        T.func_attr({"tir.noalias": True})
        Y = T.alloc_buffer((32, 32))
        for i, j, k in T.grid(32, 32, 32):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(32, 32):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


a_np = np.random.uniform(size=(32, 32)).astype("float32")
b_np = np.random.uniform(size=(32, 32)).astype("float32")
c_np = a_np @ b_np

a_nd = tvm.nd.array(a_np)
b_nd = tvm.nd.array(b_np)
c_nd = tvm.nd.array(np.zeros((32, 32), dtype="float32"))


def evaluate(mod: tvm.IRModule):
    lib = tvm.tir.build(mod, target="llvm")
    lib(a_nd, b_nd, c_nd)
    np.testing.assert_allclose(c_nd.numpy(), c_np, rtol=1e-5)
    f_timer = lib.time_evaluator("main", tvm.cpu())
    print(f_timer(a_nd, b_nd, c_nd))


def test_step_by_step(capsys):
    evaluate(MyModule)
    sch = tvm.tir.Schedule(MyModule)
    block_Y = sch.get_block("Y")
    i, j, k = sch.get_loops(block_Y)
    j0, j1 = sch.split(j, factors=[None, 8])
    sch.mod.show()
    sch.reorder(j0, k, j1)
    sch.mod.show()
    evaluate(sch.mod)
    block_C = sch.get_block("C")
    sch.reverse_compute_at(block_C, j0)
    sch.mod.show()
    sch.decompose_reduction(block_Y, k)
    sch.mod.show()
    evaluate(sch.mod)
    capsys.readouterr()
    sch.trace.show()
    said = capsys.readouterr().out
    for word in ("split", "reorder", "reverse_compute_at", "decompose_reduction"):
        assert f"sch.{word}(" in said
    sch.show()
    said = capsys.readouterr().out
    assert "def main(" in said and "Y_init" in said

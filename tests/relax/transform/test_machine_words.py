"""Passes that put a program into the words of a virtual machine: scalars, CUDA graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlcnb import relax
from mlcnb.core.errors import ExecutionError
from mlcnb.ir import assert_structural_equal
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import PassContext, Sequential
from mlcnb.relax import transform as X
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.runtime.vm import VirtualMachine
from mlcnb.script import from_source
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import evaluate
from tests.relax.harness import check_pass

GRAPHS = {"relax.backend.use_cuda_graph": True}


def captured(mod: IRModule) -> IRModule:
    """RewriteCUDAGraph's module, well formed, and equal to its text read back."""
    with PassContext(config=GRAPHS):
        made = X.RewriteCUDAGraph()(mod)
    assert_well_formed(made)
    assert_structural_equal(from_source(made.script()), made)
    return made


def test_scalars_are_computed() -> None:
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32")):
            n = T.int64()
            _ = R.assert_op(R.prim_value(n % 4 == 0))
            if R.prim_value(n > 5):
                y = R.add(x, x)
            else:
                y = R.multiply(x, R.const(3.0, "float32"))
            s = R.shape([n])
            t = (y, R.prim_value(n * 2), R.prim_value(n), s)
            return t

    @I.ir_module
    class After:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32")):
            cls = After
            n = T.int64()
            a = cls.compute_symbolic_expr(R.prim_value(n))
            _ = R.assert_op(a)
            b = cls.compute_symbolic_expr1(R.prim_value(n))
            if b:
                y = R.add(x, x)
            else:
                y = R.multiply(x, R.const(3.0, "float32"))
            s = R.shape([n])
            c = cls.compute_symbolic_expr2(R.prim_value(n))
            t = (y, c, R.prim_value(n), s)
            return t

        @T.prim_func(private=True)
        def compute_symbolic_expr(n: T.int64) -> T.bool:
            T.func_attr({"tir.is_host_func": True})
            T.ret(n % 4 == 0)

        @T.prim_func(private=True)
        def compute_symbolic_expr1(n: T.int64) -> T.bool:
            T.func_attr({"tir.is_host_func": True})
            T.ret(n > 5)

        @T.prim_func(private=True)
        def compute_symbolic_expr2(n: T.int64) -> T.int64:
            T.func_attr({"tir.is_host_func": True})
            T.ret(n * 2)

    for size in (4, 8):
        made = check_pass(X.ComputePrimValue(), Before, After, [np.ones(size, "float32")])
        vm = VirtualMachine(relax.build(made, "llvm"))
        expected = evaluate(Before, np.ones(size, "float32"))
        for a, b in zip(vm["main"](np.ones(size, "float32")), expected, strict=True):
            np.testing.assert_array_equal(a, b)
        with pytest.raises(ExecutionError, match="assert_op"):
            vm["main"](np.ones(6, "float32"))


def test_a_program_without_computed_scalars_stays() -> None:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        return (R.reshape(x, (n * 4,)), R.prim_value(n), R.prim_value(3))

    check_pass(X.ComputePrimValue(), main, main)


@I.ir_module
class Planned:
    @T.prim_func(private=True)
    def exp(a: T.Buffer((2, 4)), b: T.Buffer((2, 4))):
        T.func_attr({"tir.noalias": True})
        for i, j in T.grid(2, 4):
            with T.block("exp"):
                v, w = T.axis.remap("SS", [i, j])
                b[v, w] = T.exp(a[v, w])

    @R.function
    def main(x: R.Tensor((2, 4), "float32")):
        R.func_attr({"relax.force_pure": True})
        cls = Planned
        s0 = R.memory.alloc_storage(R.shape([32]), 0, "global", "uint8")
        a0 = R.memory.alloc_tensor(s0, 0, R.shape([2, 4]), "float32")
        _0 = cls.exp(x, a0)
        s1 = R.memory.alloc_storage(R.shape([32]), 0, "global", "uint8")
        a1 = R.memory.alloc_tensor(s1, 0, R.shape([2, 4]), "float32")
        _1 = cls.exp(a0, a1)
        _2 = R.memory.kill_tensor(a0)
        a2 = R.memory.alloc_tensor(s0, 0, R.shape([2, 4]), "float32")
        lv = a1
        _3 = cls.exp(lv, a2)
        out = R.builtin.alloc_tensor(R.shape([2, 4]), "float32", 0, "global")
        _4 = cls.exp(a2, out)
        return out


@I.ir_module
class Captured:
    @T.prim_func(private=True)
    def exp(a: T.Buffer((2, 4)), b: T.Buffer((2, 4))):
        T.func_attr({"tir.noalias": True})
        for i, j in T.grid(2, 4):
            with T.block("exp"):
                v, w = T.axis.remap("SS", [i, j])
                b[v, w] = T.exp(a[v, w])

    @R.function(private=True)
    def cuda_graph_alloc() -> R.Tuple(R.Object, R.Object):
        R.func_attr({"relax.force_pure": True})
        s0 = R.memory.alloc_storage(R.shape([32]), 0, "global", "uint8")
        s1 = R.memory.alloc_storage(R.shape([32]), 0, "global", "uint8")
        gv = (s0, s1)
        return gv

    @R.function(private=True)
    def main_cuda_graph_capture(
        a0: R.Tensor((2, 4), "float32"), a1: R.Tensor((2, 4), "float32"), s0: R.Object
    ) -> R.Tuple(R.Tensor((2, 4), "float32")):
        R.func_attr({"relax.force_pure": True})
        cls = Captured
        _1 = cls.exp(a0, a1)
        _2 = R.memory.kill_tensor(a0)
        a2 = R.memory.alloc_tensor(s0, 0, R.shape([2, 4]), "float32")
        lv = a1
        _3 = cls.exp(lv, a2)
        gv = (a2,)
        return gv

    @R.function
    def main(x: R.Tensor((2, 4), "float32")):
        R.func_attr({"relax.force_pure": True})
        cls = Captured
        gv = R.call_builtin_with_ctx(
            "vm.builtin.cuda_graph.get_cached_alloc",
            (cls.cuda_graph_alloc, R.prim_value(0)),
            sinfo_args=(R.Tuple(R.Object, R.Object),),
        )
        s0 = gv[0]
        a0 = R.memory.alloc_tensor(s0, 0, R.shape([2, 4]), "float32")
        _0 = cls.exp(x, a0)
        s1 = gv[1]
        a1 = R.memory.alloc_tensor(s1, 0, R.shape([2, 4]), "float32")
        gv1 = R.call_builtin_with_ctx(
            "vm.builtin.cuda_graph.run_or_capture",
            (cls.main_cuda_graph_capture, (a0, a1, s0), R.prim_value(0)),
            sinfo_args=(R.Tuple(R.Tensor((2, 4), "float32")),),
        )
        a2 = gv1[0]
        out = R.builtin.alloc_tensor(R.shape([2, 4]), "float32", 0, "global")
        _4 = cls.exp(a2, out)
        return out


def test_stretches_of_kernels_are_captured() -> None:
    made = captured(Planned)
    assert_structural_equal(made, Captured)
    x = np.random.default_rng(0).uniform(-2, 0, (2, 4)).astype("float32")
    np.testing.assert_allclose(evaluate(made, x), evaluate(Planned, x), rtol=1e-6)
    assert X.RewriteCUDAGraph()(Planned) is Planned


def test_what_a_function_returns_is_not_kept() -> None:
    @I.ir_module
    class Returned:
        @T.prim_func(private=True)
        def exp(a: T.Buffer((2,)), b: T.Buffer((2,))):
            for i in T.serial(2):
                b[i] = T.exp(a[i])

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            R.func_attr({"relax.force_pure": True})
            cls = Returned
            s = R.memory.alloc_storage(R.shape([8]), 0, "global", "uint8")
            a = R.memory.alloc_tensor(s, 0, R.shape([2]), "float32")
            _ = cls.exp(x, a)
            return a

    assert captured(Returned) is Returned


def test_functions_share_storage_and_weights_are_fixed() -> None:
    @I.ir_module
    class Two:
        @R.function
        def main(x: R.Tensor((8, 8), "float32"), w: R.Tensor((8, 8), "float32")):
            R.func_attr({"num_input": 1})
            a = R.matmul(x, w)
            b = R.matmul(a, w)
            return R.matmul(b, w)

        @R.function
        def other(x: R.Tensor((16, 16), "float32"), w: R.Tensor((16, 16), "float32")):
            R.func_attr({"num_input": 1})
            a = R.matmul(x, w)
            b = R.matmul(a, w)
            return R.matmul(b, w)

    passes = [X.LegalizeOps(), X.RemovePurityChecking(), X.CallTIRRewrite()]
    lowered = Sequential([*passes, X.StaticPlanBlockMemory()])(Two)
    made = captured(lowered)
    text = made.script()
    assert text.count("R.memory.alloc_storage") == 2 and text.count("R.shape([1024])") == 2
    names = sorted(k.name_hint for k in made if "cuda_graph" in k.name_hint)
    assert names == ["cuda_graph_alloc", "main_cuda_graph_capture", "other_cuda_graph_capture"]
    rng = np.random.default_rng(1)
    for name, size in (("main", 8), ("other", 16)):
        x, w = rng.standard_normal((2, size, size)).astype("float32")
        np.testing.assert_allclose(
            evaluate(made, x, w, name=name), evaluate(Two, x, w, name=name), 1e-4, 1e-4
        )


def test_captured_graphs_run_in_the_virtual_machine() -> None:
    @R.function
    def main(x: R.Tensor((8, 8), "float32"), w: R.Tensor((8, 8), "float32")):
        R.func_attr({"num_input": 1})
        return R.matmul(R.nn.relu(R.matmul(R.matmul(x, w), w)), w)

    mod: Any = IRModule.make({"main": main.with_attr("global_symbol", "main")})
    with PassContext(config=GRAPHS):
        lowered = relax.get_pipeline("default_build")(mod)
    assert "main_cuda_graph_capture" in lowered.script()
    x, w = np.random.default_rng(2).standard_normal((2, 8, 8)).astype("float32")
    vm = VirtualMachine(relax.build(lowered, "llvm", relax_pipeline=None))
    np.testing.assert_allclose(vm["main"](x, w), evaluate(mod, x, w), 1e-4, 1e-4)

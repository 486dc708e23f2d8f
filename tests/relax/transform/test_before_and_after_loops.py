"""Whole modules before and after: passes on loop functions, memory and the machine's words."""

from __future__ import annotations

import numpy as np

from mlcnb import register_func
from mlcnb.relax import VirtualMachine, build
from mlcnb.relax import transform as X
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import evaluate
from tests.relax.harness import as_module, check_pass


@I.ir_module
class Chain:
    @T.prim_func(private=True)
    def relu(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("y"):
                vi = T.axis.spatial(4, i)
                y[vi] = T.max(x[vi], T.float32(0))

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Chain
        lv = R.call_tir(cls.relu, (x,), out_sinfo=R.Tensor((4,), "float32"))
        gv = R.call_tir(cls.relu, (lv,), out_sinfo=R.Tensor((4,), "float32"))
        return gv


def test_purity_is_said_of_the_whole_function() -> None:
    @I.ir_module
    class After:
        @T.prim_func(private=True)
        def relu(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("y"):
                    vi = T.axis.spatial(4, i)
                    y[vi] = T.max(x[vi], T.float32(0))

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            R.func_attr({"relax.force_pure": True})
            cls = After
            lv = R.call_tir(cls.relu, (x,), out_sinfo=R.Tensor((4,), "float32"))
            gv = R.call_tir(cls.relu, (lv,), out_sinfo=R.Tensor((4,), "float32"))
            return gv

    check_pass(X.RemovePurityChecking(), Chain, After)


def test_purity_is_said_of_functions_inside_and_closures_are_called_as_any() -> None:
    Info = R.Tensor((4,), "float32")

    @R.function
    def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
        @R.function
        def outer(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            @R.function
            def inner(z: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                return R.add(R.call_pure_packed("f", z, sinfo_args=Info), y)

            return inner(y)

        k = R.make_closure(outer, (x,))
        if c:
            r = R.invoke_pure_closure(k, (), sinfo_args=Info)
        else:
            r = outer(x)
        return r

    register_func("f", lambda x: x + 1, override=True)
    x = np.ones(4, "float32")
    before = as_module(main)
    for mod in (before, X.LambdaLift()(before)):
        made = X.RemovePurityChecking()(mod)
        assert "pure_packed" not in (text := made.script()) and "pure_closure" not in text
        assert text.count("@R.function") == text.count('"relax.force_pure": True') == 3
        assert_well_formed(made)
        for side in (True, False):
            np.testing.assert_array_equal(evaluate(made, x, np.array(side)), np.full(4, 3))
            vm = VirtualMachine(build(made, "llvm"))
            np.testing.assert_array_equal(vm["main"](x, np.array(side)), np.full(4, 3))


def test_loop_functions_are_named_as_they_are_linked() -> None:
    @I.ir_module
    class After:
        @T.prim_func
        def relu(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("y"):
                    vi = T.axis.spatial(4, i)
                    y[vi] = T.max(x[vi], T.float32(0))

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = After
            lv = R.call_tir(cls.relu, (x,), out_sinfo=R.Tensor((4,), "float32"))
            gv = R.call_tir(cls.relu, (lv,), out_sinfo=R.Tensor((4,), "float32"))
            return gv

    check_pass(X.AttachGlobalSymbol(), Chain, After)


@I.ir_module
class Allocated:
    @T.prim_func(private=True)
    def relu(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("y"):
                vi = T.axis.spatial(4, i)
                y[vi] = T.max(x[vi], T.float32(0))

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")):
        cls = Allocated
        alloc = R.builtin.alloc_tensor(R.shape([4]), "float32", 0, "global")
        _ = cls.relu(x, alloc)
        alloc1 = R.builtin.alloc_tensor(R.shape([4]), "float32", 0, "global")
        _1 = cls.relu(alloc, alloc1)
        return alloc1


def test_a_tensor_that_stays_inside_lies_in_a_storage() -> None:
    @I.ir_module
    class After:
        @T.prim_func(private=True)
        def relu(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("y"):
                    vi = T.axis.spatial(4, i)
                    y[vi] = T.max(x[vi], T.float32(0))

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            cls = After
            storage = R.memory.alloc_storage(R.shape([16]), 0, "global", "float32")
            alloc = R.memory.alloc_tensor(storage, 0, R.shape([4]), "float32")
            _ = cls.relu(x, alloc)
            alloc1 = R.builtin.alloc_tensor(R.shape([4]), "float32", 0, "global")
            _1 = cls.relu(alloc, alloc1)
            return alloc1

    check_pass(X.StaticPlanBlockMemory(), Allocated, After)


def test_every_tensor_gets_a_storage() -> None:
    @I.ir_module
    class After:
        @T.prim_func(private=True)
        def relu(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("y"):
                    vi = T.axis.spatial(4, i)
                    y[vi] = T.max(x[vi], T.float32(0))

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            cls = After
            storage = R.memory.alloc_storage(R.shape([16]), 0, "global", "uint8")
            alloc = R.memory.alloc_tensor(storage, 0, R.shape([4]), "float32")
            _ = cls.relu(x, alloc)
            storage1 = R.memory.alloc_storage(R.shape([16]), 0, "global", "uint8")
            alloc1 = R.memory.alloc_tensor(storage1, 0, R.shape([4]), "float32")
            _1 = cls.relu(alloc, alloc1)
            return alloc1

    check_pass(X.LowerAllocTensor(), Allocated, After)


def test_memory_is_told_in_the_machines_words() -> None:
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def relu(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("y"):
                    vi = T.axis.spatial(4, i)
                    y[vi] = T.max(x[vi], T.float32(0))

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            cls = Before
            storage = R.memory.alloc_storage(R.shape([16]), 0, "global", "uint8")
            alloc = R.memory.alloc_tensor(storage, 0, R.shape([4]), "float32")
            _ = cls.relu(x, alloc)
            storage1 = R.memory.alloc_storage(R.shape([16]), 0, "global", "uint8")
            alloc1 = R.memory.alloc_tensor(storage1, 0, R.shape([4]), "float32")
            _1 = cls.relu(alloc, alloc1)
            return alloc1

    @I.ir_module
    class After:
        @T.prim_func(private=True)
        def relu(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("y"):
                    vi = T.axis.spatial(4, i)
                    y[vi] = T.max(x[vi], T.float32(0))

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            cls = After
            storage = R.vm.alloc_storage(R.shape([16]), 0, "uint8", "global")
            alloc = R.vm.alloc_tensor(storage, 0, R.shape([4]), "float32")
            _ = cls.relu(x, alloc)
            storage1 = R.vm.alloc_storage(R.shape([16]), 0, "uint8", "global")
            alloc1 = R.vm.alloc_tensor(storage1, 0, R.shape([4]), "float32")
            _1 = cls.relu(alloc, alloc1)
            return alloc1

    check_pass(X.LowerRuntimeBuiltin(), Before, After)


def test_a_tensor_dies_after_its_last_use() -> None:
    @I.ir_module
    class After:
        @T.prim_func(private=True)
        def relu(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("y"):
                    vi = T.axis.spatial(4, i)
                    y[vi] = T.max(x[vi], T.float32(0))

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            cls = After
            alloc = R.builtin.alloc_tensor(R.shape([4]), "float32", 0, "global")
            _ = cls.relu(x, alloc)
            alloc1 = R.builtin.alloc_tensor(R.shape([4]), "float32", 0, "global")
            _1 = cls.relu(alloc, alloc1)
            _2 = R.memory.kill_tensor(alloc)
            return alloc1

    check_pass(X.KillAfterLastUse(), Allocated, After)


def test_a_copy_that_keeps_the_order_is_a_reshape() -> None:
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def flatten(x: T.Buffer((2, 3), "float32"), y: T.Buffer((6,), "float32")):
            for i in range(6):
                with T.block("y"):
                    vi = T.axis.spatial(6, i)
                    y[vi] = x[vi // 3, vi % 3]

        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            cls = Before
            with R.dataflow():
                gv = R.call_tir(cls.flatten, (x,), out_sinfo=R.Tensor((6,), "float32"))
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @T.prim_func(private=True)
        def flatten(x: T.Buffer((2, 3), "float32"), y: T.Buffer((6,), "float32")):
            for i in range(6):
                with T.block("y"):
                    vi = T.axis.spatial(6, i)
                    y[vi] = x[vi // 3, vi % 3]

        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                gv = R.reshape(x, (6,))
                R.output(gv)
            return gv

    check_pass(X.RewriteDataflowReshape(), Before, After)


def test_a_concatenation_in_place_is_opaque() -> None:
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def exp(x: T.Buffer((1, 16), "float32"), y: T.Buffer((1, 16), "float32")):
            for i, j in T.grid(1, 16):
                with T.block("y"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = T.exp(x[vi, vj])

        @T.prim_func(private=True)
        def twice(x: T.Buffer((1, 16), "float32"), y: T.Buffer((1, 16), "float32")):
            for i, j in T.grid(1, 16):
                with T.block("y"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = x[vi, vj] + x[vi, vj]

        @T.prim_func(private=True)
        def concat(
            a: T.Buffer((1, 16), "float32"),
            b: T.Buffer((1, 16), "float32"),
            c: T.Buffer((2, 16), "float32"),
        ):
            for i, j in T.grid(2, 16):
                with T.block("c"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    c[vi, vj] = T.if_then_else(vi < 1, a[vi, vj], b[vi - 1, vj])

        @R.function
        def main(x: R.Tensor((1, 16), "float32")):
            cls = Before
            with R.dataflow():
                lv = R.call_tir(cls.exp, (x,), out_sinfo=R.Tensor((1, 16), "float32"))
                lv1 = R.call_tir(cls.twice, (x,), out_sinfo=R.Tensor((1, 16), "float32"))
                lv2 = R.call_tir(cls.concat, (lv, lv1), out_sinfo=R.Tensor((2, 16), "float32"))
                gv = R.reshape(lv2, (32,))
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @T.prim_func(private=True)
        def exp(x: T.Buffer((1, 16), "float32"), y: T.Buffer((1, 16), "float32")):
            for i, j in T.grid(1, 16):
                with T.block("y"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = T.exp(x[vi, vj])

        @T.prim_func(private=True)
        def twice(x: T.Buffer((1, 16), "float32"), y: T.Buffer((1, 16), "float32")):
            for i, j in T.grid(1, 16):
                with T.block("y"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = x[vi, vj] + x[vi, vj]

        @T.prim_func(private=True)
        def concat(
            a: T.Buffer((1, 16), "float32"),
            b: T.Buffer((1, 16), "float32"),
            c: T.Buffer((2, 16), "float32"),
        ):
            T.func_attr({"op_pattern": 8})
            for i, j in T.grid(2, 16):
                with T.block("c"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    c[vi, vj] = T.if_then_else(vi < 1, a[vi, vj], b[vi - 1, vj])

        @R.function
        def main(x: R.Tensor((1, 16), "float32")):
            cls = After
            with R.dataflow():
                lv = R.call_tir(cls.exp, (x,), out_sinfo=R.Tensor((1, 16), "float32"))
                lv1 = R.call_tir(cls.twice, (x,), out_sinfo=R.Tensor((1, 16), "float32"))
                lv2 = R.call_tir(cls.concat, (lv, lv1), out_sinfo=R.Tensor((2, 16), "float32"))
                gv = R.reshape(lv2, (32,))
                R.output(gv)
            return gv

    check_pass(X.ConcatInPlace(), Before, After, again=False)


def test_a_weight_may_lie_as_it_likes() -> None:
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def add(x: T.Buffer((4,)), w: T.Buffer((4,)), y: T.Buffer((4,))):
            for i in range(4):
                with T.block("y"):
                    vi = T.axis.spatial(4, i)
                    y[vi] = x[vi] + w[vi]

        @R.function
        def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")):
            R.func_attr({"num_input": 1})
            cls = Before
            gv = R.call_tir(cls.add, (x, w), out_sinfo=R.Tensor((4,), "float32"))
            return gv

    @I.ir_module
    class After:
        @T.prim_func(private=True)
        def add1(x: T.Buffer((4,)), w: T.Buffer((4,)), y: T.Buffer((4,))):
            T.func_attr({"layout_free_buffers": [1]})
            for i in range(4):
                with T.block("y"):
                    vi = T.axis.spatial(4, i)
                    y[vi] = x[vi] + w[vi]

        @R.function
        def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")):
            R.func_attr({"num_input": 1})
            cls = After
            gv = R.call_tir(cls.add1, (x, w), out_sinfo=R.Tensor((4,), "float32"))
            return gv

    check_pass(X.AttachAttrLayoutFreeBuffers(), Before, After)

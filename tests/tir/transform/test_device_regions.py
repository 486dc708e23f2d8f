"""Functions and targets: BindTarget, marks of devices, and the cut along them."""

from __future__ import annotations

from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.script import ir as I
from mlcnb.script import tir as T
from mlcnb.target import Target
from mlcnb.testing import CompareBeforeAfter
from mlcnb.tir.transform import (
    AnnotateDeviceRegions,
    AnnotateEntryFunc,
    Apply,
    BindTarget,
    DecorateDeviceScope,
    Filter,
    SplitHostDevice,
)


class TestLaunchesAreMarked(CompareBeforeAfter):
    transform = AnnotateDeviceRegions()

    def before(A: T.Buffer((8,), "float32")):
        T.func_attr({"target": T.target("cuda", host="llvm")})
        T.evaluate(T.call_extern("int32", "begin"))
        tx = T.launch_thread("threadIdx.x", 8)
        A[tx] = T.float32(0)

    def expected(A: T.Buffer((8,), "float32")):
        T.func_attr({"target": T.target("cuda", host="llvm")})
        T.evaluate(T.call_extern("int32", "begin"))
        T.attr(T.target("cuda"), "target", 0)
        tx = T.launch_thread("threadIdx.x", 8)
        A[tx] = T.float32(0)


class TestWholeBodyIsMarked(CompareBeforeAfter):
    transform = DecorateDeviceScope()

    def before(n: T.int32):
        T.evaluate(n)

    def expected(n: T.int32):
        T.attr(0, "device_scope", 0)
        T.evaluate(n)


class TestKernelOfItsOwn(CompareBeforeAfter):
    transform = SplitHostDevice()

    @I.ir_module
    class Before:
        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), n: T.int32):
            T.func_attr({"target": T.target("cuda", host="llvm")})
            half: T.int32 = n // 2
            with T.attr(T.target("cuda"), "target", 0):
                tx = T.launch_thread("threadIdx.x", half)
                A[tx] = T.float32(0)

        @T.prim_func
        def main_kernel():
            T.evaluate(0)

    @I.ir_module
    class Expected:
        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), n: T.int32):
            T.func_attr({"target": T.target("cuda", host="llvm")})
            half: T.int32 = n // 2
            Expected.main_kernel_1(A.data, half)

        @T.prim_func
        def main_kernel():
            T.evaluate(0)

        @T.prim_func(private=True)
        def main_kernel_1(data: T.handle("float32"), half: T.int32):
            T.func_attr(
                {"target": T.target("cuda"), "tir.noalias": True, "tir.is_global_func": True}
            )
            A = T.decl_buffer((8,), data=data)
            tx = T.launch_thread("threadIdx.x", half)
            A[tx] = T.float32(0)


class TestKernelOnTheCpuTellsOfErrors(CompareBeforeAfter):
    transform = SplitHostDevice()

    @I.ir_module
    class Before:
        @T.prim_func
        def main(n: T.int32):
            T.attr(T.target("llvm"), "target", 0)
            T.evaluate(T.call_extern("int32", "work", n))

    @I.ir_module
    class Expected:
        @T.prim_func
        def main(n: T.int32):
            err = Expected.main_kernel(n)
            assert err == 0, "Error executing compute kernel"

        @T.prim_func(private=True)
        def main_kernel(n: T.int32) -> T.int32:
            T.func_attr(
                {"target": T.target("llvm"), "tir.noalias": True, "tir.is_global_func": True}
            )
            T.evaluate(T.call_extern("int32", "work", n))
            T.ret(0)


@I.ir_module
class Calls:
    @T.prim_func
    def main():
        Calls.helper()

    @T.prim_func
    def on_host():
        T.func_attr({"tir.is_host_func": True})
        Calls.helper()

    @T.prim_func(private=True)
    def helper():
        T.evaluate(T.call_extern("int32", "help"))


def test_each_function_gets_the_target_that_it_runs_on():
    after = BindTarget(Target("cuda", host="llvm"))(Calls)
    targets = {k.name_hint: str(f.attrs["target"]) for k, f in after.items()}
    device, host = Target("cuda"), Target("llvm")
    assert targets == {
        "main": str(Target("cuda", host="llvm")),
        "on_host": str(host),
        "helper": str(device),
        "helper_host": str(host),
    }
    assert "helper_host" in after["on_host"].script()
    assert "helper_host" not in after["main"].script()
    assert "tir.is_host_func" not in after["on_host"].attrs
    assert_structural_equal(BindTarget(host)(after), after)


def test_sets_of_functions():
    kept = Filter(lambda f: "global_symbol" in f.attrs)(Calls)
    assert [k.name_hint for k in kept] == ["main", "on_host"]
    marked = Apply(lambda f: f.with_attr("seen", 1))(kept)
    assert [f.attrs["seen"] for _, f in marked.items()] == [1, 1]
    assert AnnotateEntryFunc()(kept) is kept
    alone = IRModule.make({"helper": Calls["helper"]})
    assert AnnotateEntryFunc()(alone)["helper"].attrs["tir.is_entry_func"] is True

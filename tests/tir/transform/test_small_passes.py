"""Passes of a page each: what they take out of a program, or put in its place."""

from __future__ import annotations

import numpy as np
import pytest

from mlcnb import tir
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import ExecutionError, PassError, WellFormedError
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.ir.transform import PassContext
from mlcnb.script import tir as T
from mlcnb.target import Target
from mlcnb.testing import CompareBeforeAfter
from mlcnb.tir import transform


class TestUndefinedStores(CompareBeforeAfter):
    transform = transform.RemoveStoreUndef()

    def before(A: T.Buffer((4,), "int32")):
        nothing = T.undef("int32")
        A[0] = 1
        A[1] = nothing + 2
        A[2] = T.undef("int32")

    def expected(A: T.Buffer((4,), "int32")):
        A[0] = 1


class TestPromises(CompareBeforeAfter):
    transform = transform.RemoveAssume()

    def before(A: T.Buffer((4,), "int32"), n: T.int32):
        T.assume(n == 4)
        for i in range(4):
            T.assume(i < n)
        A[0] = n

    def expected(A: T.Buffer((4,), "int32"), n: T.int32):
        A[0] = n


class TestAssertions(CompareBeforeAfter):
    transform = transform.SkipAssert()

    def before(A: T.Buffer((4,), "int32"), n: T.int32):
        assert n > 0, "empty"
        A[0] = n

    def expected(A: T.Buffer((4,), "int32"), n: T.int32):
        A[0] = n


class TestChoicesThatRead(CompareBeforeAfter):
    transform = transform.RewriteUnsafeSelect()

    def before(A: T.Buffer((4,), "int32"), n: T.int32):
        A[0] = T.Select(n < 4, A[n], 0)
        A[1] = T.Select(n < 4, n, 0)

    def expected(A: T.Buffer((4,), "int32"), n: T.int32):
        A[0] = T.if_then_else(n < 4, A[n], 0)
        A[1] = T.Select(n < 4, n, 0)


class TestParallelLoops(CompareBeforeAfter):
    transform = transform.ConvertForLoopsToSerial()

    def before(A: T.Buffer((4,), "int32")):
        for i in T.parallel(4):
            for j in T.vectorized(1):
                A[i + j] = 1

    def expected(A: T.Buffer((4,), "int32")):
        for i in range(4):
            for j in T.vectorized(1):
                A[i + j] = 1


class TestLoopsFromZero(CompareBeforeAfter):
    transform = transform.CanonicalizeLoop()

    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(2, 6):
            for j in range(n, n + 3):
                A[i + j] = i

    def expected(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(4):
            for j in range(3):
                A[i + 2 + (j + n)] = i + 2


def test_an_undefined_index_is_refused():
    @T.prim_func(private=True)
    def func(A: T.Buffer((4,), "int32")):
        A[T.undef("int32")] = 1

    with pytest.raises(PassError) as error:
        transform.RemoveStoreUndef()(IRModule.from_expr(func))
    assert error.value.message == "RemoveStoreUndef: an index of A is undefined"


def test_what_is_in_form_passes():
    x = tir.Var("x", "int32")
    one = tir.LetStmt(x, tir.const(16), tir.Evaluate(x))
    good = IRModule.from_expr(tir.PrimFunc((), one))
    twice = IRModule.from_expr(tir.PrimFunc((), tir.SeqStmt((one, one))))
    assert transform.VerifySSA()(good) is good
    with pytest.raises(WellFormedError, match="a variable is defined twice"):
        transform.VerifySSA()(twice)
    assert transform.VerifyMemory()(good) is good


def weight(with_attr=True, twice=False):
    free = {"layout_free_buffers": [1]} if with_attr else {}

    @T.prim_func(private=True)
    def func(
        A: T.Buffer((4, 4), "int32"), B: T.Buffer((4, 4), "int32"), C: T.Buffer((4, 4), "int32")
    ):
        T.func_attr(free)
        B_ = T.alloc_buffer((4, 2, 2), "int32")
        for i, j in T.grid(4, 4):
            with T.block("rewrite"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                B_[vj, vi // 2, vi % 2] = B[vi, vj]
        for i, j in T.grid(4, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + B_[vj, vi // 2, vi % 2] + (B[vi, vj] if twice else 0)

    return func


def test_weights_come_rewritten():
    @T.prim_func(private=True)
    def expected(
        A: T.Buffer((4, 4), "int32"), B: T.Buffer((4, 2, 2), "int32"), C: T.Buffer((4, 4), "int32")
    ):
        T.func_attr({"layout_free_buffers": [1]})
        for i, j in T.grid(4, 4):
            with T.block("rewrite"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads()
                T.writes()
                T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                T.evaluate(0)
        for i, j in T.grid(4, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + B[vj, vi // 2, vi % 2] + 0

    mod = IRModule.from_expr(weight())
    assert_structural_equal(transform.RemoveWeightLayoutRewriteBlock()(mod)["main"], expected)


def test_other_parameters_are_not_rewritten():
    for func, why in (
        (weight(with_attr=False), "rewrites B, which is no layout-free parameter"),
        (weight(twice=True), "rewrites B, which others read too"),
    ):
        with pytest.raises(PassError) as error:
            transform.RemoveWeightLayoutRewriteBlock()(IRModule.from_expr(func))
        message = f"RemoveWeightLayoutRewriteBlock: block rewrite {why}"
        assert error.value.message == message


class TestSplitAndJoined(CompareBeforeAfter):
    transform = transform.RenormalizeSplitPattern()

    def before(A: T.Buffer((16, 8), "int32"), n: T.int32):
        for i in range(16):
            for j in range(8):
                if n + 0 == 3:
                    A[(i * 8 + j) // 8, (i * 8 + j) % 8] = (i * 16 + j) // 8

    def expected(A: T.Buffer((16, 8), "int32"), n: T.int32):
        for i in range(16):
            for j in range(8):
                if n + 0 == 3:
                    A[i, j] = i * 2


class TestMemoryOfADevice(CompareBeforeAfter):
    transform = transform.LowerTVMBuiltin()

    def before(n: T.int32):
        T.func_attr({"target": T.target("llvm")})
        T.attr("default", "device_type", 2)
        T.attr("default", "device_id", n)
        data = T.allocate([16, n], "float32")
        T.call_extern("int32", "use", data)

    def expected(n: T.int32):
        T.func_attr({"target": T.target("llvm")})
        data: T.handle("float32") = T.TVMBackendAllocWorkspace(
            2, n, T.uint64(64) * T.Cast("uint64", n), 2, 32
        )
        T.attr(data, "storage_alignment", 64)
        if T.isnullptr(data):
            T.call_intrin("int32", "tir.tvm_throw_last_error")
        T.call_extern("int32", "use", data)
        if T.TVMBackendFreeWorkspace(2, n, data) != 0:
            T.call_intrin("int32", "tir.tvm_throw_last_error")


def test_memory_of_the_cpu_stays_and_of_nobody_knows_whom_is_refused():
    @T.prim_func(private=True)
    def func():
        data = T.allocate([16], "float32")
        T.call_extern("int32", "use", data)

    mod = IRModule.from_expr(func.with_attr("target", Target("llvm")))
    assert transform.LowerTVMBuiltin()(mod) is mod
    with pytest.raises(PassError) as error:
        transform.LowerTVMBuiltin()(IRModule.from_expr(func.with_attr("tir.is_host_func", True)))
    message = "LowerTVMBuiltin: data is allocated where no device_type is known"
    assert error.value.message == message

    @T.prim_func(private=True)
    def no_number():
        T.func_attr({"target": T.target("llvm")})
        T.attr("default", "device_type", 2)
        data = T.allocate([16], "float32")
        T.call_extern("int32", "use", data)

    with pytest.raises(PassError) as error:
        transform.LowerTVMBuiltin()(IRModule.from_expr(no_number))
    message = "LowerTVMBuiltin: data is allocated where no device_id is known"
    assert error.value.message == message


def cut(**options):
    @T.prim_func(private=True)
    def func(A: T.Buffer((9,), "int32")):
        for i in range(3):
            for j in T.unroll(4):
                if i * 4 + j < 9:
                    A[i * 4 + j] = i

    with PassContext(config={"tir.LoopPartition": options}):
        return transform.LoopPartition()(IRModule.from_expr(func))["main"]


def test_parts_of_one_iteration():
    @T.prim_func(private=True)
    def written_out(A: T.Buffer((9,), "int32")):
        for i in range(2):
            for j in T.unroll(4):
                A[i * 4 + j] = i
        for j in T.unroll(4):
            if 8 + j < 9:
                A[8 + j] = 2

    @T.prim_func(private=True)
    def a_loop(A: T.Buffer((9,), "int32")):
        for i in range(2):
            for j in T.unroll(4):
                A[i * 4 + j] = i
        for i in range(2, 3):
            for j in T.unroll(4):
                if i * 4 + j < 9:
                    A[i * 4 + j] = i

    assert_structural_equal(cut(), written_out)
    assert_structural_equal(cut(no_unroll_loop_with_extent_one=True), a_loop)


def test_a_hint_without_a_cut():
    @T.prim_func(private=True)
    def func(A: T.Buffer((9,), "int32")):
        for i in T.serial(3, annotations={"pragma_loop_partition_hint": True}):
            A[i] = i

    def kind(**options):
        with PassContext(config={"tir.LoopPartition": options}):
            after = transform.LoopPartition()(IRModule.from_expr(func))["main"]
        return after.body.kind, dict(after.body.annotations)

    assert kind() == (tir.ForKind.SERIAL, {})
    asked = kind(unroll_loop_with_partition_hint_no_interval=True)
    assert asked == (tir.ForKind.UNROLLED, {})


def test_who_runs_the_pass_gets_checks():
    @T.prim_func(private=True)
    def func(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), n: T.int32):
        for i in range(4):
            B[i] = A[i] + A[n]

    after = transform.InstrumentBoundCheckers()(IRModule.from_expr(func))["main"]
    check = 'A[T.call_intrin("int32", "tir.check_index", n, 4, "A[n] is read, dimension 0")]'
    assert f"B[i] = A[i] + {check}" in after.script()
    data = np.arange(4, dtype="int32"), np.zeros(4, "int32")
    run_prim_func(after, [*data, 3])
    np.testing.assert_array_equal(data[1], data[0] + 3)
    with pytest.raises(ExecutionError):
        run_prim_func(after, [*data, 4])

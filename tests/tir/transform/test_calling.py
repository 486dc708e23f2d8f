"""How functions are called from outside, and how the host calls those of a device."""

from __future__ import annotations

import pytest

import mlcnb as tvm
from mlcnb.core.errors import PassError, UnsupportedError
from mlcnb.script import ir as I
from mlcnb.script import tir as T
from mlcnb.tir import transform


def same(after, expected):
    tvm.ir.assert_structural_equal(after, expected)
    assert tvm.script.from_source(after.script()).script() == after.script()


def test_a_call_of_a_device_function_is_a_launch():
    @I.ir_module
    class Before:
        @T.prim_func
        def main(A: T.Buffer((64,), "float32"), n: T.int32):
            T.func_attr({"target": T.target("llvm")})
            Before.double(A.data, n)

        @T.prim_func(private=True)
        def double(data: T.handle("float32"), m: T.int32):
            T.func_attr({"target": T.target("cuda")})
            A = T.decl_buffer((64,), "float32", data=data)
            bx = T.launch_thread("blockIdx.x", m // 8)
            tx = T.launch_thread("threadIdx.x", 8)
            A[bx * 8 + tx] = A[bx * 8 + tx] * T.float32(2)

    @I.ir_module
    class Expected:
        @T.prim_func
        def main(A: T.Buffer((64,), "float32"), n: T.int32):
            T.func_attr({"target": T.target("llvm")})
            T.call_packed("double", A.data, n, n // 8, 8)

        @T.prim_func
        def double(data: T.handle("float32"), m: T.int32):
            T.func_attr(
                {
                    "target": T.target("cuda"),
                    "global_symbol": "double",
                    "tir.is_global_func": True,
                    "calling_conv": 2,
                    "tir.kernel_launch_params": ["blockIdx.x", "threadIdx.x"],
                }
            )
            A = T.decl_buffer((64,), "float32", data=data)
            bx = T.launch_thread("blockIdx.x", m // 8)
            tx = T.launch_thread("threadIdx.x", 8)
            A[bx * 8 + tx] = A[bx * 8 + tx] * T.float32(2)

    after = transform.LowerDeviceKernelLaunch()(Before)
    same(after, Expected)
    assert transform.LowerDeviceKernelLaunch()(after) is after


def test_another_generator_for_the_same_device_is_called_from_outside():
    @I.ir_module
    class Before:
        @T.prim_func
        def main(A: T.Buffer((1,), "float32")):
            T.func_attr({"target": T.target("llvm")})
            Before.other(A.data)

        @T.prim_func
        def other(data: T.handle("float32")):
            T.func_attr({"target": T.target("interp"), "global_symbol": "by_another_name"})
            T.evaluate(data)

    @I.ir_module
    class Expected:
        @T.prim_func
        def main(A: T.Buffer((1,), "float32")):
            T.func_attr({"target": T.target("llvm")})
            T.call_extern("void", "by_another_name", A.data)

        @T.prim_func
        def other(data: T.handle("float32")):
            T.func_attr(
                {
                    "target": T.target("interp"),
                    "global_symbol": "by_another_name",
                    "tir.is_global_func": True,
                }
            )
            T.evaluate(data)

    same(transform.LowerDeviceKernelLaunch()(Before), Expected)


def test_threads_that_only_the_kernel_can_count_are_refused():
    @I.ir_module
    class Before:
        @T.prim_func
        def main(A: T.Buffer((64,), "int32")):
            T.func_attr({"target": T.target("llvm")})
            Before.fill(A.data)

        @T.prim_func(private=True)
        def fill(data: T.handle("int32")):
            T.func_attr({"target": T.target("cuda")})
            A = T.decl_buffer((64,), "int32", data=data)
            bx = T.launch_thread("blockIdx.x", A[0])
            A[bx] = 1

    with pytest.raises(PassError) as error:
        transform.LowerDeviceKernelLaunch()(Before)
    assert error.value.message == (
        "LowerDeviceKernelLaunch: fill runs on A[0] of blockIdx.x: A is not known where it is "
        "launched"
    )


def test_unpacked():
    @I.ir_module
    class Before:
        @T.prim_func
        def main(A: T.Buffer((4,), "float32"), n: T.int32):
            T.func_attr({"target": T.target("cuda", host="llvm")})
            A[n] = 1.0
            Before.inside(A.data)
            Before.outside(
                T.tvm_stack_make_array(
                    A.data,
                    T.tvm_stack_make_shape(4),
                    T.reinterpret("handle", T.uint64(0)),
                    T.uint32(1),
                    T.Cast("float32", 0),
                    0,
                )
            )

        @T.prim_func
        def outside(A: T.Buffer((4,), "float32")):
            T.func_attr({"target": T.target("llvm")})
            T.evaluate(A.data)

        @T.prim_func(private=True)
        def inside(data: T.handle("float32")):
            T.func_attr({"target": T.target("llvm")})
            T.evaluate(data)

    @I.ir_module
    class Expected:
        @T.prim_func
        def main(data: T.handle("float32"), n: T.int32) -> T.int32:
            T.func_attr({"target": T.target("llvm")})
            T.attr("default", "device_id", 0)
            T.attr("default", "device_type", 2)
            A = T.decl_buffer((4,), "float32", data=data)
            A[n] = 1.0
            Expected.inside(A.data)
            Expected.outside(A.data)
            T.ret(T.int32(0))

        @T.prim_func
        def outside(data: T.handle("float32")) -> T.int32:
            T.func_attr({"target": T.target("llvm")})
            T.attr("default", "device_id", 0)
            T.attr("default", "device_type", 1)
            T.evaluate(data)
            T.ret(T.int32(0))

        @T.prim_func(private=True)
        def inside(data: T.handle("float32")):
            T.func_attr({"target": T.target("llvm")})
            T.evaluate(data)

    same(transform.MakeUnpackedAPI()(Before), Expected)


@pytest.mark.parametrize("pass_", [transform.MakeUnpackedAPI(), transform.MakePackedAPI()])
def test_a_function_without_a_target_is_refused(pass_):
    @I.ir_module
    class Before:
        @T.prim_func
        def main(n: T.int32):
            T.evaluate(n)

    with pytest.raises(PassError) as error:
        pass_(Before)
    assert error.value.message == (
        f"{pass_.name} required the function to be annotated with tvm::attr::kTarget: main has no "
        "attribute 'target'"
    )
    assert error.value.hint == "run BindTarget first"


def test_packed_numbers():
    @I.ir_module
    class Before:
        @T.prim_func
        def main(n: T.int32, x: T.float32, flag: T.bool) -> T.int32:
            T.func_attr({"target": T.target("cuda", host="llvm")})
            if flag:
                return n
            else:
                return T.Cast("int32", x)

    @I.ir_module
    class Expected:
        @T.prim_func
        def main(
            self_handle: T.handle, args: T.handle, num_args: T.int32, result: T.handle("void")
        ) -> T.int32:
            T.func_attr({"target": T.target("llvm"), "calling_conv": 1})
            assert num_args == 3, "main: num_args should be 3"
            assert not T.isnullptr(args), "main: args pointer is NULL"
            a: T.int32 = T.tvm_struct_get(args, 0, 13, "int32")
            assert a == 1 or a == 2, "main: Expect arg[0] to be int"
            b: T.int32 = T.tvm_struct_get(args, 1, 13, "int32")
            assert b == 3 or b == 1 or b == 2, "main: Expect arg[1] to be float"
            c: T.int32 = T.tvm_struct_get(args, 2, 13, "int32")
            assert c == 2 or c == 1, "main: Expect arg[2] to be boolean"
            n: T.int32 = T.Cast("int32", T.tvm_struct_get(args, 0, 15, "int64"))
            x: T.float32 = T.Select(
                b == 3,
                T.Cast("float32", T.tvm_struct_get(args, 1, 15, "float64")),
                T.Cast("float32", T.tvm_struct_get(args, 1, 15, "int64")),
            )
            flag: T.bool = T.Cast("bool", T.tvm_struct_get(args, 2, 15, "int64"))
            with T.attr(0, "compute_scope", "main_compute_"):
                if flag:
                    T.tvm_struct_set(result, 0, 13, 1)
                    T.tvm_struct_set(result, 0, 14, 0)
                    T.tvm_struct_set(result, 0, 15, T.Cast("int64", n))
                    return 0
                else:
                    T.tvm_struct_set(result, 0, 13, 1)
                    T.tvm_struct_set(result, 0, 14, 0)
                    T.tvm_struct_set(result, 0, 15, T.Cast("int64", T.Cast("int32", x)))
                    return 0
            return 0

    after = transform.MakePackedAPI()(Before)
    same(after, Expected)
    assert transform.MakePackedAPI()(after) is after


def test_packed_functions_call_each_other_by_symbol():
    @I.ir_module
    class Before:
        @T.prim_func
        def main(n: T.int32):
            T.func_attr({"target": T.target("llvm")})
            Before.outside(n)
            Before.inside(n)

        @T.prim_func
        def outside():
            T.func_attr({"target": T.target("llvm"), "global_symbol": "there"})
            T.evaluate(0)

        @T.prim_func(private=True)
        def inside(n: T.int32):
            T.evaluate(n)

    after = transform.MakePackedAPI()(Before)
    assert after["inside"] is Before["inside"]
    text = after["main"].script()
    assert 'T.call_intrin("void", "tir.tvm_call_cpacked", "there", n)' in text
    assert "inside" in text

    @T.prim_func
    def expected(
        self_handle: T.handle, args: T.handle, num_args: T.int32, result: T.handle("void")
    ) -> T.int32:
        T.func_attr({"target": T.target("llvm"), "calling_conv": 1, "global_symbol": "there"})
        assert num_args == 0, "there: num_args should be 0"
        with T.attr(0, "compute_scope", "there_compute_"):
            T.evaluate(0)
        return 0

    tvm.ir.assert_structural_equal(after["outside"], expected)


def test_packed_tensors():
    @I.ir_module
    class Before:
        @T.prim_func
        def main(a: T.handle, b: T.handle):
            T.func_attr({"target": T.target("llvm")})
            n = T.int32()
            A = T.match_buffer(a, (n, 8), "float32")
            B = T.match_buffer(b, (n,), "float16")
            for i in range(n):
                B[i] = T.Cast("float16", A[i, 0])

    after = transform.MakePackedAPI()(Before)["main"]
    lines = [line.strip() for line in after.script().splitlines()]
    start = lines.index(
        'assert not T.isnullptr(b), "main.b is expected to have non-NULL DLTensor* pointer"'
    )
    assert lines[start + 1 : -4] == [
        'assert T.tvm_struct_get(b, 0, 4, "int32") == 1, "main.b.ndim is expected to equal 1"',
        'assert T.tvm_struct_get(b, 0, 5, "uint8") == T.uint8(2) and '
        'T.tvm_struct_get(b, 0, 6, "uint8") == T.uint8(16) and '
        'T.tvm_struct_get(b, 0, 7, "uint16") == T.uint16(1), '
        '"main.b.dtype is expected to be float16"',
        'b_shape_data: T.handle("int64", "global") = T.tvm_struct_get(b, 0, 2, "handle")',
        'b_shape = T.decl_buffer((1,), "int64", data=b_shape_data)',
        'assert T.Cast("int32", b_shape[0]) == n, "main.b.shape[0] is expected to equal n"',
        'b_strides_data: T.handle("int64", "global") = T.tvm_struct_get(b, 0, 3, "handle")',
        'b_strides = T.decl_buffer((1,), "int64", data=b_strides_data)',
        "assert T.if_then_else(T.isnullptr(b_strides_data), T.bool(True), "
        'n == 1 or T.Cast("int32", b_strides[0]) == 1), '
        '"main.b.strides is expected to be compact array"',
        'assert T.tvm_struct_get(b, 0, 8, "uint64") == T.uint64(0), '
        '"main.b.byte_offset is expected to equal 0"',
        'assert T.tvm_struct_get(b, 0, 10, "int32") == dev_type, '
        '"main.b.device_type is expected to equal dev_type"',
        'assert T.tvm_struct_get(b, 0, 9, "int32") == dev_id, '
        '"main.b.device_id is expected to equal dev_id"',
        'B: T.handle("float16", "global") = T.tvm_struct_get(b, 0, 1, "handle")',
        'assert n == 0 or not T.isnullptr(B), "main.b is expected to have non-NULL data pointer"',
        'assert dev_type == 1, "main: device_type is expected to equal 1"',
        'T.attr("default", "device_id", dev_id)',
        'T.attr("default", "device_type", dev_type)',
        "A_1 = T.decl_buffer((n, 8), data=A)",
        'B_1 = T.decl_buffer((n,), "float16", data=B)',
    ]
    assert tvm.script.from_source(after.script()).script() == after.script()


def test_a_dimension_that_no_tensor_gives_is_refused():
    @I.ir_module
    class Before:
        @T.prim_func
        def main(a: T.handle, b: T.handle):
            T.func_attr({"target": T.target("llvm")})
            n = T.int32()
            A = T.match_buffer(a, (n * 2,), "float32")
            B = T.match_buffer(b, (n,), "float32")
            A[0] = 0.0

    with pytest.raises(UnsupportedError) as error:
        transform.MakePackedAPI()(Before)
    assert error.value.message == ("MakePackedAPI: main.a.shape[0] is n * 2: n is not known there")


def test_contexts_are_asked_for_once():
    def context(kind, number):
        asked = tvm.tir.call_extern("handle", "device_context", kind, number)
        return tvm.tir.call_intrin("handle", "tir.tvm_thread_context", asked)

    @T.prim_func
    def before(kind: T.int32, n: T.int32):
        T.func_attr({"target": T.target("llvm")})
        A = T.allocate([n], "float32", "global")
        for _i in range(n):
            T.call_extern("int32", "f", context(kind, 0), A)
            for j in range(n):
                T.call_extern("int32", "f", context(kind, 1), A)
                T.call_extern("int32", "f", context(kind, 0), A)
                T.call_extern("int32", "f", context(kind, j), A)

    @T.prim_func
    def expected(kind: T.int32, n: T.int32):
        T.func_attr({"target": T.target("llvm")})
        c: T.handle = T.call_extern("handle", "device_context", kind, 0)
        d: T.handle = T.call_extern("handle", "device_context", kind, 1)
        A = T.allocate([n], "float32", "global")
        for _i in range(n):
            T.call_extern("int32", "f", c, A)
            for j in range(n):
                T.call_extern("int32", "f", d, A)
                T.call_extern("int32", "f", c, A)
                T.call_extern("int32", "f", context(kind, j), A)

    def apply(func):
        return transform.CombineContextCall()(tvm.IRModule.from_expr(func))["main"]

    named = before.with_attr("global_symbol", "main")
    same = expected.with_attr("global_symbol", "main")
    tvm.ir.assert_structural_equal(apply(named), same)
    device = named.without_attr("target")
    assert apply(device) is device

"""Virtual threads that are attributes around flat memory."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import PassError
from mlcnb.script import tir as T
from mlcnb.tir.transform import InjectVirtualThread


def injected(func):
    return InjectVirtualThread()(tvm.IRModule.from_expr(func))["main"]


def test_memory_stays_flat():
    @T.prim_func(private=True)
    def before(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        vt = T.launch_thread("vthread", 2)
        data = T.allocate([4], "int32", scope="local")
        B = T.decl_buffer([4], "int32", data=data, scope="local")
        for i in range(4):
            B[i] = A[vt * 4 + i] + vt
        for i in range(4):
            C[vt * 4 + i] = B[3 - i]

    @T.prim_func(private=True)
    def expected(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        data = T.allocate([8], "int32", scope="local")
        B = T.decl_buffer([8], "int32", data=data, scope="local")
        for i in range(4):
            for vt in T.unroll(2):
                B[vt * 4 + i] = A[vt * 4 + i] + vt
        for i in range(4):
            for vt in T.unroll(2):
                C[vt * 4 + i] = B[vt * 4 + (3 - i)]

    after = injected(before)
    tvm.ir.assert_structural_equal(after, expected)
    a, c = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    run_prim_func(after, [a, c])
    np.testing.assert_array_equal(c, [3, 2, 1, 0, 8, 7, 6, 5])


def test_vectors_pointers_and_two_axes():
    @T.prim_func(private=True)
    def before():
        x = T.launch_thread("vthread", 2)
        y = T.launch_thread("vthread", 3)
        a = T.allocate([4], "int32", scope="shared")
        b = T.allocate([4], "int32", scope="shared")
        A = T.decl_buffer([4], "int32", data=a, scope="shared")
        B = T.decl_buffer([4], "int32", data=b, scope="shared")
        A[0:4] = T.broadcast(x, 4)
        T.call_extern("int32", "f", A.access_ptr("r"), B.access_ptr("rw"), y)

    @T.prim_func(private=True)
    def expected():
        a = T.allocate([8], "int32", scope="shared")
        b = T.allocate([24], "int32", scope="shared")
        A = T.decl_buffer([8], "int32", data=a, scope="shared")
        B = T.decl_buffer([24], "int32", data=b, scope="shared")
        for x in T.unroll(2):
            A[x * 4 : x * 4 + 4] = T.broadcast(x, 4)
        for y in T.unroll(3):
            for x in T.unroll(2):
                T.call_extern(
                    "int32",
                    "f",
                    T.tvm_access_ptr(T.type_annotation("int32"), A.data, x * 4, 4, 1),
                    T.tvm_access_ptr(T.type_annotation("int32"), B.data, x * 12 + y * 4, 4, 3),
                    y,
                )

    tvm.ir.assert_structural_equal(injected(before), expected)


def test_a_bare_pointer_is_refused():
    @T.prim_func(private=True)
    def before():
        x = T.launch_thread("vthread", 2)
        a = T.allocate([4], "int32", scope="shared")
        T.call_extern("int32", "f", a, x)

    with pytest.raises(PassError) as error:
        injected(before)
    assert error.value.message == (
        "InjectVirtualThread: virtual thread x passes a pointer to memory of its own"
    )

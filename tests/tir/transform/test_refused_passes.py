"""Passes whose work is done elsewhere: what asks for them is refused, all else goes through."""

from __future__ import annotations

import pytest

import mlcnb as tvm
from mlcnb.core.errors import UnsupportedError
from mlcnb.script import tir as T
from mlcnb.tir import transform

HEAD = '@T.prim_func(private=True)\ndef main(A: T.Buffer((64,), "float32")):\n'
CASES = {
    "LowerWarpMemory": (
        '    W = T.allocate([32], "float32", "warp")\n    T.evaluate(W)',
        "LowerWarpMemory: memory of scope warp is not turned into shuffles",
    ),
    "InferFragment": (
        "    T.tvm_fill_fragment(A.data, 16, 16, 16, 0, T.float32(0))",
        "InferFragment: fragments are not marked",
    ),
    "TransformMmaBufferLayout": (
        '    with T.block("x"):\n'
        '        B = T.alloc_buffer((16, 8), scope="m16n8k8.matrixA")\n'
        "        B[0, 0] = A[0]",
        "TransformMmaBufferLayout: there are no scopes m16n8k8.matrix",
    ),
    "InjectPermutedLayout": (
        '    with T.block("x"):\n        T.block_attr({"permuted_layout": "g2s_A"})\n'
        "        A[0] = A[1]",
        "InjectPermutedLayout: the annotation permuted_layout is not read",
    ),
    "ManifestSharedMemoryLocalStage": (
        '    with T.block("x"):\n'
        '        T.block_attr({"tir.manifest_shared_memory_local_stage": 1})\n'
        "        A[0] = A[1]",
        "ManifestSharedMemoryLocalStage: no stage in registers is made of the annotation",
    ),
    "InjectRollingBuffer": (
        '    with T.attr(0, "rolling_buffer_scope", True):\n        A[0] = A[1]',
        "InjectRollingBuffer: the attribute rolling_buffer_scope is not read",
    ),
    "LowerDeviceStorageAccessInfo": (
        '    V = T.allocate([32], "float32", "global.vtcm")\n    T.evaluate(V)',
        "LowerDeviceStorageAccessInfo: memory of a scope of its own is not described by anybody",
    ),
    "LiftThreadBinding": (
        '    for i in T.thread_binding(8, thread="threadIdx.x"):\n        A[i] = A[i + 8]\n'
        '    for j in T.thread_binding(8, thread="threadIdx.x"):\n        A[j] = A[j + 16]',
        "LiftThreadBinding: an axis is bound by several loops",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_asks_is_refused(name):
    body, message = CASES[name]
    pass_ = getattr(transform, name)()
    asking = tvm.IRModule.from_expr(tvm.script.from_source(HEAD + body))
    with pytest.raises(UnsupportedError) as error:
        pass_(asking)
    assert error.value.message == message
    assert error.value.hint
    plain = tvm.IRModule.from_expr(tvm.script.from_source(HEAD + "    A[0] = A[1]"))
    assert pass_(plain) is plain


@pytest.mark.parametrize("scope, static, refused", [
    ("shared.dyn", False, True), ("shared", False, False), ("shared", True, True)
])  # fmt: skip
def test_several_allocations_of_shared_memory(scope, static, refused):
    @T.prim_func(private=True)
    def func(A: T.Buffer((64,), "float32")):
        B = T.allocate([64], "float32", scope)
        C = T.allocate([64], "float32", scope)
        T.call_extern("int32", "f", A.data, B, C)

    mod = tvm.IRModule.from_expr(func)
    with tvm.transform.PassContext(config={"tir.merge_static_smem": static}):
        if not refused:
            assert transform.MergeSharedMemoryAllocations()(mod) is mod
            return
        with pytest.raises(UnsupportedError) as error:
            transform.MergeSharedMemoryAllocations()(mod)
    message = "MergeSharedMemoryAllocations: allocations of shared memory are not merged"
    assert error.value.message == message


@pytest.mark.parametrize("name", ["ExtractPrimFuncConstants", "PointerValueTypeRewrite"])
def test_what_is_never_needed_changes_nothing(name):
    @T.prim_func(private=True)
    def func(A: T.Buffer((16,), "float32")):
        B = T.decl_buffer((16,), "float32", scope="local")
        for i in range(4):
            B[i * 4 : i * 4 + 4] = A[i * 4 : i * 4 + 4]
        A[0] = B[3]

    mod = tvm.IRModule.from_expr(func)
    assert getattr(transform, name)()(mod) is mod

"""Lowering passes leave memory as it is where a pointer to it leaves the program."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import PassError
from mlcnb.ir import IRModule
from mlcnb.script import from_source
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.stmt import Allocate, Block
from mlcnb.tir.transform import (
    CompactBufferAllocation,
    ConvertBlocksToOpaque,
    InjectDoubleBuffer,
    InjectVirtualThread,
    PlanAndUpdateBufferAllocationLocation,
    StorageRewrite,
)

POINTERS = ["T.address_of(B[0, 0])", "B.data", 'B.access_ptr("r")']


def lowered(text: str, *passes):
    mod = IRModule({"main": from_source(text)})
    for each in passes:
        mod = each(mod)
    return mod["main"]


def allocated(func, name: str = "B"):
    """The buffer of that name, and the block that it lives in."""
    return next(
        (b, block)
        for block in statements(func.body)
        if isinstance(block, Block)
        for b in block.alloc_buffers
        if b.name == name
    )


USED_IN_PART = """
@T.prim_func
def main(A: T.Buffer((16, 64), "float32"), C: T.Buffer((16, 64), "float32")):
    for i in range(16):
        with T.block("o"):
            vi = T.axis.spatial(16, i)
            B = T.alloc_buffer((16, 64))
            for j in range(8):
                with T.block("B"):
                    T.block_attr({"buffer_dim_align": [[0, 0, 32, 8]]})
                    vj = T.axis.spatial(8, j)
                    B[0, vj] = A[vi, vj]
            CALL
"""
CALL = """with T.block("call"):
                T.evaluate(T.call_extern("int32", "g", POINTER, C.data))"""


@pytest.mark.parametrize("pointer", POINTERS)
def test_memory_that_is_handed_out_is_not_cut_and_not_padded(pointer):
    text = USED_IN_PART.replace("CALL", CALL.replace("POINTER", pointer))
    buffer, _ = allocated(lowered(text, ConvertBlocksToOpaque(), CompactBufferAllocation()))
    assert [int(n) for n in buffer.shape] == [16, 64] and not buffer.strides


def test_other_memory_is():
    text = USED_IN_PART.replace("CALL", "pass")
    buffer, _ = allocated(lowered(text, ConvertBlocksToOpaque(), CompactBufferAllocation()))
    assert [int(n) for n in buffer.shape] == [1, 8]
    assert [int(n) for n in buffer.strides] == [8, 1]


@pytest.mark.parametrize("pointer", POINTERS)
def test_memory_that_is_handed_out_keeps_its_values_from_one_iteration_to_the_next(pointer):
    """What is behind the pointer may read what an earlier iteration wrote."""
    text = """
@T.prim_func
def main(A: T.Buffer((16, 64), "float32"), C: T.Buffer((16, 64), "float32")):
    B = T.alloc_buffer((16, 64))
    for i in range(16):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[0, vj] = A[vi, vj]
        CALL
""".replace("CALL", CALL.replace("POINTER", pointer).replace(" " * 16, " " * 12))
    _, block = allocated(lowered(text, PlanAndUpdateBufferAllocationLocation()))
    assert block.name_hint == "root"


VIRTUAL = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    for i in T.thread_binding(4, "vthread.x"):
        B = T.allocate([8], "float32", "local")
        B_1 = T.decl_buffer((8,), data=B, scope="local")
        for j in range(8):
            B_1[j] = A[i, j]
        T.evaluate(T.call_extern("int32", "g", POINTER, T.address_of(C[i, 0])))
"""


@pytest.mark.parametrize("pointer", ["B", 'B_1.access_ptr("r")'])
def test_virtual_threads_hand_out_no_memory_of_their_own(pointer):
    with pytest.raises(PassError) as error:
        lowered(VIRTUAL.replace("POINTER", pointer), InjectVirtualThread())
    assert error.value.message == (
        "InjectVirtualThread: virtual thread i passes a pointer to memory of its own"
    )


def test_the_address_of_an_element_moves_with_it():
    func = lowered(VIRTUAL.replace("POINTER", "T.address_of(B_1[0])"), InjectVirtualThread())
    assert "T.address_of(B_1[i, 0])" in func.script()


@pytest.mark.parametrize("pointer", POINTERS[1:])
def test_two_versions_of_a_buffer_have_no_one_pointer(pointer):
    text = """
@T.prim_func
def main(A: T.Buffer((16, 8), "float32"), C: T.Buffer((16, 8), "float32")):
    for i in T.serial(16):
        with T.block(""):
            T.reads(A[i, 0:8])
            T.writes(C[i, 0:8])
            B = T.alloc_buffer((1, 8))
            with T.block("fill"):
                T.block_attr({"double_buffer_scope": 0})
                T.reads(A[i, 0:8])
                T.writes(B[0, 0:8])
                for j in range(8):
                    B[0, j] = A[i, j]
            with T.block("call"):
                T.reads(B[0, 0:8])
                T.writes(C[i, 0:8])
                T.evaluate(T.call_extern("int32", "g", POINTER, T.address_of(C[i, 0])))
""".replace("POINTER", pointer)
    with pytest.raises(PassError, match="needs 2 versions of B, which is used by its pointer"):
        lowered(text, InjectDoubleBuffer())


@pytest.mark.parametrize("pointer", ["T.address_of(B[0])", "B.data", 'B.access_ptr("r")'])
def test_memory_is_not_used_again_while_somebody_points_to_it(pointer):
    """B lives until the last statement that hands it out."""
    text = """
@T.prim_func
def main(A: T.Buffer((1024,), "float32"), D: T.Buffer((1024,), "float32")):
    B_data = T.allocate([1024], "float32", "global")
    B = T.decl_buffer((1024,), data=B_data)
    C_data = T.allocate([1024], "float32", "global")
    C = T.decl_buffer((1024,), data=C_data)
    for i in range(1024):
        B[i] = A[i]
    for i in range(1024):
        C[i] = A[i] + T.float32(1)
    T.evaluate(T.call_extern("int32", "g", POINTER))
    for i in range(1024):
        D[i] = C[i]
""".replace("POINTER", pointer)
    func = lowered(text, StorageRewrite())
    assert sum(isinstance(n, Allocate) for n in statements(func.body)) == 2

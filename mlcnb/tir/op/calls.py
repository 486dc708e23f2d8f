"""Calls of what is not arithmetic: functions outside, memory, threads and copies of a GPU."""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import Call, PrimExpr, StringImm, Var
from mlcnb.tir.buffer import Buffer, BufferLoad


def call_intrin(dtype: str, name: str, *args: Any) -> Call:
    """A call of the intrinsic `name` ("tir.exp") that gives `dtype`."""
    return Call(kind_of(dtype), name, tuple(map(_argument, args)))


def _argument(value: Any) -> PrimExpr:
    """An argument of a call: of a buffer, the pointer to its elements."""
    return value.data if isinstance(value, Buffer) else p.as_expr(value)


def kind_of(spelling: str) -> DType:
    """The dtype of that name; for functions whose argument is called `dtype`."""
    return dtype(str(spelling))


def ret(value: Any) -> PrimExpr:
    """End the function with `value` as its result."""
    value = p.as_expr(value)
    return Call(value.dtype, "tir.ret", (value,))


# functions outside


def call_extern(dtype: str, func_name: str, *args: Any) -> Call:
    """Call the C function `func_name`, which may have effects."""
    return call_intrin(dtype, "tir.call_extern", StringImm(func_name), *args)


def call_pure_extern(dtype: str, func_name: str, *args: Any) -> Call:
    """Call the C function `func_name`, which has no effects."""
    return call_intrin(dtype, "tir.call_pure_extern", StringImm(func_name), *args)


def call_packed(func_name: str, *args: Any) -> Call:
    """Call the function registered as `func_name` (`mlcnb.register_func`)."""
    return call_intrin("int32", "tir.tvm_call_packed", StringImm(func_name), *args)


def call_cpacked(func_name: str, *args: Any) -> Call:
    """Call a packed function of the same module by its symbol."""
    return call_intrin("int32", "tir.tvm_call_cpacked", StringImm(func_name), *args)


def call_llvm_intrin(dtype: str, name: str, *args: Any) -> Call:
    """Call an LLVM intrinsic ("llvm.prefetch") that has effects."""
    return call_intrin(dtype, "tir.call_llvm_intrin", StringImm(name), *args)


def call_llvm_pure_intrin(dtype: str, name: str, *args: Any) -> Call:
    """Call an LLVM intrinsic ("llvm.fma.f32") that has no effects."""
    return call_intrin(dtype, "tir.call_llvm_pure_intrin", StringImm(name), *args)


# memory


def address_of(obj: Any) -> Call:
    """The address of an element (`A[i]`) or of a buffer's first element.

    Raises:
        MLCError: it is neither.
    """
    if not isinstance(obj, BufferLoad | Buffer):
        raise MLCError(
            f"address_of: {obj!r} lies nowhere", hint="give an element A[i], or a buffer A"
        )
    if not isinstance(obj, BufferLoad):
        obj = BufferLoad(obj, tuple(p.const(0, extent.dtype) for extent in obj.shape))
    return Call(dtype("handle"), "tir.address_of", (obj,))


def type_annotation(dtype: str) -> Call:
    """A dtype as an argument: the zero of that dtype, never evaluated."""
    return Call(kind_of(dtype), "tir.type_annotation", ())


def tvm_access_ptr(ptype: Any, data: Var, offset: Any, extent: Any, rw_mask: int) -> Call:
    """A pointer to `extent` elements from `data + offset`; rw_mask: 1 read, 2 written, 3 both."""
    kind = ptype if isinstance(ptype, PrimExpr) else type_annotation(ptype)
    return call_intrin("handle", "tir.tvm_access_ptr", kind, data, offset, extent, rw_mask)


def tvm_storage_sync(scope: str) -> Call:
    """Barrier: all threads of the block wait, and see what was written to `scope`."""
    return call_intrin("int32", "tir.tvm_storage_sync", StringImm(scope))


def atomic_add(address: Any, value: Any) -> Call:
    """An element goes up by a number, and no other thread comes in between.

    Args:
        address: `T.address_of(B[i])`.
        value: the number, of the element's dtype.

    Returns:
        The call; its value is what the element was before.
    """
    term = p.as_expr(value)
    return Call(term.dtype, "tir.atomic_add", (address, term))


def ptx_commit_group() -> Call:
    """The asynchronous copies that a thread has issued since the last group are one group."""
    return Call(dtype("void"), "tir.ptx_commit_group", ())


def ptx_wait_group(num: int) -> Call:
    """A thread waits until all but its last `num` groups of asynchronous copies have arrived."""
    return Call(dtype("void"), "tir.ptx_wait_group", (p.const(num),))


def ptx_cp_async(
    dtype: str,
    shared_ptr: Any,
    shared_offset: Any,
    global_ptr: Any,
    global_offset: Any,
    bytes: Any,
    predicate: Any = None,
) -> Call:
    """Copy 4, 8 or 16 bytes from global to shared memory while the thread goes on (`cp.async`).

    Args:
        dtype: of the elements, in which the offsets count.
        shared_ptr, shared_offset: where to.
        global_ptr, global_offset: where from.
        bytes: how many.
        predicate: where it does not hold zeros are written, and nothing is read.
    """
    args = [shared_ptr, shared_offset, global_ptr, global_offset, bytes]
    more = [] if predicate is None else [predicate]
    return call_intrin(dtype, "tir.ptx_cp_async", *args, *more)


def create_barriers(barrier_count: int) -> Call:
    """So many barriers in shared memory, which are then known by their numbers (`mbarrier`)."""
    return Call(dtype("void"), "tir.create_barriers", (p.const(barrier_count),))


def ptx_init_barrier_thread_count(barrier_id: Any, thread_count: int) -> Call:
    """One thread says how many threads arrive in each phase of a barrier, before any does."""
    return call_intrin("void", "tir.ptx_init_barrier_thread_count", barrier_id, thread_count)


def ptx_arrive_barrier(barrier_id: Any) -> Call:
    """A thread arrives at a barrier, and goes on."""
    return call_intrin("void", "tir.ptx_arrive_barrier", barrier_id)


def ptx_arrive_barrier_expect_tx(barrier_id: Any, byte_count: int) -> Call:
    """The same; so many bytes of copies in bulk will come too before the phase ends."""
    return call_intrin("void", "tir.ptx_arrive_barrier_expect_tx", barrier_id, byte_count)


def ptx_wait_barrier(barrier_id: Any, parity: Any = 0) -> Call:
    """A thread waits until the phase of a barrier of this parity has ended (phases count from 0).

    It goes on where the phase that runs has the other parity.
    """
    return call_intrin("void", "tir.ptx_wait_barrier", barrier_id, parity)


def ptx_cp_async_bulk(
    dtype: str,
    shared_ptr: Any,
    shared_offset: Any,
    global_ptr: Any,
    global_offset: Any,
    bytes: int,
    barrier_id: Any,
) -> Call:
    """One thread starts a copy from global to shared memory, which ends with a barrier's phase.

    Args:
        dtype: of the elements, in which the offsets count.
        shared_ptr, shared_offset: where to.
        global_ptr, global_offset: where from; both at multiples of 16 bytes.
        bytes: how many, a multiple of 16.
        barrier_id: the barrier in whose phase the bytes have been announced.
    """
    places = (shared_ptr, shared_offset, global_ptr, global_offset)
    return call_intrin(dtype, "tir.ptx_cp_async_bulk", *places, bytes, barrier_id)


def ptx_cp_async_bulk_tensor(
    dtype: str,
    shared_ptr: Any,
    shared_offset: Any,
    global_ptr: Any,
    height: int,
    width: int,
    row: Any,
    column: Any,
    box_rows: int,
    box_columns: int,
    swizzle: int,
    barrier_id: Any,
) -> Call:
    """The same of a box of a matrix; what lies outside of the matrix comes as zeros (TMA).

    Args:
        dtype: of the elements.
        shared_ptr, shared_offset: where the box begins, at a multiple of 128 bytes, or of eight
            rows where they are shuffled.
        global_ptr: where the matrix begins; height, width: its sizes, its rows side by side.
        row, column: where in the matrix the box begins.
        box_rows, box_columns: up to 256 each.
        swizzle: bytes of the box's rows, which are shuffled: 128, 64 or 32; 0: they are not.
        barrier_id: the barrier in whose phase the box's bytes have been announced.
    """
    matrix = (global_ptr, height, width, row, column, box_rows, box_columns, swizzle)
    name = "tir.ptx_cp_async_bulk_tensor"
    return call_intrin(dtype, name, shared_ptr, shared_offset, *matrix, barrier_id)


def ptx_ldmatrix(
    dtype: str,
    trans: Any,
    num: Any,
    type: str,
    local_ptr: Any,
    local_offset: Any,
    smem_ptr: Any,
    smem_offset: Any,
) -> Call:
    """Load `num` matrices of 8 x 8 halves from shared memory into the registers of a warp.

    Args:
        dtype: of the elements, in which the offsets count.
        trans: the matrices are turned on the way.
        num: 1, 2 or 4.
        type: ".b16".
        local_ptr, local_offset: where the thread's own 2 * num elements go.
        smem_ptr, smem_offset: where a row of 8 begins: thread t gives row t % 8 of matrix t // 8.
    """
    args = [local_ptr, local_offset, smem_ptr, smem_offset]
    return call_intrin(dtype, "tir.ptx_ldmatrix", trans, num, type, *args)


def ptx_wgmma(
    dtype: str,
    shape: str,
    a_major: str,
    b_major: str,
    count: int,
    sums_ptr: Any,
    sums_offset: Any,
    a_ptr: Any,
    a_offset: Any,
    a_leading: int,
    a_stride: int,
    a_step: int,
    b_ptr: Any,
    b_offset: Any,
    b_leading: int,
    b_stride: int,
    b_step: int,
    swizzle: int = 128,
) -> Call:
    """A warpgroup adds products of tiles in shared memory to its sums, and waits for them.

    Args:
        dtype: of the operands, in which their offsets count: float16 or bfloat16.
        shape: "m64n128k16": n is a multiple of 8 up to 256.
        a_major: "k" where elements of a row of A lie side by side, "m" where those of a column do.
        b_major: "k" where elements of a column of B lie side by side, "n" where those of a row do.
        count: products that follow each other along k.
        sums_ptr, sums_offset: where the thread's own n / 2 sums, float32, begin.
        a_ptr, a_offset: where A begins, at a multiple of 1024 bytes.
        a_leading, a_stride: distances in bytes of its descriptor.
        a_step: bytes from one product to the next.
        b_ptr, b_offset, b_leading, b_stride, b_step: the same of B.
        swizzle: bytes of a row of the tiles: 128, 64 or 32.
    """
    args = (shape, a_major, b_major, count, sums_ptr, sums_offset)
    a = (a_ptr, a_offset, a_leading, a_stride, a_step)
    b = (b_ptr, b_offset, b_leading, b_stride, b_step)
    return call_intrin(dtype, "tir.ptx_wgmma", *args, *a, *b, swizzle)


def tvm_thread_allreduce(*args: Any) -> Call:
    """Combine values across threads; arguments as in TVM."""
    return call_intrin("handle", "tir.tvm_thread_allreduce", *args)

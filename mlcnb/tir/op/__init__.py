"""Intrinsics and helpers: `exp(x)` is `Call(x.dtype, "tir.exp", (x,))`.

    mathematics   exp log sqrt tanh sigmoid erf pow fmod …      integers are cast to float32 first
    rounding      floor ceil round trunc abs                    integers stay as they are
    predicates    isnan isinf isfinite likely all any
    bits          popcount clz reinterpret
    reductions    sum max min prod, comm_reducer                `max(a, b)` of two scalars is a Max
    calls         call_extern call_packed call_intrin call_llvm_pure_intrin …
    memory        address_of tvm_access_ptr tvm_storage_sync

Names and meaning follow TVM's `tvm.tir.op`, with one exception: `round` rounds halves to even.
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

_HERE = "mlcnb.tir.op"

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        f"{_HERE}.mathematics": (
            "const div indexdiv indexmod exp exp2 exp10 log log2 log10 log1p expm1 sqrt rsqrt "
            "tanh sigmoid erf sin cos tan asin acos atan sinh cosh asinh acosh atanh floor ceil "
            "trunc round nearbyint abs fabs atan2 fmod copysign hypot nextafter power pow ldexp "
            "isnan isinf isfinite popcount clz vscale likely reinterpret"
        ),
        f"{_HERE}.calls": (
            "call_intrin ret call_extern call_pure_extern call_packed call_cpacked "
            "call_llvm_intrin call_llvm_pure_intrin address_of type_annotation tvm_access_ptr "
            "tvm_storage_sync atomic_add ptx_commit_group ptx_wait_group ptx_cp_async "
            "ptx_ldmatrix ptx_wgmma tvm_thread_allreduce create_barriers ptx_wait_barrier "
            "ptx_init_barrier_thread_count ptx_arrive_barrier ptx_arrive_barrier_expect_tx "
            "ptx_cp_async_bulk ptx_cp_async_bulk_tensor"
        ),
        f"{_HERE}.reductions": ("comm_reducer sum prod max min all any"),
        "mlcnb.ir.prim_ops": (
            "bitwise_and bitwise_not bitwise_or bitwise_xor ceildiv floordiv floormod "
            "if_then_else infinity max_value min_value shift_left shift_right truncdiv truncmod"
        ),
    },
)

"""Intrinsic calls that are written `T.exp(x)`: those whose result dtype follows from the arguments.

Any other call is written `T.call_intrin("float32", "tir.name", …)`, which says its dtype itself.
Printer and parser share these tables, so what one leaves out the other knows.
"""

from __future__ import annotations

from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import PrimExpr
from mlcnb.script.operators import BITS
from mlcnb.tir.stmt import IterType

#: the result has the dtype of the first argument
_LIKE_FIRST = frozenset(
    "exp exp2 exp10 expm1 log log2 log10 log1p sqrt rsqrt tanh sigmoid erf sin cos tan asin acos "
    "atan sinh cosh asinh acosh atanh floor ceil round trunc nearbyint fabs pow fmod atan2 hypot "
    "copysign nextafter ldexp popcount likely fma q_multiply_shift tvm_thread_invariant".split()
)
#: the result has the dtype of the second argument
_LIKE_SECOND = frozenset(
    "if_then_else tvm_warp_shuffle tvm_warp_shuffle_up tvm_warp_shuffle_down".split()
)
#: the result is bool with the lanes of the first argument
_BOOL = frozenset("isnan isinf isfinite".split())
#: fixed result dtypes
_FIXED = {
    name: kind
    for kind, names in {
        "int32": (
            "tvm_storage_sync tvm_call_packed tvm_call_cpacked clz undef vscale "
            "TVMBackendFreeWorkspace tvm_struct_set tvm_call_packed_lowered "
            "tvm_call_cpacked_lowered prefetch"
        ),
        "handle": (
            "tvm_thread_allreduce tvm_load_matrix_sync tvm_mma_sync tvm_store_matrix_sync "
            "tvm_fill_fragment tvm_access_ptr address_of tvm_stack_alloca tvm_tuple "
            "tvm_stack_make_shape tvm_stack_make_array handle_add_byte_offset "
            "TVMBackendAllocWorkspace tvm_context_id tvm_throw_last_error lookup_param "
            "break_loop continue_loop"
        ),
        "uint32": "tvm_warp_activemask",
        "bool": "assume isnullptr",
        "uint64": "large_uint_imm",
        "void": (
            "ptx_commit_group ptx_wait_group ptx_cp_async_barrier "
            "ptx_init_barrier_thread_count ptx_arrive_barrier ptx_arrive_barrier_expect_tx "
            "ptx_wait_barrier create_barriers"
        ),
    }.items()
    for name in names.split()
}
#: the result dtype is the first thing in the parentheses
TYPED = frozenset(
    "call_extern call_pure_extern call_llvm_intrin call_llvm_pure_intrin reinterpret "
    "type_annotation vectorlow vectorhigh vectorcombine get_active_lane_mask tvm_struct_get "
    "ptx_mma ptx_mma_sp ptx_wgmma "
    "ptx_ldmatrix ptx_cp_async ptx_cp_async_bulk ptx_cp_async_bulk_tensor "
    "mma_store mma_fill tvm_mfma tvm_mfma_store "
    "tvm_rdna_wmma tvm_rdna_wmma_store".split()
)
#: of those, the result dtype is the last thing in the parentheses
TYPED_LAST = frozenset({"tvm_struct_get"})
#: what an axis that stands alone does
ITER_TYPES = {
    "DataPar": IterType.SPATIAL,
    "CommReduce": IterType.REDUCE,
    "Ordered": IterType.SCAN,
    "Opaque": IterType.OPAQUE,
    "DimInfo": IterType.OPAQUE,
    "ThreadIndex": IterType.THREAD,
}
#: other words for an intrinsic
SYNONYMS = {
    "power": "pow",
    "call_packed": "tvm_call_packed",
    "call_cpacked": "tvm_call_cpacked",
    "call_packed_lowered": "tvm_call_packed_lowered",
    "call_cpacked_lowered": "tvm_call_cpacked_lowered",
}
#: intrinsics that are written by another name than their own
WRITTEN = {"tvm_call_packed": "call_packed", "tvm_call_cpacked": "call_cpacked"}


def names() -> frozenset[str]:
    """Everything that may stand after `T.` as an intrinsic."""
    known = {*_LIKE_FIRST, *_LIKE_SECOND, *_BOOL, *_FIXED, *TYPED, *SYNONYMS, *BITS}
    return frozenset({*known, "bitwise_not"})


def result_dtype(name: str, args: tuple[PrimExpr, ...]) -> DType | None:
    """The dtype of `T.name(args)`, or None where it does not follow from the arguments."""
    if name in _FIXED:
        return dtype(_FIXED[name])
    if name in _LIKE_SECOND and len(args) > 1:
        return args[1].dtype
    if not args:
        return None
    if name in _LIKE_FIRST or name in BITS or name == "bitwise_not":
        return args[0].dtype
    if name in _BOOL:
        return dtype("bool").with_lanes(args[0].dtype.lanes)
    return None

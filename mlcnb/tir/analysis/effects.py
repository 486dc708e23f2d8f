"""Which calls only give a value, and which do something besides."""

from __future__ import annotations

from mlcnb.core.node import Node, walk
from mlcnb.ir.expr import Call

#: calls that work on each lane of a vector alone
LANEWISE = frozenset(
    "tir." + name
    for name in (
        "exp exp2 exp10 log log2 log10 log1p expm1 sqrt rsqrt tanh sigmoid erf sin cos tan asin "
        "acos atan atan2 sinh cosh asinh acosh atanh floor ceil round nearbyint trunc fabs abs pow "
        "power fmod copysign isnan isinf isfinite bitwise_and bitwise_or bitwise_xor bitwise_not "
        "shift_left shift_right popcount clz fma likely"
    ).split()
)
#: calls that give a value and do nothing else
PURE = LANEWISE | frozenset(
    "tir." + name
    for name in (
        "if_then_else reinterpret hypot nextafter ldexp call_pure_extern call_llvm_pure_intrin "
        "type_annotation tvm_access_ptr address_of"
    ).split()
)
#: calls that do the same however often they are made with the same arguments
REPEATABLE = PURE | frozenset(
    "tir." + name
    for name in (
        "check_index prefetch vscale get_active_lane_mask call_llvm_intrin tvm_storage_sync "
        "tvm_warp_activemask tvm_warp_shuffle tvm_warp_shuffle_up tvm_warp_shuffle_down assume "
        "undef"
    ).split()
)

#: instructions that get pointers: of each such argument its number, and is it read, written
POINTERS: dict[str, tuple[tuple[int, bool, bool], ...]] = {
    "tir.ptx_mma": ((6, True, False), (8, True, False), (10, True, True)),
    "tir.ptx_wgmma": ((4, True, True), (6, True, False), (11, True, False)),
    "tir.ptx_ldmatrix": ((3, False, True), (5, True, False)),
    "tir.ptx_cp_async": ((0, False, True), (2, True, False)),
    "tir.ptx_cp_async_bulk": ((0, False, True), (2, True, False)),
    "tir.ptx_cp_async_bulk_tensor": ((0, False, True), (2, True, False)),
}


def has_effect(n: Node) -> bool:
    """True if a node calls what may do more than give a value: store, print, wait, stop."""
    return any(isinstance(x, Call) and x.op not in PURE for x in walk(n))

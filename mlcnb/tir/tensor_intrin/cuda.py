"""CUDA's `nvcuda::wmma`: D = A @ B + C of 16 x 16 x 16 tiles, in fragments that a warp holds.

    wmma_load_16x16x16_f16_a_shared     T.tvm_load_matrix_sync     shared memory into a fragment
    wmma_sync_16x16x16_f16f16f32        T.tvm_mma_sync             C[i, j] += A[i, k] * B[k, j]
    wmma_sync_…_trans                                              C[i, j] += A[i, k] * B[j, k]
    wmma_fill_16x16x16_f32              T.tvm_fill_fragment        C[i, j] = 0
    wmma_store_16x16x16_f32_global      T.tvm_store_matrix_sync    a fragment into memory

Buffers have the scopes wmma.matrix_a, wmma.matrix_b and wmma.accumulator; where an element lies in
a fragment only the hardware knows, so a fragment is addressed by its number. Schedules, traces and
text know these calls; no backend here compiles them (`mma_sync` has the instruction that one does).

The names are those of `tvm.tir.tensor_intrin.cuda`, with a group of them by dtypes and the layouts
of the fragments of `mma_sync`. Those of `ldmatrix` and of products of 16 x 16 are here too
(`ldmatrix` describes them); of sums in halves they are names that `tensorize` refuses.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.prim_ops import const
from mlcnb.script import tir as T
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.tensor_intrin import undescribed
from mlcnb.tir.tensor_intrin.descriptions import register
from mlcnb.tir.tensor_intrin.mma_sync import layout_a as shared_16x16_to_ldmatrix_32x8_layout
from mlcnb.tir.tensor_intrin.mma_sync import place_a as ldmatrix_32x8_to_shared_16x16_layout

SIDE = 16
#: dtype -> how the names of the intrinsics say it
SHORT = {"float16": "f16", "float32": "f32", "int8": "s8", "int32": "s32"}
SHARED = ("shared", "shared.dyn")


def fragment_index(offset: PrimExpr, stride: PrimExpr) -> PrimExpr:
    """The number of the fragment that begins at an offset, in a buffer with rows of `stride`."""
    row, column = offset // stride // SIDE, offset % stride // SIDE
    return row * (stride // SIDE) + column


def _tile(handle: Any, dtype: str, scope: str, *strides: Any) -> Any:
    """`A = T.match_buffer(…)` of one tile: of a fragment, or of memory."""
    return T.match_buffer(
        handle, (SIDE, SIDE), dtype, align=64, offset_factor=SIDE, scope=scope, strides=strides
    )


def _copies(source: str, target: str, dtype: str) -> PrimFunc:
    """What loads and stores compute: a tile of one scope is that of another."""

    @T.prim_func
    def desc(a: T.handle, c: T.handle):
        A = _tile(a, dtype, source)
        C = _tile(c, dtype, target)
        with T.block("root"):
            for i, j in T.grid(SIDE, SIDE):
                with T.block("copy"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj]

    return desc


def load(dtype: str, matrix: str, transposed: bool, scope: str) -> tuple[PrimFunc, PrimFunc]:
    """A tile of shared memory into a fragment of matrix "a" or "b"."""
    target, order = f"wmma.matrix_{matrix}", "col_major" if transposed else "row_major"

    @T.prim_func
    def impl(a: T.handle, c: T.handle):
        s1, s0, d1, d0 = T.int32(), T.int32(), T.int32(), T.int32()
        A = _tile(a, dtype, scope, s1, s0)
        C = _tile(c, dtype, target, d1, d0)
        with T.block("root"):
            T.reads(A[0:SIDE, 0:SIDE])
            T.writes(C[0:SIDE, 0:SIDE])
            at = T.meta_var(fragment_index(C.elem_offset, d1))
            pointer = T.meta_var(A.access_ptr("r"))
            T.evaluate(T.tvm_load_matrix_sync(C.data, SIDE, SIDE, SIDE, at, pointer, s1, order))

    return _copies(scope, target, dtype), impl


def store(dtype: str, scope: str) -> tuple[PrimFunc, PrimFunc]:
    """A fragment of sums into a tile of memory."""
    source = "wmma.accumulator"

    @T.prim_func
    def impl(a: T.handle, c: T.handle):
        s1, s0, d1, d0 = T.int32(), T.int32(), T.int32(), T.int32()
        A = _tile(a, dtype, source, d1, d0)
        C = _tile(c, dtype, scope, s1, s0)
        with T.block("root"):
            T.reads(A[0:SIDE, 0:SIDE])
            T.writes(C[0:SIDE, 0:SIDE])
            at = T.meta_var(fragment_index(A.elem_offset, d1))
            pointer = T.meta_var(C.access_ptr("w"))
            T.evaluate(
                T.tvm_store_matrix_sync(A.data, SIDE, SIDE, SIDE, at, pointer, s1, "row_major")
            )

    return _copies(source, scope, dtype), impl


def fill(dtype: str) -> tuple[PrimFunc, PrimFunc]:
    """All sums of a fragment are zero."""
    scope, zero = "wmma.accumulator", const(0, dtype)

    @T.prim_func
    def desc(c: T.handle):
        C = _tile(c, dtype, scope)
        with T.block("root"):
            for i, j in T.grid(SIDE, SIDE):
                with T.block("fill"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = zero

    @T.prim_func
    def impl(c: T.handle):
        d1, d0 = T.int32(), T.int32()
        C = _tile(c, dtype, scope, d1, d0)
        with T.block("root"):
            T.reads()
            T.writes(C[0:SIDE, 0:SIDE])
            at = T.meta_var(fragment_index(C.elem_offset, d1))
            T.evaluate(T.tvm_fill_fragment(C.data, SIDE, SIDE, SIDE, at, T.float32(0)))

    return desc, impl


def sync(given: str, result: str, transposed: bool) -> tuple[PrimFunc, PrimFunc]:
    """The product of two fragments of dtype `given`, added to one of `result`."""
    left, right, sums = "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"

    def wide(x: Any) -> PrimExpr:
        return x if given == result else T.Cast(result, x)

    def place(k: Any, j: Any) -> tuple[Any, Any]:
        return (j, k) if transposed else (k, j)

    @T.prim_func
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = _tile(a, given, left)
        B = _tile(b, given, right)
        C = _tile(c, result, sums)
        with T.block("root"):
            for i, j, k in T.grid(SIDE, SIDE, SIDE):
                with T.block("product"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    row, column = T.meta_var(place(vk, vj))
                    C[vi, vj] = C[vi, vj] + wide(A[vi, vk]) * wide(B[row, column])

    @T.prim_func
    def impl(a: T.handle, b: T.handle, c: T.handle):
        a1, a0, b1, b0 = T.int32(), T.int32(), T.int32(), T.int32()
        c1, c0 = T.int32(), T.int32()
        A = _tile(a, given, left, a1, a0)
        B = _tile(b, given, right, b1, b0)
        C = _tile(c, result, sums, c1, c0)
        with T.block("root"):
            T.reads(C[0:SIDE, 0:SIDE], A[0:SIDE, 0:SIDE], B[0:SIDE, 0:SIDE])
            T.writes(C[0:SIDE, 0:SIDE])
            at_a = T.meta_var(fragment_index(A.elem_offset, a1))
            at_b = T.meta_var(fragment_index(B.elem_offset, b1))
            at_c = T.meta_var(fragment_index(C.elem_offset, c1))
            T.evaluate(T.tvm_mma_sync(C.data, at_c, A.data, at_a, B.data, at_b, C.data, at_c))

    return desc, impl


def _end(transposed: bool) -> str:
    return "_trans" if transposed else ""


def name_of_load(dtype: str, matrix: str, transposed: bool, scope: str) -> str:
    """wmma_load_16x16x16_f16_b_trans_shared_dyn"""
    end = scope.replace(".", "_")
    return f"wmma_load_16x16x16_{SHORT[dtype]}_{matrix}{_end(transposed)}_{end}"


def name_of_store(dtype: str, scope: str) -> str:
    """wmma_store_16x16x16_f32_global"""
    return f"wmma_store_16x16x16_{SHORT[dtype]}_{scope.replace('.', '_')}"


def name_of_sync(given: str, result: str, transposed: bool) -> str:
    """wmma_sync_16x16x16_f16f16f32_trans"""
    kind = f"{SHORT[given]}{SHORT[given]}{SHORT[result]}"
    return f"wmma_sync_16x16x16_{kind}{_end(transposed)}"


def name_of_fill(dtype: str) -> str:
    """wmma_fill_16x16x16_f32"""
    return f"wmma_fill_16x16x16_{SHORT[dtype]}"


def _named(name: str, desc: PrimFunc, impl: PrimFunc) -> None:
    """Register an intrinsic, and keep its name as TVM's constant: WMMA_FILL_16x16x16_F32_INTRIN."""
    register(name, desc, impl)
    verb, size, kind, *rest = name.removeprefix("wmma_").split("_")
    if verb == "load":
        rest.remove("shared")
    kind = kind if verb == "sync" else kind.upper()
    words = ("WMMA", verb.upper(), size, kind, *map(str.upper, rest), "INTRIN")
    globals()["_".join(words)] = name


for _dtype, _matrix, _trans, _scope in product(("float16", "int8"), "ab", (False, True), SHARED):
    _named(name_of_load(_dtype, _matrix, _trans, _scope), *load(_dtype, _matrix, _trans, _scope))
for _dtype in ("float32", "float16", "int32"):
    _named(name_of_fill(_dtype), *fill(_dtype))
    for _scope in ("global", *SHARED):
        _named(name_of_store(_dtype, _scope), *store(_dtype, _scope))
for _given, _result in (("float16", "float32"), ("float16", "float16"), ("int8", "int32")):
    for _trans in (False, True):
        _named(name_of_sync(_given, _result, _trans), *sync(_given, _result, _trans))


LDMATRIX_f16_A_INTRIN = "mma_ldmatrix_f16_a"
LDMATRIX_f16_A_DYN_INTRIN = "mma_ldmatrix_f16_a_dyn"
LDMATRIX_f16_A_TRANS_INTRIN = "mma_ldmatrix_f16_a_trans"
LDMATRIX_f16_A_TRANS_DYN_INTRIN = "mma_ldmatrix_f16_a_trans_dyn"
LDMATRIX_f16_B_INTRIN = "mma_ldmatrix_f16_b"
LDMATRIX_f16_B_DYN_INTRIN = "mma_ldmatrix_f16_b_dyn"
LDMATRIX_f16_B_TRANS_INTRIN = "mma_ldmatrix_f16_b_trans"
LDMATRIX_f16_B_TRANS_DYN_INTRIN = "mma_ldmatrix_f16_b_trans_dyn"
MMA_f16f16f32_INTRIN = "mma_f16f16f32"
LDMATRIX_i8_A_INTRIN = "mma_ldmatrix_i8_a"
LDMATRIX_i8_B_TRANS_INTRIN = "mma_ldmatrix_i8_b_trans"
MMA_i8i8i32_INTRIN = "mma_i8i8i32"
MMA_fill_16x16_i32_INTRIN = "mma_fill_16x16_i32"
MMA_store_16x16_i32_global_INTRIN = "mma_store_16x16_i32_global_"
MMA_fill_16x16_f32_INTRIN = "mma_fill_16x16_f32"
MMA_store_16x16_f32_global_INTRIN = "mma_store_16x16_f32_global_"
MMA_store_16x16_f32_shared_dyn_INTRIN = "mma_store_16x16_f32_shared_dyn_"

__all__ = [
    "get_wmma_intrin_group",
    "ldmatrix_32x8_to_shared_16x16_layout",
    "shared_16x16_to_ldmatrix_32x8_layout",
    *(name for name in dir() if name.startswith(("WMMA_", "LDMATRIX_", "MMA_"))),
]


def get_wmma_intrin_group(
    load_scope: str, store_scope: str, in_dtype: str, out_dtype: str, trans_b: bool
) -> dict[str, str]:
    """The names of the intrinsics that make one product: init, load_a, load_b, compute, store.

    Args:
        load_scope: "shared" or "shared.dyn", where A and B are.
        store_scope: "global", "shared" or "shared.dyn", where the product goes.
        in_dtype: "float16" or "int8".
        out_dtype: "float32" or "float16"; "int32" with int8.
        trans_b: B is stored as (n, k).

    Raises:
        MLCError: there is no such product.
    """
    kinds = {("float16", "float32"), ("float16", "float16"), ("int8", "int32")}
    scopes = load_scope in SHARED and store_scope in ("global", *SHARED)
    if (in_dtype, out_dtype) not in kinds or not scopes:
        raise MLCError(
            f"no wmma product of {in_dtype} in {load_scope} to {out_dtype} in {store_scope}",
            hint="float16 to float32 or float16, int8 to int32; from shared or shared.dyn, also "
            "to global",
        )
    return {
        "init": name_of_fill(out_dtype),
        "load_a": name_of_load(in_dtype, "a", False, load_scope),
        "load_b": name_of_load(in_dtype, "b", trans_b, load_scope),
        "compute": name_of_sync(in_dtype, out_dtype, trans_b),
        "store": name_of_store(out_dtype, store_scope),
    }


def __getattr__(name: str) -> str:
    return undescribed.constant(undescribed.CUDA, __name__, name)

"""CUDA tensor cores by tiles of 16 x 16 x 16, loaded from shared memory by `ldmatrix`.

    mma_ldmatrix_f16_a, …_b            a tile of A (i, k), of B (k, j), in a fragment
    mma_ldmatrix_f16_a_trans, …        a tile of A that lies as (k, i), of B that lies as (j, k)
    mma_f16f16f32                      C += A @ B, two `mma.sync` of 16 x 8 x 16
    mma_fill_16x16_f32                 C = 0
    mma_store_16x16_f32_global_        C in memory

With `_dyn` behind it a load is from memory of scope shared.dyn; bf16 stands for f16 too. A fragment
is a buffer of scope "warp", (32, 8): 8 registers of each thread, two by two in 32 bits,

    A    layout_a   [group + 8 * (l // 2 % 2), 2 * pair + l % 2 + 8 * (l // 4)]   t = 4 group + pair
    B    layout_b   [2 * pair + l % 2 + 8 * (l // 2 % 2), group + 8 * (l // 4)]
    C    layout_c   as A

`ldmatrix.x4` reads four matrices of 8 x 8, of which thread t names row t % 8 of matrix t // 8, and
gives thread t two neighbours of row t // 4 of each; `.trans` of column t // 4. Rows begin at
multiples of 16 bytes. Where the 8 rows of a matrix begin in different banks (rows of 8 elements
more than a multiple of 64), no two collide. Source: PTX ISA, "ldmatrix", "mma.m16n8k16".

The names are TVM's (`tvm.tir.tensor_intrin.cuda`); there B's fragment is indexed as it lies in
memory, here by what the registers hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.script import tir as T
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.tensor_intrin.descriptions import register
from mlcnb.tir.tensor_intrin.mma_sync import (
    SHORT,
    SIDE,
    WARP,
    fill,
    layout_a,
    mma,
    place_a,
    product_of,
    store,
    tile_loaded,
)

#: registers of a thread
OWN = 8


def layout_b(k: Any, j: Any) -> tuple[Any, Any]:
    """Where element (k, j) of a 16 x 16 tile of B lies: (thread, place in the thread)."""
    return 4 * (j % 8) + k % 8 // 2, 4 * (j // 8) + 2 * (k // 8) + k % 2


#: where element (i, j) of a 16 x 16 tile of C lies
layout_c = layout_a


#: row and column of what thread t has at place n of a fragment of C
place_c = place_a


#: (matrix, does it lie turned) -> its layout, is it turned on the way, the row that thread t names
_LOADS: dict[tuple[str, bool], tuple[Any, bool, Callable[[Any], tuple[Any, Any]]]] = {
    ("a", False): (layout_a, False, lambda t: (t % 16, 8 * (t // 16))),
    ("a", True): (lambda k, i: layout_a(i, k), True,
                  lambda t: (t % 8 + 8 * (t // 16), 8 * (t // 8 % 2))),
    ("b", False): (layout_b, True, lambda t: (t % 16, 8 * (t // 16))),
    ("b", True): (lambda j, k: layout_b(k, j), False,
                  lambda t: (t % 8 + 8 * (t // 16), 8 * (t // 8 % 2))),
}  # fmt: skip


def layout_of(matrix: str, turned: bool) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Where the element of a tile of "a" or "b" lies, by its two indices in memory."""
    return _LOADS[matrix, turned][0]


def row_named(matrix: str, turned: bool, t: Any) -> tuple[bool, Any, Any]:
    """What `ldmatrix` does for a tile of "a" or "b": does it turn it, and where the row begins that
    thread t names: (line, column).
    """
    _, trans, row_of = _LOADS[matrix, turned]
    return trans, *row_of(t)


def load(dtype: str, matrix: str, turned: bool, scope: str) -> tuple[PrimFunc, PrimFunc]:
    """A tile of shared memory into a fragment."""
    layout, trans, row_of = _LOADS[matrix, turned]

    @T.prim_func
    def impl(memory: T.handle, fragment: T.handle):
        apart, step, at_m, at_f = T.int32(), T.int32(), T.int32(), T.int32()
        M = T.match_buffer(
            memory, (SIDE, SIDE), dtype, scope=scope, strides=[apart, step], elem_offset=at_m
        )
        F = T.match_buffer(fragment, (WARP, OWN), dtype, scope="warp", elem_offset=at_f)
        with T.block("root"):
            T.reads(M[0:SIDE, 0:SIDE])
            T.writes(F[0:WARP, 0:OWN])
            for t in T.thread_binding(WARP, thread="threadIdx.x"):
                row, column = T.meta_var(row_of(t))
                T.evaluate(
                    T.ptx_ldmatrix(
                        dtype,
                        T.bool(trans),
                        4,
                        ".b16",
                        F.data,
                        at_f + t * OWN,
                        M.data,
                        at_m + row * apart + column,
                    )
                )

    return tile_loaded(SIDE, SIDE, dtype, scope, layout), impl


def sync(dtype: str) -> tuple[PrimFunc, PrimFunc]:
    """The product of fragments of `dtype`, with sums in float32: two instructions side by side."""

    @T.prim_func
    def impl(a: T.handle, b: T.handle, c: T.handle):
        at_a, at_b, at_c = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (WARP, OWN), dtype, scope="warp", elem_offset=at_a)
        B = T.match_buffer(b, (WARP, OWN), dtype, scope="warp", elem_offset=at_b)
        C = T.match_buffer(c, (WARP, OWN), "float32", scope="warp", elem_offset=at_c)
        with T.block("root"):
            T.reads(C[0:WARP, 0:OWN], A[0:WARP, 0:OWN], B[0:WARP, 0:OWN])
            T.writes(C[0:WARP, 0:OWN])
            for t in T.thread_binding(WARP, thread="threadIdx.x"):
                for half in T.unroll(2):
                    T.evaluate(
                        mma(
                            dtype,
                            A.data,
                            at_a + t * OWN,
                            B.data,
                            at_b + t * OWN + half * 4,
                            C.data,
                            at_c + t * OWN + half * 4,
                        )
                    )

    return product_of(SIDE, dtype, layout_b, layout_c), impl


def name_of_load(dtype: str, matrix: str, turned: bool, scope: str) -> str:
    """mma_ldmatrix_f16_b_trans_dyn"""
    end = "_trans" * turned + "_dyn" * (scope == "shared.dyn")
    return f"mma_ldmatrix_{SHORT[dtype]}_{matrix}{end}"


register("mma_fill_16x16_f32", *fill(SIDE, layout_c))
for _scope in ("global", "shared", "shared.dyn"):
    register(
        f"mma_store_16x16_f32_{_scope.replace('.', '_')}_", *store(SIDE, _scope, layout_c, place_c)
    )
for _dtype in ("float16", "bfloat16"):
    register(f"mma_{SHORT[_dtype]}{SHORT[_dtype]}f32", *sync(_dtype))
    for _scope in ("shared", "shared.dyn"):
        for _matrix, _turned in _LOADS:
            _name = name_of_load(_dtype, _matrix, _turned, _scope)
            register(_name, *load(_dtype, _matrix, _turned, _scope))

"""CUDA tensor cores by tiles of 16 x 16 x 16, loaded from shared memory by `ldmatrix`.

    mma_ldmatrix_f16_a, …_b            a tile of A (i, k), of B (k, j), in a fragment
    mma_ldmatrix_f16_a_trans, …        a tile of A that lies as (k, i), of B that lies as (j, k)
    mma_f16f16f32                      C += A @ B, two `mma.sync` of 16 x 8 x 16
    mma_fill_16x16_f32                 C = 0
    mma_store_16x16_f32_global_        C in memory
    mma_ldmatrix_i8_a, …_b_trans       tiles of 16 x 32 bytes: of A (i, k), of B that lies as (j, k)
    mma_i8i8i32                        C += A @ B, two `mma.sync` of 16 x 8 x 32; C is int32
    mma_ldmatrix_tf32_a, …_b_trans     tiles of 16 x 8 float32: of A (i, k), of B lying as (j, k)
    mma_load_8x16_tf32_a_trans_shared  … that lie as (k, i) or (k, j), element by element
    mma_tf32tf32f32                    C += A @ B, rounded to tf32, two `mma.sync` of 16 x 8 x 8

With `_dyn` behind it a load is from memory of scope shared.dyn; bf16 stands for f16 too. A fragment
is a buffer of scope "warp", (32, 8): 8 registers of each thread, two by two in 32 bits,

    A    layout_a   [group + 8 * (l // 2 % 2), 2 * pair + l % 2 + 8 * (l // 4)]   t = 4 group + pair
    B    layout_b   [2 * pair + l % 2 + 8 * (l // 2 % 2), group + 8 * (l // 4)]
    C    layout_c   as A

`ldmatrix.x4` reads four matrices of 8 x 8, of which thread t names row t % 8 of matrix t // 8, and
gives thread t two neighbours of row t // 4 of each; `.trans` of column t // 4. Rows begin at
multiples of 16 bytes. Where the 8 rows of a matrix begin in different banks (rows of 8 elements
more than a multiple of 64), no two collide. Of bytes a thread gets four neighbours of a row; what
lies otherwise has to be turned on its way into shared memory, for `.trans` moves pairs of bytes.
Of float32 it gets one; what lies otherwise is loaded as it is, from rows whose banks are 8 apart.
Source: PTX ISA, "ldmatrix", "mma.m16n8k16", "mma.m16n8k32".

The names are TVM's (`tvm.tir.tensor_intrin.cuda`); there B's fragment is indexed as it lies in
memory, here by what the registers hold.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from mlcnb.script import tir as T
from mlcnb.tir.analysis.mma import FORMS, SIDE, WARP
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.tensor_intrin.descriptions import register
from mlcnb.tir.tensor_intrin.mma_sync import SHORT, fill, store, sync, tile_loaded
from mlcnb.tir.tensor_intrin.mma_sync import load as plain_load

#: elements that a thread has of a tile of 16 x 16
OWN = 8

#: where element (i, j) of a 16 x 16 tile of C lies; row and column of what thread t has at place l
layout_c, place_c = FORMS["float16"].layout_a, FORMS["float16"].place_a


def layout_of(matrix: str, turned: bool, dtype: str = "float16") -> Callable[[Any, Any], Any]:
    """Where the element of a tile of "a" or "b" lies, by its two indices in memory."""
    form = FORMS[dtype]
    layout = form.layout_a if matrix == "a" else form.layout_b_16
    return (lambda i, j: layout(j, i)) if turned else layout


def is_turned_on_the_way(matrix: str, turned: bool) -> bool:
    """Does `ldmatrix` turn a tile? One of A that lies as (k, i), one of B that lies as (k, j)."""
    return turned == (matrix == "a")


def row_named(matrix: str, turned: bool, t: Any, dtype: str = "float16") -> tuple[bool, Any, Any]:
    """What `ldmatrix` does for a tile of "a" or "b": does it turn it, and where the row begins that
    thread t names: (line, column).
    """
    line, part = (t % 8 + 8 * (t // 16), t // 8 % 2) if turned else (t % 16, t // 16)
    return is_turned_on_the_way(matrix, turned), line, part * (FORMS[dtype].depth // 2)


def is_loaded_by_rows(dtype: str, matrix: str, turned: bool) -> bool:
    """Does `ldmatrix` load a tile that lies so? What it would turn has elements of two bytes."""
    return FORMS[dtype].nbytes == 2 or not is_turned_on_the_way(matrix, turned)


def load_elements(dtype: str, matrix: str, turned: bool, scope: str) -> tuple[PrimFunc, PrimFunc]:
    """A tile of shared memory that lies as (k, i) or (k, j) into a fragment, element by element."""
    form = FORMS[dtype]

    def place(t: Any, l: Any) -> tuple[Any, Any]:
        return form.place_a(t, l)[::-1] if turned else form.place_b_16(t, l)

    return plain_load(form.depth, SIDE, dtype, scope, layout_of(matrix, turned, dtype), place)


def load(dtype: str, matrix: str, turned: bool, scope: str) -> tuple[PrimFunc, PrimFunc]:
    """A tile of shared memory into a fragment."""
    depth = FORMS[dtype].depth
    along_k = turned == (matrix == "b")
    lines, columns = (SIDE, depth) if along_k else (depth, SIDE)
    own = SIDE * depth // WARP

    @T.prim_func
    def impl(memory: T.handle, fragment: T.handle):
        apart, step, at_m, at_f = T.int32(), T.int32(), T.int32(), T.int32()
        M = T.match_buffer(
            memory, (lines, columns), dtype, scope=scope, strides=[apart, step], elem_offset=at_m
        )
        F = T.match_buffer(fragment, (WARP, own), dtype, scope="warp", elem_offset=at_f)
        with T.block("root"):
            for t in T.thread_binding(WARP, thread="threadIdx.x"):
                trans, row, column = T.meta_var(row_named(matrix, turned, t, dtype))
                T.evaluate(
                    T.ptx_ldmatrix(
                        dtype,
                        T.bool(trans),
                        4,
                        ".b16",
                        F.data,
                        at_f + t * own,
                        M.data,
                        at_m + row * apart + column,
                    )
                )

    return tile_loaded(lines, columns, dtype, scope, layout_of(matrix, turned, dtype)), impl


def name_of_product(dtype: str) -> str:
    """mma_f16f16f32"""
    form = FORMS[dtype]
    return f"mma_{form.given.short}{form.given.short}{form.sums.short}"


def name_of_load(dtype: str, matrix: str, turned: bool, scope: str) -> str:
    """mma_ldmatrix_f16_b_trans_dyn, mma_load_8x16_tf32_b_shared"""
    form, end = FORMS[dtype], "_trans" * turned
    if not is_loaded_by_rows(dtype, matrix, turned):
        tile = f"{form.depth}x{SIDE}_{form.given.short}_{matrix}{end}"
        return f"mma_load_{tile}_{scope.replace('.', '_')}"
    return f"mma_ldmatrix_{form.given.short}_{matrix}{end}" + "_dyn" * (scope == "shared.dyn")


for _sums, _name in SHORT.items():
    register(f"mma_fill_16x16_{_name}", *fill(SIDE, _sums, layout_c))
    for _scope in ("global", "shared", "shared.dyn"):
        register(
            f"mma_store_16x16_{_name}_{_scope.replace('.', '_')}_",
            *store(SIDE, _sums, _scope, layout_c, place_c),
        )
for _dtype, _form in FORMS.items():
    register(name_of_product(_dtype), *sync(_form, SIDE, _form.layout_b_16, layout_c))
    for _scope, _matrix, _turned in product(("shared", "shared.dyn"), "ab", (False, True)):
        _load = load if is_loaded_by_rows(_dtype, _matrix, _turned) else load_elements
        if _load is load or _form.nbytes == 4:
            _name = name_of_load(_dtype, _matrix, _turned, _scope)
            register(_name, *_load(_dtype, _matrix, _turned, _scope))

"""CUDA tensor cores: D = A @ B + C for 16 x 16 x 8 (m, k, n) by the 32 threads of a warp together.

    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32

A fragment lies in registers of all threads: buffers of scope "warp" have one row for each thread.
Thread t = 4 * group + pair holds (layouts of the PTX manual, section on mma.m16n8k16)

    A 16 x 16   warp (32, 8)   [group + 8 * (l // 2 % 2), 2 * pair + l % 2 + 8 * (l // 4)]
    B 16 x 8    warp (32, 4)   [2 * pair + l % 2 + 8 * (l // 2), group]
    C 16 x 8    warp (32, 4)   [group + 8 * (l // 2), 2 * pair + l % 2]

`layout_a`, `layout_b`, `layout_c` are these as index maps, (row, column) -> (thread, l): what
`transform_layout` and `reindex_cache_read` need before the tiles can be tensorized.

Loads, stores and fill are plain loops over threads, which any printer of CUDA C++ can print: the
pairs of a thread lie side by side, so two halves are one 32-bit access. The product is a call,

    T.ptx_mma("m16n8k16", "row", "col", "fp16", "fp16", "fp32",
              A.data, at_a, B.data, at_b, C.data, at_c, False)

in each thread, with pointers to the fragments and the offset of the thread's own registers in
them. What a printer must emit for it, with `a` the thread's 8 values as four 32-bit registers, `b`
its 4 values as two, and `c` its 4 floats (the same for bf16, with .bf16 in the place of .f16):

    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));

A buffer of scope "warp" with shape (32, n) is then `n` registers in each thread, and its row is the
thread's own.
"""

from __future__ import annotations

from typing import Any

from mlcnb.script import tir as T
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.tensor_intrin.descriptions import register

WARP, SIDE = 32, 16
#: dtype -> how names and PTX abbreviate it
SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}
_PTX = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}


def layout_a(i: Any, j: Any) -> tuple[Any, Any]:
    """Where element (i, j) of a 16 x 16 tile of A lies: (thread, place in the thread)."""
    return 4 * (i % 8) + j % 8 // 2, 4 * (j // 8) + 2 * (i // 8) + j % 2


def layout_b(i: Any, j: Any) -> tuple[Any, Any]:
    """Where element (i, j) of a 16 x 8 tile of B lies: (thread, place in the thread)."""
    return 4 * j + i % 8 // 2, 2 * (i // 8) + i % 2


def layout_c(i: Any, j: Any) -> tuple[Any, Any]:
    """Where element (i, j) of a 16 x 8 tile of C lies: (thread, place in the thread)."""
    return 4 * (i % 8) + j // 2, 2 * (i // 8) + j % 2


def place_a(t: Any, n: Any) -> tuple[Any, Any]:
    """Row and column of what thread t has at place n of a fragment of A."""
    return t // 4 + 8 * (n // 2 % 2), t % 4 * 2 + n % 2 + 8 * (n // 4)


def place_b(t: Any, n: Any) -> tuple[Any, Any]:
    """Row and column of what thread t has at place n of a fragment of B."""
    return t % 4 * 2 + n % 2 + 8 * (n // 2), t // 4


def place_c(t: Any, n: Any) -> tuple[Any, Any]:
    """Row and column of what thread t has at place n of a fragment of C."""
    return t // 4 + 8 * (n // 2), t % 4 * 2 + n % 2


def tile_loaded(rows: int, columns: int, dtype: str, scope: str, layout: Any) -> PrimFunc:
    """What a load of a tile of memory into a fragment does, element by element."""
    own = rows * columns // WARP

    @T.prim_func
    def desc(memory: T.handle, fragment: T.handle):
        M = T.match_buffer(memory, (rows, columns), dtype, scope=scope)
        F = T.match_buffer(fragment, (WARP, own), dtype, scope="warp")
        with T.block("root"):
            T.reads(M[0:rows, 0:columns])
            T.writes(F[0:WARP, 0:own])
            for i, j in T.grid(rows, columns):
                with T.block("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    thread, at = T.meta_var(layout(vi, vj))
                    T.reads(M[vi, vj])
                    T.writes(F[thread, at])
                    F[thread, at] = M[vi, vj]

    return desc


def load(
    rows: int, columns: int, dtype: str, scope: str, layout: Any, place: Any
) -> tuple[PrimFunc, PrimFunc]:
    """A tile of memory into a fragment."""
    own = rows * columns // WARP

    @T.prim_func
    def impl(memory: T.handle, fragment: T.handle):
        M = T.match_buffer(memory, (rows, columns), dtype, scope=scope)
        F = T.match_buffer(fragment, (WARP, own), dtype, scope="warp")
        with T.block("root"):
            T.reads(M[0:rows, 0:columns])
            T.writes(F[0:WARP, 0:own])
            for t in T.thread_binding(WARP, thread="threadIdx.x"):
                for n in T.unroll(own):
                    row, column = T.meta_var(place(t, n))
                    F[t, n] = M[row, column]

    return tile_loaded(rows, columns, dtype, scope, layout), impl


def store(columns: int, scope: str, layout: Any, place: Any) -> tuple[PrimFunc, PrimFunc]:
    """A fragment of sums into a tile of 16 x `columns` of memory."""
    own = SIDE * columns // WARP

    @T.prim_func
    def desc(fragment: T.handle, memory: T.handle):
        F = T.match_buffer(fragment, (WARP, own), "float32", scope="warp")
        M = T.match_buffer(memory, (SIDE, columns), "float32", scope=scope)
        with T.block("root"):
            T.reads(F[0:WARP, 0:own])
            T.writes(M[0:SIDE, 0:columns])
            for i, j in T.grid(SIDE, columns):
                with T.block("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    thread, at = T.meta_var(layout(vi, vj))
                    T.reads(F[thread, at])
                    T.writes(M[vi, vj])
                    M[vi, vj] = F[thread, at]

    @T.prim_func
    def impl(fragment: T.handle, memory: T.handle):
        F = T.match_buffer(fragment, (WARP, own), "float32", scope="warp")
        M = T.match_buffer(memory, (SIDE, columns), "float32", scope=scope)
        with T.block("root"):
            T.reads(F[0:WARP, 0:own])
            T.writes(M[0:SIDE, 0:columns])
            for t in T.thread_binding(WARP, thread="threadIdx.x"):
                for n in T.unroll(own):
                    row, column = T.meta_var(place(t, n))
                    M[row, column] = F[t, n]

    return desc, impl


def fill(columns: int, layout: Any) -> tuple[PrimFunc, PrimFunc]:
    """All sums of a tile of 16 x `columns` are zero."""
    own = SIDE * columns // WARP

    @T.prim_func
    def fill_desc(fragment: T.handle):
        F = T.match_buffer(fragment, (WARP, own), "float32", scope="warp")
        with T.block("root"):
            T.reads()
            T.writes(F[0:WARP, 0:own])
            for i, j in T.grid(SIDE, columns):
                with T.block("fill"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    thread, at = T.meta_var(layout(vi, vj))
                    T.reads()
                    T.writes(F[thread, at])
                    F[thread, at] = T.float32(0)

    @T.prim_func
    def fill_impl(fragment: T.handle):
        F = T.match_buffer(fragment, (WARP, own), "float32", scope="warp")
        with T.block("root"):
            T.reads()
            T.writes(F[0:WARP, 0:own])
            for t in T.thread_binding(WARP, thread="threadIdx.x"):
                for n in T.unroll(own):
                    F[t, n] = T.float32(0)

    return fill_desc, fill_impl


def product_of(columns: int, dtype: str, of_b: Any, of_c: Any) -> PrimFunc:
    """What a product of 16 x `columns` x 16 does, element by element; `of_b`: the layout of B."""
    own = SIDE * columns // WARP

    @T.prim_func
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (WARP, 8), dtype, scope="warp")
        B = T.match_buffer(b, (WARP, own), dtype, scope="warp")
        C = T.match_buffer(c, (WARP, own), "float32", scope="warp")
        with T.block("root"):
            T.reads(C[0:WARP, 0:own], A[0:WARP, 0:8], B[0:WARP, 0:own])
            T.writes(C[0:WARP, 0:own])
            for i, j, k in T.grid(SIDE, columns, SIDE):
                with T.block("product"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    t_a, at_a = T.meta_var(layout_a(vi, vk))
                    t_b, at_b = T.meta_var(of_b(vk, vj))
                    t_c, at_c = T.meta_var(of_c(vi, vj))
                    T.reads(C[t_c, at_c], A[t_a, at_a], B[t_b, at_b])
                    T.writes(C[t_c, at_c])
                    C[t_c, at_c] = C[t_c, at_c] + T.Cast("float32", A[t_a, at_a]) * T.Cast(
                        "float32", B[t_b, at_b]
                    )

    return desc


def mma(dtype: str, *fragments: Any) -> Any:
    """One `mma.sync`; fragments: pointer and offset of the thread's own of A, of B, of C."""
    kind = _PTX[dtype]
    form = ("m16n8k16", "row", "col", kind, kind, "fp32")
    return T.call_intrin("float32", "tir.ptx_mma", *form, *fragments, T.bool(False))


def sync(dtype: str) -> tuple[PrimFunc, PrimFunc]:
    """The product, of fragments of `dtype`, with sums in float32."""

    @T.prim_func
    def impl(a: T.handle, b: T.handle, c: T.handle):
        at_a, at_b, at_c = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (WARP, 8), dtype, scope="warp", elem_offset=at_a)
        B = T.match_buffer(b, (WARP, 4), dtype, scope="warp", elem_offset=at_b)
        C = T.match_buffer(c, (WARP, 4), "float32", scope="warp", elem_offset=at_c)
        with T.block("root"):
            T.reads(C[0:WARP, 0:4], A[0:WARP, 0:8], B[0:WARP, 0:4])
            T.writes(C[0:WARP, 0:4])
            for t in T.thread_binding(WARP, thread="threadIdx.x"):
                T.evaluate(
                    mma(dtype, A.data, at_a + t * 8, B.data, at_b + t * 4, C.data, at_c + t * 4)
                )

    return product_of(8, dtype, layout_b, layout_c), impl


register("mma_fill_16x8_f32", *fill(8, layout_c))
for _scope in ("global", "shared"):
    register(f"mma_store_16x8_f32_{_scope}", *store(8, _scope, layout_c, place_c))
for _dtype in ("float16", "bfloat16"):
    _name = SHORT[_dtype]
    register(f"mma_sync_16x8x16_{_name}{_name}f32", *sync(_dtype))
    for _scope in ("global", "shared", "shared.dyn"):
        _end = f"{_name}_{{}}_{_scope.replace('.', '_')}"
        register(
            f"mma_load_16x16_{_end.format('a')}", *load(16, 16, _dtype, _scope, layout_a, place_a)
        )
        register(
            f"mma_load_16x8_{_end.format('b')}", *load(16, 8, _dtype, _scope, layout_b, place_b)
        )

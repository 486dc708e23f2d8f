"""CUDA tensor cores: D = A @ B + C for 16 x 8 x depth (m, n, k), by the threads of a warp.

    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
    mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32

A fragment lies in registers of all threads: buffers of scope "warp" have one row for each thread.
`mlcnb.tir.analysis.mma` has the products that there are, and what each thread holds. Of halves

    A 16 x 16   warp (32, 8)   [group + 8 * (l // 2 % 2), 2 * pair + l % 2 + 8 * (l // 4)]
    B 16 x 8    warp (32, 4)   [2 * pair + l % 2 + 8 * (l // 2), group]
    C 16 x 8    warp (32, 4)   [group + 8 * (l // 2), 2 * pair + l % 2]

`layout_a`, `layout_b`, `layout_c` are these as index maps, (row, column) -> (thread, l): what
`transform_layout` and `reindex_cache_read` need before the tiles can be tensorized. Of bytes, whose
tiles are 16 x 32 and 32 x 8, they are methods of `FORMS["int8"]`, of float32 (16 x 8 and 8 x 8)
those of `FORMS["float32"]`. Products of float32 take their operands rounded to tf32 (`as_tf32`):
what the loops say is computed to three digits only, for who names the instruction.

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

from mlcnb.ir.prim_ops import cast, const
from mlcnb.script import tir as T
from mlcnb.tir.analysis.mma import FORMS, MMA, SIDE, WARP, Form, layout_c, place_c
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.tensor_intrin.descriptions import register

#: dtype of sums -> how names abbreviate it
SHORT = {form.sums.dtype: form.sums.short for form in FORMS.values()}
#: where elements of fragments of halves lie, and what lies there
layout_a, layout_b = FORMS["float16"].layout_a, FORMS["float16"].layout_b
place_a, place_b = FORMS["float16"].place_a, FORMS["float16"].place_b


def tile_loaded(rows: int, columns: int, dtype: str, scope: str, layout: Any) -> PrimFunc:
    """What a load of a tile of memory into a fragment does, element by element."""
    own = rows * columns // WARP

    @T.prim_func
    def desc(memory: T.handle, fragment: T.handle):
        M = T.match_buffer(memory, (rows, columns), dtype, scope=scope)
        F = T.match_buffer(fragment, (WARP, own), dtype, scope="warp")
        with T.block("root"):
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
            for t in T.thread_binding(WARP, thread="threadIdx.x"):
                for n in T.unroll(own):
                    row, column = T.meta_var(place(t, n))
                    F[t, n] = M[row, column]

    return tile_loaded(rows, columns, dtype, scope, layout), impl


def store(
    columns: int, dtype: str, scope: str, layout: Any, place: Any
) -> tuple[PrimFunc, PrimFunc]:
    """A fragment of sums into a tile of 16 x `columns` of memory."""
    own = SIDE * columns // WARP

    @T.prim_func
    def desc(fragment: T.handle, memory: T.handle):
        F = T.match_buffer(fragment, (WARP, own), dtype, scope="warp")
        M = T.match_buffer(memory, (SIDE, columns), dtype, scope=scope)
        with T.block("root"):
            for i, j in T.grid(SIDE, columns):
                with T.block("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    thread, at = T.meta_var(layout(vi, vj))
                    T.reads(F[thread, at])
                    T.writes(M[vi, vj])
                    M[vi, vj] = F[thread, at]

    @T.prim_func
    def impl(fragment: T.handle, memory: T.handle):
        F = T.match_buffer(fragment, (WARP, own), dtype, scope="warp")
        M = T.match_buffer(memory, (SIDE, columns), dtype, scope=scope)
        with T.block("root"):
            for t in T.thread_binding(WARP, thread="threadIdx.x"):
                for n in T.unroll(own):
                    row, column = T.meta_var(place(t, n))
                    M[row, column] = F[t, n]

    return desc, impl


def fill(columns: int, dtype: str, layout: Any) -> tuple[PrimFunc, PrimFunc]:
    """All sums of a tile of 16 x `columns` are zero."""
    own, zero = SIDE * columns // WARP, const(0, dtype)

    @T.prim_func
    def fill_desc(fragment: T.handle):
        F = T.match_buffer(fragment, (WARP, own), dtype, scope="warp")
        with T.block("root"):
            for i, j in T.grid(SIDE, columns):
                with T.block("fill"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    thread, at = T.meta_var(layout(vi, vj))
                    T.reads()
                    T.writes(F[thread, at])
                    F[thread, at] = zero

    @T.prim_func
    def fill_impl(fragment: T.handle):
        F = T.match_buffer(fragment, (WARP, own), dtype, scope="warp")
        with T.block("root"):
            for t in T.thread_binding(WARP, thread="threadIdx.x"):
                for n in T.unroll(own):
                    F[t, n] = zero

    return fill_desc, fill_impl


def product_of(form: Form, columns: int, of_b: Any, of_c: Any) -> PrimFunc:
    """What a product of 16 x `columns` x depth does, element by element; of_b, of_c: layouts."""
    (_, own_a, _), (_, own_b, _), (_, own_c, _) = form.own
    own_b, own_c = own_b * columns // 8, own_c * columns // 8
    depth, dtype, sums = form.depth, form.given.dtype, form.sums.dtype

    @T.prim_func
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (WARP, own_a), dtype, scope="warp")
        B = T.match_buffer(b, (WARP, own_b), dtype, scope="warp")
        C = T.match_buffer(c, (WARP, own_c), sums, scope="warp")
        with T.block("root"):
            for i, j, k in T.grid(SIDE, columns, depth):
                with T.block("product"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    t_a, at_a = T.meta_var(form.layout_a(vi, vk))
                    t_b, at_b = T.meta_var(of_b(vk, vj))
                    t_c, at_c = T.meta_var(of_c(vi, vj))
                    T.reads(C[t_c, at_c], A[t_a, at_a], B[t_b, at_b])
                    T.writes(C[t_c, at_c])
                    x, y = T.meta_var((cast(sums, A[t_a, at_a]), cast(sums, B[t_b, at_b])))
                    C[t_c, at_c] = C[t_c, at_c] + x * y

    return desc


def mma(dtype: str, *fragments: Any) -> Any:
    """One `mma.sync`; fragments: pointer and offset of the thread's own of A, of B, of C."""
    form = FORMS[dtype]
    return T.call_intrin(form.sums.dtype, MMA, *form.words, *fragments, T.bool(False))


def sync(form: Form, columns: int, of_b: Any, of_c: Any) -> tuple[PrimFunc, PrimFunc]:
    """The product of fragments, by instructions side by side, each of them of eight columns."""
    (_, own_a, _), (_, step_b, _), (_, step_c, _) = form.own
    many = columns // 8
    own_b, own_c = step_b * many, step_c * many
    dtype, sums = form.given.dtype, form.sums.dtype

    @T.prim_func
    def impl(a: T.handle, b: T.handle, c: T.handle):
        at_a, at_b, at_c = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (WARP, own_a), dtype, scope="warp", elem_offset=at_a)
        B = T.match_buffer(b, (WARP, own_b), dtype, scope="warp", elem_offset=at_b)
        C = T.match_buffer(c, (WARP, own_c), sums, scope="warp", elem_offset=at_c)
        with T.block("root"):
            T.reads(C[0:WARP, 0:own_c], A[0:WARP, 0:own_a], B[0:WARP, 0:own_b])
            T.writes(C[0:WARP, 0:own_c])
            for t in T.thread_binding(WARP, thread="threadIdx.x"):
                for half in T.unroll(many):
                    T.evaluate(
                        mma(
                            dtype,
                            A.data,
                            at_a + t * own_a,
                            B.data,
                            at_b + t * own_b + half * step_b,
                            C.data,
                            at_c + t * own_c + half * step_c,
                        )
                    )

    return product_of(form, columns, of_b, of_c), impl


for _sums, _short in SHORT.items():
    register(f"mma_fill_16x8_{_short}", *fill(8, _sums, layout_c))
    for _scope in ("global", "shared"):
        register(f"mma_store_16x8_{_short}_{_scope}", *store(8, _sums, _scope, layout_c, place_c))
for _form in FORMS.values():
    _k, _dtype, _name = _form.depth, _form.given.dtype, _form.given.short
    register(
        f"mma_sync_16x8x{_k}_{_name}{_name}{_form.sums.short}",
        *sync(_form, 8, _form.layout_b, layout_c),
    )
    for _scope in ("global", "shared", "shared.dyn"):
        _end = f"{_name}_{{}}_{_scope.replace('.', '_')}"
        register(
            f"mma_load_16x{_k}_{_end.format('a')}",
            *load(16, _k, _dtype, _scope, _form.layout_a, _form.place_a),
        )
        register(
            f"mma_load_{_k}x8_{_end.format('b')}",
            *load(_k, 8, _dtype, _scope, _form.layout_b, _form.place_b),
        )

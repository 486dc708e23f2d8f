"""Blocks that move, are inlined, cached, cut into tiles: forms, and what is refused."""

from __future__ import annotations

from tests.tir.schedule.peer.items import item

CHAIN = """
@T.prim_func
def main(A: T.Buffer((32, 32)), D: T.Buffer((32, 32))):
    B = T.alloc_buffer((32, 32))
    C = T.alloc_buffer((32, 32))
    for i, j in T.grid(32, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(32, 32):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for i, j in T.grid(32, 32):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * C[vi, vj]
"""
RELU = """
@T.prim_func
def main(A: T.Buffer((32, 32)), B: T.Buffer((32, 32)), D: T.Buffer((32, 32))):
    C = T.alloc_buffer((32, 32))
    for i, j, k in T.grid(32, 32, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
    for i, j in T.grid(32, 32):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj], T.float32(0))
"""
TILED = """
@T.prim_func
def main(A: T.Buffer((32, 32)), C: T.Buffer((32, 32))):
    B = T.alloc_buffer((32, 32))
    for i, j in T.grid(32, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for io, jo, ii, ji in T.grid(4, 4, 8, 8):
        with T.block("C"):
            vi = T.axis.spatial(32, io * 8 + ii)
            vj = T.axis.spatial(32, jo * 8 + ji)
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""
POOL = """
@T.prim_func
def main(A: T.Buffer((1, 14, 14, 4)), C: T.Buffer((1, 12, 12, 4))):
    B = T.alloc_buffer((1, 14, 14, 4))
    for n, h, w, c in T.grid(1, 14, 14, 4):
        with T.block("B"):
            vn, vh, vw, vc = T.axis.remap("SSSS", [n, h, w, c])
            B[vn, vh, vw, vc] = A[vn, vh, vw, vc] * T.float32(2)
    for n, h, w, c, r, s in T.grid(1, 12, 12, 4, 3, 3):
        with T.block("C"):
            vn, vh, vw, vc, vr, vs = T.axis.remap("SSSSRR", [n, h, w, c, r, s])
            with T.init():
                C[vn, vh, vw, vc] = T.float32(0)
            C[vn, vh, vw, vc] = C[vn, vh, vw, vc] + B[vn, vh + vr, vw + vs, vc]
"""
PADDED = """
@T.prim_func
def main(A: T.Buffer((126,)), C: T.Buffer((126,))):
    B = T.alloc_buffer((128,))
    for i in range(128):
        with T.block("pad"):
            vi = T.axis.spatial(128, i)
            B[vi] = T.if_then_else(1 <= vi and vi < 127, A[vi - 1], T.float32(0))
    for i, k in T.grid(126, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + B[vi + vk]
"""
ODD = RELU.replace("32, 32", "30, 30").replace("30, 32", "30, 30")


def one(name, text, method, *args, **options):
    """One step; arguments that are functions are given the schedule."""

    @item(f"{method}/{name}", text)
    def _(sch, tvm):
        given = [x(sch) if callable(x) else x for x in args]
        getattr(sch, method)(*given, **options)


def loop(block, n):
    return lambda sch: sch.get_loops(block)[n]


def block(name):
    return lambda sch: sch.get_block(name)


one("outer loop", CHAIN, "compute_at", block("B"), loop("C", 0))
one("inner loop", CHAIN, "compute_at", block("B"), loop("C", 1))
one("unit loops kept", CHAIN, "compute_at", block("B"), loop("C", 1), preserve_unit_loops=True)
one("tile", TILED, "compute_at", block("B"), loop("C", 1))
one("tile row", TILED, "compute_at", block("B"), loop("C", 2))
one("window rows", POOL, "compute_at", block("B"), loop("C", 1))
one("window points", POOL, "compute_at", block("B"), loop("C", 2))
one("inside of the reduction", POOL, "compute_at", block("B"), loop("C", 5))
one("padding under rows", PADDED, "compute_at", block("pad"), loop("C", 0))
one("an output", CHAIN, "compute_at", block("D"), loop("C", 0))
one("not all consumers", CHAIN, "compute_at", block("B"), loop("D", 0))
one("own loop", CHAIN, "compute_at", block("B"), loop("B", 0))
one("outer loop", CHAIN, "reverse_compute_at", block("C"), loop("B", 0))
one("inner loop", CHAIN, "reverse_compute_at", block("C"), loop("B", 1))
one(
    "unit loops kept",
    CHAIN,
    "reverse_compute_at",
    block("C"),
    loop("B", 1),
    preserve_unit_loops=True,
)
one("under a product", RELU, "reverse_compute_at", block("D"), loop("C", 1))
one("under the reduction", RELU, "reverse_compute_at", block("D"), loop("C", 2))
one("no producer there", CHAIN, "reverse_compute_at", block("D"), loop("B", 0))
one("middle", CHAIN, "compute_inline", block("B"))
one("second", CHAIN, "compute_inline", block("C"))
one("output", CHAIN, "compute_inline", block("D"))
one("padding", PADDED, "compute_inline", block("pad"))
one("reduction", RELU, "compute_inline", block("C"))
one("middle", CHAIN, "reverse_compute_inline", block("C"))
one("last", CHAIN, "reverse_compute_inline", block("D"))
one("into a reduction", RELU, "reverse_compute_inline", block("D"))
one("first", CHAIN, "reverse_compute_inline", block("B"))
one("input", CHAIN, "cache_read", block("B"), 0, "global")
one("middle", CHAIN, "cache_read", block("C"), 0, "shared")
one("by name", CHAIN, "cache_read", "D", "C", "local")
one("of a product", RELU, "cache_read", block("C"), 1, "shared")
one("no such input", CHAIN, "cache_read", block("C"), 1, "shared")
one("output", CHAIN, "cache_write", block("D"), 0, "global")
one("middle", CHAIN, "cache_write", block("C"), 0, "local")
one("reduction", RELU, "cache_write", block("C"), 0, "local")
one("no such output", CHAIN, "cache_write", block("C"), 1, "local")
one("tile of an elementwise block", TILED, "blockize", loop("C", 2))
one("inner loops of a product", RELU, "blockize", loop("C", 1))
one("whole product", RELU, "blockize", loop("C", 0))
one("reduction of a product", RELU, "blockize", loop("C", 2))
one(
    "guarded",
    """
@T.prim_func
def main(A: T.Buffer((30,)), B: T.Buffer((30,))):
    for io, ii in T.grid(4, 8):
        with T.block("B"):
            T.where(io * 8 + ii < 30)
            vi = T.axis.spatial(30, io * 8 + ii)
            B[vi] = A[vi] * T.float32(2)
""",
    "blockize",
    loop("B", 1),
)
one("product", ODD, "pad_einsum", block("C"), [16, 16, 16])
one("product, nothing to pad", RELU, "pad_einsum", block("C"), [16, 16, 16])
one("product, one axis", ODD, "pad_einsum", block("C"), [1, 1, 32])
one("no einsum", CHAIN, "pad_einsum", block("C"), [16, 16])
one("outer", PADDED, "decompose_padding", block("pad"), loop("pad", 0))
one("of no padding", CHAIN, "decompose_padding", block("B"), loop("B", 0))
one("rows", POOL, "rolling_buffer", block("B"), 0)
one("unit", CHAIN, "add_unit_loop", loop("B", 1))
one("unit around a block", CHAIN, "add_unit_loop", block("B"))
one("swapped", CHAIN, "reorder", loop("B", 1), loop("B", 0))
one("loops of two blocks", CHAIN, "reorder", loop("B", 1), loop("C", 0))
one("reduction first", RELU, "reorder", loop("C", 2), loop("C", 0))
one("axes", RELU, "reorder_block_iter_var", block("C"), [2, 0, 1])
one("axes twice", RELU, "reorder_block_iter_var", block("C"), [0, 0, 1])
one("two", CHAIN, "fuse", loop("B", 0), loop("B", 1))
one("all of a product", RELU, "fuse", loop("C", 0), loop("C", 1), loop("C", 2))
one("wrong order", CHAIN, "fuse", loop("B", 1), loop("B", 0))
one("in two", CHAIN, "split", loop("B", 0), [None, 8])
one("in three with a rest", CHAIN, "split", loop("B", 0), [3, None, 5])
one("not covered", CHAIN, "split", loop("B", 0), [2, 8])
one("two unknown", CHAIN, "split", loop("B", 0), [None, None])
one("shared memory", CHAIN, "set_scope", block("B"), 0, "shared")
one("outer", CHAIN, "parallel", loop("B", 0))
one("reduction", RELU, "parallel", loop("C", 2))
one("inner", CHAIN, "vectorize", loop("B", 1))
one("reduction", RELU, "vectorize", loop("C", 2))
one("reduction", RELU, "unroll", loop("C", 2))
one("outer", CHAIN, "bind", loop("B", 0), "threadIdx.x")
one("reduction", RELU, "bind", loop("C", 2), "threadIdx.x")
one("reduction to blocks", RELU, "bind", loop("C", 2), "blockIdx.x")
one("no such thread", CHAIN, "bind", loop("B", 0), "nowhere")
BIAS = RELU.replace(
    "D[vi, vj] = T.max(C[vi, vj], T.float32(0))", "D[vi, vj] = C[vi, vj] + E[vi, vj]"
).replace("D: T.Buffer", "E: T.Buffer((32, 32)), D: T.Buffer")
one("bias", BIAS, "fuse_reduction_epilogue", "C", "D")
one("relu", RELU, "fuse_reduction_epilogue", "C", "D")
one("read", CHAIN, "reindex_cache_read", block("C"), 0, "shared", lambda sch: lambda i, j: (j, i))
one("write", CHAIN, "reindex_cache_write", block("C"), 0, "shared", lambda sch: lambda i, j: (j, i))
one(
    "tiles",
    CHAIN,
    "reindex_cache_read",
    block("C"),
    0,
    "shared",
    lambda sch: lambda i, j: (i // 8, j, i % 8),
)
WIDE = """
@T.prim_func
def main(A: T.Buffer((16,)), B: T.Buffer((16,))):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            for j in range(4):
                B[vi * 4 + j] = A[vi * 4 + j]
"""
one("no point", WIDE, "reindex_cache_read", block("B"), 0, "shared", lambda sch: lambda i: i)
one("no point", WIDE, "reindex_cache_write", block("B"), 0, "shared", lambda sch: lambda i: i)
one("no point", WIDE, "reindex", block("B"), ("read", 0))
one("written, no point", WIDE, "reindex", block("B"), ("write", 0))
one(
    "several readers",
    TILED.replace("C[vi, vj] = B[vi, vj] + T.float32(1)", "C[vi, vj] = B[vi, vj] + A[vi, vj]"),
    "reindex_cache_read",
    block("C"),
    1,
    "shared",
    lambda sch: lambda i, j: (i, j),
)
INDEXED = """
@T.prim_func
def main(A: T.Buffer((16, 16)), B: T.Buffer((4, 4))):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[(vi * 16 + vj * 3) // 7, (vi * 16 + vj * 3) % 7]
"""
one("of a resize", INDEXED, "cache_index", block("B"), "global", 0)
INPLACE = """
@T.prim_func
def main(A: T.Buffer((8, 8)), C: T.Buffer((8, 8))):
    for i, j in T.grid(8, 8):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] + T.float32(1)
"""
one("elementwise", INPLACE, "cache_inplace", block("A"), 0, "local")
one(
    "read region",
    CHAIN,
    "annotate_buffer_access",
    block("C"),
    0,
    "read",
    lambda sch: lambda vi, vj: ((vi - 1, vi + 1), (vj, vj + 2)),
)
one("hidden", CHAIN, "unsafe_hide_buffer_access", block("C"), "read", [0])

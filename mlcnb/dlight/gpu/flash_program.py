"""The loops of flash attention on tensor cores: keys in tiles, a running softmax in registers.

for j_0 in tiles of keys:                          cp.async, one tile ahead
    S = Q K^T                                      mma.sync
    new = max(high, S)                             of a row: four threads, by shuffles
    total = total * 2^(high - new) + 2^(S - new)
    O = O * 2^(high - new) + 2^(S - new) V         mma.sync; the factors of V never leave registers
out = O / total

A warp has 16 queries, or twice as many; a block up to four warps, which share tiles of keys and
values. What a fragment of C holds of 2^(S - new) is what a fragment of A holds of it, so that the
first product's result is the second one's operand without a move. Exponentials are powers of two,
which the hardware has. Source: arXiv 2205.14135 and 2307.08691.
"""

from __future__ import annotations

import math
from typing import Any

from mlcnb.dlight.gpu.axes import LEAST_BYTES
from mlcnb.dlight.gpu.flash_attention import Attention, Tile
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr
from mlcnb.script import tir as T
from mlcnb.tir.analysis.mma import SIDE, WARP
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.tensor_intrin.ldmatrix import OWN, place_c, row_named
from mlcnb.tir.tensor_intrin.mma_sync import mma

#: elements that rows in shared memory are moved apart, as `tensor_cores` does
APART = 8
#: all lanes of a warp
ALL = 0xFFFFFFFF
LOG2_E = math.log2(math.e)
SHARED = "shared.dyn"


def lanes_of(columns: int, size: int) -> int:
    """Elements that a thread moves at once: at most 16 bytes, and rows are a multiple of them."""
    return math.gcd(columns, 16 // size)


#: a tile of keys and values is fetched while the one before it is used
AHEAD = {
    "software_pipeline_stage": [0, 0, 1],
    "software_pipeline_order": [0, 1, 2],
    "software_pipeline_async_stages": [0],
}


def size_of(tile: Buffer) -> tuple[int, int]:
    """Rows and columns of a tile in shared memory."""
    rows, columns = (p.as_int(x) or 0 for x in tile.shape)
    return rows, columns


def row(x: Any) -> Any:
    """Which of its two rows of a fragment a thread has at place x."""
    return x // 2 % 2


def larger(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The larger of two numbers; a NaN shows in the sum of the exponentials."""
    return p.select(p.greater(b, a), b, a)


def from_lane(x: PrimExpr, lane: Any, apart: int) -> PrimExpr:
    """What the other lane of a pair has."""
    return T.tvm_warp_shuffle(T.uint32(ALL), x, T.bitwise_xor(lane, apart), WARP, WARP)


def bounded(*sides: tuple[Any, int, bool]) -> PrimExpr:
    """index < limit for each side that is not known to keep within."""
    return p.all_of(*(p.less(index, limit) for index, limit, known in sides if not known))


def chosen(inside: PrimExpr, value: PrimExpr, other: PrimExpr) -> PrimExpr:
    """The value where the condition holds; itself where that is always."""
    return value if p.is_const(inside, 1) else p.if_then_else(inside, value, other)


class FlashAttention:
    """The kernel of an attention in tiles; the names of its macros say what they do."""

    def __init__(self, a: Attention, by: Tile) -> None:
        self.a, self.by = a, by
        self.batch, self.queries, self.keys, self.heads, self.dim, self.found = a.sizes
        self.dtype, self.size = str(a.query.dtype), a.query.dtype.nbytes
        self.wide, self.long = by.whole(self.dim), by.whole(self.found)
        both = (lanes_of(n, self.size) for n in (self.dim, self.found))
        self.ahead = AHEAD if min(both) * self.size >= LEAST_BYTES else {}

    def function(self) -> PrimFunc:
        """A function without parameters: its buffers are those of the attention."""
        batch, heads, warps = self.batch, self.heads, self.by.warps
        blocks, queries = -(-self.queries // self.by.queries), self.by.queries
        block = self.block

        @T.prim_func(check_well_formed=False)
        def main():
            for b in T.thread_binding(batch, thread="blockIdx.z"):
                for n in T.thread_binding(heads, thread="blockIdx.y"):
                    for i_0 in T.thread_binding(blocks, thread="blockIdx.x"):
                        for w in T.thread_binding(warps, thread="threadIdx.y"):
                            for t in T.thread_binding(WARP, thread="threadIdx.x"):
                                block(b, n, i_0 * queries, w, t)

        return main

    @T.macro
    def block(self, b, n, first, w, t):
        """What a block of threads does for its queries, from `first` on."""
        with T.block("queries"):
            rows, wide, long = T.meta_var((self.by.rows, self.wide, self.long))
            shared = T.alloc_buffer((self.by.queries, wide), self.dtype, scope=SHARED)
            Q = T.alloc_buffer((rows, wide // SIDE, WARP, OWN), self.dtype, scope="warp")
            O = T.alloc_buffer((rows, long // SIDE, WARP, OWN), "float32", scope="warp")
            high = T.alloc_buffer((rows, 2), "float32", scope="local")
            total = T.alloc_buffer((rows, 2), "float32", scope="local")
            self.fetch("query", shared, self.a.query, b, n, first, w, t)
            for m, d in T.grid(rows, wide // SIDE):
                self.fragment(Q, m, d, shared, (w * rows + m) * SIDE, d * SIDE, t, "a", False)
            for m in T.serial(rows):
                for d in T.serial(long // SIDE):
                    for x in T.unroll(OWN):
                        O[m, d, t, x] = T.float32(0)
                for r in T.unroll(2):
                    high[m, r] = T.float32("-inf")
                    total[m, r] = T.float32(0)
            begin, count = T.meta_var(self.a.tiles(first, self.by))
            for j_0 in T.serial(count, annotations=self.ahead):
                with T.block("keys"):
                    K = T.alloc_buffer((self.by.keys, wide), self.dtype, scope=SHARED)
                    V = T.alloc_buffer((self.by.keys, long), self.dtype, scope=SHARED)
                    at = T.meta_var((j_0 + begin) * self.by.keys)
                    self.fetch("key", K, self.a.key, b, n, at, w, t)
                    self.fetch("value", V, self.a.value, b, n, at, w, t)
                    self.step(Q, K, V, O, high, total, b, n, first + w * rows * SIDE, at, t)
            self.store(O, total, b, n, first + w * rows * SIDE, t)

    @T.macro
    def fetch(self, name, to, memory, b, n, first, w, t):
        """A tile of rows from `first` on into shared memory, by all threads; zeros beyond."""
        rows, wide = T.meta_var(size_of(to))
        limit, columns = T.meta_var((memory.shape[1].value, memory.shape[3].value))
        lanes = T.meta_var(lanes_of(columns, self.size))
        threads = T.meta_var(self.by.warps * WARP)
        with T.block(name):
            T.block_attr({"buffer_dim_align": [[0, 0, 2 * APART, APART]]})
            for x in T.serial(rows * wide // lanes // threads):
                for y in T.vectorized(lanes):
                    place = T.meta_var((x * threads + w * WARP + t) * lanes + y)
                    r, c = T.meta_var((place // wide, place % wide))
                    whole = T.meta_var(limit % rows == 0)
                    inside = T.meta_var(
                        bounded((first + r, limit, whole), (c, columns, wide == columns))
                    )
                    value = T.meta_var(memory[b, first + r, n, c])
                    to[r, c] = chosen(inside, value, T.Cast(self.dtype, 0))

    @T.macro
    def fragment(self, to, m, d, memory, at, column, t, matrix, turned):
        """16 x 16 of shared memory as operand "a" or "b"; turned: it lies as (column, row)."""
        trans, line, near_by = T.meta_var(row_named(matrix, turned, t))
        with T.block("fragment"):
            T.reads(memory[at : at + SIDE, column : column + SIDE])
            T.writes(to[m, d, 0:WARP, 0:OWN])
            apart, near, at_m, at_f = T.int32(), T.int32(), T.int32(), T.int32()
            M = T.match_buffer(
                memory[at : at + SIDE, column : column + SIDE], (SIDE, SIDE), self.dtype,
                strides=[apart, near], elem_offset=at_m, scope=SHARED,
            )  # fmt: skip
            F = T.match_buffer(
                to[m, d, 0:WARP, 0:OWN], (WARP, OWN), self.dtype, elem_offset=at_f, scope="warp"
            )
            T.evaluate(
                T.ptx_ldmatrix(
                    self.dtype, T.bool(trans), 4, ".b16",
                    F.data, at_f + t * OWN, M.data, at_m + line * apart + near_by,
                )
            )  # fmt: skip

    @T.macro
    def multiply(self, sums, m, d, a, k, b, t):
        """sums[m, d] += a[m, k] @ b[0, 0], fragments of 16 x 16"""
        with T.block("product"):
            T.reads(sums[m, d, 0:WARP, 0:OWN], a[m, k, 0:WARP, 0:OWN], b[0, 0, 0:WARP, 0:OWN])
            T.writes(sums[m, d, 0:WARP, 0:OWN])
            at_a, at_b, at_c = T.int32(), T.int32(), T.int32()
            A = T.match_buffer(
                a[m, k, 0:WARP, 0:OWN], (WARP, OWN), self.dtype, elem_offset=at_a, scope="warp"
            )
            B = T.match_buffer(
                b[0, 0, 0:WARP, 0:OWN], (WARP, OWN), self.dtype, elem_offset=at_b, scope="warp"
            )
            C = T.match_buffer(
                sums[m, d, 0:WARP, 0:OWN], (WARP, OWN), "float32", elem_offset=at_c, scope="warp"
            )
            for half in T.unroll(2):
                at = T.meta_var(t * OWN + half * 4)
                T.evaluate(
                    mma(self.dtype, A.data, at_a + t * OWN, B.data, at_b + at, C.data, at_c + at)
                )

    @T.macro
    def step(self, Q, K, V, O, high, total, b, n, first, at, t):
        """One tile of keys, from `at` on."""
        rows, tiles = T.meta_var((self.by.rows, self.by.keys // SIDE))
        with T.block("step"):
            S = T.alloc_buffer((rows, tiles, WARP, OWN), "float32", scope="warp")
            P = T.alloc_buffer((rows, tiles, WARP, OWN), self.dtype, scope="warp")
            part = T.alloc_buffer((1, 1, WARP, OWN), self.dtype, scope="warp")
            new = T.alloc_buffer((rows, 2), "float32", scope="local")
            base = T.alloc_buffer((rows, 2), "float32", scope="local")
            factor = T.alloc_buffer((rows, 2), "float32", scope="local")
            for m, j in T.grid(rows, tiles):
                for x in T.unroll(OWN):
                    S[m, j, t, x] = T.float32(0)
            for d, j in T.grid(self.wide // SIDE, tiles):
                self.fragment(part, 0, 0, K, j * SIDE, d * SIDE, t, "b", True)
                for m in T.serial(rows):
                    self.multiply(S, m, j, Q, d, part, t)
            for m in T.serial(rows):
                for r in T.unroll(2):
                    new[m, r] = high[m, r]
                for j in T.serial(tiles):
                    for x in T.unroll(OWN):
                        i, c = T.meta_var(place_c(t, x))
                        S[m, j, t, x] = self.score(
                            S[m, j, t, x], b, n, first + m * SIDE + i, at + j * SIDE + c
                        )
                        new[m, row(x)] = larger(new[m, row(x)], S[m, j, t, x])
                for r in T.unroll(2):
                    base[m, r] = from_lane(new[m, r], t, 1)
                    new[m, r] = larger(new[m, r], base[m, r])
                    base[m, r] = from_lane(new[m, r], t, 2)
                    new[m, r] = larger(new[m, r], base[m, r])
                    # no key has been seen yet: -inf - -inf would be no number
                    base[m, r] = T.Select(
                        new[m, r] == T.float32("-inf"), T.float32(0), new[m, r] * T.float32(LOG2_E)
                    )
                    factor[m, r] = T.exp2(high[m, r] * T.float32(LOG2_E) - base[m, r])
                    high[m, r] = new[m, r]
                    total[m, r] = total[m, r] * factor[m, r]
                for j in T.serial(tiles):
                    for x in T.unroll(OWN):
                        S[m, j, t, x] = T.exp2(S[m, j, t, x] * T.float32(LOG2_E) - base[m, row(x)])
                        total[m, row(x)] = total[m, row(x)] + S[m, j, t, x]
                        P[m, j, t, x] = T.Cast(self.dtype, S[m, j, t, x])
                for d in T.serial(self.long // SIDE):
                    for x in T.unroll(OWN):
                        O[m, d, t, x] = O[m, d, t, x] * factor[m, row(x)]
            for j, d in T.grid(tiles, self.long // SIDE):
                self.fragment(part, 0, 0, V, j * SIDE, d * SIDE, t, "b", False)
                for m in T.serial(rows):
                    self.multiply(O, m, d, P, j, part, t)

    @T.macro
    def store(self, O, total, b, n, first, t):
        """What a thread has of the result, two columns at once where rows are of even length."""
        rows, pair = T.meta_var((self.by.rows, 2 if self.a.in_rows and self.found % 2 == 0 else 1))
        for m in T.serial(rows):
            for r in T.unroll(2):
                total[m, r] = total[m, r] + from_lane(total[m, r], t, 1)
                total[m, r] = total[m, r] + from_lane(total[m, r], t, 2)
                total[m, r] = T.float32(1) / total[m, r]
            for d in T.serial(self.long // SIDE):
                for x in T.unroll(OWN // pair):
                    i, c = T.meta_var(place_c(t, x * pair))
                    if bounded(
                        (first + m * SIDE + i, self.queries, False),
                        (d * SIDE + c, self.found, self.found == self.long),
                    ):
                        for y in T.vectorized(pair):
                            at = T.meta_var((b, n, first + m * SIDE + i, d * SIDE + c + y))
                            self.a.out[self.a.place(*at)] = self.a.result(
                                O[m, d, t, x * pair + y], total[m, row(x * pair)], *at
                            )

    def score(self, total: PrimExpr, b: Any, n: Any, i: Any, j: Any) -> PrimExpr:
        """The score that counts: none for keys and queries that are not there."""
        there = bounded(
            (j, self.keys, self.keys % self.by.keys == 0),
            (i, self.queries, self.queries % self.by.queries == 0),
        )
        return chosen(there, self.a.score(total, b, n, i, j), p.const(float("-inf")))

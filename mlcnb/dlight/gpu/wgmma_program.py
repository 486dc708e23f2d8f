"""The loops of a product by warpgroups: tiles in shared memory, shuffled as `wgmma` wants them.

for s in range(3):                            tiles s of A and B on their way (cp.async)
for k in tiles of 64:
    wait for tile k; a barrier                its writes, and the last product's reads, are over
    tile k + 3 on its way                     into the place that the last product has left
    sums += A[k % 4] @ B[k % 4]               T.ptx_wgmma, four products of 16, and a wait
C = sums                                      two columns at once

With loads="tma" the last warp has the tiles copied as boxes (`cp.async.bulk.tensor`), as far ahead
of the others as there are stages; barriers of each stage say that it is full, and empty again. No
barrier of the block is needed once they are made (`tir.access.phases` proves it).

for k in tiles of 64:                         each warp at its own pace
    the last warp: wait EMPTY[k % 4]; expect FULL[k % 4]; boxes of tile k
    the others:    wait FULL[k % 4]; sums += …; arrive EMPTY[k % 4]

A tile lies in lines of 128 bytes, along k or along the side as the operand does outside: rows along
k, or panels of 64 elements of a side with a line for each k. Piece n of 16 bytes of a line lies at
place n ^ line % 8 of it.
"""

from __future__ import annotations

from typing import Any

from mlcnb.dlight.gpu.threads import VECTOR_BYTES
from mlcnb.dlight.gpu.wgmma import PIECE, Product, Side, Tile
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr
from mlcnb.script import tir as T
from mlcnb.tir.analysis.wgmma import DEPTH, ROWS, SIZE, place_c
from mlcnb.tir.function import PrimFunc

WARP, SHARED = 32, "shared.dyn"
#: elements of a line of a tile: 128 bytes
LINE = 64
#: bytes of eight lines, which are shuffled together
EIGHT = 8 * LINE * SIZE
#: k of a tile
STEP = LINE


class WarpgroupProduct:
    """The kernel of a product; the names of its macros say what they do."""

    def __init__(self, of: Product, by: Tile) -> None:
        self.of, self.by, self.dtype = of, by, str(of.a.buffer.dtype)
        self.steps = -(-of.depth // STEP)
        self.own = by.columns // 2

    def function(self) -> PrimFunc:
        """A function without parameters: its buffers are those of the product."""
        rows, columns, warps = self.by.rows, self.by.columns, self.by.threads // WARP
        down, across = -(-self.of.a.length // rows), -(-self.of.b.length // columns)
        block = self.block

        @T.prim_func(check_well_formed=False)
        def main():
            for i_0 in T.thread_binding(down, thread="blockIdx.y"):
                for j_0 in T.thread_binding(across, thread="blockIdx.x"):
                    for w in T.thread_binding(warps, thread="threadIdx.y"):
                        for t in T.thread_binding(WARP, thread="threadIdx.x"):
                            block(i_0 * rows, j_0 * columns, w, t)

        return main

    @T.macro
    def block(self, i, j, w, t):
        """What a block of threads does for the tile of the result that begins at (i, j)."""
        with T.block("product"):
            stages, own = T.meta_var((self.by.stages, self.own))
            A = T.alloc_buffer((stages * self.by.rows * STEP,), self.dtype, scope=SHARED)
            B = T.alloc_buffer((stages * self.by.columns * STEP,), self.dtype, scope=SHARED)
            sums = T.alloc_buffer((WARP, own), "float32", scope="warp")
            for x in T.unroll(own):
                sums[t, x] = T.float32(0)
            if self.by.loads == "tma":
                self.by_boxes(A, B, sums, i, j, w, t)
                if w < self.by.groups * 4:
                    self.store(sums, i, j, w, t)
            else:
                self.by_pieces(A, B, sums, i, j, w, t)
                self.store(sums, i, j, w, t)

    @T.macro
    def by_pieces(self, A, B, sums, i, j, w, t):
        """The sums; all threads copy pieces of tiles."""
        stages = T.meta_var(self.by.stages)
        for s in T.unroll(stages - 1):
            self.fetch_both(A, B, i, j, s, w * WARP + t)
        for k in T.serial(self.steps):
            T.ptx_wait_group(stages - 2)
            T.tvm_storage_sync("shared")
            self.fetch_both(A, B, i, j, k + stages - 1, w * WARP + t)
            self.multiply(A, B, sums, k % stages, w, t)
        T.ptx_wait_group(0)

    @T.macro
    def by_boxes(self, A, B, sums, i, j, w, t):
        """The sums; the last warp has boxes copied, the others multiply."""
        stages, multiplying = T.meta_var((self.by.stages, self.by.groups * 4))
        T.create_barriers(2 * stages)
        if w * WARP + t == 0:
            for s in T.unroll(stages):
                T.ptx_init_barrier_thread_count(s, 1)
                T.ptx_init_barrier_thread_count(stages + s, multiplying * WARP)
        T.tvm_storage_sync("shared")
        for k in T.serial(self.steps):
            if w == multiplying:
                if t == 0:
                    T.ptx_wait_barrier(stages + k % stages, (k // stages + 1) % 2)
                    self.fetch_boxes(A, B, i, j, k)
            if w < multiplying:
                T.ptx_wait_barrier(k % stages, k // stages % 2)
                self.multiply(A, B, sums, k % stages, w, t)
                T.ptx_arrive_barrier(stages + k % stages)

    @T.macro
    def fetch_boxes(self, A, B, i, j, k):
        """The tiles of a step, whose bytes fill its stage."""
        stage = T.meta_var(k % self.by.stages)
        T.ptx_arrive_barrier_expect_tx(stage, (self.by.rows + self.by.columns) * STEP * SIZE)
        self.fetch_box(A, self.of.a, self.by.rows, i, k, stage)
        self.fetch_box(B, self.of.b, self.by.columns, j, k, stage)

    @T.macro
    def fetch_box(self, tile, operand, length, first, k, stage):
        """A tile: one box along k, or one for each panel of a side."""
        height, width = T.meta_var(operand.buffer.shape)
        boxes, lines = T.meta_var((1, length) if operand.along_k else (length // LINE, STEP))
        for x in T.unroll(boxes):
            at = T.meta_var(self.source(operand, first, k, x * lines, 0))
            T.evaluate(
                T.ptx_cp_async_bulk_tensor(
                    self.dtype, tile.data, stage * (length * STEP) + x * (lines * LINE),
                    operand.buffer.data, height, width, *at, lines, LINE, LINE * SIZE, stage,
                )
            )  # fmt: skip

    @T.macro
    def fetch_both(self, A, B, i, j, k, thread):
        """The tiles of a step on their way, a group of copies."""
        self.fetch(A, self.of.a, self.by.rows, i, k, thread)
        self.fetch(B, self.of.b, self.by.columns, j, k, thread)
        T.ptx_commit_group()

    @T.macro
    def fetch(self, tile, operand, length, first, k, thread):
        """Pieces of 16 bytes into their shuffled places; a step beyond the last one is zeros."""
        lines, threads = T.meta_var((length * STEP // LINE, self.by.threads))
        columns = T.meta_var(operand.buffer.shape[1])
        start = T.meta_var(k % self.by.stages * (length * STEP))
        for x in T.unroll(lines * (LINE // PIECE) // threads):
            line = T.meta_var(x * (threads // (LINE // PIECE)) + thread // (LINE // PIECE))
            piece = T.meta_var(thread % (LINE // PIECE))
            row, column = T.meta_var(self.source(operand, first, k, line, piece * PIECE))
            inside = T.meta_var(self.inside(operand, row, column))
            T.ptx_cp_async(
                self.dtype,
                tile.data,
                start + line * LINE + T.bitwise_xor(piece, line % 8) * PIECE,
                operand.buffer.data,
                row * columns + column,
                VECTOR_BYTES,
                inside,
            )

    @T.macro
    def multiply(self, A, B, sums, stage, w, t):
        """The sums go up by a tile of each operand, all of its k at once."""
        a, b = T.meta_var((self.of.a, self.of.b))
        rows, columns, own = T.meta_var((self.by.rows, self.by.columns, self.own))
        shape = T.meta_var(f"m{ROWS}n{columns}k{DEPTH}")
        majors = T.meta_var(("k" if a.along_k else "m", "k" if b.along_k else "n"))
        T.evaluate(
            T.ptx_wgmma(
                self.dtype, shape, *majors, STEP // DEPTH, sums.data, t * own,
                A.data, stage * (rows * STEP) + w // 4 * (ROWS * STEP), *self.distances(a),
                B.data, stage * (columns * STEP), *self.distances(b), LINE * SIZE,
            )
        )  # fmt: skip

    @T.macro
    def store(self, sums, i, j, w, t):
        """What a thread has of the result, two columns at once where rows are of even length."""
        even = T.meta_var(self.of.in_rows and self.of.b.length % 2 == 0)
        pair = T.meta_var(2 if even else 1)
        for x in T.unroll(self.own // pair):
            row, column = T.meta_var(place_c(w * WARP + t, x * pair))
            if self.within(i + row, j + column):
                for y in T.vectorized(pair):
                    at = T.meta_var((i + row, j + column + y))
                    self.of.out[self.of.place(*at)] = self.of.result(sums[t, x * pair + y], *at)

    def source(self, operand: Side, first: Any, k: Any, line: Any, along: Any) -> tuple[Any, Any]:
        """Where in memory a piece of a line is: row and column of the operand."""
        if operand.along_k:
            return first + line, k * STEP + along
        return k * STEP + line % STEP, first + line // STEP * LINE + along

    def inside(self, operand: Side, row: Any, column: Any) -> PrimExpr:
        """Whether a piece is there: rows are whole pieces."""
        rows, columns = (p.as_int(x) or 0 for x in operand.buffer.shape)
        return p.logical_and(p.less(row, rows), p.less(column, columns))

    def within(self, i: Any, j: Any) -> PrimExpr:
        """Whether the result has such an element."""
        return p.logical_and(p.less(i, self.of.a.length), p.less(j, self.of.b.length))

    def distances(self, operand: Side) -> tuple[int, int, int]:
        """Those of a descriptor: leading, stride and step, in bytes."""
        if operand.along_k:
            return 16, EIGHT, DEPTH * SIZE
        return STEP * LINE * SIZE, EIGHT, DEPTH * LINE * SIZE

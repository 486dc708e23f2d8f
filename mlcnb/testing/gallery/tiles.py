"""Tiles, instructions, notes: part of a program as one block, or as one instruction."""

from __future__ import annotations

from collections.abc import Iterator

from mlcnb.script import from_source
from mlcnb.testing.gallery.example import primitive
from mlcnb.testing.gallery.programs import chain_2d, double_2d, stretched
from mlcnb.tir import TensorIntrin
from mlcnb.tir.schedule import Schedule

_MEANING = """
@T.prim_func
def meaning(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    with T.block("root"):
        for i in range(4):
            with T.block("double"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] * T.float32(2)
"""
_INSTRUCTION = """
@T.prim_func
def instruction(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    with T.block("root"):
        for i in T.vectorized(4):
            B[i] = A[i] + A[i]
"""
TensorIntrin.register(
    "gallery.double4", from_source(_MEANING), from_source(_INSTRUCTION), override=True
)


@primitive
def blockize() -> Iterator[Schedule]:
    """Makes one block of all that is in a loop: a tile that other primitives see as one."""
    sch = Schedule(double_2d(4, 8))
    i, j = sch.get_loops("B")
    j_0, j_1 = sch.split(j, [None, 4])
    yield sch
    sch.blockize(j_1)
    yield sch
    other = Schedule(chain_2d(4, 4))
    i, j = other.get_loops("C")
    other.compute_at("B", i)
    other.blockize(i)


@primitive
def tensorize() -> Iterator[Schedule]:
    """Replaces a tile by an instruction that computes the same: here 4 numbers are doubled."""
    sch = Schedule(double_2d(4, 8))
    i, j = sch.get_loops("B")
    j_0, j_1 = sch.split(j, [None, 4])
    yield sch
    sch.tensorize(j_1, "gallery.double4")
    yield sch
    Schedule(chain_2d(4, 4)).tensorize("C", "gallery.double4")


@primitive
def annotate() -> Iterator[Schedule]:
    """Leaves a note on a block or a loop, for lowering or for those who come after."""
    sch = Schedule(double_2d(4, 8))
    i, j = sch.get_loops("B")
    yield sch
    sch.annotate(i, "pragma_auto_unroll_max_step", 16)
    yield sch
    sch.annotate("D", "note", 1)


@primitive
def unannotate() -> Iterator[Schedule]:
    """Takes a note away."""
    sch = Schedule(double_2d(4, 8))
    i, j = sch.get_loops("B")
    sch.annotate(i, "pragma_auto_unroll_max_step", 16)
    yield sch
    sch.unannotate(i, "pragma_auto_unroll_max_step")
    yield sch
    sch.unannotate(i, "pragma_auto_unroll_max_step")


@primitive
def reorder_block_iter_var() -> Iterator[Schedule]:
    """Puts the axes of a block into another order; the loops stay as they are."""
    sch = Schedule(double_2d(4, 4))
    yield sch
    sch.reorder_block_iter_var("B", [1, 0])
    yield sch
    sch.reorder_block_iter_var("B", [0, 0])


@primitive
def annotate_buffer_access() -> Iterator[Schedule]:
    """Says by hand which part of a buffer a block touches; it is checked."""
    sch = Schedule(stretched(8))
    yield sch
    sch.annotate_buffer_access("B", 0, "read", lambda i: [(i // 2, i // 2 + 1)])
    yield sch
    sch.annotate_buffer_access("B", 0, "read", lambda i: [(0, 2)])


@primitive
def unsafe_hide_buffer_access() -> Iterator[Schedule]:
    """Takes a region out of what a block says that it touches; from then on nobody watches it."""
    sch = Schedule(double_2d(4, 4))
    yield sch
    sch.unsafe_hide_buffer_access("B", "read", [0])
    yield sch
    sch.unsafe_hide_buffer_access("B", "write", [3])

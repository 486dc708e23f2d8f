"""Memory: copies of buffers, the memory they lie in, and how they lie there."""

from __future__ import annotations

from collections.abc import Iterator

from mlcnb.testing.gallery.example import primitive
from mlcnb.testing.gallery.programs import (
    blur,
    chain,
    double,
    matmul,
    row_sum,
    running_sum,
    transpose,
)
from mlcnb.tir.schedule import Schedule


@primitive
def cache_read() -> Iterator[Schedule]:
    """Copies what a block reads into a buffer of its own, in a faster memory."""
    sch = Schedule(transpose(4))
    yield sch
    sch.cache_read("B", 0, "shared")
    yield sch
    Schedule(running_sum(8)).cache_read("B", 1, "shared")


@primitive
def cache_write() -> Iterator[Schedule]:
    """Lets a block write into a buffer of its own, which is copied out afterwards."""
    sch = Schedule(matmul(3, 3, 2))
    yield sch
    sch.cache_write("C", 0, "local")
    yield sch
    Schedule(running_sum(8)).cache_write("B", 0, "local")


@primitive
def reindex() -> Iterator[Schedule]:
    """Copies what a block reads into a buffer that is laid out as the block's axes are."""
    sch = Schedule(transpose(4))
    yield sch
    sch.reindex("B", ("read", 0))
    yield sch
    Schedule(blur(6)).reindex("C", ("read", 0))


@primitive
def set_scope() -> Iterator[Schedule]:
    """Says in which memory a buffer lies."""
    sch = Schedule(chain(8))
    yield sch
    sch.set_scope("B", 0, "shared")
    yield sch
    sch.set_scope("C", 0, "shared")


@primitive
def storage_align() -> Iterator[Schedule]:
    """Spreads the rows of a buffer, so that threads do not meet in one bank of memory."""
    sch = Schedule(transpose(4))
    copy = sch.cache_read("B", 0, "shared")
    yield sch
    sch.storage_align(copy, 0, axis=0, factor=32, offset=1)
    yield sch
    sch.storage_align(copy, 0, axis=2, factor=32, offset=1)


@primitive
def transform_layout() -> Iterator[Schedule]:
    """Changes where the elements of a buffer lie, for all blocks that use it."""
    sch = Schedule(chain(8))
    yield sch
    sch.transform_layout("B", ("write", 0), lambda i: (i % 2, i // 2))
    yield sch
    sch.transform_layout("C", ("write", 0), lambda i: i // 2)


@primitive
def transform_block_layout() -> Iterator[Schedule]:
    """Gives a block new axes, and with them new loops."""
    sch = Schedule(double(8))
    yield sch
    sch.transform_block_layout("B", lambda i: (i % 2, i // 2))
    yield sch
    Schedule(row_sum(4, 4)).transform_block_layout("B", lambda i, k: (i * 4 + k,))


@primitive
def pad_einsum() -> Iterator[Schedule]:
    """Rounds the sizes of a matmul up to whole tiles; what is added counts as zero."""
    sch = Schedule(matmul(3, 3, 3))
    yield sch
    sch.pad_einsum("C", [4, 4, 4])
    yield sch
    Schedule(blur(6)).pad_einsum("C", [4])

"""Memory: copies of buffers, the memory they lie in, and how they lie there."""

from __future__ import annotations

from collections.abc import Iterator

from mlcnb.testing.gallery.example import primitive
from mlcnb.testing.gallery.programs import (
    blur,
    chain,
    chain_2d,
    double,
    matmul,
    padded,
    row_sum,
    running_sum,
    stretched,
    transpose,
    updated_in_place,
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
def read_at() -> Iterator[Schedule]:
    """Copies what one iteration of a loop reads, by one block inside of that loop."""
    sch = Schedule(double(16))
    (i,) = sch.get_loops("B")
    i_0, i_1 = sch.split(i, [None, 4])
    yield sch
    sch.read_at(i_0, "B", 0, "shared")
    yield sch
    other = Schedule(running_sum(8))
    other.read_at(other.get_loops("B")[0], "B", 1, "shared")


@primitive
def write_at() -> Iterator[Schedule]:
    """Lets one iteration of a loop write into a new buffer, which one block copies out."""
    sch = Schedule(double(16))
    (i,) = sch.get_loops("B")
    i_0, i_1 = sch.split(i, [None, 4])
    yield sch
    sch.write_at(i_0, "B", 0, "shared")
    yield sch
    other = Schedule(updated_in_place(4))
    other.write_at(other.get_loops("A")[0], "A", 0, "shared")


@primitive
def cache_inplace() -> Iterator[Schedule]:
    """Lets a block that updates a buffer update a copy of what it touches, in and out again."""
    sch = Schedule(updated_in_place(4))
    yield sch
    sch.cache_inplace("A", 0, "local")
    yield sch
    Schedule(double(8)).cache_inplace("B", 0, "local")


@primitive
def cache_index() -> Iterator[Schedule]:
    """Computes the indices of a block's reads beforehand, into a table."""
    sch = Schedule(stretched(8))
    yield sch
    sch.cache_index("B", "global")
    yield sch
    sch.cache_index("B", "nowhere")


@primitive
def reindex() -> Iterator[Schedule]:
    """Copies what a block reads into a buffer that is laid out as the block's axes are."""
    sch = Schedule(transpose(4))
    yield sch
    sch.reindex("B", ("read", 0))
    yield sch
    Schedule(blur(6)).reindex("C", ("read", 0))


@primitive
def reindex_cache_read() -> Iterator[Schedule]:
    """Copies what a block reads into a cache that is laid out by a map of the block's axes."""
    sch = Schedule(transpose(4))
    yield sch
    sch.reindex_cache_read("B", 0, "shared", lambda i, j: (i, j))
    yield sch
    Schedule(transpose(4)).reindex_cache_read("B", 0, "shared", lambda i, j: (i,))


@primitive
def reindex_cache_write() -> Iterator[Schedule]:
    """Lets a block write into a cache that is laid out by a map of its axes, and copies it on."""
    sch = Schedule(transpose(4))
    yield sch
    sch.reindex_cache_write("B", 0, "shared", lambda i, j: (j, i))
    yield sch
    Schedule(transpose(4)).reindex_cache_write("B", 0, "shared", lambda i, j: (i + j,))


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
def set_dtype() -> Iterator[Schedule]:
    """Lets a buffer hold a wider kind of number; no value is lost."""
    sch = Schedule(chain(8))
    yield sch
    sch.set_dtype("B", 0, "float64")
    yield sch
    Schedule(chain(8)).set_dtype("B", 0, "float16")


@primitive
def unsafe_set_dtype() -> Iterator[Schedule]:
    """Lets a buffer hold another kind of number; what does not fit is rounded: results change."""
    sch = Schedule(chain(8))
    yield sch
    sch.unsafe_set_dtype("B", 0, "float16")
    yield sch
    Schedule(chain(8)).unsafe_set_dtype("C", 0, "float16")


@primitive
def set_axis_separator() -> Iterator[Schedule]:
    """Says which dimensions of a buffer are one axis of a memory that has several."""
    sch = Schedule(chain_2d(4, 4))
    yield sch
    sch.set_axis_separator("B", ("write", 0), [1])
    yield sch
    sch.set_axis_separator("B", ("write", 0), [3])


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


@primitive
def decompose_padding() -> Iterator[Schedule]:
    """Makes of a block that pads one that fills with the constant, and one that copies."""
    sch = Schedule(padded(8))
    (i,) = sch.get_loops("P")
    yield sch
    sch.decompose_padding("P", i)
    yield sch
    other = Schedule(double(8))
    other.decompose_padding("B", other.get_loops("B")[0])

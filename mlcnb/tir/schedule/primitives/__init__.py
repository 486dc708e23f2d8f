"""The primitives of Schedule: one file each, a function from nodes to a Change (or, for looking,
to nodes).
"""

from __future__ import annotations

from mlcnb.tir.schedule.primitives.add_unit_loop import add_unit_loop
from mlcnb.tir.schedule.primitives.annotate import annotate, unannotate
from mlcnb.tir.schedule.primitives.annotate_buffer_access import annotate_buffer_access
from mlcnb.tir.schedule.primitives.bind import bind
from mlcnb.tir.schedule.primitives.blockize import blockize
from mlcnb.tir.schedule.primitives.cache_index import cache_index
from mlcnb.tir.schedule.primitives.cache_inplace import cache_inplace
from mlcnb.tir.schedule.primitives.cache_read import cache_read
from mlcnb.tir.schedule.primitives.cache_write import cache_write
from mlcnb.tir.schedule.primitives.compute_at import compute_at
from mlcnb.tir.schedule.primitives.compute_inline import compute_inline
from mlcnb.tir.schedule.primitives.decompose_padding import decompose_padding
from mlcnb.tir.schedule.primitives.decompose_reduction import decompose_reduction
from mlcnb.tir.schedule.primitives.fuse import fuse
from mlcnb.tir.schedule.primitives.fuse_reduction_epilogue import fuse_reduction_epilogue
from mlcnb.tir.schedule.primitives.inspect import (
    get_block,
    get_child_blocks,
    get_consumers,
    get_loops,
    get_output_blocks,
    get_producers,
)
from mlcnb.tir.schedule.primitives.loop_partition import loop_partition
from mlcnb.tir.schedule.primitives.merge import merge
from mlcnb.tir.schedule.primitives.pad_einsum import pad_einsum
from mlcnb.tir.schedule.primitives.parallel import parallel
from mlcnb.tir.schedule.primitives.read_at import read_at
from mlcnb.tir.schedule.primitives.reindex import reindex
from mlcnb.tir.schedule.primitives.reindex_cache_read import reindex_cache_read
from mlcnb.tir.schedule.primitives.reindex_cache_write import reindex_cache_write
from mlcnb.tir.schedule.primitives.reorder import reorder
from mlcnb.tir.schedule.primitives.reorder_block_iter_var import reorder_block_iter_var
from mlcnb.tir.schedule.primitives.reverse_compute_at import reverse_compute_at
from mlcnb.tir.schedule.primitives.reverse_compute_inline import reverse_compute_inline
from mlcnb.tir.schedule.primitives.rfactor import rfactor
from mlcnb.tir.schedule.primitives.rolling_buffer import rolling_buffer
from mlcnb.tir.schedule.primitives.sample import (
    sample_categorical,
    sample_compute_location,
    sample_partitioned_tile,
    sample_perfect_tile,
)
from mlcnb.tir.schedule.primitives.set_axis_separator import set_axis_separator
from mlcnb.tir.schedule.primitives.set_dtype import set_dtype, unsafe_set_dtype
from mlcnb.tir.schedule.primitives.set_scope import set_scope
from mlcnb.tir.schedule.primitives.split import split
from mlcnb.tir.schedule.primitives.storage_align import storage_align
from mlcnb.tir.schedule.primitives.tensorize import tensorize
from mlcnb.tir.schedule.primitives.transform_block_layout import transform_block_layout
from mlcnb.tir.schedule.primitives.transform_layout import transform_layout
from mlcnb.tir.schedule.primitives.unroll import unroll
from mlcnb.tir.schedule.primitives.unsafe_hide_buffer_access import unsafe_hide_buffer_access
from mlcnb.tir.schedule.primitives.vectorize import vectorize
from mlcnb.tir.schedule.primitives.write_at import write_at

__all__ = [
    "add_unit_loop",
    "annotate",
    "annotate_buffer_access",
    "bind",
    "blockize",
    "cache_index",
    "cache_inplace",
    "cache_read",
    "cache_write",
    "compute_at",
    "compute_inline",
    "decompose_padding",
    "decompose_reduction",
    "fuse",
    "fuse_reduction_epilogue",
    "get_block",
    "get_child_blocks",
    "get_consumers",
    "get_loops",
    "get_output_blocks",
    "get_producers",
    "loop_partition",
    "merge",
    "pad_einsum",
    "parallel",
    "read_at",
    "reindex",
    "reindex_cache_read",
    "reindex_cache_write",
    "reorder",
    "reorder_block_iter_var",
    "reverse_compute_at",
    "reverse_compute_inline",
    "rfactor",
    "rolling_buffer",
    "sample_categorical",
    "sample_compute_location",
    "sample_partitioned_tile",
    "sample_perfect_tile",
    "set_axis_separator",
    "set_dtype",
    "set_scope",
    "split",
    "storage_align",
    "tensorize",
    "transform_block_layout",
    "transform_layout",
    "unannotate",
    "unroll",
    "unsafe_hide_buffer_access",
    "unsafe_set_dtype",
    "vectorize",
    "write_at",
]

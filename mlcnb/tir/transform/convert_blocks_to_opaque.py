"""ConvertBlocksToOpaque: the axes of blocks are replaced by the values that they are bound to.

with T.block("C"):
    vi = T.axis.spatial(16, i * 4 + j)   ->     with T.block("C"):
    C[vi] = A[vi]                                   C[i * 4 + j] = A[i * 4 + j]
"""

from __future__ import annotations

from mlcnb.core.node import Node, replace
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import rewrite_statements, substitute
from mlcnb.tir.stmt import BlockRealize


def convert_blocks_to_opaque(func: PrimFunc) -> PrimFunc:
    """`func` with every block's axes substituted by their binding values."""
    return func.with_body(rewrite_statements(func.body, _convert))


def _convert(n: Node) -> Node | None:
    if not isinstance(n, BlockRealize) or not n.block.iter_vars:
        return None
    values = {axis.var: value for axis, value in zip(n.block.iter_vars, n.iter_values, strict=True)}
    bare = replace(n.block, iter_vars=())
    return BlockRealize((), n.predicate, substitute(bare, values))


class ConvertBlocksToOpaque(PrimFuncPass):
    """Replace the axes of blocks by the values that they are bound to."""

    work = staticmethod(convert_blocks_to_opaque)

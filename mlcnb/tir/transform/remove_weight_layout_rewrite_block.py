"""RemoveWeightLayoutRewriteBlock: weights come in the layout that they are used in.

def main(B: T.Buffer((16, 16))):                     def main(B: T.Buffer((16, 4, 4))):
    B_ = T.alloc_buffer((16, 4, 4))                      with T.block("layout_rewrite"):
    with T.block("layout_rewrite"):                          T.evaluate(0)
        T.block_attr({"meta_schedule.layout_…": True})   ... use B
        B_[i1, i0 // 4, i0 % 4] = B[i0, i1]    ->
    ... use B_

Who calls the function rewrites the weights beforehand. Only parameters that the attribute
`layout_free_buffers` counts are changed.
"""

from __future__ import annotations

from mlcnb.core.errors import PassError
from mlcnb.core.node import FrozenDict, Node, replace, rewrite, walk
from mlcnb.ir.expr import Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.escapes import escapes
from mlcnb.tir.analysis.structure import blocks_of
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import NOTHING
from mlcnb.tir.stmt import Block, BufferStore

#: annotation of a block that rewrites a weight
REWRITES = "meta_schedule.layout_rewrite_preproc"


def remove_weight_layout_rewrites(func: PrimFunc) -> PrimFunc:
    """`func` with rewritten weights as its parameters.

    Raises:
        PassError: a marked block is no copy of a parameter that may have any layout, or somebody
            else reads that parameter too.
    """
    free = {func.params[int(i)] for i in func.attrs.get("layout_free_buffers", ())}
    weights: dict[Buffer, Buffer] = {}
    for block in [x.block for x in blocks_of(func)]:
        if REWRITES in block.annotations:
            source, target = _copied(func, block)
            _check_source(func, block, source, free)
            weights[source] = replace(target, name=source.name, data=source.data)
            func = _by_weight(func, block, target, weights[source])
    params = {x: weights.get(b, b) for x, b in func.buffer_map.items()}
    return replace(func, buffer_map=FrozenDict(params)) if weights else func


def _copied(func: PrimFunc, block: Block) -> tuple[Buffer, Buffer]:
    """What a marked block copies, and where to."""
    match block.body:
        case BufferStore(buffer=target, value=BufferLoad(buffer=source)):
            return source, target
    raise _refusal(func, block, "is more than a copy")


def _check_source(func: PrimFunc, block: Block, source: Buffer, free: set[Var]) -> None:
    if not any(b is source and x in free for x, b in func.buffer_map.items()):
        raise _refusal(func, block, f"rewrites {source.name}, which is no layout-free parameter")
    loads = [n for n in walk(func.body) if isinstance(n, BufferLoad) and n.buffer is source]
    if len(loads) != 1 or any(x.data is source.data for x in escapes(func)):
        raise _refusal(func, block, f"rewrites {source.name}, which others read too")


def _by_weight(func: PrimFunc, marked: Block, target: Buffer, weight: Buffer) -> PrimFunc:
    """The function with a parameter in the place of the copy."""

    def rule(n: Node) -> Node | None:
        if n is target:
            return weight
        if isinstance(n, Block) and any(b is weight or b is target for b in n.alloc_buffers):
            kept = tuple(b for b in n.alloc_buffers if b is not weight and b is not target)
            return replace(n, alloc_buffers=kept)
        return None

    def enter(n: Node) -> Node | None:
        if n is marked:
            return replace(marked, reads=(), writes=(), body=NOTHING)
        return None

    return func.with_body(rewrite(func.body, rule, enter=enter))


def _refusal(func: PrimFunc, block: Block, message: str) -> PassError:
    return PassError(
        f"RemoveWeightLayoutRewriteBlock: block {block.name_hint} {message}", where=block, root=func
    )


class RemoveWeightLayoutRewriteBlock(PrimFuncPass):
    """Take weights in the layout that they are used in, and remove the blocks that rewrite them.

    skip_ndarray_rewrite: kept for TVM's sake; constants of a graph are never touched here.
    """

    skip_ndarray_rewrite: bool = False

    work = staticmethod(remove_weight_layout_rewrites)

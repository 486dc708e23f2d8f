"""suggest_layout_transforms: what follows from new layouts of a loop function's results.

A: (n, c, h, w)      relu[n, c, h, w] = max(A[n, c, h, w], 0)      relu to (n, h, w, c)

    {block: {block: (n, c, h, w) -> (n, h, w, c), A: the same, relu: the same}}

From the last block to the first: a block goes through its places in the order in which its result
lies then, and a buffer that it reads by those places is laid out the same way; that may be the
result of a block before. What is not read place by place stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlcnb.core.errors import ArgumentError
from mlcnb.core.node import Node, rewrite, walk
from mlcnb.core.text import kind_of
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.index_map import IndexMap
from mlcnb.tir.stmt import Block, BufferStore, IterType

#: for each block: the maps of its loops (by the block itself), of the buffers that it reads, and
#: of the result that it writes
Suggested = dict[Block, dict[Block | Buffer, IndexMap]]


def suggest_layout_transforms(
    func: PrimFunc, write_buffer_transforms: Sequence[IndexMap | Callable[..., Any]]
) -> Suggested:
    """Index maps for the blocks of a loop function and the buffers that they read, where its
    results are laid out by `write_buffer_transforms`, one map or function a result.

    They are what `Schedule.transform_block_layout` and `transform_layout` take. Nested blocks, and
    blocks that write several buffers or not one element a place, get none.

    Without any map there is nothing to suggest.

    Raises:
        ArgumentError: there are as many maps as the function has results, not another number; a map
            takes as many indices as its buffer has dimensions.
    """
    written = {s.buffer for s in _stores(func.body)}
    results = [b for p in func.params if (b := func.buffer_map.get(p)) in written and b is not None]
    if not write_buffer_transforms:
        return {}
    if len(results) != len(write_buffer_transforms):
        raise ArgumentError(
            f"Incompatible PrimFunc and write_transformations: {len(results)} results, "
            f"{len(write_buffer_transforms)} maps",
            hint="one map for each buffer that the function writes",
        )
    pairs = zip(results, write_buffer_transforms, strict=True)
    layouts = {b: _index_map(given, b) for b, given in pairs}
    found: Suggested = {}
    for block in reversed(_flat_blocks(func)):
        made = _suggested(block, layouts)
        if made:
            own: Any = block.writes[0].buffer if block.writes else None
            if own in results:
                made[own] = layouts[own]
            found[block] = made
    return found


def _index_map(given: Any, buffer: Buffer) -> IndexMap:
    if not isinstance(given, IndexMap) and not callable(given):
        raise ArgumentError(
            f"{kind_of(given)} is no layout of {buffer.name}",
            hint="an IndexMap, or a function of its indices",
        )
    kind = str(buffer.shape[0].dtype) if buffer.shape else "int64"
    made = given
    if not isinstance(given, IndexMap):
        made = IndexMap.from_func(given, ndim=len(buffer.shape), index_dtype=kind)
    if len(made.initial_indices) != len(buffer.shape):
        raise ArgumentError(
            f"Mismatch between output buffer shape and index map: {buffer.name} has "
            f"{len(buffer.shape)} dimensions, the map takes {len(made.initial_indices)}"
        )
    return made


def _flat_blocks(func: PrimFunc) -> list[Block]:
    """The blocks in order; none where one stands in another (but for the root)."""
    blocks = [n for n in walk(func.body) if isinstance(n, Block) and n.iter_vars]
    nested = any(n is not b and isinstance(n, Block) for b in blocks for n in walk(b))
    return [] if nested else blocks


def _stores(body: Node) -> list[BufferStore]:
    return [n for n in walk(body) if isinstance(n, BufferStore)]


def _suggested(block: Block, layouts: dict[Buffer, IndexMap]) -> dict[Block | Buffer, IndexMap]:
    stores = _stores(block)
    buffer = stores[0].buffer if stores else None
    layout = layouts.get(buffer) if buffer is not None else None
    spatial = [v.var for v in block.iter_vars if v.iter_type is IterType.SPATIAL]
    if layout is None or any(tuple(s.indices) != tuple(stores[0].indices) for s in stores):
        return {}
    places = list(stores[0].indices)
    if any(s.buffer is not buffer for s in stores) or not _are_each(places, spatial):
        return {}
    rest = [v.var for v in block.iter_vars if v.iter_type is not IterType.SPATIAL]
    moved = _moved(layout, places)
    made: dict[Block | Buffer, IndexMap] = {block: _map_of([*spatial, *rest], [*moved, *rest])}
    for read in {n.buffer: None for n in walk(block) if isinstance(n, BufferLoad)}:
        loads = [n for n in walk(block) if isinstance(n, BufferLoad) and n.buffer is read]
        found = None if read is buffer else _of_read(loads, spatial, moved)
        if found is not None and (read not in layouts or layouts[read].is_equivalent_to(found)):
            made[read] = layouts[read] = found
    return made


def _are_each(places: list[PrimExpr], variables: list[Var]) -> bool:
    """True if the places are the variables, each once, in any order."""
    return len(places) == len(variables) and {id(p) for p in places} == {id(v) for v in variables}


def _moved(layout: IndexMap, places: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Where the element at `places` lies in the new layout."""
    given = dict(zip(layout.initial_indices, places, strict=True))
    return [_renamed(x, given) for x in layout.final_indices]


def _renamed(x: PrimExpr, given: dict[Any, Any]) -> PrimExpr:
    return rewrite(x, lambda n: given.get(n) if isinstance(n, Var) else None)


def _map_of(old: Sequence[Var], new: Sequence[PrimExpr]) -> IndexMap:
    """The map from variables to expressions of them, with variables of its own."""
    fresh = {v: Var(v.name, v.dtype) for v in old}
    return IndexMap(tuple(fresh.values()), tuple(_renamed(x, fresh) for x in new))


def _of_read(loads: list[BufferLoad], spatial: list[Var], moved: list[PrimExpr]) -> IndexMap | None:
    """The layout of a buffer, where each of its dimensions is read by a place of its own."""
    ways = [[_place(index, spatial) for index in load.indices] for load in loads]
    way = ways[0]
    if any(other != way for other in ways) or None in way or len(set(way)) != len(way):
        return None
    dims = {v: Var(f"i{at}", v.dtype) for at, v in enumerate(v for v in way if v is not None)}
    kept = []
    for x in moved:
        used = [v for v in walk(x) if isinstance(v, Var)]
        inside = [v in dims for v in used]
        if used and all(inside):
            kept.append(_renamed(x, dims))
        elif any(inside):
            return None
    return IndexMap(tuple(dims.values()), tuple(kept))


def _place(index: PrimExpr, spatial: list[Var]) -> Var | None:
    """The one place that an index is made of, beside what a reduction runs through."""
    if any(isinstance(n, BufferLoad) for n in walk(index)):
        return None
    found = {v: None for v in walk(index) if isinstance(v, Var) and v in spatial}
    return next(iter(found)) if len(found) == 1 else None

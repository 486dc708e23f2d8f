"""Several steps in one: the loops of a block cut to the size of an intrinsic.

C of 1024 x 1024 x 1024, dot_16x4_vnni:   loops i, j_0, k_0, j_1 of 16, k_1 of 4
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir import prim_ops as p
from mlcnb.tir.function import TensorIntrin
from mlcnb.tir.schedule.analysis.mapping import get_tensorize_loop_mapping


def tile_with_tensor_intrin(sch: Any, block: Any, intrin_name: str) -> Any:
    """Cut the loops that an intrinsic can take to its size, and bring the cut parts inside.

    Args:
        sch: the schedule, which is changed.
        block: a handle of the block.
        intrin_name: the name of a registered tensor intrinsic.

    Returns:
        The outermost loop of the intrinsic's, which `tensorize` takes; None where the block has no
        loops of that form, and nothing is changed.
    """
    intrinsic = TensorIntrin.get(intrin_name)
    assert intrinsic is not None
    description = intrinsic.desc
    info = get_tensorize_loop_mapping(sch, block, description, allow_padding=True)
    if info is None:
        return None
    if info.block_iter_paddings is not None:
        sch.pad_einsum(block, list(info.block_iter_paddings))
        info = get_tensorize_loop_mapping(sch, block, description)
        assert info is not None
    tiles: dict[int, Any] = {}
    outside: list[Any] = []
    pairs = [(loop, info.loop_map.get(sch.get(loop))) for loop in sch.get_loops(block)]
    for loop, taken in pairs:
        if taken is not None:
            loop, tile = sch.split(loop, [None, p.as_int(taken.extent)])
            tiles[info.desc_loop_indexer[taken]] = tile
        if tiles:
            outside.append(loop)
    inner = [tile for _, tile in sorted(tiles.items())]
    sch.reorder(*outside, *inner)
    return inner[0]

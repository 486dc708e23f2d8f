"""storage_align: rows of a buffer start at chosen distances, against bank conflicts.

B[i, j] with a row of 128 elements, storage_align(block, 0, axis=0, factor=32, offset=8)
    ->  T.block_attr({"buffer_dim_align": [[0, 0, 32, 8]]}): a row takes 136 elements in memory
"""

from __future__ import annotations

from mlcnb.core.node import FrozenDict
from mlcnb.tir.schedule.edit.caching import chosen_buffer, refuse_parameter
from mlcnb.tir.schedule.legality.pointers import refuse_held
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.site import Site
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block

KEY = "buffer_dim_align"


def _axes(site: Site) -> range:
    return range(max((len(r.region) for r in site.block.writes), default=0))


@does(still=True, tries={"axis": _axes, "factor": (32,), "offset": (8,)})
def storage_align(
    state: State, block: Block, buffer_index: int, axis: int, factor: int, offset: int
) -> Change:
    """Ask that the stride of `axis` be k * factor + offset elements.

    The shape stays; the buffer takes more memory where it is lowered.

    Args:
        state: the program.
        block: a block that writes the buffer.
        buffer_index: which of its outputs.
        axis: the dimension; negative counts from the end.
        factor: the stride is a multiple of it …
        offset: … plus this.

    Raises:
        ScheduleError: there is no such axis, the factor is not positive, the buffer is a parameter,
            or the annotation that is there is none of this kind.
    """
    buffer = chosen_buffer(state, "storage_align", block, block.writes, buffer_index)
    place = axis + buffer.ndim if axis < 0 else axis
    if not 0 <= place < buffer.ndim:
        raise state.refusal(
            f"storage_align: {buffer.name} has no axis {axis}, it has {buffer.ndim}", block
        )
    if factor <= 0:
        raise state.refusal(f"storage_align: the factor {factor} is not positive", block)
    refuse_parameter(state, "storage_align", block, buffer)
    refuse_held(state, "storage_align", buffer)
    kept = [x for x in _marked(state, block) if (x[0], x[1]) != (buffer_index, place)]
    marks = {**block.annotations, KEY: (*kept, (buffer_index, place, factor, offset))}
    return state.updated(block, annotations=FrozenDict(marks))


def _marked(state: State, block: Block) -> tuple[tuple, ...]:
    """What the block is annotated with already."""
    marks = block.annotations.get(KEY, ())
    if not isinstance(marks, tuple) or not all(isinstance(x, tuple) and len(x) == 4 for x in marks):
        raise state.refusal(
            f"storage_align: the annotation {KEY} of {name_of(block)} is no list of "
            f"[buffer, axis, factor, offset]: {marks}",
            block,
            hint=f'unannotate(block, "{KEY}")',
        )
    return marks

"""matmul: products of matrices and convolutions, in tiles that a block of threads shares.

for i, j, k: C[i, j] += A[i, k] * B[k, j]    each block 64 x 64 of C, each thread 4 x 4 of these:
for i, j: D[i, j] = max(C[i, j], 0)          for k_0 in range(…):
                                       ->        A_shared[64, 16], B_shared[16, 64] = …   together
                                                 for k_1, i, j: c[i, j] += A_shared[…] * B_…[…]
                                             D[…] = max(c[…], 0)

Axes are told apart by the operands that they stand in: both and the result (batch), one and the
result (rows, columns), both and not the result (k). Several of a kind are one loop, so that a
convolution is the product of its weights with the windows of the image (implicit GEMM): `reindex`
writes each operand over the axes, and what it writes lives in shared memory only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mlcnb.core.node import walk
from mlcnb.dlight.gpu.threads import most_threads, product
from mlcnb.dlight.survey import BlockInfo, Survey
from mlcnb.ir import expr as e
from mlcnb.target import Target
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.index_map import IndexMap
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.stmt import BufferStore

#: threads along the rows and columns of a tile, elements of a thread along each, steps of k
THREADS, EACH, STEP = 16, 4, 16
#: a side of a result that is shorter leaves too much of a tile unused
SHORT = 16


class Axes(NamedTuple):
    """The axes of a product's block, by their numbers."""

    batch: list[int]
    rows: list[int]
    columns: list[int]
    reduced: list[int]


def matmul(sch: Schedule, survey: Survey, target: Target) -> bool:
    """Apply to one product with what feeds it and what is done with it element by element."""
    anchor = survey.anchor
    if anchor is None or None in anchor.extents or most_threads(target) < THREADS * THREADS:
        return False
    if not all(b.is_spatial for b in survey.blocks if b is not anchor):
        return False
    axes = axes_of(anchor)
    if axes is None or not _is_worth_it(anchor, axes):
        return False
    block, rank = anchor.handle, len(anchor.extents)
    copies = [
        _over_axes(sch, anchor, ("read", n), [axes.batch, side, axes.reduced])
        for n, side in _operands(anchor, axes)
    ]
    out = _over_axes(sch, anchor, ("write", 0), [axes.batch, axes.rows, axes.columns])
    sch.transform_block_layout(block, _fused(anchor, range(rank), axes))
    for before in reversed(survey.before(anchor)):
        sch.compute_inline(before.handle)
    for after in survey.after(anchor):
        sch.reverse_compute_inline(after.handle)
    _tiled(sch, block, out, copies)
    return True


def axes_of(block: BlockInfo) -> Axes | None:
    """The axes of a block that adds products of two operands; None for any other block.

    The result's last index is among the columns, so that neighbouring threads write side by side.
    """
    store: Any = block.node.body
    factors = _factors(store)
    if factors is None:
        return None
    used = [{n for i in load.indices for n in walk(i)} for load in factors]
    found = Axes([], [], [], [])
    for number, (axis, kind) in enumerate(zip(block.node.iter_vars, block.kinds, strict=True)):
        in_both = [axis.var in names for names in used]
        if kind == "R":
            if not all(in_both):
                return None
            found.reduced.append(number)
        elif all(in_both):
            found.batch.append(number)
        elif any(in_both):
            found[1 if in_both[0] else 2].append(number)
        else:
            return None
    last = set(walk(store.indices[-1]))
    if any(block.node.iter_vars[n].var in last for n in found.rows):
        found = found._replace(rows=found.columns, columns=found.rows)
    return found if found.rows and found.columns and found.reduced else None


def _factors(store: Any) -> list[BufferLoad] | None:
    """The two loads of `C[…] = C[…] + a * b`, as they are or cast."""
    if not isinstance(store, BufferStore) or not isinstance(store.value, e.Add):
        return None
    own, term = store.value.a, store.value.b
    if not isinstance(own, BufferLoad) or own.buffer is not store.buffer:
        return None
    if not isinstance(term, e.Mul):
        return None
    loads = [_uncast(term.a), _uncast(term.b)]
    same = all(isinstance(x, BufferLoad) for x in loads)
    return loads if same and loads[0].buffer is not loads[1].buffer else None


def _uncast(x: Any) -> Any:
    return _uncast(x.value) if isinstance(x, e.Cast) else x


def _is_worth_it(block: BlockInfo, axes: Axes) -> bool:
    sides = [product([block.extents[n] for n in side]) or 0 for side in axes]
    return sides[1] >= SHORT and sides[2] >= SHORT and sides[3] >= STEP


def _operands(block: BlockInfo, axes: Axes) -> list[tuple[int, list[int]]]:
    """For each operand the number of its region among the reads, and its side of the result."""
    factors = _factors(block.node.body) or []
    regions = [r.buffer for r in block.node.reads]
    made = []
    for load in factors:
        names = {n for i in load.indices for n in walk(i)}
        own = any(block.node.iter_vars[n].var in names for n in axes.rows)
        made.append((regions.index(load.buffer), axes.rows if own else axes.columns))
    return made


def _over_axes(
    sch: Schedule, block: BlockInfo, which: tuple[str, int], groups: list[list[int]]
) -> Any:
    """Write an operand, or the result, over the block's axes, those of a kind as one."""
    made = sch.reindex(block.handle, which)
    order = sorted(n for group in groups for n in group)
    fused = _fused(block, order, groups)
    sch.transform_layout(block.handle, which, fused)
    sch.transform_block_layout(made, fused)
    return made


def _fused(block: BlockInfo, order: Sequence[int], groups: Sequence[Sequence[int]]) -> IndexMap:
    """The index map from axes, in their order, to one index for each group of them."""

    def indices(*given: Any) -> list[Any]:
        at = dict(zip(order, given, strict=True))
        return [_as_one(group, at.__getitem__, block.extents) for group in groups]

    return IndexMap.from_func(indices, ndim=len(order))


def _as_one(group: Sequence[int], of: Callable[[int], Any], extents: Sequence[Any]) -> Any:
    total: Any = 0
    for n in group:
        total = total * extents[n] + of(n)
    return total


def _tiled(sch: Schedule, block: Any, out: Any, copies: list[Any]) -> None:
    """Tiles of the result for blocks of threads, operands through shared memory in steps of k."""
    batch, rows, columns, reduced = sch.get_loops(block)
    i_0, i_1, i_2 = sch.split(rows, [None, THREADS, EACH])
    j_0, j_1, j_2 = sch.split(columns, [None, THREADS, EACH])
    k_0, k_1 = sch.split(reduced, [None, STEP])
    sch.reorder(batch, i_0, j_0, i_1, j_1, k_0, k_1, i_2, j_2)
    sch.reverse_compute_at(out, j_1)
    sch.decompose_reduction(block, k_0)
    for made, scope in ((block, "local"), *((copy, "shared") for copy in copies)):
        sch.set_scope(made, 0, scope)
    # each step that moves what is in a bound loop has to prove anew that its threads are free: only
    # those that share a fetch are bound before it
    sch.bind(i_1, "threadIdx.y")
    sch.bind(j_1, "threadIdx.x")
    for copy in copies:
        sch.compute_at(copy, k_0)
        whole = sch.fuse(*sch.get_loops(copy)[-2:])
        _, y, x = sch.split(whole, [None, THREADS, THREADS])
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
    for loop, place in zip(
        (batch, i_0, j_0), ("blockIdx.z", "blockIdx.y", "blockIdx.x"), strict=True
    ):
        sch.bind(loop, place)

"""loop_partition: the range of a loop is cut into parts, a loop for each, one after the other.

                                       with T.block("B_i_common"):
for i in range(128):                       with T.block("B_i0_partition"):
    with T.block("B"):                         for i0 in range(112):
        vi = T.axis.spatial(128, i)   ->           with T.block("B_i0"):
        B[vi] = A[vi]                                  vi = T.axis.spatial(112, i0)
                                           with T.block("B_i1_partition"):
                                               for i1 in range(112, 128):
                                                   with T.block("B_i1"): ...

The order of iterations stays, so this is always legal. A part that a reduction does not begin in
has no init. Unlike in TVM, the new blocks around the parts say what is read and written in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlcnb.arith.extremes import at_most
from mlcnb.arith.reading import of
from mlcnb.arith.sum import ONE, ZERO, Bounds, Sum
from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.reducers import update_of
from mlcnb.tir.schedule.edit.elementwise import refreshed, within_buffers
from mlcnb.tir.schedule.edit.rebuild import FreshCopy
from mlcnb.tir.schedule.legality.regions import dimensions, known_bounds
from mlcnb.tir.schedule.primitives.split import is_fraction, refuse_marked, tiles
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import listed, name_of, text_of
from mlcnb.tir.schedule.record.site import Site
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, BlockRealize, For, ForKind, IterType, IterVar, Stmt, seq

Known = Mapping[e.Var, Bounds]


def _pieces(site: Site) -> list[list[Any]]:
    """[n, None] for the divisors of the loop's extent."""
    return [[n, rest] for rest, n in tiles(site)]


@does(tries={"factors": _pieces})
def loop_partition(
    state: State, loop: For, factors: Sequence[Any], preserve_unit_iters: bool = True
) -> Change:
    """Cut the range of a loop into parts of the given lengths.

    The extent and the lengths may be symbolic, where the parts are proved to lie in the loop.

    Args:
        state: the program.
        loop: a loop that is not bound or annotated.
        factors: the lengths, in order. One may be None and is then what remains; without None,
            what remains is one part more.
        preserve_unit_iters: accepted for TVM's sake; parts of one iteration stay loops.

    Returns:
        The loops, one for each part. The blocks inside get the name of their part (`B_i0`); the
        handles of the old ones are gone.

    Raises:
        ScheduleError: the lengths do not lie inside the loop, or it is bound or annotated.
    """
    refuse_marked(state, "loop_partition", loop)
    blocks = state.tree.blocks_under(loop)
    if not blocks:
        raise state.refusal(f"loop_partition: {name_of(loop)} holds no block", loop)
    cuts = _cuts(state, loop, list(factors))
    base = f"{blocks[0].name_hint}_{loop.loop_var.name}"
    known = known_bounds(state.tree, state.tree.parent[loop])
    first = of(loop.min)
    parts, loops = [], []
    for n, (start, end) in enumerate(zip(cuts, cuts[1:], strict=False)):
        made = _Part(loop, n, first.plus(start), end.minus(start), known).stmt(loop)
        loops.append(made)
        parts.append(_wrapped(f"{base}{n}_partition", made, made))
    edit = state.edit()
    edit.put(loop, _wrapped(f"{base}_common", seq(*parts), loop))
    return Change.of(edit, loops)


def _wrapped(name: str, body: Stmt, seen: Stmt) -> BlockRealize:
    """A block without axes around `body`, which says that it reads and writes what `seen` does."""
    block = within_buffers(refreshed(Block((), (), (), name, seen)))
    return BlockRealize((), p.const(True), replace(block, body=body))


def _cuts(state: State, loop: For, factors: list[Any]) -> list[Sum]:
    """Where the parts begin and end, counted from the first iteration."""
    if sum(f is None for f in factors) > 1:
        raise state.refusal(
            f"loop_partition: more than one of the factors {listed(factors)} is None", loop
        )
    odd = [f for f in factors if not isinstance(f, int | e.PrimExpr | None) or is_fraction(f)]
    if odd:
        raise state.refusal(f"loop_partition: factor {odd[0]} is no integer", loop)
    lengths = [None if f is None else of(p.as_expr(f, loop.loop_var.dtype)) for f in factors]
    total = Sum(0)
    for length in lengths:
        if length is not None:
            total = total.plus(length)
    rest = of(loop.extent).minus(total)
    counts = [rest if x is None else x for x in lengths]
    if None not in lengths:
        counts.append(rest)
    known = {**known_bounds(state.tree, loop), **dimensions(state.func)}
    for n, length in enumerate(counts):
        if not at_most(ONE if length.value is not None else ZERO, length, known):
            many = text_of(length.expr(loop.loop_var.dtype))
            raise state.refusal(
                f"loop_partition: the factors {listed(factors)} do not cut {name_of(loop)} of "
                f"extent {text_of(loop.extent)}: part {n} would have {many} iterations",
                loop,
                hint="give lengths whose sum is less than the extent, or None for one of them",
            )
    cuts = [Sum(0)]
    for length in counts:
        cuts.append(cuts[-1].plus(length))
    return cuts


class _Part(FreshCopy):
    """The loop over one part of its range, with all variables, axes and names of its own."""

    def __init__(self, loop: For, number: int, first: Sum, count: Sum, known: Known) -> None:
        super().__init__({})
        self.loop = loop
        self.name = f"{loop.loop_var.name}{number}"
        self.first = first
        self.count = count
        self.known = dict(known)

    def on_For(self, n: For) -> Any:
        """The loop itself gets another range; loops inside keep theirs."""
        first, count = (self.first, self.count) if n is self.loop else (of(n.min), of(n.extent))
        name = self.name if n is self.loop else n.loop_var.name
        kind = n.loop_var.dtype
        low, extent = self.expr(first.expr(kind)), self.expr(count.expr(kind))
        fresh = self.renew(n.loop_var, name)
        self.known[fresh] = self._ends(of(low), of(extent))
        if n is self.loop:
            n = replace(n, kind=ForKind.SERIAL)
        return replace(n, loop_var=fresh, min=low, extent=extent, body=self.stmt(n.body))

    def _ends(self, first: Sum, count: Sum) -> Bounds:
        last = first.plus(count).shifted(-1)
        return first.bounds(self.known)[0], last.bounds(self.known)[1]

    def on_BlockRealize(self, n: BlockRealize) -> Any:
        """Axes keep to the values that the part gives them."""
        values = self.exprs(n.iter_values)
        block = self.stmt(n.block)
        ends = [of(v).bounds(self.known) for v in values]
        block = _confined(block, ends)
        return replace(n, iter_values=values, predicate=self.expr(n.predicate), block=block)

    def on_Block(self, n: Block) -> Any:
        """Blocks are named after the part."""
        for axis in n.iter_vars:
            self.known[axis.var] = self._ends(of(axis.dom.min), of(axis.dom.extent))
        new = super().on_Block(n)
        for old, axis in zip(n.iter_vars, new.iter_vars, strict=True):
            self.known[axis.var] = self.known[old.var]
        return replace(new, name_hint=f"{n.name_hint}_{self.name}")


def _confined(block: Block, ends: list[Bounds]) -> Block:
    """The block with domains cut to the values that its axes take, and without an init that never
    runs.

    The init of a reduction runs at the first value of the domain of each reduce axis: where it
    may, those domains stay.
    """
    begins = all(
        axis.iter_type is not IterType.REDUCE or _may_begin(axis, end)
        for axis, end in zip(block.iter_vars, ends, strict=True)
    )
    axes = tuple(
        _cut(axis, end) if axis.iter_type is not IterType.REDUCE or not begins else axis
        for axis, end in zip(block.iter_vars, ends, strict=True)
    )
    block = replace(block, iter_vars=axes)
    return block if begins or block.init is None else update_of(block)


def _may_begin(axis: IterVar, ends: Bounds) -> bool:
    start = p.as_int(axis.dom.min)
    return start is None or ends[0] is None or ends[0] <= start


def _cut(axis: IterVar, ends: Bounds) -> IterVar:
    low, high = ends
    first, count = p.as_int(axis.dom.min), p.as_int(axis.dom.extent)
    if low is None or high is None or first is None or count is None:
        return axis
    low, high = max(low, first), min(high, first + count - 1)
    if (low, high) == (first, first + count - 1) or high < low:
        return axis
    kind = axis.var.dtype
    return replace(axis, dom=e.Range(p.const(low, kind), p.const(high - low + 1, kind)))

"""fuse: a perfect nest becomes one loop.

for i, j in T.grid(8, 4):       for i_j_fused in range(32):
    with T.block("S"):    ->        with T.block("S"):
        vi, vj = i, j                   vi, vj = i_j_fused // 4, i_j_fused % 4

What was split and is fused again gets its old text back: i_0 * 4 + i_1 becomes i_0_i_1_fused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mlcnb.arith.reading import Context, of, simplified
from mlcnb.arith.sum import ZERO, Bounds, Sum
from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.schedule.edit.rebuild import Substitution
from mlcnb.tir.schedule.legality.regions import known_bounds
from mlcnb.tir.schedule.primitives.split import refuse_marked
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import name_of, text_of
from mlcnb.tir.schedule.record.site import Named, Site
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import For, ForKind

#: characters of a name that is put together from the names of the loops
LONGEST = 80


def _chains(site: Site) -> Iterator[list[Named]]:
    """The loop with one, two, … of those below it."""
    around = [x for x in site.loops if x.node in site.tree.loops(site.block)]
    start = next((n for n, x in enumerate(around) if x.node is site.target.node), 0)
    yield from (around[start:stop] for stop in range(start + 2, len(around) + 1))


@does(still=True, near="reorder split", tries={"loops": _chains})
def fuse(state: State, *loops: For, preserve_unit_iters: bool = True) -> Change:
    """Fuse consecutive loops, given from the outside in, into one serial loop.

    Args:
        state: the program.
        loops: at least one loop; each is the whole body of the one before.
        preserve_unit_iters: keep loops of extent 1 in the bindings of blocks.

    Raises:
        ScheduleError: the loops are no perfect nest, start elsewhere than 0, are bound or
            annotated,
            or the extent of one depends on another.
    """
    if not loops:
        raise state.refusal("fuse: no loops given")
    _refuse(state, loops)
    dtype = loops[0].loop_var.dtype
    name = _name(loops)
    fused = e.Var(name, dtype)
    extent: e.PrimExpr = p.const(1, dtype)
    for x in loops:
        extent = simplified(p.multiply(extent, x.extent))
    known = known_bounds(state.tree, loops[-1])
    size = p.as_int(extent)
    known[fused] = (0, None if size is None else size - 1)
    edit = state.edit()
    digits = _digits(fused, loops, known)
    if size == 1 and not preserve_unit_iters:
        digits = {x.loop_var: ZERO for x in loops}
    context = Context(known, digits)
    body = Substitution(context, edit.forward).stmt(loops[-1].body)
    made = replace(loops[0], loop_var=fused, extent=extent, kind=ForKind.SERIAL, body=body)
    edit.put(loops[0], made)
    return Change.of(edit, made)


def _name(loops: Sequence[For]) -> str:
    """`i_j_fused`; shortened where it is long: a loop that is split and fused again and again would
    double its name each time.
    """
    names = [x.loop_var.name for x in loops]
    whole = "_".join(names) + "_fused"
    return whole if len(whole) <= LONGEST else f"{names[0][:20]}_to_{names[-1][-20:]}_fused"


def _refuse(state: State, loops: tuple[For, ...]) -> None:
    for x in loops:
        refuse_marked(state, "fuse", x)
        if p.as_int(x.min) != 0:
            raise state.refusal(f"fuse: {name_of(x)} starts at {text_of(x.min)}, not at 0", x)
    for outer, inner in zip(loops, loops[1:], strict=False):
        if outer.body is not inner:
            raise state.refusal(
                f"fuse: {name_of(inner)} is not the whole body of {name_of(outer)}",
                inner,
                hint="name all loops of the nest from the outside in, or reorder them first",
            )
        if of(inner.extent).uses({x.loop_var for x in loops}):
            raise state.refusal(
                f"fuse: the extent of {name_of(inner)} depends on the loops around it", inner
            )


def _digits(fused: e.Var, loops: Sequence[For], known: dict[e.Var, Bounds]) -> dict[e.Var, Sum]:
    """Each old variable as a digit of the fused one: fused % (step * extent) // step; of the first
    one that moves, fused // step, whatever its extent: the fused one goes no further.
    """
    values: dict[e.Var, Sum] = {}
    first = next((x for x in loops if p.as_int(x.extent) != 1), loops[0])
    step: e.PrimExpr = p.const(1, fused.dtype)
    for x in reversed(loops):
        above = simplified(p.multiply(x.extent, step))
        if p.as_int(x.extent) in (0, 1):  # at 0; where it never runs, any digit will do
            values[x.loop_var] = ZERO
        elif x is first:
            values[x.loop_var] = of(p.floordiv(fused, step), Context(known))
        else:
            digit: Any = p.floordiv(p.floormod(fused, above), step)
            values[x.loop_var] = of(digit, Context(known))
        step = step if p.as_int(x.extent) == 0 else above
    return values

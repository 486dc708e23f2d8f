"""When a block may be moved: what it must promise.

    complete block     every axis spatial, sole writer of its outputs, reads none of them, each
                       instance writes elements of its own: instances may run in any order, or twice
    reduction block    sole writer, an init, spatial axes index the output, reduce axes do not
    affine bindings    no two iterations of its loops run the same instance

Each test says None for "legal", or the reason in words. None is sure; a reason may be overcautious.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlcnb.arith.atoms import variables_of
from mlcnb.arith.digits import determined, injective
from mlcnb.arith.reading import Context, of
from mlcnb.arith.sum import Quotient, Sum
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.schedule.legality import boxes, regions
from mlcnb.tir.schedule.record.handles import name_of, names_of, text_of
from mlcnb.tir.schedule.record.tree import Tree


def is_output_block(tree: Tree, block: s.Block, scope: s.Block | None = None) -> bool:
    """True if the block writes a buffer that is not allocated in its scope."""
    scope = scope or tree.scope(block)
    return any(r.buffer not in scope.alloc_buffers for r in block.writes)


def written_buffers(block: s.Block) -> list[Buffer]:
    """The buffers that a block writes, each once."""
    return list(dict.fromkeys(r.buffer for r in block.writes))


def read_buffers(block: s.Block) -> list[Buffer]:
    """The buffers that a block reads, each once."""
    return list(dict.fromkeys(r.buffer for r in block.reads))


def why_not_sole_writer(tree: Tree, block: s.Block) -> str | None:
    """The reason why another block also writes an output of this one."""
    info = tree.info(tree.scope(block))
    for buffer in written_buffers(block):
        others = [b for b in info.writers[buffer] if b is not block]
        if others:
            return f"{names_of(others)} also writes {buffer.name}"
    return None


def why_ragged(tree: Tree, block: s.Block) -> str | None:
    """The reason why a block makes sense only where it stands: a domain that depends on a loop."""
    loops = {x.loop_var for x in tree.loops(block)}
    for axis in block.iter_vars:
        if of(axis.dom.extent).uses(loops) or of(axis.dom.min).uses(loops):
            return f"the domain of its axis {axis.var.name} depends on a loop"
    if loops and not block.iter_vars:
        used = next((n for n in walk(block) if n in loops), None)
        if used is not None:
            return f"it has no axes and uses {used.name}, the variable of a loop around it"  # type: ignore[attr-defined]
    return None


def why_offset(block: s.Block) -> str | None:
    """The reason why an axis is no index of a buffer of its extent: it does not start at 0."""
    for axis in block.iter_vars:
        if of(axis.dom.min).value != 0:
            return f"its axis {axis.var.name} starts at {text_of(axis.dom.min)}, not at 0"
    return None


def why_not_complete(tree: Tree, block: s.Block) -> str | None:
    """The reason why a block is not complete."""
    for axis in block.iter_vars:
        if axis.iter_type is not s.IterType.SPATIAL:
            return f"its axis {axis.var.name} is {axis.iter_type.name.lower()}, not spatial"
    both = [b.name for b in read_buffers(block) if b in written_buffers(block)]
    if both:
        return f"it reads {both[0]}, which it writes"
    reason = why_not_sole_writer(tree, block) or why_overwrites(tree, block)
    return reason or why_ragged(tree, block)


def why_not_reduction(tree: Tree, block: s.Block) -> str | None:
    """The reason why a block is not a reduction block."""
    if block.init is None:
        return "it has no init"
    kinds = {axis.iter_type for axis in block.iter_vars}
    if not kinds <= {s.IterType.SPATIAL, s.IterType.REDUCE}:
        return "it has axes that are neither spatial nor reduce"
    reducing = {v.var for v in block.iter_vars if v.iter_type is s.IterType.REDUCE}
    for region in block.writes:
        if any(of(side.min).uses(reducing) for side in region.region):
            return f"a reduce axis indexes {region.buffer.name}, which it writes"
    reason = why_not_sole_writer(tree, block) or why_overwrites(tree, block)
    reason = reason or why_late(tree, block) or why_skipped(tree, block)
    return reason or why_in_parts(tree, block) or why_ragged(tree, block)


def why_neither(tree: Tree, block: s.Block) -> str | None:
    """The reason why a block is neither complete nor a reduction block."""
    reason = why_not_complete(tree, block)
    if reason is None or why_not_reduction(tree, block) is None:
        return None
    if block.init is not None:
        return why_not_reduction(tree, block)
    return reason


def why_overwrites(tree: Tree, block: s.Block) -> str | None:
    """The reason why two instances may write the same element, other than steps of a reduction."""
    spatial = {v.var for v in block.iter_vars if v.iter_type is s.IterType.SPATIAL}
    known = regions.known_bounds(tree, block)
    for region in block.writes:
        starts = [(of(r.min), of(r.extent).shifted(-1).value) for r in region.region]
        found = determined(starts, spatial, known)
        missing = [v.name for v in spatial if v not in found and known[v] != (0, 0)]
        if missing:
            return (
                f"instances that differ in {', '.join(sorted(missing))} may write the same "
                f"element of {region.buffer.name}"
            )
    return None


def why_late(tree: Tree, block: s.Block) -> str | None:
    """The reason why the init of a reduction may not come in its first step."""
    context = regions.bindings(tree, block)
    for axis in block.iter_vars:
        value = context.values[axis.var]
        if axis.iter_type is s.IterType.REDUCE and any(c < 0 for c in value.terms.values()):
            return f"its reduce axis {axis.var.name} runs backwards"
    reducing = reduce_variables(tree, block)
    mixed = [
        x for x in tree.loops(block) if x.loop_var in reducing & spatial_variables(tree, block)
    ]
    if mixed and len(reducing) > 1:
        return f"{name_of(mixed[0])} runs over spatial and reduce axes at once"
    return None


def why_skipped(tree: Tree, block: s.Block) -> str | None:
    """The reason why the first step of a reduction, and with it the init, may be left out by the
    predicate though later steps run: what was there before is then updated.
    """
    reducing, context = reduce_variables(tree, block), regions.bindings(tree, block)
    starts = {x.loop_var: of(x.min) for x in tree.loops(block) if x.loop_var in reducing}
    for v in spatial_variables(tree, block):
        starts.pop(v, None)
    at_first = Context(context.bounds, starts)
    for condition in boxes.conjuncts(tree.realize(block).predicate):
        if reducing.isdisjoint(variables_of(condition)):
            continue
        gaps = [_gap(condition, x) for x in (context, at_first)]
        if gaps[0] is None or gaps[1] is None or not _rises(gaps[0], reducing):
            last = None if gaps[1] is None else gaps[1].bounds(context.bounds)[1]
            if last is None or last > 0:
                return f"its first step does not run unless {text_of(condition)}, nor does its init"
    return None


def _gap(condition: e.PrimExpr, context: Context) -> Sum | None:
    """A condition as X, where it says X <= 0."""
    limit = boxes.limit_of(condition, context)
    return None if limit is None else limit[0].minus(limit[1])


def _rises(x: Sum, variables: set[e.Var]) -> bool:
    """True if a sum never falls while `variables` grow: what holds further on held at the first."""
    for atom, coefficient in x.terms.items():
        part = Sum(0, {atom: coefficient})
        if part.uses(variables) and not (
            coefficient > 0
            and (
                isinstance(atom, e.Var)
                or (isinstance(atom, Quotient) and _rises(atom.inner, variables))
            )
        ):
            return False
    return True


def why_in_parts(tree: Tree, block: s.Block) -> str | None:
    """The reason why only a part of a reduction runs in one run of the scope that it stands in."""
    context = regions.bindings(tree, block)
    own = {x.loop_var for x in tree.loops(block)}
    for axis in block.iter_vars:
        outer = context.values[axis.var].variables() - own
        outer = {v for v in outer if context.bounds.get(v) not in (None, (0, 0))}
        if axis.iter_type is s.IterType.REDUCE and outer:
            names = ", ".join(sorted(v.name for v in outer))
            return (
                f"its reduce axis {axis.var.name} runs over {names}, outside of "
                f"{name_of(tree.scope(block))} that it stands in"
            )
    return None


def why_not_affine(tree: Tree, block: s.Block, outer: s.Stmt | None = None) -> str | None:
    """The reason why iterations of the loops inside `outer` (default: all) may run an instance
    twice.
    """
    context = regions.bindings(tree, block)
    loops = regions.loops_below(tree, block, outer or tree.scope(block))
    found = {x.loop_var for x in loops}
    if injective(context.values.values(), found, context.bounds):
        return None
    return "different iterations of its loops may run the same instance"


def reduce_variables(tree: Tree, block: s.Block) -> set[e.Var]:
    """The loop variables that the reduce axes of a block are bound to."""
    return _variables(tree, block, False)


def spatial_variables(tree: Tree, block: s.Block) -> set[e.Var]:
    """The loop variables that the spatial axes of a block are bound to."""
    return _variables(tree, block, True)


def _variables(tree: Tree, block: s.Block, spatial: bool) -> set[e.Var]:
    context = regions.bindings(tree, block)
    axes = (a.var for a in block.iter_vars if (a.iter_type is s.IterType.SPATIAL) == spatial)
    found: set[e.Var] = set().union(*(context.values[axis].variables() for axis in axes))
    return found & context.bounds.keys()


def why_not_chain(tree: Tree, loops: Sequence[s.For]) -> str | None:
    """The reason why `loops`, sorted from the outside in, are not one in another with nothing
    between.
    """
    for outer, inner in zip(loops, loops[1:], strict=False):
        found: s.Stmt = outer.body
        while isinstance(found, s.For) and found is not inner:
            found = found.body
        if found is not inner:
            return f"{name_of(inner)} is not the only statement inside {name_of(outer)}"
    return None


def why_made_later(tree: Tree, block: s.Block, place: s.Block) -> str | None:
    """The reason why what a block reads may not be there yet where another block stands."""
    info = tree.info(tree.scope(block))
    for region in block.reads:
        for writer in info.writers.get(region.buffer, ()):
            if writer is not place and tree.position[writer] > tree.position[place]:
                return (
                    f"{name_of(writer)}, after {name_of(place)}, writes {region.buffer.name}, "
                    "which it reads"
                )
    return None

"""What a program needs before it can be scheduled: one root block, no statement in two places, and
blocks that say the truth about themselves.

Refused: an axis that is bound to values outside of its domain, a loop variable used inside a block
past its axes, a block that touches what its reads and writes do not name.
"""

from __future__ import annotations

from mlcnb.core.errors import ScheduleError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.ir.module import IRModule
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.access import detect_buffer_access
from mlcnb.tir.analysis.well_formed import verify_well_formed
from mlcnb.tir.buffer import BufferRegion, decl_buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.affine import Bounds
from mlcnb.tir.schedule.handles import name_of, text_of
from mlcnb.tir.schedule.reading import of
from mlcnb.tir.schedule.rebuild import FreshCopy
from mlcnb.tir.schedule.regions import Box, at_most, box_of, known_bounds
from mlcnb.tir.schedule.tree import Tree


def prepared(mod: IRModule, checked: bool) -> IRModule:
    """The module with every PrimFunc ready; itself where all are.

    Raises:
        WellFormedError: a function breaks a rule of the IR, or a block says something false.
    """
    for name, func in mod.items():
        if isinstance(func, PrimFunc):
            if checked:
                verify_well_formed(func)
            func = prepared_function(func)
            mod = mod.with_function(name, func)
    return mod


def prepared_function(func: PrimFunc) -> PrimFunc:
    """The function with a root block, and with each loop and block in one place only."""
    body = func.body
    if not (isinstance(body, s.BlockRealize) and not body.block.iter_vars):
        root = s.Block((), (), (), "root", body)
        func = func.with_body(s.BlockRealize((), p.const(True), root))
    if Tree(func).has_shared:
        func = func.with_body(FreshCopy({}).stmt(func.body))
    return func


def refuse_false_blocks(tree: Tree) -> None:
    """Refuse blocks whose axes or regions are not what they say."""
    for block in tree.blocks:
        if block.iter_vars:
            _refuse_domains(tree, block)
            if not isinstance(block.body, s.BlockRealize | s.For | s.SeqStmt):
                _refuse_regions(tree, block)


def _refuse_domains(tree: Tree, block: s.Block) -> None:
    """Each axis must stay within its domain, as far as numbers can tell."""
    realize = tree.realize(block)
    for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
        box = _values(tree, block, value)
        first = of(axis.dom.min)
        last = first.plus(of(axis.dom.extent)).shifted(-1)
        side = box.sides[0]
        over = [high.minus(last).value for high in side.highs]
        under = [first.minus(low).value for low in side.lows]
        if all(x is not None and x > 0 for x in over):
            end = text_of(side.high.expr(axis.var.dtype))
        elif all(x is not None and x > 0 for x in under):
            end = text_of(side.low.expr(axis.var.dtype))
        else:
            continue
        raise ScheduleError(
            f"axis {axis.var.name} of {name_of(block)} takes the value {end}, outside of its "
            f"domain {text_of(axis.dom.min)}..{text_of(last.shifted(1).expr(axis.var.dtype))}",
            where=block,
            root=tree.func,
            hint="give the axis the extent that its loops have, or add T.where",
        )


def _values(tree: Tree, block: s.Block, value: PrimExpr) -> Box:
    """The values of an axis as a box of a made-up buffer."""
    line = decl_buffer((1,), "int8", "axis")
    region = BufferRegion(line, (Range(value, p.const(1, value.dtype)),))
    return box_of(tree, block, region, tree.scope(block))


def _refuse_regions(tree: Tree, block: s.Block) -> None:
    """What the body touches must be in the reads and writes, as far as numbers can tell."""
    known = known_bounds(tree, block)
    reads, writes = detect_buffer_access(block)
    written = {r.buffer for r in block.writes} if block.init is not None else set()
    for kind, found, said in (("reads", reads, block.reads), ("writes", writes, block.writes)):
        for region in found:
            if region.buffer in written and kind == "reads":
                continue
            named = [r for r in said if r.buffer is region.buffer]
            if not named or all(_is_outside(region, r, known) for r in named):
                raise ScheduleError(
                    f"{name_of(block)} {kind} {region.buffer.name} where T.{kind} does not say so",
                    where=block,
                    root=tree.func,
                    hint=f"leave T.{kind} out: they are then found from the body",
                )


def _is_outside(part: BufferRegion, whole: BufferRegion, known: dict[Var, Bounds]) -> bool:
    """True if some element of `part` surely is not in `whole`."""
    for small, large in zip(part.region, whole.region, strict=True):
        low, least = of(small.min), of(large.min)
        end, most = low.plus(of(small.extent)), least.plus(of(large.extent))
        if at_most(low.shifted(1), least, known) or at_most(most.shifted(1), end, known):
            return True
    return False

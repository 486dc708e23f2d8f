"""What kind of block it is: what schedules may do with it, by the rules that they refuse by.

    complete     every axis spatial, sole writer of its outputs, reads none of them
    reduction    sole writer, an init, spatial axes index the output, reduce axes do not
    dominant     sole writer of its outputs
    opaque       none of these: it stays where it is

A block is asked for by itself, its name, or a handle of a schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.ir.module import IRModule
from mlcnb.tir import analysis
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.edit.prepare import prepared_function
from mlcnb.tir.schedule.legality import promises as legality
from mlcnb.tir.schedule.record.handles import Handle
from mlcnb.tir.schedule.record.tree import Tree


class BlockKind(Enum):
    """What a block does, in one word."""

    SPATIAL = "spatial"
    REDUCTION = "reduction"
    SCAN = "scan"
    OPAQUE = "opaque"


def tree_of(obj: Any) -> Tree:
    """The tree of a function, of the function that a schedule works on, or of a module's only one.

    Raises:
        MLCError: a module of several functions, or none; or something else.
    """
    if isinstance(obj, Tree):
        return obj
    if isinstance(obj, PrimFunc):
        return Tree(prepared_function(obj))
    if isinstance(obj, IRModule):
        functions = [*obj.of_kind(PrimFunc).values()]
        if len(functions) != 1:
            raise MLCError(
                f"the module has {len(functions)} loop functions", hint='name one: mod["main"]'
            )
        return tree_of(functions[0])
    state = getattr(obj, "state", None)
    if state is None:
        raise MLCError(
            f"{obj!r} has no loops to look at", hint="give a PrimFunc, a module, or a schedule"
        )
    return state.tree(state.working_on)


def find(obj: Any, block: Any) -> tuple[Tree, s.Block]:
    """The tree, and the block that is meant.

    Raises:
        MLCError: no block, or more than one, is meant.
    """
    tree = tree_of(obj)
    if isinstance(block, Handle):
        return tree, block.schedule.get(block)  # type: ignore[return-value, union-attr]
    found = [b for b in tree.blocks if b is block or b.name_hint == block]
    if len(found) != 1:
        name = block if isinstance(block, str) else block.name_hint
        names = ", ".join(b.name_hint for b in tree.blocks if b is not tree.root)
        count = "no block" if not found else f"{len(found)} blocks"
        raise MLCError(f"{count} of name {name!r}", hint=f"the blocks are {names}")
    return tree, found[0]


def has_block(obj: Any, block_name: str) -> bool:
    """True if a schedule's program (or a function) has a block of that name."""
    return bool(tree_of(obj).find_block(block_name))


def is_output_block(obj: Any, block: Any) -> bool:
    """True if a block writes a buffer that is not allocated in its scope."""
    return legality.is_output_block(*find(obj, block))


def is_complete_block(obj: Any, block: Any) -> bool:
    """True for a block whose instances may run in any order, or twice."""
    return legality.why_not_complete(*find(obj, block)) is None


def is_reduction_block(obj: Any, block: Any) -> bool:
    """True for a block that starts with an init and combines in any order."""
    return legality.why_not_reduction(*find(obj, block)) is None


def is_dominant_block(obj: Any, block: Any) -> bool:
    """True for the only block of its scope that writes its outputs."""
    return legality.why_not_sole_writer(*find(obj, block)) is None


def has_affine_binding(obj: Any, block: Any) -> bool:
    """True if the loops around a block never run one instance twice."""
    return legality.why_not_affine(*find(obj, block)) is None


def is_compact_dataflow(obj: Any, scope: Any = None) -> bool:
    """True if a scope is a stage pipeline of complete and reduction blocks: what may be inlined,
    fused and moved.
    """
    tree = tree_of(obj)
    block = tree.root if scope is None else find(tree, scope)[1]
    plain = (legality.why_neither(tree, child) is None for child in tree.info(block).blocks)
    return all(plain) and analysis.stage_pipeline(tree.func, block)


def block_kind(tree: Tree, block: s.Block) -> tuple[BlockKind, str]:
    """The kind of a block, and for one that is not spatial or reduction the reason."""
    tests: list[tuple[BlockKind, Callable[[Tree, s.Block], str | None]]] = [
        (BlockKind.SPATIAL, legality.why_not_complete),
        (BlockKind.REDUCTION, legality.why_not_reduction),
    ]
    for kind, reason in tests:
        if reason(tree, block) is None:
            return kind, ""
    kinds = {axis.iter_type for axis in block.iter_vars}
    if s.IterType.SCAN in kinds:
        return BlockKind.SCAN, "its axes run in order"
    reduces = s.IterType.REDUCE in kinds
    if reduces and block.init is None and analysis.reduction_pattern(block):
        return BlockKind.REDUCTION, "its init is a block of its own"
    return BlockKind.OPAQUE, legality.why_neither(tree, block) or ""

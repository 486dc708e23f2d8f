"""ScheduleState: a state that belongs to no schedule, so that statements of it may be exchanged.

state = tir.ScheduleState(func)             for i in range(16):             for i in range(16):
sref = state.get_sref(block)                    with T.block("B"):   ->         with T.block("new"):
state.replace(sref, new, {block: new})              ...                             ...

Nothing is judged here: the caller writes the program. `Schedule(state.mod)` checks what it gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from mlcnb.core.errors import ArgumentError, UnknownHandleError
from mlcnb.core.node import walk
from mlcnb.ir.module import IRModule
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.record.state import Snapshot, StmtSRef, arrived
from mlcnb.tir.schedule.record.tree import Edit, Tree
from mlcnb.tir.schedule.schedule import Schedule


@dataclass(eq=False)
class FreeState(Snapshot):
    """A program with places (`StmtSRef`) that follow its loops and blocks as they are replaced."""

    _places: WeakValueDictionary[s.Stmt, StmtSRef] = field(default_factory=WeakValueDictionary)

    def get_sref(self, stmt: s.Stmt) -> StmtSRef:
        """Where a loop or block of this program stands; asked twice, the same object.

        Raises:
            UnknownHandleError: it is no part of the program.
        """
        known = self._places.get(stmt)
        if known is None or known.stmt is not stmt:
            known = self._places[stmt] = super().get_sref(stmt)
        return known

    def replace(
        self,
        src_sref: StmtSRef,
        tgt_stmt: s.Stmt,
        block_sref_map: Mapping[s.Block, s.Block] | None = None,
    ) -> None:
        """Put a statement in the place of a loop or block.

        Places of loops follow the loop variable, those of blocks `block_sref_map`; those of loops
        and blocks that are no more have `stmt` None from then on. Other modules and functions that
        hold the old statements keep them.

        Args:
            src_sref: the loop or block.
            tgt_stmt: a For or BlockRealize for a loop, a Block for a block.
            block_sref_map: block as it was -> block that its place stands for now.

        Raises:
            ArgumentError: a statement of another kind cannot stand there.
            UnknownHandleError: the place is none of this program (now).
        """
        src = src_sref.stmt
        if src is None:
            raise UnknownHandleError("replace: what stood at this place was replaced before")
        tree = self._tree_with(src)
        wanted = s.Block if isinstance(src, s.Block) else s.For | s.BlockRealize
        if not isinstance(tgt_stmt, wanted):
            kinds = type(tgt_stmt).__name__, type(src).__name__
            raise ArgumentError(
                f"replace: a {kinds[0]} cannot stand where a {kinds[1]} is",
                hint="a Block for a Block; a For or a BlockRealize for a For",
            )
        edit = Edit(tree)
        edit.put(src, tgt_stmt)
        func = edit.done()
        for old, new in (block_sref_map or {}).items():
            edit.became(old, new)
        self._follow(tree, Tree(func, tree.name), tgt_stmt, edit)
        self.mod = self.mod.with_function(tree.name, func)
        self.mod.held_by(self, "mod")

    def _follow(self, before: Tree, after: Tree, target: s.Stmt, edit: Edit) -> None:
        """Move the places to where their statements went."""
        loops = {n.loop_var: n for n in walk(target) if isinstance(n, s.For)}
        for stmt, place in list(self._places.items()):
            if stmt not in before or place.stmt is not stmt:
                continue
            new = arrived(edit.forward, stmt)
            if new not in after and isinstance(stmt, s.For):
                new = loops.get(stmt.loop_var, stmt)
            place.stmt = new if new in after else None  # type: ignore[assignment]
            if new in after:
                self._places[new] = place


def ScheduleState(
    mod: IRModule | PrimFunc, *, debug_mask: str | int = "none", enable_check: bool = True
) -> FreeState:
    """A state that begins with `mod`, by TVM's name.

    Raises:
        WellFormedError: a function breaks a rule of the IR.
    """
    state: Any = Schedule(mod, debug_mask=debug_mask, enable_check=enable_check).state
    return FreeState(state.mod, state.working_on, state.seed)

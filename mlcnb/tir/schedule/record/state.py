"""Snapshots of a schedule, and what one primitive sees and gives.

    Snapshot   the module, what each handle stands for, the trace so far: never changed by a step
    State      the function a step works on, as a tree, and how to refuse
    Change     what a step gives: the new function, where nodes went, what to hand out

A step makes a new snapshot from the last one; undo and goto choose among those that are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from mlcnb.core.errors import ScheduleError, UnknownHandleError
from mlcnb.core.node import Node
from mlcnb.ir.expr import Var
from mlcnb.ir.module import IRModule
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.record.handles import Gone, Handle, Mark, name_of
from mlcnb.tir.schedule.record.tree import Edit, Tree

if TYPE_CHECKING:
    from mlcnb.tir.schedule.legality.flags import SRefScope


class ScheduleDebugMask(IntEnum):
    """TVM's names of what `Schedule(debug_mask=…)` verifies; nothing here can be inconsistent."""

    VERIFY_SREF_TREE = 1
    VERIFY_CACHED_FLAGS = 2


@dataclass(frozen=True)
class CachedFlags:
    """The three properties of a block, each True where it is known to hold."""

    affine_binding: bool
    region_cover: bool
    stage_pipeline: bool


class Random:
    """A small seeded generator (Lehmer's, as TVM uses) whose state is one number."""

    MULTIPLIER, MODULUS = 48271, 2147483647

    def __init__(self, seed: int) -> None:
        self.state = seed % self.MODULUS or 1

    def integer(self, below: int) -> int:
        """A number in 0..below."""
        self.state = self.state * self.MULTIPLIER % self.MODULUS
        return self.state * below // self.MODULUS

    @classmethod
    def start(cls, seed: int) -> int:
        """The state to begin with: neighbouring seeds lie far apart, small ones are not small."""
        return seed * pow(cls.MULTIPLIER, 1000, cls.MODULUS) % cls.MODULUS

    def choice(self, weights: Iterable[float]) -> int:
        """An index, as likely as its weight."""
        weights = list(weights)
        point = self.integer(1 << 30) / (1 << 30) * sum(weights)
        for i, weight in enumerate(weights):
            point -= weight
            if point < 0:
                return i
        return len(weights) - 1


@dataclass(frozen=True)
class State:
    """What a primitive sees: the module, the function that it works on as a tree, dice, and
    whether to
    check legality."""

    mod: IRModule
    tree: Tree
    random: Random
    checks: bool = True
    decided: list[Any] = field(default_factory=list)

    def decide(self, decision: Any) -> None:
        """Say what a sampling primitive has drawn: the trace keeps it."""
        self.decided.append(decision)

    @property
    def func(self) -> PrimFunc:
        """The function that the step works on."""
        return self.tree.func

    def refusal(
        self, message: str, where: Node | None = None, hint: str | None = None
    ) -> ScheduleError:
        """The error of an illegal step: raise it."""
        return ScheduleError(message, where=where, root=self.func, hint=hint)

    def refuse_for(
        self, reason: str | None, message: str, where: Node | None = None, hint: str | None = None
    ) -> None:
        """Refuse the step, `message: reason`, where there is a reason."""
        if reason:
            raise self.refusal(f"{message}: {reason}", where, hint)

    def edit(self) -> Edit:
        """A set of changes to the function."""
        return Edit(self.tree)

    def updated(self, n: s.For | s.Block, **fields: Any) -> Change:
        """The step that sets these fields (not the body) of a loop or a block, and is no more."""
        edit = self.edit()
        edit.update(n, **fields)
        return Change.of(edit)


@dataclass(frozen=True)
class Change:
    """A step done: the new function, old node -> new node, and the nodes that the caller gets.

    `outputs` is a For, a Block, a list of them, or None.
    """

    func: PrimFunc
    forward: dict[s.Stmt, s.Stmt]
    outputs: Any = None
    notes: dict[str, Any] = field(default_factory=dict)

    def noting(self, **arguments: Any) -> Change:
        """The trace shall keep these arguments in place of those that were given."""
        return replace(self, notes=arguments)

    @staticmethod
    def of(edit: Edit, outputs: Any = None, func: PrimFunc | None = None) -> Change:
        """What the edit makes; outputs named by their old nodes are looked up."""
        done = edit.done(func)
        if isinstance(outputs, list):
            found: Any = [arrived(edit.forward, n) for n in outputs]
        else:
            found = arrived(edit.forward, outputs)
        return Change(done, edit.forward, found)


def arrived(forward: dict[s.Stmt, s.Stmt], n: Any) -> Any:
    """Where a node went in the end."""
    while n in forward and forward[n] is not n:
        n = forward[n]
    return n


@dataclass(eq=False)
class StmtSRef:
    """A loop or block at its place in a program, by TVM's name.

    stmt: the For or Block, None once it was replaced; owner: the state that it belongs to.
    """

    stmt: s.Stmt
    owner: Any

    @property
    def parent(self) -> StmtSRef | None:
        """The loop or block around it; None for a root block."""
        for tree in self.owner.all_trees():
            if self.stmt in tree:
                around = (n for n in tree.ancestors(self.stmt) if isinstance(n, s.For | s.Block))
                found = next(around, None)
                return None if found is None else self.owner.get_sref(found)
        return None

    def same_as(self, other: Any) -> bool:
        """Whether it is the same place of the same state."""
        return isinstance(other, StmtSRef) and other.stmt is self.stmt and other.owner is self.owner

    __eq__ = same_as

    def __hash__(self) -> int:
        return hash((id(self.stmt), id(self.owner)))


@dataclass
class Snapshot:
    """The program at one step, what handles stand for there, and the instructions that led to
    it.
    """

    mod: IRModule
    working_on: str
    seed: int
    handles: dict[Handle, tuple[str, Any]] = field(default_factory=dict)
    values: dict[Var, int] = field(default_factory=dict)
    instructions: list[Any] = field(default_factory=list)
    trees: dict[str, Tree] = field(default_factory=dict)
    forward: dict[s.Stmt, s.Stmt] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.mod.held_by(self, "mod")

    def tree(self, name: str) -> Tree:
        """The function of that name, indexed."""
        func = self.mod[name]
        known = self.trees.get(name)
        if known is None or known.func is not func:
            known = self.trees[name] = Tree(func, name)
        return known

    def all_trees(self) -> list[Tree]:
        """Every loop function of the module, indexed."""
        return [self.tree(v.name_hint) for v, f in self.mod.of_kind(PrimFunc).items()]

    def get_sref(self, stmt: s.Stmt) -> StmtSRef:
        """Where a loop or block of this program stands.

        Raises:
            UnknownHandleError: it is no part of the program.
        """
        self._tree_with(stmt)
        return StmtSRef(stmt, self)

    def get_block_scope(self, block_sref: StmtSRef) -> SRefScope:
        """What the blocks directly in a block depend on, by TVM's name.

        Raises:
            UnknownHandleError: it is no part of the program.
        """
        from mlcnb.tir.schedule.legality.flags import SRefScope

        func, block = self._tree_with(block_sref.stmt).func, block_sref.stmt
        assert isinstance(block, s.Block)
        return SRefScope(self, func, block)

    get_sblock_scope = get_block_scope

    def _get_cached_flags(self, block_sref: StmtSRef) -> CachedFlags:
        """What is true of a block and of the scope that it is, by TVM's name."""
        from mlcnb.tir.schedule.legality.flags import flags_of

        block = block_sref.stmt
        assert isinstance(block, s.Block)
        return flags_of(self._tree_with(block), block)

    def _tree_with(self, stmt: s.Stmt) -> Tree:
        for tree in self.all_trees():
            if stmt in tree:
                return tree
        raise UnknownHandleError(f"{name_of(stmt)} is no part of the program (now)")

    def node(self, handle: Handle) -> tuple[str, Any]:
        """The function and node that a handle stands for.

        Raises:
            ScheduleError: a step took it away, or it was made later than this snapshot.
        """
        found = self.handles.get(handle)
        if found is None:
            raise UnknownHandleError(
                "this handle is of another schedule, or was made by a step that was taken back",
                hint="get it again from this one: sch.get_block, sch.get_loops",
            )
        name, n = found
        if isinstance(n, Gone):
            raise ScheduleError(
                f"{n.what} is no more: {n.by} took it",
                root=self.mod[name],
                hint="use the handles that this step returned, or get_loops again",
            )
        return found

    def duplicate(self) -> Snapshot:
        """The same snapshot with tables of its own."""
        return replace(
            self,
            handles=dict(self.handles),
            values=dict(self.values),
            instructions=list(self.instructions),
        )

    def after(self, name: str, change: Change, label: str) -> Snapshot:
        """The next snapshot: the same handles, standing for what their nodes have become."""
        mod = self.mod.with_function(name, change.func)
        tree = Tree(change.func, name)
        handles = {}
        for handle, (owner, n) in self.handles.items():
            if owner == name and not isinstance(n, Gone | Mark):
                new = arrived(change.forward, n)
                n = new if new in tree else Gone(name_of(n), label)
            handles[handle] = (owner, n)
        trees = {**self.trees, name: tree}
        return Snapshot(
            mod,
            self.working_on,
            self.seed,
            handles,
            dict(self.values),
            list(self.instructions),
            trees,
            change.forward,
        )

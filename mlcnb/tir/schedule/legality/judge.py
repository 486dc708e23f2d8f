"""The judge of steps: what was proved of each, and how.

    check          a step that the rules allow         a step that the rules refuse for a dependence
    "rules"        by rule                             refused
    "default"      by rule                             allowed where islpy proves it, else refused
    "dependence"   proved (islpy), or says why not     the same
    "numeric"      numeric 0.0 on shape (4, 4)         the same
    "both"         both of them                        the same
    "none"         trusted                             trusted

The rules (dependence.py, legality.py) are quick and overcautious: when one refuses, the step is
done without it on the side, and the programs before and after are compared exactly (polyhedral/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlcnb.arith.isl import PARALLEL_LOOP, PROOF, SECOND_OPINION, Undecided, is_missing
from mlcnb.core.errors import MLCError, ScheduleError
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.well_formed import verify_well_formed
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.legality.counterexample import find
from mlcnb.tir.schedule.legality.dependence import (
    concurrent_loops,
    is_thread_loop,
    why_marks_break,
    why_threads_part,
)
from mlcnb.tir.schedule.legality.pointers import refuse_lost_pointers
from mlcnb.tir.schedule.legality.proof import check_numeric
from mlcnb.tir.schedule.record.facts import facts_of
from mlcnb.tir.schedule.record.handles import name_of
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.schedule.record.tree import Tree

if TYPE_CHECKING:
    from mlcnb.tir.schedule.legality.polyhedral.carried import Conflict

TRUSTED, RULE, PROVED = "trusted", "by rule", "proved (islpy)"


@dataclass(frozen=True)
class Judge:
    """What a schedule asks of its steps."""

    check: str = "default"

    @property
    def is_strict(self) -> bool:
        """True unless the caller is trusted."""
        return self.check != "none"

    def second_opinion(
        self,
        primitive: str,
        state: State,
        refusal: ScheduleError,
        again: Callable[[State], object],
    ) -> Change | None:
        """The change that a refused step makes, where it is proved legal; else None.

        A refusal for a dependence is given a counter-example, which is looked for when it is shown.
        """
        facts = facts_of(primitive)
        if not facts.again or is_missing():
            return None
        made = _unchecked(state, again)
        if made is None:
            return None
        before = state.func
        loop = refusal.where if facts.marks else None
        refusal.evidence = lambda: find(before, made.func, loop)
        if self.check == "rules":
            return None
        if facts.marks:
            marked = None if loop is None else made.forward.get(loop)
            proved = isinstance(marked, s.For) and _is_free(state.func, loop, marked)
        else:
            alike = _are_equal(before, made.func, SECOND_OPINION)
            proved = alike and verify_well_formed(made.func, False)
        return made if proved else None

    def verdict(
        self, primitive: str, before: PrimFunc, tree: Tree, change: Change, label: str, proof: str
    ) -> str:
        """How the step is known to be legal.

        Args:
            primitive: its name.
            before: the function as it was.
            tree: the function as it would be.
            change: what the step did.
            label: what messages call it.
            proof: what is known already.

        Raises:
            ScheduleError: it is not legal.
        """
        if not self.is_strict:
            return TRUSTED
        facts = facts_of(primitive)
        refuse_lost_pointers(primitive, before, tree, facts.marks or not facts.still)
        if not facts.still:
            self._refuse_broken_marks(primitive, tree, change)
        found = []
        if self.check in ("dependence", "both"):
            found.append(proof if proof == PROVED else _proved(primitive, before, tree, label))
        if self.check in ("numeric", "both"):
            found.append(check_numeric(before, tree.func, label))
        return "; ".join(found) or proof

    def _refuse_broken_marks(self, primitive: str, tree: Tree, change: Change) -> None:
        """Refuse a step after which a loop that is marked as parallel carries a dependence."""
        moved = [x for x in change.forward.values() if isinstance(x, s.For) and x in tree]
        for loop in concurrent_loops(moved):
            reason = why_threads_part(tree, loop)
            broken = None if reason else why_marks_break(tree, [loop])
            if broken is not None:
                proved = self.check != "rules" and _is_free(tree.func, loop, loop)
                reason = None if proved else broken[1]
            if reason is None:
                continue
            error = ScheduleError(
                f"{primitive}: {name_of(loop)} is {loop.kind.value}, and then {reason}",
                hint="mark loops as parallel, vectorized or bound after they have their blocks",
            )
            error.evidence = lambda loop=loop: find(tree.func, tree.func, loop)
            raise error


def _unchecked(state: State, again: Callable[[State], object]) -> Change | None:
    """What a step does when its rules are not asked; None where it cannot be done at all."""
    try:
        made = again(State(state.mod, state.tree, state.random, checks=False))
    except (MLCError, LookupError, TypeError, ValueError, AssertionError):
        return None  # the rule was about more than a dependence: without it, nothing can be done
    return made if isinstance(made, Change) else None


def _are_equal(before: PrimFunc, after: PrimFunc, operations: int) -> bool:
    from mlcnb.tir.schedule.legality.polyhedral.answers import are_the_same_steps

    return are_the_same_steps(before, after, operations)


def _is_free(func: PrimFunc, loop: s.For | None, marked: s.For) -> bool:
    """True if iterations of a loop, marked as `marked` is, surely do not depend on each other."""
    if is_missing():
        return False
    try:
        return loop is not None and _carried(func, loop, marked, PARALLEL_LOOP) is None
    except Undecided:
        return False


def _carried(func: PrimFunc, loop: s.For, marked: s.For, operations: int) -> Conflict | None:
    """As `carried_by`, for what a loop of this mark may do."""
    from mlcnb.tir.schedule.legality.polyhedral.answers import carried_by

    private = marked.kind is not s.ForKind.VECTORIZED
    return carried_by(func, loop, private, operations, is_thread_loop(marked))


def _proved(primitive: str, before: PrimFunc, tree: Tree, label: str) -> str:
    """`proved (islpy)`; or `by rule`, and why it could not be proved.

    Raises:
        ScheduleError: a counter-example was found.
    """
    still = set(Tree(before).position) if facts_of(primitive).still else set()
    loops = [x for x in concurrent_loops(tree.position) if x not in still]
    reason = _why_unproved(before, tree, loops)
    if reason is None:
        return PROVED
    example = find(before, tree.func, None)
    if example is not None and example.is_certain:
        error = ScheduleError(f"{label} changes what is computed: {example.summary}")
        error.evidence = lambda: example
        raise error
    return f"{RULE} (islpy could not prove it: {reason})"


def _why_unproved(before: PrimFunc, tree: Tree, loops: Iterable[s.For]) -> str | None:
    """The reason why a step, or one of the loops that run in parallel after it, is not proved."""
    from mlcnb.tir.schedule.legality.polyhedral.answers import why_not_equal

    after = tree.func
    reason = why_not_equal(before, after, PROOF)
    try:
        for loop in loops if reason is None else ():
            found = _carried(after, loop, loop, PROOF)
            if found is not None:
                return f"{name_of(loop)} is {loop.kind.value}: {found.first}, {found.second}"
    except Undecided as error:
        return str(error)
    return reason

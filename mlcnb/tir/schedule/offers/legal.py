"""legal_steps: what can be done at one block or loop, found by trying.

    mlcnb.tir.legal_steps(sch, i)       sch.split(sch.get_loops("C")[0], factors=[None, 2])
                                        sch.reorder(sch.get_loops("C")[1], sch.get_loops("C")[0])
                                        sch.parallel(sch.get_loops("C")[0])
                                        … and, for each primitive that is refused, why

Each call is made on a schedule of its own that starts from the same snapshot, so that the answer is
that of the very rules that would refuse the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from functools import cache

from mlcnb.core import display
from mlcnb.core.errors import ArgumentError, MLCError, ScheduleError
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.legality.judge import Judge
from mlcnb.tir.schedule.offers.candidates import Call, calls, fits, missing_argument
from mlcnb.tir.schedule.record.handles import Handle, describe
from mlcnb.tir.schedule.record.history import Step
from mlcnb.tir.schedule.record.site import Site
from mlcnb.tir.schedule.record.step import Primitive
from mlcnb.tir.schedule.schedule import Schedule


@dataclass(frozen=True)
class LegalStep:
    """A call that is legal, as Python text, and how that is known.

    `call` is the call with its nodes, `func` the function as it would be after it.
    """

    primitive: str
    text: str
    proof: str
    call: Call | None = field(default=None, compare=False)
    func: PrimFunc | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class LegalSteps(display.Shown):
    """What can be done at one place.

    Attributes:
        where: the block or loop, in words.
        steps: the calls that are legal.
        refused: primitive -> why the first call that was tried is refused; those that fit there at
            all, and have no legal call.
        free: primitive -> the argument that only the caller can give.
        tried: primitive -> the call that is refused.
    """

    where: str
    steps: list[LegalStep] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    free: dict[str, str] = field(default_factory=dict)
    tried: dict[str, Call] = field(default_factory=dict, compare=False)

    def __iter__(self) -> Iterator[LegalStep]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def of(self, primitive: str) -> list[LegalStep]:
        """The calls of one primitive."""
        return [x for x in self.steps if x.primitive == primitive]

    def __repr__(self) -> str:
        lines = [f"legal at {self.where}:", *(f"  {x.text}" for x in self.steps)]
        lines += [f"  {name}(…): with {what} of your choice" for name, what in self.free.items()]
        lines += [f"not legal: {name}: {why}" for name, why in self.refused.items()]
        return "\n".join(lines)


def legal_steps(sch: Schedule, block_or_loop: Handle | str) -> LegalSteps:
    """The primitives, and arguments for them, that are legal at a block or loop.

    Args:
        sch: the schedule; it is not changed.
        block_or_loop: a handle, or the name of a block.

    Raises:
        ArgumentError: the first is no schedule.
        ScheduleError: the second is no block or loop of it.
    """
    if not isinstance(sch, Schedule):
        raise ArgumentError(f"{sch!r} is no schedule", hint="tir.Schedule(func) makes one")
    if isinstance(block_or_loop, str):
        sch = _trial(sch, sch.state.working_on)
        handle = sch.get_block(block_or_loop)
    else:
        handle = block_or_loop
    name, node = sch.state.node(handle)
    if not isinstance(node, s.For | s.Block):
        raise ScheduleError(
            "legal_steps: a block or a loop is wanted",
            hint="pass what get_block or get_loops gives",
        )
    return legal_at(sch, name, node)


def legal_at(sch: Schedule, name: str, node: s.For | s.Block) -> LegalSteps:
    """The same at a node of the program as it is now.

    Args:
        sch: the schedule; it is not changed.
        name: the function that the node stands in.
        node: a loop or block of it.
    """
    tree = sch.state.tree(name)
    site = Site.of(tree, node)
    found = LegalSteps(describe(node, tree))
    for primitive in (x for x in primitives() if fits(x, site)):
        needed = missing_argument(primitive)
        if needed is not None:
            found.free[primitive.name] = needed
            continue
        for call in calls(primitive, site):
            done = attempt(sch, name, call)
            if isinstance(done, LegalStep):
                found.steps.append(done)
            elif done is not None and primitive.name not in found.refused:
                found.refused[primitive.name] = done
                found.tried[primitive.name] = call
    for step in found.steps:
        found.refused.pop(step.primitive, None)
        found.tried.pop(step.primitive, None)
    return found


@cache
def primitives() -> tuple[Primitive, ...]:
    """Every primitive of Schedule that changes the program, in alphabetical order."""
    methods = (getattr(Schedule, name) for name in dir(Schedule))
    known = {m.primitive.name: m.primitive for m in methods if hasattr(m, "primitive")}
    return tuple(known[name] for name in sorted(known) if not known[name].pure)


def attempt(sch: Schedule, name: str, call: Call) -> LegalStep | str | None:
    """Do a call on a schedule of its own: the step, the reason where it is refused, or None where
    it would change nothing.
    """
    other = _trial(sch, name)
    before = other.mod
    try:
        call.on(other, lambda node: other._handed_out(node, name))
    except MLCError as error:
        return error.message.removeprefix(f"{call.primitive.name}: ")
    if other.mod is before:
        return None
    proof = other.steps[-1].proof
    return LegalStep(call.primitive.name, call.text, proof, call, other.mod[name])


def _trial(sch: Schedule, name: str) -> Schedule:
    """A schedule that starts from the current snapshot of another one."""
    other = copy(sch)
    other.check = "rules" if sch.check == "rules" else "none" if sch.check == "none" else "default"
    other._judge = Judge(other.check)
    other._snapshots = [sch.state.duplicate()]
    other._steps = [Step(0, None, sch.mod, 0.0)]
    other._now = 0
    other._snapshot.working_on = name
    return other

"""Random steps on random programs, by the thousand: `make fuzz`.

    python -m tests.tir.schedule.fuzz --steps 10000 --seed 0
    python -m tests.tir.schedule.fuzz --refusals      and print which refusals were not needed

An accepted step computes the same as the program it started from, on the reference interpreter: bit
for bit, or, where a step changed the order of a reduction, within 1e-5. A refused step leaves the
module as it was: the very same object, of the same structure; and it is done by force, to see
whether the refusal was needed (`refusals`). At the end of each schedule its trace is done again,
from JSON.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlcnb.core.errors import ExecutionError, MLCError, ScheduleError
from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import assert_structural_equal, structural_hash
from mlcnb.tir import PrimFunc
from mlcnb.tir import stmt as s
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.legality.proof import backwards
from mlcnb.tir.schedule.offers.candidates import calls, missing_argument
from mlcnb.tir.schedule.offers.legal import primitives
from mlcnb.tir.schedule.record.site import Named, Site
from tests.tir.schedule.programs import numbers
from tests.tir.schedule.random_steps import MADE_FOR, PROGRAMS, SIZES, STEPS, scheduled
from tests.tir.schedule.refusals import Refusals, forced, is_harmless

#: steps on one program before the next is taken
LONGEST = 8
#: programs with more iterations are left alone
LARGEST = 6000
#: steps that may change the order in which a reduction adds up
ORDER = frozenset(
    "reorder rfactor tensorize transform_block_layout pad_einsum fuse_reduction_epilogue merge "
    "reorder_block_iter_var compute_at reverse_compute_at".split()
)
#: primitives that trust the caller
TRUSTING = frozenset(["unsafe_set_dtype", "unsafe_hide_buffer_access", "tensorize"])


class Refused(Exception):
    """There is nothing to choose from."""


@dataclass
class Counts:
    """Accepted, proved (of those) and refused steps, by primitive."""

    accepted: Counter[str] = field(default_factory=Counter)
    proved: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    programs: int = 0
    refusals: Refusals = field(default_factory=Refusals)

    @property
    def steps(self) -> int:
        """All steps that were tried."""
        return self.accepted.total() + self.refused.total()

    def __str__(self) -> str:
        names = sorted({*self.accepted, *self.refused})
        lines = [f"{'primitive':26} accepted  by proof  refused"]
        lines += [
            f"{n:26} {self.accepted[n]:8} {self.proved[n]:9} {self.refused[n]:8}" for n in names
        ]
        total = f"{self.accepted.total():8} {self.proved.total():9} {self.refused.total():8}"
        return "\n".join([*lines, f"{f'{self.programs} schedules':26} {total}"])


def run(steps: int, seed: int, check: str = "default", told: Any = None) -> Counts:
    """Try so many random steps.

    Raises:
        AssertionError: a step was wrong; says which, on what program, with which seed.
    """
    dice = random.Random(seed)
    counts = Counts()
    shown = 0
    while counts.steps < steps:
        name = dice.choice(sorted(PROGRAMS))
        try:
            _one(name, dice, counts, check)
        except Exception as error:
            raise AssertionError(f"seed {seed}, program {name}: {error}") from error
        if told is not None and counts.steps // 1000 > shown:
            shown = counts.steps // 1000
            print(
                f"{counts.steps} steps, {counts.accepted.total()} accepted", file=told, flush=True
            )
    return counts


def _one(name: str, dice: random.Random, counts: Counts, check: str) -> None:
    program = PROGRAMS[name]()
    sizes = tuple(made() for made in SIZES.get(name, ()))
    sch = Schedule(program, check=check)
    counts.programs += 1
    exact = True
    for _ in range(LONGEST):
        before, changes = sch.mod, _changes(sch)
        shape, position = structural_hash(before), sch.position
        choice = dice.choice(sorted(STEPS) if dice.random() < 0.5 else _names())
        step = _written if choice in STEPS and dice.random() < 0.5 else _guessed
        if name in MADE_FOR and dice.random() < 0.2:
            choice, step = dice.choice(MADE_FOR[name]), _written
        thrown = dice.getstate()
        try:
            step(sch, choice, dice)
        except (ScheduleError, Refused) as error:
            assert sch.mod is before and sch.position == position
            assert structural_hash(sch.mod) == shape
            if isinstance(error, ScheduleError):
                assert error.message
                counts.refused[choice] += 1
                assert _changes(sch) == changes
                again = random.Random()
                again.setstate(thrown)
                other = forced(sch, lambda x: step(x, choice, again))  # noqa: B023
                loose = not exact or choice in ORDER
                harmless = other is not None and is_harmless(other, not loose, sizes)
                counts.refusals.add(choice, error, sch, harmless)
            continue
        if sch.position == position:
            continue
        counts.accepted[choice] += 1
        counts.proved[choice] += sch.steps[-1].proof == "proved (islpy)"
        exact = exact and choice not in ORDER
        _same(sch, exact)
        if _iterations(scheduled(sch)) > LARGEST:
            break
    _replayed(program, sch, check)


def _changes(sch: Schedule) -> list[str]:
    """The instructions of the trace that change the program."""
    return [x.name for x in sch.trace if not x.pure]


def _names() -> list[str]:
    """The primitives whose arguments can be guessed."""
    return [q.name for q in primitives() if not missing_argument(q) and q.name not in TRUSTING]


def _written(sch: Schedule, name: str, dice: random.Random) -> None:
    """A step as `random_steps` makes it."""

    def pick(items: Sequence[Any]) -> Any:
        if not items:
            raise Refused
        return dice.choice(list(items))

    STEPS[name](sch, pick)


def _guessed(sch: Schedule, name: str, dice: random.Random) -> None:
    """A call of a primitive with guessed arguments, at a place that is drawn."""
    primitive = next((q for q in primitives() if q.name == name), None)
    if primitive is None or missing_argument(primitive):
        raise Refused
    tree = sch.state.tree(sch.state.working_on)
    nodes: list[s.For | s.Block] = [b for b in tree.blocks if b is not tree.root]
    nodes += [x for b in tree.blocks for x in tree.loops(b)]
    found = list(calls(primitive, Site.of(tree, dice.choice(nodes)))) if nodes else []
    if not found:
        raise Refused
    given = {k: _handles(sch, v) for k, v in dice.choice(found).given.items()}
    spread = given.pop(primitive.varargs) if primitive.varargs else ()
    getattr(sch, name)(*spread, **given)


def _handles(sch: Schedule, value: Any) -> Any:
    if isinstance(value, list):
        return [_handles(sch, v) for v in value]
    if not isinstance(value, Named):
        return value
    if isinstance(value.node, s.Block):
        return sch.get_block(value.node.name_hint)
    tree = sch.state.tree(sch.state.working_on)
    block = next(b for b in tree.blocks if value.node in tree.loops(b))
    loops = sch.get_loops(sch.get_block(block.name_hint))
    return next((x for x in loops if sch.get(x) is value.node), loops[0])


def _same(sch: Schedule, exact: bool) -> None:
    """The program computes what it did at the start."""
    try:
        found = numbers(backwards(scheduled(sch)))
    except ExecutionError as error:
        raise AssertionError(f"{sch.trace}\n{sch}\n{error}") from error
    for x, y in zip(numbers(scheduled(sch, 0)), found, strict=True):
        assert not np.isnan(x).any()
        if exact:
            same = np.array_equal(x, y)
        else:
            same = np.allclose(y, x, rtol=1e-5, atol=1e-5)
        assert same, f"{sch.trace}\n{sch}\nlast step wrong by {np.nanmax(np.abs(x - y))}"


def _replayed(program: PrimFunc, sch: Schedule, check: str) -> None:
    again = Schedule(program, check=check)
    trace = sch.trace.simplified()
    if "annotate_buffer_access" in [x.name for x in trace]:
        return  # of a block without axes its ranges name loops, which a trace cannot find again
    try:
        trace.apply_json_to_schedule(trace.as_json(), again)
        assert_structural_equal(again.mod, sch.mod)
    except MLCError as error:
        raise AssertionError(f"{trace}\nreplayed: {error}") from error


def _iterations(func: PrimFunc) -> int:
    extents = [p.as_int(n.extent) or 1 for n in walk(func.body) if isinstance(n, s.For)]
    total = 1
    for n in extents:
        total = min(total * n, 10 * LARGEST) if len(extents) < 8 else max(total, n)
    return total


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.tir.schedule.fuzz", description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", default="default", help="as Schedule's check")
    parser.add_argument("--refusals", action="store_true", help="print the false refusals")
    given = parser.parse_args(arguments)
    started = time.perf_counter()
    counts = run(given.steps, given.seed, given.check, sys.stderr)
    print(counts)
    if given.refusals:
        print(f"\n{counts.refusals}\n")
    seconds = time.perf_counter() - started
    print(f"seed {given.seed}: {counts.steps} steps, none wrong, {seconds:.0f} s")


if __name__ == "__main__":
    try:
        main()
    except MLCError as error:
        sys.exit(str(error))

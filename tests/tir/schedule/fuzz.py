"""Random steps on random programs, by the thousand: `make fuzz`.

    python -m tests.tir.schedule.fuzz --steps 10000 --seed 0
    python -m tests.tir.schedule.fuzz --refusals      and print which refusals were not needed
    python -m tests.tir.schedule.fuzz --gpu           programs for GPUs, on simulated threads

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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from mlcnb.core.errors import ExecutionError, MLCError, ScheduleError, UnsupportedOpError
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
from tests.tir.schedule import gpu_steps as gpu
from tests.tir.schedule.programs import numbers
from tests.tir.schedule.random_steps import MADE_FOR, PROGRAMS, SIZES, STEPS, scheduled
from tests.tir.schedule.refusals import Refusals, forced, is_harmless, reason

#: steps on one program before the next is taken
LONGEST = 8
#: programs with more iterations are left alone
LARGEST = 6000
#: the share of programs for GPUs that are compiled (`gpu_steps.TARGET`), in place of interpreted
COMPILED = 0.1
#: steps that may change the order in which a reduction adds up
ORDER = frozenset(
    "reorder rfactor tensorize transform_block_layout pad_einsum fuse_reduction_epilogue merge "
    "reorder_block_iter_var compute_at reverse_compute_at winograd".split()
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
    #: programs that simulated threads ran, and why others could not be
    ran: int = 0
    left: Counter[str] = field(default_factory=Counter)

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
        lines += [f"{f'{self.programs} schedules':26} {total}"]
        if self.ran:
            lines += [f"{self.ran} runs on simulated threads; could not run there:"]
            lines += [f"{n:5} {why}" for why, n in self.left.most_common()]
        return "\n".join(lines)


def run(
    steps: int, seed: int, check: str = "default", told: Any = None, on_gpu: bool = False
) -> Counts:
    """Try so many random steps; on_gpu: on programs for GPUs.

    Raises:
        AssertionError: a step was wrong; says which, on what program, with which seed.
    """
    dice = random.Random(seed)
    counts = Counts()
    shown = 0
    while counts.steps < steps:
        name = dice.choice(sorted(gpu.RECIPES if on_gpu else PROGRAMS))
        try:
            _one(name, dice, counts, check, on_gpu)
        except Exception as error:
            raise AssertionError(f"seed {seed}, program {name}: {error}") from error
        if told is not None and counts.steps // 1000 > shown:
            shown = counts.steps // 1000
            print(
                f"{counts.steps} steps, {counts.accepted.total()} accepted", file=told, flush=True
            )
    return counts


def _one(name: str, dice: random.Random, counts: Counts, check: str, on_gpu: bool) -> None:
    if on_gpu:
        program, _, sizes = gpu.recipe(name)
        sch, steps = gpu.begun(name, dice.random(), check), gpu.GPU_STEPS
    else:
        program, sizes = PROGRAMS[name](), tuple(made() for made in SIZES.get(name, ()))
        sch, steps = Schedule(program, check=check), STEPS
    counts.programs += 1
    exact = not on_gpu
    for _ in range(LONGEST):
        before, changes = sch.mod, _changes(sch)
        shape, position = structural_hash(before), sch.position
        choice = dice.choice(sorted(steps) if dice.random() < 0.5 else _names())
        step = _guessed
        if choice in steps and (dice.random() < 0.5 or choice not in STEPS):
            step = partial(_written, steps)
        if name in MADE_FOR and dice.random() < 0.2:
            choice, step = dice.choice(MADE_FOR[name]), partial(_written, steps)
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
        if on_gpu and gpu.is_bound(scheduled(sch)):
            _same_on_threads(sch, dice, counts)
        else:
            _same(sch, exact)
        if _iterations(scheduled(sch)) > (4 if on_gpu else 1) * LARGEST:
            break
    _replayed(program, sch, check)


def _changes(sch: Schedule) -> list[str]:
    """The instructions of the trace that change the program."""
    return [x.name for x in sch.trace if not x.pure]


def _names() -> list[str]:
    """The primitives whose arguments can be guessed."""
    return [q.name for q in primitives() if not missing_argument(q) and q.name not in TRUSTING]


def _written(steps: Mapping[str, Any], sch: Schedule, name: str, dice: random.Random) -> None:
    """A step as `random_steps`, or `gpu_steps`, makes it."""

    def pick(items: Sequence[Any]) -> Any:
        if not items:
            raise Refused
        return dice.choice(list(items))

    steps[name](sch, pick)


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


def _same_on_threads(sch: Schedule, dice: random.Random, counts: Counts) -> None:
    """Simulated threads compute what the program did at the start."""
    order, compiled = dice.randrange(1 << 20), dice.random() < COMPILED
    try:
        why = gpu.on_threads(scheduled(sch, 0), scheduled(sch), order, compiled)
    except (AssertionError, ExecutionError) as error:
        raise AssertionError(f"{sch.trace}\n{sch}\n{error}") from error
    counts.ran += not why
    if why:
        counts.left[reason(why, scheduled(sch))] += 1
        with suppress(UnsupportedOpError):  # a warp does it, and no thread is bound yet
            _same(sch, exact=False)


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
    parser.add_argument("--gpu", action="store_true", help="programs for GPUs")
    parser.add_argument("--refusals", action="store_true", help="print the false refusals")
    given = parser.parse_args(arguments)
    started = time.perf_counter()
    counts = run(given.steps, given.seed, given.check, sys.stderr, given.gpu)
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

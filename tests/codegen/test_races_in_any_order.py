"""Races of short programs, against all pairs of accesses and against orders drawn at random.

A program is a list of steps; each thread (block, round) does them all. It is written as text for
the interpreter, and run here a step at a time, in the order that a dice says.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from mlcnb.codegen.interp import run_prim_func
from mlcnb.codegen.rounds import ordered
from mlcnb.core.errors import DataRaceError
from mlcnb.script import parse
from tests.tir.programs import FUZZ

#: threads, of two warps
N = 34
LOOPS = {
    "thread": f'for t in T.thread_binding({N}, thread="threadIdx.x"):',
    "block": f'for t in T.thread_binding({N}, thread="blockIdx.x"):',
    "parallel": f"for t in T.parallel({N}):",
}
FORMS = {
    "store": "B[{at}] = T.float32({value})",
    "copy": "C[t] = B[{at}]",
    "update": "B[{at}] = B[{at}] + T.float32({value})",
    "atomic": 'T.evaluate(T.call_intrin("float32", "tir.atomic_add", T.address_of(B[{at}]), '
    "T.float32({value})))",
    "shared": 'T.evaluate(T.tvm_storage_sync("shared"))',
    "warp": 'T.evaluate(T.tvm_storage_sync("warp"))',
}
#: what is written in them, for thread t in round k
MEANS: dict[str, Callable[[int, int], int]] = {
    "True": lambda t, k: True,
    "0": lambda t, k: 0,
    "1": lambda t, k: 1,
    "2": lambda t, k: 2,
    "k": lambda t, k: k,
    "k + 1": lambda t, k: k + 1,
    "t": lambda t, k: t,
    "t // 2": lambda t, k: t // 2,
    "t // 32": lambda t, k: t // 32,
    "t % 32": lambda t, k: t % 32,
    "t == 0": lambda t, k: t == 0,
    "t == 1": lambda t, k: t == 1,
    "t == 33": lambda t, k: t == 33,
    "t < 2": lambda t, k: t < 2,
    "t % 2 == 1": lambda t, k: t % 2 == 1,
    "k == 0": lambda t, k: k == 0,
    "k >= t": lambda t, k: k >= t,
    "t + k == 1": lambda t, k: t + k == 1,
}


@dataclass(frozen=True)
class Step:
    """What a thread does if it may: to which element, with which value."""

    kind: str
    at: str = "0"
    value: str = "1"
    when: str = "True"

    @property
    def is_barrier(self) -> bool:
        return self.kind in ("shared", "warp")

    def lines(self) -> list[str]:
        text = FORMS[self.kind].format(at=self.at, value=self.value)
        return [text] if self.when == "True" else [f"if {self.when}:", f"    {text}"]


def written(loop: str, steps: list[Step], rounds: int) -> str:
    """The program as text."""
    lines = [
        "@T.prim_func",
        f'def main(B: T.Buffer(({N},), "float32"), C: T.Buffer(({N},), "float32")):',
        f"    {LOOPS[loop]}",
        f"        for k in range({rounds}):",
        *(f"            {line}" for step in steps for line in step.lines()),
    ]
    return "\n".join(lines) + "\n"


def races(text: str) -> bool:
    try:
        run_prim_func(parse(text, check_well_formed=False), [np.zeros(N, "f"), np.zeros(N, "f")])
    except DataRaceError:
        return True
    return False


# the same by hand


@dataclass
class Access:
    """One access of an element: by whom, after how many barriers, what a write leaves there."""

    who: int
    epochs: tuple[int, int]
    is_write: bool
    deed: object = None
    #: of a read: what its thread has written there last, if nobody wrote anything else since
    own: object = None

    def meets(self, other: Access, is_block: bool) -> bool:
        """True if the two race."""
        if self.who == other.who or not (self.is_write or other.is_write):
            return False
        warps = self.who // 32, other.who // 32
        if is_block and self.epochs[0] != other.epochs[0]:
            return False
        if is_block and warps[0] == warps[1] and self.epochs[1] != other.epochs[1]:
            return False
        one, two = (x.deed if x.is_write else x.own for x in (self, other))
        return one is None or one != two or (one == "atomic" and not both(self, other))


def both(one: Access, two: Access) -> bool:
    return one.is_write and two.is_write


@dataclass
class Machine:
    """Threads and their memory."""

    loop: str
    steps: list[Step]
    rounds: int
    memory: dict[str, float] = field(default_factory=dict)
    accesses: dict[str, list[Access]] = field(default_factory=dict)

    def run(self, pick: Callable[[list[int]], int]) -> dict[str, float]:
        """All threads to their ends; `pick` says which one goes on."""
        self.epochs = dict.fromkeys(range(N), (0, 0))
        self.live = {t: self.thread(t) for t in range(N)}
        self.waits: dict[int, str] = {}
        while self.live:
            ready = [t for t in self.live if t not in self.waits]
            if ready:
                self.go_on(pick(ready))
            else:
                self.meet()
        return self.memory

    def go_on(self, t: int) -> None:
        try:
            barrier = next(self.live[t])
        except StopIteration:
            del self.live[t]
            return
        if barrier:
            self.waits[t] = barrier

    def meet(self) -> None:
        """All threads are at a barrier, or at an end."""
        for t, what in self.waits.items():
            block, warp = self.epochs[t]
            self.epochs[t] = (block + 1, warp) if what == "shared" else (block, warp + 1)
        self.waits.clear()

    def thread(self, t: int) -> Iterator[str | None]:
        for k in range(self.rounds):
            for number, step in enumerate(self.steps):
                if not MEANS[step.when](t, k):
                    continue
                if step.is_barrier:
                    yield step.kind
                    continue
                at = f"B[{MEANS[step.at](t, k)}]"
                value = float(MEANS[step.value](t, k))
                if step.kind == "atomic":
                    self.write(t, at, self.memory.get(at, 0.0) + value, "atomic")
                elif step.kind == "store":
                    self.write(t, at, value, (number, value))
                else:
                    found = self.read(t, at)
                    yield None
                    at = f"C[{t}]" if step.kind == "copy" else at
                    value = found if step.kind == "copy" else found + value
                    self.write(t, at, value, (number, value))
                yield None

    def read(self, t: int, at: str) -> float:
        known = self.accesses.setdefault(at, [])
        now = self.epochs[t]
        deeds = [x for x in known if x.is_write and x.epochs[0] == now[0]]
        mine = [n for n, x in enumerate(deeds) if x.who == t]
        own = deeds[mine[-1]].deed if mine else None
        if mine and any(x.deed != own for x in deeds[mine[-1] :]):
            own = None
        known.append(Access(t, now, False, own=own))
        return self.memory.get(at, 0.0)

    def write(self, t: int, at: str, value: float, deed: object) -> None:
        self.accesses.setdefault(at, []).append(Access(t, self.epochs[t], True, deed))
        self.memory[at] = value


def in_turns(loop: str, steps: list[Step], rounds: int) -> tuple[dict[str, float], bool]:
    """The memory in the end, and whether two accesses race; each thread runs until it waits."""
    machine = Machine(loop, steps, rounds)
    memory = machine.run(min)
    is_block = loop == "thread"
    return memory, any(
        one.meets(two, is_block)
        for found in machine.accesses.values()
        for one, two in combinations(found, 2)
    )


KNOWN = {
    "read, then another stores": (
        [Step("copy", when="t == 0"), Step("store")], 1),
    "read, then another stores what it has stored": (
        [Step("copy", when="t == 0"), Step("store", when="t < 2")], 1),
    "update after a store": ([Step("store", when="t == 0"), Step("atomic")], 1),
    "two values, the last of them by another": (
        [Step("store", value="k", when="k >= t", at="t // 2")], 2),
    "two store, one stores again": (
        [Step("store", at="t // 2"), Step("update", at="t // 2", when="t % 2 == 1")], 1),
    "a block comes after the barrier of another": (
        [Step("store", when="t == 0"), Step("copy", when="t < 2")], 1),
}  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", KNOWN)
def test_sequences_that_race(name, loop):
    steps, rounds = KNOWN[name]
    text = written(loop, steps, rounds)
    assert in_turns(loop, steps, rounds)[1]
    assert races(text)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    "steps",
    [
        [Step("store"), Step("copy")],
        [Step("store", value="k + 1", at="t"), Step("update", at="t"), Step("copy", at="t")],
        [Step("atomic"), Step("atomic", at="t // 2")],
        [Step("store"), Step("store"), Step("store", at="t")],
    ],
    ids=str,
)
def test_sequences_that_do_not(steps, loop):
    """The last one: two statements that store the same are two."""
    expected = len(steps) == 3 and steps[1].kind == "store"
    assert in_turns(loop, steps, 2)[1] is expected
    assert races(written(loop, steps, 2)) is expected


AT = st.sampled_from(["0", "t", "t // 2", "t % 32", "k"])
VALUE = st.sampled_from(["1", "2", "k", "t // 32"])
WHEN = st.sampled_from(
    ["True", "True", "t == 0", "t == 1", "t == 33", "t < 2", "k == 0", "t + k == 1"]
)


@st.composite
def programs(draw) -> tuple[str, list[Step], int]:
    """A loop, what its threads do, and how often."""
    loop = draw(st.sampled_from(list(LOOPS)))
    kinds = ["store", "store", "copy", "update", "atomic"]
    kinds += ["shared", "warp"] if loop == "thread" else []
    steps = []
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=5)):
        is_barrier = kind in ("shared", "warp")
        steps.append(Step(kind) if is_barrier else Step(kind, draw(AT), draw(VALUE), draw(WHEN)))
    return loop, steps, draw(st.sampled_from([1, 2]))


@settings(max_examples=200 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.integers(0, 1000))
def test_random_programs(program, seed):
    """What races is what pairs of accesses say; what does not has one result in any order."""
    loop, steps, rounds = program
    text = written(loop, steps, rounds)
    note(text)
    memory, expected = in_turns(loop, steps, rounds)
    assert races(text) is expected
    if not expected:
        for order in range(3):
            dice = random.Random(seed + order)
            assert Machine(loop, steps, rounds).run(dice.choice) == memory
    if loop == "parallel":
        refused_by_the_compiler(text, expected)


def refused_by_the_compiler(text: str, is_race: bool) -> None:
    """It refuses what races only, and leaves parallel what does not only."""
    func = parse(text, check_well_formed=False)
    try:
        found = ordered(func, "check")
    except DataRaceError:
        assert is_race
        return
    assert not (found is func and is_race)

"""Races found without running, held against the interpreter, which finds them by running."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.codegen.interp import run_prim_func
from mlcnb.codegen.races import races
from mlcnb.core.errors import DataRaceError, ExecutionError, MLCError
from mlcnb.script import parse
from tests.codegen.gpu_courses import COURSES
from tests.codegen.gpu_programs import PROGRAMS
from tests.codegen.test_races import (
    FORMS,
    HEAD,
    INIT,
    LOOPS,
    REDUCTION,
    arrays,
    statements,
    written,
)
from tests.tir.programs import FUZZ
from tests.tir.schedule.programs import elementwise

THREADS = [name for name in LOOPS if name != "parallel"]


def parsed(text):
    return parse(text, check_well_formed=False)


def proved(text):
    """Whether two threads are proved to race; nothing is left open."""
    found = races(parsed(text))
    assert all(race.proved for race in found)
    return bool(found)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loop", THREADS)
def test_a_sum_in_one_element(loop, form):
    assert proved(written(loop, form, ["B[0] = B[0] + A[t]"]))
    assert not proved(written(loop, form, ["B[t] = B[t] + A[t]"]))


@pytest.mark.parametrize(
    ("loop", "init", "expected"),
    [("thread", True, False), ("thread", False, True), ("block", True, True),
     ("block", False, True)],
)  # fmt: skip
def test_reductions(loop, init, expected):
    text = HEAD + REDUCTION.format(loop=LOOPS[loop], init=INIT if init else "T.evaluate(0)")
    assert proved(text) is expected


RACING = {
    "plain": written("thread", "plain", ["B[0] = B[0] + A[t]"]),
    "block": written("thread", "axis", ["B[0] = B[0] + A[t]"]),
    "reduction without init": HEAD + REDUCTION.format(loop=LOOPS["thread"], init="T.evaluate(0)"),
    "reduction over blocks": HEAD + REDUCTION.format(loop=LOOPS["block"], init=INIT),
    "lowered": HEAD + '    with T.launch_thread("threadIdx.x", 8) as t:\n'
    "        B[0] = B[0] + A[t]\n",
    "through a register": HEAD + '    with T.launch_thread("threadIdx.x", 8) as t:\n'
    '        r = T.allocate([1], "float32", "local")\n'
    '        R = T.decl_buffer((1,), data=r, scope="local")\n'
    "        R[0] = B[0] + A[t]\n        B[0] = R[0]\n",
}


@pytest.mark.parametrize("name", RACING)
def test_every_way_of_writing_it(name):
    """The interpreter and the analysis name it; no GPU runs it, simulated or not."""
    func = parsed(RACING[name])
    with pytest.raises(DataRaceError):
        run_prim_func(func, arrays())
    assert races(func)[0].element == "B[0]"
    for target in ("cuda-sim", "cuda"):
        with pytest.raises(MLCError):
            mlc.compile(func, target=target)


def test_who_knows_better_compiles_it():
    """For a GPU: the simulation would give the numbers of another program."""
    func = parsed(RACING["lowered"])
    assert "B[0] += A[t]" in mlc.compile(func, target="cuda", bounds="trust").kernels[0].source
    with pytest.raises(DataRaceError):
        mlc.compile(func, target="cuda-sim", bounds="trust")


def test_a_rule_of_ones_own_is_looked_at():
    """What mlcnb's rules make is known; what a person's make is not."""
    racing, plain = parsed(RACING["block"]), elementwise(8)
    with pytest.raises(DataRaceError):
        mlc.compile(plain, target="cuda", schedule=lambda func, target: racing)
    with pytest.raises(DataRaceError):
        mlc.compile(racing, target="cuda", schedule="default")
    assert mlc.compile(plain, target="cuda", schedule="default").kernels[0].source


@pytest.mark.parametrize("target", ["cuda-sim", "cuda"])
def test_it_says_who_and_where(target):
    with pytest.raises(DataRaceError) as error:
        mlc.compile(parsed(RACING["lowered"]), target=target)
    assert str(error.value) == (
        "data race on B[0] in global memory: nothing orders these two accesses\n"
        "  thread (threadIdx.x = 0) reads it: B[0] = B[0] + A[t]\n"
        "  thread (threadIdx.x = 1) writes it: B[0] = B[0] + A[t]\n"
        '  2 | def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), '
        'C: T.Buffer((8,), "float32")):\n'
        '  3 |     t = T.launch_thread("threadIdx.x", 8)\n'
        "> 4 |     B[0] = B[0] + A[t]\n"
        "    |     ^^^^^^^^^^^^^^^^^^\n"
        "hint: ThreadSync orders accesses to shared memory only: keep the buffer in scope shared, "
        "or bind another loop"
    )
    assert error.value.threads == ({"threadIdx.x": 0}, {"threadIdx.x": 1})


@pytest.mark.parametrize("name", sorted({**PROGRAMS, **COURSES}))
def test_programs_that_do_not_race(name):
    assert races({**PROGRAMS, **COURSES}[name]().func) == ()


@settings(max_examples=100 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(THREADS), st.sampled_from(list(FORMS)), statements())
def test_random_programs(loop, form, body):
    text = written(loop, form, body)
    note(text)
    try:
        run_prim_func(parsed(text), arrays())
        ran_into = False
    except DataRaceError:
        ran_into = True
    assert proved(text) is ran_into


# barriers that somebody wrote

SHARED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    with T.launch_thread("threadIdx.x", 8) as t:
        s = T.allocate([8], "float32", "shared")
        S = T.decl_buffer((8,), data=s, scope="shared")
        S[t] = A[t]
        T.evaluate(T.tvm_storage_sync("shared"))
"""
BARRIER = 'T.evaluate(T.tvm_storage_sync("shared"))'
PLACES = st.sampled_from(["t", "7 - t", "(t + 1) % 8", "t // 2", "0"])


@st.composite
def lines(draw, depth=0):
    """Stores to shared and global memory, barriers, loops and branches, indented."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["read", "write", "barrier", "barrier", "loop", "branch"]))
        at = draw(PLACES)
        if kind == "read":
            found.append(f"B[t] = B[t] + S[{at}]")
        elif kind == "write":
            found.append(f"S[{at}] = A[t] * T.float32({draw(st.integers(2, 9))})")
        elif kind == "barrier":
            found.append(BARRIER)
        elif depth < 1:
            head = {"loop": f"for k{depth} in range(3):", "branch": "if t % 3 == 1:"}[kind]
            inner = [x for x in draw(lines(depth + 1)) if kind == "loop" or x != BARRIER]
            found += [head, *(f"    {x}" for x in inner or ["T.evaluate(0)"])]
    return found


@settings(max_examples=150 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(lines())
def test_random_barriers(body):
    """A race is proved where the interpreter comes to one, and nowhere else."""
    text = SHARED + "".join(f"        {line}\n" for line in body)
    note(text)
    given_arrays = [np.arange(1, 9, dtype="f") * 1.37, np.zeros(8, "f")]
    try:
        run_prim_func(parsed(text), given_arrays)
        ran_into = False
    except DataRaceError:
        ran_into = True
    except ExecutionError:  # a barrier that not all come by
        return
    assert proved(text) is ran_into


def test_a_barrier_that_is_missing():
    text = SHARED + f"        S[t] = S[7 - t]\n        {BARRIER}\n        B[t] = S[t]\n"
    found = races(parsed(text))
    assert [(r.kind, r.element, r.threads, r.lines) for r in found] == [
        ("race", "S[7]", ({"threadIdx.x": 0}, {"threadIdx.x": 7}), (8, 8))
    ]
    assert found[0].hint == (
        "no barrier orders threads within one statement: give each thread an element of its own, "
        "or write a reduction block whose loop is bound to the threads"
    )
    text = SHARED + "        B[t] = S[7 - t]\n        S[t] = A[t] + T.float32(1)\n"
    (race,) = races(parsed(text))
    assert (race.kind, race.element, race.lines) == ("missing barrier", "S[7]", (8, 9))
    assert [(x.who, x.verb, x.line) for x in race.interleaving] == [(1, "write", 9), (0, "read", 8)]


def test_what_is_read_from_memory_is_not_proved():
    text = HEAD.replace("float32", "int32") + "    for t in T.thread_binding(8, "
    text += 'thread="threadIdx.x"):\n        B[A[t]] = t\n'
    (race,) = races(parsed(text))
    assert (race.proved, race.element) == (False, "B[?]")
    assert race.hint == (
        "an index or a condition is read from memory, or is not linear: run it by interp"
    )


COPIED = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((8,), "float32")):
    for t in T.thread_binding(8, thread="threadIdx.x"):
        with T.block("b"):
            S = T.alloc_buffer((64,), scope="shared")
            T.ptx_cp_async("float32", S.data, {to}, A.data, {source}, 16)
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            B[t] = S[{to}]
"""


@pytest.mark.parametrize(
    ("to", "source", "expected"),
    [("0", "t * 4", True), ("t * 2", "t * 4", True), ("t * 4", "t * 4", False),
     ("t * 4", "0", False), ("t * 2", "t * 2", False)],
)  # fmt: skip
def test_asynchronous_copies_to_one_place(to, source, expected):
    """They were taken for the same; those that bring the same there are."""
    found = races(parse(COPIED.format(to=to, source=source)))
    assert bool(found) is expected and all(race.proved for race in found)

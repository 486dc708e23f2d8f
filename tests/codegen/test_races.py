"""Races of threads and of the rounds of parallel loops, however the program is written."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import DataRaceError
from mlcnb.script import parse
from tests.tir.programs import FUZZ

HEAD = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
"""
LOOPS = {
    "thread": 'for t in T.thread_binding(8, thread="threadIdx.x"):',
    "block": 'for t in T.thread_binding(8, thread="blockIdx.x"):',
    "parallel": "for t in T.parallel(8):",
}
FORMS = {
    "plain": "{loop}\n    {body}",
    "axis": "{loop}\n    with T.block('b'):\n        v = T.axis.spatial(8, t)\n        {inner}",
    "opaque": "{loop}\n    with T.block('b'):\n        {body2}",
    "around": "with T.block('around'):\n    {loop}\n        {body2}",
    "nested": "{loop}\n    with T.block('o'):\n        v = T.axis.spatial(8, t)\n"
    "        with T.block('b'):\n            {inner3}",
}


def written(loop, form, statements):
    """A program: the statements, which speak of t, in a loop and a form."""
    inner = [x.replace("t]", "v]").replace("t ", "v ").replace("(t", "(v") for x in statements]
    text = FORMS[form].format(
        loop=LOOPS[loop],
        body="\n    ".join(statements),
        body2="\n        ".join(statements),
        inner="\n        ".join(inner),
        inner3="\n            ".join(inner),
    )
    body = "\n".join("    " + line for line in text.split("\n"))
    return HEAD + body + "\n"


def arrays():
    return [np.arange(1, 9, dtype="f") * 1.37, np.zeros(8, "f"), np.ones(8, "f")]


def races(text):
    try:
        run_prim_func(parse(text, check_well_formed=False), arrays())
    except DataRaceError:
        return True
    return False


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loop", LOOPS)
def test_a_sum_in_one_element(loop, form):
    assert races(written(loop, form, ["B[0] = B[0] + A[t]"]))
    assert not races(written(loop, form, ["B[t] = B[t] + A[t]"]))


REDUCTION = """
    {loop}
        with T.block("b"):
            v = T.axis.reduce(8, t)
            {init}
            B[0] = B[0] + A[v]
"""
INIT = "with T.init():\n                B[0] = T.float32(0)"


@pytest.mark.parametrize(
    ("loop", "init", "expected"),
    [("thread", True, False), ("thread", False, True), ("block", True, True),
     ("block", False, True), ("parallel", True, True), ("parallel", False, True)],
)  # fmt: skip
def test_reductions(loop, init, expected):
    """Threads of a block share a reduction that has an init; nobody else can."""
    text = HEAD + REDUCTION.format(loop=LOOPS[loop], init=INIT if init else "T.evaluate(0)")
    assert races(text) is expected


def test_the_error_says_who_and_where():
    with pytest.raises(DataRaceError) as error:
        run_prim_func(parse(written("parallel", "plain", ["B[0] = B[0] + A[t]"])), arrays())
    assert str(error.value) == (
        "data race on B[0] in global memory: nothing orders these two accesses\n"
        "  round (t = 0) writes it: B[0] = B[0] + A[t]\n"
        "  round (t = 1) reads it: B[0] = B[0] + A[t]\n"
        '  2 | def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), '
        'C: T.Buffer((8,), "float32")):\n'
        "  3 |     for t in T.parallel(8):\n"
        "> 4 |         B[0] = B[0] + A[t]\n"
        "    |         ^^^^^^^^^^^^^^^^^^\n"
        "hint: make the loop serial, or give each round elements of its own (sch.rfactor)"
    )
    assert (error.value.buffer, error.value.index) == ("B", (0,))


def test_the_arguments_are_as_they_were():
    given = arrays()
    with pytest.raises(DataRaceError):
        run_prim_func(parse(written("thread", "axis", ["B[0] = B[0] + A[t]"])), given)
    for one, two in zip(given, arrays(), strict=True):
        np.testing.assert_array_equal(one, two)


def test_memory_of_a_round_is_its_own():
    body = "    for t in T.parallel(8):\n        with T.block('b'):\n"
    body += "            X = T.alloc_buffer((1,))\n"
    assert not races(HEAD + body + "            X[0] = A[t]\n            B[t] = X[0]\n")
    outer = "    X = T.alloc_buffer((1,))\n    for t in T.parallel(8):\n"
    assert not races(HEAD + outer + "        X[0] = A[t]\n        B[t] = X[0]\n")
    assert races(HEAD + outer + "        B[t] = X[0]\n        X[0] = A[t]\n")


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(("at", "expected"), [("t", False), ("t // 2", True), ("0", True)])
def test_elements_that_are_vectors(loop, at, expected):
    text = (
        HEAD.replace("float32", "float32x4").rstrip()
        + f"""
    {LOOPS[loop]}
        B[{at}] = B[{at}] + A[t]
"""
    )
    args = [np.ones((8, 4), "f"), np.zeros((8, 4), "f"), np.zeros((8, 4), "f")]
    if not expected:
        run_prim_func(parse(text), args)
        np.testing.assert_array_equal(args[1], args[0])
        return
    with pytest.raises(DataRaceError, match=r"data race on B\[0\]"):
        run_prim_func(parse(text), args)


def test_a_lane_of_a_vector_that_another_buffer_sees():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32x4"), C: T.Buffer((8,), "float32")):
    D = T.Buffer((32,), "float32", data=A.data)
    for t in T.parallel(8):
        A[t] = T.Broadcast(T.float32(1), 4)
        C[t] = D[{}]
"""
    args = [np.zeros((8, 4), "f"), np.zeros(8, "f")]
    run_prim_func(parse(text.format("t * 4 + 2")), args)
    np.testing.assert_array_equal(args[1], np.ones(8))
    with pytest.raises(DataRaceError, match=r"data race on A\[1\]"):
        run_prim_func(parse(text.format("(t * 4 + 6) % 32")), args)


INDEX = st.sampled_from(
    ["t", "0", "7 - t", "t // 2", "t % 4", "(t + 1) % 8", "T.max(t - 1, 0)", "T.min(t + 4, 7)"]
)


@st.composite
def statements(draw):
    """Stores of values that no two threads share."""
    made = []
    for buffer in draw(st.lists(st.sampled_from("BC"), min_size=1, max_size=2, unique=True)):
        other = draw(st.sampled_from(["", " + B[{}]", " + C[{}]"])).format(draw(INDEX))
        made.append(f"{buffer}[{draw(INDEX)}] = A[t]{other}")
    return made


def oracle(text):
    """Whether two rounds touch an element and one of them writes it, of all recorded accesses."""
    seen = []
    run_prim_func(parse(text, check_well_formed=False), arrays(), record=seen, simulate=False)
    by_place = {}
    for name, at, what, values in seen:
        by_place.setdefault((name, at), set()).add((what, values["t"]))
    return any(
        one[1] != two[1] and "w" in (one[0], two[0])
        for found in by_place.values()
        for one, two in combinations(sorted(found), 2)
    )


@settings(max_examples=150 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(list(LOOPS)), st.sampled_from(list(FORMS)), statements())
def test_random_programs(loop, form, body):
    text = written(loop, form, body)
    note(text)
    plain = written("parallel", "plain", body)
    assert races(text) == oracle(plain)

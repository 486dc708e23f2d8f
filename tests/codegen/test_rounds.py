"""Parallel loops that a person wrote: refused where they race, in order where nothing is proved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.codegen.interp import run_prim_func
from mlcnb.codegen.rounds import ordered
from mlcnb.core.errors import DataRaceError, WellFormedError
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.schedule import Schedule
from tests.codegen.test_races import FORMS, HEAD, REDUCTION, arrays, races, statements, written
from tests.tir.programs import FUZZ
from tests.tir.schedule.programs import matmul, only, symbolic_chain


def rounds(func, bounds="check"):
    """How many parallel loops are left."""
    return str(ordered(func, bounds)).count("T.parallel(")


def test_the_error_says_which_rounds_meet_and_where():
    func = parse(written("parallel", "plain", ["B[t // 2] = A[t]"]))
    with pytest.raises(DataRaceError) as error:
        mlc.compile(func, target="llvm")
    assert str(error.value) == (
        "data race on B[0] in global memory: nothing orders these two accesses\n"
        "  round (t = 0) writes it: B[t // 2] = A[t]\n"
        "  round (t = 1) writes it: B[t // 2] = A[t]\n"
        '  2 | def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), '
        'C: T.Buffer((8,), "float32")):\n'
        "  3 |     for t in T.parallel(8):\n"
        "> 4 |         B[t // 2] = A[t]\n"
        "    |         ^^^^^^^^^^^^^^^^\n"
        "hint: make the loop serial, or give each round elements of its own (sch.rfactor)"
    )
    assert error.value.threads == ({"t": 0}, {"t": 1})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("body", ["B[0] = B[0] + A[t]", "B[T.min(t + 1, 7)] = B[t] + A[t]"])
def test_races_are_refused_however_they_are_written(form, body):
    func = parse(written("parallel", form, [body]), check_well_formed=False)
    with pytest.raises(DataRaceError, match="data race on B"):
        ordered(func, "check")
    assert rounds(func, "trust") == 1


def test_a_reduction_over_rounds_is_refused():
    text = HEAD + REDUCTION.format(
        loop="for t in T.parallel(8):", init="with T.init():\n                B[0] = T.float32(0)"
    )
    with pytest.raises(DataRaceError, match="data race on B"):
        mlc.compile(parse(text), target="llvm")


@T.prim_func
def scatter(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")):
    for i in T.parallel(8):
        B[I[i]] = B[I[i]] + A[i]


def test_what_is_not_known_runs_in_order_or_is_refused():
    assert rounds(scatter) == 0
    B, at = np.zeros(8, "f"), np.array([0, 1, 0, 2, 0, 3, 0, 4], "int32")
    mlc.compile(scatter, target="llvm")(np.arange(8, dtype="f"), at, B)
    np.testing.assert_array_equal(B, np.bincount(at, np.arange(8), 8).astype("f"))
    with pytest.raises(WellFormedError) as error:
        ordered(scatter, "prove")
    assert str(error.value).splitlines()[0] == (
        "rounds of the parallel loop i are not proved to touch elements of their own"
    )
    assert rounds(scatter, "trust") == 1


def test_the_same_by_all_is_no_race():
    for body in ("B[0] = T.float32(1)", "B[t // 2] = A[t // 2]"):
        func = parse(written("parallel", "plain", [body]))
        assert not races(written("parallel", "plain", [body]))
        assert rounds(func) == 1


@pytest.mark.parametrize(
    ("value", "left"),
    [("t // 8", 1), ("T.Select(t < 8, T.float32(1), T.float32(2))", 0), ("t", None)],
)
def test_a_value_that_two_rounds_share_is_no_race(value, left):
    """What it is made of differs, the value does not: proved, or run in order."""
    text = written("parallel", "plain", [f"B[t // 2] = T.float32({value})"])
    if left is None:
        assert races(text)
        with pytest.raises(DataRaceError, match="data race on B"):
            ordered(parse(text), "check")
        return
    assert not races(text)
    assert rounds(parse(text)) == left


PACKED = """
@T.prim_func
def main(n: T.int32, A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 2, 4), "float32"),
         D: T.Buffer((8, 4), "float32"), C: T.Buffer((4, 8), "float32")):
    for t in T.parallel({rounds}):
        for k in range(8):
            for j in range({columns}):
                B[k, j // 4, {column}] = {value}
            for j in range(4):
                D[k, j] = B[k, 0, j] + B[k, 1, {read}]
            for j in range(8):
                C[t, j] = T.float32(t) + D[k, j % 4] + B[k, j // 4, j % 4]
"""
WHOLE = {
    "rounds": "4", "columns": "8", "column": "j % 4", "read": "j",
    "value": "T.if_then_else(j < 6, A[k, j], T.float32(0))",
}  # fmt: skip


@pytest.mark.parametrize("changed", [{}, {"rounds": "n"}, {"columns": "7"}], ids=str)
def test_rounds_that_all_fill_a_buffer_alike_do_not_race(changed):
    """A tile that each round packs for itself in memory of all, and a second one made of it."""
    func = parse(PACKED.format(**{**WHOLE, **changed}))
    assert rounds(func, "prove") == 1
    shapes = (8, 6), (8, 2, 4), (8, 4), (4, 8)
    run_prim_func(func, [4, *(np.ones(x, "f") for x in shapes)])


@pytest.mark.parametrize(
    "changed",
    [
        {"value": "A[k, j % 6] + T.float32(t)"},
        {"value": "T.if_then_else(j + t < 6, A[k, j], T.float32(0))"},
        {"value": "A[k, j % 6] + C[0, 0]"},
        {"value": "A[k, j % 6] + D[k, 0]"},
        {"column": "j % 2"},
        {"columns": "t * 2 + 2"},
    ],
    ids=str,
)
def test_rounds_that_may_read_what_others_left_are_refused(changed):
    """Other values, values that are overwritten, elements that a round does not store itself."""
    func = parse(PACKED.format(**{**WHOLE, **changed}))
    with pytest.raises(DataRaceError, match="data race on [BCD]"):
        ordered(func, "check")


def test_what_a_round_stores_again_is_no_race():
    """Each step of a round stores the same: it changes nothing that others read."""
    body = ["for k in range(2):", "    B[0] = T.float32(1)", "    C[t] = B[0] + A[t]"]
    text = written("parallel", "plain", body)
    assert not races(text)
    assert rounds(parse(text), "prove") == 1


def test_the_last_of_several_values_is_not_the_same_for_all():
    """A tile that each step of a round fills anew: a round may be a step ahead."""
    func = parse(PACKED.format(**WHOLE).replace("B[k, ", "B[0, "))
    with pytest.raises(DataRaceError, match="data race on B"):
        ordered(func, "check")


ADDED = 'T.evaluate(T.call_intrin("float32", "tir.atomic_add", T.address_of(B[{}]), A[t]))'


@pytest.mark.parametrize("other", ["C[t] = B[0]", "B[t] = A[t]", "B[0] = A[t]"])
def test_an_atomic_update_races_with_what_is_not_atomic(other):
    text = written("parallel", "plain", [ADDED.format(0), other])
    assert races(text)
    with pytest.raises(DataRaceError, match="data race on B"):
        ordered(parse(text, check_well_formed=False), "check")


def test_atomic_updates_do_not_race():
    text = written("parallel", "plain", [ADDED.format(0), ADDED.format("t // 2"), "C[t] = A[t]"])
    assert not races(text)
    assert rounds(parse(text, check_well_formed=False), "prove") == 1


def test_a_prefetch_touches_nothing():
    body = ["T.evaluate(T.prefetch(T.address_of(B[7 - t]), 0, 3, 1))", "B[t] = A[t]"]
    text = written("parallel", "plain", body)
    assert rounds(parse(text, check_well_formed=False), "prove") == 1


def test_what_a_schedule_allows_stays_parallel():
    """Tiles that do not divide, open sizes, reductions inside, memory that rounds fill first."""
    sch = Schedule(matmul(13, 7, 5))
    i, j, _k = sch.get_loops("C")
    i_0, i_1 = sch.split(i, [None, 4])
    j_0, j_1 = sch.split(j, [None, 4])
    sch.reorder(i_0, j_0, i_1, j_1)
    sch.cache_write("C", 0, "local")
    sch.parallel(sch.fuse(i_0, j_0))
    assert rounds(only(sch.mod), "prove") == 1
    sch = Schedule(symbolic_chain())
    outer, inner = sch.split(sch.get_loops("C")[0], [None, 16])
    sch.compute_at("B", outer)
    sch.parallel(outer)
    sch.vectorize(inner)
    assert rounds(only(sch.mod), "prove") == 1


def test_default_schedules_are_not_asked(monkeypatch):
    """Loops that declarations and rules make are not looked at."""
    asked = []
    monkeypatch.setattr(
        "mlcnb.codegen.rounds.ordered", lambda func, bounds: asked.append(func) or func
    )
    bb = mlc.relax.BlockBuilder()
    x = mlc.relax.Var("x", mlc.relax.TensorStructInfo((64, 64), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(mlc.relax.op.nn.softmax(mlc.relax.op.matmul(x, x))))
    mlc.compile(bb.get(), target="llvm")
    assert not asked


def test_a_rule_that_makes_a_race_is_refused():
    def rule(func, target):
        sch = Schedule(func, check="none")
        sch.parallel(sch.get_loops("C")[2])
        return sch

    with pytest.raises(DataRaceError, match="data race on C"):
        mlc.compile(matmul(4, 4, 4), target="llvm", schedule=rule)


@pytest.mark.slow
@settings(max_examples=100 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(list(FORMS)), statements())
def test_refused_is_what_the_interpreter_finds(form, body):
    """What is refused races as it runs; what is left parallel does not."""
    text = written("parallel", form, body)
    note(text)
    func = parse(text, check_well_formed=False)
    try:
        found = ordered(func, "check")
    except DataRaceError:
        assert races(text)
        return
    if found is func:
        assert not races(text)
    else:
        run_prim_func(found, arrays())

"""Bounds of accesses: proved, or refuted by an iteration; and what the interpreter says."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, note, settings

from mlcnb import te
from mlcnb.core.errors import ExecutionError, WellFormedError
from mlcnb.ir.module import IRModule
from mlcnb.script import parse
from mlcnb.tir import analysis
from tests.tir.programs import FUZZ, parsed, programs, recorded

WINDOW = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32"),
         idx: T.Buffer((16,), "int32"), h: T.handle):
    n = T.int32()
    D = T.match_buffer(h, (n, 4), "float32")
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            T.reads(A[0:16], idx[vi])
            T.writes(C[vi])
            C[vi] = A[vi + 1] + T.if_then_else(vi > 0, A[vi - 1], T.float32(0)) + A[idx[vi]]
    for i, j in T.grid(n, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads()
            T.writes(D[vi, vj])
            D[vi, vj] = D[vi - 1, vj]
    A[T.Ramp(10, 2, 4)] = T.Broadcast(T.float32(1), 4)
"""


def test_what_leaves_its_buffer_and_what_is_not_proved():
    assert [x.message for x in analysis.check_bounds(parse(WINDOW, check_well_formed=False))] == [
        "A[16] is read at i = 15: dimension 0 has indices 0..16",
        "A[idx[vi]] is read: its index in dimension 0 is not proved to lie in 0..16",
        "D[-1, 0] is read at n = 1, i = 0, j = 0: dimension 0 has indices 0..n",
        "A[16] is written: dimension 0 has indices 0..16",
    ]


def test_the_error_points_at_the_access():
    func = parse(WINDOW, check_well_formed=False)
    assert analysis.verify_bounds(func, assert_mode=False) is False
    with pytest.raises(WellFormedError) as error:
        analysis.verify_bounds(func)
    assert "A[vi + 1]" in error.value.excerpt()
    lines = str(error.value).split("\n")
    assert lines[0] == "A[16] is read at i = 15: dimension 0 has indices 0..16"
    assert lines[-1] == (
        "hint: cut the block with T.where, or guard the access with T.if_then_else"
    )


def test_the_pass_of_tvms_name():
    func = parse(WINDOW, check_well_formed=False)
    with pytest.raises(WellFormedError):
        analysis.OOBChecker()(IRModule({"main": func}))
    A = te.placeholder((8,), name="A")
    mod = IRModule({"main": te.create_prim_func([A, te.compute((8,), lambda i: A[i])])})
    assert analysis.OOBChecker()(mod) is mod


def test_padding_is_proved():
    A = te.placeholder((8,), name="A")
    func = te.create_prim_func(
        [A, te.compute((10,), lambda i: te.if_then_else(te.all(i >= 1, i < 9), A[i - 1], 0.0))]
    )
    assert analysis.verify_bounds(func)


def test_both_values_of_a_select_are_computed():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = T.Select(i > 0, A[i - 1], 0)
"""
    assert len(analysis.check_bounds(parse(text))) == 1
    assert not analysis.check_bounds(parse(text.replace("T.Select", "T.if_then_else")))


@settings(max_examples=60 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(wild=True))
def test_what_is_proved_runs_and_what_is_refuted_does_not(text):
    note(text)
    func = parsed(text)
    problems = analysis.check_bounds(func)
    assert all(x.exact for x in problems)
    if problems:
        with pytest.raises(ExecutionError):
            recorded(func)
    else:
        recorded(func)

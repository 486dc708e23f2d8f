"""Every step can be proved: by islpy, by running, by rule, and what each check says of it."""

from __future__ import annotations

import sys

import pytest

from mlcnb.arith.presburger import NotAffine
from mlcnb.core.errors import ScheduleError
from mlcnb.script import tir as T
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.legality.polyhedral.answers import carried_by, flow_of, why_not_equal
from mlcnb.tir.schedule.legality.polyhedral.instances import repeats_differ
from tests.tir.schedule.carried import CARRIED
from tests.tir.schedule.programs import (
    conv2d,
    elementwise,
    matmul,
    matmul_relu,
    padded_pool,
    row_sum,
    same_numbers,
    softmax,
    stencil,
)

PATIENT = 20_000_000


def func(sch: Schedule):
    """The function as it is now."""
    return next(iter(sch.mod.functions.values()))


def proofs(sch: Schedule) -> list[str]:
    """How each step is known to be legal."""
    return [s.proof for s in sch.steps[1:]]


@T.prim_func
def gather(
    A: T.Buffer((8,), "float32"), index: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")
):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[index[v]]


@T.prim_func
def symbolic(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("B"):
            v = T.axis.spatial(n, i)
            B[v] = A[v] * T.float32(2)


def test_matmul_is_proved_step_by_step():
    sch = Schedule(matmul_relu(8, 8, 8), check="dependence")
    C, D = sch.get_block("C"), sch.get_block("D")
    i, j, k = sch.get_loops(C)
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 3])
    sch.reorder(i0, j0, k, i1, j1)
    copy = sch.cache_read(C, 1, "local")
    sch.compute_at(copy, k)
    sch.decompose_reduction(C, k)
    sch.reverse_compute_at(D, j0)
    sch.vectorize(sch.get_loops(D)[-1])
    sch.parallel(i0)
    assert set(proofs(sch)) == {"proved (islpy)"}


def test_a_product_of_any_size_is_proved():
    sch = Schedule(matmul(1024, 1024, 1024), check="dependence")
    i, j, k = sch.get_loops("C")
    tiles = [sch.split(x, [None, 32]) for x in (i, j, k)]
    sch.reorder(*[t[0] for t in tiles], *[t[1] for t in tiles])
    sch.parallel(sch.fuse(tiles[0][0], tiles[1][0]))
    assert set(proofs(sch)) == {"proved (islpy)"}


def test_reductions_of_reductions():
    sch = Schedule(row_sum(4, 8), check="dependence")
    k0, _k1 = sch.split(sch.get_loops("B")[1], [4, 2])
    sch.rfactor(k0, 0)
    assert proofs(sch) == ["proved (islpy)"] * 2


def test_layouts_caches_and_blocks():
    sch = Schedule(padded_pool(6), check="dependence")
    sch.transform_layout("pad", ("write", 0), lambda i, j: (j, i))
    sch.compute_inline("pad")
    sch.cache_write("C", 0, "local")
    sch.transform_block_layout("C", lambda i, j, a, b: (i, j, b, a))
    sch.blockize(sch.get_loops("C")[2])
    assert proofs(sch) == ["proved (islpy)"] * 5


def test_softmax_fused():
    sch = Schedule(softmax(), check="dependence")
    D = sch.get_block("D")
    (i, _j) = sch.get_loops(D)
    for name in ("S", "E", "M"):
        sch.compute_at(name, i)
    sch.parallel(i)
    assert proofs(sch) == ["proved (islpy)"] * 4


def test_symbolic_sizes():
    sch = Schedule(symbolic, check="dependence")
    i0, i1 = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.vectorize(i1)
    sch.parallel(i0)
    assert proofs(sch) == ["proved (islpy)"] * 3


def test_what_is_not_affine_is_said():
    sch = Schedule(gather, check="dependence")
    sch.split(sch.get_loops("B")[0], [None, 4])
    assert proofs(sch) == ["by rule (islpy could not prove it: index[v] is not affine)"]


def test_each_check_says_what_it_did():
    for check, said in {
        "default": "by rule",
        "rules": "by rule",
        "none": "trusted",
        "dependence": "proved (islpy)",
        "numeric": "numeric 0 on shape (16,), (16,)",
        "both": "proved (islpy); numeric 0 on shape (16,), (16,)",
    }.items():
        sch = Schedule(elementwise(), check=check)
        sch.split(sch.get_loops("B")[0], [None, 4])
        assert proofs(sch) == [said]


def test_numbers_of_another_order_differ_a_little():
    sch = Schedule(row_sum(4, 32), check="numeric")
    sch.rfactor(sch.get_loops("B")[1], 0)
    (said,) = proofs(sch)
    assert said.startswith("numeric ") and said.endswith(" on shape (4, 32), (4,)")


# -- a second opinion -------------------------------------------------------------------


def test_rows_of_a_scan_are_parallel():
    func_ = CARRIED["scan_rows"]
    strict = Schedule(func_, check="rules")
    with pytest.raises(ScheduleError):
        strict.parallel(strict.get_loops("B")[1])
    sch = Schedule(func_)
    sch.parallel(sch.get_loops("B")[1])
    assert proofs(sch) == ["proved (islpy)"]
    same_numbers(func_, func(sch))


def test_halves_of_a_buffer_are_parallel():
    sch = Schedule(CARRIED["half_and_half"])
    sch.vectorize(sch.get_loops("high")[0])
    assert proofs(sch) == ["proved (islpy)"]


def test_partial_results_are_not_computed_again_and_again():
    sch = Schedule(matmul_relu())
    fused = sch.fuse(*sch.get_loops("C")[1:])
    with pytest.raises(ScheduleError, match="has not finished C"):
        sch.reverse_compute_at("D", fused)


def test_rules_alone_ask_nobody():
    for name in [
        n for n in sys.modules if n.startswith("mlcnb.tir.schedule.legality.polyhedral.equal")
    ]:
        del sys.modules[name]
    sch = Schedule(CARRIED["scan"], check="rules")
    with pytest.raises(ScheduleError):
        sch.parallel(sch.get_loops("B")[0])
    assert "mlcnb.tir.schedule.legality.polyhedral.equal" not in sys.modules


# -- what is wrong is found -------------------------------------------------------------


def wrong(before, after) -> str:
    """Why two programs could not be shown to be equal."""
    reason = why_not_equal(before, after, PATIENT)
    assert reason is not None
    return reason


def test_a_missing_write():
    @T.prim_func
    def short(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        for i in range(15):
            with T.block("C"):
                v = T.axis.spatial(16, i)
                C[v] = A[v] * T.float32(2) + T.float32(1)

    assert "block C before and an element of C after" in wrong(elementwise(), short)


def test_a_missing_term():
    @T.prim_func
    def short(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, 7):
            with T.block("B"):
                v, r = T.axis.remap("SR", [i, k])
                with T.init():
                    B[v] = T.float32(0)
                B[v] = B[v] + A[v, r]

    assert "block B" in wrong(row_sum(4, 8), short)


def test_a_term_twice():
    @T.prim_func
    def twice(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, 8):
            with T.block("B"):
                v, r = T.axis.remap("SR", [i, k])
                with T.init():
                    B[v] = T.float32(0)
                B[v] = B[v] + A[v, T.max(r, 1)]

    assert "block B" in wrong(row_sum(4, 8), twice)


def test_another_start():
    @T.prim_func
    def seven(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, 8):
            with T.block("B"):
                v, r = T.axis.remap("SR", [i, k])
                with T.init():
                    B[v] = T.float32(7)
                B[v] = B[v] + A[v, r]

    assert "block B" in wrong(row_sum(4, 8), seven)


def test_another_operator_and_another_number():
    @T.prim_func
    def other(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        for i in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, i)
                C[v] = A[v] * T.float32(2) - T.float32(1)

    @T.prim_func
    def number(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        for i in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, i)
                C[v] = A[v] * T.float32(3) + T.float32(1)

    assert "could not be shown to be equal" in wrong(elementwise(), other)
    assert "T.float32(2.0) of block B" in wrong(elementwise(), number)


def test_a_read_before_the_write():
    @T.prim_func
    def early(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        B = T.alloc_buffer((16,))
        for i in range(16):
            with T.block("C"):
                v = T.axis.spatial(16, i)
                C[v] = B[v] + T.float32(1)
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] * T.float32(2)

    assert "an element of B after" in wrong(elementwise(), early)


def test_programs_equal_to_themselves():
    for make in (elementwise, matmul_relu, padded_pool, softmax, stencil, conv2d):
        assert why_not_equal(make(), make(), PATIENT) is None
    for func_ in CARRIED.values():
        assert why_not_equal(func_, func_, PATIENT) is None


def test_the_first_two_iterations_that_conflict():
    func_ = CARRIED["last_one_wins_later"]
    loop, _ = func_.body.block.body.seq
    found = carried_by(func_, loop, True, PATIENT)
    assert str(found.first) == "block C at i = 0 writes C[0]"
    assert str(found.second) == "block C at i = 4 writes C[0]"


def test_the_bound_on_the_work_holds():
    before, after = conv2d(), conv2d()
    assert why_not_equal(before, after, 1_000) == "it takes isl more than 1,000 operations"
    assert why_not_equal(before, after, PATIENT) is None


def test_dataflow_of_a_scan():
    flow = flow_of(CARRIED["scan"])
    (scan,) = flow.program.statements
    load = scan.loads[1][0]
    inner, outer = flow.sources(scan, load)
    assert inner.writer is scan and outer.writer is None
    assert inner.map.is_equal(flow.program.map("S0[i] -> S0[i - 1] : 0 < i < 8"))


def test_calls_are_not_looked_into():
    @T.prim_func
    def called(A: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("A"):
                v = T.axis.spatial(4, i)
                T.reads(A[v])
                T.writes(A[v])
                T.evaluate(T.call_extern("int32", "f", A[v]))

    with pytest.raises(NotAffine, match="is not looked into"):
        flow_of(called)


@T.prim_func
def a_store_that_never_runs(A: T.Buffer((4,), "float32"), D: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((1,))
    for j in range(1):
        with T.block("Z"):
            w = T.axis.spatial(1, j)
            B[w] = T.float32(7)
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            T.where(i % 2 == 0)
            T.writes(B[0])
            B[0] = T.float32(1)
            for k in range(v % 2):
                B[k] = A[v]
        with T.block("D"):
            v = T.axis.spatial(4, i)
            D[v] = B[0]


def test_what_never_runs_is_no_question():
    """It reads no writes that could differ (it was a ValueError)."""
    sch = Schedule(a_store_that_never_runs)
    sch.cache_read("B", 0, "local")
    assert repeats_differ(flow_of(func(sch))) is None

"""Programs that cannot be scheduled: blocks that say something false about themselves."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import MLCError, ScheduleError
from mlcnb.script import tir as T
from mlcnb.tir.schedule import Schedule


def refused(func, message: str, hint: str | None = None) -> None:
    """The program is refused with this message."""
    with pytest.raises(MLCError) as caught:
        Schedule(func)
    assert caught.value.message == message
    assert caught.value.hint == hint
    Schedule(func, check="none")


def test_axis_outside_of_its_domain():
    @T.prim_func(check_well_formed=False)
    def f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]

    refused(
        f,
        "axis v of block B takes the value 8 at i = 8, outside of its domain 0..8",
        "give the axis the extent that its loops have, or add T.where",
    )


def test_axis_below_its_domain():
    @T.prim_func(check_well_formed=False)
    def f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i - 1)
                B[v] = A[v]

    refused(
        f,
        "axis v of block B takes the value -1 at i = 0, outside of its domain 0..16",
        "give the axis the extent that its loops have, or add T.where",
    )


def test_predicate_keeps_the_axis_inside():
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                T.where(i < 8)
                B[v] = A[v]

    assert repr(Schedule(f).get_loops("B")[0]) == "loop i in 0..16 of block B"


def test_loop_variable_inside_a_block():
    @T.prim_func(check_well_formed=False)
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[i]

    with pytest.raises(MLCError, match="i"):
        Schedule(f)


def test_regions_that_are_not_what_the_body_touches():
    @T.prim_func(check_well_formed=False)
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((9,), "float32")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                T.reads(A[v])
                T.writes(B[v])
                B[v + 1] = A[v]

    refused(
        f,
        "block B writes B[1] at i = 0, where T.writes does not say so",
        "leave T.writes out: it is then found from the body",
    )


def test_a_program_without_root_block_gets_one():
    @T.prim_func
    def f(B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = T.float32(1)

    sch = Schedule(f)
    assert [b.name_hint for b in sch.state.tree(sch.state.working_on).blocks] == ["root", "B"]


def test_modules_without_loops_have_nothing_to_schedule():
    from mlcnb.ir.module import IRModule

    sch = Schedule(IRModule())
    with pytest.raises(ScheduleError, match="does not know which function to be working on"):
        sch.get_block("B")


def test_a_block_around_others_that_says_nothing_is_completed():
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,))
        with T.block("outer"):
            T.reads()
            T.writes()
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v]
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = B[7 - v]

    sch = Schedule(f)
    outer = sch.get_block("outer")
    assert [r.buffer.name for r in sch.get(outer).reads] == ["A"]
    assert [r.buffer.name for r in sch.get(outer).writes] == ["B"]
    assert repr(sch.get_consumers(outer)) == "[block C]"

"""The steps of a schedule in a cell: each call with the names that were true when it was done."""

from __future__ import annotations

from mlcnb.testing.gallery.programs import matmul
from mlcnb.tir.schedule import Schedule
from mlcnb.view.schedule import step_table


def calls(sch: Schedule) -> list[str]:
    return [row[2] for row in step_table(sch).rows]


def test_names_of_the_time():
    sch = Schedule(matmul(8, 8, 8))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i_0, i_1 = sch.split(i, [None, 4])
    start = sch.decompose_reduction(block, k)
    sch.unroll(sch.get_loops(start)[-1])
    assert calls(sch) == [
        "as given",
        "split(loop i, factors=[None, 4])",
        "decompose_reduction(block C, loop k)",
        "unroll(loop j)",
    ]


def test_of_steps_that_are_undone():
    sch = Schedule(matmul(8, 8, 8))
    i, j, k = sch.get_loops("C")
    sch.reorder(i, k, j)
    sch.fuse(*sch.get_loops("C")[:2], preserve_unit_iters=False)
    sch.goto(0)
    assert calls(sch) == [
        "as given",
        "reorder(loop i, loop k, loop j)",
        "fuse(loop i, loop k, preserve_unit_iters=False)",
    ]


def test_argument_kinds():
    sch = Schedule(matmul(8, 8, 8))
    i, j, k = sch.get_loops("C")
    factors = sch.sample_perfect_tile(i, n=2, decision=[2, 4])
    sch.split(i, factors)
    sch.annotate(j, "note", "text")
    sch.cache_read("C", 0, "shared")
    assert calls(sch)[1:] == [
        "split(loop i, factors=[v0, v1])",
        "annotate(loop j, ann_key='note', ann_val='text')",
        "cache_read(block C, read_buffer_index=0, storage_scope='shared')",
    ]

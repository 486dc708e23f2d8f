"""replay: stages of a schedule, the same result at each, counts that are known by hand."""

from __future__ import annotations

import sys

import matplotlib
import pytest

import mlcnb as mlc
from mlcnb.core.errors import MLCError
from mlcnb.observe.replay import turning_points
from mlcnb.script import from_source
from mlcnb.target import Target
from mlcnb.testing.gallery.programs import matmul

pytest.importorskip("threadpoolctl", reason="threadpoolctl is not installed")


def tiled(rows: int = 4, vectors: int = 2):
    lanes = Target("llvm").lanes("float32")
    sch = mlc.tir.Schedule(matmul(8 * rows, 4 * vectors * lanes, 64))
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, rows])
    j0, j1, lane = sch.split(j, [None, vectors, lanes])
    sch.reorder(i0, j0, k, i1, j1, lane)
    start = sch.decompose_reduction("C", k)
    sch.vectorize(lane)
    sch.vectorize(sch.get_loops(start)[-1])
    for loop in (i1, j1, *sch.get_loops(start)[2:-1]):
        sch.unroll(loop)
    return sch


def test_a_stage_where_one_kind_of_step_ends():
    sch = tiled()
    assert turning_points(sch) == [0, 2, 3, 4, 6, 10]
    found = mlc.replay(sch)
    assert [s.step for s in found] == [0, 2, 3, 4, 6, 10] and found.steps == 10
    assert [s.done for s in found][:3] == [("start",), ("split", "split"), ("reorder",)]
    assert all(s.difference < 1e-5 and s.strip.seconds > 0 for s in found)
    first, last = found[0].strip, found[-1].strip
    assert {(s.strip.flops, s.strip.nbytes) for s in found} == {(first.flops, first.nbytes)}
    assert last.hot.fma % 8 == 0 and last.hot.fma > 0
    assert (last.hot.stores, last.spills) == (0, 0)
    assert last.facts.vector_bits == Target("llvm").vector_bits
    assert sch.position == 10
    assert found.after("unroll") is found[-1] and found.after("split") is found[1]
    with pytest.raises(MLCError) as caught:
        found.after("fuse")
    assert str(caught.value) == (
        "replay: no stage ends with 'fuse'\n"
        "hint: there are start, split, reorder, decompose_reduction, vectorize, unroll"
    )


def test_chosen_steps_and_what_a_schedule_left_behind():
    sch = tiled()
    assert [s.step for s in mlc.replay(sch, at=[3, 0])] == [0, 3]
    sch.undo(4)
    assert turning_points(sch) == [0, 2, 3, 4, 6]


def test_refusals():
    sch = tiled()
    with pytest.raises(MLCError) as caught:
        mlc.replay(sch, at=[0, 11])
    assert str(caught.value) == "replay: no such steps among [0, 11]\nhint: there are 0 to 10"
    text = """
@T.prim_func
def f(n: T.int32, x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("y"):
            vi = T.axis.spatial(4, i)
            y[vi] = x[vi]
"""
    with pytest.raises(MLCError, match="replay: step 0 of main cannot be run on arrays of its own"):
        mlc.replay(mlc.tir.Schedule(from_source(text)))


def test_another_result_is_refused(monkeypatch):
    monkeypatch.setattr(sys.modules["mlcnb.observe.replay"], "_apart", lambda found, expected: 0.5)
    with pytest.raises(MLCError, match="after step 3 the program computes something else"):
        mlc.replay(tiled(), at=[0, 3])


def test_plot():
    matplotlib.use("Agg")
    bars, roof = mlc.replay(tiled(), at=[0, 10]).plot()
    names = [text.get_text() for text in bars.get_yticklabels()]
    assert names == ["as given  1", "10 steps to unroll  2"]
    assert sum(line.get_gid() == "dot" for line in roof.lines) == 2
    matplotlib.pyplot.close(roof.figure)

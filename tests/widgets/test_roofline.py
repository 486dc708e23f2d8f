"""Roofline trail: what is measured, counted and predicted of each stage, each named as such."""

import json

import pytest

import mlcnb as mlc
from mlcnb.core.errors import MLCError
from mlcnb.machine.prediction import predict
from mlcnb.machine.roofline import COMPUTE, Level, Roofline
from mlcnb.observe.replay import replay
from mlcnb.script import from_source
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule
from mlcnb.widgets.roofline import RooflineTrail
from tests.view import samples
from tests.view.allowed import check_html
from tests.view.names import NAMES

MATMUL = """
@T.prim_func
def main(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"),
         C: T.Buffer((64, 64), "float32")):
    for i, j, k in T.grid(64, 64, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
ROOF = Roofline(100.0, (Level("L1", 32 << 10, 400.0), Level("L2", 1 << 20, 50.0),
                        Level("memory", None, 10.0)), 1)  # fmt: skip


def scheduled() -> Schedule:
    sch = Schedule(from_source(MATMUL))
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.reorder(i, k, j)
    sch.vectorize(sch.split(j, [None, 16])[1])
    return sch


@pytest.fixture(scope="module")
def page():
    return mlc.explore(replay(scheduled()))


def test_a_prediction_is_the_slowest_of_all_limits():
    # 1e9 FLOP at 100 GFLOP/s: 10 ms; 1e9 bytes from L2 at 50 GB/s: 20 ms
    assert ROOF.predicted(10**9, (0, 0)) == (100.0, COMPUTE)
    assert ROOF.predicted(10**9, (10**9, 0)) == (50.0, "L2")
    assert ROOF.predicted(10**9, (0, 10**9)) == (10.0, "memory")
    assert ROOF.predicted(10**9, (0, 0), 1 / 16) == (6.25, "vector width")


def test_the_stages_of_a_schedule(page):
    told = page.snapshot()
    assert [d["label"] for d in told["dots"]] == ["as given", "reorder", "split", "vectorize"]
    assert [d["step"] for d in told["dots"]] == [0, 1, 2, 3]
    assert told["dots"][1]["calls"] == ["sch.reorder(l1, l3, l2)"]
    assert "sch.split(loop=l2, factors=[None, 16]" in told["dots"][2]["calls"][0]
    for dot in told["dots"]:
        assert dot["gflops"] > 0 and dot["predicted"] > 0
        assert dot["x"][0] == pytest.approx(2 * 64**3 / (3 * 64 * 64 * 4))
    assert told["threads"] == 1 and len(told["levels"]) == 4


def test_what_is_predicted_follows_the_model(page):
    for dot in page.dots:
        found = predict(dot.stage.kernel.func, Target("llvm"))
        assert dot.traffic == tuple(64 * misses for misses in found.misses)
        assert dot.nbytes("L2") == dot.traffic[0] and dot.nbytes("memory") == dot.traffic[2]
    lanes = Target("llvm").lanes("float32")
    first, last = page.dots[0], page.dots[-1]
    assert first.predicted[0] <= page.roof.peak / lanes * 1.001
    assert last.predicted[0] > first.predicted[0]


def test_the_text_says_the_same(page):
    text = repr(page)
    assert text.startswith("Roofline of main: 4 stages, ")
    for word in ("counted", "measured", "predicted", "as given", "vectorize", "compute-bound from"):
        assert word in text
    for dot in page.snapshot()["dots"]:
        assert f"{dot['gflops']:.3g}" in text and dot["time"] in text


def test_the_page_of_a_replay_is_not_the_roofline():
    page = mlc.explore(mlc.replay(scheduled()))
    assert isinstance(page, RooflineTrail) and len(page.dots) == 4
    assert isinstance(mlc.roofline(1, 0.005), Roofline)
    with pytest.raises(MLCError) as caught:
        mlc.roofline(scheduled())
    assert str(caught.value) == (
        "roofline: threads is a number, not a Schedule\n"
        "hint: mlc.explore(mlc.replay(sch)) shows a schedule under the roof, step by step"
    )


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_names_stay_text(name):
    page = mlc.explore(samples.replayed(name))
    assert page.dots[0].predicted is None and page.dots[0].intensity("L2") is None
    assert len(json.dumps(page.snapshot())) < 20_000
    check_html(page.to_html())

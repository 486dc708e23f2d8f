"""benchmark: fair turns, the same results and threads; what is told of them. No times."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import MissingDependencyError, MLCError
from mlcnb.observe.benchmark import Benchmark, Timing, fixed_threads
from mlcnb.testing.gallery.programs import matmul
from mlcnb.view import to_text

PRODUCT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((16, 16), "float32"), y: R.Tensor((16, 16), "float32")):
        with R.dataflow():
            gv = R.matmul(x, y)
            R.output(gv)
        return gv
"""
TWO = Benchmark((Timing("a", 2e-3, 9, 4_000_000, 0.0), Timing("b", 1e-3, 1, 4_000_000, 1e-6)), 2)


def arrays(n: int = 16):
    rng = np.random.default_rng(0)
    a, b = (rng.random((n, n), dtype="float32") for _ in range(2))
    return a, b, np.empty((n, n), "float32")


def test_contestants_of_every_kind():
    func = matmul(16, 16, 16)
    given = {
        "numpy": np.matmul,
        "function": func,
        "schedule": mlc.tir.Schedule(func),
        "executable": mlc.compile(func),
    }
    found = mlc.benchmark(given, *arrays(), seconds=0.01)
    assert [t.name for t in found] == list(given) and len(found) == 4
    assert all(t.flops == 2 * 16**3 and t.runs >= 5 and t.difference < 1e-6 for t in found)
    assert found.ratio("schedule") == found["numpy"].seconds / found["schedule"].seconds
    assert found["numpy"].gflops == 2 * 16**3 / found["numpy"].seconds / 1e9


def test_an_earlier_timing_stands_as_it_is():
    earlier = Timing("slow", 2.0, 1, 2 * 16**3, 1e-6)
    found = mlc.benchmark(
        {"numpy": np.matmul, "as written": earlier, "loops": matmul(16, 16, 16)},
        *arrays(),
        seconds=0.01,
    )
    assert [t.name for t in found] == ["numpy", "as written", "loops"]
    assert found["as written"] == Timing("as written", 2.0, 1, 2 * 16**3, 1e-6)
    with pytest.raises(MLCError, match="benchmark: nothing to time"):
        mlc.benchmark({"as written": earlier}, *arrays())


def test_a_slow_contestant_is_called_once():
    calls = []

    def slow(a, b, c):
        calls.append(1)
        time.sleep(0.6)
        np.matmul(a, b, out=c)

    found = mlc.benchmark({"slow": slow}, *arrays(), seconds=0.01, flops=1)
    assert len(calls) == found["slow"].runs == 1


def test_a_graph_writes_its_result_to_the_last_array():
    ex = mlc.compile(mlc.script.parse(PRODUCT))
    found = mlc.benchmark({"numpy": np.matmul, "graph": ex}, *arrays(), seconds=0.01)
    assert found["graph"].difference < 1e-6


def test_threads_are_set_and_set_back():
    pytest.importorskip("threadpoolctl", reason="threadpoolctl is not installed")
    from threadpoolctl import threadpool_info

    before = mlc.get_num_threads()
    with fixed_threads(1):
        blas = [x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"]
        assert mlc.get_num_threads() == 1 and set(blas) <= {1}
    assert mlc.get_num_threads() == before


def test_one_thread_is_timed_by_the_cpu():
    """A program that sleeps takes no time of the core; on several threads it does."""
    pytest.importorskip("threadpoolctl", reason="threadpoolctl is not installed")

    def sleepy(a, b, c):
        time.sleep(0.02)
        np.matmul(a, b, out=c)

    if time.get_clock_info("process_time").resolution >= 1e-5:
        pytest.skip("the clock of the CPU is too coarse")
    for _ in range(1000):  # what tests before it left to the background takes time of a core, too
        before = time.process_time()
        time.sleep(0.02)
        if time.process_time() - before < 0.002:
            break
    one = mlc.benchmark({"sleepy": sleepy}, *arrays(), threads=1, seconds=0.01, flops=1)
    two = mlc.benchmark({"sleepy": sleepy}, *arrays(), threads=2, seconds=0.01, flops=1)
    assert one.clock == "CPU time" and two.clock == "wall-clock time"
    assert one["sleepy"].seconds < 0.02 <= two["sleepy"].seconds


def test_threads_need_threadpoolctl(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    with pytest.raises(MissingDependencyError) as caught, fixed_threads(1):
        pass
    assert str(caught.value) == "threadpoolctl is not installed\nhint: pip install 'mlcnb[lab]'"


def test_different_results_are_refused():
    def wrong(a, b, c):
        c[...] = a @ b + 1

    with pytest.raises(MLCError, match="benchmark: wrong computes something else than numpy"):
        mlc.benchmark({"numpy": np.matmul, "wrong": wrong}, *arrays(), seconds=0.01)


def test_not_a_number_is_refused():
    def wrong(a, b, c):
        c[...] = np.nan

    with pytest.raises(MLCError, match="differ by nan of the largest element"):
        mlc.benchmark({"numpy": np.matmul, "wrong": wrong}, *arrays(), seconds=0.01)


def test_refusals():
    with pytest.raises(MLCError, match="benchmark: nothing to time"):
        mlc.benchmark({}, 1)
    with pytest.raises(MLCError, match="benchmark: an int cannot be run"):
        mlc.benchmark({"one": 1}, *arrays())
    with pytest.raises(MLCError, match="benchmark: no contestant 'c'"):
        TWO["c"]


def test_text():
    assert to_text(TWO).splitlines() == [
        "4 MFLOP on 2 threads; medians of wall-clock time, calls in turns",
        "  contestant   median  GFLOP/s                a = 1  runs",
        "  a           2.00 ms      2.0  ██████            1     9",
        "  b           1.00 ms      4.0  ████████████      2     1",
        "largest difference of the results 1.0e-06 of the largest element",
    ]


def test_plot():
    import matplotlib

    matplotlib.use("agg")
    ax = TWO.plot(peak=5.0)
    assert [bar.get_width() for bar in ax.patches] == [2.0, 4.0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert [t.get_text() for t in ax.texts] == ["2.0", "4.0", "peak 5"]


def test_plot_needs_the_work():
    with pytest.raises(MLCError, match="plot: the work of a call is not known"):
        Benchmark((Timing("a", 1.0, 1, None, 0.0),), 1).plot()


def test_peak_is_made_of_multiply_adds():
    """The kernel that measures the peak does nothing in its loop but multiply and add."""
    from mlcnb.codegen.llvm.inspect import facts
    from mlcnb.observe.benchmark import peak_kernel

    ex, flops = peak_kernel(1, "float32")
    hot = max((f.hot for f in facts(ex.kernels[0].compiled).values()), key=lambda c: c.fma)
    target = mlc.target.Target("llvm")
    assert hot.stores == hot.spills == 0
    assert hot.instructions - hot.fma < 12  # the counter, the flag that stops it, the jumps
    assert flops == 2 * target.lanes() * (target.vector_registers * 3 // 4) * 100_000
    assert hot.fma % (target.vector_registers * 3 // 4) == 0

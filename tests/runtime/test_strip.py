"""Strips: counts of kernels that are known by hand, on three kinds of CPUs."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import MLCError
from mlcnb.runtime.strip import strip
from mlcnb.script import from_source
from tests.runtime.programs import compiled

#: a tile of results in registers: per step a vector of b, and for each row one number of a
TILE = """
@T.prim_func
def tile(a: T.Buffer((64, {rows}), "float32"), b: T.Buffer((64, {lanes}), "float32"),
         c: T.Buffer(({rows}, {lanes}), "float32")):
    T.func_attr({{"tir.noalias": True}})
    with T.block("tile"):
        acc = T.alloc_buffer(({rows}, {lanes}), "float32", scope="local")
        for i in T.unroll({rows}):
            for l in T.vectorized({lanes}):
                acc[i, l] = T.float32(0)
        for k in range(64):
            for i in T.unroll({rows}):
                for l in T.vectorized({lanes}):
                    acc[i, l] = acc[i, l] + a[k, i] * b[k, l]
        for i in T.unroll({rows}):
            for l in T.vectorized({lanes}):
                c[i, l] = acc[i, l]
"""


def tile(cpu: str, lanes: int, rows: int):
    target = "llvm" if cpu == "host" else f"llvm -mcpu={cpu}"
    return mlc.compile(from_source(TILE.format(rows=rows, lanes=lanes)), target=target)


@pytest.mark.parametrize(
    ("cpu", "lanes", "rows", "bits"),
    [("x86-64-v4", 16, 8, 512), ("x86-64-v3", 8, 8, 256), ("cortex-a72", 4, 16, 128)],
)
def test_counts(cpu, lanes, rows, bits):
    found = tile(cpu, lanes, rows).strip("tile", measured=False)
    steps = found.hot.fma // rows  # LLVM may write out several steps of k
    assert steps >= 1 and found.hot.fma == steps * rows
    assert found.facts.vector_bits == bits
    assert (found.hot.stores, found.spills, found.calls) == (0, 0, ())
    assert found.hot.vector_share > 0.5
    assert (found.flops, found.nbytes) == (
        2 * 64 * rows * lanes,
        4 * (64 * (rows + lanes) + rows * lanes),
    )
    assert found.intensity == found.flops / found.nbytes
    assert found.code_bytes is None or found.code_bytes > 0
    assert (found.seconds, found.gflops, found.share, found.attainable) == (None,) * 4


@pytest.mark.parametrize(
    ("cpu", "lanes", "rows"), [("x86-64-v4", 16, 40), ("x86-64-v3", 8, 20), ("cortex-a72", 4, 40)]
)
def test_a_tile_that_does_not_fit_spills(cpu, lanes, rows):
    assert tile(cpu, lanes, rows).strip(0, measured=False).spills > 0


def test_measured_beside_the_roof():
    found = tile("host", 16, 4).strip(0)
    assert found.seconds > 0 and found.roofline.threads == mlc.get_num_threads()
    assert found.gflops == pytest.approx(found.flops / found.seconds / 1e9)
    assert found.share == pytest.approx(found.gflops / found.attainable)
    assert repr(found).splitlines()[-1].startswith("  predicted")


def test_all_of_a_graph():
    ex = compiled("chain")
    found = ex.strips(measured=False)
    assert {s.kernel for s in found} == set(ex.kernels)
    assert [s.flops or 0 for s in found] == sorted((s.flops or 0 for s in found), reverse=True)


def test_open_sizes_are_counted_and_not_run():
    found = [s for s in compiled("chain").strips() if s.flops is None]
    assert found and all(s.seconds is None and s.hot.instructions for s in found)


def test_an_assertion_of_the_data_is_no_measurement():
    text = """
@T.prim_func
def f(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "int32")):
    assert x[0] == 7, "not seven"
    for i in range(4):
        y[i] = x[i]
"""
    assert mlc.compile(from_source(text)).strip(0).seconds is None


def test_what_has_no_assembly():
    ex = compiled("relu_add", "interp")
    with pytest.raises(MLCError, match="has no assembly of a CPU to count"):
        strip(ex.kernels[0])


def test_plot():
    matplotlib.use("Agg")
    ex = tile("host", 16, 4)
    ax = ex.strips().plot()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["1  tile"]
    with pytest.raises(MLCError, match="no kernel was measured"):
        ex.strips(measured=False).plot()
    assert np.isfinite(ax.get_xlim()).all()
    matplotlib.pyplot.close(ax.figure)

"""roofline: what its kernels do is counted; that the figures are figures. No times."""

from __future__ import annotations

import numpy as np

import mlcnb as mlc
from mlcnb.observe.ceilings import stream_kernel
from mlcnb.target import Target


def test_the_stream_reads_each_element_as_often_as_it_says():
    run, shape, rounds = stream_kernel(8192, 2)
    x, y = np.ones(shape, "float32"), np.zeros(2, "float32")
    run(x, y)
    each = x.size // 2 * rounds
    if each < 1 << 24:  # float32 adds ones exactly up to here
        assert y.tolist() == [each, each]
    assert x.nbytes == np.prod(shape) * 4 <= 8192
    assert rounds * x.nbytes >= 64 << 20


def test_the_stream_is_loads_and_adds_in_registers():
    run, _, _ = stream_kernel(8192, 1)
    strip = run.strip(0, measured=False)
    target = Target("llvm")
    assert strip.hot.loads >= target.vector_registers * 3 // 4
    assert (strip.hot.stores, strip.spills) == (0, 0)
    assert strip.facts.vector_bits == target.vector_bits


def test_the_ceilings():
    found = mlc.roofline(1, 0.005)
    assert [v.name for v in found.levels] == ["L1", "L2", "L3", "memory"]
    assert found.levels[-1].nbytes is None and found.threads == 1
    assert found.peak > 0 and all(v.bandwidth > 0 for v in found.levels)
    assert mlc.roofline(1, 0.005) is found

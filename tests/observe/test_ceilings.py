"""Roof and cycles: what their kernels do is counted; that the figures are figures. No times."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import driver, relax
from mlcnb.ir.module import IRModule
from mlcnb.observe import ceilings
from mlcnb.observe.benchmark import peak_kernel
from mlcnb.observe.ceilings import calibrate, stream_kernel
from mlcnb.observe.diagnosis import core, doctor
from mlcnb.relax import BlockBuilder, op
from mlcnb.runtime.strip import count
from mlcnb.target import Target
from mlcnb.target.measured import Measured, Reading, kept


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


@pytest.fixture(scope="module")
def measured():
    return calibrate(0.5)


def test_a_core_does_what_cores_do(measured):
    assert 0.2 < measured.gigahertz < 20
    assert 0.1 < measured.whole < 8 and 0.1 < measured.half < 8
    assert measured.latency > 0.5
    assert [r.name for r in measured.readings] == ["L1", "L2", "L3", "memory"]
    assert [r.nbytes for r in measured.readings][:2] == [n // 2 for n in Target("llvm").caches[:2]]
    first, *_, memory = measured.readings
    assert 0 < first.latency < memory.latency


def test_each_kernel_holds_what_it_counts():
    """No compiler has joined two operations, or left some out: they stand in the assembly."""
    chain = ceilings._made(ceilings._CHAIN, steps=ceilings.STEPS)
    text = chain.kernels[0].asm
    assert text.count("xor") >= 32 or text.count("eor") >= 32
    lanes = Target("llvm").lanes("float32")
    run, _ = peak_kernel(1, "float32", lanes, 8, 100)
    counted = count(run.kernels[0])
    assert counted.hot.fma % 8 == 0 and counted.hot.fma >= 8 and counted.spills == 0


def test_the_doctor_measures_keeps_and_tells(measured, monkeypatch, tmp_path):
    monkeypatch.setenv("MLCNB_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("MLCNB_CACHE", raising=False)
    monkeypatch.setattr("mlcnb.observe.calibrate", lambda: measured)
    assert [f.name for f in doctor().sections["a core"]] == ["not measured"]
    told = doctor(measure=True).as_dict()["a core"]
    assert kept() == measured
    assert list(told) == ["clock", "multiply-adds", "L1", "L2", "L3", "memory"]
    assert told["clock"]["GHz"] == measured.gigahertz
    assert told["L2"]["apart"] == measured.readings[1].apart
    monkeypatch.setenv("MLCNB_CACHE", "0")
    assert kept() is None
    assert [f.name for f in doctor(measure=True).sections["a core"]] == ["not measured"]


@pytest.mark.parametrize("told", [True, False])
def test_the_first_model_on_a_cpu_that_no_table_tells_of(told, measured, monkeypatch, tmp_path):
    """It has the core measured before its kernels are scheduled: once, and by whole models only."""
    runs = []
    monkeypatch.setenv("MLCNB_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("MLCNB_CACHE", raising=False)
    monkeypatch.setattr("mlcnb.target.measured.is_told", lambda name: told)
    monkeypatch.setattr("mlcnb.observe.calibrate", lambda: runs.append(1) or measured)
    driver._measure_once.cache_clear()
    for calls, target, want in (
        (3, "llvm", 0),
        (30, "llvm -mcpu=x86-64-v3", 0),
        (30, "llvm", 1),
        (31, "llvm", 1),
    ):
        ran = mlc.compile(chain(calls), target)
        assert len(runs) == (0 if told else want)
        assert kept() == (measured if runs else None)
        is_first = (calls, target) == (30, "llvm") and not told
        assert ("measuring this CPU" in dict(ran.timings)) is is_first


def chain(calls: int) -> IRModule:
    """So many operators, one after the other."""
    bb = BlockBuilder()
    x = y = relax.Var("x", relax.TensorStructInfo((4, 16), "float32"))
    with bb.function("main", [x]):
        for _ in range(calls):
            y = bb.emit(op.exp(y))
        bb.emit_func_output(y)
    return bb.get()


def test_text():
    measured = Measured(3.7, 0.98, 1.9, 4.0, (Reading("L1", 16384, 1.0, 1.25, 5.0),))
    found = [str(f) for f in core(measured)]
    bits = Target("llvm").vector_bits
    assert found == [
        "clock                3.70 GHz",
        f"multiply-adds        1 of {bits} bits in a cycle, or 2 of {bits // 2} bits; 4.0 cycles "
        "each",
        "L1                   a line in 1.0 cycles in order, in 1.2 apart; 5 until an address is "
        "there",
    ]

"""Occupancy as NVIDIA's occupancy calculator has it, and predictions whose terms can be redone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcnb.core.errors import TargetError
from mlcnb.machine.gpu import GPUS, Work, gpu


@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared", "blocks", "by"),
    [
        ("A100", 256, 64, 0, 4, "registers"),
        ("A100", 256, 32, 0, 8, "warps"),
        ("A100", 128, 255, 0, 2, "registers"),
        ("A100", 1024, 33, 0, 1, "registers"),
        ("A100", 32, 16, 0, 32, "blocks"),
        ("A100", 256, 32, 100 << 10, 1, "shared memory"),
        ("A100", 256, 32, 40 << 10, 4, "shared memory"),
        ("H100", 256, 32, 40 << 10, 5, "shared memory"),
        ("RTX 5090", 1024, 32, 0, 1, "warps"),
        ("RTX 5090", 96, 24, 0, 16, "warps"),
        ("RTX 5090", 32, 24, 0, 24, "blocks"),
        ("A100", 100, 40, 0, 12, "registers"),
    ],
)
def test_occupancy(name, threads, registers, shared, blocks, by):
    found = gpu(name).occupancy(threads, registers, shared)
    assert (found.blocks, found.by) == (blocks, by)
    assert found.warps == blocks * -(-threads // 32)


def test_what_is_not_known_is_no_limit():
    assert gpu("A100").occupancy(256, None, 0).limits == {
        "warps": 8, "blocks": 32, "shared memory": 164,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "teraflops", "tensor"), [("A100", 19.5, 312), ("H100", 61.8, 989),
                                      ("RTX 5090", 104.8, 209.5)],
)  # fmt: skip
def test_peaks_are_those_of_the_data_sheets(name, teraflops, tensor):
    """Of the H100 at the clock of its tensor figures (its float32 figure is at 1.98 GHz: 67)."""
    g = gpu(name)
    rate = g.multiprocessors * g.clock / 1e12
    assert rate * g.flops == pytest.approx(teraflops, rel=0.005)
    assert rate * g.tensor_flops["float16"] == pytest.approx(tensor, rel=0.005)


@pytest.mark.parametrize(
    ("name", "tf32", "halves", "int8", "fp8"),
    [
        ("A100", 156, 312, 624, None),
        ("H100", 494.7, 989.4, 1978.9, 1978.9),
        ("RTX 5090", 104.8, 209.5, 838, 419),
    ],
)
def test_tensor_cores_have_the_rates_of_the_data_sheets(name, tf32, halves, int8, fp8):
    """Trillions a second, dense, with sums in float32 or int32: the tables of peaks that stand in
    NVIDIA's papers on the architectures of the A100, of the H100, and RTX Blackwell.
    """
    g = gpu(name)
    found = {
        kind: g.multiprocessors * g.clock * rate / 1e12 for kind, rate in g.tensor_flops.items()
    }
    told = {"tf32": tf32, "float16": halves, "bfloat16": halves, "int8": int8}
    if fp8 is not None:
        told |= {"float8_e4m3fn": fp8, "float8_e5m2": fp8}
    assert found == pytest.approx(told, rel=0.005)


@pytest.mark.parametrize("kind", ["tf32", "float16", "bfloat16", "int8"])
def test_each_kind_of_operand_takes_its_own_time(kind):
    a100 = gpu("A100")
    done = replace(work(), on_tensor_cores={kind: 10**9})
    (term,) = (x for x in a100.predict(done).terms if x.name == "tensor cores")
    assert term.seconds == pytest.approx(1e9 / (108 * 1.41e9 * a100.tensor_flops[kind]))


def test_kinds_of_operands_take_turns():
    a100, kinds = gpu("A100"), {"tf32": 3072, "int8": 8192}
    assert a100.tensor_cycles(kinds) == 3 + 2


def test_operands_that_tensor_cores_do_not_have_are_refused():
    with pytest.raises(TargetError) as error:
        gpu("A100").predict(replace(work(), on_tensor_cores={"float8_e5m2": 1}))
    assert str(error.value).startswith(
        "no rate of the tensor cores of A100 for float8_e5m2"
    ) and "there are tf32, float16, bfloat16, int8" in str(error.value)


def work(blocks=216, cycles=1000.0):
    """Round figures; two blocks fit on a multiprocessor of an A100."""
    occupancy = gpu("A100").occupancy(1024, 32, 0)
    return Work(blocks, 1024, 10**9, {}, 2039 * 10**6, 10**6, 108 * 1410, cycles, occupancy)


def test_terms():
    found = gpu("A100").predict(work())
    terms = {x.name: x.seconds for x in found.terms}
    assert terms["DRAM"] == pytest.approx(1e-3)
    assert terms["L2"] == pytest.approx(32e6 / (5120 * 1.41e9))
    assert terms["load/store"] == pytest.approx(1e-6)
    assert terms["FLOPs"] == pytest.approx(1e9 / (108 * 1.41e9 * 128))
    assert terms["latency"] == pytest.approx(1000 / 1.41e9)
    assert (found.seconds, found.limit) == (terms["DRAM"], "DRAM")
    assert (found.waves, found.tail) == (1, 0.0)


def test_one_block_more_is_a_wave_more():
    found = gpu("A100").predict(work(217))
    assert found.waves == 2
    assert found.tail == pytest.approx(1 - 217 / 432)
    slower, before = ({x.name: x.seconds for x in gpu("A100").predict(work(n)).terms}
                      for n in (217, 216))  # fmt: skip
    assert slower["latency"] == pytest.approx(2 * before["latency"])
    assert slower["FLOPs"] == pytest.approx(before["FLOPs"] * 3 * 108 / 217)


def test_names():
    assert [gpu(x).name for x in ("a100", "sm_80", "sm_90", "sm_90a", "rtx5090", "sm_120")] == [
        "A100", "A100", "H100", "H100", "RTX 5090", "RTX 5090",
    ]  # fmt: skip
    with pytest.raises(TargetError, match="no figures of a GPU 'TPU'"):
        gpu("TPU")
    assert all(x.sources for x in GPUS.values())

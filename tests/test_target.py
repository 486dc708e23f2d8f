"""Target: what a string says, and what the machine it names has."""

from __future__ import annotations

import os
import threading

import pytest

import mlcnb
from mlcnb.core.errors import TargetError
from mlcnb.target import NAMED_GPUS, Target, available_cores, measured
from mlcnb.target.measured import Measured, Reading, keep, kept


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("llvm", "llvm"),
        ("cpu", "llvm"),
        ("interp", "interp"),
        ("llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64-v3"),
        ("llvm --num-cores=4 -mcpu=znver4", "llvm -mcpu=znver4 -num-cores=4"),
        ({"kind": "llvm", "mcpu": "neoverse-n1"}, "llvm -mcpu=neoverse-n1"),
        ({"kind": "llvm", "mattr": ["+avx2", "+fma"]}, "llvm -mattr=+avx2,+fma"),
        ({"kind": "cuda", "arch": "sm_90", "tag": "", "keys": ["cuda", "gpu"]}, "cuda -arch=sm_90"),
        (Target("llvm -mcpu=znver4"), "llvm -mcpu=znver4"),
    ],
    ids=str,
)
def test_spellings(spec, text):
    target = Target(spec)
    assert str(target) == text
    assert repr(target) == f"Target({text!r})"
    assert Target(text) == target == Target(target.export())
    assert hash(Target(text)) == hash(target)


KINDS = (
    "hint: there are llvm, cuda, cuda-sim, interp: llvm is this CPU, cuda-sim a GPU simulated on it"
)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", 'an empty target string\nhint: e.g. "llvm"'),
        ("tpu", f"no target kind 'tpu'\n{KINDS}"),
        ("llvm x", "target 'llvm x': cannot read 'x'\nhint: write -name=value"),
        ("llvm -num-cores=many", "target attribute num-cores='many' is no int"),
        (7, 'a target is a string or a dict, not an int\nhint: e.g. "llvm" or "cuda"'),
        (None, 'a target is a string or a dict, not None\nhint: e.g. "llvm" or "cuda"'),
    ],
    ids=str,
)
def test_what_is_no_target(spec, message):
    with pytest.raises(TargetError) as caught:
        Target(spec)
    assert str(caught.value) == message


@pytest.mark.parametrize("kind", NAMED_GPUS)
def test_gpus_that_can_only_be_named(kind):
    assert not Target(kind).is_cpu
    x = mlcnb.te.placeholder((4,), "float32")
    func = mlcnb.te.create_prim_func([x, mlcnb.te.compute((4,), lambda i: x[i])])
    with pytest.raises(TargetError, match=f"no backend compiles for '{kind}'"):
        mlcnb.compile(func, target=kind)


def test_an_unknown_attribute_names_those_there_are():
    with pytest.raises(TargetError) as caught:
        Target("llvm -speed=high")
    assert str(caught.value).startswith(
        "no target attribute 'speed'\nhint: there are arch, device, mattr, "
    )


@pytest.mark.parametrize(
    ("spec", "bits", "registers", "lanes"),
    [
        ("llvm -mcpu=x86-64", 128, 16, 4),
        ("llvm -mcpu=x86-64-v2", 128, 16, 4),
        ("llvm -mcpu=x86-64-v3", 256, 16, 8),
        ("llvm -mcpu=x86-64-v4", 512, 32, 16),
        ("llvm -mcpu=cortex-a72", 128, 32, 4),
        ("llvm -mcpu=x86-64-v3 -vector-bits=128", 128, 16, 4),
        ("llvm -mcpu=x86-64-v4 -mattr=-avx512f", 256, 16, 8),
    ],
)
def test_vectors(spec, bits, registers, lanes):
    target = Target(spec)
    assert (target.vector_bits, target.vector_registers) == (bits, registers)
    assert (target.lanes(), target.lanes("float64"), target.lanes("int8")) == (
        lanes,
        lanes // 2,
        lanes * 4,
    )


def test_this_machine():
    target = Target("llvm")
    assert target.mcpu == "host" and target.is_cpu and not Target("cuda").is_cpu
    assert target.num_cores == available_cores() >= 1
    assert Target("llvm -num-cores=3").num_cores == 3
    first, second, third = target.caches
    assert 8 << 10 <= first <= second <= 1 << 30 and third > 0
    assert Target("llvm -mcpu=znver4").caches == (32 << 10, 1 << 20, 32 << 20)
    assert Target("llvm -mcpu=znver5").cache_ways == (12, 16, 16)
    assert Target("llvm -mcpu=x86-64-v3").caches == (32 << 10, 1 << 20, 16 << 20)
    if hasattr(os, "sched_getaffinity"):
        assert available_cores() == len(os.sched_getaffinity(0))


def test_current_target_nests_and_is_each_threads_own():
    assert Target.current() is None
    outer, inner, seen = Target("llvm"), Target("interp"), []
    with outer:
        with inner, outer:
            assert Target.current() is outer
        assert Target.current() is outer
        thread = threading.Thread(target=lambda: seen.append(Target.current()))
        thread.start()
        thread.join()
    assert (Target.current(), seen) == (None, [None])
    with pytest.raises(TargetError) as caught:
        Target.current(allow_none=False)
    assert str(caught.value) == 'no current target\nhint: use `with Target("llvm"):`'
    with pytest.raises(ZeroDivisionError), outer:
        1 // 0
    assert Target.current() is None


def test_host_of_a_gpu():
    target = Target("cuda", host="llvm -mcpu=x86-64-v3")
    assert str(target.host) == "llvm -mcpu=x86-64-v3"
    assert target.export() == {"kind": "cuda"}


def test_targets_with_other_hosts_differ():
    assert Target("cuda", host="llvm") == Target("cuda", host=Target("llvm"))
    assert Target("cuda") != Target("cuda", host="llvm") != Target("cuda", host="llvm -num-cores=2")
    assert hash(Target("cuda", host="llvm")) == hash(Target("cuda", host="llvm"))


@pytest.mark.parametrize(
    ("cpu", "has"),
    [
        ("skylake-avx512", "avx512f"),
        ("cascadelake", "avx512f avx512vnni"),
        ("cooperlake", "avx512f avx512vnni avx512bf16"),
        ("tigerlake", "avx512f avx512vnni avx512vbmi"),
        ("graniterapids", "avx512f avx512vnni avx512vbmi avx512bf16"),
        ("znver3", "avx2 fma"),
        ("alderlake", "avx2 avxvnni"),
    ],
)
def test_what_cpus_that_are_not_at_hand_have(cpu: str, has: str) -> None:
    """LLVM knows the name, and code for it takes the vectors and products that it has."""
    import llvmlite.binding as llvm

    target = Target(f"llvm -mcpu={cpu}")
    assert set(has.split()) <= target.features
    assert target.vector_bits == (512 if "avx512f" in has else 256)
    llvm.initialize_all_targets()
    about = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    assert about.create_target_machine(cpu=cpu).triple


@pytest.mark.parametrize(
    ("spec", "units", "halves"),
    [
        ("llvm -mcpu=znver4", 1, True),
        ("llvm -mcpu=znver4 -vector-bits=256", 2, False),
        ("llvm -mcpu=znver5", 2, False),
        ("llvm -mcpu=tigerlake", 1, True),
        ("llvm -mcpu=skylake-avx512", 2, False),
        ("llvm -mcpu=znver1", 1, False),
        ("llvm -mcpu=apple-m1", 4, False),
        ("llvm -mcpu=pentium4", 2, False),
    ],
)
def test_units_by_the_name(spec: str, units: int, halves: bool) -> None:
    target = Target(spec)
    assert (target.multiply_adds, target.halves_vectors) == (units, halves)


def test_streams_are_fetched_ahead_as_measured_or_by_the_name(tmp_path, monkeypatch) -> None:
    """Where lines apart come from memory as fast as lines in order."""
    monkeypatch.setenv("MLCNB_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("MLCNB_CACHE", raising=False)
    assert Target("llvm -mcpu=znver3").fetches_ahead
    assert not Target("llvm -mcpu=znver4").fetches_ahead
    by_name = Target("llvm").fetches_ahead
    for readings, told in (((10.1, 10.0), True), ((6.9, 26.2), False)):
        keep(Measured(3.0, 2.0, 2.0, 4.0, (Reading("memory", 1 << 28, *readings, 450.0),)))
        assert Target("llvm").fetches_ahead is told
        assert Target("llvm -mcpu=znver3").fetches_ahead
    keep(Measured(3.0, 2.0, 2.0, 4.0))
    assert Target("llvm").fetches_ahead is by_name


def test_lines_of_the_shared_cache_as_measured_or_by_the_name(tmp_path, monkeypatch) -> None:
    """Cycles of one, in order."""
    monkeypatch.setenv("MLCNB_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("MLCNB_CACHE", raising=False)
    by_name = Target("llvm").far_line
    keep(Measured(3.0, 2.0, 2.0, 4.0, (Reading("L3", 1 << 24, 3.25, 9.0, 110.0),)))
    assert Target("llvm").far_line == 3.25
    assert Target("llvm -mcpu=emeraldrapids").far_line > Target("llvm -mcpu=znver5").far_line
    keep(Measured(3.0, 2.0, 2.0, 4.0))
    assert Target("llvm").far_line == by_name


def test_units_as_measured(tmp_path, monkeypatch) -> None:
    """What was measured goes before the name, of this computer with all that it has."""
    monkeypatch.setenv("MLCNB_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("MLCNB_CACHE", raising=False)
    usual = Target("llvm").multiply_adds
    path = keep(Measured(3.0, 3.7, 3.9, 4.0, (Reading("L1", 16384, 1.0, 1.2, 5.0),)))
    assert path is not None and [*tmp_path.iterdir()] == [path]
    assert Target("llvm").multiply_adds == 4 and not Target("llvm").halves_vectors
    assert Target("llvm -mcpu=znver4").multiply_adds == 1
    assert Target("llvm -vector-bits=128").multiply_adds in (1, 2, 4)
    keep(Measured(3.0, 0.93, 2.2, 4.0))
    assert Target("llvm").multiply_adds == 1
    assert Target("llvm").halves_vectors == (Target("llvm").vector_bits == 512)
    monkeypatch.setenv("MLCNB_CACHE", "0")
    assert kept() is None and keep(Measured(3.0, 3.7, 3.9, 4.0)) is None
    assert Target("llvm").multiply_adds == usual


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"form": 0}', '{"form": 1, "gigahertz": 3.0}',
     '{"form": 1, "gigahertz": "3", "whole": 1.0, "half": 1.0, "latency": 4.0, "readings": []}',
     '{"form": 1, "gigahertz": 3.0, "whole": -1.0, "half": 1.0, "latency": 4.0, "readings": []}'],
)  # fmt: skip
def test_figures_that_nobody_can_read_are_not_there(text, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MLCNB_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("MLCNB_CACHE", raising=False)
    path = keep(Measured(3.0, 3.7, 3.9, 4.0))
    assert path is not None and kept() is not None
    path.write_text(text)
    measured._read.cache_clear()
    assert kept() is None
    assert Target("llvm").multiply_adds >= 1


def test_a_module_is_kept_for_the_units_it_was_made_for(tmp_path, monkeypatch) -> None:
    from mlcnb.relax.transform.kept import _machine

    monkeypatch.setenv("MLCNB_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("MLCNB_CACHE", raising=False)
    keep(Measured(3.0, 1.0, 1.0, 4.0))
    one = _machine(Target("llvm"))
    keep(Measured(3.0, 4.0, 4.0, 4.0))
    assert _machine(Target("llvm")) != one

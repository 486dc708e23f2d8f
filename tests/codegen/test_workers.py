"""Kernels compiled in worker processes: the very same code, whatever happens to a worker."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import te
from mlcnb.codegen.llvm import backend, foresight, making, workers
from mlcnb.codegen.llvm import cache as disk
from mlcnb.codegen.llvm.worker import answer, rules_named
from mlcnb.codegen.llvm.workers import Workers
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.ir.json import save_json
from mlcnb.runtime import threads
from mlcnb.script import tir as T
from mlcnb.target import Target

TARGET = Target("llvm")


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MLCNB_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(making, "WORTHWHILE", 5000)
    _alone()


def _functions(count: int = 14) -> dict:
    """Sums of rows, of as many sizes, each of another multiple: none is like another."""
    made = {}
    for n in range(count):
        a = te.placeholder((8 + n, 16), name="a")
        k = te.reduce_axis((0, 16), name="k")
        b = te.compute(
            (8 + n,), lambda i, a=a, k=k, n=n: te.sum(a[i, k] * (n + 0.5), axis=k), name="b"
        )
        made[f"f{n}"] = te.create_prim_func([a, b]).without_attr("global_symbol")
    return made


def _code(kernels) -> dict:
    return {
        name: (k.llvm_ir, k.compiled.object, k.compiled.bitcode, repr(k.signature), k.messages)
        for name, k in kernels.items()
    }


@cache
def _alone() -> dict:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLCNB_CACHE", "0")
        return _code(backend.build(_functions(), TARGET, schedule_cpu))


def _counted(monkeypatch) -> list:
    """What workers answered, as it comes."""
    answers: list = []
    read = workers._read

    def counted(process):
        answers.append(read(process))
        return answers[-1]

    monkeypatch.setattr(workers, "_read", counted)
    return answers


def test_workers_make_the_same_code(monkeypatch):
    answers = _counted(monkeypatch)
    monkeypatch.setattr(workers.Work, "here", lambda self: iter(()))  # the workers make all
    with Workers(2) as helpers:
        kernels = backend.build(_functions(), TARGET, schedule_cpu, workers=helpers)
        assert len(helpers._processes) == 2
    assert len(answers) == 14 and None not in answers
    assert _code(kernels) == _alone()
    warm = backend.build(_functions(), TARGET, schedule_cpu)
    assert all(k.compiled.cached for k in warm.values()) and _code(warm) == _code(kernels)


def _alike() -> dict:
    """Two groups of functions that differ in one size, and one function that is like no other."""
    made = {**_functions(1)}
    for columns in (32, 48):  # whole vectors of any CPU
        for rows in (4, 6, 10, 12, 30):
            a = te.placeholder((rows, columns), name="a")
            b = te.compute(a.shape, lambda i, j, a=a: a[i, j] * 2.0, name="b")
            made[f"rows{rows}x{columns}"] = te.create_prim_func([a, b]).without_attr(
                "global_symbol"
            )
    return made


@pytest.mark.parametrize("dies", [False, True])
def test_workers_make_what_functions_share(monkeypatch, dies):
    monkeypatch.setenv("MLCNB_CACHE", "0")
    symbols = threads.symbols()
    alone = backend.build(_alike(), TARGET, schedule_cpu, symbols=symbols)
    assert len({k.symbol for k in alone.values()}) == 3
    answers = _counted(monkeypatch)
    if dies:
        monkeypatch.setattr(workers, "read_frame", lambda _file: None)
    monkeypatch.setattr(workers.Work, "here", lambda self: iter(()))  # the workers make all
    with Workers(2) as helpers:
        helpers.start()
        kernels = backend.build(_alike(), TARGET, schedule_cpu, workers=helpers, symbols=symbols)
    assert len(answers) == (0 if dies else 3) and None not in answers
    assert _code(kernels) == _code(alone)
    assert [k.code.sizes for k in kernels.values()] == [k.code.sizes for k in alone.values()]


def test_shared_work_is_complete_and_in_order():
    with Workers(1) as helpers:
        helpers.start()
        kernels = backend.build(_functions(), TARGET, schedule_cpu, workers=helpers)
    assert list(kernels) == list(_functions()) and _code(kernels) == _alone()


def test_a_worker_that_dies_leaves_its_kernels_to_the_parent(monkeypatch):
    read = workers._read
    answers = []

    def killed(process):
        if len(answers) == 2:
            process.kill()
        answers.append(read(process))
        return answers[-1]

    monkeypatch.setattr(workers, "_read", killed)
    monkeypatch.setattr(workers.Work, "here", lambda self: iter(()))
    with Workers(1) as helpers:
        kernels = backend.build(_functions(), TARGET, schedule_cpu, workers=helpers)
    assert len(answers) < 14 and _code(kernels) == _alone()


def test_a_worker_that_writes_nonsense_is_left(monkeypatch):
    monkeypatch.setattr(workers, "read_frame", lambda _file: b"nonsense")
    with Workers(1) as helpers:
        kernels = backend.build(_functions(), TARGET, schedule_cpu, workers=helpers)
    assert _code(kernels) == _alone()


def test_without_processes_all_is_made_here(monkeypatch):
    def none(**_kwargs):
        raise OSError("no processes here")

    monkeypatch.setattr(workers.subprocess, "Popen", none)
    with Workers(2) as helpers:
        kernels = backend.build(_functions(), TARGET, schedule_cpu, workers=helpers)
        assert helpers.count == 0
    assert _code(kernels) == _alone()


def test_few_kernels_start_no_worker():
    with Workers(2) as helpers:
        backend.build(_functions(3), TARGET, schedule_cpu, workers=helpers)
        assert helpers._processes == []


def test_a_users_own_rules_stay_here(monkeypatch):
    def mine(func, target):
        return schedule_cpu(func, target)

    with Workers(1) as helpers:
        helpers.start()
        monkeypatch.setattr(workers, "_read", pytest.fail)
        kernels = backend.build(_functions(), TARGET, mine, workers=helpers)
    assert _code(kernels) == _alone()


def test_workers_end_with_the_block_even_after_an_error():
    with pytest.raises(KeyboardInterrupt), Workers(1) as helpers:
        helpers.start()
        (process,) = helpers._processes
        raise KeyboardInterrupt
    assert process.returncode is not None


def test_an_error_is_the_same_as_without_workers():
    @T.prim_func
    def broken(a: T.Buffer((4,), "float32")):
        T.evaluate(T.call_extern("int32", "no such symbol!"))

    functions = {**_functions(), "broken": broken}
    with pytest.raises(mlc.MLCError) as alone:
        backend.build(functions, TARGET, schedule_cpu)
    with Workers(1) as helpers, pytest.raises(mlc.MLCError) as helped:
        backend.build(functions, TARGET, schedule_cpu, workers=helpers)
    assert str(helped.value) == str(alone.value)


def _question(**changes) -> bytes:
    (func,) = _functions(1).values()
    asked = {
        "target": "llvm",
        "cpu": str(backend.cpu_of(TARGET)),
        "level": 3,
        "rules": "mlcnb.dlight.cpu.schedule_cpu",
        "name": "f",
        "func": save_json(func),
        "made": True,
    }
    return json.dumps(asked | changes).encode()


def _said(question: bytes) -> dict:
    return json.loads((disk.unpack(answer(question)) or [b"{}"])[0])


def test_answers():
    assert set(_said(_question())) == {"workspace", "messages", "seconds"}
    assert "another CPU" in _said(_question(cpu="another"))["error"]
    assert "is not mlcnb's" in _said(_question(rules="os.system"))["error"]
    assert "JSONDecodeError" in _said(b"{")["error"]
    assert rules_named("none") is None


def test_an_executable_made_with_workers_computes_the_same(monkeypatch):
    monkeypatch.setattr("mlcnb.runtime.threads.default_num_threads", lambda: 2)
    monkeypatch.setattr(making, "WORTHWHILE", 2)
    monkeypatch.setattr("mlcnb.driver.MANY_CALLS", 2)
    monkeypatch.setattr(workers.Work, "here", lambda self: iter(()))
    answers = _counted(monkeypatch)
    n = 12

    def chain(x):
        for i in range(n):
            x = mlc.relax.op.sum(mlc.relax.op.exp(x * np.float32(1 / (i + 2))), axis=[0]) * x
        return x

    builder = mlc.relax.BlockBuilder()
    x = mlc.relax.Var("x", mlc.relax.TensorStructInfo((6, 8), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(chain(x)))
    mod = builder.get()
    value = np.random.default_rng(0).random((6, 8), np.float32) - 1
    found = mlc.compile(mod, target="llvm")(value)
    wanted = mlc.compile(mod, target="interp")(value)
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-4)
    assert answers and None not in answers


def test_foresight_is_of_this_version_and_this_outline(monkeypatch):
    assert not foresight.met("conv (1, 3)")
    foresight.meet("conv (1, 3)")
    assert foresight.met("conv (1, 3)") and not foresight.met("conv (1, 4)")
    monkeypatch.setenv("MLCNB_CACHE", "0")
    assert not foresight.met("conv (1, 3)")

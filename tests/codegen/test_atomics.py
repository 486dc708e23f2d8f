"""Atomic updates: what they compute in each simulation, and with what they race."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.codegen.interp import run_prim_func
from mlcnb.codegen.races import races
from mlcnb.core.errors import DataRaceError, UnsupportedOpError
from mlcnb.script import parse
from mlcnb.tir.transform import lower, thread_sync
from tests.codegen.gpu_programs import sums_by_atomics

TEXT = """
@T.prim_func
def f(A: T.Buffer((64,), "{dtype}"), B: T.Buffer((8,), "{dtype}")):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 32)
    {before}
    T.evaluate(T.call_intrin("{dtype}", "tir.atomic_add", T.address_of(B[tx % 8]), A[bx * 32 + tx]))
    {after}
"""


def program(dtype: str = "float32", before: str = "", after: str = ""):
    text = TEXT.format(dtype=dtype, before=before or "pass", after=after or "pass")
    return parse("\n".join(line for line in text.splitlines() if line.strip() != "pass"))


def test_many_threads_update_an_element():
    made = sums_by_atomics()
    for run in (
        mlc.compile(made.schedule, target="cuda-sim"),
        lambda *args: run_prim_func(made.func, args),
        lambda *args: run_prim_func(lower(made.func), args),
    ):
        args = made.arguments()
        run(*args)
        np.testing.assert_array_equal(args[-1], made.expected)
    assert races(made.func) == ()


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_dtypes(dtype):
    func = program(dtype)
    a = np.random.default_rng(0).integers(-9, 9, 64).astype(dtype)
    for run in (mlc.compile(func, target="cuda-sim"), lambda *args: run_prim_func(func, args)):
        b = np.zeros(8, dtype)
        run(a, b)
        np.testing.assert_array_equal(b, a.reshape(8, 8).sum(0))
    source = mlc.compile(func, target="cuda").kernels[0].source
    wide = "(long long)atomicAdd((unsigned long long*)(&B[tx % 8])"
    assert (wide if dtype == "int64" else "atomicAdd((&B[tx % 8]), A[") in source


def test_what_no_gpu_has():
    with pytest.raises(UnsupportedOpError, match="no atomicAdd of int8"):
        mlc.compile(program("int8"), target="cuda").kernels[0].source


@pytest.mark.parametrize(
    "parts", [{"before": "B[tx % 8] = T.float32(tx)"}, {"after": "A[bx * 32 + tx] = B[tx % 8]"}]
)
def test_a_plain_access_races_with_them(parts):
    func = program(**parts)
    assert any(race.proved and race.buffer == "B" for race in races(func))
    with pytest.raises(DataRaceError):
        run_prim_func(func, [np.zeros(64, "float32"), np.zeros(8, "float32")])


SHARED = """
@T.prim_func
def f(A: T.Buffer((64,), "int32"), B: T.Buffer((8,), "int32")):
    tx = T.launch_thread("threadIdx.x", 32)
    S = T.allocate([8], "int32", "shared")
    S_1 = T.decl_buffer((8,), "int32", data=S, scope="shared")
    if tx < 8:
        S_1[tx] = 0
    for i in range(2):
        T.evaluate(T.call_intrin(
            "int32", "tir.atomic_add", T.address_of(S_1[tx % 8]), A[i * 32 + tx]))
    if tx < 8:
        B[tx] = S_1[tx]
"""


def test_barriers_stand_before_and_after_all_updates():
    func = thread_sync(parse(SHARED))
    assert str(func).count("tvm_storage_sync") == 2
    a, b = np.arange(64, dtype="int32"), np.zeros(8, "int32")
    run_prim_func(func, [a, b])
    np.testing.assert_array_equal(b, a.reshape(8, 8).sum(0))
    assert races(func) == ()
    with pytest.raises(DataRaceError):
        run_prim_func(parse(SHARED), [a, b])

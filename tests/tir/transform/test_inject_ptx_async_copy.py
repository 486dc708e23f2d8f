"""Asynchronous copies: made of what `cp.async` can do, waited for, and seen by every check."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.codegen.interp import run_prim_func
from mlcnb.codegen.races import races
from mlcnb.core.errors import DataRaceError, ExecutionError, PassError
from mlcnb.observe import gpu_report
from mlcnb.script import parse
from mlcnb.tir.transform import InjectPTXAsyncCopy, lower, thread_sync
from mlcnb.view import to_text
from tests.codegen.gpu_programs import matmul_async, matmul_tiled, pipelined

SCOPE = """
@T.prim_func
def f(A: T.Buffer((256,), "float16"), n: T.int32):
    tx = T.launch_thread("threadIdx.x", 8)
    S = T.allocate([256], "float16", "shared")
    S_1 = T.decl_buffer((256,), "float16", data=S, scope="shared")
    with T.attr(0, "async_scope", 1):
        {store}
"""
COPIES = {
    "S_1[tx * 8:tx * 8 + 8] = A[tx * 16:tx * 16 + 8]":
        'T.ptx_cp_async("float16", S, tx * 8, A.data, tx * 16, 16)',
    "S_1[tx * 4:tx * 4 + 4] = A[tx * 4 + 4:tx * 4 + 8]":
        'T.ptx_cp_async("float16", S, tx * 4, A.data, tx * 4 + 4, 8)',
    "S_1[tx * 8:tx * 8 + 8] = T.if_then_else(tx < n, A[tx * 8:tx * 8 + 8], "
    "T.Broadcast(T.float16(0), 8))":
        'T.ptx_cp_async("float16", S, tx * 8, A.data, tx * 8, 16, tx < n)',
}  # fmt: skip
KEPT = [
    "S_1[tx] = A[tx]",  # two bytes
    "S_1[tx * 8:tx * 8 + 8] = A[tx * 8 + 4:tx * 8 + 12]",  # not at a multiple of 16 bytes
    "S_1[tx * 16:tx * 16 + 16] = A[tx * 16:tx * 16 + 16]",  # 32 bytes
    "S_1[tx * 8:tx * 8 + 8] = A[tx * 8:tx * 8 + 8] + A[0:8]",  # no copy
    "S_1[tx * 8:tx * 8 + 8] = T.if_then_else(tx < n, A[tx * 8:tx * 8 + 8], "
    "T.Broadcast(T.float16(1), 8))",  # other than zeros
]


@pytest.mark.parametrize("store", COPIES)
def test_copies_of_4_8_and_16_bytes(store):
    func = InjectPTXAsyncCopy().transform_function(parse(SCOPE.format(store=store)), None, None)
    assert COPIES[store] in str(func) and "async_scope" not in str(func)


@pytest.mark.parametrize("store", KEPT)
def test_other_stores_are_done_at_once(store):
    func = InjectPTXAsyncCopy().transform_function(parse(SCOPE.format(store=store)), None, None)
    assert "ptx_cp_async" not in str(func) and "S_1[" in str(func)


WAITING = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    tx = T.launch_thread("threadIdx.x", 8)
    S = T.allocate([8], "float32", "shared")
    S_1 = T.decl_buffer((8,), data=S, scope="shared")
    T.ptx_cp_async("float32", S, tx, A.data, tx, 4)
    T.ptx_commit_group()
    {wait}
    B[tx] = S_1[7 - tx]
"""
WAIT, BARRIER = "T.ptx_wait_group(0)", 'T.tvm_storage_sync("shared")'


def test_a_barrier_follows_each_wait():
    func = parse(WAITING.format(wait=WAIT))
    assert [WAIT, BARRIER] == [x.strip() for x in str(thread_sync(func)).splitlines()][-3:-1]
    written = parse(WAITING.format(wait=f"{WAIT}\n    {BARRIER}"))
    assert thread_sync(written) is written


def test_a_wait_that_only_some_threads_come_by_is_refused():
    text = WAITING.format(wait=f"if tx < 4:\n        {WAIT}")
    with pytest.raises(PassError, match="not all threads of the block come by"):
        thread_sync(parse(text))


@pytest.mark.parametrize(
    ("wait", "is_right"),
    [
        (f"{WAIT}\n    {BARRIER}", True),
        (WAIT, False),
        (BARRIER, False),
        (f"{BARRIER}\n    {WAIT}", False),
        (f"T.ptx_wait_group(1)\n    {BARRIER}", False),
    ],
)
def test_copies_arrive_where_their_thread_waits_for_them(wait, is_right):
    """A copy that others read before it has certainly arrived is a race, or reads nothing."""
    func = parse(WAITING.format(wait=wait))
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    if is_right:
        run_prim_func(func, [a, b])
        np.testing.assert_array_equal(b, a[::-1])
        assert races(func) == ()
        return
    (race,) = races(func)
    assert race.proved and race.kind == ("missing barrier" if wait == WAIT else "missing wait")
    if not wait.endswith(WAIT):  # a barrier follows each wait by itself
        with pytest.raises(DataRaceError):
            mlc.compile(func, target="cuda-sim")
    try:
        run_prim_func(func, [a, b])
    except DataRaceError:
        return
    assert np.isnan(b).any()


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [1, 2, 3])
@pytest.mark.parametrize("k", [8, 16, 48])
def test_a_product_is_right_however_far_ahead_it_fetches(ahead, k):
    made = pipelined(matmul_tiled(k=k), ahead)
    func = lower(made.func)
    assert str(func).count("T.ptx_cp_async(") >= 2 * min(ahead, k // 8)
    for run in (mlc.compile(made.schedule, target="cuda-sim"), lambda *a: run_prim_func(func, a)):
        args = made.arguments()
        run(*args)
        np.testing.assert_allclose(args[-1], made.expected, rtol=1e-5, atol=1e-5)


def test_a_pipeline_that_waits_for_too_few_is_found():
    func = str(lower(matmul_async().func))
    assert "T.ptx_wait_group(1)" in func
    with pytest.raises(DataRaceError):
        run_prim_func(
            parse(func.replace("T.ptx_wait_group(1)", "T.ptx_wait_group(2)")),
            matmul_async().arguments(),
        )


@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_a_wait_too_few_is_named_without_running(ahead):
    """In the first rounds and in any other: who reads what of whom, and when; one less is right."""
    made = pipelined(matmul_tiled(k=48), ahead)
    steps = lower(made.func, steps=True)
    func, whole = str(steps["ThreadSync"].after), str(steps.result)
    wait = f"T.ptx_wait_group({ahead - 1})"
    assert races(made.func) == races(parse(func)) == races(parse(whole)) == ()
    assert races(parse(func.replace(wait, "T.ptx_wait_group(0)"))) == ()
    assert any(
        race.kind == "missing wait"
        for race in races(parse(whole.replace(wait, f"T.ptx_wait_group({ahead})")))
    )
    found = races(parse(func.replace(wait, f"T.ptx_wait_group({ahead})")))
    assert {(race.kind, race.proved, race.scope) for race in found} == {
        ("missing wait", True, "shared")
    }
    assert {race.buffer for race in found} == {"A_shared_1", "B_shared_1"}
    rounds = [[side.get("k_0") for side in race.loops] for race in found]
    assert [None, 0] in rounds and any(a is not None and b == a + ahead for a, b in rounds)
    race = found[0]
    assert race.threads[0] != race.threads[1]
    (verb, site), (other, _) = race.accesses
    assert (verb, other) == ("write", "read") and f"{race.buffer}[" in str(site)
    assert [(x.who, x.verb) for x in race.interleaving] == [(1, "read"), (0, "write")]
    assert race.hint.startswith("wait for it first: T.ptx_wait_group(n)")


UNTOLD = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
    tx = T.launch_thread("threadIdx.x", 8)
    S = T.allocate([8], "float32", "shared")
    S_1 = T.decl_buffer((8,), data=S, scope="shared")
    T.ptx_cp_async("float32", S, tx, A.data, tx, 4)
    T.ptx_commit_group()
    if n < 4:
        T.ptx_wait_group(0)
    T.tvm_storage_sync("shared")
    B[tx] = S_1[7 - tx]
"""


def test_a_wait_under_a_condition_proves_nothing():
    assert not any(race.kind == "missing wait" for race in races(parse(UNTOLD)))


def test_a_report_says_that_copies_by_hand_are_not_all_followed():
    report = gpu_report(parse(UNTOLD))
    assert report.races == () and report.copies_by_hand
    assert "no two threads race: proved, but for when copies" in to_text(report)
    pipeline = gpu_report(matmul_async().func)
    assert pipeline.races == () and not pipeline.copies_by_hand
    assert "no two threads race: proved\n" in to_text(pipeline)


def test_a_pipeline_without_its_barrier_is_found():
    func = str(lower(matmul_async().func))
    lines = [line for line in func.splitlines() if "tvm_storage_sync" not in line]
    broken = parse("\n".join(lines))
    assert any(race.proved for race in races(broken))
    with pytest.raises(DataRaceError):
        run_prim_func(broken, matmul_async().arguments())


def test_the_loop_of_a_pipeline():
    """One group in each step, one barrier, and the same number to wait for throughout."""
    text = str(lower(matmul_async().func, steps=True)["ThreadSync"].after)
    loop = text[text.index("for k_0 in range(6)") :]
    assert loop.count("T.ptx_wait_group(1)") == loop.count(BARRIER) == 1
    assert loop.count("T.ptx_commit_group()") == 1
    assert "if k_0 + 2 < 6:" in loop


PREDICATE = """
@T.prim_func
def f(A: T.Buffer((6,), "float32"), B: T.Buffer((8,), "float32")):
    tx = T.launch_thread("threadIdx.x", 8)
    S = T.allocate([8], "float32", "shared")
    S_1 = T.decl_buffer((8,), data=S, scope="shared")
    T.ptx_cp_async("float32", S, tx, A.data, tx, 4, tx < {limit})
    T.ptx_commit_group()
    T.ptx_wait_group(0)
    T.tvm_storage_sync("shared")
    B[tx] = S_1[7 - tx]
"""


def test_where_the_predicate_does_not_hold_zeros_are_copied_and_nothing_is_read():
    a, b = np.arange(1, 7, dtype="float32"), np.full(8, 9, "float32")
    run_prim_func(parse(PREDICATE.format(limit=6)), [a, b])
    np.testing.assert_array_equal(b, [0, 0, *a[::-1]])
    with pytest.raises(ExecutionError, match="out of bounds: 1 elements from A"):
        run_prim_func(parse(PREDICATE.format(limit=8)), [a, b])

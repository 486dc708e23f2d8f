"""Fork and join: every index once, the first bad status, nesting, forks, cancelling, sleeping."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from mlcnb.codegen.llvm.engine import compile_ir
from mlcnb.codegen.llvm.library import link
from mlcnb.codegen.llvm.target_machine import Cpu
from mlcnb.core.errors import ExecutionError
from mlcnb.runtime import native, threads

KERNELS = """
declare i32 @mlcnb_parallel_for(ptr, ptr, i64)
@mlcnb_cancel = external global i32

; ctx: counters, one per index; each is raised by one
define internal i32 @count(ptr %ctx, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %at = getelementptr i64, ptr %ctx, i64 %i
  %v = load i64, ptr %at
  %w = add i64 %v, 1
  store i64 %w, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %end.block
end.block:
  ret i32 0
}

; ctx: pairs, written at index begin: (begin, end)
define internal i32 @chunks(ptr %ctx, i64 %begin, i64 %end) {
  %at = getelementptr [2 x i64], ptr %ctx, i64 %begin
  store i64 %begin, ptr %at
  %end.at = getelementptr i64, ptr %at, i64 1
  store i64 %end, ptr %end.at
  ret i32 0
}

; ctx: statuses, one per index; the first that is not 0 ends the chunk
define internal i32 @statuses(ptr %ctx, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %good ]
  %at = getelementptr i32, ptr %ctx, i64 %i
  %v = load i32, ptr %at
  %ok = icmp eq i32 %v, 0
  br i1 %ok, label %good, label %bad
good:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret i32 0
bad:
  ret i32 %v
}

; ctx: rows of 64 counters; each index runs a parallel loop over its row
define internal i32 @rows(ptr %ctx, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %row = getelementptr [64 x i64], ptr %ctx, i64 %i
  %s = call i32 @mlcnb_parallel_for(ptr @count, ptr %row, i64 64)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}

; each index turns for a while, and nobody asks whether to stop
define internal i32 @slow(ptr %ctx, i64 %begin, i64 %end) {
entry:
  %n = sub i64 %end, %begin
  %turns = mul i64 %n, 100000
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void asm sideeffect "", ""()
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %turns
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""
ENTRY = """
define i32 @run_{name}(ptr %ctx, i64 %n) {{
  %s = call i32 @mlcnb_parallel_for(ptr @{name}, ptr %ctx, i64 %n)
  ret i32 %s
}}
define i32 @many_{name}(ptr %ctx, i64 %n, i64 %times) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %s = call i32 @mlcnb_parallel_for(ptr @{name}, ptr %ctx, i64 %n)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %loop, label %done
done:
  ret i32 %s
}}
"""
NAMES = ("count", "chunks", "statuses", "rows", "slow")


@cache
def kernels():
    text = KERNELS + "".join(ENTRY.format(name=name) for name in NAMES)
    return link([compile_ir(text)], threads.symbols())


def run(name: str, context: np.ndarray, n: int, times: int | None = None) -> int:
    threads.start()
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    if times is None:
        f = kernels().function(f"run_{name}", ctypes.c_int32, pointer, integer)
        return f(context.ctypes.data, n)
    f = kernels().function(f"many_{name}", ctypes.c_int32, pointer, integer, integer)
    return f(context.ctypes.data, n, times)


@pytest.fixture(autouse=True)
def two_threads():
    threads.set_num_threads(2)
    yield
    threads.set_num_threads(2)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_every_index_once(size):
    threads.set_num_threads(size)
    assert threads.get_num_threads() == size
    for n in (*range(40), 1000, 12345):
        counters = np.zeros(max(n, 1), np.int64)
        assert run("count", counters, n) == 0
        assert (counters[:n] == 1).all()


def test_negative_extents_do_nothing():
    assert run("count", np.zeros(1, np.int64), -5) == 0


def pieces_of(n: int) -> list[tuple[int, int]]:
    """The pieces (begin, end) that a loop is cut into, in order."""
    pairs = np.full((n, 2), -1, np.int64)
    assert run("chunks", pairs, n) == 0
    found = pairs[pairs[:, 0] >= 0]
    assert found[0, 0] == 0 and found[-1, 1] == n
    assert (found[1:, 0] == found[:-1, 1]).all()
    return [(int(a), int(b)) for a, b in found]


def test_alone_a_loop_is_cut_evenly():
    threads.set_num_threads(1)
    for n in (1, 7, 16, 17, 100, 1001):
        pieces = pieces_of(n)
        lengths = [end - begin for begin, end in pieces]
        assert len(pieces) == min(n, 16)
        assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("size", [2, 3, 8, 256])
def test_pieces_get_smaller_and_are_few(size):
    threads.set_num_threads(size)
    for n in (1, 7, 64, 1000, 10**6):
        lengths = [end - begin for begin, end in pieces_of(n)]
        units = min(n, 32 * size)
        longest_share, longest_unit = -(-units // size), -(-n // units)
        assert max(lengths) <= max(1, longest_share // 4) * longest_unit
        assert len(lengths) <= units


def in_pieces(n: int, body: Callable[[int, int], object]) -> None:
    """Run `body(begin, end)` as a parallel loop over 0..n."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    callback = kind(lambda context, begin, end: body(begin, end) and 0 or 0)
    address = threads.symbols()["mlcnb_parallel_for"]
    loop = ctypes.CFUNCTYPE(ctypes.c_int32, kind, ctypes.c_void_p, ctypes.c_int64)(address)
    assert loop(callback, None, n) == 0


def test_each_thread_begins_with_its_own_share():
    """The same stretch in every loop, so that it finds in its cache what it wrote before."""
    for _ in range(5):
        first: dict[str, int] = {}
        together = threading.Barrier(2, timeout=30)

        def body(begin, end, first=first, together=together):
            name = threading.current_thread().name
            if name not in first:
                first[name] = begin
                together.wait()

        in_pieces(64, body)
        assert first == {threading.current_thread().name: 0, "mlcnb-worker-1": 32}


@pytest.mark.parametrize("late", [False, True])
def test_who_is_held_up_loses_its_share_to_the_others(late):
    """One thread sticks in its first piece until everything else is done."""
    lock, together, all_else = threading.Lock(), threading.Barrier(2, timeout=30), threading.Event()
    begun: set[str] = set()
    done: list[int] = []

    def body(begin, end):
        name = threading.current_thread().name
        if name not in begun:
            begun.add(name)
            together.wait()
            if (name == "mlcnb-worker-1") == late:
                assert end - begin == 8
                assert all_else.wait(30)
        with lock:
            done.extend(range(begin, end))
            if len(done) == 64 - 8:
                all_else.set()

    in_pieces(64, body)
    assert all_else.is_set()
    assert sorted(done) == list(range(64))


@pytest.mark.parametrize("size", [1, 2])
def test_first_bad_status_is_returned(size):
    threads.set_num_threads(size)
    statuses = np.zeros(1000, np.int32)
    assert run("statuses", statuses, 1000) == 0
    statuses[700] = 42
    assert run("statuses", statuses, 1000) == 42
    statuses[100:200] = 7
    assert run("statuses", statuses, 1000) in (7, 42)
    assert run("statuses", statuses[200:700], 500) == 0


def test_a_loop_inside_a_loop_runs_where_it_is():
    for _ in range(50):
        counters = np.zeros((37, 64), np.int64)
        assert run("rows", counters, 37) == 0
        assert (counters == 1).all()


def test_python_threads_at_once():
    wrong = []

    def work():
        counters = np.zeros(257, np.int64)
        if run("count", counters, 257, 3000) != 0 or (counters != 3000).any():
            wrong.append(counters)

    callers = [threading.Thread(target=work) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


def test_many_joins_with_workers_asleep_and_awake():
    counters = np.zeros(16, np.int64)
    rng = random.Random(3)
    total = 0
    for _ in range(60):
        times = rng.choice([1, 2, 50, 400])
        assert run("count", counters, 16, times) == 0
        total += times
        time.sleep(rng.choice([0, 0, 0.0001, 0.001]))
    assert (counters == total).all()


def test_changing_the_number_while_loops_run():
    counters = np.zeros(64, np.int64)
    done = threading.Event()

    def work():
        for _ in range(400):
            run("count", counters, 64, 10)
        done.set()

    caller = threading.Thread(target=work)
    caller.start()
    while not done.is_set():
        for size in (1, 3, 2):
            threads.set_num_threads(size)
    caller.join()
    assert (counters == 4000).all()


def test_workers_of_a_pool_are_gone_before_the_next_one_begins(monkeypatch):
    """On a busy machine they take their time; one that stays would be a second worker of its number
    in the new pool (one process in some hundred stood still for ever).
    """
    real = threads._function

    def function(name, *kinds):
        found = real(name, *kinds)
        if name != "mlcnb_worker":
            return found
        return lambda me: (time.sleep(1.5), found(me))

    before = threads.get_num_threads()
    threads.set_num_threads(1)
    monkeypatch.setattr(threads, "_function", function)
    try:
        threads.set_num_threads(2)
        (old,) = threads._pool._workers
        threads.set_num_threads(1)
        assert not old.is_alive()
    finally:
        threads.set_num_threads(before)


def test_numbers_that_mean_nothing():
    for n in (0, -3):
        with pytest.raises(ValueError, match=f"a program needs at least 1 thread, not {n}"):
            threads.set_num_threads(n)
    with pytest.raises(ValueError, match="a pool has at most 256 threads, not 257"):
        threads.set_num_threads(257)


def test_a_pool_that_stays_busy_is_an_error(monkeypatch):
    monkeypatch.setattr(threads, "_PATIENCE", 0.05)
    kernels()  # to compile them takes its time
    caller = threading.Thread(target=run, args=("slow", np.zeros(1, np.int64), 40_000))
    caller.start()
    time.sleep(0.02)
    with pytest.raises(ExecutionError) as error:
        threads.set_num_threads(4)
    assert str(error.value) == "the thread pool stays busy\nhint: cancel the running call"
    threads.cancel()
    caller.join()


def test_cancel_ends_a_loop_between_chunks():
    for size in (1, 2):
        threads.set_num_threads(size)
        statuses = []
        context = np.zeros(1, np.int64)
        caller = threading.Thread(target=lambda: statuses.append(run("slow", context, 100_000)))  # noqa: B023
        caller.start()
        time.sleep(0.01)
        threads.cancel()
        caller.join()
        threads._flag("mlcnb_cancel").value = 0
        assert statuses == [native.CANCELLED]


def test_idle_workers_sleep():
    run("count", np.zeros(64, np.int64), 64, 100)
    time.sleep(0.05)

    def taken() -> float:
        before = time.process_time()
        time.sleep(0.3)
        return time.process_time() - before

    assert any(taken() < 0.03 for _ in range(5)), "workers that wait take a core each time"


needs_two_cores = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs Linux and two cores",
)


@pytest.fixture
def caller_core():
    """A core that the caller does not leave, and the affinity of the process."""
    everywhere = os.sched_getaffinity(0)
    core = min(everywhere)
    os.sched_setaffinity(0, {core})
    yield core, everywhere
    os.sched_setaffinity(0, everywhere)


def worker() -> int:
    """The number that the operating system gives the worker's thread."""
    found = {t.name: t.native_id for t in threading.enumerate()}
    return found["mlcnb-worker-1"] or 0


def core_of_the_worker_after_sleep() -> int:
    """Where the worker is when it begins its share, after it has slept."""
    here = ctypes.CDLL(None).sched_getcpu
    cores: list[int] = []
    together = threading.Barrier(2, timeout=30)

    def body(begin, end):
        if threading.current_thread().name == "mlcnb-worker-1" and not cores:
            cores.append(here())
            together.wait()
        elif begin == 0:
            together.wait()

    time.sleep(0.02)
    in_pieces(64, body)
    return cores[0]


@needs_two_cores
def test_a_worker_wakes_up_off_the_callers_core(caller_core):
    core, everywhere = caller_core
    os.sched_setaffinity(worker(), everywhere)
    kept_off = threads._flag("mlcnb_kept_off")
    before = kept_off.value
    cores = [core_of_the_worker_after_sleep() for _ in range(20)]
    # on a busy machine a worker may not have come to its sleep, and the balancer may have moved it
    # back by the time it says where it is
    assert kept_off.value - before >= 10
    assert any(c != core for c in cores)
    assert os.sched_getaffinity(worker()) == everywhere


@needs_two_cores
def test_a_worker_that_may_run_on_one_core_stays_there(caller_core):
    core, everywhere = caller_core
    for only in ({core}, {max(everywhere)}):
        os.sched_setaffinity(worker(), only)
        assert {core_of_the_worker_after_sleep() for _ in range(3)} == only
        assert os.sched_getaffinity(worker()) == only


def test_default_number(monkeypatch):
    monkeypatch.setenv("MLCNB_NUM_THREADS", "3")
    assert threads.default_num_threads() == 3
    for nonsense in ("", "0", "many", "-1"):
        monkeypatch.setenv("MLCNB_NUM_THREADS", nonsense)
        assert 1 <= threads.default_num_threads() <= (os.cpu_count() or 1)
    monkeypatch.setenv("MLCNB_NUM_THREADS", "")
    monkeypatch.setattr(threads, "_quota", lambda: 1)
    assert threads.default_num_threads() == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_pool_of_its_own():
    assert run("count", np.zeros(64, np.int64), 64) == 0
    child = os.fork()
    if child == 0:
        good = False
        try:
            counters = np.zeros(64, np.int64)
            good = run("count", counters, 64, 10) == 0
            threads.start()
            good = good and run("count", counters, 64, 10) == 0 and bool((counters == 20).all())
            names = [t.name for t in threading.enumerate()]
            good = good and "mlcnb-worker-1" in names and threads.get_num_threads() == 2
        finally:
            os._exit(0 if good else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert run("count", np.zeros(64, np.int64), 64) == 0


SCRIPT = """
import threading, time
from mlcnb.runtime import threads
threads.set_num_threads(2)
assert len(threading.enumerate()) == 1  # they start with the first run
threads.start()
assert len(threading.enumerate()) == 2
{more}
print("end")
"""


@pytest.mark.parametrize(
    "more",
    [
        "",
        "threads.set_num_threads(1); assert len(threading.enumerate()) == 1",
        "threading.Thread(target=time.sleep, args=(0.2,)).start()",
    ],
)
def test_the_process_ends_cleanly(more):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT.format(more=more)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
@pytest.mark.parametrize("cpu", ["x86-64-v3", "apple-m1", "cortex-a72", "riscv64"])
def test_the_runtime_compiles_for_every_platform(platform, cpu):
    target = Cpu.named(cpu, "+a" if cpu == "riscv64" else "")
    compiled = compile_ir(native.source(target.arch, platform), target)
    assert "mlcnb_parallel_for" in compiled.defines
    assert ("mlcnb_run_guarded" in compiled.defines) == (platform != "win32")
    pause = {"x86_64": "pause", "aarch64": "isb"}.get(target.arch, "")
    assert pause in compiled.assembly
    assert ("pthread_setaffinity_np" in compiled.needs) == (platform == "linux")

"""The thread pool behind `T.parallel`.

    set_num_threads(2)       1 means: no pool, loops run where they are called
    get_num_threads()        by default the cores that this process may use

Kernels call `i32 mlcnb_parallel_for(ptr fn, ptr ctx, i64 n)`, which cuts 0..n into pieces and calls
`i32 fn(ptr ctx, i64 begin, i64 end)` on the caller and the workers; its status is the first that is
not 0. A call made while the pool is busy (from inside a chunk, or from another Python thread) runs
its loop itself. Workers are daemon threads parked in native code: they spin for a short while after
each job and then sleep. A child of `os.fork` starts a pool of its own when it first needs one.

The variable `MLCNB_NUM_THREADS` sets the default number, `MLCNB_SPIN_US` how long workers spin.
"""

from __future__ import annotations

import atexit
import ctypes
import operator
import os
import threading
import time
from contextlib import suppress
from functools import cache
from typing import Any

from mlcnb.core.errors import ExecutionError, MLCError
from mlcnb.core.text import kind_of
from mlcnb.runtime import native
from mlcnb.runtime.native import pool

_SPIN_MICROSECONDS = 100.0
#: seconds that a change of the number of threads waits for running work
_PATIENCE = 10.0


def get_num_threads() -> int:
    """How many threads a parallel loop runs on, the caller's included; raises nothing.

    A loop of a smaller extent runs on as many as it has iterations.
    """
    return _pool.size or default_num_threads()


def set_num_threads(n: int) -> None:
    """Run parallel loops on `n` threads from now on; waits until the pool is idle.

    A loop of a smaller extent runs on as many as it has iterations.

    Raises:
        ValueError: `n` is less than 1, or more than 256.
        TypeError: `n` is no whole number.
        ExecutionError: the pool stays busy for ten seconds.
    """
    try:
        wanted = operator.index(n)
    except TypeError:
        raise TypeError(f"a number of threads is an int, not {kind_of(n)}") from None
    if wanted < 1:
        raise ValueError(f"a program needs at least 1 thread, not {n}")
    if wanted > pool.MAX_THREADS:
        raise ValueError(f"a pool has at most {pool.MAX_THREADS} threads, not {wanted}")
    _pool.resize(wanted)


def default_num_threads() -> int:
    """`MLCNB_NUM_THREADS`, else the cores this process may use (affinity and cgroup quota)."""
    given = os.environ.get("MLCNB_NUM_THREADS", "")
    if given.isdigit() and int(given) > 0:
        return min(int(given[:9]), pool.MAX_THREADS)
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min(cores, _quota() or cores, pool.MAX_THREADS))


def symbols() -> dict[str, int]:
    """Addresses that kernels may use: `mlcnb_parallel_for`, `mlcnb_run_graph`, and two flags.

    Kernels poll the i32 `mlcnb_cancel` in long loops and return status 1 when it is not 0; in
    `mlcnb_fault` they leave what a check found (see `fault`).
    """
    library = native.library()
    names = ("mlcnb_parallel_for", "mlcnb_run_graph", "mlcnb_cancel", "mlcnb_fault")
    return {name: library[name] for name in names}


def start() -> None:
    """Make sure that the workers are there; every run does this first."""
    if not _pool.running:
        _pool.start()


def prepare() -> None:
    """Let a thread make what runs need of the native runtime, if it is not there: beside the passes
    of a model that is compiled for the first time.
    """
    if not native.is_loaded():
        with suppress(RuntimeError):  # a browser has no threads
            threading.Thread(target=_prepared, name="mlcnb-prepare", daemon=True).start()


def _prepared() -> None:
    """What fails here fails again, and is told, where it is needed."""
    with suppress(MLCError, OSError):
        native.library()


def fault() -> tuple[int, int]:
    """The index and the extent of the last check of an index that failed in this process."""
    found = (ctypes.c_int64 * 2).from_address(native.library()["mlcnb_fault"])
    return found[0], found[1]


def cancel() -> None:
    """Tell every native run that is active in this process to stop. From any thread."""
    _flag("mlcnb_cancel").value = 1


class _Pool:
    """The workers of this process."""

    def __init__(self) -> None:
        self.size = 0
        self.running = False
        self._workers: list[threading.Thread] = []
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the workers if they are not there, in the size last asked for."""
        with self._lock:
            if not self.running:
                self._start(self.size or default_num_threads())

    def resize(self, n: int) -> None:
        """Let the workers go and start others; where none have started, the first run does."""
        with self._lock:
            if self.running and n != self.size:
                self._stop(_PATIENCE)
                self._start(n)
            self.size = n

    def close(self) -> None:
        """Let the workers go, for the end of the process; who is stuck dies with it."""
        if not self.running:
            return
        cancel()
        with self._lock, suppress(ExecutionError):
            self._stop(1.0, leave=1.0)

    def forget(self) -> None:
        """In the child of a fork: the workers and whoever held the locks stayed behind."""
        self.running = False
        self._workers = []
        self._lock = threading.Lock()
        if native.is_loaded():
            _function("mlcnb_pool_reset", None, ctypes.c_int32, ctypes.c_int64)(1, 0)
            _flag("mlcnb_active").value = 0
            _flag("mlcnb_ready").value = 0

    def _start(self, n: int) -> None:
        _function("mlcnb_pool_reset", None, ctypes.c_int32, ctypes.c_int64)(n, _spins())
        worker = _function("mlcnb_worker", None, ctypes.c_int64)
        self._workers = [
            threading.Thread(target=worker, args=(i,), name=f"mlcnb-worker-{i}", daemon=True)
            for i in range(1, n)
        ]
        for thread in self._workers:
            thread.start()
        _main_thread().value = threading.main_thread().ident or 0
        _flag("mlcnb_ready").value = 1
        self.size, self.running = n, True

    def _stop(self, patience: float, leave: float | None = None) -> None:
        """Let the workers go, and wait until they have: for as long as a busy machine takes.

        patience: seconds that running work may take; leave: those that a worker may, or all it
        wants. Who is still there would work on in the next pool, with a worker of the same number.
        """
        stop = _function("mlcnb_pool_stop", ctypes.c_int32)
        deadline = time.monotonic() + patience
        while self._workers and not stop():
            if time.monotonic() > deadline:
                raise ExecutionError("the thread pool stays busy", hint="cancel the running call")
            time.sleep(0.001)
        for thread in self._workers:
            thread.join(leave)
        if any(thread.is_alive() for thread in self._workers):
            raise ExecutionError("the thread pool stays busy", hint="try again later")
        self._workers = []
        _flag("mlcnb_ready").value = 0
        self.running = False


_pool = _Pool()
atexit.register(_pool.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


@cache
def _function(name: str, restype: Any, *argtypes: Any) -> Any:
    return native.library().function(name, restype, *argtypes)


@cache
def _flag(name: str) -> ctypes.c_int32:
    return ctypes.c_int32.from_address(native.library()[name])


@cache
def _main_thread() -> ctypes.c_uint64:
    """Where native code finds the identifier of Python's main thread."""
    return ctypes.c_uint64.from_address(native.library()["mlcnb_main_thread"])


@cache
def _spins() -> int:
    """How many turns of a spin loop last as long as `MLCNB_SPIN_US` says, measured once."""
    spin = _function("mlcnb_spin", None, ctypes.c_int64)
    turns = 2000
    best = min(_timed(spin, turns) for _ in range(5))
    wanted = float(os.environ.get("MLCNB_SPIN_US", "") or _SPIN_MICROSECONDS)
    return max(1, int(wanted * 1e-6 * turns / best))


def _timed(spin: Any, turns: int) -> float:
    begin = time.perf_counter()
    spin(turns)
    return max(time.perf_counter() - begin, 1e-7)


def _quota() -> int:
    """Cores that a Linux control group allows, rounded up; 0 where there is no limit."""
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()[:2]
    except (OSError, ValueError):
        return 0
    return 0 if quota == "max" else -(-int(quota) // int(period))

"""A whole graph as one native call.

    program = NativeProgram([address_0, address_1], [[x_ptr, t_ptr, 64], [t_ptr, y_ptr, 64]])

    instructions   {kernel, argv} {kernel, argv}          kernels are  i32 kernel(ptr argv)
    arena          x  t  64 | t  y  64                    slots of 8 bytes: addresses and int64

    program.slot(0, 0)          where x stands in the arena
    program.arena[...] = ...    patch it for the next call
    program.run()               walk the table without Python, stop at the first status but 0

Ctrl-C during `run` sets `mlcnb_cancel`, at which kernels and the walk stop; KeyboardInterrupt
follows. One program serves one call at a time: whoever shares it holds `program.lock` while
patching and running.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from mlcnb.core.errors import CancelledError
from mlcnb.runtime import native, threads

CANCELLED = native.CANCELLED

_Array = np.ndarray[Any, np.dtype[np.int64]]


class NativeProgram:
    """A table of kernel calls that runs in one native call.

    Args:
        kernels: the address of each call's kernel.
        arguments: the slots of each call, as integers (addresses, sizes).
        keep: whatever must live as long as this program: libraries, arrays.

    Attributes:
        arena: all slots as one int64 array; write here to patch arguments.
        address: where its frame stands, for native code that runs it.
        lock: for callers that share the program between threads.
        failed_at: the call that the last run ended at, where its status was not 0.
    """

    def __init__(
        self,
        kernels: Sequence[int],
        arguments: Sequence[Sequence[int]],
        keep: Sequence[object] = (),
    ) -> None:
        if len(kernels) != len(arguments):
            raise ValueError(f"{len(kernels)} kernels with {len(arguments)} lists of arguments")
        self.starts = np.cumsum([0, *map(len, arguments)]).tolist()
        self.arena: _Array = np.array([v for args in arguments for v in args] or [0], np.int64)
        base = self.arena.ctypes.data
        table = [(kernel, base + 8 * at) for kernel, at in zip(kernels, self.starts, strict=False)]
        self._table: _Array = np.array(table, np.int64).reshape(-1, 2)
        self._frame: _Array = np.array([self._table.ctypes.data, len(kernels), 0, 0], np.int64)
        self.address = self._frame.ctypes.data
        self._keep = (*keep, native.library())
        self._run_plain, self._run_guarded = _entries()
        self.lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._table)

    @property
    def failed_at(self) -> int:
        """Index of the call that the last run stopped at; `len(self)` where none did."""
        return int(self._frame[3])

    def slot(self, call: int, position: int) -> int:
        """Where argument `position` of a call stands in `arena`."""
        if not 0 <= position < self.starts[call + 1] - self.starts[call]:
            raise IndexError(f"call {call} has no argument {position}")
        return int(self.starts[call] + position)

    def run(self) -> int:
        """Run all calls; the status of the last one that ran, 0 if all went well.

        Raises:
            KeyboardInterrupt: Ctrl-C came while it ran on the main thread.
            CancelledError: the run was cancelled from another thread.
        """
        pool = threads._pool
        if not pool.running:
            pool.start()
        if threading.get_ident() == threading.main_thread().ident:
            status = self._run_guarded(self.address)
        else:
            status = self._run_plain(self.address)
        return status if status != CANCELLED else self.cancelled()

    def run_briefly(self) -> int:
        """As `run`, without a handler for Ctrl-C, which costs as much as a small kernel: for what
        is over before anybody could press it."""
        pool = threads._pool
        if not pool.running:
            pool.start()
        status = self._run_plain(self.address)
        return status if status != CANCELLED else self.cancelled()

    def run_timed(self) -> tuple[int, _Array]:
        """Run all calls; the status, and how many nanoseconds each call that ran took."""
        stamps = np.zeros(len(self) + 1, np.int64)
        self._frame[2] = stamps.ctypes.data
        try:
            status = self.run()
        finally:
            self._frame[2] = 0
        ran = self.failed_at + (status != 0)
        return status, np.diff(stamps[: ran + 1])

    def cancelled(self) -> int:
        """The error of a run that was told to stop.

        Python's own handler raises here, unless it was `threads.cancel`.

        The signal may have come on another thread, which may still be on its way to Python.
        """
        time.sleep(0.01)
        raise CancelledError(f"cancelled at call {self.failed_at} of {len(self)}")


def own_calls() -> tuple[int, int, int]:
    """What stands where a kernel's address does: of a jump, a copy and a put (native/walk.py)."""
    library = native.library()
    return 0, library["mlcnb_copy"], library["mlcnb_put"]


@cache
def _entries() -> tuple[Any, Any]:
    """(run without, run with care for Ctrl-C), each taking the address of a frame."""
    library = native.library()
    plain = library.function("mlcnb_run_frame", ctypes.c_int32, ctypes.c_void_p)
    if "mlcnb_run_guarded" in library.names:
        return plain, library.function("mlcnb_run_guarded", ctypes.c_int32, ctypes.c_void_p)
    return plain, _in_helper(plain)


def _in_helper(plain: Callable[[int], int]) -> Callable[[int], int]:
    """Where there is no `sigaction`: run on another thread, so that this one hears Ctrl-C.

    It waits for an event: `Thread.join` forgets the thread when it is interrupted (Python 3.11).
    """

    def run(frame: int) -> int:
        statuses: list[int] = []
        done = threading.Event()

        def work() -> None:
            statuses.append(plain(frame))
            done.set()

        threading.Thread(target=work, name="mlcnb-run", daemon=True).start()
        try:
            while not done.wait(0.05):
                pass
        except KeyboardInterrupt:
            threads.cancel()
            while not done.wait(0.05):  # the run may not even have begun when it was cancelled
                threads.cancel()
            raise
        return statuses[0]

    return run

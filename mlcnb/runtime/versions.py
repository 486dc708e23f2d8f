"""Versions of a model of open sizes, each compiled for the sizes that are met often.

    ex = mlc.compile(mod, specialize=4)      at most four versions beside the general kernels
    ex(x)  ex(x)  ex(x)                      general; the third call of the same sizes asks for more
    ex(x)                                    its own version, once there is one
    ex.versions.table                        sizes, calls, state and seconds of each
    ex.versions.wait()                       until nothing is being compiled

No call waits: a thread compiles one version after the other, through the cache of objects on disk,
and calls run the general kernels until a version is complete; they share the interpreter with it
meanwhile. What fails stays as it was: its error is kept in the table. So it is where a version
raises what the general kernels do not: those take over, and a warning says so. When there are too
many, the version with the fewest calls goes, for sizes with twice as many. Versions compute the
same to rounding: kernels of known sizes may add in another order.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from mlcnb.core.errors import CancelledError, MLCError
from mlcnb.ir.module import IRModule
from mlcnb.relax.expr import Function
from mlcnb.runtime.frame import bind_arguments
from mlcnb.runtime.graph_call import Kinds, kinds_of

#: calls of the same sizes after which a version is worth it
OFTEN = 3
#: sets of sizes whose calls are counted
COUNTED = 64

#: threads that compile versions, by what they are called
_running: dict[int, threading.Thread] = {}

#: states of a set of sizes
GENERAL, COMPILING, READY, FAILED = "general", "compiling", "ready", "failed"


@dataclass(eq=False)
class Version:
    """What is known of one set of sizes.

    sizes: symbolic variable -> its value; calls: how many were met; state: "general", "compiling",
    "ready" or "failed"; seconds: of the compilation; error: why there is none; executable: the
    version, where it is ready.
    """

    kinds: Kinds
    sizes: Mapping[Any, int]
    calls: int = 0
    state: str = GENERAL
    seconds: float = 0.0
    error: BaseException | None = None
    executable: Any = None

    def __repr__(self) -> str:
        sizes = ", ".join(f"{var.name}={value}" for var, value in self.sizes.items())
        told = f": {type(self.error).__name__}: {self.error}" if self.error else ""
        return f"{sizes}: {self.state}, {self.calls} calls{told}"


class Versions:
    """The versions of an executable's entry.

    Args:
        module: as it was before the passes.
        entry: the name of the function that is called.
        most: versions that are kept.
        make: (module, sizes) -> the executable for these sizes.
    """

    def __init__(
        self,
        module: IRModule,
        entry: str,
        most: int,
        make: Callable[[IRModule, Mapping[Any, int]], Any],
    ) -> None:
        function = module[entry]
        assert isinstance(function, Function)
        self.module, self.function, self.entry = module, function, entry
        self.most, self.make = most, make
        self._context = copy_context()
        self._met: dict[Kinds, Version] = {}
        self._wanted: deque[Version] = deque()
        #: held by the thread that compiles; nobody waits for it, not even after a fork
        self._busy = threading.Lock()

    @property
    def table(self) -> tuple[Version, ...]:
        """The sets of sizes that were met, the last one last."""
        return tuple(self._met.values())

    def of(self, args: tuple[Any, ...]) -> Any:
        """The executable for arguments just like these; None where there is none, or none yet."""
        kinds = kinds_of(args)
        if kinds is None:
            return None
        version = self._met.get(kinds)
        if version is None:
            self._meet(kinds, args)
            return None
        version.calls += 1
        if version.calls >= OFTEN and version.state == GENERAL and self._has_room(version):
            version.state = COMPILING
            self._wanted.append(version)
            self._start()
        return version.executable

    def run(self, args: tuple[Any, ...], general: Callable[..., Any]) -> Any:
        """What the version for such arguments gives; NotImplemented where there is none.

        general: runs the general kernels, where there is no version.

        Raises:
            MLCError: as `instead` says.
        """
        version = self.of(args)
        if version is None:
            return NotImplemented
        try:
            return version(*args)
        except MLCError as error:
            return self.instead(error, args, general)

    def instead(self, error: MLCError, args: tuple[Any, ...], general: Callable[..., Any]) -> Any:
        """What the general kernels give, where the version for `args` raised `error`.

        It is not run again, and a warning says so. Where they raise too, the arguments are to
        blame, and the version stays.

        Raises:
            MLCError: what they raise; `error` itself where the call was cancelled, or the function
                is not pure, so that nothing is done twice.
        """
        version = self._met.get(kinds_of(args) or ())
        again = self.function.is_pure and not isinstance(error, CancelledError)
        if version is None or not again:
            raise error
        made, version.executable = version.executable, None
        try:
            found = general(*args)
        except BaseException:
            version.executable = version.executable or made
            raise
        version.state, version.error = FAILED, error
        warnings.warn(f"the general kernels take over: {version!r}", RuntimeWarning, stacklevel=4)
        return found

    def sizes_of(self, args: tuple[Any, ...]) -> Mapping[Any, int] | None:
        """The sizes that a version was compiled for which runs these arguments; None: general."""
        version = self._met.get(kinds_of(args) or ())
        return None if version is None or version.executable is None else version.sizes

    def _has_room(self, version: Version) -> bool:
        """Whether there may be a version more, or one has so few calls that it may go for it."""
        chosen = [v for v in self.table if v.state in (COMPILING, READY)]
        if len(chosen) < self.most:
            return True
        fewest = min(chosen, key=lambda v: v.calls)
        if fewest.state == COMPILING or version.calls < 2 * fewest.calls:
            return False
        fewest.state, fewest.executable = GENERAL, None
        return True

    def _meet(self, kinds: Kinds, args: tuple[Any, ...]) -> None:
        """Count the calls of new sizes; the general kernels say what is wrong with others."""
        try:
            _, dims = bind_arguments(self.function, self.entry, args)
        except Exception:  # noqa: BLE001 - whatever it is, the call itself raises it
            return
        self._met[kinds] = Version(kinds, dict(dims), 1)
        if len(self._met) > COUNTED + self.most:
            old = min((v for v in self.table if v.executable is None), key=lambda v: v.calls)
            self._met.pop(old.kinds, None)

    def _start(self) -> None:
        """A thread for what is wanted, where none is at work."""
        if self._busy.acquire(blocking=False):
            threading.Thread(target=self._work, name="mlcnb-versions", daemon=True).start()

    def _work(self) -> None:
        """Compile what is wanted, until nothing is."""
        _running[threading.get_ident()] = threading.current_thread()
        try:
            while self._wanted:
                self._compile(self._wanted.popleft())
        finally:
            _running.pop(threading.get_ident(), None)
            self._busy.release()
        if self._wanted:  # it came between the last look and the release
            self._start()

    def _compile(self, version: Version) -> None:
        start = time.perf_counter()
        try:
            made = self._context.copy().run(self.make, self.module, version.sizes)
        except Exception as error:  # noqa: BLE001 - it is told in the table, not to a caller
            version.error, version.state = error, FAILED
        else:
            version.executable, version.state = made, READY
        version.seconds = time.perf_counter() - start

    def wait(self, seconds: float | None = None) -> bool:
        """Until nothing is being compiled, for some seconds at most; True where that came."""
        if not self._busy.acquire(timeout=-1 if seconds is None else seconds):
            return False
        self._busy.release()
        return not self._wanted


@atexit.register
def _stop() -> None:
    """Threads that compile end before the interpreter does."""
    for ident, thread in list(_running.items()):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(ident), ctypes.py_object(SystemExit)
        )
        thread.join(10)

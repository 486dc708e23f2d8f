"""Processes in which candidates are compiled and timed, and what asks them.

    do_job({"do": "race", "mods": […], …}, timeout)      the answer, or {"error": what happened}

A job is plain data, and `do_job` a plain function: a thread, a process of a pool or a worker of
Dask on another machine can do it. It has a process of its own beside it (`contest`), which is ended
where it crashes, hangs or runs out of memory: that costs one candidate, never the notebook.
"""

from __future__ import annotations

import atexit
import json
import os
import platform
import threading
from typing import Any

from mlcnb.codegen.llvm.beside import ChildProcess
from mlcnb.codegen.llvm.target_machine import Cpu

_MODULE = "mlcnb.meta_schedule.contest"
_free: list[Child] = []
_lock = threading.Lock()


class Child:
    """A process that does jobs, one after the other; started anew when it has ended."""

    def __init__(self) -> None:
        self._process: ChildProcess | None = None

    def ask(self, question: dict[str, Any], timeout: float) -> dict[str, Any]:
        """The answer; {"error": …} where the process ended, or was ended: it was late.

        timeout: seconds, of one question.
        """
        if self._process is None or not self._process.is_there():
            self.end()
            self._process = ChildProcess(_MODULE)
        process, late = self._process, threading.Event()
        timer = threading.Timer(timeout, _kill, (process, late))
        timer.daemon = True
        timer.start()
        try:
            answer = process.ask(json.dumps(question).encode())
        except BaseException:  # interrupted: its answer would be taken for the next one's
            self.end()
            raise
        finally:
            timer.cancel()
        if answer is not None:
            return json.loads(answer)  # type: ignore[no-any-return]
        said = process.said().strip().splitlines()
        code = self.end()
        if late.is_set():
            return {"error": f"took longer than {timeout:g} s"}
        return {"error": f"the process ended with {code}{f': {said[-1][:200]}' if said else ''}"}

    def end(self) -> int | None:
        """End the process, if there is one, and give its exit code."""
        process, self._process = self._process, None
        if process is None or process.owner != os.getpid():
            return None
        return process.end()


def _kill(process: ChildProcess, late: threading.Event) -> None:
    late.set()
    process.kill()


@atexit.register
def end_all() -> None:
    """End the processes that wait for the next job: each takes some 150 MB."""
    while _free:
        _free.pop().end()


def do_job(question: dict[str, Any], timeout: float) -> dict[str, Any]:
    """The answer of a process beside this one, and which CPU it is on.

    Args:
        question: see `contest`.
        timeout: seconds after which it is given up.
    """
    with _lock:
        child = _free.pop() if _free else Child()
    answer = child.ask(question, timeout)
    with _lock:
        _free.append(child)
    return {**answer, "cpu": Cpu.host().cpu, "host": platform.node()}

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
import subprocess
import tempfile
import threading
from typing import Any

from mlcnb.codegen.llvm.apart import own_python
from mlcnb.codegen.llvm.target_machine import Cpu
from mlcnb.codegen.llvm.worker import read_frame, write_frame

_MODULE = "mlcnb.meta_schedule.contest"
_free: list[Child] = []
_lock = threading.Lock()


class Child:
    """A process that does jobs, one after the other; started anew when it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._words: Any = None
        self._owner = os.getpid()

    def ask(self, question: dict[str, Any], timeout: float) -> dict[str, Any]:
        """The answer; {"error": …} where the process ended, or was ended: it was late.

        timeout: of one question.
        """
        try:
            process = self._running()
        except OSError as error:
            return {"error": f"no second process: {error}"}
        late = threading.Event()
        timer = threading.Timer(timeout, _kill, (process, late))
        timer.daemon = True
        timer.start()
        try:
            write_frame(process.stdin, json.dumps(question).encode())  # type: ignore[arg-type]
            answer = read_frame(process.stdout)  # type: ignore[arg-type]
        except OSError:
            answer = None
        except BaseException:  # interrupted: its answer would be taken for the next one's
            self.end()
            raise
        finally:
            timer.cancel()
        if answer is not None:
            return json.loads(answer)  # type: ignore[no-any-return]
        return {"error": self._last_words(late.is_set(), timeout)}

    def _running(self) -> subprocess.Popen[bytes]:
        if self._owner != os.getpid():  # of the process that this one was forked from
            self._process, self._owner = None, os.getpid()
        if self._process is None or self._process.poll() is not None:
            self.end()
            self._words = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process)
            self._process = subprocess.Popen(
                **own_python(_MODULE),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
            )
        return self._process

    def _last_words(self, late: bool, timeout: float) -> str:
        assert self._process is not None
        self._process.kill()
        code = self._process.wait()
        self._words.seek(0)
        said = self._words.read().decode(errors="replace").strip().splitlines()
        self.end()
        if late:
            return f"took longer than {timeout:g} s"
        return f"the process ended with {code}{f': {said[-1][:200]}' if said else ''}"

    def end(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, self._words):
                if pipe is not None:
                    pipe.close()


def _kill(process: subprocess.Popen[bytes], late: threading.Event) -> None:
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

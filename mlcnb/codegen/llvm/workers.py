"""Kernels that are compiled in processes beside this one.

    this process     take the first kernel: schedule, lower, emit;  LLVM on threads
    each worker      take the last kernel:  schedule, lower, emit, LLVM     (`worker`)

Python runs one thread at a time, and most of what a kernel costs is spent in Python. A worker is a
process of its own, with nothing of this one in it: its memory goes when it ends, and whatever
happens to it, the kernels that it has not made are made here. It makes the very same code.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from mlcnb.codegen.families import Part
from mlcnb.codegen.llvm import cache as disk
from mlcnb.codegen.llvm.apart import own_python
from mlcnb.codegen.llvm.worker import read_frame, write_frame
from mlcnb.core.errors import MLCError
from mlcnb.ir.json import save_json
from mlcnb.tir.analysis.made import is_made
from mlcnb.tir.function import PrimFunc

#: characters that functions mean (`meaning_of`), each some 5 us of Python: below so many this
#: process is done before a worker, which takes half a second to start, has saved what it costs
WORTHWHILE = 500_000
#: the same of functions whose threads become loops first: each takes some 20 us
WORTHWHILE_SIMULATED = 100_000
#: workers at most: each takes some 150 MB while it runs
MOST = 3
#: kernels that wait in a worker, or are in the hands of LLVM there, so that it need not
AHEAD = 3


class Task(NamedTuple):
    """A kernel to be compiled: its number, its name, its function."""

    number: int
    name: str
    func: PrimFunc
    #: the functions that share what is made of it; it is scheduled already
    part: Part | None = None


class Done(NamedTuple):
    """What a worker made of a kernel."""

    ir: str
    workspace: int
    messages: list[str]
    seconds: dict[str, float]
    object: bytes
    bitcode: bytes


class Workers:
    """Processes that compile kernels, started when first needed, ended with the `with` block."""

    def __init__(self, count: int) -> None:
        self.count = min(count, MOST)
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self._processes.clear()

    def start(self) -> None:
        """Start them, if they are not there; where there can be none, as in a browser, nothing."""
        while len(self._processes) < self.count:
            try:
                self._processes.append(_new_process())
            except OSError:
                self.count = len(self._processes)

    @property
    def are_there(self) -> bool:
        """Whether some were started."""
        return bool(self._processes)

    def work(self, tasks: Sequence[Task], question: dict[str, Any], here_only: bool) -> Work:
        """Let the workers take from these tasks; what all of them have in common is `question`."""
        return Work(tasks, [] if here_only else self._processes, question)


def _new_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        **own_python("mlcnb.codegen.llvm.worker"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


class Work:
    """Tasks that are shared out.

    add(task)   one more, until `close()`
    here()      those for this process, one after the other, until none is left
    there()     then what the workers made; None of a task that is to be done here after all
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        processes: Sequence[subprocess.Popen[bytes]],
        question: dict[str, Any],
    ) -> None:
        self._left = deque(tasks)
        self._news = threading.Condition()
        self._is_complete = False
        self._question = question
        self._done: dict[int, Done | None] = {}
        self._taken: dict[int, Task] = {}
        self._threads = [
            threading.Thread(target=self._serve, args=(p,), daemon=True) for p in processes
        ]
        for thread in self._threads:
            thread.start()

    @property
    def has_help(self) -> bool:
        """Whether there are workers."""
        return bool(self._threads)

    def add(self, task: Task) -> None:
        """One more task, for this process or another."""
        with self._news:
            self._left.append(task)
            self._news.notify()

    def close(self) -> None:
        """No more tasks will be added."""
        with self._news:
            self._is_complete = True
            self._news.notify_all()

    def here(self) -> Iterator[Task]:
        """Tasks from the front."""
        while self._left:
            try:
                yield self._left.popleft()
            except IndexError:  # a worker was quicker
                return

    def there(self) -> Iterator[tuple[Task, Done | None]]:
        """The tasks that workers took, and what became of them; then what nobody took."""
        for thread in self._threads:
            thread.join()
        for number, task in self._taken.items():
            yield task, self._done.get(number)
        for task in self._left:
            yield task, None

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        """Ask one worker, as long as there are tasks and it answers."""
        waiting: deque[Task] = deque()
        try:
            while self._ask(process, waiting) or waiting or self._has_more():
                if waiting:
                    task = waiting.popleft()
                    self._done[task.number] = _read(process)
        except (OSError, ValueError, KeyError):  # it ended, or says what cannot be understood
            return

    def _has_more(self) -> bool:
        """Wait for a task; False where none will come."""
        with self._news:
            self._news.wait_for(lambda: self._left or self._is_complete)
            return bool(self._left)

    def _ask(self, process: subprocess.Popen[bytes], waiting: deque[Task]) -> bool:
        """Give a worker the next tasks from the back; False where there are none."""
        while len(waiting) < AHEAD and (not waiting or len(self._left) > AHEAD):
            try:
                task = self._left.pop()
            except IndexError:
                return False
            self._taken[task.number] = task
            try:
                what = {"name": task.name, "func": save_json(task.func), "made": is_made(task.func)}
                what |= {"rules": "none"} if task.part else {}
            except MLCError:  # it holds what has no text: it is done here
                continue
            waiting.append(task)
            write_frame(process.stdin, json.dumps(self._question | what).encode())  # type: ignore[arg-type]
        return True


def _read(process: subprocess.Popen[bytes]) -> Done | None:
    """An answer; None where the worker could not do it.

    Raises:
        OSError: there is no answer.
        ValueError: it is none.
    """
    frame = read_frame(process.stdout)  # type: ignore[arg-type]
    parts = None if frame is None else disk.unpack(frame)
    if parts is None:
        raise OSError("the worker has ended")
    told, ir, obj, bitcode = parts
    said = json.loads(told)
    if "error" in said:
        return None
    return Done(ir.decode(), said["workspace"], said["messages"], said["seconds"], obj, bitcode)

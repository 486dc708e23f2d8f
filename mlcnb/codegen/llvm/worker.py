"""A process that compiles kernels: `python -m mlcnb.codegen.llvm.worker`, asked by `workers`.

    question    JSON: target, cpu, rules (the full name of what makes schedules), name, func,
                made (`tir.analysis.made`)
    answer      JSON: workspace, messages, seconds, or error     | IR | object | bitcode

Both are frames: eight bytes of length, then so many bytes. The end of the questions is the end.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import queue
import signal
import struct
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, BinaryIO

from mlcnb.codegen.llvm import cache as disk
from mlcnb.core import above

_LENGTH = struct.Struct("<Q")


def write_frame(file: BinaryIO, data: bytes) -> None:
    """Send one message."""
    file.write(_LENGTH.pack(len(data)) + data)
    file.flush()


def read_frame(file: BinaryIO) -> bytes | None:
    """The next message; None where they end."""
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = file.read(length)
    return data if len(data) == length else None


def answer_all(answer: Callable[[bytes], bytes]) -> None:
    """Answer what this process is asked, one by one, until there are no more questions."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to end
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what a program, or LLVM, prints is no answer
        while (question := read_frame(sys.stdin.buffer)) is not None:
            write_frame(answers, answer(question))


def answer(question: bytes) -> bytes:
    """A kernel, compiled; what goes wrong is said, and the parent then sees for itself."""
    return begun(question)()


def begun(question: bytes) -> Callable[[], bytes]:
    """The first half of an answer, which is Python's; what comes back is the other, LLVM's."""
    try:
        rest = _emitted(json.loads(question))
    except Exception as error:  # noqa: BLE001 (whatever it is, the parent compiles it again)
        return partial(_refusal, error)
    return partial(_ended, rest)


def _ended(rest: Callable[[], list[bytes]]) -> bytes:
    try:
        return disk.pack(rest())
    except Exception as error:  # noqa: BLE001 (as above)
        return _refusal(error)


def _refusal(error: Exception) -> bytes:
    said = {"error": f"{type(error).__name__}: {error}"}
    return disk.pack([json.dumps(said).encode(), b"", b"", b""])


def _emitted(asked: dict[str, Any]) -> Callable[[], list[bytes]]:
    """The IR of a kernel; what comes back compiles it."""
    from mlcnb.codegen.llvm.engine import compile_ir
    from mlcnb.codegen.llvm.making import emit, options_of
    from mlcnb.codegen.llvm.target_machine import cpu_of
    from mlcnb.ir.json import load_json
    from mlcnb.target import Target
    from mlcnb.tir.analysis.made import note_made

    target = Target(asked["target"])
    cpu = cpu_of(target)
    if str(cpu) != asked["cpu"]:
        raise ValueError("another CPU than the parent's")
    func = load_json(asked["func"])
    if asked["made"]:
        note_made(func)
    found = emit(asked["name"], func, target, rules_named(asked["rules"]))

    def compiled() -> list[bytes]:
        made = compile_ir(found.ir, cpu, options_of(target))
        said = {
            "workspace": found.workspace,
            "messages": found.messages,
            "seconds": made.seconds,
        }
        return [json.dumps(said).encode(), found.ir.encode(), made.object, made.bitcode]

    return compiled


def rules_named(name: str) -> Any:
    """The function that makes schedules, by its full name; None for "none"."""
    if name == "none":
        return None
    module, _, function = name.rpartition(".")
    if not module.startswith("mlcnb."):
        raise ValueError(f"{name} is not mlcnb's")
    return getattr(importlib.import_module(module), function)


def main() -> None:
    """Answer questions in order. They are read beside the work, so that nobody waits to send; LLVM
    works on one kernel while the next is scheduled and lowered.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to end
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(waiting,), daemon=True).start()
    _load()
    gc.disable()  # it is done after each kernel (`emit`)
    with ThreadPoolExecutor(1, "mlcnb-answers") as one_by_one:
        while (question := waiting.get()) is not None:
            one_by_one.submit(_write, answers, begun(question))


def _write(answers: BinaryIO, rest: Callable[[], bytes]) -> None:
    write_frame(answers, rest())


def _read(waiting: queue.SimpleQueue[bytes | None]) -> None:
    question: bytes | None = b""
    while question is not None:
        question = read_frame(sys.stdin.buffer)
        waiting.put(question)


def _load() -> None:
    """What the first kernel needs, while the parent is still at work on the graph."""
    from mlcnb.codegen.llvm.target_machine import Cpu, machines

    below = ("backend", "making", "emit.kernel")
    ours = (*(f"codegen.llvm.{name}" for name in below), "tir.transform.lower", "ir.json")
    names = (*(f"mlcnb.{name}" for name in ours), "islpy", *above.modules("schedules"))
    for module in names:
        importlib.import_module(module)
    with machines.borrow(Cpu.host(), 3):
        pass


if __name__ == "__main__":
    main()

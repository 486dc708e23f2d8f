"""LLVM in a process beside this one, for whatever may end it.

    is_safe(ir, cpu)                    this CPU, and no intrinsic but those that are known here
    compile_beside(ir, cpu, options)    [object, bitcode] and seconds, or LLVM's last words

LLVM ends its process (`LLVM ERROR: RV64 target requires an RV64 CPU`) on a CPU that does not go
with its triple, on a vector type or an intrinsic that it has no instruction for, on what it did not
expect. A kernel for the machine itself is compiled here: it is what all tests run. All else is
compiled there, by `python -m mlcnb.codegen.llvm.beside`, which stays for the next question.

    question    JSON: ir, cpu (triple, name, features), options
    answer      JSON: seconds, or error | object | bitcode
"""

from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from mlcnb.codegen.llvm import cache as disk
from mlcnb.codegen.llvm.apart import own_python
from mlcnb.codegen.llvm.target_machine import MARK, Cpu
from mlcnb.codegen.llvm.worker import answer_all, read_frame, write_frame
from mlcnb.core.errors import CodegenError, MLCError, TargetError
from mlcnb.target.cpus import LEVELS

_UNKNOWN = re.compile(r"'([^'\n]*)' is not a recognized (processor|feature) for this target")


def is_safe(ir: str, cpu: Cpu) -> bool:
    """Whether LLVM surely survives a module: code for this CPU, of what mlcnb itself writes."""
    here = Cpu.host()
    plain = cpu.triple == here.triple and cpu.cpu in LEVELS and not cpu.features and cpu.runs_here
    return (cpu == here or plain) and MARK not in ir


def compile_beside(ir: str, cpu: Cpu, options: Any) -> tuple[list[bytes], dict[str, float]]:
    """(object and bitcode, seconds by step) of a module, made in another process.

    Args:
        ir: the module's text.
        cpu: what it is for.
        options: `engine.Options`.

    Raises:
        TargetError: LLVM ended on it, or knows no such CPU or feature.
        CodegenError: LLVM refuses the module; there can be no second process.
    """
    process = _borrow()
    try:
        question = {
            "ir": ir,
            "cpu": [cpu.triple, cpu.cpu, cpu.features],
            "options": asdict(options),
        }
        answer = process.ask(json.dumps(question).encode())
        said = process.said()
    except BaseException:
        process.end()
        raise
    if answer is None:
        process.end()
        _refuse_unknown(cpu, said)
        raise _ended(cpu, said, MARK in ir)
    _give_back(process)
    _refuse_unknown(cpu, said)
    told, obj, bitcode = disk.unpack(answer) or [b"{}", b"", b""]
    found = json.loads(told)
    if "error" in found:
        raise CodegenError(found["error"], hint=found["hint"])
    return [obj, bitcode], found["seconds"]


def _refuse_unknown(cpu: Cpu, said: str) -> None:
    """Refuse what LLVM would pass over with a warning."""
    unknown = _UNKNOWN.search(said)
    if unknown is not None:
        kind = {"processor": "CPU", "feature": "CPU feature"}[unknown[2]]
        raise TargetError(
            f"LLVM knows no {kind} {unknown[1]!r} of {cpu.arch}",
            hint="mcpu is LLVM's name of a CPU, such as x86-64-v3, cortex-a72 or generic; mattr is "
            "a list such as +avx2,-fma",
        )


def _ended(cpu: Cpu, said: str, named: bool) -> MLCError:
    """What LLVM said last, in its own words."""
    lines = [x for x in said.splitlines() if x.strip()]
    last = next((x for x in lines if "LLVM ERROR" in x or "UNREACHABLE" in x), "")
    words = (last or (lines[-1] if lines else "it gave no reason")).strip()
    what = f"{cpu.cpu} ({cpu.triple})"
    hint = "give the triple, mcpu and mattr of one machine: llvm -mtriple=riscv64-linux-gnu"
    if named:
        hint = (
            "is there such an instruction, for these types? T.call_llvm_intrin asks for it by name"
        )
    return TargetError(f"LLVM makes no code of this for {what}: {words[:300]}", hint=hint)


class ChildProcess:
    """A process that runs a module of this package and answers frames, one after the other.

    Raises:
        CodegenError: there can be none.
    """

    def __init__(self, module: str) -> None:
        self.owner = os.getpid()
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process)
        try:
            self._process = subprocess.Popen(
                **own_python(module),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
            )
        except OSError as error:
            raise CodegenError(f"no second process, for what may end this one: {error}") from error

    def ask(self, question: bytes) -> bytes | None:
        """The answer; None where the process ended."""
        try:
            write_frame(self._process.stdin, question)  # type: ignore[arg-type]
            return read_frame(self._process.stdout)  # type: ignore[arg-type]
        except OSError:
            return None

    def said(self) -> str:
        """What was written to its standard error since it was last asked."""
        self._words.seek(0)
        text = self._words.read().decode(errors="replace")
        self._words.seek(0)
        self._words.truncate()
        return text

    def is_there(self) -> bool:
        """False once it has ended, or in a process that was forked from its parent."""
        return self.owner == os.getpid() and self._process.poll() is None

    def kill(self) -> None:
        """Let whatever it does stop; `ask` then has no answer."""
        self._process.kill()

    def end(self) -> int:
        """End it, and give its exit code."""
        self._process.kill()
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._words):
            if pipe is not None:
                with suppress(BrokenPipeError):  # what it was not told any more
                    pipe.close()
        return code


_free: list[ChildProcess] = []
_lock = threading.Lock()


@atexit.register
def _end() -> None:
    """End the process that waits; it would end by itself, but its pipes are still open here."""
    while _free:
        _free.pop().end()


def _borrow() -> ChildProcess:
    with _lock:
        found = _free.pop() if _free else None
    if found is not None and found.owner != os.getpid():  # of the process that this was forked from
        found = None
    return found or ChildProcess("mlcnb.codegen.llvm.beside")


def _give_back(process: ChildProcess) -> None:
    """One waits for the next question; more would only take memory."""
    with _lock:
        if not _free:
            _free.append(process)
            return
    process.end()


def answer(question: bytes) -> bytes:
    """The module of a question, compiled, or what is wrong with it."""
    from mlcnb.codegen.llvm.engine import Options, compile_here

    asked = json.loads(question)
    try:
        parts, seconds = compile_here(asked["ir"], Cpu(*asked["cpu"]), Options(**asked["options"]))
    except MLCError as error:
        return disk.pack(
            [json.dumps({"error": error.message, "hint": error.hint}).encode(), b"", b""]
        )
    return disk.pack([json.dumps({"seconds": seconds}).encode(), *parts])


def main() -> None:
    """Answer until there are no more questions."""
    answer_all(answer)


if __name__ == "__main__":
    main()

"""Questions to LLVM in a process of its own: what each pass changed, and what it remarks.

    read_apart(ir, cpu, level)       (IR after, assembly): what ends the process ends that one
    observe(ir, cpu, level, names)   [Remark(line, text, times)]: vectorisers, unrolling, spills
                                     [PassChange(name, before, after)] of the functions named

llvmlite has no call for remarks or for the text between two passes, but LLVM's own command line
has: `-pass-remarks…` and `-print-changed`. It is global and speaks to standard error, so it is
given to a child process (0.2 s to start). Where there can be no child, as in a browser, there are
none.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from functools import cached_property
from pathlib import Path
from typing import Any

from mlcnb.codegen.llvm.target_machine import Cpu
from mlcnb.core.errors import CodegenError

#: seconds after which a child is ended
PATIENCE = 60
#: passes whose remarks say something about a kernel
_TALKERS = "(loop-vectorize|slp-vectorizer|loop-unroll|regalloc)"
_CHANGES = ("-print-changed", "-print-loop-func-scope")
_REMARKS = tuple(f"-pass-remarks{kind}={_TALKERS}" for kind in ("", "-missed", "-analysis"))


@dataclass(frozen=True, slots=True)
class Remark:
    """What a pass said about a line of the lowered program (0: none), and how often."""

    line: int
    text: str
    times: int = 1


@dataclass(frozen=True)
class PassChange:
    """A pass that changed something: its name, what it ran on, the function before and after."""

    name: str
    unit: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def counts(self) -> tuple[int, int]:
        """Lines added, and lines removed."""
        signs = [line[0] for line in self.diff]
        return signs.count("+"), signs.count("-")

    @cached_property
    def diff(self) -> list[str]:
        """The lines that differ, each after `+`, `-` or a space; `@` between stretches."""
        found = unified_diff(self.before, self.after, n=1, lineterm="")
        return ["@" if line.startswith("@@") else line for line in list(found)[2:]]


def read_apart(ir: str, cpu: Cpu, level: int = 3) -> tuple[str, str]:
    """As `engine.read`, in a process of its own.

    Raises:
        CodegenError: LLVM refuses the module, or cannot make code for this CPU.
    """
    return _ask(ir, cpu, level, ())[:2]


def observe(
    ir: str, cpu: Cpu, level: int, functions: Sequence[str]
) -> tuple[list[Remark], list[PassChange]]:
    """LLVM at work on a module with debug locations.

    Returns:
        What vectorisers, the unroller and the register allocator say, in the order of the program;
        every pass that changed one of these functions, on LLVM IR first, then on machine code.

    Raises:
        CodegenError: there is no child process.
    """
    chosen = f"-filter-print-funcs={','.join(functions)}"
    said = _ask(ir, cpu, level, (*_REMARKS, *_CHANGES, chosen))[2]
    return _remarks(said), _changes(said, ir, functions)


def _remarks(said: str) -> list[Remark]:
    found: Counter[tuple[int, str]] = Counter()
    for match in re.finditer(r"^remark: [^:\n]*:(\d+):(\d+): (.+)$", said, re.MULTILINE):
        line, text = int(match[1]), _plain(match[3].strip())
        if text:
            found[line, text] += 1
    told = [Remark(line, text, times) for (line, text), times in found.items()]
    return sorted(told, key=lambda r: (r.line or 10**9, r.text))


def _plain(text: str) -> str:
    """A remark without costs that mean nothing outside of LLVM; "" for one that only counts
    copies.
    """
    where = re.search(r" generated in (loop|function)$", text)
    if where is None:
        return text
    counts = re.findall(r"(\d+) ((?:folded )?(?:spills|reloads))", text)
    return ", ".join(f"{n} {what}" for n, what in counts) + (f" in {where[1]}" if counts else "")


def _changes(said: str, ir: str, functions: Sequence[str]) -> list[PassChange]:
    found, last = [], {name: _function(ir, name) for name in functions}
    gone: list[str] = []
    for name, unit, text in _dumps(said):
        if not unit:
            gone.append(f"{name}, then ")
            continue
        of = next((f for f in functions if re.search(rf"@?{re.escape(f)}\b(?!\.)", text)), None)
        after = (_function(text, of) or _machine(text)) if of else ()
        if of and after and after != last[of]:
            found.append(PassChange("".join(gone) + name, unit, last[of], after))
            last[of], gone = after, []
    return found


_HEAD = re.compile(
    r"^[;# ]*\*\*\* IR (?:Dump After (.*?)(?:Pass)? on (.*?)( omitted because no change)?"
    r"|Pass (.*?)(?:Pass)? invalidated) \*\*\*.*\n",
    re.MULTILINE,
)


def _dumps(said: str) -> Iterator[tuple[str, str, str]]:
    """(pass, what it ran on, text) of each dump; a pass that removed what it ran on, as a loop that
    it wrote out, has no text: what it did is seen in the next dump.
    """
    heads = list(_HEAD.finditer(said))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        name, unit, same, removed = head.groups()
        if removed:
            yield removed, "", ""
        elif not same:
            text = said[head.end() : following.start() if following else None]
            yield re.sub(r" \([\w-]*\)$", "", name), unit, text


def _function(text: str, name: str) -> tuple[str, ...]:
    """The lines of one function of a module text, without debug locations."""
    start = re.search(rf"^define [^\n]*@{re.escape(name)}\(", text, re.MULTILINE)
    if start is None:
        return ()
    end = text.find("\n}", start.start())
    body = text[start.start() : end + 2]
    return tuple(_clean(body).splitlines())


def _machine(text: str) -> tuple[str, ...]:
    """The lines of a dump of machine code: labels and instructions."""
    if "# Machine code for function" not in text:
        return ()
    kept = []
    for line in _clean(text).splitlines():
        line = re.sub(r"^\d+[BrRde]*\t", "", line)
        if re.match(r"\s*bb\.\d+|\s+[$%\w]", line) and "successors:" not in line:
            kept.append(re.sub(r"; .*$", "", line).rstrip().replace("\t", "  "))
    return tuple(kept)


def _clean(text: str) -> str:
    return re.sub(
        r",? !dbg !\d+|, debug-location !\d+|; preds = .*$|; \w+\.tir:.*$", "", text, flags=re.M
    )


def own_python(module: str) -> dict[str, Any]:
    """How `subprocess` runs a module of this very mlcnb, whatever lies in the current folder."""
    paths = [str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "args": [sys.executable, "-P", "-m", module],
        "env": {**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    }


def _ask(ir: str, cpu: Cpu, level: int, options: Sequence[str]) -> tuple[str, str, str]:
    """IR after, assembly and standard error of a child."""
    question = {"ir": ir, "cpu": [cpu.triple, cpu.cpu, cpu.features], "level": level}
    try:
        done = subprocess.run(
            **own_python("mlcnb.codegen.llvm.child"),
            input=json.dumps({**question, "options": options}),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CodegenError(f"no second process for LLVM: {error}") from error
    if done.returncode:
        last = next(
            (x for x in reversed(done.stderr.splitlines()) if x.strip()), "it gave no reason"
        )
        said = last.removeprefix("mlcnb.core.errors.CodegenError: ")
        raise CodegenError(f"LLVM makes no code of this for {cpu.cpu} ({cpu.arch}): {said[:300]}")
    answer = json.loads(done.stdout)
    return answer["ir"], answer["assembly"], done.stderr

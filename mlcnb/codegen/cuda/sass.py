"""SASS: the machine code of an NVIDIA GPU, as nvdisasm reads it out of a cubin.

    found = disassemble(cubin)["matmul_kernel"]
    found.lines[40]       "  0a60  FFMA R73, R80, R85.reuse, R73"
    found.places[40]      172: the line of the CUDA C++ that it came of; 0 where that is not known
    found.mix()           {"FFMA": 1024, "LDS": 64, …}, most frequent first
    found.hot             first and last line of the loop with the most instructions in it

No GPU is needed. nvdisasm comes with the wheel nvidia-cuda-nvdisasm, or with a CUDA toolkit. What
instructions are called: https://docs.nvidia.com/cuda/cuda-binary-utilities/
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mlcnb.codegen.cuda.nvrtc import files_of
from mlcnb.codegen.llvm.inspect import innermost
from mlcnb.core.errors import CodegenError, MissingDependencyError

PACKAGE = "nvidia-cuda-nvdisasm"
#: seconds that nvdisasm may take
PATIENCE = 60
#: products of tiles on tensor cores: HMMA of halves, IMMA of integers, HGMMA of a warpgroup, …
_TENSOR = re.compile(r"(?:UTC)?[BDHIOQ]G?MMA")


@dataclass(frozen=True)
class Sass:
    """The machine code of one kernel.

    Attributes:
        name: of the kernel.
        lines: instructions with their addresses, and labels; the padding at the end is left out.
        places: of each line that of the source that it came of, counted from 1; 0: not known.
        operations: of each line the name of its instruction, "FFMA"; "" for a label.
    """

    name: str
    lines: tuple[str, ...]
    places: tuple[int, ...]
    operations: tuple[str, ...]

    @property
    def instructions(self) -> int:
        """How many there are."""
        return sum(map(bool, self.operations))

    @property
    def tensor_instructions(self) -> int:
        """How many of them are products of tiles on tensor cores."""
        return sum(bool(_TENSOR.fullmatch(name)) for name in self.operations)

    def mix(self, first: int = 0, last: int | None = None) -> Counter[str]:
        """How often each instruction stands from line `first` to line `last`."""
        end = None if last is None else last + 1
        return Counter(name for name in self.operations[first:end] if name)

    @cached_property
    def hot(self) -> tuple[int, int] | None:
        """The innermost loop with the most instructions; None where nothing loops."""
        inner = innermost(list(self._loops()))
        return max(inner, key=lambda span: span[1] - span[0], default=None)

    def _loops(self) -> Iterator[tuple[int, int]]:
        """From each label to the branches behind it that go back to it."""
        labels = {line[:-1]: n for n, line in enumerate(self.lines) if line.endswith(":")}
        for n, line in enumerate(self.lines):
            found = _TARGET.search(line) if self.operations[n] == "BRA" else None
            first = labels.get(found[1], n) if found else n
            if any(self.operations[first:n]):
                yield first, n


def disassemble(cubin: bytes) -> dict[str, Sass]:
    """Read the kernels of a cubin; lines have places where it was compiled with line information.

    Raises:
        MissingDependencyError: nvdisasm is not installed.
        CodegenError: nvdisasm does not know the architecture.
    """
    tool = _tool()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        command = [tool, "--print-code", "--print-line-info-inline", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        except (OSError, subprocess.SubprocessError) as error:
            raise CodegenError(f"nvdisasm cannot be run: {error}") from None
    if done.returncode != 0:
        raise CodegenError(
            f"nvdisasm refuses the machine code: {done.stderr.strip()}",
            hint=f"{PACKAGE} has to be as new as the NVRTC that made it",
        )
    return {found.name: found for found in _kernels(done.stdout)}


def is_available() -> bool:
    """True if nvdisasm is there."""
    try:
        return bool(_tool())
    except MissingDependencyError:
        return False


def _tool() -> str:
    names = ("nvdisasm", "nvdisasm.exe")
    packaged = (str(path) for path in files_of(PACKAGE) if path.name in names and path.exists())
    homes = (os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH"))
    toolkits = (shutil.which("nvdisasm", path=str(Path(home, "bin"))) for home in homes if home)
    found = next(filter(None, (*packaged, *toolkits, shutil.which("nvdisasm"))), None)
    if found is None:
        raise MissingDependencyError(
            "nvdisasm, which reads a GPU's machine code, is not installed",
            hint=f"pip install {PACKAGE}, on Linux or Windows",
        )
    return found


_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^\s,]+)")
_OTHER = re.compile(r"^\s*\.section\s")
#: of what was inlined the line is said first, and then the one that it was inlined at
_PLACE = re.compile(r'^\s*//## File "(?:[^"]*[/\\])?kernel\.cu", line (\d+)')
_LABEL = re.compile(r"^(\.L\w+):")
_CODE = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;")
_NAME = re.compile(r"(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)")
_TARGET = re.compile(r"\(?(\.L\w+)\)?")


def _kernels(text: str) -> Iterator[Sass]:
    """The parts of nvdisasm's text that are code."""
    rows: list[tuple[str, int, str]] = []
    name, place = "", 0
    for line in [*text.splitlines(), ".section end"]:
        if _OTHER.match(line):
            if name:
                yield _kernel(name, rows)
            found = _SECTION.match(line)
            name, rows, place = (found[1] if found else ""), [], 0
        elif found := _PLACE.match(line):
            place = int(found[1])
        elif found := _LABEL.match(line):
            rows.append((f"{found[1]}:", 0, ""))
        elif found := _CODE.match(line):
            named = _NAME.match(found[2])
            operation = named[1] if named else "?"
            rows.append((f"  {found[1]}  {found[2].replace('`', '')}", place, operation))


def _kernel(name: str, rows: list[tuple[str, int, str]]) -> Sass:
    """A kernel without what pads its end: a branch to itself, and nothing."""
    while rows and rows[-1][2] in ("", "NOP"):
        rows.pop()
    if len(rows) > 1 and rows[-1][2] == "BRA" and rows[-2][0][:-1] in rows[-1][0]:
        del rows[-2:]
    lines, places, operations = zip(*rows, strict=True) if rows else ((), (), ())
    return Sass(name, lines, places, operations)

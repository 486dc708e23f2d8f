"""What a kernel's assembly says about it, in one line.

    >>> print(facts(compiled)["matmul"])
    111 instructions, 0.7 kB; 512-bit; hot loop: 49 instructions, 90 % vector, 28 FMA, 16 loads,
    0 stores, 0 spills

Assembly is read as text, for x86-64 (AT&T), AArch64 and RISC-V. What is guessed, and how:

- the *hot loop* is, of the innermost loops (a jump back to a label, with no other loop inside),
  the one with the most fused multiply-adds, then the most vector instructions, then the longest;
- a *spill* is a vector or float store to, or load from, the stack: a buffer that the kernel itself
  keeps on the stack looks the same; what costs time are those in loops, `Facts.looped.spills`;
- an x86 instruction with a memory operand as its destination counts as a store, any other use of
  memory as a load; an instruction that does both counts as a store.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from mlcnb.codegen.llvm.assembly import LABEL, Reader, reader_of
from mlcnb.codegen.llvm.engine import Compiled
from mlcnb.codegen.llvm.symbols import code_sizes
from mlcnb.core import display
from mlcnb.core.errors import CodegenError


@dataclass(frozen=True, slots=True)
class Counts:
    """Tallies over a stretch of assembly."""

    instructions: int = 0
    vector: int = 0
    fma: int = 0
    loads: int = 0
    stores: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    #: multiply-adds of more than one lane
    vector_fma: int = 0

    @property
    def vector_share(self) -> float:
        """Vector instructions as a part of all, 0 to 1."""
        return self.vector / self.instructions if self.instructions else 0.0

    @property
    def spills(self) -> int:
        """Stack stores and loads of vectors and floats."""
        return self.spill_stores + self.spill_loads

    def __str__(self) -> str:
        return (
            f"{self.instructions} instructions, {100 * self.vector_share:.0f} % vector, "
            f"{self.fma} FMA, {self.loads} loads, {self.stores} stores, {self.spills} spills"
        )


@dataclass(frozen=True, slots=True)
class Facts:
    """One function: the whole of it, and its hot loop (None where nothing loops).

    Attributes:
        vector_bits: the widest vector register used, 0 where there is none.
        calls: functions called, in order of appearance, each once.
        code_bytes: size in the object; None where the object does not say.
        text: the assembly without directives and comments.
        hot_text: of the hot loop, label and jump included.
        looped: everything that is inside of a loop, the hot one or another, each line once.
    """

    name: str
    total: Counts
    hot: Counts | None
    vector_bits: int
    calls: tuple[str, ...]
    code_bytes: int | None
    text: str = field(repr=False)
    hot_text: str = field(repr=False, default="")
    looped: Counts = Counts()

    def __str__(self) -> str:
        size = "" if self.code_bytes is None else f", {self.code_bytes / 1000:.1f} kB"
        width = f"; {self.vector_bits}-bit" if self.vector_bits else ""
        loop = f"; hot loop: {self.hot}" if self.hot else "; no loop"
        calls = f"; calls {', '.join(self.calls)}" if self.calls else ""
        return f"{self.total.instructions} instructions{size}{width}{loop}{calls}"


class MachineCode(dict[str, Facts], display.Shown):
    """Facts about each function of a kernel, by name; shows itself as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        return display.text(self)

    @property
    def hottest(self) -> Facts:
        """The function whose hot loop has the most multiply-adds, then the most vectors.

        Raises:
            CodegenError: there is no function.
        """
        if not self:
            raise CodegenError("the assembly defines no function")
        return max(self.values(), key=_heat)


def _heat(f: Facts) -> tuple[bool, int, int, int]:
    counts = f.hot or f.total
    return f.hot is not None, counts.fma, counts.vector, counts.instructions


def facts(compiled: Compiled) -> MachineCode:
    """Facts about every function of a compiled module, by name."""
    sizes = code_sizes(compiled.object)
    return facts_of_text(compiled.assembly, compiled.cpu.arch, sizes)


def facts_of_text(assembly: str, arch: str, sizes: dict[str, int] | None = None) -> MachineCode:
    """Facts about every function of an assembly listing.

    Args:
        assembly: LLVM's output.
        arch: `x86_64`, `aarch64` or `riscv64`.
        sizes: bytes of code by function, where known.
    """
    reader = reader_of(arch)
    return MachineCode(
        (name, _facts(name, lines, reader, (sizes or {}).get(name)))
        for name, lines in functions(assembly, arch).items()
    )


def functions(assembly: str, arch: str) -> dict[str, list[str]]:
    """The lines of each function, without directives and comments: labels and instructions."""
    found = located_functions(assembly, arch)
    return {name: [line for line, _ in lines] for name, lines in found.items()}


def located_functions(
    assembly: str, arch: str
) -> dict[str, list[tuple[str, tuple[int, int] | None]]]:
    """The same, each line with the (line, column) that the last `.loc` before it speaks of.

    Labels have none, and so have instructions that LLVM knows no place for.
    """
    comment = reader_of(arch).comment
    found: dict[str, list[tuple[str, tuple[int, int] | None]]] = {}
    current: list[tuple[str, tuple[int, int] | None]] | None = None
    in_text, place = True, None
    for raw in assembly.splitlines():
        line = comment.sub("", raw).rstrip()
        if not line.strip():
            continue
        if line.lstrip().startswith(".") and not LABEL.match(line):
            words = line.split()
            in_text = _in_text(words, in_text)
            place = _place(words) if words[0] == ".loc" else place
        elif in_text and _is_function(line):
            current, place = found.setdefault(_name(line), []), None
        elif in_text and current is not None and not _END.match(line):
            is_label = LABEL.match(line)
            current.append((line, None) if is_label else (f"    {_one_space(line)}", place))
    return {name: lines for name, lines in found.items() if lines}


def _place(words: list[str]) -> tuple[int, int] | None:
    """`.loc file line column …`; line 0 is no place."""
    line, column = int(words[2]), int(words[3]) if len(words) > 3 else 0
    return (line, column) if line else None


def strip(assembly: str, arch: str) -> str:
    """A listing for the eye: each function's label, its labels and its instructions."""
    parts = functions(assembly, arch).items()
    return "\n\n".join("\n".join([f"{name}:", *lines]) for name, lines in parts) + "\n"


_END = re.compile(r"\.?L?func_end\d+:|\.?Lfunc_begin\d+:|\.?Ltmp\d+:|ltmp\d+:")


def _in_text(words: list[str], before: bool) -> bool:
    """Whether what follows a directive is code."""
    if words[0] == ".text":
        return True
    if words[0] in (".data", ".bss"):
        return False
    if words[0] == ".section":
        return ".text" in words[1] or "__text" in words[1]
    return before


def _is_function(line: str) -> bool:
    label = line.split(":")[0]
    return bool(LABEL.match(line)) and not re.match(r"\.?L|ltmp|l_", label.strip('"'))


def _name(line: str) -> str:
    return line.split(":")[0].strip('"').removeprefix("_")


def _one_space(line: str) -> str:
    return re.sub(r"\s+", " ", line.strip())


def _facts(name: str, lines: list[str], reader: Reader, size: int | None) -> Facts:
    stack = reader.stack_in(lines)
    spans = _loops(lines, reader)
    bodies = _bodies(spans, lines, reader)
    loops = [lines[a : b + 1] for a, b in innermost(bodies)]
    inside = sorted({at for a, b in spans for at in range(a, b + 1)})
    counted = [(_count(loop, reader, stack), loop) for loop in loops]
    hot, hot_lines = max(
        counted, key=lambda c: (c[0].fma, c[0].vector, c[0].instructions), default=(None, [])
    )
    called = (m[1] for line in lines if (m := reader.call.match(line.strip())))
    width = max((reader.bits(line) for line in lines), default=0)
    return Facts(
        name,
        _count(lines, reader, stack),
        hot,
        width,
        tuple(dict.fromkeys(called)),
        size,
        "\n".join(lines),
        "\n".join(hot_lines),
        _count([lines[at] for at in inside], reader, stack),
    )


def _loops(lines: list[str], reader: Reader) -> list[tuple[int, int]]:
    """(label, jump) of every jump back."""
    labels = {line.split(":")[0]: at for at, line in enumerate(lines) if LABEL.match(line)}
    jumps = ((at, reader.jump.match(line.strip())) for at, line in enumerate(lines))
    return [(labels[m[1]], at) for at, m in jumps if m and labels.get(m[1], at + 1) <= at]


def _bodies(
    spans: list[tuple[int, int]], lines: list[str], reader: Reader
) -> list[tuple[int, int]]:
    """One span for each label: several jumps back to it are a loop with a shortcut.

    It ends at the last of them, or where all of the work is done by an earlier one (the loop around
    begins at the same place).
    """

    def work(span: tuple[int, int]) -> tuple[int, int]:
        counts = _count(lines[span[0] : span[1] + 1], reader, reader.stack)
        return counts.fma, 0 if counts.fma else counts.vector

    found: dict[int, list[tuple[int, int]]] = {}
    for span in spans:
        found.setdefault(span[0], []).append(span)
    for label, own in found.items():
        most = work(max(own)) if len(own) > 1 else (0, 0)
        found[label] = [min(s for s in own if len(own) == 1 or work(s) == most)]
    return [span for own in found.values() for span in own]


def innermost(loops: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of spans of lines those that hold no other one."""

    def contains(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
        return outer != inner and outer[0] <= inner[0] and inner[1] <= outer[1]

    return [loop for loop in loops if not any(contains(loop, other) for other in loops)]


def _count(lines: Iterable[str], reader: Reader, stack: re.Pattern[str]) -> Counts:
    tally = dict.fromkeys(Counts.__slots__, 0)
    for line in lines:
        if LABEL.match(line):
            continue
        word, _, rest = line.strip().partition(" ")
        access = reader.access(word, rest)
        tally["instructions"] += 1
        tally["vector"] += reader.is_vector(word, rest)
        is_fma = bool(reader.fma.match(word))
        tally["fma"] += is_fma
        tally["vector_fma"] += is_fma and reader.is_vector(word, rest)
        tally["loads"] += access == "load"
        tally["stores"] += access == "store"
        if access and stack.search(rest) and reader.is_float(rest):
            tally[f"spill_{access}s"] += 1
    return Counts(**tally)

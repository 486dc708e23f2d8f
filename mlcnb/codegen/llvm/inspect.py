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
    reader = _READERS.get(arch, _Reader())
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
    comment = _READERS.get(arch, _Reader()).comment
    found: dict[str, list[tuple[str, tuple[int, int] | None]]] = {}
    current: list[tuple[str, tuple[int, int] | None]] | None = None
    in_text, place = True, None
    for raw in assembly.splitlines():
        line = comment.sub("", raw).rstrip()
        if not line.strip():
            continue
        if line.lstrip().startswith(".") and not _LABEL.match(line):
            words = line.split()
            in_text = _in_text(words, in_text)
            place = _place(words) if words[0] == ".loc" else place
        elif in_text and _is_function(line):
            current, place = found.setdefault(_name(line), []), None
        elif in_text and current is not None and not _END.match(line):
            is_label = _LABEL.match(line)
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


_LABEL = re.compile(r"[\w.$\"@]+:")
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
    return bool(_LABEL.match(line)) and not re.match(r"\.?L|ltmp|l_", label.strip('"'))


def _name(line: str) -> str:
    return line.split(":")[0].strip('"').removeprefix("_")


def _one_space(line: str) -> str:
    return re.sub(r"\s+", " ", line.strip())


class _Reader:
    """How one architecture writes things; this one knows nothing and counts instructions."""

    comment = re.compile(r"\s+(#|//|;).*$")
    jump = re.compile(r"$^")
    call = re.compile(r"$^")
    fma = re.compile(r"$^")
    stack = re.compile(r"$^")

    def stack_in(self, lines: Iterable[str]) -> re.Pattern[str]:
        """How these lines of one function write a place on the stack."""
        return self.stack

    def is_vector(self, word: str, rest: str) -> bool:
        """Whether the instruction works on more than one lane."""
        return False

    def is_float(self, rest: str) -> bool:
        """Whether it names a vector or float register."""
        return False

    def access(self, word: str, rest: str) -> str:
        """`load`, `store` or nothing."""
        return ""

    def bits(self, rest: str) -> int:
        """The widest vector register it names."""
        return 0


class _X86(_Reader):
    comment = re.compile(r"(^|\s+)#.*$")
    jump = re.compile(r"j[a-z]+ (\.?L\w+)$")
    call = re.compile(r"callq? \*?(?:_(?=_))?([\w.$]+)")
    fma = re.compile(r"vfn?m(add|sub)\w+|vpdp\w+|vdpbf16ps")
    stack = re.compile(r"\(%rsp[,)]")
    framed = re.compile(r"\(%r[sb]p[,)]")
    _scalar = re.compile(
        r".*(ss|sd|sh|si|sil|siq)$|v?mov[dq]$|v?u?comis[sd]$|v?cvt\w*2(ss|sd|si\w*)$"
    )

    def stack_in(self, lines: Iterable[str]) -> re.Pattern[str]:
        # without a frame pointer, rbp is a register like any other
        has_frame = any(line.split() == ["movq", "%rsp,", "%rbp"] for line in lines)
        return self.framed if has_frame else self.stack

    def is_vector(self, word: str, rest: str) -> bool:
        if "%ymm" in rest or "%zmm" in rest:
            return True
        return "%xmm" in rest and (word.startswith("vbroadcast") or not self._scalar.match(word))

    def is_float(self, rest: str) -> bool:
        return "mm" in rest

    def access(self, word: str, rest: str) -> str:
        if "(" not in rest or word.startswith(("lea", "prefetch", "j", "call", "nop")):
            return ""
        reads_only = word.startswith(("cmp", "test", "vucomis", "ucomis", "vcomis", "comis", "bt"))
        return "store" if rest.endswith((")", "}")) and self._stores(rest, reads_only) else "load"

    def _stores(self, rest: str, reads_only: bool) -> bool:
        destination = re.sub(r"\s*\{%k\d\}$", "", rest)
        several = re.search(r",\s*[^,(]*\([^()]*\)$", destination)
        return bool(several) and not reads_only

    def bits(self, rest: str) -> int:
        return 512 if "%zmm" in rest else 256 if "%ymm" in rest else 128 if "%xmm" in rest else 0


class _AArch64(_Reader):
    comment = re.compile(r"\s+(//|;).*$|^\s*(//|;).*$")
    jump = re.compile(r"(?:b|b\.[a-z]+|cbn?z [wx]\d+,|tbn?z [wx]\d+, #\d+,) (\.?L\w+)$")
    call = re.compile(r"bl _?([\w.$]+)")
    fma = re.compile(r"fn?m(la|ls|add|sub)\b|bfmla\w*|[us]{1,2}dot|[us]mmla|bfdot|bfmmla")
    stack = re.compile(r"\[(sp|x29)[,\]]")
    _vector = re.compile(r"\b[vz]\d+\.\d*[bhsd]|\bq\d+\b|\bv\d+\b|\bz\d+\b")

    def is_vector(self, word: str, rest: str) -> bool:
        return bool(self._vector.search(rest))

    def is_float(self, rest: str) -> bool:
        return bool(self._vector.search(rest) or re.match(r"[sdh]\d+\b", rest))

    def access(self, word: str, rest: str) -> str:
        if "[" not in rest:
            return ""
        return "load" if word.startswith("ld") else "store" if word.startswith("st") else ""

    def bits(self, rest: str) -> int:
        return 128 if self._vector.search(rest) else 0


class _RiscV(_Reader):
    comment = re.compile(r"(^|\s+)#.*$")
    jump = re.compile(r"(?:j|b[a-z]+ .*,) (\.?L\w+)$")
    call = re.compile(r"call ([\w.$]+)")
    fma = re.compile(r"vf[nw]*m(acc|add|sub|sac)\w*\.\w+|fn?m(add|sub)\.[sdh]")
    stack = re.compile(r"\((sp|s0)\)")

    def is_vector(self, word: str, rest: str) -> bool:
        return word.startswith("v")

    def is_float(self, rest: str) -> bool:
        return bool(re.match(r"(f[ats]\d+|v\d+)\b", rest))

    def access(self, word: str, rest: str) -> str:
        if "(" not in rest:
            return ""
        return "store" if re.match(r"s[bhwd]$|fs|vs", word) else "load"


_READERS: dict[str, _Reader] = {"x86_64": _X86(), "aarch64": _AArch64(), "riscv64": _RiscV()}


def _facts(name: str, lines: list[str], reader: _Reader, size: int | None) -> Facts:
    stack = reader.stack_in(lines)
    spans = _loops(lines, reader)
    bodies = _bodies(spans, lines, reader)
    loops = [lines[a : b + 1] for a, b in _innermost(bodies)]
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


def _loops(lines: list[str], reader: _Reader) -> list[tuple[int, int]]:
    """(label, jump) of every jump back."""
    labels = {line.split(":")[0]: at for at, line in enumerate(lines) if _LABEL.match(line)}
    jumps = ((at, reader.jump.match(line.strip())) for at, line in enumerate(lines))
    return [(labels[m[1]], at) for at, m in jumps if m and labels.get(m[1], at + 1) <= at]


def _bodies(
    spans: list[tuple[int, int]], lines: list[str], reader: _Reader
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


def _innermost(loops: list[tuple[int, int]]) -> list[tuple[int, int]]:
    def contains(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
        return outer != inner and outer[0] <= inner[0] and inner[1] <= outer[1]

    return [loop for loop in loops if not any(contains(loop, other) for other in loops)]


def _count(lines: Iterable[str], reader: _Reader, stack: re.Pattern[str]) -> Counts:
    tally = dict.fromkeys(Counts.__slots__, 0)
    for line in lines:
        if _LABEL.match(line):
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

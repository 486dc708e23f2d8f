"""How x86-64, AArch64 and RISC-V write assembly: jumps, calls, vectors, memory, the stack.

    reader_of("x86_64").is_vector("vaddps", "%zmm0, %zmm1, %zmm2")     True
    kinds_of(lines, "aarch64")                                         "LLFFFFssJ"

Assembly is read as text; what is guessed is said in `mlcnb.codegen.llvm.inspect`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

LABEL = re.compile(r"[\w.$\"@]+:")


class Reader:
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


class _X86(Reader):
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


class _AArch64(Reader):
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


class _RiscV(Reader):
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


READERS: dict[str, Reader] = {"x86_64": _X86(), "aarch64": _AArch64(), "riscv64": _RiscV()}


def reader_of(arch: str) -> Reader:
    """How an architecture writes things; of an unknown one only instructions are counted."""
    return READERS.get(arch, Reader())


#: letter of a kind of instruction -> what it is
KINDS = {
    "F": "vector multiply-add",
    "V": "other vector",
    "L": "load",
    "S": "store",
    "X": "spill",
    "J": "jump or compare",
    "C": "call",
    "s": "scalar",
}


def kinds_of(lines: Sequence[str], arch: str) -> str:
    """For each line of one function the letter of its kind (`KINDS`), " " for labels."""
    reader = reader_of(arch)
    stack = reader.stack_in(lines)
    return "".join(_kind(line, reader, stack) for line in lines)


#: instructions that load and do nothing else; `vaddps (%rax), …` is arithmetic that loads as well
_MOVES = re.compile(r"v?p?(mov|broadcast|gather|expand)|vbroadcast|l[bhwd]u?$|fl[hwd]|vl|ld")


def _kind(line: str, reader: Reader, stack: re.Pattern[str]) -> str:
    if LABEL.match(line):
        return " "
    word, _, rest = line.strip().partition(" ")
    access = reader.access(word, rest)
    if access and stack.search(rest) and reader.is_float(rest):
        return "X"
    if reader.fma.match(word) and reader.is_vector(word, rest):
        return "F"
    if access == "store" or (access and _MOVES.match(word)):
        return access[0].upper()
    if reader.is_vector(word, rest):
        return "V"
    if reader.jump.match(line.strip()) or word.startswith(("cmp", "test", "ret")):
        return "J"
    return "C" if reader.call.match(line.strip()) else "s"

"""LLVM IR and assembly as lines that know their place in the lowered program.

    ir_listing(text).lines[7]        "  %v7 = load float, ptr %p6, align 4"
                    .places[7]       (4, 16): line and column of the lowered function

What belongs to the debug information itself is left out of the lines. A line without a place is one
that LLVM made and knows no line for, or that is no instruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlcnb.codegen.llvm.assembly import kinds_of
from mlcnb.codegen.llvm.inspect import facts_of_text, located_functions

#: line and column, counted from 1; None: no line
Place = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Listing:
    """A text, line by line, each line with its place.

    Attributes:
        code: which lines are instructions.
        hot: first and last line of the hot loop, counted from 0; None where nothing loops.
        kinds: of assembly, for each line a letter of `KINDS`, " " for a line without instruction.
    """

    lines: tuple[str, ...]
    places: tuple[Place, ...]
    code: tuple[bool, ...]
    hot: tuple[int, int] | None = None
    kinds: str = ""

    def located(self, first: int = 0, last: int | None = None) -> tuple[int, int]:
        """How many instructions from line `first` to line `last` have a place, and how many there
        are.
        """
        end = len(self.lines) if last is None else last + 1
        kept = [place for place, is_code in self._between(first, end) if is_code]
        return sum(place is not None for place in kept), len(kept)

    def _between(self, first: int, end: int) -> Iterator[tuple[Place, bool]]:
        return zip(self.places[first:end], self.code[first:end], strict=True)

    def at(self, line: int) -> list[int]:
        """The lines whose place is on line `line` of the lowered program, counted from 0."""
        return [n for n, place in enumerate(self.places) if place and place[0] == line]


def listing(rows: Sequence[tuple[str, Place, bool]], **more: object) -> Listing:
    """A Listing of (text, place, is an instruction)."""
    texts, places, code = zip(*rows, strict=True) if rows else ((), (), ())
    return Listing(tuple(texts), tuple(places), tuple(code), **more)  # type: ignore[arg-type]


_LOCATION = re.compile(
    r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+)(?:, column: (\d+))?", re.MULTILINE
)
_DEBUG = re.compile(r",? !dbg !(\d+)")
_METADATA = re.compile(r"^(?:![\w.]+ = |source_filename|; (?:ModuleID|Function Attrs))")


def ir_listing(text: str, first: str = "") -> Listing:
    """LLVM IR without its metadata; each instruction with the place of its debug location.

    first: the function that stands at the top.
    """
    known = {m[1]: (int(m[2]), int(m[3] or 0)) for m in _LOCATION.finditer(text)}
    rows: list[tuple[str, Place, bool]] = []
    for raw in _with_first(text, first).splitlines():
        if _METADATA.match(raw) or (not raw and (not rows or not rows[-1][0])):
            continue
        found = _DEBUG.search(raw)
        line = _DEBUG.sub("", raw).rstrip()
        is_code = line.startswith("  ") and not line.lstrip().startswith((";", "]"))
        place = known.get(found[1]) if found and is_code else None
        rows.append((line, place if place and place[0] else None, is_code))
    while rows and not rows[-1][0]:
        rows.pop()
    return listing(rows)


def _with_first(text: str, name: str) -> str:
    """A module with one function before everything else."""
    found = re.search(rf"^define [^\n]*@{re.escape(name)}\([^\n]*\n", text, re.MULTILINE)
    if not name or found is None:
        return text
    end = text.index("\n}\n", found.start()) + 3
    return f"{text[found.start() : end]}\n{text[: found.start()]}{text[end:]}"


def assembly_listing(text: str, arch: str) -> Listing:
    """Assembly without directives and comments; the function with the hottest loop first."""
    if arch == "nvptx64":
        return ptx_listing(text)
    facts, found = facts_of_text(text, arch), located_functions(text, arch)
    if not facts:
        return listing([])
    hottest = facts.hottest
    rows: list[tuple[str, Place, bool]] = []
    kinds: list[str] = []
    for name in sorted(found, key=lambda n: n != hottest.name):
        lines = [line for line, _ in found[name]]
        rows += [("", None, False)] if rows else []
        rows.append((f"{name}:", None, False))
        rows += [(line, place, line.startswith("    ")) for line, place in found[name]]
        kinds.append(" " + kinds_of(lines, arch))
    return listing(rows, hot=_hot(hottest.text, hottest.hot_text), kinds=" ".join(kinds))


def _hot(text: str, hot: str) -> tuple[int, int] | None:
    """Where the hot loop's lines stand; the function's label is line 0."""
    if not hot or hot not in text:
        return None
    first = text[: text.index(hot)].count("\n") + 1
    return first, first + hot.count("\n")


_LOC = re.compile(r"\.loc\s+\d+ (\d+)(?: (\d+))?")


def ptx_listing(text: str) -> Listing:
    """PTX: instructions end with a semicolon, and declarations of registers are none."""
    rows: list[tuple[str, Place, bool]] = []
    place: Place = None
    for raw in text.splitlines():
        line = re.sub(r"//.*$", "", raw).rstrip()
        found = _LOC.search(line)
        if found:
            place = (int(found[1]), int(found[2] or 0)) if int(found[1]) else None
            continue
        if line.lstrip().startswith(".section"):
            break
        if not line or re.match(r"\$L__(tmp|func)|\s*\.file", line):
            continue
        is_code = line.startswith("\t") and not line.lstrip().startswith((".", "{", "}"))
        shown = re.sub(r"\s+", " ", line.strip())
        rows.append((f"    {shown}" if is_code else shown, place if is_code else None, is_code))
        place = None if shown.startswith("}") else place
    return listing(rows)

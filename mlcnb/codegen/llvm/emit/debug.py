"""Emission with debug locations: every instruction knows its place in the text of the program.

    C[i] = A[i] * T.float32(2.0)     line 4, column 16 of the lowered function, as it is printed
      %v7 = load float, ptr %p6, align 4, !dbg !1000012
      !1000012 = !DILocation(line: 4, column: 16, scope: !1000005)

LLVM carries the locations through its passes to the `.loc` lines of the assembly. They say nothing
about what is computed: without them the text is that of `emit_kernel`, character for character, and
so is the code. Programs are run without; this form is made when somebody wants to read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlcnb.codegen.llvm.emit.builder import Function
from mlcnb.codegen.llvm.emit.kernel import Emitter, KernelText
from mlcnb.core.doc import Page
from mlcnb.script.printer import document
from mlcnb.tir.function import PrimFunc

#: what the listing is called in the debug information
FILE = "lowered.tir"
#: metadata from here on is about locations; all that is below belongs to the program
FIRST = 1_000_000
_UNIT, _FILE, _TYPE = FIRST + 2, FIRST + 3, FIRST + 4
_HEAD = f"""
!llvm.module.flags = !{{!{FIRST}, !{FIRST + 1}}}
!llvm.dbg.cu = !{{!{_UNIT}}}
!{FIRST} = !{{i32 2, !"Debug Info Version", i32 3}}
!{FIRST + 1} = !{{i32 2, !"Dwarf Version", i32 4}}
!{_UNIT} = distinct !DICompileUnit(language: DW_LANG_C99, file: !{_FILE}, producer: "mlcnb", \
isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)
!{_FILE} = !DIFile(filename: "{FILE}", directory: "")
!{_TYPE} = !DISubroutineType(types: !{{}})
"""

#: the last column that LLVM can say
_MOST = 65535
#: line and column, counted from 1
Place = tuple[int, int]


@dataclass(frozen=True)
class Located:
    """A kernel's IR with locations, and the listing of the lowered function that they speak of."""

    kernel: KernelText
    page: Page

    @property
    def plain(self) -> str:
        """The IR without its locations: the text that the program is compiled from."""
        return without_locations(self.kernel.ir)


def emit_located(
    func: PrimFunc,
    name: str,
    vector_bits: int = 512,
    page: Page | None = None,
    features: frozenset[str] = frozenset(),
    tuning: str = "",
) -> Located:
    """As `emit_kernel`, with a debug location at every instruction.

    page: the listing of the function, if there is one already.

    Raises:
        CodegenError: something in it that this backend cannot do, with what to try.
    """
    page = lowered_page(func) if page is None else page
    return Located(LocatedEmitter(page, func, name, vector_bits, features, tuning).kernel(), page)


def lowered_page(func: PrimFunc) -> Page:
    """The listing of a lowered function: one line for each loop."""
    return document(func, header=False, syntax_sugar=False)


def without_locations(ir: str) -> str:
    """IR text as it was before locations were put into it."""
    kept = re.sub(rf", !dbg !{_NUMBER}", "", ir)
    kept = re.sub(rf"^(define .*) !dbg !{_NUMBER} \{{$", r"\1 {", kept, flags=re.M)
    return kept[: kept.index(_HEAD)] if _HEAD in kept else kept


_NUMBER = r"1\d{6}\b"


class LocatedEmitter(Emitter):
    """Emission that follows where in the listing it is."""

    def __init__(self, page: Page, *kernel: Any) -> None:
        super().__init__(*kernel)
        self.page = page
        texts = page.text_lines
        start = next((n for n, text in enumerate(texts, 1) if text.startswith("def ")), 1)
        self.start: Place = (start, 1)
        self.place = self.start
        #: (line, column, number of the function's scope) -> number
        self.locations: dict[tuple[int, int, int], int] = {}
        self.nodes: list[str] = []

    def kernel(self) -> KernelText:
        """The kernel, and its locations below it."""
        made = super().kernel()
        return KernelText(made.name, made.ir + self.metadata(), made.signature, made.messages)

    def metadata(self) -> str:
        """The unit, the file, the functions and the locations."""
        return _HEAD + "\n".join(self.nodes) + "\n"

    def number(self, text: Callable[[int], str]) -> int:
        """A node of metadata; gives its number."""
        number = FIRST + 5 + len(self.nodes)
        self.nodes.append(f"!{number} = {text(number)}")
        return number

    def function(self, header: str) -> Function:
        """A function with a scope of its own."""
        found = re.search(r"@([\w.$-]+|\"[^\"]*\")\(", header)
        name = found[1].strip('"') if found else self.name
        line = self.place[0]
        scope = self.number(
            lambda _: (
                f'distinct !DISubprogram(name: "{name}", scope: !{_FILE}, file: !{_FILE}, '
                f"line: {line}, type: !{_TYPE}, scopeLine: {line}, "
                f"spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !{_UNIT})"
            )
        )
        return LocatedFunction(f"{header} !dbg !{scope}", lambda: self.location(scope))

    def location(self, scope: int) -> int:
        """The number of the location of what is emitted now."""
        line, column = self.place
        key = (line, column, scope)
        if key not in self.locations:
            text = f"!DILocation(line: {line}, column: {min(column, _MOST)}, scope: !{scope})"
            self.locations[key] = self.number(lambda _: text)
        return self.locations[key]

    def stmt(self, x: Any) -> None:
        """Emit one statement, at the place where it is printed."""
        before = self.place
        places = self.page.places.get(id(x))
        if places:
            self.place = min(places)[:2]
        super().stmt(x)
        self.place = before

    def expr(self, x: Any) -> str:
        """Emit one expression, at its place in the line of the statement."""
        before = self.place
        places = self.page.places.get(id(x), ())
        self.place = next((p[:2] for p in sorted(places) if p[0] == before[0]), before)
        result = super().expr(x)
        self.place = before
        return result


class LocatedFunction(Function):
    """A function whose instructions carry a location."""

    def __init__(self, header: str, location: Callable[[], int]) -> None:
        super().__init__(header)
        self.location = location

    def line(self, instruction: str) -> str:
        """The line of an instruction and its location."""
        return f"  {instruction}, !dbg !{self.location()}"

"""The text of one function: instructions, names, blocks, and the functions of one module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.codegen.llvm.emit.status import FIRST_ASSERT
from mlcnb.ir.expr import Var


class Module:
    """The module text as it grows: functions, declarations, definitions that are needed once."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.declarations: dict[str, str] = {}
        self.messages: list[str] = []
        self.counter = 0
        self.marks = 0

    def declare(self, name: str, text: str) -> str:
        """Have `name` declared (or defined) by `text`; gives `@name`."""
        self.declarations.setdefault(name, text)
        return f"@{name}"

    def status(self, message: str) -> int:
        """The status of a kernel that stops with this message."""
        if message not in self.messages:
            self.messages.append(message)
        return FIRST_ASSERT + self.messages.index(message)

    def metadata(self) -> int:
        """A fresh number for a metadata node (!0 is taken by branch weights)."""
        self.marks += 1
        return self.marks

    def text(self) -> str:
        """The whole module."""
        parts = [*self.declarations.values(), *self.functions]
        return "\n".join(parts) + "\n"


class Function:
    """One function under construction: SSA names, a current block, allocas in the entry block."""

    def __init__(self, header: str) -> None:
        self.header = header
        #: stack memory -> its elements' type, how many there are, and how it is aligned
        self.allocas: dict[str, tuple[str, int, int]] = {}
        #: variable of a buffer on this function's stack -> its bytes
        self.on_stack: dict[Any, int] = {}
        self.lines: list[str] = []
        self.count = 0
        self.block = "entry"
        #: variables of the program: operand, and whether it is held as an i64 index
        self.env: dict[Var, tuple[str, bool]] = {}
        #: divisions that are done already: `division_key` -> operand; whether such are being done
        self.divided: dict[Any, str] = {}
        self.is_ahead = False
        #: float operand that was rounded to bfloat16 -> the bfloat that it equals
        self.bfloats: dict[str, str] = {}
        self.cleanup: list[str] = []
        #: of the loops around: where the next round starts, where the loop ends, cleanup before it
        self.exits: list[tuple[str, str, int]] = []

    def name(self, hint: str = "v") -> str:
        """A fresh SSA name."""
        self.count += 1
        return f"%{hint}{self.count}"

    def emit(self, instruction: str, hint: str = "v") -> str:
        """Append `%fresh = instruction`; gives the name."""
        result = self.name(hint)
        self.lines.append(self.line(f"{result} = {instruction}"))
        return result

    def do(self, instruction: str) -> None:
        """Append an instruction without result."""
        self.lines.append(self.line(instruction))

    def each_lane(
        self, fn: str, operands: Sequence[tuple[str, str]], lanes: int, result: str
    ) -> str:
        """A scalar function called for each lane of operands: (kind of a lane, operand)."""
        if lanes == 1:
            return self.emit(call(result, fn, operands))
        kind, made = f"<{lanes} x {result}>", "poison"
        for lane in range(lanes):
            parts = [
                (k, self.emit(f"extractelement <{lanes} x {k}> {v}, i64 {lane}"))
                for k, v in operands
            ]
            value = self.emit(call(result, fn, parts))
            made = self.emit(f"insertelement {kind} {made}, {result} {value}, i64 {lane}")
        return made

    def line(self, instruction: str) -> str:
        """The line of an instruction (with its debug location, where a subclass knows one)."""
        return f"  {instruction}"

    def alloca(self, type_: str, count: int, align: int = 64) -> str:
        """Stack memory, allocated once in the entry block."""
        result = self.name("local")
        self.allocas[result] = type_, count, align
        return result

    def widen(self, name: str, type_: str, count: int) -> bool:
        """Let stack memory have at least so many elements; False if it has others."""
        own, had, align = self.allocas.get(name, ("", 0, 0))
        if own == type_:
            self.allocas[name] = type_, max(count, had), align
        return own == type_

    def label(self, hint: str) -> str:
        """A fresh block label (not yet placed)."""
        self.count += 1
        return f"{hint}{self.count}"

    def place(self, label: str) -> None:
        """Begin block `label`."""
        self.lines.append(f"{label}:")
        self.block = label

    def leave(self, label: str, before: int) -> None:
        """Go to a block outside, after the cleanup that was added since; what follows is dead."""
        for line in reversed(self.cleanup[before:]):
            self.do(line)
        self.do(f"br label %{label}")
        self.place(self.label("dead"))

    def text(self) -> str:
        """The function's text."""
        allocas = [
            f"  {name} = alloca [{count} x {type_}], align {align}"
            for name, (type_, count, align) in self.allocas.items()
        ]
        return "\n".join([f"{self.header} {{", "entry:", *allocas, *self.lines, "}"]) + "\n"


def call(result: str, function: str, args: Sequence[tuple[str, str]]) -> str:
    """`call T @f(T a, …)`"""
    return f"call {result} {function}({', '.join(f'{t} {v}' for t, v in args)})"

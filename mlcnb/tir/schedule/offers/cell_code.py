"""cell_code: the steps of a schedule as a person would write them in a cell.

    C = sch.get_block("C")
    i, j, k = sch.get_loops(C)
    j_0, j_1 = sch.split(j, factors=[None, 16])

Results have the names of their loops and blocks; arguments that have their default are left out.
`Trace.as_python` is the same as a function, in TVM's words.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable
from typing import Any

from mlcnb.tir import stmt as s
from mlcnb.tir.schedule.record.handles import Handle
from mlcnb.tir.schedule.record.instruction import Instruction
from mlcnb.tir.schedule.record.trace import Names, Trace, importing
from mlcnb.tir.schedule.schedule import Schedule

#: names that a cell has already
_TAKEN = frozenset(["sch", "mlc", "mlcnb", "np", "T", "R", "I"])


def cell_code(sch: Schedule, at: int | None = None) -> str:
    """The steps up to `at` (by default all that are done) as lines of Python that act on `sch`."""
    lines, _ = cell_lines(sch, sch.position if at is None else at)
    return "\n".join(lines)


def cell_lines(sch: Schedule, at: int) -> tuple[list[str], list[int]]:
    """The lines up to a step, and how many of them lead to each step from 0 on."""
    trace = Trace(sch._snapshots[at].instructions).simplified()
    names = _CellNames(sch, at)
    lines = importing(trace.statements(names, lambda step: _call(sch, step, names.value)))
    before = len(lines) - len(trace)
    ends = {id(x): end for end, x in enumerate(trace, before + 1)}
    steps = sch.steps[1 : at + 1]
    return lines, [0, *(ends.get(id(x.instruction), len(lines)) for x in steps)]


def _call(sch: Schedule, instruction: Instruction, value: Callable[[Any], str]) -> str:
    """The call without what is at its default, handles by position."""
    primitive = getattr(getattr(type(sch), instruction.name, None), "primitive", None)
    if primitive is None:
        return instruction.call(value)
    given: list[str] = []
    in_order = True
    for name, parameter in primitive.signature.parameters.items():
        if name not in instruction.arguments:
            continue
        argument = instruction.arguments[name]
        if name == instruction.varargs:
            given += map(value, argument)
        elif name == "func_name" and len(sch.mod) == 1:
            continue
        elif parameter.default is inspect.Parameter.empty and in_order and _is_plain(argument):
            given.append(value(argument))
            continue
        elif parameter.default is inspect.Parameter.empty or argument is not parameter.default:
            if argument != parameter.default or isinstance(argument, Handle):
                given.append(f"{name}={value(argument)}")
        in_order = False
    if instruction.decision is not None:
        given.append(f"decision={value(instruction.decision)}")
    return f"sch.{instruction.name}({', '.join(given)})"


def _is_plain(argument: Any) -> bool:
    return isinstance(argument, Handle | str)


class _CellNames(Names):
    """The names of loops and blocks where they may name a variable, each once; else l0, b1, …"""

    def __init__(self, sch: Schedule, now: int) -> None:
        super().__init__()
        self.used: set[str] = set(_TAKEN)
        self.words: dict[int, str] = {}
        for snapshot in sch._snapshots[: now + 1]:
            for handle, (_, node) in snapshot.handles.items():
                self.words.setdefault(id(handle), _word(node))

    def make(self, output: Any) -> str:
        """A new name for a result."""
        wanted = self.words.get(id(output), "")
        if not wanted.isidentifier() or keyword.iskeyword(wanted) or not wanted.isascii():
            wanted = super().make(output)
        name, number = wanted, 0
        while name in self.used:
            number += 1
            name = f"{wanted}_{number}"
        self.used.add(name)
        self.given[id(output)] = name
        return name


def _word(node: Any) -> str:
    if isinstance(node, s.For):
        return node.loop_var.name
    return node.name_hint if isinstance(node, s.Block) else ""

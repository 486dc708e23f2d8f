"""explain: where a pattern is found in a program, and the first part that stopped it.

is_op("relax.nn.relu")(is_op("relax.nn.conv2d")(*, *))
found 1: gv = relax.nn.relu(…) with lv
nearest miss: gv2 matches is_op("relax.nn.relu")(…) down to lv1,
but lv1 is relax.add(…), not relax.nn.conv2d
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import ArgumentError
from mlcnb.core.text import kind_of
from mlcnb.ir.module import IRModule
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.dpl.context import PatternContext
from mlcnb.relax.dpl.group import bound_in
from mlcnb.relax.dpl.matcher import Failure, Journal, Matcher, parts_only
from mlcnb.relax.dpl.nodes import DFPattern
from mlcnb.relax.dpl.text import told
from mlcnb.relax.expr import DataflowBlock, Function, Op, Var


@dataclass(frozen=True, repr=False)
class Found(display.Shown):
    """One place where a pattern is.

    Attributes:
        function: the function's name.
        root: the variable that is bound to the whole.
        parts: what each part of the pattern matched.
        variables: the bound variables that belong to it, the whole first.
    """

    function: str
    root: Var
    parts: dict[DFPattern, Any]
    variables: tuple[Var, ...]

    def __repr__(self) -> str:
        rest = ", ".join(v.name_hint for v in self.variables if v is not self.root)
        return f"{self.root.name_hint}{f' with {rest}' if rest else ''}"


class Explanation(display.Shown):
    """What became of a pattern in a program; shows itself as a graph with the matches lit.

    Attributes:
        pattern: the pattern, or the PatternContext.
        mod: the program.
        found: the places where it is.
        miss: where it came furthest without success (a `Failure`), or None.
        missed_at: the function and the variable of the miss.
    """

    def __init__(self, pattern: Any, mod: IRModule) -> None:
        self.pattern, self.mod = pattern, mod
        self.found: list[Found] = []
        self.miss: Failure | None = None
        self.missed_at: tuple[str, Var | None] | None = None
        look = _look_for_context if isinstance(pattern, PatternContext) else _look_for_pattern
        look(self)

    def __bool__(self) -> bool:
        """Whether it was found anywhere."""
        return bool(self.found)

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        """The bound variables of all matches."""
        return tuple(dict.fromkeys(v for f in self.found for v in f.variables))

    @property
    def why(self) -> str:
        """The first part that did not match, in one sentence; "" where nothing came near."""
        if self.miss is None or self.missed_at is None:
            return ""
        if self.found and not self.miss.memo:
            return ""
        function, root = self.missed_at
        at = f"at {root.name_hint} in {function}" if root is not None else f"in {function}"
        count = len(parts_only(self.miss.memo))
        matched = f"{count} part{'s' if count != 1 else ''} matched, but " if count else ""
        expr = self.miss.expr
        name = "the operator" if isinstance(expr, Op) else told(expr).removeprefix("variable ")
        return (
            f"nearest miss {at}: {matched}{name} {self.miss.reason}; wanted {self.miss.pattern!r}"
        )


def explain(pattern: Any, program: Any) -> Explanation:
    """Where a pattern (or a PatternContext) is in a function or module, and what stopped it.

    Raises:
        ArgumentError: `program` is neither.
    """
    return Explanation(pattern, _module(program))


def _module(program: Any) -> IRModule:
    if isinstance(program, IRModule):
        return program
    if isinstance(program, Function):
        return IRModule.from_expr(program)
    raise ArgumentError(
        f"patterns are looked for in a function or module, not in {kind_of(program)}"
    )


def functions_of(program: Any) -> Iterator[tuple[str, Function]]:
    """The graph functions of a function or module, by name."""
    for key, func in _module(program).of_kind(Function).items():
        yield key.name_hint, func


def values_of(program: Any) -> Iterator[tuple[Var, Any]]:
    """Every bound variable of a program with its value, in order."""
    for _, func in functions_of(program):
        for binding in bindings_of(func):
            yield binding.var, binding.value


def _look_for_pattern(told_of: Explanation) -> None:
    for name, func in functions_of(told_of.mod):
        values = {b.var: b.value for b in bindings_of(func)}
        for var in values:
            journal = Journal()
            memo = next(Matcher(values, journal).ways(told_of.pattern, var, {}), None)
            if memo is None:
                _keep_miss(told_of, journal, name, var)
            else:
                parts = parts_only(memo)
                told_of.found.append(Found(name, var, parts, bound_in(parts, values, var)))


def _look_for_context(told_of: Explanation) -> None:
    for name, func in functions_of(told_of.mod):
        for block in func.body.blocks:
            if not isinstance(block, DataflowBlock):
                continue
            found = told_of.pattern.match_dfb(block)
            bound = {b.var for b in block.bindings}
            if found is None:
                journal = Journal()
                if told_of.pattern.failure is not None:
                    journal.note(told_of.pattern.failure)
                _keep_miss(told_of, journal, name, None)
                continue
            own = [v for v in found.values() if isinstance(v, Var) and v in bound]
            told_of.found.append(Found(name, own[-1], found, tuple(dict.fromkeys(own))))


def _keep_miss(told_of: Explanation, journal: Journal, function: str, at: Var | None) -> None:
    """Keep the failure that came furthest of all."""
    miss = journal.furthest
    if miss is None:
        return
    if told_of.miss is None or len(miss.memo) > len(told_of.miss.memo):
        told_of.miss, told_of.missed_at = miss, (function, at)

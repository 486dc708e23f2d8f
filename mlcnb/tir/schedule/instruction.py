"""Instruction: one call of a primitive, as data.

    Instruction(kind=InstructionKind.get("GetLoops"), inputs=[block], attrs=[], outputs=[i, j])
    _, _ = sch.get_loops(block=_)

What a primitive is told stands in two lists, as in TVM: `inputs` are handles, numbers and what may
be a drawn number, `attrs` all the rest. Here both are kept as one table: parameter -> value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Parameter
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import ScheduleError
from mlcnb.ir.expr import Var
from mlcnb.tir.schedule.handles import Handle

#: parameters that are inputs, all others are attributes
INPUTS = frozenset(
    "block loop block_or_loop factors ann_val target loops ordered_loops scope_block "
    "consumer_blocks blocks reduction_block epilogue_block".split()
)
#: inputs whose items are inputs of their own
SPREAD = frozenset(["factors", "loops", "ordered_loops"])
#: arguments that are left out of the text where they are None
OPTIONAL = frozenset(["decision", "consumer_blocks"])
#: kinds of TVM 0.27 that have other names
_RENAMED = {"GetSBlock": "get_block"}


class InstructionKind(str):
    """A kind of instruction by TVM's name: `GetBlock`, `ComputeAt`, …; get it with `get`."""

    __slots__ = ("method", "primitive")
    method: str
    primitive: Any

    @staticmethod
    @cache
    def get(name: str) -> InstructionKind:
        """The kind of that name; always the same object.

        Raises:
            ScheduleError: there is no such kind.
        """
        kind = InstructionKind(name)
        kind.method = _RENAMED.get(name) or re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        method = getattr(display.load("mlcnb.tir.schedule.schedule:Schedule"), kind.method, None)
        kind.primitive = getattr(method, "primitive", None)
        if kind.primitive is None and name != "EnterPostproc":
            raise ScheduleError(f"there is no instruction kind {name!r}")
        return kind

    @staticmethod
    def of(method: str) -> InstructionKind:
        """The kind of a method of Schedule."""
        return InstructionKind.get("".join(part.capitalize() for part in method.split("_")))

    @property
    def name(self) -> str:
        """The name as text."""
        return str.__str__(self)

    @property
    def is_pure(self) -> bool:
        """Whether it only looks and changes nothing."""
        return self.primitive is not None and self.primitive.pure

    @property
    def varargs(self) -> str | None:
        """The parameter that is given as positional arguments, if there is one."""
        return self.primitive.varargs if self.primitive is not None else None

    def same_as(self, other: Any) -> bool:
        """Whether it is the same kind."""
        return self is other


class Instruction:
    """One call: its kind, what it was told, what it gave, and what was drawn.

    Args:
        kind: of the instruction, or its name.
        inputs: handles and numbers, in the order of the primitive's parameters.
        attrs: the other arguments, in that order.
        outputs: the handles and drawn numbers that it gave.
        decision: what a sampling primitive drew.
    """

    __slots__ = ("arguments", "decision", "kind", "outputs")

    def __init__(
        self,
        kind: InstructionKind | str,
        inputs: Sequence[Any] = (),
        attrs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        decision: Any = None,
    ) -> None:
        self.kind = InstructionKind.get(str(kind))
        self.arguments: Mapping[str, Any] = _arguments(self.kind, inputs, attrs)
        self.outputs = tuple(outputs)
        self.decision = decision

    @staticmethod
    def of(
        method: str, arguments: Mapping[str, Any], outputs: Sequence[Any], decision: Any
    ) -> Instruction:
        """The call of a method of Schedule with arguments by name."""
        made = Instruction("EnterPostproc", outputs=outputs, decision=decision)
        made.kind, made.arguments = InstructionKind.of(method), dict(arguments)
        return made

    def deciding(self, decision: Any) -> Instruction:
        """The same call that draws `decision`."""
        return Instruction.of(self.name, self.arguments, self.outputs, decision)

    @property
    def name(self) -> str:
        """The method of Schedule that is called."""
        return self.kind.method

    @property
    def varargs(self) -> str | None:
        """The parameter that is given as positional arguments, if there is one."""
        return self.kind.varargs

    @property
    def pure(self) -> bool:
        """Whether it only looks."""
        return self.kind.is_pure

    @property
    def inputs(self) -> list[Any]:
        """Handles, numbers and values, lists of loops and factors spread out."""
        return parts_of(self.arguments)[0]

    @property
    def attrs(self) -> list[Any]:
        """The other arguments."""
        return parts_of(self.arguments)[1]

    def __repr__(self) -> str:
        call = self.call(lambda x: "_" if isinstance(x, Handle | Var) else repr(x))
        made = ", ".join("_" for _ in self.outputs)
        return f"{made} = {call}" if made else call

    def same_as(self, other: Any) -> bool:
        """Whether it is the same instruction of the same trace."""
        return self is other

    def call(self, value: Callable[[Any], str]) -> str:
        """The call as Python text, with `value` writing each argument."""
        given: list[str] = []
        for key, arg in self.arguments.items():
            if key == self.varargs:
                given.extend(value(a) for a in arg)
            elif not (key in OPTIONAL and arg is None):
                given.append(f"{key}={value(arg)}")
        if self.decision is not None:
            given.append(f"decision={value(self.decision)}")
        return f"sch.{self.name}({', '.join(given)})"

    def run(self, sch: Any, arguments: Mapping[str, Any], decision: Any) -> list[Any]:
        """Call the method of `sch` with these arguments; what it gives, as a list."""
        keyed = {k: v for k, v in arguments.items() if k != self.varargs}
        if decision is not None:
            keyed["decision"] = decision
        given = getattr(sch, self.name)(*arguments.get(self.varargs or "", ()), **keyed)
        if given is None or isinstance(given, bool):
            return []
        return list(given) if isinstance(given, list) else [given]


def parts_of(arguments: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """The inputs and the attributes among the arguments."""
    inputs: list[Any] = []
    attributes: list[Any] = []
    for key, arg in arguments.items():
        if key in SPREAD:
            inputs.extend(arg)
        elif key != "decision":
            (inputs if key in INPUTS else attributes).append(arg)
    return inputs, attributes


def _arguments(
    kind: InstructionKind, inputs: Sequence[Any], attrs: Sequence[Any]
) -> dict[str, Any]:
    """The arguments by name; what the lists are too short for stays at its default."""
    made: dict[str, Any] = {}
    if kind.primitive is None:
        return made
    rest = {True: list(inputs), False: list(attrs)}
    for name, parameter in kind.primitive.signature.parameters.items():
        given = rest[name in INPUTS]
        if name in SPREAD:
            made[name] = list(given)
            given.clear()
        elif given and name != "decision":
            made[name] = given.pop(0)
        elif parameter.default is not Parameter.empty and name != "decision":
            made[name] = parameter.default
    return made

"""Instruction: one call of a primitive, as data.

    Instruction(kind=InstructionKind.get("GetLoops"), inputs=[block], attrs=[], outputs=[i, j])
    _, _ = sch.get_loops(block=_)

What a primitive is told stands in two lists, as in TVM: `inputs` are handles, numbers and what may
be a drawn number, `attrs` all the rest. Here both are kept as one table: parameter -> value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Parameter
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import ScheduleError
from mlcnb.ir.expr import Var
from mlcnb.tir.schedule.record.handles import Handle

#: parameters that are inputs, all others are attributes
INPUTS = frozenset(
    "block loop block_or_loop factors ann_val target loops ordered_loops scope_block "
    "consumer_blocks blocks reduction_block epilogue_block buf_type buf_index_array "
    "new_order".split()
)
#: inputs whose items are inputs of their own
SPREAD = frozenset(["factors", "loops", "ordered_loops"])
#: arguments that are left out of the text where they are None or empty
OPTIONAL = frozenset(["decision", "consumer_blocks"])
#: method -> kind, where the one does not follow from the other
_NAMED = {"rfactor": "RFactor", "reindex": "ReIndex", "unsafe_set_dtype": "UnsafeSetDType"}
#: kind -> method; the last is TVM 0.27's name of GetBlock
_RENAMED = {kind: method for method, kind in _NAMED.items()} | {"GetSBlock": "get_block"}
#: places of a buffer in a block, as TVM counts them
_SIDES = ("read", "write")


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
        if _NAMED.get(kind.method, name) != name:
            return InstructionKind.get(_NAMED[kind.method])
        method = getattr(display.load("mlcnb.tir.schedule.schedule:Schedule"), kind.method, None)
        kind.primitive = getattr(method, "primitive", None)
        if kind.primitive is None and name != "EnterPostproc":
            raise ScheduleError(f"there is no instruction kind {name!r}")
        return kind

    @staticmethod
    def of(method: str) -> InstructionKind:
        """The kind of a method of Schedule."""
        made = "".join(part.capitalize() for part in method.split("_"))
        return InstructionKind.get(_NAMED.get(method, made))

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

    def draws_as(self, other: Instruction) -> bool:
        """Whether it is the same call, which may draw something else: it gives the same numbers."""
        return bool(self.outputs) and self.outputs is other.outputs

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
        call = self.call(_shown)
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
            elif key not in OPTIONAL or (arg is not None and arg != []):
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


def _shown(x: Any) -> str:
    """An argument without the trace that names it."""
    if isinstance(x, Handle | Var):
        return "_"
    return json.dumps(x) if isinstance(x, str) else repr(x)


def parts_of(arguments: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """The inputs and the attributes among the arguments."""
    inputs: list[Any] = []
    attributes: list[Any] = []
    for key, arg in arguments.items():
        if key in SPREAD:
            inputs.extend(arg)
        elif key == "buffer" and isinstance(arg, tuple):
            side, index = arg
            attributes.extend((index, _SIDES.index(side)))
        elif key != "decision":
            (inputs if key in INPUTS else attributes).append(arg)
    return inputs, attributes


def _arguments(
    kind: InstructionKind, inputs: Sequence[Any], attrs: Sequence[Any]
) -> dict[str, Any]:
    """The arguments by name; what the lists are too short for stays at its default."""
    made: dict[str, Any] = {}
    rest = {True: list(inputs), False: list(attrs)}
    parameters = kind.primitive.signature.parameters if kind.primitive is not None else {}
    for name, parameter in parameters.items():
        given = rest[name in INPUTS]
        if name in SPREAD:
            made[name] = list(given)
            given.clear()
        elif given and name != "decision":
            made[name] = _taken(name, parameter, given)
        elif parameter.default is not Parameter.empty and name != "decision":
            made[name] = parameter.default
    if rest[True] or rest[False]:
        surplus = ", ".join(map(repr, rest[True] + rest[False]))
        raise ScheduleError(f"{kind} is told more than it takes: {surplus}")
    return made


def _taken(name: str, parameter: Parameter, given: list[Any]) -> Any:
    """The next argument of a list; TVM tells a buffer by two numbers and True as 1."""
    first = given.pop(0)
    if name == "buffer" and given and isinstance(first, int) and given[0] in (0, 1):
        return _SIDES[given.pop(0)], first
    is_flag = isinstance(parameter.default, bool) and first in (0, 1)
    return bool(first) if is_flag else first

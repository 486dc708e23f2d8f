"""From a primitive, a function of nodes, to a method of Schedule, a function of handles.

    split = step(primitives.split)          # one line on Schedule

The method takes handles (or names of blocks, or drawn numbers) and gives handles; the primitive
sees the
nodes that they stand for. The call becomes an instruction of the trace, the new program a snapshot.
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from types import FunctionType
from typing import Any

from mlcnb.arith.atoms import variables_of
from mlcnb.core.errors import ScheduleError, StepArgumentError
from mlcnb.core.text import suggestion
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.schedule.record.facts import facts_of
from mlcnb.tir.schedule.record.handles import Handle, Mark, name_of


class Primitive:
    """A primitive and what its signature says of it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = function.__name__
        self.facts = facts_of(self.name)
        self.pure = self.facts.pure
        given = list(inspect.signature(function).parameters.values())[1:]
        self.signature = inspect.Signature(given)
        self.varargs = next((q.name for q in given if q.kind is q.VAR_POSITIONAL), None)
        self.block_parameters = frozenset(q.name for q in given if "Block" in str(q.annotation))
        self.kinds = {q.name: k for q in given if (k := _KINDS.get(str(q.annotation))) is not None}

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, in order, defaults filled in.

        Raises:
            StepArgumentError: they do not fit the signature.
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise self._misfit(str(error), kwargs) from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def _misfit(self, said: str, kwargs: Mapping[str, Any]) -> StepArgumentError:
        """What is wrong with a call that does not fit; `said` is what Python says of it."""
        named = list(self.signature.parameters)
        unknown = next((name for name in kwargs if name not in named), None)
        if unknown is not None:
            near = suggestion(unknown, named)
            said = f"there is no argument {unknown!r}{f': {near}' if near else ''}"
        plain = [q.replace(annotation=q.empty) for q in self.signature.parameters.values()]
        form = f"sch.{self.name}{self.signature.replace(parameters=plain)}"
        return StepArgumentError(f"{self.name}: {said}", hint=form)

    def check(self, nodes: Mapping[str, Any]) -> None:
        """Refuse a block where a loop is wanted, and what is neither.

        Raises:
            ScheduleError: an argument is of the wrong kind.
        """
        for name, (kinds, what, hint) in self.kinds.items():
            for given in nodes[name] if name == self.varargs else (nodes[name],):
                if not isinstance(given, kinds):
                    if name == self.varargs and isinstance(given, list | tuple):
                        hint = f"give them one by one: sch.{self.name}(*{name})"
                    raise ScheduleError(f"{self.name}: {_shown(given)} is no {what}", hint=hint)


def _shown(given: Any) -> str:
    """An argument in a message: a node by its name, a list by theirs."""
    if isinstance(given, list | tuple):
        return f"a {type(given).__name__} ({', '.join(map(_shown, given))})"
    return name_of(given) if isinstance(given, s.For | s.Block | Mark) else reprlib.repr(given)


_GET_LOOPS = 'pass a loop that get_loops gives: i, j = sch.get_loops("C")'
_KINDS: dict[str, tuple[tuple[type, ...], str, str]] = {
    "For": ((s.For,), "loop", _GET_LOOPS),
    "For | Mark": ((s.For, Mark), "loop", _GET_LOOPS),
    "Block": ((s.Block,), "block", "pass a block that get_block gives, or its name"),
    "Block | For": ((s.Block, s.For), "block or loop", "pass what get_block or get_loops gives"),
}


def step(function: Callable[..., Any]) -> Callable[..., Any]:
    """The method of Schedule for a primitive."""
    primitive = Primitive(function)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._do(primitive, primitive.arguments(args, kwargs))

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [own, *primitive.signature.parameters.values()]
    method.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    method.__name__ = primitive.name
    method.__qualname__ = f"Schedule.{primitive.name}"
    method.__doc__ = _described(primitive)
    method.primitive = primitive  # type: ignore[attr-defined]
    return method


def _described(primitive: Primitive) -> str:
    """The text of a primitive, with what all of them refuse."""
    own = inspect.getdoc(primitive.function) or ""
    text = own.replace("    state: the program.\n", "").rstrip()
    if "Raises:" in text:
        return text
    wanted = [f"`{name}` is no {what}" for name, (_, what, _) in primitive.kinds.items()]
    refused = "a handle whose block or loop a step took away"
    if not primitive.pure:
        refused += "; a step that is not legal there, which leaves the program as it was"
    lines = ["", "", "Raises:", f"    ScheduleError: {'; '.join([*wanted, refused])}."]
    return text + "\n".join(lines)


def resolved(value: Any, node: Callable[[Handle], Any], numbers: Mapping[e.Var, int]) -> Any:
    """An argument with handles replaced by nodes and drawn numbers by their values, also in what a
    function of indices gives."""
    if isinstance(value, Handle):
        return node(value)
    if isinstance(value, list | tuple):
        return type(value)(resolved(v, node, numbers) for v in value)
    if isinstance(value, e.PrimExpr) and numbers:
        return _number(value, numbers)
    if isinstance(value, FunctionType) and numbers:
        return _on_numbers(value, numbers)
    return value


def _on_numbers(function: FunctionType, numbers: Mapping[e.Var, int]) -> Callable[..., Any]:
    @wraps(function)
    def with_numbers(*indices: Any, **behind: Any) -> Any:
        return resolved(function(*indices, **behind), lambda handle: handle, numbers)

    return with_numbers


def _number(value: e.PrimExpr, numbers: Mapping[e.Var, int]) -> Any:
    from mlcnb.tir.functor import substitute

    drawn = {v: p.const(numbers[v]) for v in variables_of(value) if v in numbers}
    found = substitute(value, drawn)
    known = p.as_int(found)
    return found if known is None else known


def leaves(value: Any) -> Iterator[Any]:
    """What an argument is made of: lists, tuples and the values of mappings are looked into."""
    if isinstance(value, list | tuple | Mapping):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from leaves(item)
    else:
        yield value

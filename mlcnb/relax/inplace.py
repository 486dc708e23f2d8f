"""Calls that write outputs over their arguments: `inplace_indices`.

R.call_tir_inplace(cls.f, (x, y), out_sinfo=[…, …], inplace_indices=[0, -1])

Output 0 is written over x, output 1 is allocated. Each output has one place, no two have the same.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, TypeVar

from mlcnb.core.errors import ArgumentError
from mlcnb.ir.expr import IntImm
from mlcnb.relax.struct_info import TupleStructInfo

C = TypeVar("C")


def inplace_places(given: Any) -> tuple[Any, ...]:
    """`inplace_indices` as a tuple; one may stand alone."""
    listed = given if isinstance(given, list | tuple) else [given]
    return tuple(int(i) if isinstance(i, Integral | IntImm) else i for i in listed)


def checked_inplace(call: C) -> C:
    """The call, whose outputs each have a place of their own.

    Raises:
        ArgumentError: they have not.
    """
    problem = inplace_problem(call)
    if problem is not None:
        raise ArgumentError(problem, hint="inplace_indices=[0, -1]: output 1 is allocated")
    return call


def inplace_problem(call: Any) -> str | None:
    """What is wrong with the places of a call that writes its outputs over arguments, in words."""
    name = call.op.name.removeprefix("relax.")
    places = getattr(call.attrs, "get", lambda _: None)("inplace_indices")
    if not isinstance(places, tuple) or not all(type(i) is int for i in places):
        return f"{name}: inplace_indices are numbers of arguments, not {places!r}"
    if call.op.name == "relax.call_tir_inplace":
        inputs: Any = getattr(call.args[1], "fields", ())
        outputs = _count(call.sinfo_args[0])
    else:
        inputs, outputs = call.args[1:], None
    if outputs is not None and len(places) != outputs:
        return f"{name}: {len(places)} inplace_indices for {outputs} outputs"
    wrong = next((i for i in places if not -1 <= i < len(inputs)), None)
    if wrong is not None:
        return f"{name}: inplace_indices has {wrong}, there are {len(inputs)} arguments"
    written = [i for i in places if i >= 0]
    if not written:
        return f"{name}: no output is written to an argument: call_tir allocates them all"
    seen: dict[int, int] = {}
    for at in written:
        other = seen.setdefault(id(inputs[at]), at)
        if written.count(at) > 1 or other != at:
            which = f"argument {at}" if other == at else f"arguments {other} and {at}, one value"
            return f"{name}: two outputs are written to {which}"
    return None


def written_over(value: Any) -> Any:
    """The argument that a call writes its one result over; None for any other value."""
    name = getattr(getattr(value, "op", None), "name", "")
    if name not in ("relax.call_tir_inplace", "relax.call_inplace_packed"):
        return None
    places = value.attrs["inplace_indices"]
    if len(places) != 1 or places[0] < 0:
        return None
    inputs = value.args[1].fields if name == "relax.call_tir_inplace" else value.args[1:]
    return inputs[places[0]]


def _count(info: Any) -> int:
    return len(info.fields) if isinstance(info, TupleStructInfo) else 1

"""Index expressions and conditions as isl text.

    i_0 * 4 + i_1             ((i_0)*4 + i_1)
    f // 8, f % 8             floord(f, 8), (f mod 8)
    0 < v and v < n           ((0 < v) and (v < n))

Affine means: sums of variables times numbers, divided by numbers. Anything else raises NotAffine
and names the expression.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mlcnb.core import display
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.schedule.polyhedral.effort import NotAffine

_RESERVED = frozenset(
    "and or not mod floor ceil floord ceild min max exists implies true false infty NaN rat".split()
)
_SUMS: dict[type, str] = {e.Add: "+", e.Sub: "-"}
_EXTREMES: dict[type, str] = {e.Min: "min", e.Max: "max"}
_COMPARISONS: dict[type, str] = {
    e.EQ: "=",
    e.NE: "!=",
    e.LT: "<",
    e.LE: "<=",
    e.GT: ">",
    e.GE: ">=",
}


@dataclass
class Names:
    """What each variable is in isl's text: loops and axes, and the parameters of the function."""

    values: dict[e.Var, str] = field(default_factory=dict)
    parameters: dict[e.Var, str] = field(default_factory=dict)

    def inner(self, values: Mapping[e.Var, str]) -> Names:
        """The names inside a loop or a block; parameters are shared."""
        return Names({**self.values, **values}, self.parameters)

    def value(self, v: e.Var) -> str:
        """The text of a variable."""
        found = self.values.get(v) or self.parameters.get(v)
        if found is None:
            raise NotAffine(f"{v.name} is neither a loop variable nor a size")
        return found

    def declare(self, v: e.Var) -> str:
        """The text of a parameter."""
        if v not in self.parameters:
            self.parameters[v] = fresh(v.name, self.parameters.values(), "n_")
        return self.parameters[v]


def fresh(name: str, taken: object, prefix: str = "") -> str:
    """A name that isl can read and that is not in `taken`."""
    plain = prefix + re.sub(r"\W", "_", name, flags=re.ASCII)  # isl reads no other letters
    plain = f"{plain}_" if plain in _RESERVED or not plain[:1].isalpha() else plain
    plain = plain if plain[:1].isalpha() else f"x{plain}"
    found, count = plain, 1
    while found in taken:  # type: ignore[operator]
        count += 1
        found = f"{plain}_{count}"
    return found


def index(x: e.PrimExpr, names: Names) -> str:
    """An integer expression as isl text.

    Raises:
        NotAffine: it is not affine.
    """
    known = p.as_int(x)
    if known is not None:
        return f"({known})" if known < 0 else str(known)
    if isinstance(x, e.Var):
        return names.value(x)
    if isinstance(x, e.Cast) and x.value.dtype.is_int and x.dtype.bits >= x.value.dtype.bits:
        return index(x.value, names)
    if type(x) in _SUMS:
        return f"({index(x.a, names)} {_SUMS[type(x)]} {index(x.b, names)})"  # type: ignore
    if isinstance(x, e.Mul):
        return _product(x, names)
    if isinstance(x, e.FloorDiv | e.FloorMod):
        return _division(x, names)
    if type(x) in _EXTREMES:
        a, b = index(x.a, names), index(x.b, names)  # type: ignore[attr-defined]
        return f"{_EXTREMES[type(x)]}({a}, {b})"
    raise NotAffine(f"{display.text(x)} is not affine")


def _product(x: e.Mul, names: Names) -> str:
    for factor, rest in ((x.a, x.b), (x.b, x.a)):
        known = p.as_int(factor)
        if known is not None:
            return f"{known}*({index(rest, names)})"
    raise NotAffine(f"{display.text(x)} is not affine: neither factor is a number")


def _division(x: e.FloorDiv | e.FloorMod, names: Names) -> str:
    by = p.as_int(x.b)
    if by is None or by <= 0:
        raise NotAffine(f"{display.text(x)} is not affine: it divides by no positive number")
    inner = index(x.a, names)
    return f"floord({inner}, {by})" if isinstance(x, e.FloorDiv) else f"(({inner}) mod {by})"


def condition(x: e.PrimExpr, names: Names) -> str:
    """A condition as isl text.

    Raises:
        NotAffine: it is not made of affine comparisons.
    """
    known = p.as_int(x)
    if known is not None:
        return "true" if known else "false"
    if isinstance(x, e.And | e.Or):
        word = "and" if isinstance(x, e.And) else "or"
        return f"({condition(x.a, names)} {word} {condition(x.b, names)})"
    if isinstance(x, e.Not):
        return f"(not {condition(x.a, names)})"
    if type(x) in _COMPARISONS and not x.a.dtype.is_float:  # type: ignore[attr-defined]
        a, b = index(x.a, names), index(x.b, names)  # type: ignore[attr-defined]
        return f"({a} {_COMPARISONS[type(x)]} {b})"
    if isinstance(x, e.Call) and x.op == "tir.likely":
        return condition(x.args[0], names)
    raise NotAffine(f"the condition {display.text(x)} is not affine")

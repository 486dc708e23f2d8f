"""Integer expressions and conditions for isl, which decides questions about linear ones exactly.

    (i * 4 + j) // 3            ->   floor((((4 * i) + j))/3)
    i < n and j != 3            ->   (i < n) and (j != 3)
    i * j, A[i], T.floor(x)     no linear term: a fresh variable that may be any number

A question about what was translated is exact where no fresh variable was needed; else it is asked
of a larger set, so that "no such point" is still sure. `Strict` refuses what would need one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

from mlcnb.arith.isl import Undecided
from mlcnb.core import display
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var

_RELATIONS: dict[type, tuple[str, str]] = {
    e.LT: ("<", ">="),
    e.LE: ("<=", ">"),
    e.GT: (">", "<="),
    e.GE: (">=", "<"),
    e.EQ: ("=", "!="),
    e.NE: ("!=", "="),
}


#: remainders of which an exclusive or is said bit by bit
_POWERS = (1, 2, 4, 8, 16, 32)


class NotAffine(Undecided):
    """A program, or a part of it that matters, is not affine; says what."""


class Translator:
    """Writes expressions as isl text; collects the fresh variables and what holds for them."""

    def __init__(self, names: Mapping[Var, str] | None = None) -> None:
        #: variable -> its text: a name, or an expression in brackets
        self.names: dict[Var, str] = dict(names or {})
        self.fresh: list[str] = []
        self.facts: list[str] = []
        #: variables of which no more is known than the facts
        self.loose: set[Var] = set()
        self.exact = True
        #: an exclusive or is said bit by bit, which is exact and takes long; True if there was one
        self.by_bits = self.has_bits = False
        self._kept: list[PrimExpr] = []
        self._known: dict[int, str] = {}
        #: number of lanes -> the lane that is spoken of
        self._lanes: dict[int, str] = {}

    def copy(self) -> Translator:
        """One that knows the same and learns on its own."""
        other = Translator()
        vars(other).update((name, copy(known)) for name, known in vars(self).items())
        return other

    def new(self, x: PrimExpr | None = None) -> str:
        """A fresh variable, needed to say `x`."""
        name = f"x{len(self.fresh)}"
        self.fresh.append(name)
        return name

    def bind(self, var: Var, value: PrimExpr) -> str:
        """Give a variable the value of an expression; one that is not linear stays open."""
        before, self.exact = self.exact, True
        self.names[var] = self.value(value)
        if not self.exact:
            self.loose.add(var)
        self.exact = before
        return self.names[var]

    def unknown(self, x: PrimExpr | None = None) -> str:
        """A fresh variable that may be any number; the same one for the same expression."""
        self.exact = False
        if x is None:
            return self.new()
        if id(x) not in self._known:
            self._kept.append(x)
            self._known[id(x)] = self.new(x)
        return self._known[id(x)]

    # values

    def value(self, x: Any) -> str:
        """An integer expression as isl text."""
        rule = _VALUES.get(type(x))
        found = getattr(self, rule)(x) if rule is not None else None
        return self.unknown(x) if found is None else found

    def variable(self, x: Var) -> str | None:
        """A variable that is named, or one that may be any number."""
        self.exact = self.exact and x not in self.loose
        return self.names.get(x)

    def number(self, x: e.IntImm) -> str:
        """A number."""
        return f"({x.value})" if x.value < 0 else str(x.value)

    def binary(self, x: Any) -> str:
        """A sum, difference, minimum or maximum."""
        a, b = self.value(x.a), self.value(x.b)
        sign = _SIGNS[type(x)]
        return f"({a} {sign} {b})" if sign in "+-" else f"{sign}({a}, {b})"

    def product(self, x: e.Mul) -> str | None:
        """A product, one side of which is a number."""
        for factor, other in ((x.b, x.a), (x.a, x.b)):
            number = _number(factor)
            if number is not None:
                return f"({number} * {self.value(other)})"
        return None

    def floordiv(self, x: e.FloorDiv) -> str | None:
        """A quotient by a number, rounded down."""
        by = _number(x.b)
        return None if not by else _floor(self.value(x.a), by)

    def floormod(self, x: e.FloorMod) -> str | None:
        """The remainder of that quotient."""
        by = _number(x.b)
        if not by:
            return None
        a = self.value(x.a)
        return f"(({a}) mod {by})" if by > 0 else f"(-((-({a})) mod {-by}))"

    def truncated(self, x: Any) -> str | None:
        """C's quotient and remainder, which round towards zero."""
        by = _number(x.b)
        if not by:
            return None
        a = self.value(x.a)
        up, down = (_floor(f"max({side}, 0)", abs(by)) for side in (a, f"-({a})"))
        quotient = f"({up} - {down})" if by > 0 else f"({down} - {up})"
        return quotient if isinstance(x, e.Div) else f"({a} - {by} * {quotient})"

    def cast(self, x: e.Cast) -> str | None:
        """A cast between integers that hold indices changes nothing."""
        wide = ("int32", "int64")
        is_plain = x.dtype in wide and (x.value.dtype in wide or x.value.dtype.is_bool)
        if x.value.dtype.is_bool and is_plain:
            return self.choice(x, x.value, p.const(1), p.const(0))
        return self.value(x.value) if is_plain else None

    def choice(self, x: PrimExpr, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> str:
        """One of two values, which `x` is."""
        found = self.new(x)
        cases = [
            f"({self.condition(condition, holds)} and {found} = {self.value(value)})"
            for holds, value in ((True, yes), (False, no))
        ]
        self.facts.append(f"({' or '.join(cases)})")
        return found

    def select(self, x: e.Select) -> str:
        """See `choice`."""
        return self.choice(x, x.condition, x.true_value, x.false_value)

    def call(self, x: e.Call) -> str | None:
        """`if_then_else`, `likely`, shifts by a number, and what shuffles rows: `a % 8 ^ b % 8`."""
        if x.op == "tir.if_then_else":
            condition, yes, no = x.args
            return self.choice(x, condition, yes, no)
        if x.op == "tir.likely":
            return self.value(x.args[0])
        if x.op == "tir.bitwise_xor":
            return self.exclusive(x)
        by = p.as_int(x.args[1]) if x.op in ("tir.shift_left", "tir.shift_right") else None
        if by is None or not 0 <= by < 31:
            return None
        value = self.value(x.args[0])
        return f"({1 << by} * {value})" if x.op == "tir.shift_left" else _floor(value, 1 << by)

    def exclusive(self, x: e.Call) -> str | None:
        """Two remainders by small powers of two: any number below the larger one, or bit by bit."""
        limits = [_number(a.b) or 0 if isinstance(a, e.FloorMod) else 0 for a in x.args]
        if any(n not in _POWERS for n in limits):
            return None
        if not self.by_bits:
            self.has_bits = True
            found = self.unknown(x)
            self.facts.append(f"0 <= {found} < {max(limits)}")
            return found
        values = [(self.value(a.a), n) for a, n in zip(x.args, limits, strict=True)]  # type: ignore[attr-defined]
        parts = []
        for bit in (1 << n for n in range(max(limits).bit_length() - 1)):
            both = " + ".join(_floor(value, bit) for value, n in values if bit < n)
            parts.append(f"{bit} * (({both}) mod 2)")
        return f"({' + '.join(parts) or '0'})"

    def broadcast(self, x: e.Broadcast) -> str:
        """All lanes are the same."""
        return self.value(x.value)

    def ramp(self, x: e.Ramp) -> str | None:
        """Any of the lanes; the same one wherever there are as many."""
        stride = _number(x.stride)
        if stride is None:
            return None
        if x.lanes not in self._lanes:
            self._lanes[x.lanes] = self.new(x)
            self.facts.append(f"0 <= {self._lanes[x.lanes]} < {x.lanes}")
        lane = self._lanes[x.lanes]
        return f"({self.value(x.base)} + {stride} * {lane})"

    # conditions

    def condition(self, x: Any, holds: bool = True) -> str:
        """A condition (or its negation) as isl text; one that cannot be said may always hold."""
        if type(x) in _RELATIONS and x.a.dtype.is_integer:
            return f"({self.value(x.a)} {_RELATIONS[type(x)][not holds]} {self.value(x.b)})"
        match x:
            case e.And(a, b) | e.Or(a, b):
                word = "and" if isinstance(x, e.And) is holds else "or"
                return f"({self.condition(a, holds)} {word} {self.condition(b, holds)})"
            case e.Not(a):
                return self.condition(a, not holds)
            case e.IntImm(value):
                return "0 = 0" if bool(value) is holds else "0 = 1"
            case e.Call(_, "tir.likely", (inner,)):
                return self.condition(inner, holds)
        return self.anything(x)

    def anything(self, x: PrimExpr) -> str:
        """What is said of a condition that is not linear: it may always hold."""
        self.exact = False
        return "0 = 0"

    def where(self, conditions: list[str]) -> str:
        """`exists x0, x1: …`: the conditions and all that holds for fresh variables."""
        parts = [*conditions, *self.facts]
        told = " and ".join(f"({part})" for part in parts) if parts else "0 = 0"
        return f"exists {', '.join(self.fresh)} : {told}" if self.fresh else told


class Strict(Translator):
    """Writes affine expressions and conditions, and nothing else.

    Raises:
        NotAffine: by all that it writes, for what is no sum of variables times numbers, divided by
            numbers, or no comparison of such.
    """

    def __init__(self, name_of: Callable[[Var], str]) -> None:
        super().__init__()
        self._name_of = name_of

    def variable(self, x: Var) -> str:
        """What the caller calls it."""
        return self._name_of(x)

    def new(self, x: PrimExpr | None = None) -> str:
        """Nothing is open."""
        raise NotAffine(f"{display.text(x)} is not affine")

    def unknown(self, x: PrimExpr | None = None) -> str:
        """No expression is left out."""
        raise NotAffine(f"{display.text(x)} is not affine{_WHY_NOT.get(type(x), '')}")

    def cast(self, x: e.Cast) -> str | None:
        """A cast that every number survives."""
        given = x.value.dtype
        is_wider = given.is_int and x.dtype.is_int and x.dtype.bits >= given.bits
        return self.value(x.value) if is_wider else None

    def broadcast(self, x: e.Broadcast) -> str:
        """A vector is no number."""
        return self.unknown(x)

    def anything(self, x: PrimExpr) -> str:
        """No condition is left out."""
        raise NotAffine(f"the condition {display.text(x)} is not affine")


_WHY_NOT: dict[type, str] = {
    e.Mul: ": neither factor is a number",
    e.FloorDiv: ": it divides by no number",
    e.FloorMod: ": it divides by no number",
}


def _number(x: PrimExpr) -> int | None:
    """A number, or the one in all lanes; None for what is no constant."""
    return p.as_int(x.value if isinstance(x, e.Broadcast) else x)


def _floor(x: str, by: int) -> str:
    return f"floor(({x})/{by})" if by > 0 else f"floor((-({x}))/{-by})"


_SIGNS: dict[type, str] = {e.Add: "+", e.Sub: "-", e.Min: "min", e.Max: "max"}

_VALUES: dict[type, str] = {
    Var: "variable",
    e.SizeVar: "variable",
    e.IntImm: "number",
    **dict.fromkeys(_SIGNS, "binary"),
    e.Mul: "product",
    e.FloorDiv: "floordiv",
    e.FloorMod: "floormod",
    e.Div: "truncated",
    e.Mod: "truncated",
    e.Cast: "cast",
    e.Select: "select",
    e.Call: "call",
    e.Broadcast: "broadcast",
    e.Ramp: "ramp",
}

"""Integer expressions and conditions for isl, which decides questions about linear ones exactly.

    (i * 4 + j) // 3            ->   floor((((4 * i) + j))/3)
    i < n and j != 3            ->   (i < n) and (j != 3)
    i * j, A[i], T.floor(x)     no linear term: a fresh variable that may be any number

A question about what was translated is exact where no fresh variable was needed; else it is asked
of a larger set, so that "no such point" is still sure.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var

T = TypeVar("T")

#: steps that isl may take for one question before it is given up (about a second)
PATIENT = 2_000_000
#: … for one of many questions that are asked of every program
QUICK = 200_000

_RELATIONS: dict[type, tuple[str, str]] = {
    e.LT: ("<", ">="),
    e.LE: ("<=", ">"),
    e.GT: (">", "<="),
    e.GE: (">=", "<"),
    e.EQ: ("=", "!="),
    e.NE: ("!=", "="),
}


_local = threading.local()


def context() -> Any:
    """The isl context of this thread: sets and maps stay in the thread that made them."""
    if not hasattr(_local, "context"):
        import islpy as isl

        _local.context = isl.Context()
    return _local.context


def ask(question: Callable[[], T], effort: int = PATIENT) -> T | None:
    """The answer to a question to isl, None where it takes more steps than `effort`."""
    import islpy as isl

    here = context()
    here.reset_operations()
    here.set_max_operations(effort)
    try:
        return question()
    except isl.Error as error:
        if "maximal number of operations" not in str(error):
            raise
        return None
    finally:
        here.set_max_operations(0)


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
        self._kept: list[PrimExpr] = []
        self._known: dict[int, str] = {}
        #: number of lanes -> the lane that is spoken of
        self._lanes: dict[int, str] = {}

    def copy(self) -> Translator:
        """One that knows the same and learns on its own."""
        other = Translator(self.names)
        other.fresh, other.facts = list(self.fresh), list(self.facts)
        other.loose, other.exact = set(self.loose), self.exact
        other._kept, other._known = list(self._kept), dict(self._known)
        other._lanes = dict(self._lanes)
        return other

    def new(self) -> str:
        """A fresh variable."""
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
            self._known[id(x)] = self.new()
        return self._known[id(x)]

    # values

    def value(self, x: Any) -> str:
        """An integer expression as isl text."""
        rule = _VALUES.get(type(x))
        found = rule(self, x) if rule is not None else None
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
        a, quotient = self.value(x.a), self.new()
        size, up, down = (by, "", "-") if by > 0 else (-by, "-", "")
        self.facts.append(
            f"(({a} >= 0 and {quotient} = {up}floor(({a})/{size})) or "
            f"({a} < 0 and {quotient} = {down}floor((-({a}))/{size})))"
        )
        return quotient if isinstance(x, e.Div) else f"({a} - {by} * {quotient})"

    def cast(self, x: e.Cast) -> str | None:
        """A cast between integers that hold indices changes nothing."""
        wide = ("int32", "int64")
        is_plain = x.dtype in wide and (x.value.dtype in wide or x.value.dtype.is_bool)
        if x.value.dtype.is_bool and is_plain:
            return self.choice(x.value, p.const(1), p.const(0))
        return self.value(x.value) if is_plain else None

    def choice(self, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> str:
        """One of two values."""
        found = self.new()
        cases = [
            f"({self.condition(condition, holds)} and {found} = {self.value(x)})"
            for holds, x in ((True, yes), (False, no))
        ]
        self.facts.append(f"({' or '.join(cases)})")
        return found

    def select(self, x: e.Select) -> str:
        """See `choice`."""
        return self.choice(x.condition, x.true_value, x.false_value)

    def call(self, x: e.Call) -> str | None:
        """`if_then_else`, `likely` and shifts by a number."""
        if x.op == "tir.if_then_else":
            condition, yes, no = x.args
            return self.choice(condition, yes, no)
        if x.op == "tir.likely":
            return self.value(x.args[0])
        by = p.as_int(x.args[1]) if x.op in ("tir.shift_left", "tir.shift_right") else None
        if by is None or not 0 <= by < 31:
            return None
        value = self.value(x.args[0])
        return f"({1 << by} * {value})" if x.op == "tir.shift_left" else _floor(value, 1 << by)

    def broadcast(self, x: e.Broadcast) -> str:
        """All lanes are the same."""
        return self.value(x.value)

    def ramp(self, x: e.Ramp) -> str | None:
        """Any of the lanes; the same one wherever there are as many."""
        stride = _number(x.stride)
        if stride is None:
            return None
        if x.lanes not in self._lanes:
            self._lanes[x.lanes] = self.new()
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
        self.exact = False
        return "0 = 0"

    def where(self, conditions: list[str]) -> str:
        """`exists x0, x1: …`: the conditions and all that holds for fresh variables."""
        parts = [*conditions, *self.facts]
        told = " and ".join(f"({part})" for part in parts) if parts else "0 = 0"
        return f"exists {', '.join(self.fresh)} : {told}" if self.fresh else told


def _number(x: PrimExpr) -> int | None:
    """A number, or the one in all lanes; None for what is no constant."""
    return p.as_int(x.value if isinstance(x, e.Broadcast) else x)


def _floor(x: str, by: int) -> str:
    return f"floor(({x})/{by})" if by > 0 else f"floor((-({x}))/{-by})"


_SIGNS: dict[type, str] = {e.Add: "+", e.Sub: "-", e.Min: "min", e.Max: "max"}

_VALUES: dict[type, Callable[[Translator, Any], str | None]] = {
    Var: Translator.variable,
    e.SizeVar: Translator.variable,
    e.IntImm: Translator.number,
    **dict.fromkeys(_SIGNS, Translator.binary),
    e.Mul: Translator.product,
    e.FloorDiv: Translator.floordiv,
    e.FloorMod: Translator.floormod,
    e.Div: Translator.truncated,
    e.Mod: Translator.truncated,
    e.Cast: Translator.cast,
    e.Select: Translator.select,
    e.Call: Translator.call,
    e.Broadcast: Translator.broadcast,
    e.Ramp: Translator.ramp,
}

"""May an integer of a program leave its dtype while it runs? Then what is proved of it is not so.

for i in range(8):
    A[(i * 1073741824) // 1073741824]      i * 1073741824 is not an int32 from i = 2 on

A proof about indices takes integers for what they are in mathematics; the machine keeps 32 or 64
bits. Here the ends of each expression are computed from the ends of its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.arith.ranges import RULES, Ask
from mlcnb.core.node import children
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.tir import stmt as s
from mlcnb.tir.access.scope import InBlock, InLoop, Named, Scope, parts
from mlcnb.tir.analysis.variables import match_defines
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import heads

Ends = tuple[int, int]
#: sizes of arrays, which memory limits, by the bits of the variable that holds them
_SIZES: dict[int, int] = {32: 1 << 20, 64: 1 << 40}


def may_wrap(func: PrimFunc) -> e.PrimExpr | None:
    """The first expression whose value may be outside of its dtype; None if there is none."""
    ranges = Ranges(func)
    ranges.visit(func.body)
    return ranges.wrapped


def too_far(var: e.Var, first: e.PrimExpr, extent: e.PrimExpr) -> str:
    """What is said of a loop, or a launch, that counts beyond the dtype of its variable."""
    start = "" if p.is_const(first, 0) else f"{first}, "
    return (
        f"{var.name} in range({start}{p.add(first, extent)}): the range leaves {var.dtype}, in "
        f"which {var.name} counts; make the sizes int64"
    )


class Ranges:
    """Walks a function with the ends of its variables."""

    def __init__(self, func: PrimFunc) -> None:
        self.known: dict[e.Var, Ends] = {}
        self.wrapped: e.PrimExpr | None = None
        self.held: dict[e.PrimExpr, bool] = {}
        for buffer in func.buffers:
            for x in match_defines(buffer):
                if not x.dtype.is_handle:
                    self.known[x] = 0, _SIZES.get(x.dtype.bits, x.dtype.max_value)

    def holds(self, x: e.PrimExpr) -> bool:
        """True if nothing in an expression can leave its dtype."""
        if x not in self.held:
            before, self.wrapped = self.wrapped, None
            self.ends(x)
            self.held[x] = self.wrapped is None
            self.wrapped = before
        return self.held[x]

    def enter_loop(self, n: s.For) -> bool:
        """Know the variable of a loop; True if it can hold all that the loop counts."""
        before, self.wrapped = self.wrapped, None
        self.loop(n.loop_var, n.min, n.extent)
        held, self.wrapped = self.wrapped is None, before
        return held

    def visit(self, n: s.Stmt) -> None:
        """Look at a statement, and at those in it."""
        data = n.value if isinstance(n, s.BufferStore | s.Evaluate) else None
        for x in heads(n):
            if x is data:
                self.value(x)
            else:
                self.ends(x)
        for part, scope in parts(n):
            for around in scope.around():
                self.enter(around)
            self.visit(part)

    def enter(self, scope: Scope) -> None:
        """The variables that a scope defines."""
        match scope:
            case InLoop(var=e.Var() as var, domain=e.Range() as domain):
                self.loop(var, domain.min, domain.extent)
            case Named(var=var, value=value):
                self.bind(var, value)
            case InBlock(node=n):
                for axis, value in zip(n.block.iter_vars, n.iter_values, strict=True):
                    self.known[axis.var] = self.ends(value)
                for match in n.block.match_buffers:
                    for bounds in match.source.region:
                        self.ends(bounds.min)
                        self.ends(bounds.extent)

    def value(self, x: Any) -> None:
        """Data, which may wrap; the indices and conditions in it may not."""
        if isinstance(x, BufferLoad):
            self.ends(x)
        elif isinstance(x, e.Call) and x.op == "tir.if_then_else":
            self.ends(x.args[0])
            self.value(x.args[1])
            self.value(x.args[2])
        elif isinstance(x, e.Let):
            self.bind(x.var, x.value)
            self.value(x.body)
        else:
            for child in children(x):
                if isinstance(child, e.PrimExpr):
                    self.value(child)

    def loop(self, var: e.Var, first: e.PrimExpr, extent: e.PrimExpr) -> None:
        """The variable of a loop."""
        (low, high), (_, count) = self.ends(first), self.ends(extent)
        self.known[var] = self.within(var, (low, max(low, high + count - 1)))

    def bind(self, var: e.Var, value: e.PrimExpr) -> None:
        """A name for a value."""
        ends = self.ends(value)
        if var.dtype.is_integer:
            self.known[var] = ends

    def ends(self, x: e.PrimExpr) -> Ends:
        """The lowest and the highest value; of what is no integer, nothing that counts."""
        rule = _RULES.get(type(x))
        if rule is not None and (x.dtype.is_integer or x.dtype.is_bool):
            return self.within(x, rule(self, x))
        if isinstance(x, e.Let):
            self.bind(x.var, x.value)
            return self.ends(x.body)
        for child in children(x):
            if isinstance(child, e.PrimExpr):
                self.ends(child)
        return _all(x.dtype)

    def within(self, x: e.PrimExpr, ends: Ends) -> Ends:
        """The ends, if the dtype holds them."""
        low, high = _all(x.dtype)
        if low <= ends[0] and ends[1] <= high:
            return ends
        if self.wrapped is None:
            self.wrapped = x
        return low, high


def _all(kind: DType) -> Ends:
    if kind.is_bool:
        return 0, 1
    element = kind.element
    return (element.min_value, element.max_value) if element.is_integer else (0, 0)


def _variable(r: Ranges, x: e.Var) -> Ends:
    return r.known.get(x, _all(x.dtype))


def _by_ends(rule: Callable[[Any, Ask], Any]) -> Callable[[Ranges, Any], Ends]:
    return lambda r, x: rule(x, r.ends)


def _either(r: Ranges, x: e.Select) -> Ends:
    r.ends(x.condition)
    return RULES[e.Select](x, r.ends)  # type: ignore[return-value]


def _call(r: Ranges, x: e.Call) -> Ends:
    args = [r.ends(a) for a in x.args if isinstance(a, e.PrimExpr)]
    name = str(x.op).removeprefix("tir.")
    if name == "if_then_else":
        return min(a[0] for a in args[1:]), max(a[1] for a in args[1:])
    if name == "likely":
        return args[0]
    by = p.as_int(x.args[1]) if name in ("shift_left", "shift_right") else None
    if by is not None and 0 <= by < 64:
        low, high = args[0]
        return (low << by, high << by) if name == "shift_left" else (low >> by, high >> by)
    return _all(x.dtype)


def _value(r: Ranges, x: Any) -> Ends:
    if not (x.value.dtype.is_integer or x.value.dtype.is_bool):
        r.ends(x.value)
        return _all(x.dtype)
    return r.ends(x.value)


def _compared(r: Ranges, x: Any) -> Ends:
    for child in children(x):
        if isinstance(child, e.PrimExpr):
            r.ends(child)
    return 0, 1


def _loaded(r: Ranges, x: BufferLoad) -> Ends:
    for part in (*x.indices, x.predicate):
        if part is not None:
            r.ends(part)
    return _all(x.dtype)


_RULES: dict[type, Callable[[Ranges, Any], Ends]] = {
    **{kind: _by_ends(rule) for kind, rule in RULES.items()},
    e.Var: _variable,
    e.SizeVar: _variable,
    e.Select: _either,
    e.Call: _call,
    e.Broadcast: _value,
    e.Cast: _value,
    BufferLoad: _loaded,
    **dict.fromkeys((e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE, e.And, e.Or, e.Not), _compared),
}

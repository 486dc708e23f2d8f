"""Rules of rewriting, written as text.

    x * y + x | y * x + x -> (y + 1) * x        either pattern; `->`: the result is left as it is
    (x + c1) + y => (x + y) + c1                `=>`: the result is simplified again
    x * c1 // c2 -> x // (c2 // c1) if c1 > 0 and c2 > 0 and c2 % c1 == 0
    ~ x < c1 and c2 < x -> 0 if c2 + 1 >= c1    `~`: with the sides of `and` or `or` exchanged, too
    ^ min(x + y, z) - x -> min(y, z - x)        `^`: with min and max exchanged, too
    / x - tdiv(x, c1) * c1 -> tmod(x, c1)       `/`: with `//` and `%` for `tdiv` and `tmod`, too

Names that start with `c` stand for integer constants, all others for anything; a name that occurs
twice stands for two expressions that are written alike. `//` and `%` round down, `tdiv` and `tmod`
towards zero. A condition speaks of the numbers behind the constants, and may ask the simplifier:
`nonneg(x)`, `equal(x, y)`, `less(x, y)`.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from mlcnb.arith.forms import alike
from mlcnb.arith.interval import trunc_divide
from mlcnb.core.groups import grouped
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.folding import FOLDING, NUMBERS

Env = dict[str, Any]
Matcher = Callable[[Any, Env], bool]
Builder = Callable[[Env], Any]

_OPERATORS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "div", ast.Mod: "mod",
    ast.Lt: "lt", ast.LtE: "le", ast.Eq: "eq", ast.NotEq: "ne", ast.Gt: "gt", ast.GtE: "ge",
    ast.And: "both", ast.Or: "either", ast.Not: "not_", ast.USub: "neg",
}  # fmt: skip

_NODES: dict[str, type] = {
    "add": e.Add, "sub": e.Sub, "mul": e.Mul, "div": e.FloorDiv, "mod": e.FloorMod,
    "tdiv": e.Div, "tmod": e.Mod, "min": e.Min, "max": e.Max, "select": e.Select,
    "ramp": e.Ramp, "bcast": e.Broadcast, "lt": e.LT, "le": e.LE, "eq": e.EQ, "ne": e.NE,
    "gt": e.GT, "ge": e.GE, "both": e.And, "either": e.Or, "not_": e.Not,
}  # fmt: skip


def _lanes(x: Any) -> Any:
    """The number of lanes as vectors hold it: an int, or an expression of `vscale`."""
    return x.value if isinstance(x, e.IntImm) else x


class _TooLargeError(Exception):
    """A constant that a rule computes is no number of its dtype."""


def _checked(build: Callable[[Any, Any], Any], compute: Callable[[int, int], int]) -> Any:
    """`build` for what cannot wrap around: a rule that would is not applied."""

    def checked(a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return compute(a, b)
        one, two = (getattr(x, "value", x) for x in (a, b))
        if isinstance(one, int) and isinstance(two, int):
            kind = a.dtype if isinstance(a, PrimExpr) else b.dtype
            if not kind.min_value <= compute(one, two) <= kind.max_value:
                raise _TooLargeError
        return build(a, b)

    return checked


def _negated(x: PrimExpr) -> PrimExpr:
    """not x, as a comparison where it is one."""
    if isinstance(x, e.EQ | e.NE):
        return (e.NE if isinstance(x, e.EQ) else e.EQ)(x.a, x.b)
    return p.logical_not(x)


_BUILD: dict[str, Callable[..., Any]] = {
    **{name: FOLDING[kind] for name, kind in _NODES.items() if kind in FOLDING},
    "add": _checked(p.add, operator.add), "sub": _checked(p.subtract, operator.sub),
    "mul": _checked(p.multiply, operator.mul), "tdiv": p.truncdiv, "tmod": p.truncmod,
    "select": lambda c, a, b: e.Select(c, *p.match_dtypes(a, b)),
    "ramp": lambda base, stride, lanes: e.Ramp(*p.match_dtypes(base, stride), _lanes(lanes)),
    "bcast": lambda value, lanes: e.Broadcast(value, _lanes(lanes)),
    "not_": _negated, "neg": p.neg,
}  # fmt: skip


#: what conditions compute with
_NUMBERS: dict[str, Callable[..., Any]] = {
    **{name: NUMBERS[kind] for name, kind in _NODES.items() if kind in NUMBERS},
    "tdiv": trunc_divide, "neg": operator.neg, "not_": operator.not_,
}  # fmt: skip


class Rule:
    """One rule: `apply` gives the new expression, or None where it does not match."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.again = "=>" in text
        before, after = text.split("=>" if self.again else "->")
        after, _, condition = after.partition(" if ")
        self.before = list(map(_matcher, _alternatives(_parsed(before))))
        self.after = _builder(_parsed(after), _BUILD)
        self.condition = _condition(_parsed(condition)) if condition else None
        self.root = _NODES[_shape(_alternatives(_parsed(before))[0])[0]]

    def apply(self, x: PrimExpr, asked: Any) -> PrimExpr | None:
        """`x` rewritten. asked: answers what conditions ask (see `Rewriter`)."""
        for match in self.before:
            env: Env = {}
            if not match(x, env):
                continue
            try:
                if self.condition is None or self.condition(env, asked):
                    return p.as_expr(self.after(env), x.dtype)
            except _TooLargeError:
                continue
        return None


def _turned(rule: str) -> str:
    """A rule with the two sides of its `and` or `or` exchanged."""
    before, arrow, after = re.split(" (->|=>) ", rule, maxsplit=1)
    left, word, right = re.split(" (and|or) ", before)
    return f"{right} {word} {left} {arrow} {after}"


def exchanged(text: str) -> str:
    """Rules with min and max exchanged: the order of the numbers turned around."""
    return re.sub(r"\b(min|max)\(", lambda m: "max(" if m[1] == "min" else "min(", text)


def _rounding_down(rule: str) -> str:
    """A rule of divisions towards zero as one of those that round down."""
    rule = re.sub(r"\btdiv\(([^()]+), (\w+)\)", r"((\1) // \2)", rule)
    return re.sub(r"\btmod\(([^()]+), (\w+)\)", r"((\1) % \2)", rule)


#: what stands before a rule that holds in another form, too
_MARKS = {"~": _turned, "^": exchanged, "/": _rounding_down}


def rules(text: str) -> list[Rule]:
    """The rules of a table, one a line; a line that is indented goes on."""
    lines = map(str.strip, text.strip("\n").replace("\n    ", " ").splitlines())
    found: list[Rule] = []
    for line in (line for line in lines if line and line[0] != "#"):
        rule = line.lstrip("~^/ ")
        found.append(Rule(rule))
        if line[0] in _MARKS:
            found.append(Rule(_MARKS[line[0]](rule)))
    return found


def by_root(*tables: str) -> dict[type, list[Rule]]:
    """The rules of tables, by the class of expression that they may rewrite."""
    return grouped((rule.root, rule) for table in tables for rule in rules(table))


def _parsed(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


def _alternatives(tree: ast.expr) -> list[ast.expr]:
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.BitOr):
        return [*_alternatives(tree.left), tree.right]
    return [tree]


def _shape(tree: ast.expr) -> tuple[str, list[ast.expr]]:
    """(operation, operands) of a tree that is neither a name nor a number."""
    match tree:
        case ast.BinOp(left, op, right):
            return _OPERATORS[type(op)], [left, right]
        case ast.UnaryOp(op, operand):
            return _OPERATORS[type(op)], [operand]
        case ast.Compare(left, [op], [right]):
            return _OPERATORS[type(op)], [left, right]
        case ast.BoolOp(op, [left, right]):
            return _OPERATORS[type(op)], [left, right]
        case ast.BoolOp(op, [*first, last]):
            return _OPERATORS[type(op)], [ast.BoolOp(op, first), last]
        case ast.Call(ast.Name(name), args):
            return name, args
    raise ValueError(f"no rule is written so: {ast.dump(tree)}")


def _matcher(tree: ast.expr) -> Matcher:
    match tree:
        case ast.Name(name):
            return _constant(name) if name[0] == "c" else _anything(name)
        case ast.Constant(value):
            return lambda x, _env: isinstance(x, e.IntImm) and x.value == value
    name, parts = _shape(tree)
    kind: Any = _NODES[name]
    inner = [_matcher(part) for part in parts]
    fields = ("a", "b") if issubclass(kind, e.BinaryOp | e.CmpOp) else kind.child_fields

    def match(x: Any, env: Env) -> bool:
        if type(x) is not kind:
            return False
        return all(m(getattr(x, f), env) for m, f in zip(inner, fields, strict=True))

    return match


def _constant(name: str) -> Matcher:
    def match(x: Any, env: Env) -> bool:
        if type(x) is not e.IntImm:
            return False
        known = env.setdefault(name, x)
        return known is x or known.value == x.value

    return match


def _anything(name: str) -> Matcher:
    def match(x: Any, env: Env) -> bool:
        known = env.setdefault(name, x)
        return known is x or (known == x if isinstance(x, int) else alike(known, x))

    return match


def _builder(tree: ast.expr, table: dict[str, Callable[..., Any]]) -> Builder:
    match tree:
        case ast.Name(name):
            return lambda env: env[name]
        case ast.Constant(value):
            return lambda _env: value
    name, parts = _shape(tree)
    build, inner = table[name], [_builder(part, table) for part in parts]
    return lambda env: build(*(x(env) for x in inner))


def _condition(tree: ast.expr) -> Callable[[Env, Any], bool]:
    """A condition on the numbers behind constants, and on what can be proved."""
    if isinstance(tree, ast.BoolOp):
        parts = [_condition(value) for value in tree.values]
        join = all if isinstance(tree.op, ast.And) else any
        return lambda env, asked: join(part(env, asked) for part in parts)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id != "tdiv":
        name, args = tree.func.id, [_builder(arg, _BUILD) for arg in tree.args]
        return lambda env, asked: getattr(asked, name)(*(arg(env) for arg in args))
    value = _builder(tree, _NUMBERS)
    return lambda env, _asked: bool(value({k: getattr(v, "value", v) for k, v in env.items()}))


def texts(*tables: str) -> Iterator[str]:
    """The rules of tables as they are written, for tests."""
    for table in tables:
        yield from (rule.text for rule in rules(table))

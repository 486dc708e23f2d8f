"""What PyTorch assumed of sizes as it exported a program: asked for as the model runs.

    L['x'].size()[0] % 3 == 0       x_guard = match_cast(shape(x0 % 3), shape(0))
    L['x'].size()[0] > L['y'][0]…   x_guard = match_cast(shape(select(…, 1, 0)), shape(1))
    math.ceil(L['x']… / 4) != 1     x_guard = match_cast(shape(select(-(-x0 // 4) != 1, 1, 0)), …)

An `if` over a size takes the way that the example took, and PyTorch says for which sizes that is
right. Comparisons of one size with a number are not read here: they are ranges (`symbols`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from mlcnb.core.errors import UnsupportedError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr
from mlcnb.relax.frontend.shared.fractions import NoFraction, fraction
from mlcnb.relax.frontend.torch.numbers import FLOAT, called

#: path of a placeholder -> the tensor's sizes, or the number that it is
Given = Mapping[str, Any]
Pair = tuple[PrimExpr, PrimExpr]
#: makes a whole number of a float64 expression, by the function that is named
Rounding = Callable[[str, PrimExpr], PrimExpr]


def pairs(text: str, given: Given, round_by: Rounding, source: str) -> list[Pair]:
    """What has to be equal where a guard holds; nothing where it always does.

    Raises:
        UnsupportedError: the guard asks for what cannot be asked.
    """
    tree = ast.parse(text, mode="eval").body
    if _is_range(tree):
        return []
    reader = _Reader(given, round_by)
    try:
        if isinstance(tree, ast.Compare) and isinstance(tree.ops[0], ast.Eq):
            a, b = reader.sides(tree.left, tree.comparators[0])
        else:
            a, b = p.select(reader.value(tree), 1, 0), p.const(1)
    except (KeyError, IndexError, TypeError, NoFraction) as error:
        raise UnsupportedError(
            f"{source}: PyTorch exported it for sizes where {text}, which cannot be asked for",
            hint="export with fixed sizes, or without Python's control flow over them",
        ) from error
    a, b = (p.cast("int64", v) for v in (a, b))
    known = p.as_int(a), p.as_int(b)
    return [] if None not in known and known[0] == known[1] else [(a, b)]


def _is_range(tree: ast.expr) -> bool:
    """True for a size compared with a number by an order."""
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
        return False
    ordered = isinstance(tree.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    sides = (tree.left, tree.comparators[0])
    return ordered and any(isinstance(s, ast.Constant) for s in sides) and any(map(_is_size, sides))


def _is_size(tree: ast.expr) -> bool:
    """True for L[…].size()[i]."""
    return (
        isinstance(tree, ast.Subscript)
        and isinstance(tree.value, ast.Call)
        and isinstance(tree.value.func, ast.Attribute)
        and tree.value.func.attr == "size"
    )


def _path(tree: ast.expr) -> str:
    """`x_0` of L['x'][0]: what PyTorch calls the placeholder."""
    parts: list[str] = []
    while isinstance(tree, ast.Subscript):
        parts.append(str(ast.literal_eval(tree.slice)))
        tree = tree.value
    if not (isinstance(tree, ast.Name) and tree.id == "L" and parts):
        raise TypeError(f"{ast.unparse(tree)} is no input")
    return "_".join(reversed(parts))


@dataclass(frozen=True)
class _Reader:
    """Expressions of Python as ours: of sizes, and of float64 that is computed from them."""

    given: Given
    round_by: Rounding

    def value(self, tree: ast.expr) -> Any:
        """An expression.

        Raises:
            KeyError, IndexError, TypeError, NoFraction: it is not translated.
        """
        match tree:
            case ast.Constant(value=float() as number):
                return p.const(number, FLOAT)
            case ast.Constant(value=bool() | int() as number):
                return p.const(number)
            case ast.Subscript(slice=place) if _is_size(tree):
                assert isinstance(tree.value, ast.Call)
                assert isinstance(tree.value.func, ast.Attribute)
                sizes = self.given[_path(tree.value.func.value)]
                return p.as_expr(sizes[ast.literal_eval(place)])
            case ast.Subscript():
                found = self.given[_path(tree)]
                return p.as_expr(found) if isinstance(found, int | PrimExpr) else found[None]
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return p.neg(self.value(x))
            case ast.UnaryOp(op=ast.Not(), operand=x):
                return p.logical_not(self.value(x))
            case ast.BinOp(left=x, op=op, right=y):
                return self.joined(type(op), self.value(x), self.value(y))
            case ast.Compare(left=x, ops=[op], comparators=[y]):
                return _COMPARE[type(op)](*self.sides(x, y))
            case ast.BoolOp(op=op, values=values):
                join = p.all_of if isinstance(op, ast.And) else p.any_of
                return join(*map(self.value, values))
            case ast.Call(func=func, args=args, keywords=[]):
                return self.called(ast.unparse(func), [self.value(a) for a in args])
            case _:
                raise TypeError(f"{ast.unparse(tree)} is not translated")

    def joined(self, op: type, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Arithmetic: a quotient is a float, and so is what is made of one."""
        if op in (ast.Div, ast.Pow) or FLOAT in (a.dtype, b.dtype):
            a, b = p.cast(FLOAT, a), p.cast(FLOAT, b)
        return _BINARY[op](a, b)

    def sides(self, left: ast.expr, right: ast.expr) -> tuple[Any, Any]:
        """What is compared: fractions as their numerators over one denominator."""
        a, b = self.value(left), self.value(right)
        if FLOAT in (a.dtype, b.dtype):
            one, two = fraction(a), fraction(b)
            return p.multiply(one.top, two.bottom), p.multiply(two.top, one.bottom)
        return a, b

    def called(self, name: str, args: list[Any]) -> PrimExpr:
        """A function of Python's or of torch's."""
        if name in _ROUNDED:
            return self.round_by(_ROUNDED[name], p.cast(FLOAT, args[0]))
        if name == "torch.sym_float":
            return p.cast(FLOAT, args[0])
        return _CALLS[name](*args)


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: p.add, ast.Sub: p.subtract, ast.Mult: p.multiply, ast.FloorDiv: p.floordiv,
    ast.Mod: p.floormod, ast.Div: p.div, ast.Pow: lambda a, b: called("pow", a, b),
}  # fmt: skip
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: p.equal, ast.NotEq: p.not_equal, ast.Lt: p.less, ast.LtE: p.less_equal,
    ast.Gt: p.greater, ast.GtE: p.greater_equal,
}  # fmt: skip
_CALLS: dict[str, Callable[..., Any]] = {
    "min": lambda *args: reduce(p.minimum, args), "max": lambda *args: reduce(p.maximum, args),
}  # fmt: skip
_ROUNDED = {
    "math.trunc": "trunc", "math.floor": "floor", "math.ceil": "ceil", "round": "round",
}  # fmt: skip

"""What PyTorch assumed of sizes as it exported a program: asked for as the model runs.

    L['x'].size()[0] % 3 == 0       x_guard = match_cast(shape(x0 % 3), shape(0))
    L['x'].size()[0] > L['y'][0]…   x_guard = match_cast(shape(select(…, 1, 0)), shape(1))

An `if` over a size takes the way that the example took, and PyTorch says for which sizes that is
right. Comparisons of one size with a number are not read here: they are ranges (`symbols`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from mlcnb.core.errors import UnsupportedError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr

#: path of a placeholder -> the tensor's sizes, or the number that it is
Given = Mapping[str, Any]
Pair = tuple[PrimExpr, PrimExpr]


def pairs(text: str, given: Given, source: str) -> list[Pair]:
    """What has to be equal where a guard holds; nothing where it always does.

    Raises:
        UnsupportedError: the guard asks for what cannot be asked.
    """
    tree = ast.parse(text, mode="eval").body
    if _is_range(tree):
        return []
    try:
        if isinstance(tree, ast.Compare) and isinstance(tree.ops[0], ast.Eq):
            a, b = _value(tree.left, given), _value(tree.comparators[0], given)
        else:
            a, b = p.select(_value(tree, given), 1, 0), 1
    except (KeyError, IndexError, TypeError) as error:
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


def _value(tree: ast.expr, given: Given) -> Any:
    """An expression of Python as one of ours.

    Raises:
        KeyError, IndexError, TypeError: it is not translated.
    """
    match tree:
        case ast.Constant(value=bool() | int() as number):
            return p.const(number)
        case ast.Subscript(slice=place) if _is_size(tree):
            assert isinstance(tree.value, ast.Call) and isinstance(tree.value.func, ast.Attribute)
            sizes = given[_path(tree.value.func.value)]
            return p.as_expr(sizes[ast.literal_eval(place)])
        case ast.Subscript():
            found = given[_path(tree)]
            return p.as_expr(found) if isinstance(found, int | PrimExpr) else found[None]
        case ast.UnaryOp(op=ast.USub(), operand=x):
            return p.neg(_value(x, given))
        case ast.UnaryOp(op=ast.Not(), operand=x):
            return p.logical_not(_value(x, given))
        case ast.BinOp(left=x, op=op, right=y):
            return _BINARY[type(op)](_value(x, given), _value(y, given))
        case ast.Compare(left=x, ops=[op], comparators=[y]):
            return _COMPARE[type(op)](_value(x, given), _value(y, given))
        case ast.BoolOp(op=op, values=values):
            join = p.all_of if isinstance(op, ast.And) else p.any_of
            return join(*(_value(v, given) for v in values))
        case ast.Call(func=ast.Name(id=name), args=[x, y], keywords=[]):
            return _CALLS[name](_value(x, given), _value(y, given))
        case _:
            raise TypeError(f"{ast.unparse(tree)} is not translated")


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: p.add, ast.Sub: p.subtract, ast.Mult: p.multiply, ast.FloorDiv: p.floordiv,
    ast.Mod: p.floormod,
}  # fmt: skip
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: p.equal, ast.NotEq: p.not_equal, ast.Lt: p.less, ast.LtE: p.less_equal,
    ast.Gt: p.greater, ast.GtE: p.greater_equal,
}  # fmt: skip
_CALLS: dict[str, Callable[[Any, Any], Any]] = {"min": p.minimum, "max": p.maximum}

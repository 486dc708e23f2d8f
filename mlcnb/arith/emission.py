"""From the normal form back to expressions that read as they were written.

{(i,): 4, (j,): 1} + 3   ->   i * 4 + j + 3
i + min(0, n - i)        ->   min(i, n)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mlcnb.arith.sum import Atom, Sum
from mlcnb.core.node import children
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr

#: a term: coefficient and expression
Term = tuple[int, PrimExpr]


def emit(x: Sum, dtype: DType) -> PrimExpr:
    """`x` as an expression of an integer dtype."""
    for atom, coefficient in x.terms.items():
        if atom.kind == "min":
            return _with_extremum(x, atom, coefficient, dtype)
    return _sum([(c, atom_expr(atom, dtype)) for atom, c in x.terms.items()], x.const, dtype)


def _sum(terms: Iterable[Term], const: int, dtype: DType) -> PrimExpr:
    """The terms in order, a positive one first; the constant last."""
    terms = list(terms)
    total: PrimExpr | None = None
    lead = next((i for i, (c, _) in enumerate(terms) if c > 0), None)
    if lead is not None:
        terms.insert(0, terms.pop(lead))
    elif terms and const > 0:
        total, const = e.IntImm(dtype, const), 0
    for coefficient, factor in terms:
        total = _plus(total, coefficient, factor, dtype)
    if total is None:
        return e.IntImm(dtype, const)
    if const > 0:
        return e.Add(total, e.IntImm(dtype, const))
    return e.Sub(total, e.IntImm(dtype, -const)) if const else total


def _plus(total: PrimExpr | None, coefficient: int, factor: PrimExpr, dtype: DType) -> PrimExpr:
    if total is None:
        return _times(factor, coefficient, dtype)
    term = _times(factor, abs(coefficient), dtype)
    return e.Add(total, term) if coefficient > 0 else e.Sub(total, term)


def _times(factor: PrimExpr, coefficient: int, dtype: DType) -> PrimExpr:
    return factor if coefficient == 1 else e.Mul(factor, e.IntImm(dtype, coefficient))


def atom_expr(atom: Atom, dtype: DType) -> PrimExpr:
    """The expression of an atom; made once."""
    if atom.expr is None:
        atom.expr = _EMIT[atom.kind](atom, dtype)
    return atom.expr


def _product(atom: Atom, dtype: DType) -> PrimExpr:
    result = atom_expr(atom.args[0], dtype)
    for factor in atom.args[1:]:
        result = e.Mul(result, atom_expr(factor, dtype))
    return result


def _split(atom: Atom, dtype: DType) -> PrimExpr:
    inner, lower, upper = atom.args
    result = emit(inner, dtype)
    if upper is not None:
        result = e.FloorMod(result, e.IntImm(dtype, upper))
    return e.FloorDiv(result, e.IntImm(dtype, lower)) if lower != 1 else result


def _division(kind: type) -> Callable[[Atom, DType], PrimExpr]:
    return lambda atom, dtype: kind(emit(atom.args[0], dtype), emit(atom.args[1], dtype))


def _end(kind: type) -> Callable[[Atom, DType], PrimExpr]:
    return lambda atom, dtype: _extremum(kind, [emit(x, dtype) for x in atom.args])


_EMIT: dict[str, Callable[[Atom, DType], PrimExpr]] = {"product": _product, "split": _split}
for _start in ("", "wrapping_"):
    _EMIT |= {
        f"{_start}floordiv": _division(e.FloorDiv),
        f"{_start}floormod": _division(e.FloorMod),
        f"{_start}truncdiv": _division(e.Div),
        f"{_start}truncmod": _division(e.Mod),
        f"{_start}min": _end(e.Min),
        f"{_start}max": _end(e.Max),
    }


def _extremum(build: type, operands: list[PrimExpr]) -> PrimExpr:
    """min or max of the operands, constants last."""
    operands = sorted(operands, key=lambda x: isinstance(x, e.IntImm))
    result = operands[0]
    for x in operands[1:]:
        result = build(result, x)
    return result


def _with_extremum(x: Sum, atom: Atom, factor: int, dtype: DType) -> PrimExpr:
    """rest + k * min(0, d), with that part of rest inside the min that makes it short.

    For k < 0 it is a max.
    """
    rest, args = x.without(atom), atom.args
    size = abs(factor)
    shared = {m for arg in args for m in arg.terms}
    movable = {m: c for m, c in rest.terms.items() if m in shared and c % size == 0}
    cancelling = {m: c for m, c in movable.items() if _cancels(m, c, factor, args)}
    const = rest.const if rest.const % size == 0 and any(arg.const for arg in args) else 0
    parts = [Sum(const, cancelling)]
    if movable.keys() != cancelling.keys():
        parts.append(Sum(const, movable))
    forms = [_around(rest, part, args, factor, dtype) for part in parts]
    return min(forms, key=size_of)


def _around(rest: Sum, inside: Sum, args: tuple[Sum, ...], factor: int, dtype: DType) -> PrimExpr:
    """rest + k * min(0, d), with the terms `inside` in the min."""
    size, sign = abs(factor), 1 if factor > 0 else -1
    part = inside.divided(size)
    operands = [emit(part.plus(arg, sign), dtype) for arg in args]
    extremum = _extremum(e.Min if factor > 0 else e.Max, operands)
    outside = rest.minus(inside)
    if any(atom.kind == "min" for atom in outside.terms):
        return p.add(emit(outside, dtype), _times(extremum, size, dtype))
    terms = [(c, atom_expr(atom, dtype)) for atom, c in outside.terms.items()]
    return _sum([*terms, (size, extremum)], outside.const, dtype)


def _cancels(atom: Atom, coefficient: int, factor: int, args: tuple[Sum, ...]) -> bool:
    return any(arg.terms.get(atom, 0) * factor == -coefficient for arg in args)


def size_of(x: Any) -> int:
    """Number of nodes in an expression."""
    if isinstance(x, e.Var | e.IntImm):
        return 1
    if isinstance(x, e.BinaryOp):
        return 1 + size_of(x.a) + size_of(x.b)
    return 1 + sum(size_of(n) for n in children(x) if isinstance(n, PrimExpr))


def emit_shorter(high: Sum, low: Sum, dtype: DType) -> PrimExpr:
    """high - low, as one sum or as a difference, whichever is shorter."""
    one = emit(high.minus(low), dtype)
    if isinstance(one, e.IntImm):
        return one
    two = p.subtract(emit(high, dtype), emit(low, dtype))
    return one if size_of(one) <= size_of(two) else two

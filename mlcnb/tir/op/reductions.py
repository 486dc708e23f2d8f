"""Reductions over axes of a tensor expression; of two scalars, their combination."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir.stmt import CommReducer, IterVar, Reduce


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """A reduction of your own: `fcombine(x, y)` combines, `fidentity(dtype)` starts.

    The identity and what is combined are cast to the dtype of the expression. That `fcombine` is
    commutative is taken on trust: what is not is refused by rfactor alone, which knows + * min max.

    Both return tuples for a reduction of several values at once; fidentity then gets several dtypes
    and fcombine two tuples. The result is called as `reducer(expr, axis=k)` in a tensor expression
    (with `where=` and `init=`), or as `reducer(a, b)` to combine two scalars.
    """

    def reducer(expr: Any, axis: Any = None, where: Any = None, init: Any = None) -> Any:
        if axis is None:
            raise MLCError(
                f"{name}: the axis to reduce over is missing",
                hint=f'k = te.reduce_axis((0, n), "k"); te.{name}(A[i, k], axis=k)',
            )
        axes = axis if isinstance(axis, list | tuple) else [axis]
        if _all_iter_vars(axes):
            return _reduce(fcombine, fidentity, expr, axes, where, init)
        return fcombine(expr, axis)

    reducer.__name__ = reducer.__qualname__ = name
    reducer.__doc__ = f"""{name} of an expression over reduce axes, or of two scalars.

    The dtype is that of the expression (of two scalars the common one): cast before where it is
    too narrow. `where` says which elements count, `init` what to start from.

    Raises:
        MLCError: when it is put into a `te.compute` as a part of its body, not as the whole.
    """
    return reducer


def _all_iter_vars(axes: Sequence[Any]) -> bool:
    """True where there is at least one axis and each is an IterVar."""
    return len(axes) > 0 and not [a for a in axes if not isinstance(a, IterVar)]


def _reduce(
    fcombine: Callable, fidentity: Callable, expr: Any, axes: Any, where: Any, init: Any
) -> Any:
    several = isinstance(expr, tuple | list)
    sources = tuple(p.as_expr(x) for x in (expr if several else (expr,)))
    kinds = [x.dtype for x in sources]
    lhs = tuple(Var(f"x{i}" if several else "x", kind) for i, kind in enumerate(kinds))
    rhs = tuple(Var(f"y{i}" if several else "y", kind) for i, kind in enumerate(kinds))
    combined = fcombine(lhs, rhs) if several else (fcombine(lhs[0], rhs[0]),)
    identity = fidentity(*kinds) if several else (fidentity(kinds[0]),)
    reducer = CommReducer(lhs, rhs, _of_kinds(combined, kinds), _of_kinds(identity, kinds))
    start = () if init is None else _of_kinds(init if several else (init,), kinds)
    condition = p.const(True) if where is None else p.as_expr(where)
    made = [Reduce(reducer, sources, tuple(axes), condition, i, start) for i in range(len(sources))]
    return tuple(made) if several else made[0]


def _of_kinds(values: Sequence[Any], kinds: Sequence[DType]) -> tuple[PrimExpr, ...]:
    return tuple(p.cast(k, p.as_expr(v, k)) for v, k in zip(values, kinds, strict=True))


def _lowest(kind: DType) -> PrimExpr:
    """What `max` starts from: -inf where the dtype has it."""
    has_infinity = kind.is_float and kind.bits >= 16
    return p.const(-float("inf"), kind) if has_infinity else p.min_value(kind)


def _highest(kind: DType) -> PrimExpr:
    has_infinity = kind.is_float and kind.bits >= 16
    return p.infinity(kind) if has_infinity else p.max_value(kind)


sum = comm_reducer(p.add, lambda kind: p.const(0, kind), "sum")
prod = comm_reducer(p.multiply, lambda kind: p.const(1, kind), "prod")
max = comm_reducer(p.maximum, _lowest, "max")
min = comm_reducer(p.minimum, _highest, "min")
_reduce_all = comm_reducer(p.logical_and, lambda kind: p.const(True, kind), "all")
_reduce_any = comm_reducer(p.logical_or, lambda kind: p.const(False, kind), "any")


def all(*conditions: Any, axis: Any = None) -> Any:
    """All conditions hold; with `axis`, one condition holds everywhere along reduce axes.

    Of dtype bool; without any, true.

    Raises:
        TypeError: more than one condition, and `axis`.
    """
    if axis is not None:
        return _reduce_all(*conditions, axis=axis)
    return p.all_of(*conditions)


def any(*conditions: Any, axis: Any = None) -> Any:
    """One of the conditions holds; with `axis`, one condition holds somewhere along reduce axes.

    Of dtype bool; without any, false.

    Raises:
        TypeError: more than one condition, and `axis`.
    """
    if axis is not None:
        return _reduce_any(*conditions, axis=axis)
    return p.any_of(*conditions)

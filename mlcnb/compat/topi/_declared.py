"""From the declaration of an operator to a function of te tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb import te
from mlcnb.core.errors import MLCError
from mlcnb.ir import prim_ops as p
from mlcnb.relax.operator import declaration


def run(name: str, *args: Any, **attrs: Any) -> Any:
    """What the operator `name` computes of te tensors, shapes and scalars.

    Raises:
        MLCError: the types of its arguments do not fit the operator.
    """
    decl = declaration(f"relax.{name}")
    kinds = list(decl.arguments.values())
    given = [_argument(a, kind) for a, kind in zip(args, kinds, strict=False)]
    given += [None] * (len(kinds) - len(given))
    return decl(**{k: _frozen(v) for k, v in attrs.items()}).compute(*given)


def _argument(value: Any, kind: str) -> Any:
    """A value in the form that `compute` takes it."""
    if value is None or isinstance(value, te.Tensor):
        return value
    if kind == "Tensors":
        return tuple(value)
    if kind.endswith("Shape"):
        dims = value if isinstance(value, tuple | list) else (value,)
        return tuple(p.as_expr(d) for d in dims)
    if kind == "Scalar":
        return p.as_expr(value)
    if kind.endswith("Tensor"):
        return te.compute((), lambda: p.as_expr(value), name="constant")
    raise MLCError(f"topi: {value!r} is no {kind}")


def _frozen(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(_frozen(v) for v in value)
    return int(value) if hasattr(value, "__index__") and not isinstance(value, bool) else value


def unary(name: str) -> Callable[[te.Tensor], te.Tensor]:
    """An operator of one tensor."""

    def apply(x: te.Tensor) -> te.Tensor:
        return run(name, x)

    return _named(apply, name, "of one tensor, elementwise")


def binary(name: str, scalar: Callable[[Any, Any], Any] | None = None) -> Callable[..., Any]:
    """An operator of two tensors with broadcasting; of two scalars `scalar`, an expression, by
    default that of the same name, if there is one.
    """
    scalar = scalar or getattr(p, name, None)

    def apply(lhs: Any, rhs: Any) -> Any:
        if not isinstance(lhs, te.Tensor) and not isinstance(rhs, te.Tensor):
            if scalar is None:
                raise MLCError(f"topi.{apply.__name__} takes a tensor at least")
            return scalar(lhs, rhs)
        kind = lhs.dtype if isinstance(lhs, te.Tensor) else rhs.dtype
        return run(name, *(_like(x, kind) for x in (lhs, rhs)))

    return _named(apply, name, "of two tensors (or a tensor and a number), with broadcasting")


def _like(value: Any, kind: Any) -> Any:
    if isinstance(value, te.Tensor):
        return value
    return te.compute((), lambda: p.as_expr(value, kind), name="constant")


def _named(function: Any, name: str, meaning: str) -> Any:
    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"`{name}` {meaning}."
    return function

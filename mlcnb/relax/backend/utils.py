"""What checks of patterns ask."""

from __future__ import annotations

from typing import Any

from mlcnb.relax.transform.fuse_ops_by_pattern import PatternCheckContext


def has_leaking_intermediate_variables(context: PatternCheckContext) -> bool:
    """Whether something outside of a match uses a value inside of it."""
    inside = context.matched_bindings
    root = context.value_to_bound_var[context.matched_expr]
    return any(
        user not in inside
        for var in inside
        if var is not root
        for user in context.var_usages.get(var, ())
    )


def dtype_of(expr: Any) -> str:
    """The dtype of a value; "" where it is not known."""
    return str(getattr(expr.struct_info, "dtype", None) or "")


def dims_of(expr: Any) -> tuple[Any, ...] | None:
    """The dimensions of a value, or None."""
    found: tuple[Any, ...] | None = getattr(expr.struct_info, "dims", None)
    return found

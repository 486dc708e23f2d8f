"""Purity: which calls have effects, and so may not be removed, merged, moved or fused."""

from __future__ import annotations

from typing import Any

from mlcnb.relax.analysis.variables import bindings_of, result_of
from mlcnb.relax.expr import Call, Expr, Function, Op
from mlcnb.relax.infer import Functions, is_pure_call


def is_impure_op(op: Op) -> bool:
    """True for an operator that is declared with effects or randomness."""
    return not is_pure_call(Call(op, ()))


def has_effects(value: Any, functions: Functions | None = None) -> bool:
    """True for a bound value that does something beside its result (branches looked into)."""
    if isinstance(value, Call):
        return not is_pure_call(value, functions)
    if isinstance(value, Function):
        return False
    branches = (getattr(value, "true_branch", None), getattr(value, "false_branch", None))
    inner = (b for branch in branches if branch is not None for b in bindings_of(branch))
    return any(has_effects(b.value, functions) for b in inner)


def contains_impure_call(
    expr: Expr | Function, own_name: Any = None, functions: Functions | None = None
) -> bool:
    """True if a function or sequence makes a call with effects (local functions are left out).

    Args:
        expr: a Function, or a sequence of bindings.
        own_name: the function's own variable or GlobalVar: a recursive call does not count.
        functions: what GlobalVars name.
    """
    values = [b.value for b in bindings_of(expr)]
    if isinstance(expr, Function):
        values.append(result_of(expr))
    return any(_impure(v, own_name, functions) for v in values)


def _impure(value: Any, own_name: Any, functions: Functions | None) -> bool:
    own = isinstance(value, Call) and own_name is not None and value.op == own_name
    return not own and has_effects(value, functions)

"""Gradients of operators: from what comes back for a result to what goes back to its arguments.

z = R.multiply(x, y)                  x's share: z_adjoint * y        y's share: z_adjoint * x

A rule is `rule(var, call, grad, builder) -> [share of each argument]`, TVM's FPrimalGradient: `var`
is bound to `call`, `grad` is of var's shape and dtype, a share is an expression of its argument's
shape, or None (or R.grad.no_grad(x)) where nothing goes back. The operators in a share have rules
themselves. Each is tested against differences of values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlcnb.core.errors import UnsupportedOpError
from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import tell, tidy
from mlcnb.op._spell import Formula
from mlcnb.op._sugar import sugar
from mlcnb.op.grad.marks import NoGrad
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import same_dims
from mlcnb.relax.expr import Call, Expr, Var, const
from mlcnb.relax.operator import attrs_of, called, declaration

Rule = Callable[[Var, Call, Any, Any], Sequence[Any]]

_RULES: dict[str, Rule] = {}
#: te_grad_name -> its function
te_gradients: dict[str, Callable[..., Any]] = {}


@sugar("register_gradient")
def register_gradient(
    op_name: str, fgradient: Rule | None = None, level: int = 10
) -> Callable[[Rule], Rule] | Rule:
    """Say the gradient of an operator, as a call or as a decorator; what was said before goes.

    Args:
        op_name: "relax.sin".
        fgradient: (var, call, grad, builder) -> one share for each argument, as this file says.
        level: as TVM's; the last one counts.

    Raises:
        UnsupportedOpError: no operator of that name is declared.
    """
    declaration(op_name)

    def register(rule: Rule) -> Rule:
        _RULES[op_name] = rule
        return rule

    return register if fgradient is None else register(fgradient)


def differentiable() -> tuple[str, ...]:
    """The names of the operators that have a gradient, sorted."""
    return tuple(sorted(_RULES))


_HINT = (
    "say it with relax.op.register_gradient, write it in operators that have one "
    "(DecomposeOpsForTraining does for norms), or leave out of require_grads what it reads"
)
_HINTS = {"call_tir": "call_tir_with_grad names a gradient, or Gradient comes before LegalizeOps"}


def shares(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """What goes back to each argument of `call`, which is bound to `var`; None: nothing.

    Raises:
        UnsupportedOpError: the operator has no gradient.
    """
    rule = _RULES.get(getattr(call.op, "name", ""))
    if rule is None:
        name = getattr(call.op, "name", "this call").removeprefix("relax.")
        raise UnsupportedOpError(
            f"{var.name_hint}: {name} has no gradient",
            where=call,
            hint=_HINTS.get(name, _HINT),
        )
    found = list(rule(var, call, grad, builder))
    return [None if called(share) is NoGrad else share for share in found]


def register_te_gradient(
    te_grad_name: str, te_grad_func: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Say the gradient of `call_tir_with_grad(…, te_grad_name=…)`, as a call or as a decorator.

    te_grad_func: (output_grad, *tensors of the call, **te_grad_kwargs), all of them te tensors but
    the last, to one te tensor for each of the call's tensors, of its shape and dtype.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        te_gradients[te_grad_name] = function
        return function

    return register if te_grad_func is None else register(te_grad_func)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Decorator: the gradient of the operators of these names, without their "relax."."""

    def register(made: Rule) -> Rule:
        _RULES.update({f"relax.{name}": made for name in names})
        return made

    return register


# what rules have in common


def number(value: float, like: Any) -> Expr:
    """A constant without dimensions, of another value's dtype."""
    return const(value, str(like.struct_info.dtype))


def dims_of(x: Any, call: Call) -> tuple[Any, ...]:
    """The dimensions of a value.

    Raises:
        UnsupportedOpError: they are not known.
    """
    dims: tuple[Any, ...] | None = x.struct_info.dims
    if dims is None:
        raise UnsupportedOpError(
            f"{name_of(call)}: the gradient asks for the shape of {tell(x.struct_info)}",
            where=call,
            hint="R.match_cast says it",
        )
    return dims


def known(dim: Any, call: Call) -> int:
    """A dimension as a number.

    Raises:
        UnsupportedOpError: it is symbolic.
    """
    size = as_int(tidy(dim))
    if size is None:
        raise UnsupportedOpError(
            f"{name_of(call)}: the gradient divides by a size that is not known, {dim}",
            where=call,
            hint="bind it first: BindSymbolicVars",
        )
    return size


def name_of(call: Call) -> str:
    """The operator's name, as text has it."""
    name: str = declaration(call.op).sugar
    return name


def fitted(share: Any, dims: Sequence[Any], x: Any, call: Call) -> Any:
    """A share of shape `dims`, summed to the shape of the argument that was broadcast to it."""
    wanted = dims_of(x, call)
    same = len(dims) == len(wanted) and same_dims(tuple(dims), wanted)
    return share if same else op.collapse_sum_to(share, wanted)


def axes_of(call: Call) -> tuple[int, ...] | None:
    """The axes of a reduction; None: all."""
    axis = attrs_of(call).axis  # type: ignore[attr-defined]
    return None if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)


def with_axes(call: Call, grad: Any) -> Any:
    """`grad` with the dimensions that a reduction took away."""
    axes = axes_of(call)
    if attrs_of(call).keepdims or not axes:  # type: ignore[attr-defined]
        return grad
    return op.expand_dims(grad, axis=list(axes))


def untaken(grad: Any, axis: int, places: Sequence[int], size: int, builder: Any) -> Any:
    """What take(x, places, axis) gives back to an x of so many along the axis, bound; `grad`
    itself where all were taken in order.
    """
    if list(places) == list(range(size)):
        return grad
    whole = list(grad.struct_info.dims)
    whole[axis] = size
    zeros = builder.emit(op.zeros(whole, str(grad.struct_info.dtype)))
    at = const(np.array(places, dtype="int64"))
    return builder.emit(op.grad.take_backward(grad, zeros, at, axis=axis))


class _Flat:
    """Emits calls whose arguments are bound, and keeps them in order; for `Formula`."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.made: dict[Any, Call] = {}

    def emit(self, value: Any) -> Any:
        """Bind one call."""
        var = self.builder.emit(value)
        self.made[var] = value
        return var


def through(
    call: Call, grad: Any, builder: Any, formula: Callable[[Formula, Call], Any]
) -> list[Any]:
    """The shares of a call whose meaning is a formula of tensors: back through its calls.

    formula: makes the call's result of its arguments; no call of it gives or takes a tuple.
    """
    flat = _Flat(builder)
    as_node: Any = flat  # all that a formula asks of the node that it spells is `emit`
    adjoints = {formula(Formula(as_node), call): grad}
    for var, made in reversed(flat.made.items()):
        if var not in adjoints:
            continue
        for arg, share in zip(made.args, shares(var, made, adjoints[var], builder), strict=True):
            if share is not None and isinstance(arg, Var):
                so_far = adjoints.get(arg)
                adjoints[arg] = builder.emit(share if so_far is None else op.add(so_far, share))
    given = list(call.args)
    firsts = [x not in given[:i] for i, x in enumerate(given)]
    return [adjoints.get(x) if first else None for x, first in zip(given, firsts, strict=True)]

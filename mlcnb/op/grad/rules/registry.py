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

from mlcnb.core.errors import UnsupportedOpError
from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import tell, tidy
from mlcnb.op._sugar import sugar
from mlcnb.op.grad.marks import NoGrad
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import same_dims
from mlcnb.relax.expr import Call, Expr, Var, const
from mlcnb.relax.operator import called, declaration

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

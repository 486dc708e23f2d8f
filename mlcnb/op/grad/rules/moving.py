"""Gradients of reductions and of what moves elements: each goes back to where it came from."""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import UnsupportedOpError
from mlcnb.op._dims import product, tell
from mlcnb.op.grad.rules.registry import dims_of, known, name_of, number, rule
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Var
from mlcnb.relax.operator import attrs_of


def _axes(call: Call) -> tuple[int, ...] | None:
    axis = attrs_of(call).axis  # type: ignore[attr-defined]
    return None if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)


def _back(call: Call, grad: Any) -> Any:
    """`grad` with the dimensions that a reduction took away."""
    axes = _axes(call)
    if attrs_of(call).keepdims or not axes:  # type: ignore[attr-defined]
        return grad
    return op.expand_dims(grad, axis=list(axes))


def _count(call: Call) -> int:
    """How many elements one of the result is made of."""
    dims, axes = dims_of(call.args[0], call), _axes(call)
    return known(product(dims if axes is None else [dims[a] for a in axes]), call)


@rule("sum")
def _sum(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    return [op.broadcast_to(_back(call, grad), dims_of(call.args[0], call))]


@rule("mean")
def _mean(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    each = grad / number(_count(call), grad)
    return [op.broadcast_to(_back(call, each), dims_of(call.args[0], call))]


@rule("variance")
def _variance(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """2 / n (x - mean)"""
    x, n = call.args[0], _count(call)
    mean = op.mean(x, axis=_axes(call), keepdims=True)
    return [_back(call, grad) * (number(2 / n, x) * (x - mean))]


@rule("max", "min")
def _extreme(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """Shared by all that are the extreme, as PyTorch's amax."""
    x = call.args[0]
    hit = op.astype(op.equal(x, _back(call, var)), str(grad.struct_info.dtype))
    hit = builder.emit(hit)
    return [_back(call, grad) * hit / op.sum(hit, axis=_axes(call), keepdims=True)]


@rule("cumsum")
def _cumsum(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """The sums from behind: all of them, less those from the front."""
    x, attrs = call.args[0], attrs_of(call)
    axis: Any = attrs.axis  # type: ignore[attr-defined]
    if attrs.exclusive:  # type: ignore[attr-defined]
        raise UnsupportedOpError(
            f"{name_of(call)}: the exclusive form has no gradient",
            where=call,
            hint="subtract the operand from the inclusive one",
        )
    whole = op.sum(grad, axis=axis, keepdims=axis is not None)
    if axis is None:
        back = op.reshape(whole - op.cumsum(grad) + op.flatten(grad), dims_of(x, call))
    else:
        back = whole - op.cumsum(grad, axis=axis) + grad
    kind = x.struct_info.dtype
    return [back if grad.struct_info.dtype == kind else op.astype(back, str(kind))]


@rule("permute_dims")
def _permute_dims(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    axes = attrs_of(call).axes  # type: ignore[attr-defined]
    if not axes:
        return [op.permute_dims(grad)]
    order = [a % len(axes) for a in axes]
    return [op.permute_dims(grad, axes=[order.index(i) for i in range(len(order))])]


#: what takes a shape -> what brings the share to that of its operand
_BACK = {"reshape": "reshape", "broadcast_to": "collapse_sum_to", "collapse_sum_to": "broadcast_to"}


@rule(*_BACK)
def _shaped(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    back = getattr(op, _BACK[name_of(call)])
    return [back(grad, dims_of(call.args[0], call)), None]


@rule("flatten", "squeeze", "nn.batch_flatten")
def _reshaped(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    return [op.reshape(grad, dims_of(call.args[0], call))]


@rule("expand_dims")
def _expand_dims(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    axis = attrs_of(call).axis  # type: ignore[attr-defined]
    return [op.squeeze(grad, axis=[axis] if isinstance(axis, int) else list(axis))]


@rule("concat")
def _concat(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    axis = attrs_of(call).axis  # type: ignore[attr-defined]
    if axis is None:
        raise UnsupportedOpError(
            f"{name_of(call)}: without an axis it has no gradient", where=call, hint="flatten first"
        )
    ends, end = [], 0
    for info in call.args[0].struct_info.fields[:-1]:
        if info.dims is None:
            raise UnsupportedOpError(
                f"{name_of(call)}: the gradient asks for the shape of {tell(info)}", where=call
            )
        end += known(info.dims[axis], call)
        ends.append(end)
    if not ends:
        return [builder.emit(op.split(grad, 1, axis=axis))]
    return [op.split(grad, ends, axis=axis)]


@rule("split")
def _split(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    return [op.concat(grad, axis=attrs_of(call).axis)]  # type: ignore[attr-defined]


@rule("take")
def _take(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    x, indices = call.args
    axis = attrs_of(call).axis  # type: ignore[attr-defined]
    return [op.grad.take_backward(grad, x, indices, axis=axis), None]

"""Gradients of reductions and of what moves elements: each goes back to where it came from."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.core.errors import UnsupportedOpError
from mlcnb.op._dims import product, tell
from mlcnb.op.grad.rules.registry import dims_of, known, name_of, number, rule
from mlcnb.relax import op
from mlcnb.relax.expr import Call, ShapeExpr, Tuple, TupleGetItem, Var, const
from mlcnb.relax.operator import attrs_of, call_arguments


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


@rule("stack")
def _stack(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    at: Any = attrs_of(call)
    axis, count = at.axis, len(call.args[0].struct_info.fields)
    parts = builder.emit(op.split(grad, count, axis=axis))
    parts = [builder.emit(TupleGetItem(parts, i)) for i in range(count)] if count > 1 else [grad]
    return [Tuple(tuple(builder.emit(op.squeeze(part, axis=[axis])) for part in parts))]


@rule("flip")
def _flip(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    at: Any = attrs_of(call)
    return [op.flip(grad, axis=at.axis)]


@rule("tile")
def _tile(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """All copies of an element added up: they lie along axes of their own."""
    dims = dims_of(call.args[0], call)
    at: Any = attrs_of(call)
    times = (at.repeats,) if isinstance(at.repeats, int) else tuple(at.repeats)
    ndim = max(len(times), len(dims))
    times = (1,) * (ndim - len(times)) + times
    pairs = zip(times, (1,) * (ndim - len(dims)) + tuple(dims), strict=True)
    apart = op.reshape(grad, [size for pair in pairs for size in pair])
    return [op.reshape(op.sum(apart, axis=list(range(0, 2 * ndim, 2))), dims)]


@rule("repeat")
def _repeat(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    dims = dims_of(call.args[0], call)
    at: Any = attrs_of(call)
    many, axis = at.repeats, at.axis
    if axis is None:
        return [op.reshape(op.sum(op.reshape(grad, (-1, many)), axis=[1]), dims)]
    axis %= len(dims)
    apart = op.reshape(grad, [*dims[: axis + 1], many, *dims[axis + 1 :]])
    return [op.sum(apart, axis=[axis + 1])]


@rule("nn.pad")
def _pad(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """What was added is cut off, and where something was cut off stand zeros."""
    at: Any = attrs_of(call)
    if at.pad_mode != "constant":
        raise UnsupportedOpError(
            f"{name_of(call)}: only padding with a constant has a gradient, this is "
            f"{at.pad_mode!r}",
            where=call,
            hint="take(x, indices) along each axis says the same, and has one",
        )
    return [op.nn.pad(grad, [-width for width in at.pad_width])]


@rule("strided_slice")
def _strided_slice(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """As if it had taken the indices along one axis after the other."""
    x, axes, begin, end, *strides = call_arguments(call)
    dims = [known(size, call) for size in dims_of(x, call)]
    numbers = [_numbers(part, call) for part in (axes, begin, end)]
    steps = _numbers(strides[0], call) if strides and strides[0] is not None else ()
    cuts = zip(*numbers, steps or (1,) * len(numbers[0]), strict=True)
    taken = {a % len(dims): range(dims[a])[slice(low, high, step)] for a, low, high, step in cuts}
    shape = [len(taken.get(a, range(size))) for a, size in enumerate(dims)]
    for axis, places in taken.items():
        shape[axis] = dims[axis]
        if places != range(dims[axis]):
            whole = op.zeros(shape, str(grad.struct_info.dtype))
            at = const(np.array(places, dtype="int64"))
            grad = builder.emit(op.grad.take_backward(grad, builder.emit(whole), at, axis=axis))
    return [grad, *[None] * len(call.args[1:])]


def _numbers(part: Any, call: Call) -> tuple[int, ...]:
    """The numbers of a shape, or of a tuple of them."""
    values = part.values if isinstance(part, ShapeExpr) else [x.value for x in part.fields]
    return tuple(known(value, call) for value in values)


@rule("gather_elements")
def _gather_elements(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    x, indices = call.args
    at: Any = attrs_of(call)
    zeros = builder.emit(op.zeros_like(x))
    return [op.scatter_elements(zeros, indices, grad, axis=at.axis, reduction="add"), None]


@rule("take")
def _take(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    x, indices = call.args
    axis = attrs_of(call).axis  # type: ignore[attr-defined]
    return [op.grad.take_backward(grad, x, indices, axis=axis), None]

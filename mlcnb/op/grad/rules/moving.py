"""Gradients of reductions and of what moves elements: each goes back to where it came from."""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import UnsupportedOpError
from mlcnb.op._dims import product, tell
from mlcnb.op.grad.rules.registry import axes_of, dims_of, known, name_of, number, rule, with_axes
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Tuple, TupleGetItem, Var
from mlcnb.relax.operator import attrs_of


def _count(call: Call) -> int:
    """How many elements one of the result is made of."""
    dims, axes = dims_of(call.args[0], call), axes_of(call)
    return known(product(dims if axes is None else [dims[a] for a in axes]), call)


@rule("sum")
def _sum(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    return [op.broadcast_to(with_axes(call, grad), dims_of(call.args[0], call))]


@rule("mean")
def _mean(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    each = grad / number(_count(call), grad)
    return [op.broadcast_to(with_axes(call, each), dims_of(call.args[0], call))]


@rule("variance")
def _variance(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """2 / n (x - mean)"""
    x, n = call.args[0], _count(call)
    mean = op.mean(x, axis=axes_of(call), keepdims=True)
    return [with_axes(call, grad) * (number(2 / n, x) * (x - mean))]


@rule("std")
def _std(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """(x - mean) / (n deviation); nothing where all are one number."""
    x, n = call.args[0], _count(call)
    deviation = builder.emit(with_axes(call, var) * number(n, x))
    zero = number(0, deviation)
    each = op.where(op.equal(deviation, zero), zero, with_axes(call, grad) / deviation)
    return [builder.emit(each) * (x - op.mean(x, axis=axes_of(call), keepdims=True))]


@rule("max", "min")
def _extreme(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """Shared by all that are the extreme, as PyTorch's amax."""
    x = call.args[0]
    hit = op.astype(op.equal(x, with_axes(call, var)), str(grad.struct_info.dtype))
    hit = builder.emit(hit)
    return [with_axes(call, grad) * hit / op.sum(hit, axis=axes_of(call), keepdims=True)]


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


@rule("reverse_sequence")
def _reverse_sequence(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """In reverse once more."""
    return [Call(call.op, (grad, *call.args[1:]), call.attrs), *[None] * len(call.args[1:])]


@rule("meshgrid")
def _meshgrid(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """To each what comes back along its dimension."""
    count = len(call.args[0].struct_info.fields)
    order = attrs_of(call).order(count)  # type: ignore[attr-defined]
    parts = [builder.emit(TupleGetItem(grad, i)) for i in range(count)]
    totals = (
        op.sum(p, axis=[a for a in range(count) if a != order[i]]) for i, p in enumerate(parts)
    )
    shares = [builder.emit(total if count > 1 else parts[0]) for total in totals]
    fields = zip(shares, call.args[0].struct_info.fields, strict=True)
    return [Tuple(tuple(builder.emit(op.reshape(s, f.dims)) for s, f in fields))]


@rule("nn.pixel_shuffle")
def _pixel_shuffle(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    n, channels, height, width = dims_of(call.args[0], call)
    r: int = attrs_of(call).upscale_factor  # type: ignore[attr-defined]
    apart = op.reshape(grad, (n, channels // (r * r), height, r, width, r))
    together = op.permute_dims(apart, axes=[0, 1, 3, 5, 2, 4])
    return [op.reshape(together, (n, channels, height, width))]


@rule("collapse_sum_like")
def _collapse_sum_like(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    return [op.broadcast_to(grad, dims_of(call.args[0], call)), None]

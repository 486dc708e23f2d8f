"""Gradients of what reads or writes at places that are told: each goes back to where it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb.core.errors import UnsupportedOpError
from mlcnb.op._dims import product
from mlcnb.op.grad.rules.registry import dims_of, known, name_of, number, rule, untaken
from mlcnb.op.manipulate.pad import ends_of
from mlcnb.relax import op
from mlcnb.relax.expr import Call, PrimValue, ShapeExpr, Var, const
from mlcnb.relax.operator import attrs_of, call_arguments


@rule("nn.pad")
def _pad(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """What was added is cut off, or added to what it repeats; where was cut off stand zeros."""
    at: Any = attrs_of(call)
    if at.pad_mode == "constant":
        return [op.nn.pad(grad, [-width for width in at.pad_width])]
    dims = dims_of(call.args[0], call)
    for axis, (before, after) in enumerate(at.widths()):
        if before or after:
            size = known(dims[axis], call)
            kept = np.arange(size)[slice(*ends_of(size, before, after))]
            places = np.pad(kept, (max(before, 0), max(after, 0)), mode=at.pad_mode)
            grad = untaken(grad, axis, places.tolist(), size, builder)
    return [grad]


@rule("strided_slice")
def _strided_slice(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """As if it had taken the indices along one axis after the other."""
    x, axes, begin, end, *strides = call_arguments(call)
    dims = [known(size, call) for size in dims_of(x, call)]
    numbers = [_numbers(part, call) for part in (axes, begin, end)]
    steps = _numbers(strides[0], call) if strides and strides[0] is not None else ()
    cuts = zip(*numbers, steps or (1,) * len(numbers[0]), strict=True)
    taken = {a % len(dims): range(dims[a])[slice(low, high, step)] for a, low, high, step in cuts}
    for axis, places in taken.items():
        grad = untaken(grad, axis, places, dims[axis], builder)
    return [grad, *[None] * len(call.args[1:])]


def _numbers(part: Any, call: Call) -> tuple[int, ...]:
    """The numbers of a shape, or of a tuple of them."""
    values = part.values if isinstance(part, ShapeExpr) else [x.value for x in part.fields]
    return tuple(known(value, call) for value in values)


@rule("take")
def _take(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    x, indices = call.args
    axis = attrs_of(call).axis  # type: ignore[attr-defined]
    return [op.grad.take_backward(grad, x, indices, axis=axis), None]


@rule("gather_elements")
def _gather_elements(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    x, indices = call.args
    at: Any = attrs_of(call)
    zeros = builder.emit(op.zeros_like(x))
    return [op.scatter_elements(zeros, indices, grad, axis=at.axis, reduction="add"), None]


@rule("gather_nd")
def _gather_nd(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """Rows that are gone through together are named by an index of their own."""
    x, indices = call.args
    batch: int = attrs_of(call).batch_dims  # type: ignore[attr-defined]
    if batch:
        lead = [known(d, call) for d in dims_of(indices, call)[:-1]]
        kind = str(indices.struct_info.dtype)
        own = np.moveaxis(np.indices(lead)[:batch], 0, -1).astype(kind)
        indices = builder.emit(op.concat([const(own), indices], axis=-1))
    zeros = builder.emit(op.zeros_like(x))
    return [op.scatter_nd(zeros, indices, grad, reduction="add"), None]


@rule("index_tensor")
def _index_tensor(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    x, indices = call.args
    zeros = builder.emit(op.zeros_like(x))
    return [op.index_put(zeros, indices, grad, accumulate=True), None]


#: x with updates at places of its own, combined as the last argument says; and what stands there
Put = Callable[[Any, Any, str], Any]
Get = Callable[[Any], Any]


@rule("scatter_elements")
def _scatter_elements(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    x, indices, updates = call.args
    at: Any = attrs_of(call)
    scatter = _Scatter(
        call,
        builder,
        lambda x, u, how: op.scatter_elements(x, indices, u, axis=at.axis, reduction=how),
        lambda x: op.gather_elements(x, indices, axis=at.axis),
    )
    of_x, of_updates = scatter.shares(at.reduction, x, updates, var, grad)
    return [of_x, None, of_updates]


@rule("scatter_nd")
def _scatter_nd(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    x, indices, updates = call.args
    scatter = _Scatter(
        call,
        builder,
        lambda x, u, how: op.scatter_nd(x, indices, u, reduction=how),
        lambda x: op.gather_nd(x, indices),
    )
    how: str = attrs_of(call).reduction  # type: ignore[attr-defined]
    of_x, of_updates = scatter.shares(how, x, updates, var, grad)
    return [of_x, None, of_updates]


@rule("index_put")
def _index_put(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """The values are broadcast first."""
    x, indices, values = call.args
    scatter = _Scatter(
        call,
        builder,
        lambda x, u, how: op.index_put(x, indices, u, accumulate=how == "add"),
        lambda x: op.index_tensor(x, indices),
    )
    shape = dims_of(builder.emit(scatter.get(x)), call)
    spread = builder.emit(op.broadcast_to(values, shape))
    how = "add" if attrs_of(call).accumulate else "update"  # type: ignore[attr-defined]
    of_x, of_values = scatter.shares(how, x, spread, var, grad)
    return [of_x, None, op.collapse_sum_to(of_values, dims_of(values, call))]


class _Scatter:
    """How updates are put to places, and how what stands there is read."""

    def __init__(self, call: Call, builder: Any, put: Put, get: Get) -> None:
        self.call, self.emit = call, builder.emit
        self.put: Put = lambda x, u, how: self.emit(put(self.emit(x), self.emit(u), how))
        self.get: Get = lambda x: self.emit(get(self.emit(x)))

    def shares(self, how: str, x: Any, updates: Any, var: Any, grad: Any) -> tuple[Any, Any]:
        """Of what was written to, and of what was written."""
        if how == "update":
            zeros = op.zeros_like(updates)
            last = self.emit(self.is_last(x, updates))
            return self.put(grad, zeros, how), op.where(last, self.get(grad), number(0, grad))
        if how == "add":
            return grad, self.get(grad)
        if how == "mul":
            return self.of_products(x, updates, var, grad)
        return self.of_extremes(x, updates, var, grad)

    def is_last(self, x: Any, updates: Any) -> Any:
        """Whether an update is there at the end: the last of those to one place."""
        dims = [known(d, self.call) for d in dims_of(updates, self.call)]
        order = const(np.arange(product(dims), dtype="int64").reshape(dims))
        nothing = op.zeros(dims_of(x, self.call), "int64")
        return op.equal(self.get(self.put(nothing, order, "update")), order)

    def of_products(self, x: Any, updates: Any, var: Any, grad: Any) -> tuple[Any, Any]:
        """To each the product of all others: without a 0, if it is the only one."""
        zero, one = number(0, grad), number(1, grad)
        is_zero = self.emit(op.equal(updates, zero))
        filled = self.emit(op.where(is_zero, one, updates))
        of_x = grad * self.put(op.ones_like(x), updates, "mul")
        rest = self.get(grad * self.put(x, filled, "mul"))
        count = op.astype(is_zero, str(grad.struct_info.dtype))
        zeros = self.get(self.put(op.zeros_like(x), count, "add"))
        alone = self.emit(op.where(op.equal(zeros, one), rest, zero))
        return of_x, op.where(is_zero, alone, self.get(grad * var) / filled)

    def of_extremes(self, x: Any, updates: Any, var: Any, grad: Any) -> tuple[Any, Any]:
        """Shared by all that are the extreme, as PyTorch's scatter_reduce."""
        kind, zero = str(grad.struct_info.dtype), number(0, grad)
        stays = self.emit(op.equal(x, var))
        taken = self.emit(op.equal(updates, self.get(var)))
        count = self.put(op.astype(stays, kind), op.astype(taken, kind), "add")
        each = self.emit(grad / count)
        return op.where(stays, each, zero), op.where(taken, self.get(each), zero)


@rule("slice_scatter")
def _slice_scatter(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    x, source, *bounds = call.args
    axis: int = attrs_of(call).axis  # type: ignore[attr-defined]
    axis %= len(dims_of(x, call))
    start, end, step = (
        known(b.value, call) if isinstance(b, PrimValue) else _unknown(call) for b in bounds
    )
    zeros = builder.emit(op.zeros_like(source))
    of_x = Call(call.op, (grad, zeros, *bounds), call.attrs)
    of_source = op.strided_slice(grad, [axis], [start], [end], [step])
    return [of_x, of_source, None, None, None]


def _unknown(call: Call) -> int:
    raise UnsupportedOpError(
        f"{name_of(call)}: the gradient asks for bounds that are numbers",
        where=call,
        hint="index_put with places says the same, and has a gradient",
    )

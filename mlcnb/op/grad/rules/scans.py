"""Gradients of running sums and products, of products, and of what is put in order."""

from __future__ import annotations

from typing import Any

from mlcnb.op._dims import product
from mlcnb.op.grad.rules.registry import axes_of, dims_of, number, rule, with_axes
from mlcnb.relax import op
from mlcnb.relax.expr import Call, TupleGetItem, Var
from mlcnb.relax.operator import attrs_of, make_call


def _from_behind(x: Any, axis: int) -> Any:
    """The sum of each element and all behind it."""
    return op.flip(op.cumsum(op.flip(x, axis=axis), axis=axis), axis=axis)


def _unshifted(grad: Any, axis: int) -> Any:
    """What comes back for an exclusive scan, for the inclusive one: one place before."""
    width = [0] * (2 * grad.struct_info.ndim)
    width[2 * axis : 2 * axis + 2] = [-1, 1]
    return op.nn.pad(grad, width)


class _Scan:
    """A scan along one axis of what may be flat first, in the dtype of its result."""

    def __init__(self, call: Call, grad: Any, builder: Any) -> None:
        self.x, self.builder, self.at = call.args[0], builder, attrs_of(call)
        self.dims = dims_of(self.x, call)
        axis: int | None = self.at.axis  # type: ignore[attr-defined]
        self.is_flat, self.axis = axis is None, (axis or 0) % max(len(self.dims), 1)
        is_exclusive: bool = self.at.exclusive  # type: ignore[attr-defined]
        self.grad = builder.emit(_unshifted(grad, self.axis)) if is_exclusive else grad
        self.kind = grad.struct_info.dtype

    def operand(self) -> Any:
        """What is scanned."""
        x = op.reshape(self.x, (-1,)) if self.is_flat else self.x
        return self.builder.emit(x if self.x.struct_info.dtype == self.kind else self.cast(x))

    def cast(self, x: Any) -> Any:
        """In the dtype of the result."""
        return op.astype(self.builder.emit(x), str(self.kind))

    def share(self, back: Any) -> Any:
        """Of the operand's shape and dtype."""
        back = op.reshape(back, self.dims) if self.is_flat else back
        kind = self.x.struct_info.dtype
        return back if kind == self.kind else op.astype(self.builder.emit(back), str(kind))


@rule("cumsum")
def _cumsum(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """The sums from behind."""
    scan = _Scan(call, grad, builder)
    return [scan.share(_from_behind(scan.grad, scan.axis))]


@rule("cumprod")
def _cumprod(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """Before the first 0: sums from behind of y' y, divided by x. At it: those of y' with the
    products of a 1 in its place. Behind it nothing.
    """
    scan = _Scan(call, grad, builder)
    x, axis, emit = scan.operand(), scan.axis, builder.emit
    is_zero = emit(op.equal(x, number(0, x)))
    zeros = emit(op.cumsum(op.astype(is_zero, "int32"), axis=axis))
    none = emit(op.equal(zeros, number(0, zeros)))
    first = emit(op.logical_and(is_zero, op.equal(zeros, number(1, zeros))))
    filled = emit(op.where(is_zero, number(1, x), x))
    rest = emit(op.where(op.less_equal(zeros, number(1, zeros)), filled, number(0, x)))
    products = op.cumprod(rest, axis=axis)
    before, at_first = (
        _from_behind(emit(scan.grad * y), axis) for y in (op.cumprod(x, axis=axis), products)
    )
    behind = op.where(first, at_first, number(0, x))
    return [scan.share(op.where(none, before / filled, behind))]


@rule("prod")
def _prod(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """To each the product of all others: of those before it and of those behind it."""
    x = call.args[0]
    dims = dims_of(x, call)
    ndim = len(dims)
    if not ndim:
        return [grad]
    axes = sorted(range(ndim) if (given := axes_of(call)) is None else {a % ndim for a in given})
    order = [a for a in range(ndim) if a not in axes] + axes
    moved, count = op.permute_dims(x, axes=order), ndim - len(axes)
    kept = [dims[a] for a in order[:count]]
    rows = builder.emit(op.reshape(moved, [*kept, product([dims[a] for a in axes])]))
    before = op.cumprod(rows, axis=count, exclusive=True)
    behind = op.flip(op.cumprod(op.flip(rows, axis=count), axis=count, exclusive=True), axis=count)
    others = op.reshape(before * behind, [dims[a] for a in order])
    others = op.permute_dims(others, axes=[order.index(a) for a in range(ndim)])
    return [with_axes(call, grad) * others]


@rule("sort")
def _sort(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    x = call.args[0]
    at: Any = attrs_of(call)
    places = op.argsort(x, axis=at.axis, descending=at.descending, dtype="int64")
    return [_put_back(x, places, grad, at.axis, builder)]


@rule("topk")
def _topk(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """To the places that were taken; indices give nothing."""
    x = call.args[0]
    at: Any = attrs_of(call)
    if at.ret_type == "indices":
        return [None]
    if at.ret_type == "both":
        return [
            _put_back(
                x, TupleGetItem(var, 1), builder.emit(TupleGetItem(grad, 0)), at.axis, builder
            )
        ]
    fields = {n: getattr(at, n) for n in at.node_fields}
    places = make_call(type(at), x, **fields | {"ret_type": "indices", "dtype": "int64"})
    return [_put_back(x, places, grad, at.axis, builder)]


def _put_back(x: Any, places: Any, grad: Any, axis: int, builder: Any) -> Any:
    zeros = builder.emit(op.zeros_like(x))
    return op.scatter_elements(zeros, builder.emit(places), grad, axis=axis, reduction="add")


@rule("median")
def _median(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """Along one axis to the place that it says; of several it is shared by all that equal it."""
    x = call.args[0]
    at: Any = attrs_of(call)
    if at.axis is not None:
        both = [builder.emit(TupleGetItem(v, i)) for v, i in ((var, 1), (grad, 0))]
        places, given = (v if at.keepdims else op.expand_dims(v, axis=[at.place]) for v in both)
        return [_put_back(x, places, builder.emit(given), at.place, builder)]
    hit = builder.emit(op.astype(op.equal(x, var), str(grad.struct_info.dtype)))
    return [grad * hit / op.sum(hit)]

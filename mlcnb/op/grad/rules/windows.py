"""Gradients of what goes over windows: convolutions, transposed or not, and pools.

A convolution and its transpose are each other's gradient for the data. The weight's is data and
what comes back, convolved with batch and channels exchanged, strides and dilation too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.core.errors import UnsupportedOpError
from mlcnb.op._dims import product
from mlcnb.op.grad.rules.registry import dims_of, known, name_of, rule
from mlcnb.relax import op
from mlcnb.relax.expr import Call, TupleGetItem, Var
from mlcnb.relax.operator import attrs_of


def _spatial(x: Any, call: Call) -> list[int]:
    return [known(d, call) for d in dims_of(x, call)[2:]]


def _want_plain(call: Call) -> Any:
    """The attributes of a convolution.

    Raises:
        UnsupportedOpError: it has other layouts than channels, then spatial dimensions.
    """
    at: Any = attrs_of(call)
    if not at.is_plain:
        plain = ["NC" + at.spatial, at.channels + at.spatial]
        raise UnsupportedOpError(
            f"{name_of(call)}: only {plain[0]} with {plain[1]} has a gradient, this is "
            f"{at.data_layout} with {at.kernel_layout}",
            where=call,
            hint=f'ConvertLayout({{"relax.{name_of(call)}": {plain}}}) first'.replace("'", '"'),
        )
    return at


def _along(at: Any, name: str) -> Any:
    """The operator of this many spatial dimensions: op.nn.conv2d for "conv"."""
    kind, _, rest = name.partition("_")
    return getattr(op.nn, f"{kind}{len(at.spatial)}d" + (f"_{rest}" if rest else ""))


@rule(*(f"nn.conv{rank}d" for rank in (1, 2, 3)))
def _conv(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """reached: the end of what the windows see."""
    data, weight = call.args
    at = _want_plain(call)
    rank = len(at.spatial)
    sizes, kernel, out = (_spatial(x, call) for x in (data, weight, var))
    reached = _reached(at, out, kernel)
    if min(reached) < 1:  # all windows lie in the padding
        return [op.zeros_like(data), op.zeros_like(weight)]
    of_data = _along(at, "conv_transpose")(
        grad,
        weight,
        strides=at.strides,
        padding=[*at.padding[:rank], *_beyond(reached, sizes)],
        output_padding=_beyond(sizes, reached),
        dilation=at.dilation,
        groups=at.groups,
        data_layout=at.data_layout,
        kernel_layout="IO" + at.spatial,
    )
    return [of_data, _of_weight(at, call, data, grad, kernel, builder)]


@rule(*(f"nn.conv{rank}d_transpose" for rank in (1, 2, 3)))
def _conv_transpose(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """The convolution of what comes back, without what no element of the data reaches."""
    data, weight = call.args
    at = _want_plain(call)
    rank, kernel = len(at.spatial), _spatial(weight, call)
    if min(_reached(at, _spatial(data, call), kernel)) < 1:  # all of it is cut off
        return [op.zeros_like(data), op.zeros_like(weight)]
    after = [a - more for a, more in zip(at.padding[rank:], at.output_padding, strict=True)]
    if min(after) < 0:
        sizes = [size + min(a, 0) for size, a in zip(_spatial(var, call), after, strict=True)]
        grad = builder.emit(_cut(grad, sizes))
    of_data = _along(at, "conv")(
        grad,
        weight,
        strides=at.strides,
        padding=[*at.padding[:rank], *(max(a, 0) for a in after)],
        dilation=at.dilation,
        groups=at.groups,
        data_layout=at.data_layout,
        kernel_layout="OI" + at.spatial,
    )
    return [of_data, _of_weight(at, call, grad, data, kernel, builder)]


def _of_weight(
    at: Any, call: Call, data: Any, grad: Any, kernel: Sequence[int], builder: Any
) -> Any:
    """What the weight of the convolution from `data` to a result like `grad` gets."""
    rank = len(at.spatial)
    sizes = _spatial(data, call)
    reached = _reached(at, _spatial(grad, call), kernel)
    after = _beyond(reached, sizes)
    if reached != [size + more for size, more in zip(sizes, after, strict=True)]:
        sizes = [min(end, size) for end, size in zip(reached, sizes, strict=True)]
        data = builder.emit(_cut(data, sizes))
    n, channels = dims_of(data, call)[:2]
    inner = channels // at.groups
    if at.groups != 1:
        order = [1, 0, *range(2, rank + 3)]
        split = op.permute_dims(op.reshape(data, (n, at.groups, inner, *sizes)), axes=order)
        data = op.reshape(split, (n * at.groups, inner, *sizes))
    return _along(at, "conv")(
        data,
        grad,
        strides=at.dilation,
        padding=[*at.padding[:rank], *after],
        dilation=at.strides,
        groups=at.groups,
        data_layout="CN" + at.spatial,
        kernel_layout="IO" + at.spatial,
        out_layout="CN" + at.spatial,
    )


def _cut(x: Any, sizes: Sequence[int]) -> Any:
    """The beginnings of the spatial dimensions."""
    axes = list(range(2, 2 + len(sizes)))
    return op.strided_slice(x, axes=axes, begin=[0] * len(sizes), end=list(sizes))


def _reached(at: Any, out: Sequence[int], kernel: Sequence[int]) -> list[int]:
    """Where what the windows see ends, from the first element of the data."""
    low = at.padding[: len(kernel)]
    parts = zip(out, at.strides, at.dilation, kernel, low, strict=True)
    return [(o - 1) * s + d * (k - 1) + 1 - a for o, s, d, k, a in parts]


def _beyond(ends: Sequence[int], sizes: Sequence[int]) -> list[int]:
    return [max(end - size, 0) for end, size in zip(ends, sizes, strict=True)]


@rule(*(f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)))
def _pool(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    attrs, name = attrs_of(call), f"{name_of(call)[len('nn.') :]}_backward"
    given = {field: getattr(attrs, field) for field in attrs.node_fields}
    return [getattr(op.grad, name)(grad, call.args[0], **given)]


@rule("nn.max_pool_indices")
def _max_pool_indices(var: Var, call: Call, grad: Any, builder: Any) -> list[Any]:
    """To the places that it says: of all elements, the first dimension slowest."""
    x = call.args[0]
    if getattr(attrs_of(call), "column_major"):  # noqa: B009 (a field of one operator)
        raise UnsupportedOpError(
            f"{name_of(call)}: with column_major it has no gradient",
            where=call,
            hint="without it the places are numbered row by row",
        )
    dims = dims_of(x, call)
    places = op.reshape(builder.emit(TupleGetItem(var, 1)), (-1,))
    shares = op.reshape(builder.emit(TupleGetItem(grad, 0)), (-1,))
    zeros = op.zeros((product(dims),), str(x.struct_info.dtype))
    flat = op.scatter_elements(builder.emit(zeros), places, shares, axis=0, reduction="add")
    return [op.reshape(flat, dims)]

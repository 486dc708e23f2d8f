"""PyTorch spellings of pooling: windows, adaptive ones, maxima with their indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mlcnb.ir.prim_ops import as_expr, as_int, floordiv, maximum
from mlcnb.op._dims import ints, product, tell_dims, tidy
from mlcnb.op._spell import call
from mlcnb.op._torch import Formula, wide
from mlcnb.op.nn._window import each
from mlcnb.op.nn.conv_torch import batched, unbatched
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr


def rank_of(n: TorchNode) -> int:
    """Spatial dimensions, from the operator's name."""
    return int(n.target.split(".")[1].partition("pool")[2][0])


def pool_attrs(
    rank: int, kernel: Any, stride: Any, padding: Any, ceil: bool, dilation: Any = 1
) -> dict[str, Any]:
    """The attributes of a pool, each number said for every dimension."""
    kernel = each(kernel, rank)
    return {
        "pool_size": kernel,
        "strides": each(stride, rank) if stride not in (None, [], ()) else kernel,
        "padding": each(padding, rank) * 2,
        "dilation": each(dilation, rank),
        "ceil_mode": bool(ceil),
    }


@torch_spelling("aten.max_pool1d", "aten.max_pool2d", "aten.max_pool3d")
def torch_max_pool(
    n: TorchNode,
    x: Expr,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Expr:
    """Padding never wins."""
    rank = rank_of(n)
    data, single = batched(n, x, rank)
    attrs = pool_attrs(rank, kernel_size, stride, padding, ceil_mode, dilation)
    return unbatched(n, call(f"relax.nn.max_pool{rank}d", data, **attrs), single)


@torch_spelling("aten.max_pool1d_with_indices", "aten.max_pool2d_with_indices")
@torch_spelling("aten.max_pool3d_with_indices")
def torch_max_pool_with_indices(
    n: TorchNode,
    x: Expr,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Expr, Expr | None]:
    """The maxima; where each lies in its channel is given only where it is read."""
    rank = rank_of(n)
    found = torch_max_pool(n, x, kernel_size, stride, padding, dilation, ceil_mode)
    if not n.is_used(1):
        return found, None
    data, single = batched(n, x, rank)
    attrs = pool_attrs(rank, kernel_size, stride, padding, ceil_mode, dilation)
    dims = n.dims(data)
    where = n.emit(n.emit(call("relax.nn.max_pool_indices", data, **attrs))[1])
    first = n.emit(call("relax.arange", 0, product(dims[:2]), 1, dtype="int64"))
    lines = n.emit(call("relax.reshape", first, [*dims[:2], *[1] * rank]))
    each_one = n.tensor(product(dims[2:]), "int64")
    start = n.emit(call("relax.multiply", lines, each_one))
    return found, unbatched(n, call("relax.subtract", where, start), single)


@torch_spelling("aten.avg_pool1d", "aten.avg_pool2d", "aten.avg_pool3d")
def torch_avg_pool(
    n: TorchNode,
    x: Expr,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Expr:
    """The mean of each window; padding counts only if `count_include_pad`."""
    rank = rank_of(n)
    data, single = batched(n, x, rank)
    attrs = pool_attrs(rank, kernel_size, stride, padding, ceil_mode)
    if divisor_override is not None:
        if ceil_mode:
            n.refuse("divisor_override together with ceil_mode")
        count_include_pad = True
    result = call(
        f"relax.nn.avg_pool{rank}d", data, count_include_pad=bool(count_include_pad), **attrs
    )
    if divisor_override is not None:
        share = math.prod(attrs["pool_size"]) / divisor_override
        result = call("relax.multiply", n.emit(result), n.tensor(share, n.dtype(x)))
    return unbatched(n, result, single)


@torch_spelling("aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d")
@torch_spelling("aten.adaptive_avg_pool3d", "aten._adaptive_avg_pool2d")
@torch_spelling("aten._adaptive_avg_pool3d")
def torch_adaptive_avg_pool(n: TorchNode, x: Expr, output_size: Any) -> Expr:
    """Means over parts of equal size, of which there are `output_size`."""
    rank = rank_of(n)
    data, single = batched(n, x, rank)
    sizes = each(output_size, rank)
    if set(sizes) == {1}:
        axes = tuple(range(2, rank + 2))
        return unbatched(n, call("relax.mean", data, axis=axes, keepdims=True), single)
    if ints(sizes) is None:
        return unbatched(n, _open_means(n, data, sizes), single)
    made = call(f"relax.nn.adaptive_avg_pool{rank}d", data, output_size=sizes)
    return unbatched(n, made, single)


def _open_means(n: TorchNode, data: Expr, sizes: Sequence[Any]) -> Expr:
    """Along one dimension after the other: the elements of each part side by side, their mean."""
    f = Formula(n, wide(n.dtype(data)))
    found = n.tensor(data, f.kind)
    for axis, parts in enumerate(sizes, 2):
        places, counts = _parts(n, n.dims(data)[axis], parts)
        beside = f.take(found, places, axis=axis)
        apart = [1] * (len(n.dims(beside)) - axis - 2)
        here = f.less(f.counted(n.dims(places)[1]), f.reshape(counts, [parts, 1]))
        here = f.reshape(here, [*n.dims(places), *apart])
        total = f.sum(f.where(here, beside, 0), axis=(axis + 1,))
        found = f.divide(total, n.tensor(f.reshape(counts, [parts, *apart]), f.kind))
    return n.tensor(found, n.dtype(data))


def _parts(n: TorchNode, size: Any, parts: Any) -> tuple[Expr, Expr]:
    """The places of the elements of each part, as many as the largest may have (the last one again
    where it has fewer), and how many it has; all may be open.
    """
    f, at = Formula(n, "int64"), Formula(n, "int64").counted(parts)
    begins = f.floor_divide(f.multiply(at, size), parts)
    ends = f.floor_divide(f.add(f.multiply(f.add(at, 1), size), tidy(parts - 1)), parts)
    most = tidy(floordiv(as_expr(size), maximum(parts, 1)) + 2)
    begins, last = (f.reshape(x, [parts, 1]) for x in (begins, f.subtract(ends, 1)))
    places = f.minimum(f.add(begins, f.reshape(f.counted(most), [1, most])), last)
    return places, f.subtract(ends, f.reshape(begins, [parts]))


def _uneven_maxima(n: TorchNode, data: Expr, sizes: Sequence[Any], spatial: Sequence[Any]) -> Expr:
    """Along one dimension after the other: the elements of each part side by side, the largest."""
    f = Formula(n, n.dtype(data))
    for axis, (size, parts) in enumerate(zip(spatial, sizes, strict=True), 2):
        if as_int(parts) == 1:
            data = f.max(data, axis=(axis,), keepdims=True)
        else:
            data = f.max(f.take(data, _parts(n, size, parts)[0], axis=axis), axis=(axis + 1,))
    return data


@torch_spelling("aten.adaptive_max_pool1d", "aten.adaptive_max_pool2d")
@torch_spelling("aten.adaptive_max_pool3d")
def torch_adaptive_max_pool(n: TorchNode, x: Expr, output_size: Any) -> tuple[Expr, None]:
    """Maxima over parts, which overlap where their number does not divide the sizes."""
    rank = rank_of(n)
    data, single = batched(n, x, rank)
    sizes = each(output_size, rank)
    spatial = n.dims(data)[2:]
    known = ints([*spatial, *sizes])
    if known is None or any(s % o for s, o in zip(spatial, sizes, strict=True)):
        if n.is_used(1):
            what = f"places of maxima over {tell_dims(sizes)} parts of {tell_dims(spatial)}"
            n.refuse(what, "equal parts of a fixed size are there")
        return unbatched(n, _uneven_maxima(n, data, sizes, spatial), single), None
    kernel = [s // o for s, o in zip(spatial, sizes, strict=True)]
    made = call(f"relax.nn.max_pool{rank}d", data, **pool_attrs(rank, kernel, None, 0, False))
    return unbatched(n, made, single), None

"""PyTorch spellings of running values: cummax, cummin, logcumsumexp; mode, by them.

x = [3, 1, 4, 1, 5]
 1   max(x, x shifted by 1)      [3, 3, 4, 4, 5]
 2   the same by 2, by 4, …      after log2(5) steps each place has seen all before it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlcnb.op._torch import Formula, axis_of, formula, rounded
from mlcnb.op.torch import TorchNode, torch_spelling
from mlcnb.relax.expr import Expr, const


def _running(f: Formula, x: Expr, axis: int, combine: Callable[[Expr, Expr], Expr]) -> Expr:
    """What `combine`, which is associative, makes of all elements up to each place."""
    size, step = _size(f.n, x, axis), 1
    while step < size:
        early, late, before = (
            f.strided_slice(x, (axis,), (a,), (b,), (1,))
            for a, b in ((0, step), (step, size), (0, size - step))
        )
        x, step = f.concat([early, combine(before, late)], axis=axis), step * 2
    return x


def _size(n: TorchNode, x: Expr, axis: int) -> int:
    size = n.dims(x)[axis] if n.dims(x) else 1
    if not isinstance(size, int):
        n.refuse("a running value along a dimension that is open", "export with a fixed size")
    return size


@torch_spelling("aten.cummax", "aten.cummin")
def torch_cummax(n: TorchNode, x: Expr, dim: int) -> Any:
    """The largest (or least) so far, and where it came last; NaN is the largest and the least."""
    kind, places = Formula(n, n.dtype(x)), Formula(n, "int64")
    axis = axis_of(n, dim, len(n.dims(x)))
    if not n.dims(x):
        return x, places.zeros([], "int64")
    combine = kind.maximum if "cummax" in n.target else kind.minimum
    found = _running(kind, x, axis, combine)
    if not n.is_used(1):
        return found, None
    is_new = kind.equal(x, found)
    if n.dtype(x).startswith(("float", "bfloat")):
        is_new = kind.logical_or(is_new, kind.isnan(x))
    line = [-1 if i == axis else 1 for i in range(len(n.dims(x)))]
    numbers = const(np.arange(_size(n, x, axis)).reshape(line))
    here = places.where(is_new, places.broadcast_to(numbers, list(n.dims(x))), 0)
    return found, _running(places, here, axis, places.maximum)


@torch_spelling("aten.mode")
def torch_mode(n: TorchNode, x: Expr, dim: int = -1, keepdim: bool = False) -> Any:
    """The value that is there most often, of several the least, and where it stands last.

    In order, each place says how many equal ones end there; the first that says most is it.
    """
    if not n.dims(x):
        return x, Formula(n).zeros([], "int64")
    f, places = Formula(n, n.dtype(x)), Formula(n, "int64")
    axis = axis_of(n, dim, len(n.dims(x)))
    size, shape = _size(n, x, axis), list(n.dims(x))
    order = f.argsort(x, axis=axis, dtype="int64")
    rows = f.gather_elements(x, order, axis=axis)
    line = [-1 if i == axis else 1 for i in range(len(shape))]
    numbers = places.broadcast_to(const(np.arange(size).reshape(line)), shape)
    before = f.take(rows, const(np.maximum(np.arange(size) - 1, 0)), axis=axis)
    is_new = f.not_equal(rows, before)
    starts = _running(places, places.where(is_new, numbers, 0), axis, places.maximum)
    most = f.argmax(f.subtract(numbers, starts), axis=axis, keepdims=True)
    at = n.tensor(most, "int64")
    found = [f.gather_elements(v, at, axis=axis) for v in (rows, order)]
    return tuple(v if keepdim else f.squeeze(v, axis=[axis]) for v in found)


@torch_spelling("aten.logcumsumexp")
def torch_logcumsumexp(n: TorchNode, x: Expr, dim: int) -> Expr:
    """log(exp(x0) + … + exp(x)), each pair with its larger one taken out."""
    f, x = formula(n, x)
    if not n.dims(x):
        return rounded(n, x)

    def joined(a: Expr, b: Expr) -> Expr:
        high = f.maximum(a, b)
        ends = f.isinf(high)  # infinities would be subtracted from themselves
        shift = f.where(ends, 0.0, high)
        total = f.add(f.exp(f.subtract(a, shift)), f.exp(f.subtract(b, shift)))
        return f.where(ends, high, f.add(f.log(total), shift))

    return rounded(n, _running(f, x, axis_of(n, dim, len(n.dims(x))), joined))

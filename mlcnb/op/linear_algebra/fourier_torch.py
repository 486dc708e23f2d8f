"""PyTorch's Fourier transforms, as products with matrices of sines and cosines.

    X[k] = sum over t of x[t] e^(-2 pi i k t / n)      each part by both tables
    n = a b, n large      lines of a, turned by e^(-2 pi i j k / n), then lines of b

The second is Cooley and Tukey's: (a + b) n products in place of n n. fft, rfft2, irfftn, stft and
the others are written out by PyTorch as these three. Semantics: https://pytorch.org/docs/main/fft.html
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._complex import Complex, complex_product, complex_spelling, mapped
from mlcnb.op._dims import tell_dims
from mlcnb.op._spell import affordable
from mlcnb.op._torch import Formula, cut
from mlcnb.op.linear_algebra._fourier import folded, matrix
from mlcnb.op.torch import TorchNode
from mlcnb.relax.expr import Expr, const

#: longer lines are transformed as those of their factors, where they have any
LONGEST = 256


@complex_spelling("aten._fft_r2c")
def real_to_complex(
    n: TorchNode, x: Expr, dim: Sequence[int], normalization: int, onesided: bool
) -> Complex:
    """The last of the dimensions of real numbers, half of its spectrum if onesided; the others."""
    f = Formula(n, n.dtype(x))
    sizes = _sizes(n, x, dim)
    bins = sizes[-1] // 2 + 1 if onesided else sizes[-1]
    found = _along(f, x, dim[-1], partial(_line, f, size=sizes[-1], bins=bins, sign=-1))
    for at, size in zip(dim[:-1], sizes, strict=False):
        found = _along(f, found, at, partial(_line, f, size=size, bins=size, sign=-1))
    return _scaled(f, found, normalization, sizes)


@complex_spelling("aten._fft_c2c")
def complex_to_complex(
    n: TorchNode, x: Complex, dim: Sequence[int], normalization: int, forward: bool
) -> Complex:
    """All of the dimensions, there or back."""
    f = Formula(n, n.dtype(x.re))
    sizes = _sizes(n, x.re, dim)
    for at, size in zip(dim, sizes, strict=True):
        x = _along(f, x, at, partial(_line, f, size=size, bins=size, sign=-1 if forward else 1))
    return _scaled(f, x, normalization, sizes)


@complex_spelling("aten._fft_c2r")
def complex_to_real(
    n: TorchNode, x: Complex, dim: Sequence[int], normalization: int, last_dim_size: Any
) -> Expr:
    """Back to real numbers: the last of the dimensions holds half of a spectrum."""
    f = Formula(n, n.dtype(x.re))
    size = as_int(last_dim_size)
    if size is None:
        n.refuse("a length that is open", "fix the length of what is transformed")
    sizes = [*_sizes(n, x.re, dim[:-1]), size]
    for at, m in zip(dim[:-1], sizes, strict=False):
        x = _along(f, x, at, partial(_line, f, size=m, bins=m, sign=1))
    found = _along(f, x, dim[-1], partial(_back, f, size=size))
    return _scaled(f, found, normalization, sizes)


def _sizes(n: TorchNode, x: Expr, dim: Sequence[int]) -> list[int]:
    dims = n.dims(x)
    found = [as_int(dims[d]) for d in dim]
    if None in found:
        n.refuse(f"a transform along open lengths of {tell_dims(dims)}", "fix these lengths")
    return [s for s in found if s is not None]


def _along(f: Formula, x: Any, dim: int, line: Callable[[Any], Any]) -> Any:
    """`line` along a dimension, which is the last one while it works."""
    rank = len(f.n.dims(x.re if isinstance(x, Complex) else x))
    order = [i for i in range(rank) if i != dim % rank] + [dim % rank]
    if order == sorted(order):
        return line(x)
    back = [order.index(i) for i in range(rank)]
    found = line(mapped(lambda v: f.permute_dims(v, axes=order), x))
    return mapped(lambda v: f.permute_dims(v, axes=back), found)


def _line(f: Formula, x: Any, size: int, bins: int, sign: int) -> Complex:
    """The first bins of the transform of lines in the last dimension."""
    parts = [x.re, x.im] if isinstance(x, Complex) else [x]
    a = _factor(size) if size > LONGEST else 1
    if a == 1:
        affordable(f.n, "a transform", size * len(parts), bins * 2)
        return Complex(*_summed(f, parts, matrix(size, bins, len(parts), sign)))
    b, lead = size // a, list(f.n.dims(parts[0])[:-1])
    axes = [*range(len(lead)), len(lead) + 1, len(lead)]
    rows = mapped(lambda v: f.permute_dims(f.reshape(v, [*lead, a, b]), axes=axes), x)
    angle = sign * 2 * math.pi * np.outer(np.arange(b), np.arange(a)) / size
    turn = Complex(const(np.cos(angle).astype(f.kind)), const(np.sin(angle).astype(f.kind)))
    rows = complex_product(f, _line(f, rows, a, a, sign), turn)
    rows = _line(f, rows.map(lambda v: f.permute_dims(v, axes=axes)), b, b, sign)
    whole = rows.map(lambda v: f.reshape(f.permute_dims(v, axes=axes), [*lead, size]))
    return whole if bins == size else whole.map(lambda v: f.n.emit(cut(v, len(lead), 0, bins)))


def _back(f: Formula, x: Complex, size: int) -> Expr:
    """Real numbers from the first half of their spectrum, in the last dimension."""
    last = len(f.n.dims(x.re)) - 1
    bins = size // 2 + 1
    if size <= LONGEST:
        return _summed(f, [x.re, x.im], folded(size, bins))[0]
    rest = x.map(lambda v: f.flip(f.n.emit(cut(v, last, 1, size - bins + 1)), last))
    re = f.concat([x.re, rest.re], axis=last)
    im = f.concat([x.im, f.negative(rest.im)], axis=last)
    return _line(f, Complex(re, im), size, size, 1).re


def _summed(f: Formula, parts: Sequence[Expr], table: np.ndarray) -> list[Expr]:
    """Parts by a table (size, parts, bins, results): each result."""
    found = []
    for result in range(table.shape[-1]):
        weights = [const(table[:, p, :, result].astype(f.kind)) for p in range(len(parts))]
        first, *more = (f.matmul(x, w) for x, w in zip(parts, weights, strict=True))
        found.append(f.add(first, more[0]) if more else first)
    return found


def _factor(size: int) -> int:
    """The largest factor up to the square root; 1 of a prime."""
    return next(a for a in range(math.isqrt(size), 0, -1) if size % a == 0)


def _scaled(f: Formula, x: Any, normalization: int, sizes: Sequence[int]) -> Any:
    """As it is (0), by the root of how many there are (1), by how many there are (2)."""
    if normalization == 0:
        return x
    scale = math.prod(sizes) ** (-0.5 if normalization == 1 else -1.0)
    return mapped(lambda v: f.multiply(v, scale), x)

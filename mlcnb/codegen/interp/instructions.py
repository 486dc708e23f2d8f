"""Machine instructions on vectors, by LLVM's names: lists of numbers in, a list out.

    llvm.x86.avx512.vpdpbusd.512(C, A, B)     C[i] + A[4 i] * B[4 i] + … + A[4 i + 3] * B[4 i + 3]

The meaning is that of the manuals (Intel's intrinsics guide, Arm's A64 reference), with wrapping
and saturation. What works lane by lane (fma, sqrt, …) is in `intrinsics`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from ctypes import c_float
from itertools import accumulate
from typing import Any

import numpy as np

from mlcnb.codegen.interp.numerics import rounder, wrapper
from mlcnb.core.errors import UnsupportedOpError
from mlcnb.ir.dtype import DType, dtype
from mlcnb.tir.analysis.mma import Form, place_c

Lanes = list[Any]
#: the smallest float32 that is no denormal
_SMALLEST = 2.0**-126
#: (dtype of the result, dtypes of the operands) -> what the instruction does
Maker = Callable[[DType, Sequence[DType]], Callable[..., Any]]


def instruction(name: str, kind: DType, operands: Sequence[DType]) -> Callable[..., Any] | None:
    """What the instruction does to its operands; None where it works lane by lane, or is unknown.

    Raises:
        UnsupportedOpError: an operand has too few lanes.
    """
    for pattern, make in _TABLE:
        if re.fullmatch(pattern, name):
            return make(kind, operands)
    return None


def reinterpreted(kind: DType, source: DType) -> Callable[[Any], Any]:
    """The bits of a number or a vector read as another dtype.

    Raises:
        UnsupportedOpError: they have different numbers of bits.
    """
    if kind.bits * kind.lanes != source.bits * source.lanes:
        raise UnsupportedOpError(f"tir.reinterpret of {source} as {kind}: the sizes differ")
    given, wanted = source.numpy, kind.numpy
    number = float if kind.is_float else int

    def read(x: Any) -> Any:
        bits = np.array(x if source.lanes != 1 else [x], given).view(wanted)
        return [number(v) for v in bits] if kind.lanes != 1 else number(bits[0])

    return read


def matrix_product(
    form: Form,
    memory: Sequence[Any],
    places: Sequence[int],
    apart: Sequence[int],
    thread: int,
    taken: Callable[[Any], Any],
) -> None:
    """What one thread of a warp does in `mma.sync`: its four sums go up by products.

    form: the product; memory: the fragments A, B and C as flat arrays; places: where the thread's
    own values begin in each; apart: how far those of neighbouring threads are from each other;
    thread: its number in the warp; taken: an operand as the product takes it.
    """
    sums = dtype(form.sums.dtype)
    number: Any = float if sums.is_float else int
    fit: Any = rounder(sums) if sums.is_float else wrapper(sums)
    (a, b, c), (at_a, at_b, at_c) = memory, places
    own_a, own_b, _ = apart
    base_a, base_b = at_a - own_a * thread, at_b - own_b * thread
    for n in range(4):
        row, column = place_c(thread, n)
        total = number(c[at_c + n])
        for k in range(form.depth):
            (t_a, n_a), (t_b, n_b) = form.layout_a(row, k), form.layout_b(k, column)
            x, y = a[base_a + own_a * t_a + n_a], b[base_b + own_b * t_b + n_b]
            total += taken(number(x)) * taken(number(y))
        c[at_c + n] = fit(total)


def _bytes(x: Lanes, bits: int, code: str) -> list[int]:
    """A vector of integers of `bits` bits as bytes, signed or not."""
    words = np.array(x, f"u{bits // 8}") if min(x) >= 0 else np.array(x, f"i{bits // 8}")
    return [int(v) for v in words.view(code)]


def _dot(left: str, right: str) -> Maker:
    """C[i] + four products of bytes."""

    def make(kind: DType, operands: Sequence[DType]) -> Callable[..., Any]:
        fit, widths = wrapper(kind.element), [d.bits for d in operands]

        def run(c: Lanes, a: Lanes, b: Lanes) -> Lanes:
            xs, ys = _bytes(a, widths[1], left), _bytes(b, widths[2], right)
            products = [x * y for x, y in zip(xs, ys, strict=True)]
            return [fit(v + sum(products[4 * i : 4 * i + 4])) for i, v in enumerate(c)]

        return run

    return make


def _pairs(saturate: bool) -> Maker:
    """Sums of two neighbouring products."""

    def make(kind: DType, operands: Sequence[DType]) -> Callable[..., Any]:
        fit = wrapper(kind.element)
        low, high = kind.element.min_value, kind.element.max_value

        def run(a: Lanes, b: Lanes) -> Lanes:
            products = [x * y for x, y in zip(a, b, strict=True)]
            sums = [x + y for x, y in zip(products[::2], products[1::2], strict=True)]
            return [min(max(x, low), high) if saturate else fit(x) for x in sums]

        return run

    return make


def _dot_of_pairs(kind: DType, operands: Sequence[DType]) -> Callable[..., Any]:
    """C[i] + A[2 i + 1] * B[2 i + 1], rounded to float32, and to that + A[2 i] * B[2 i], rounded;
    what is denormal counts as zero.
    """

    def run(c: Lanes, a: Lanes, b: Lanes) -> Lanes:
        xs, ys = [_flushed(x) for x in a], [_flushed(y) for y in b]
        products = [x * y for x, y in zip(xs, ys, strict=True)]  # exact in double
        sums = [_sum_in_float32(_flushed(v), p) for v, p in zip(c, products[1::2], strict=True)]
        return [_sum_in_float32(v, p) for v, p in zip(sums, products[::2], strict=True)]

    return run


def _flushed(x: float) -> float:
    """Zero for a float32 that is denormal."""
    return math.copysign(0.0, x) if abs(x) < _SMALLEST else x


def _sum_in_float32(a: float, b: float) -> float:
    """a + b rounded once: a double with its last bit set where it is inexact rounds on rightly."""
    total = a + b
    part = total - a
    rest = (a - (total - part)) + (b - part)
    if rest and math.isfinite(total):
        away = math.inf if (rest > 0) else -math.inf
        odd = int(np.float64(total).view(np.int64)) & 1
        total = total if odd else math.nextafter(total, away)
    return _flushed(c_float(total).value)


def _widening_product(kind: DType, operands: Sequence[DType]) -> Callable[..., Any]:
    fit = wrapper(kind.element)
    return lambda a, b: [fit(x * y) for x, y in zip(a, b, strict=True)]


def _neighbours(kind: DType, operands: Sequence[DType]) -> Callable[..., Any]:
    """Sums of neighbours, of one vector or of two one after the other."""
    fit = wrapper(kind.element)

    def run(*vectors: Lanes) -> Lanes:
        lanes = [x for vector in vectors for x in vector]
        return [fit(x + y) for x, y in zip(lanes[::2], lanes[1::2], strict=True)]

    return run


def _float_sum(kind: DType, operands: Sequence[DType]) -> Callable[..., Any]:
    """The lanes added to a start, in order, rounded each time."""
    fit = rounder(kind)
    return lambda start, x: list(accumulate(x, lambda a, b: fit(a + b), initial=start))[-1]


_TABLE: tuple[tuple[str, Maker], ...] = (
    (r"llvm\.x86\.avx512\.vpdpbusd\.(128|256|512)", _dot("u1", "i1")),
    (r"llvm\.x86\.avx512bf16\.dpbf16ps\.(128|256|512)", _dot_of_pairs),
    (r"llvm\.aarch64\.neon\.sdot\..*", _dot("i1", "i1")),
    (r"llvm\.aarch64\.neon\.usdot\..*", _dot("u1", "i1")),
    (r"llvm\.aarch64\.neon\.udot\..*", _dot("u1", "u1")),
    (r"llvm\.x86\.(avx2\.pmadd\.ub\.sw|avx512\.pmaddubs\.w\.512)", _pairs(saturate=True)),
    (r"llvm\.x86\.(avx2\.pmadd\.wd|avx512\.pmaddw\.d\.512)", _pairs(saturate=False)),
    (r"llvm\.aarch64\.neon\.[su]mull\..*", _widening_product),
    (r"llvm\.aarch64\.neon\.([su]addlp|addp)\..*", _neighbours),
    (r"llvm\.vector\.reduce\.fadd(\..*)?", _float_sum),
)

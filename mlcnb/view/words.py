"""Numbers, shapes and names as words: what all views say in the same way.

count(25_557_032)  25.6 M      flops(8_239_865_200)  8.24 GFLOP     tensor(x.struct_info)
size(102_228_128)  102.2 MB    seconds(0.01234)      12.3 ms        float32 [1, 3, 224, 224]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlcnb.arith import simplify
from mlcnb.core.doc import Page
from mlcnb.core.node import walk
from mlcnb.core.text import plural as plural_of
from mlcnb.core.text import visible
from mlcnb.ir.expr import IntImm, Var
from mlcnb.ir.prim_ops import as_int, const
from mlcnb.relax.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from mlcnb.tir.functor import substitute

_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def count(n: int) -> str:
    """A number of things: exact up to 9,999, then with three digits."""
    return f"{n:,}" if abs(n) < 10_000 else _scaled(n, "").rstrip()


def size(nbytes: int) -> str:
    """A number of bytes, in powers of ten."""
    return _scaled(nbytes, "B")


def memory(nbytes: int) -> str:
    """The size of a piece of hardware memory, in powers of two: 32 KiB, 16 MiB."""
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if nbytes >= factor:
            return f"{nbytes / factor:.3g} {unit}"
    return f"{nbytes} B"


def at_ones(n: Any) -> int | None:
    """The value of an expression where all symbolic sizes are 1."""
    if n is None or isinstance(n, int):
        return n
    return as_int(simplify(substitute(n, dict.fromkeys(_names_of(n), const(1, "int64")))))


def _names_of(n: Any) -> dict[Var, None]:
    return {v: None for v in walk(n) if isinstance(v, Var)}


def flops(n: Any, told: bool = True) -> str:
    """A number of floating-point operations, '' for none or an unknown number.

    Of an expression it is the value where all symbolic sizes are 1, and says so if it is to be
    `told`.
    """
    if n is None or isinstance(n, int | float):
        return _scaled(n, "FLOP") if n else ""
    names, value = _names_of(n), at_ones(n)
    if value is None:
        return f"{dim(n)} FLOP"
    ones = dict.fromkeys(f"{v.name} = 1" for v in names)
    sizes = f" for {listed(ones)}" if told and ones else ""
    return _scaled(value, "FLOP") + sizes


def _scaled(n: float, unit: str) -> str:
    for factor, letter in _STEPS:
        if abs(n) >= factor:
            digits = n / factor
            shown = f"{digits:.0f}" if digits >= 100 else f"{digits:.3g}"
            return f"{shown} {letter}{unit}"
    return f"{n:g} {unit}"


def seconds(t: float) -> str:
    """A duration with three digits: 1.20 s, 12.3 ms, 850 µs."""
    for factor, unit in ((1, "s"), (1e-3, "ms")):
        if t >= factor:
            return f"{_three(t / factor)} {unit}"
    return f"{_three(t * 1e6)} µs"


def _three(x: float) -> str:
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def rate(x: float) -> str:
    """GFLOP/s or GB/s: one digit behind the point, more where that would be nothing."""
    return f"{x:.1f}" if x >= 1 or not x else f"{x:.2g}"


def percent(share: float) -> str:
    """0.1234 as 12.3 %."""
    return f"{100 * share:.1f} %"


def plural(n: int, noun: str, several: str = "") -> str:
    """`1 loop`, `2 loops`, `12 bodies`."""
    return plural_of(n, noun, several, count(n))


def listed(names: Iterable[str], most: int = 8) -> str:
    """`a, b, c and 5 more`."""
    names = list(names)
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {count(len(names) - most)} more"


def dim(x: Any) -> str:
    """A dimension or other integer expression, without the dtypes of its numbers."""
    if isinstance(x, IntImm | int):
        return str(getattr(x, "value", x))
    from mlcnb.script.printer.context import Options, Printer

    p = Printer(Options())
    with p.integers(x.dtype):
        return Page(p.doc(x)).text


def dims(shape: Iterable[Any]) -> str:
    """`[1, 3, n, n]`"""
    return f"[{', '.join(dim(d) for d in shape)}]"


def tensor(info: Any) -> str:
    """A struct info in words: `float32 [1, 3, 224, 224]`, `(float32 [4], int64 [])`."""
    match info:
        case TensorStructInfo():
            kind = str(info.dtype or "any dtype")
            if info.dims is not None:
                return f"{kind} {dims(info.dims)}"
            return f"{kind}, {'any rank' if info.ndim < 0 else plural(info.ndim, 'dimension')}"
        case TupleStructInfo(fields):
            return f"({', '.join(map(tensor, fields))})"
        case ShapeStructInfo():
            return "shape" if info.values is None else f"shape {dims(info.values)}"
        case PrimStructInfo():
            return str(info.dtype)
        case FuncStructInfo():
            return "function"
    return "object"


_SHORT = (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i"))


def short_dtype(kind: Any) -> str:
    """`f32`, `i64`, `bf16`: how a dtype is written where space is dear."""
    for word, letters in _SHORT:
        if str(kind).startswith(word):
            return letters + str(kind)[len(word) :]
    return str(kind)


def short(info: Any) -> str:
    """A struct info for the edge of a graph: `1×3×224×224 f32`."""
    if isinstance(info, TensorStructInfo):
        kind = short_dtype(info.dtype) if info.dtype else "?"
        if info.dims is None:
            return kind
        return f"{'×'.join(dim(d) for d in info.dims) or 'scalar'} {kind}"
    if isinstance(info, TupleStructInfo):
        return f"({', '.join(map(short, info.fields))})"
    return tensor(info) if info is not None else ""


def clip(text: str, length: int = 60) -> str:
    """At most `length` characters on one line, cut in the middle."""
    line = visible(" ".join(text.split()) if "\n" in text or "\t" in text else text)
    if len(line) <= length:
        return line
    head = (length - 1) * 2 // 3
    return f"{line[:head]}…{line[len(line) - (length - 1 - head) :]}"


def more_and_less(counts: Iterable[tuple[int, str]], noun: str) -> str:
    """Of each name its count, the least first: `4 misses in a, 8 in b (2.0 times as many)`."""
    (least, first), *others = sorted(counts, key=lambda x: x[0])
    if others[-1][0] == least:
        return f"{least:,} {noun} in each"
    told = [f"{least:,} {noun} in {clip(first)}"]
    for count, name in others:
        ratio = f" ({count / least:.1f} times as many)" if least else ""
        told.append(f"{count:,} in {clip(name)}{ratio}")
    return ", ".join(told)

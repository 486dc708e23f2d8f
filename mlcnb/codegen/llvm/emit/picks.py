"""Vectors of places that lie together: loaded whole, then picked from, instead of gathered.

A[T.Broadcast(i * 8, 16) + T.Ramp(0, 1, 16) // T.Broadcast(2, 16)]

    places = i * 8 + <0 0 1 1 2 2 3 3 …>     ->     %a = load <8 x float>, ptr %A_i8
                                                    %v = shufflevector %a, <0 0 1 1 2 2 3 3 …>

Nothing is read before the first place or behind the last one, so no load can fault that a gather
would not have done.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mlcnb.codegen.llvm.emit.index import index
from mlcnb.ir import expr as e

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.emit.kernel import Emitter

#: elements that a load has at least; a power of two, as LLVM 22 fails on some shuffles of others
LEAST = 4
#: loads that cost no more than a gather of as many lanes
MOST = 4


class Places(NamedTuple):
    """A vector of places: the sum of scalars (each times a number), and a number for each lane."""

    terms: tuple[tuple[e.PrimExpr, int], ...]
    lanes: tuple[int, ...]


def places(x: e.PrimExpr) -> Places | None:
    """Such a sum of a vector expression; None where lanes are told apart by what is not known."""
    count = x.dtype.lanes
    match x:
        case e.Broadcast(value=e.IntImm(value)):
            return Places((), (int(value),) * count)
        case e.Broadcast(value=value) if value.dtype.lanes == 1:
            return Places(((value, 1),), (0,) * count)
        case e.Ramp(base=base, stride=e.IntImm(stride)) if base.dtype.lanes == 1:
            steps = tuple(int(stride) * n for n in range(count))
            return _sum(Places(((base, 1),), (0,) * count), Places((), steps), 1)
        case e.Cast(value=value) if value.dtype.is_int and x.dtype.bits >= value.dtype.bits:
            return places(value)
        case e.Add(a=a, b=b) | e.Sub(a=a, b=b):
            left, right = places(a), places(b)
            both = left is not None and right is not None
            return _sum(left, right, -1 if isinstance(x, e.Sub) else 1) if both else None
    return _combined(x)


def _combined(x: e.PrimExpr) -> Places | None:
    """An operation on lanes that are all known, or a product with a number."""
    if type(x) not in _KNOWN:
        return None
    a, b = places(x.a), places(x.b)  # type: ignore[attr-defined]
    if a is None or b is None:
        return None
    if isinstance(x, e.Mul) and not b.terms and len(set(b.lanes)) == 1:
        factor = b.lanes[0]
        terms = tuple((term, times * factor) for term, times in a.terms)
        return Places(terms, tuple(n * factor for n in a.lanes))
    divides = isinstance(x, e.FloorDiv | e.FloorMod)
    if a.terms or b.terms or (divides and 0 in b.lanes):
        return None
    combine = _KNOWN[type(x)]
    return Places((), tuple(combine(m, n) for m, n in zip(a.lanes, b.lanes, strict=True)))


_KNOWN: dict[type, Callable[[int, int], int]] = {
    e.Mul: operator.mul,
    e.FloorDiv: operator.floordiv,
    e.FloorMod: operator.mod,
    e.Min: min,
    e.Max: max,
}


def _sum(a: Any, b: Any, sign: int) -> Places:
    terms = tuple((term, times * sign) for term, times in b.terms)
    constant = [t for t in (*a.terms, *terms) if isinstance(t[0], e.IntImm)]
    more = sum(term.value * times for term, times in constant)  # type: ignore[attr-defined]
    lanes = tuple(m + sign * n + more for m, n in zip(a.lanes, b.lanes, strict=True))
    return Places(tuple(t for t in (*a.terms, *terms) if t not in constant), lanes)


def pick(
    em: Emitter, x: Places, live: Sequence[int] | None, load: Callable[[str, int], str], memory: str
) -> str | None:
    """The lanes, from as few loads as there can be; None where a gather is as good.

    Args:
        live: for each lane whether it counts; None: all do.
        load: from the operand of a place and a number of elements to what lies there.
        memory: LLVM's type of an element.
    """
    count = len(x.lanes)
    wanted = [n for i, n in enumerate(x.lanes) if live is None or live[i]]
    if not wanted:
        return None
    first, last = min(wanted), max(wanted)
    span = last - first + 1
    if span == count and [*x.lanes] == [*range(first, last + 1)]:
        return load(_moved(em, _base(em, x.terms), first), count)
    width = 1 << min(span, count).bit_length() - 1
    if span > MOST * width or width < LEAST or count & (count - 1):
        return None
    starts = [*range(first, last - width + 1, width), last - width + 1]
    base = _base(em, x.terms)
    windows = [load(_moved(em, base, start), width) for start in starts]
    found = [_window(n, starts, width) if first <= n <= last else (0, 0) for n in x.lanes]
    pairs = [*zip(windows[::2], [*windows[1::2], windows[-1]], strict=False)]
    made = [
        _shuffled(em, memory, width, pair, [_in_pair(w, at, number, width) for w, at in found])
        for number, pair in enumerate(pairs)
    ]
    if len(made) == 1:
        return made[0]
    mixed = [lane + (count if w >= 2 else 0) for lane, (w, _) in enumerate(found)]
    return _shuffled(em, memory, count, made, mixed)


def _in_pair(window: int, lane: int, pair: int, width: int) -> int:
    """Where a lane of a window lies in a pair of windows, one behind the other; -1: in another."""
    return lane + (window - 2 * pair) * width if window // 2 == pair else -1


def _window(place: int, starts: Sequence[int], width: int) -> tuple[int, int]:
    """(number of the load, lane in it) of a place."""
    number = next(n for n, start in enumerate(starts) if start <= place < start + width)
    return number, place - starts[number]


def _shuffled(em: Emitter, memory: str, width: int, pair: Sequence[str], picks: list[int]) -> str:
    kind = f"<{width} x {memory}>"
    mask = ", ".join("i32 poison" if n < 0 else f"i32 {n}" for n in picks)
    return em.f.emit(
        f"shufflevector {kind} {pair[0]}, {kind} {pair[1]}, <{len(picks)} x i32> <{mask}>"
    )


def _base(em: Emitter, terms: Sequence[tuple[e.PrimExpr, int]]) -> str:
    total = "0"
    for term, times in terms:
        value = index(em, term)
        if times != 1:
            value = em.f.emit(f"mul nsw i64 {value}, {times}")
        total = value if total == "0" else em.f.emit(f"add nsw i64 {total}, {value}")
    return total


def _moved(em: Emitter, base: str, by: int) -> str:
    if base == "0" or by == 0:
        return str(by) if base == "0" else base
    return em.f.emit(f"add nsw i64 {base}, {by}")

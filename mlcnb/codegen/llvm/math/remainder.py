"""fmod, exact, as C's `fmodf` and `fmod` define it.

The way from x and y to the result:

    n = |x| / |y|, cut off            one too many where the division rounded up to it
    r = |x| - n |y|                   exact: in one rounding, or in float64 lanes without rounding
    r + |y| where r < 0               then the sign of x; nan for y = 0 and for an infinite x

Lanes with n of 2^24 or more send the whole vector to the C library, on a path laid out off the hot
one. In float64 on a CPU without fused multiply-adds all of them go there.
"""

from __future__ import annotations

import math

from mlcnb.codegen.llvm.math.build import Body, Value

_LIMIT = 2.0**24


def fmod(b: Body, x: Value, y: Value) -> Value:
    """x - n y for the whole n towards zero; it has the sign of x."""
    name = "fmodf" if x.kind == "float" else "fmod"
    if not b.has_fma and x.kind == "double":
        return b.per_lane(name, [x, y])
    size, by = b.absolute(x), b.absolute(y)
    undefined = by.eq(0.0) | size.eq(math.inf)
    rest, many = _rest(b, size, by)
    known = b.select(undefined, math.nan, b.select(size.lt(by), size, rest))
    return b.unless_any(many & (undefined ^ 1), b.signed_like(known, x), name, x, y)


def _rest(b: Body, size: Value, by: Value) -> tuple[Value, Value]:
    """(what is left of `size`, lanes where it is not because n is too large)."""
    if not b.has_fma:
        rest, many = _left(b, *(b.convert("fpext", v, "double") for v in (size, by)))
        return b.convert("fptrunc", rest, "float"), many
    return _left(b, size, by)


def _left(b: Body, size: Value, by: Value) -> tuple[Value, Value]:
    ratio = size / by
    small = b.select(ratio.lt(_LIMIT), ratio, 0.0)
    n = b.convert("sitofp", b.convert("fptosi", small, "i32"), size.kind)
    rest = b.fused(n * -1.0, by, size) if b.has_fma else size - n * by
    return b.select(rest.lt(0.0), rest + by, rest), b.compare("ge", ratio, _LIMIT)

"""Short polynomials for exp, tanh, erf and softmax of float32, as loops; FastMathTransform's.

    exp x     2^n * (Taylor's polynomial of degree 6 at x - n ln 2), n the nearest to x / ln 2
    tanh x    1 - 2 / (exp 2x + 1), near 0 the first terms of its series
    erf x     Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26

What is lost: exp is right to 1e-6 of its value and stays within float32's normal numbers (it never
overflows to infinity); tanh and erf are right to 1e-6. NaN stays NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mlcnb import te
from mlcnb.ir.prim_ops import cast, const
from mlcnb.op._elementwise import elementwise
from mlcnb.tir.op.mathematics import reinterpret

#: ln 2 as a number of few digits and the rest, so that n ln 2 is taken off without rounding
_LN2 = (0.693359375, -2.12194440e-4)
#: between them 2^n is a normal number of float32
_RANGE = (-87.3, 88.376)
#: of 7.1.26: p, and a1 to a5
_P = 0.3275911
_A = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def _f(value: float) -> Any:
    return const(value, "float32")


def exp(x: Any) -> Any:
    """exp of a float32 expression."""
    inside = te.min(te.max(x, _f(_RANGE[0])), _f(_RANGE[1]))
    n = te.floor(inside * _f(1.4426950408889634) + _f(0.5))
    r = inside - n * _f(_LN2[0]) - n * _f(_LN2[1])
    sum_ = _f(1 / 720)
    for factorial in (120, 24, 6, 2, 1, 1):
        sum_ = sum_ * r + _f(1 / factorial)
    power = reinterpret("float32", (cast("int32", n) + 127) << 23)
    return te.Select(x.equal(x), power * sum_, x)


def tanh(x: Any) -> Any:
    """tanh of a float32 expression."""
    square = x * x
    near = x * (_f(1) + square * (_f(-1 / 3) + square * (_f(2 / 15) - square * _f(17 / 315))))
    return te.Select(te.abs(x) < _f(0.25), near, _f(1) - _f(2) / (exp(x * _f(2)) + _f(1)))


def erf(x: Any) -> Any:
    """erf of a float32 expression."""
    size = te.abs(x)
    t = _f(1) / (_f(1) + _f(_P) * size)
    sum_ = _f(_A[-1])
    for a in reversed(_A[:-1]):
        sum_ = sum_ * t + _f(a)
    found = _f(1) - sum_ * t * exp(_f(0) - x * x)
    return te.Select(x < _f(0), _f(0) - found, found)


def _softmax(x: Any, axis: int) -> Any:
    axis %= len(x.shape)
    kept = [d for i, d in enumerate(x.shape) if i != axis]

    def over(fold: Callable[..., Any], source: Any, name: str) -> Any:
        k = te.reduce_axis((0, x.shape[axis]), "k")
        read = lambda *i: fold(source(*i[:axis], k, *i[axis:]), axis=k)  # noqa: E731
        return te.compute(kept, read, name=name)

    high = over(te.max, x, "maxelem")
    e = te.compute(x.shape, lambda *i: exp(x(*i) - high(*i[:axis], *i[axis + 1 :])), name="exp")
    total = over(te.sum, e, "expsum")
    return te.compute(x.shape, lambda *i: e(*i) / total(*i[:axis], *i[axis + 1 :]), name="norm")


#: operator -> the name of its loops, and what makes them of a te tensor (and the call's attributes)
FAST: dict[str, tuple[str, Callable[..., Any]]] = {
    "relax.exp": ("fast_exp", partial(elementwise, exp, name="fast_exp")),
    "relax.tanh": ("fast_tanh", partial(elementwise, tanh, name="fast_tanh")),
    "relax.erf": ("fast_erf", partial(elementwise, erf, name="fast_erf")),
    "relax.nn.softmax": ("fast_softmax", _softmax),
}

"""Complex tensors of PyTorch: two real ones, and which functions import operators on them.

    a * b             Complex(a.re b.re - a.im b.im, a.re b.im + a.im b.re)
    a.transpose()     what moves or adds up elements does so to each part (`each_part`)

A spelling is asked for here in place of `mlcnb.op.torch` where an operator takes or makes a complex
tensor; it gets them as `Complex`, and makes one. Dtypes that nodes tell are those of the parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

from mlcnb.op._spell import Formula, filled
from mlcnb.op.torch import Spelling, TorchNode, torch_spelling_of
from mlcnb.relax.expr import Expr

_spellings: dict[str, Spelling] = {}
_each: set[str] = set()


@dataclass(frozen=True)
class Complex:
    """A complex tensor: its real and its imaginary part, of one shape and dtype."""

    re: Expr
    im: Expr

    def map(self, fn: Callable[[Expr], Any]) -> Complex:
        """The same done to both parts."""
        return Complex(fn(self.re), fn(self.im))


def mapped(fn: Callable[[Any], Any], x: Any) -> Any:
    """`fn` of a real value, or of both parts of a complex one."""
    return x.map(fn) if isinstance(x, Complex) else fn(x)


def complex_spelling(*targets: str) -> Callable[[Spelling], Spelling]:
    """Decorator: this function imports these operators where complex tensors are among them."""

    def keep(fn: Spelling) -> Spelling:
        _spellings.update(dict.fromkeys(targets, fn))
        return fn

    return keep


def each_part(*targets: str) -> None:
    """These operators do to each part what their real spelling does."""
    _each.update(targets)


def complex_spelling_of(target: str) -> Spelling | None:
    """The function that imports "aten.mul.Tensor" of complex tensors, or None."""
    short = target.rpartition(".")[0]
    found = _spellings.get(target) or _spellings.get(short)
    if found is None and (target in _each or short in _each):
        real = torch_spelling_of(target)
        return None if real is None else _of_parts(real)
    return found


def complex_spellings() -> tuple[str, ...]:
    """The names that are imported, sorted."""
    return tuple(sorted({*_spellings, *_each}))


@cache
def _of_parts(real: Spelling) -> Spelling:
    """A spelling that applies a real one to each part."""

    @wraps(real)
    def spell(n: TorchNode, *given: Any, **options: Any) -> Any:
        re, im = (
            real(n, *_part(list(given), name), **_part(options, name)) for name in ("re", "im")
        )
        if isinstance(re, tuple | list):
            return [None if a is None else Complex(a, b) for a, b in zip(re, im, strict=True)]
        return Complex(re, im)

    return spell


def _part(x: Any, name: str) -> Any:
    if isinstance(x, Complex):
        return getattr(x, name)
    if isinstance(x, dict):
        return {k: _part(v, name) for k, v in x.items()}
    return [_part(v, name) for v in x] if isinstance(x, list) else x


def as_complex(n: TorchNode, x: Any, kind: str) -> Complex:
    """A tensor or a number as a complex tensor with parts of `kind`."""
    if isinstance(x, Complex):
        return x.map(lambda v: n.tensor(v, kind))
    if isinstance(x, complex):
        return Complex(n.tensor(x.real, kind), n.tensor(x.imag, kind))
    re = n.tensor(x, kind)
    return Complex(re, filled(n, 0.0, n.dims(re), kind))


def complex_product(f: Formula, a: Complex, b: Complex) -> Complex:
    """The product of complex tensors."""
    re = f.subtract(f.multiply(a.re, b.re), f.multiply(a.im, b.im))
    return Complex(re, f.add(f.multiply(a.re, b.im), f.multiply(a.im, b.re)))

"""PyTorch spellings of operators on complex tensors, each of them two real ones (`_complex`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.op._complex import Complex, as_complex, complex_product, complex_spelling, each_part
from mlcnb.op._spell import call
from mlcnb.op._torch import Formula, cut, spread
from mlcnb.op.torch import TorchNode, torch_spelling_of
from mlcnb.relax.expr import Expr

each_part(
    *(
        f"aten.{name}"
        for name in (
            "view.default reshape _unsafe_view permute transpose t numpy_T mT swapaxes movedim "
            "flatten unflatten unsqueeze squeeze expand expand_as broadcast_to repeat tile view_as "
            "narrow slice select split split_with_sizes chunk unbind flip roll index.Tensor "
            "index_select gather unfold diagonal tril triu clone contiguous detach alias "
            "lift_fresh_copy resolve_conj resolve_neg positive neg zeros_like sum mean cumsum"
        ).split()
    )
)


@complex_spelling("aten.view_as_complex")
def pairs_as_complex(n: TorchNode, x: Expr) -> Complex:
    """The two numbers of the last dimension."""
    f, last = Formula(n), len(n.dims(x)) - 1
    re, im = (f.squeeze(n.emit(cut(x, last, i, i + 1)), [last]) for i in (0, 1))
    return Complex(re, im)


@complex_spelling("aten.view_as_real")
def complex_as_pairs(n: TorchNode, x: Complex) -> Expr:
    """Both parts, side by side in a new last dimension."""
    return call("relax.stack", [x.re, x.im], axis=len(n.dims(x.re)))


@complex_spelling("aten.complex")
def complex_of(n: TorchNode, re: Expr, im: Expr) -> Complex:
    """A number of its parts."""
    return Complex(*spread(n, re, im))


@complex_spelling("aten.polar")
def complex_of_polar(n: TorchNode, size: Expr, angle: Expr) -> Complex:
    """A number of its size and its angle."""
    f = Formula(n, n.result()[1])
    return Complex(f.multiply(size, f.cos(angle)), f.multiply(size, f.sin(angle)))


@complex_spelling("aten.real")
def real_part(n: TorchNode, x: Complex) -> Expr:
    """The real part."""
    return x.re


@complex_spelling("aten.imag")
def imaginary_part(n: TorchNode, x: Complex) -> Expr:
    """The imaginary part."""
    return x.im


@complex_spelling("aten.abs")
def complex_size(n: TorchNode, x: Complex) -> Expr:
    """The size, which overflows only where it is too large itself."""
    return _real(n, "aten.hypot.default", x.re, x.im)


@complex_spelling("aten.angle")
def complex_angle(n: TorchNode, x: Complex) -> Expr:
    """The angle, from -pi to pi."""
    return _real(n, "aten.atan2.default", x.im, x.re)


@complex_spelling("aten._conj", "aten.conj_physical", "aten._conj_physical", "aten.conj")
def conjugate(n: TorchNode, x: Complex) -> Complex:
    """The imaginary part negated."""
    return Complex(x.re, Formula(n).negative(x.im))


@complex_spelling("aten.exp")
def complex_exp(n: TorchNode, x: Complex) -> Complex:
    """e^re, turned by im."""
    return complex_of_polar(n, Formula(n).exp(x.re), x.im)


@complex_spelling("aten._to_copy", "aten.to")
def convert(n: TorchNode, x: Any) -> Any:
    """To another precision, from real numbers, and to them: the real part alone."""
    kind = n.result()[1]
    if n.is_complex():
        return as_complex(n, x, kind)
    return n.tensor(x.re, kind)


@complex_spelling("aten.add", "aten.sub")
def complex_sum(n: TorchNode, a: Any, b: Any, *, alpha: Any = 1) -> Complex:
    """Part by part; a real number has the imaginary part 0."""
    kind = n.result()[1]
    f, way = Formula(n, kind), "add" if "add" in n.target else "subtract"
    if alpha != 1:
        b = complex_product(f, as_complex(n, b, kind), as_complex(n, alpha, kind))
    x, y = as_complex(n, a, kind), as_complex(n, b, kind)
    return _spread(
        n, Complex(f.emit(f"relax.{way}", x.re, y.re), f.emit(f"relax.{way}", x.im, y.im))
    )


@complex_spelling("aten.mul")
def product(n: TorchNode, a: Any, b: Any) -> Complex:
    """The product; a real factor scales both parts."""
    kind = n.result()[1]
    f = Formula(n, kind)
    if not isinstance(a, Complex | complex):
        a, b = b, a
    x = as_complex(n, a, kind)
    if not isinstance(b, Complex | complex):
        scale = n.tensor(b, kind)
        return x.map(lambda v: f.multiply(v, scale))
    return complex_product(f, x, as_complex(n, b, kind))


@complex_spelling("aten.div.Tensor")
def quotient(n: TorchNode, a: Any, b: Any) -> Complex:
    """a conj(b) / |b|^2, where b is scaled so that its larger part is 1 before."""
    kind = n.result()[1]
    f = Formula(n, kind)
    x = as_complex(n, a, kind)
    if not isinstance(b, Complex | complex):
        scale = n.tensor(b, kind)
        return x.map(lambda v: f.divide(v, scale))
    y = as_complex(n, b, kind)
    largest = f.maximum(f.abs(y.re), f.abs(y.im))
    unit = y.map(lambda v: f.divide(v, largest))
    size = f.add(f.multiply(unit.re, unit.re), f.multiply(unit.im, unit.im))
    turned = complex_product(f, x, Complex(unit.re, f.negative(unit.im)))
    return turned.map(lambda v: f.divide(f.divide(v, size), largest))


@complex_spelling("aten.reciprocal")
def inverse(n: TorchNode, x: Complex) -> Complex:
    """1 / x."""
    return quotient(n, 1.0, x)


@complex_spelling("aten.eq", "aten.ne")
def equal(n: TorchNode, a: Any, b: Any) -> Expr:
    """Both parts are equal, or not."""
    kind = max(n.dtype(v.re) for v in (a, b) if isinstance(v, Complex))
    f, x, y = Formula(n), as_complex(n, a, kind), as_complex(n, b, kind)
    same = f.logical_and(f.equal(x.re, y.re), f.equal(x.im, y.im))
    return same if ".eq" in n.target else call("relax.logical_not", same)


@complex_spelling("aten.where.self")
def choose(n: TorchNode, condition: Expr, a: Any, b: Any) -> Complex:
    """One of two, by a condition."""
    kind = n.result()[1]
    f, x, y = Formula(n), as_complex(n, a, kind), as_complex(n, b, kind)
    return Complex(f.where(condition, x.re, y.re), f.where(condition, x.im, y.im))


@complex_spelling("aten.cat", "aten.concat", "aten.stack")
def join(n: TorchNode, tensors: Sequence[Any], dim: int = 0) -> Complex:
    """Each part joined; real tensors among them are complex ones."""
    found = [as_complex(n, x, n.result()[1]) for x in tensors]
    re, im = ([getattr(x, name) for x in found] for name in ("re", "im"))
    return Complex(_real(n, n.target, re, dim), _real(n, n.target, im, dim))


@complex_spelling("aten.constant_pad_nd")
def pad_with(n: TorchNode, x: Complex, pad: Sequence[Any], value: Any = 0) -> Complex:
    """Filled up by a number."""
    whole = complex(value)
    re = _real(n, n.target, x.re, pad, whole.real)
    return Complex(re, _real(n, n.target, x.im, pad, whole.imag))


@complex_spelling("aten.mm", "aten.bmm", "aten.matmul", "aten.mv", "aten.dot")
def matrix_product(n: TorchNode, a: Any, b: Any) -> Complex:
    """Four real products."""
    return _products(n, a, b, lambda x, y: _real(n, n.target, x, y))


@complex_spelling("aten.einsum")
def einsum(n: TorchNode, equation: str, tensors: Sequence[Any], *, path: Any = None) -> Complex:
    """Four real sums of products of two tensors."""
    if len(tensors) != 2:
        n.refuse(f"a sum of products of {len(tensors)} complex tensors", "multiply two at a time")
    a, b = tensors
    return _products(n, a, b, lambda x, y: _real(n, n.target, equation, [x, y]))


def _products(n: TorchNode, a: Any, b: Any, of: Any) -> Complex:
    f, kind = Formula(n), n.result()[1]
    x, y = as_complex(n, a, kind), as_complex(n, b, kind)
    re = f.subtract(of(x.re, y.re), of(x.im, y.im))
    return Complex(re, f.add(of(x.re, y.im), of(x.im, y.re)))


def _spread(n: TorchNode, x: Complex) -> Complex:
    return Complex(*spread(n, x.re, x.im))


def _real(n: TorchNode, target: str, *args: Any) -> Expr:
    """What the spelling of an operator on real tensors makes."""
    spell = torch_spelling_of(target)
    assert spell is not None, target
    found: Expr = n.emit(spell(n, *args))
    return found

"""What PyTorch spellings share: a formula's calls, axes, dtypes of results.

f = Formula(n, kind)
f.add(x, 1.0)               R.add(x, const(1.0, kind)), bound
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import as_int
from mlcnb.op import _spell
from mlcnb.op._dims import broadcast_dims, same, tell_dims
from mlcnb.op._spell import call
from mlcnb.op.torch import Spelling, TorchNode, torch_spelling
from mlcnb.relax.expr import Expr


class Formula(_spell.Formula):
    """Emits calls one after another; numbers among tensor arguments become constants of `kind`."""

    n: TorchNode

    def number(self, value: Any) -> Expr:
        """A constant, or a size, without dimensions."""
        return self.n.tensor(value, self.kind)


def wide(kind: str) -> str:
    """The dtype that a formula on `kind` is computed in: float32 for half precision."""
    found = dtype(kind)
    return "float32" if found.is_float and found.bits < 32 else kind


def formula(n: TorchNode, *xs: Any) -> tuple[Any, ...]:
    """A Formula in the dtype of the result (float32 for half precision), and operands in it."""
    kind = wide(n.result()[1])
    return Formula(n, kind), *(None if x is None else n.tensor(x, kind) for x in xs)


def torch_formula(*targets: str, kind: str | None = None) -> Callable[[Spelling], Spelling]:
    """Decorator: a spelling whose operands are in one dtype (see `formula`; `kind` says another),
    and whose value is rounded to PyTorch's; it takes the Formula in the place of the node.
    """

    def keep(make: Spelling) -> Spelling:
        @wraps(make)
        def spell(n: TorchNode, *operands: Any, **options: Any) -> Expr:
            f = Formula(n, kind or wide(n.result()[1]))
            return rounded(n, make(f, *(n.tensor(x, f.kind) for x in operands), **options))

        return torch_spelling(*targets)(spell)

    return keep


def as_lines(spell: Spelling) -> Spelling:
    """Decorator: a tensor without dimensions is a line of one element, as PyTorch takes it along a
    dimension; what comes out has the shape that PyTorch says.
    """

    @wraps(spell)
    def of_lines(n: TorchNode, *given: Any, **options: Any) -> Any:
        tensors = [x for x in given if isinstance(x, Expr)]
        if all(n.dims(x) for x in tensors):
            return spell(n, *given, **options)
        lines = {id(x): n.emit(call("relax.reshape", x, [1])) for x in tensors if not n.dims(x)}
        made = spell(n, *(lines.get(id(x), x) for x in given), **options)
        if isinstance(made, Expr):
            return call("relax.reshape", n.emit(made), list(n.result()[0]))
        return [
            x if x is None else call("relax.reshape", n.emit(x), list(n.result(i)[0]))
            for i, x in enumerate(made)
        ]

    return of_lines


def rounded(n: TorchNode, x: Expr, index: int = 0) -> Expr:
    """A value in the dtype that PyTorch says of the output."""
    return n.tensor(x, n.result(index)[1])


def cut(x: Expr, axis: int, begin: Any, end: Any, step: int = 1) -> Expr:
    """Python's begin:end:step along an axis."""
    return call("relax.strided_slice", x, (axis,), (begin,), (end,), (step,))


def axis_of(n: TorchNode, axis: int, rank: int) -> int:
    """An axis counted from the front; of a tensor without dimensions 0 and -1 do."""
    return axis % max(rank, 1)


def axes_of(n: TorchNode, axes: Any, rank: int) -> tuple[int, ...]:
    """Axes counted from the front; all of them for None and (as PyTorch reduces) for []."""
    if axes is None or axes == []:
        return tuple(range(rank))
    given: Sequence[int] = [axes] if isinstance(axes, int) else axes
    return tuple(a % max(rank, 1) for a in given)


def spread(n: TorchNode, *xs: Expr) -> tuple[Expr, ...]:
    """Tensors broadcast to the shape that they have together."""
    shapes = [n.dims(x) for x in xs]
    dims = broadcast_dims(shapes)
    if dims is None:
        n.refuse(f"{' and '.join(map(tell_dims, shapes))} are not known to broadcast")
    return tuple(
        x
        if len(have) == len(dims) and all(map(same, have, dims))
        else n.emit(call("relax.broadcast_to", x, list(dims)))
        for x, have in zip(xs, shapes, strict=True)
    )


def as_wide(n: TorchNode, x: Expr, want: Sequence[Any], axis: int) -> Expr:
    """x cut to the sizes of the indices in the other dimensions, as PyTorch reads it."""
    for i, (have, size) in enumerate(zip(n.dims(x), want, strict=True)):
        a, b = as_int(have), as_int(size)
        if i != axis and a is not None and b is not None and a > b:
            x = n.emit(call("relax.strided_slice", x, (i,), (0,), (b,), (1,)))
    return x

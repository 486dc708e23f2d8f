"""What declarations and spellings say about dimensions.

    dims, axes      axis_at(op, -1, 4) -> 3        same(n * 2, 2 * n)      differ(3, 4)
    infos           tensor(dims, dtype)            tell(info) -> "Tensor((n, 3), float32)"
    refusals        refuse(op, "…")                a TypeInferError that begins with the operator

A dimension is a Python int or a PrimExpr; a tensor whose dimensions are not known has `dims` None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, NoReturn

from mlcnb.arith import Analyzer, simplify
from mlcnb.core.errors import TypeInferError
from mlcnb.core.node import walk
from mlcnb.ir.expr import Call, IntImm, Max, PrimExpr, Select, Var
from mlcnb.ir.prim_ops import (
    as_expr,
    as_int,
    cast,
    equal,
    if_then_else,
    maximum,
    minimum,
    select,
)
from mlcnb.ir.structural import structural_equal
from mlcnb.relax.expr import tensor_info
from mlcnb.relax.operator import OpDecl
from mlcnb.relax.struct_info import ShapeStructInfo, TensorStructInfo


def refuse(op: OpDecl | type[OpDecl], message: str, hint: str | None = None) -> NoReturn:
    """Raise a TypeInferError that begins with the operator's name."""
    raise TypeInferError(f"{op.sugar}: {message}", hint=hint)


def tensor(dims: Sequence[Any] | None, dtype: Any, ndim: int = -1) -> TensorStructInfo:
    """Struct info of a tensor; `ndim` counts where the dimensions are not known."""
    return tensor_info(None if dims is None else [tidy(d) for d in dims], dtype, ndim)


def tidy(dim: Any) -> Any:
    """A dimension, simplified (its variables are >= 0): a Python int where it is one."""
    value = as_int(dim)
    if value is not None or isinstance(dim, Var):
        return dim if value is None else value
    simple = _simplified(as_expr(dim))
    value = as_int(simple)
    return simple if value is None else value


@lru_cache(1024)
def _simplified(dim: PrimExpr) -> PrimExpr:
    return simplify(dim, {v: (0, None) for v in walk(dim) if isinstance(v, Var)})


def same(a: Any, b: Any) -> bool:
    """True if the two dimensions are equal in every run."""
    return a is b or as_int(tidy(gap(a, b))) == 0


def differ(a: Any, b: Any) -> bool:
    """True if the two dimensions are different in every run; that they are equal is noted."""
    if a is b:
        return False
    known = as_int(tidy(gap(a, b)))
    if known is None:
        note(a, b)
    return known not in (None, 0)


def unfit(a: Sequence[Any] | None, b: Sequence[Any] | None) -> bool:
    """True if two shapes are different in every run (see `differ`); False of one not known."""
    if a is None or b is None:
        return False
    return len(a) != len(b) or any(map(differ, a, b))


def unlike(a: Any, b: Any) -> bool:
    """As `differ`, where nothing follows from it that they may be equal."""
    return a is not b and as_int(tidy(gap(a, b))) not in (None, 0)


def unlike_one(a: Any) -> bool:
    """True if the dimension is 1 in no run."""
    value = as_int(a)
    if value is not None:
        return value != 1
    made = as_expr(a)
    sizes = Analyzer({v: (0, None) for v in walk(made) if isinstance(v, Var)})
    return sizes.can_prove(made > 1) or sizes.can_prove(made < 1)


@dataclass(frozen=True)
class Agreement:
    """Two dimensions that an operator takes for equal, though only a run can tell.

    repeats: which of them may be 1 and is repeated then: "none", "a", or "either".
    """

    a: Any
    b: Any
    repeats: str


_noted: ContextVar[list[Agreement] | None] = ContextVar("noted", default=None)


@contextmanager
def noting() -> Iterator[list[Agreement]]:
    """Inside, what operators take for granted of open dimensions is added to the list."""
    found: list[Agreement] = []
    token = _noted.set(found)
    try:
        yield found
    finally:
        _noted.reset(token)


def note(a: Any, b: Any, repeats: str = "none") -> None:
    """`a` and `b` are taken for equal, or one of them for 1 (see `Agreement`)."""
    found = _noted.get()
    if found is not None:
        found.append(Agreement(a, b, repeats))


def exceeds(a: Any, b: Any) -> bool:
    """Whether `a` is more than `b`; where only a run can tell, that it is not is noted."""
    one, two = as_int(a), as_int(b)
    if one is None or two is None:
        if _noted.get() is not None:
            note(tidy(maximum(a, b)), b)
        return False
    return one > two


def want_within(op: Any, indices: TensorStructInfo, x: TensorStructInfo, axis: int) -> None:
    """Refuse indices along `axis` that have more of another dimension than `x`."""
    for i, (size, limit) in enumerate(zip(indices.dims or (), x.dims or (), strict=False)):
        if i != axis and exceeds(size, limit):
            refuse(op, f"dimension {i} of {tell(indices)} is larger than in {tell(x)}")


def gap(a: Any, b: Any) -> Any:
    """a - b; two ints are not made into expressions."""
    one, two = as_int(a), as_int(b)
    if one is not None and two is not None:
        return one - two
    return _gap(as_expr(a), as_expr(b))


@lru_cache(1024)
def _gap(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return a - b


def product(dims: Iterable[Any]) -> Any:
    """The product of dimensions: an int where all are."""
    result: Any = 1
    for dim in dims:
        value = as_int(dim)
        result = result * (dim if value is None else value)
    return result


def ints(dims: Sequence[Any]) -> tuple[int, ...] | None:
    """The dimensions as Python ints, or None where one is symbolic."""
    values = tuple(as_int(d) for d in dims)
    return None if None in values else values  # type: ignore[return-value]


def size(info: TensorStructInfo) -> Any:
    """How many elements a tensor has, or None where that is not known."""
    return None if info.dims is None else tidy(product(info.dims))


def tell(info: Any) -> str:
    """`Tensor((n, 3), float32)`: a struct info for an error message."""
    if isinstance(info, TensorStructInfo):
        shape = f"ndim={info.ndim}" if info.dims is None else tell_dims(info.dims)
        return f"Tensor({shape}, {info.dtype or 'unknown dtype'})"
    if isinstance(info, ShapeStructInfo):
        values = f"ndim={info.ndim}" if info.values is None else tell_dims(info.values)
        return f"Shape({values})"
    return type(info).__name__.removesuffix("StructInfo")


def tell_dims(dims: Iterable[Any]) -> str:
    """`(n, 3)`: dimensions for an error message."""
    parts = [tell_dim(d) for d in dims]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def tell_dim(dim: Any) -> str:
    """`n` or `3`: one dimension for an error message."""
    match dim:
        case IntImm(value):
            return str(value)
        case Var(name):
            return name
        case _:
            return repr(dim)


def axis_at(op: OpDecl, axis: int, ndim: int, info: Any = None) -> int:
    """`axis` counted from the front, for a tensor of `ndim` dimensions."""
    if not -ndim <= axis < ndim:
        of = f" of {tell(info)}" if info is not None else ""
        refuse(op, f"axis {axis} is outside of the {ndim} dimensions{of}")
    return axis % ndim


def want_axis(op: Any, info: Any) -> None:
    """Refuse an `axis` of the operator that is outside of a tensor of known rank."""
    if info.ndim != -1:
        axis_at(op, op.axis, info.ndim, info)


def axes_at(op: OpDecl, axes: Iterable[int], ndim: int, info: Any = None) -> tuple[int, ...]:
    """Axes counted from the front; none may occur twice."""
    found = tuple(axis_at(op, a, ndim, info) for a in axes)
    if len(set(found)) != len(found):
        refuse(op, f"axes {tuple(axes)} name a dimension twice")
    return found


def want_rank(op: OpDecl, what: str, info: TensorStructInfo, *ranks: int) -> None:
    """Refuse a tensor that is known to have another number of dimensions."""
    if info.ndim not in (-1, *ranks):
        wanted = " or ".join(map(str, ranks))
        refuse(op, f"{what} must have {wanted} dimensions, but is {tell(info)}")


def want_same_dtype(op: OpDecl, **infos: TensorStructInfo | None) -> None:
    """Refuse tensors whose known dtypes differ; the keywords are their names in the declaration."""
    known = {name: info for name, info in infos.items() if info is not None and info.dtype}
    kinds = {info.dtype for info in known.values()}
    if len(kinds) > 1:
        listed = " and ".join(f"{name} is {tell(info)}" for name, info in known.items())
        refuse(op, f"the tensors must have one dtype, but {listed}", hint="use astype on one")


def one_dtype(*infos: Any) -> Any:
    """The dtype that all have; None where one is not known."""
    return None if any(i.dtype is None for i in infos) else infos[0].dtype


def broadcast(op: OpDecl, *infos: TensorStructInfo) -> tuple[Any, ...] | None:
    """The dimensions that tensors have together by NumPy's broadcasting; None where not known."""
    if any(info.dims is None for info in infos):
        return None
    shapes = [list(info.dims or ()) for info in infos]
    result = broadcast_dims(shapes)
    if result is None:
        listed = " and ".join(tell(info) for info in infos)
        refuse(op, f"the shapes of {listed} do not broadcast")
    return result


def broadcast_dims(shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...] | None:
    """Dimensions broadcast together, or None where they cannot be."""
    result: list[Any] = []
    for back in range(1, max(map(len, shapes), default=0) + 1):
        dim: Any = 1
        for shape in shapes:
            if back <= len(shape):
                dim = together(dim, shape[-back])
            if dim is None:
                return None
        result.insert(0, dim)
    return tuple(result)


def together(a: Any, b: Any) -> Any:
    """What two dimensions broadcast to, or None where they cannot.

    Of two open ones that are not known to be equal one may be 1 when the program runs.
    """
    if as_int(a) == 1 or a is b:
        return b
    if as_int(b) == 1:
        return a
    known = as_int(tidy(gap(a, b)))
    if known == 0:
        return b if as_int(b) is not None else a
    note(a, b, repeats="either")
    if unlike_one(a):
        return None if known is not None and unlike_one(b) else a
    return b if unlike_one(b) else _larger([*_parts(a), *_parts(b)])


def repeats(dim: Any, size: Any) -> bool:
    """False where a dimension can neither be repeated to a size nor has it already."""
    if as_int(dim) == 1 or same(dim, size):
        return True
    note(dim, size, repeats="a")
    return not (unlike(dim, size) and unlike_one(dim))


def _larger(parts: Sequence[Any]) -> Any:
    """The largest of dimensions of which some are 1 and the others equal; 0 where one is 0."""
    most, least = reduce(maximum, parts), reduce(minimum, parts)
    return tidy(select(equal(least, 0), 0, most))


@lru_cache(256)
def _parts(dim: Any) -> list[Any]:
    """The dimensions that `_larger` made one of: it stays as long as they are many.

    A maximum that simplification wrote in another way has other parts, that are no dimensions.
    """
    if not isinstance(dim, Select) or as_int(dim.true_value) != 0:
        return [dim]
    found = _operands(dim)
    return found if structural_equal(_larger(found), dim) else [dim]


def _operands(dim: Select) -> list[Any]:
    """What the largest is taken of."""
    found: list[Any] = []
    stack = [dim.false_value]
    while stack:
        n = stack.pop()
        if isinstance(n, Max):
            stack += [n.b, n.a]
        else:
            found.append(n)
    return found


def broadcast_index(
    index: Sequence[Any], shape: Sequence[Any], out: Sequence[Any]
) -> tuple[Any, ...]:
    """Where to read a tensor of `shape` for position `index` of `out`, which it is broadcast to."""
    lead = len(out) - len(shape)
    return tuple(_step(index[lead + at], dim, out[lead + at]) for at, dim in enumerate(shape))


def _step(i: Any, dim: Any, out: Any) -> Any:
    if as_int(dim) is not None:
        return 0 if as_int(dim) == 1 and as_int(out) != 1 else i
    if same(dim, out):
        return i
    at = if_then_else(equal(dim, 1), 0, i)  # else it has to be as large as the result
    return Call(at.dtype, "tir.check_index", (at, cast(at.dtype, dim)))


def ravel(index: Sequence[Any], dims: Sequence[Any]) -> Any:
    """The row-major position of an index."""
    flat: Any = 0
    for i, d in zip(index, dims, strict=True):
        flat = flat * d + i
    return flat


def unravel(flat: Any, dims: Sequence[Any]) -> tuple[Any, ...]:
    """The index at a row-major position."""
    found: list[Any] = []
    for place in range(len(dims) - 1, -1, -1):
        d = dims[place]
        if as_int(d) == 1:
            found.insert(0, 0)
            continue
        first = all(as_int(x) == 1 for x in dims[:place])
        found.insert(0, flat if first else flat % d)
        flat = flat // d
    return tuple(found)

"""What ONNX spellings share: formulas, dtypes, inputs that once were attributes, shapes.

axes_of(n, x)            axes as ints, from an attribute or from an input
shape_of(n, x, "shape")  a shape-valued input, symbolic where it is
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import Parameter, Signature
from typing import Any

import numpy as np

from mlcnb.core.errors import UnsupportedDtypeError
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import tell_dims, tidy
from mlcnb.op.onnx import ForeignNode, OnnxNode, onnx
from mlcnb.op.torch import TorchNode
from mlcnb.relax.expr import Expr, PrimValue, const
from mlcnb.relax.operator import declaration, make_call

#: dimensions of a tensor, as in NumPy
MAX_NDIM = 64
#: elements of a constant that a spelling computes
MAX_COMPUTED = 1 << 24
#: the dtypes of ONNX by number (TensorProto.DataType):
#: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
NAMES = (
    "undefined float32 uint8 int8 uint16 int16 int32 int64 string bool float16 float64 uint32 "
    "uint64 complex64 complex128 bfloat16 float8_e4m3fn float8_e4m3fnuz float8_e5m2 "
    "float8_e5m2fnuz uint4 int4 float4_e2m1fn float8_e8m0fnu uint2 int2 float6_e2m3fn "
    "float6_e3m2fn"
).split()
_WORDS = {"FLOAT": "float32", "DOUBLE": "float64"}


def call(op: str, *args: Any, **attrs: Any) -> Any:
    """A call of an operator by its full name, such as "relax.add"."""
    return make_call(declaration(op), *args, **attrs)


class Formula:
    """Emits calls one after another: `f.add(x, 1.0)` is a bound R.add(x, const(1.0, kind)).

    kind: the dtype that numbers among tensor arguments become constants of.
    """

    def __init__(self, n: ForeignNode, kind: str = "") -> None:
        self.n: Any = n
        self.kind = kind

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **attrs: self.emit(f"relax.{name}", *args, **attrs)

    def nn(self, name: str, *args: Any, **attrs: Any) -> Expr:
        """A call of R.nn."""
        return self.emit(f"relax.nn.{name}", *args, **attrs)

    def emit(self, name: str, *args: Any, **attrs: Any) -> Expr:
        """A call, bound."""
        wanted = list(declaration(name).arguments.values())
        given = [
            self.number(x) if k == "Tensor" and isinstance(x, int | float | PrimExpr) else x
            for x, k in zip(args, wanted, strict=False)
        ]
        return self.n.emit(call(name, *given, *args[len(given) :], **attrs))

    def size_of(self, dim: Any, kind: str = "int64") -> Expr:
        """A dimension as a tensor without dimensions: a constant where it is known."""
        known = as_int(dim)
        if known is not None:
            return const(known, kind)
        made = self.reshape(self.shape_to_tensor([dim]), [])
        return made if kind == "int64" else self.astype(made, dtype=kind)

    def counted(self, size: Any) -> Expr:
        """0, 1, 2, … of so many, which may be open, in int64."""
        stop = as_int(size)
        return self.arange(0, PrimValue(size) if stop is None else stop, 1, dtype="int64")

    def number(self, value: Any) -> Expr:
        """A constant without dimensions."""
        return const(np.array(value), self.kind)


def spelled_as(op_type: str, decl: Any, since: int = 1) -> None:
    """ONNX's operator is this one, of the same inputs, without attributes."""

    def import_same(n: OnnxNode, *inputs: Expr) -> Expr:
        return make_call(decl, *inputs)

    import_same.__doc__ = f"{decl.sugar}: {decl.__doc__}"
    import_same.__module__ = decl.__module__
    takes = (Parameter(name, Parameter.POSITIONAL_ONLY) for name in ("n", *decl.arguments))
    import_same.__signature__ = Signature([*takes])  # type: ignore[attr-defined]
    onnx(op_type, since)(import_same)


def spatial_axes(n: OnnxNode, x: Expr) -> tuple[int, ...]:
    """All axes of (N, C, …) but the first two."""
    return tuple(range(2, len(n.dims(x))))


def want_sizes(n: OnnxNode, condition: Any, why: str) -> None:
    """Refuse a condition on sizes that no run meets; what only a run can tell is checked there."""
    holds = as_int(tidy(condition))
    if holds is None:
        n.assume(condition, True)
    elif not holds:
        n.refuse(why)


def filled(n: ForeignNode, value: float, dims: Iterable[Any], kind: str) -> Expr:
    """A tensor full of one number."""
    return n.emit(call("relax.broadcast_to", const(value, kind), list(dims)))


def in_float32(build: Callable[[OnnxNode, Expr], Expr]) -> Callable[[OnnxNode, Expr], Expr]:
    """Decorator of a formula: half precision is computed in float32 and rounded once."""

    @wraps(build)
    def run(n: OnnxNode, x: Expr) -> Expr:
        kind = dtype(n.dtype(x))
        if not kind.is_float or kind.bits >= 32:
            return build(n, x)
        wide = n.emit(call("relax.astype", x, dtype="float32"))
        return call("relax.astype", n.emit(build(n, wide)), dtype=str(kind))

    return run


def ints_of(n: OnnxNode, x: Expr | None, name: str) -> tuple[int, ...] | None:
    """Constant integers, from the input `x` or the attribute `name`; None: neither is there."""
    if x is not None:
        return tuple(int(v) for v in np.reshape(n.constant(x, name), -1))
    given = n.attr(name)
    if given is None:
        return None
    return tuple(given) if isinstance(given, tuple) else (given,)


def axes_of(n: OnnxNode, x: Expr | None, name: str = "axes") -> tuple[int, ...] | None:
    """Axes, from the input `x` or the attribute `name`; None where neither is given."""
    found = ints_of(n, x, name)
    if found is not None:
        _want_few(n, len(found), name)
    return found


def place_of(n: OnnxNode, axis: int, dims: Sequence[Any]) -> int:
    """The axis of a tensor of these dimensions, counted from the front."""
    if not -len(dims) <= axis < len(dims):
        n.refuse(f"axis {axis} is outside of {tell_dims(dims)}")
    return axis % len(dims)


def places_of(n: OnnxNode, axes: Iterable[int], dims: Sequence[Any]) -> tuple[int, ...]:
    """Axes counted from the front; none may occur twice."""
    given = tuple(axes)
    found = tuple(place_of(n, axis, dims) for axis in given)
    if len(set(found)) != len(found):
        n.refuse(f"axes {given} name a dimension twice")
    return found


def shape_of(n: OnnxNode, x: Expr | None, name: str) -> list[Any]:
    """A shape-valued input (or attribute `name`): Python ints, and PrimExprs where symbolic.

    What only a run knows becomes symbols of that run: it stops where one is negative.
    """
    if x is None:
        values = n.require(name)
    else:
        known = n.known(x)
        values = n.lengths(x, name) if known is None else list(np.reshape(known, -1))
    _want_few(n, len(values), name)
    return [_dim(v) for v in values]


def _want_few(n: OnnxNode, count: int, name: str) -> None:
    """Refuse more axes than a tensor can have."""
    if count > MAX_NDIM:
        n.refuse(f"{name} has {count} entries: no tensor has more than {MAX_NDIM} dimensions")


def affordable(n: OnnxNode | TorchNode, what: str, *dims: int) -> None:
    """Refuse constants of these dimensions, which the spelling would compute, as too large."""
    if min(dims, default=0) < 0 or math.prod(dims) > MAX_COMPUTED:
        n.refuse(f"{what} would take constants of {dims} elements")


def _dim(value: Any) -> Any:
    if not isinstance(value, PrimExpr):
        return int(value)
    whole = as_int(value)
    return value if whole is None else whole


def scalar_of(n: OnnxNode, x: Expr | None, name: str, default: Any = None) -> Any:
    """A constant number, from the input `x` or the attribute `name`."""
    if x is None:
        return n.attr(name, default)
    values = np.reshape(n.constant(x, name), -1)
    if len(values) != 1:
        n.refuse(f"{name} has {len(values)} elements, it must be one number")
    return values[0].item()


def finite_of(n: OnnxNode, x: Expr | None, name: str, default: Any = None) -> Any:
    """As scalar_of, for a number that is neither infinite nor NaN."""
    value = scalar_of(n, x, name, default)
    if not math.isfinite(value):
        n.refuse(f"{name} is {value}")
    return value


def dtype_of(n: OnnxNode, attribute: str, default: str | DType | None = None) -> DType:
    """The dtype that an attribute names, by number (in the first opset: by word).

    Where the attribute is missing or 0 it is `default`; without one that is an error.
    """
    given = n.attr(attribute) if default is not None else n.require(attribute)
    if not given:
        return dtype(str(default))
    if isinstance(given, str):
        name = _WORDS.get(given.upper(), given.lower())
    elif 0 < given < len(NAMES):
        name = NAMES[given]
    else:
        n.refuse(f"attribute {attribute} is {given}, which is no dtype")
    try:
        return dtype(name)
    except UnsupportedDtypeError:
        n.refuse(f"dtype {name} is not supported")

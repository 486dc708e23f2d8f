"""Shapes at run time: symbolic dimensions are bound from the inputs, and everything is checked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from mlcnb.core.errors import ExecutionError, RuntimeInputError
from mlcnb.core.node import walk
from mlcnb.core.text import kind_of
from mlcnb.ir import expr as e
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr
from mlcnb.ir.folding import NUMBERS
from mlcnb.ir.prim_ops import as_int
from mlcnb.relax import expr as rx
from mlcnb.relax.numpy_call import scalar_of
from mlcnb.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

#: values of symbolic variables
Dims = dict[e.Var, int]


def evaluate(x: Any, dims: Mapping[e.Var, int]) -> int:
    """The integer value of a dimension.

    Raises:
        ExecutionError: a symbolic variable has no value, or a division by zero.
    """
    if isinstance(x, int):
        return x
    if isinstance(x, e.IntImm):
        return x.value
    if isinstance(x, e.Var):
        if x not in dims:
            raise ExecutionError(f"the size {x.name!r} is not known where it is needed")
        return dims[x]
    if isinstance(x, e.Cast):
        return evaluate(x.value, dims)
    if isinstance(x, e.Not):
        return int(not evaluate(x.a, dims))
    if isinstance(x, e.Select):
        chosen = x.true_value if evaluate(x.condition, dims) else x.false_value
        return evaluate(chosen, dims)
    if isinstance(x, e.Call) and x.op == "tir.if_then_else":
        condition, yes, no = x.args
        return evaluate(yes if evaluate(condition, dims) else no, dims)
    return _binary(x, dims)


def open_sizes(signature: Any, dims: Mapping[e.Var, int]) -> list[int]:
    """What a kernel is told of the sizes that its code leaves open.

    Raises:
        ExecutionError: one that is not in `dims`.
    """
    return [*(evaluate(dim, dims) for dim in signature.dims), *signature.sizes]


def literal(x: Any, dims: Mapping[e.Var, int]) -> Any:
    """The value of a PrimValue, of a StringImm or of a DataTypeImm."""
    value = x.value
    if not isinstance(value, PrimExpr):
        return value
    return float(value) if value.dtype.is_float else evaluate(value, dims)  # type: ignore[arg-type]


def _binary(x: PrimExpr, dims: Mapping[e.Var, int]) -> int:
    function = NUMBERS.get(type(x))
    if function is None:
        raise ExecutionError(f"a size cannot be computed from {x!r}")
    a, b = evaluate(x.a, dims), evaluate(x.b, dims)  # type: ignore[attr-defined]
    if b == 0 and isinstance(x, e.FloorDiv | e.FloorMod):
        raise ExecutionError(f"division by zero in the size {x!r}")
    return int(function(a, b))


def shape_of(info: TensorStructInfo, dims: Mapping[e.Var, int]) -> tuple[int, ...]:
    """The concrete shape of a tensor's struct info."""
    if info.dims is None:
        raise ExecutionError(
            "the shape of a tensor is not known before it is computed",
            hint="name what decides it, such as the axes of R.squeeze",
        )
    shape = tuple(evaluate(d, dims) for d in info.dims)
    if any(d < 0 for d in shape):
        raise ExecutionError(f"a tensor would have the shape {shape}")
    return shape


@dataclass(frozen=True)
class Deferred:
    """A length that cannot be checked yet, because the sizes it is made of are not bound."""

    got: int
    expected: PrimExpr
    axis: int
    shape: tuple[int, ...]
    wanted: tuple[PrimExpr, ...]
    name: str

    def check(self, dims: Dims) -> None:
        """Check it now; what is still not bound is left."""
        if not _free(self.expected, dims) and evaluate(self.expected, dims) != self.got:
            raise RuntimeInputError(
                f"{self.name}: dimension {self.axis} is {self.got}, "
                f"expected {evaluate(self.expected, dims)} "
                f"(shape {self.shape} against {_text(self.wanted)})"
            )


@dataclass(frozen=True)
class DeferredScalar:
    """A scalar that cannot be checked yet, because the sizes that it is made of are not bound."""

    got: Any
    expected: PrimExpr
    name: str

    def check(self, dims: Dims) -> None:
        """Check it now; what is still not bound is left."""
        if _free(self.expected, dims):
            return
        wanted = scalar_of(self.expected, dims)
        if wanted != self.got:
            known = isinstance(self.expected, e.IntImm | e.FloatImm)
            of = "" if known else f"{self.expected} = "
            raise RuntimeInputError(f"{self.name} is {self.got}, expected {of}{wanted}")


def match(value: Any, info: StructInfo | None, dims: Dims, name: str) -> None:
    """Check a value against its struct info, binding symbolic dimensions that are still free.

    Raises:
        RuntimeInputError: wrong kind, dtype, rank or length, naming the value and what is expected.
    """
    match_all([(value, info, name)], dims)


def match_all(values: Iterable[tuple[Any, StructInfo | None, str]], dims: Dims) -> None:
    """`match` for several (value, struct info, name): sizes that one binds are checked in all.

    Raises:
        RuntimeInputError: as `match`.
    """
    matching = _Matching(dims)
    for value, info, name in values:
        matching.value(value, info, name)
    matching.finish()


def match_shapes(
    shapes: Iterable[tuple[tuple[int, ...], tuple[PrimExpr, ...], str]], dims: Dims
) -> None:
    """`match_all` for several (shape, dimensions, name)."""
    matching = _Matching(dims)
    for shape, wanted, name in shapes:
        matching.shape(shape, wanted, name)
    matching.finish()


class _Matching:
    """Values against what is said of them: a size that is still free is bound by the first one."""

    def __init__(self, dims: Dims) -> None:
        self.dims = dims
        #: what cannot be checked before other values bind the sizes that it is made of
        self.later: list[Deferred | DeferredScalar] = []

    def finish(self) -> None:
        """Check what had to wait."""
        for deferred in self.later:
            deferred.check(self.dims)

    def value(self, value: Any, info: StructInfo | None, name: str) -> None:
        """Check a value of any kind."""
        if isinstance(info, TensorStructInfo):
            self._tensor(value, info, name)
        elif isinstance(info, TupleStructInfo):
            if not isinstance(value, tuple | list) or len(value) != len(info.fields):
                raise RuntimeInputError(f"{name}: expected a tuple of {len(info.fields)} values")
            for i, (item, field) in enumerate(zip(value, info.fields, strict=True)):
                self.value(item, field, f"{name}[{i}]")
        elif isinstance(info, ShapeStructInfo) and info.values is not None:
            self.shape(tuple(value), info.values, name)
        elif isinstance(info, PrimStructInfo):
            self._scalar(value, info, name)

    def _tensor(self, value: Any, info: TensorStructInfo, name: str) -> None:
        if not isinstance(value, np.ndarray) and not hasattr(value, "__cuda_array_interface__"):
            raise RuntimeInputError(f"{name}: expected a tensor, got {type(value).__name__}")
        if info.dtype is not None and value.dtype != info.dtype.numpy:
            raise RuntimeInputError(
                f"{name}: expected dtype {info.dtype}, got {value.dtype}",
                hint=f"convert it first: x.astype({str(info.dtype)!r})",
            )
        if info.dims is not None:
            self.shape(value.shape, info.dims, name)
        elif info.ndim >= 0 and value.ndim != info.ndim:
            raise RuntimeInputError(
                f"{name}: expected {info.ndim} dimensions, got shape {value.shape}"
            )

    def shape(self, shape: tuple[int, ...], wanted: tuple[PrimExpr, ...], name: str) -> None:
        """Check the lengths of a shape against dimensions."""
        if len(shape) != len(wanted):
            raise RuntimeInputError(
                f"{name}: expected {len(wanted)} dimensions {_text(wanted)}, "
                f"got shape {tuple(shape)}"
            )
        for axis, (got, expected) in enumerate(zip(shape, wanted, strict=True)):
            if got < 0:
                raise RuntimeInputError(f"{name}: dimension {axis} of a shape would be {got}")
            if isinstance(expected, e.Var) and self.dims.get(expected) == got:
                continue
            if isinstance(expected, e.Var) and expected not in self.dims:
                if not expected.dtype.holds(got):
                    raise RuntimeInputError(
                        f"{name}: dimension {axis} is {got}, which {expected.name!r}, an "
                        f"{expected.dtype}, cannot hold (shape {tuple(shape)})",
                        hint="declare the size as T.int64()",
                    )
                self.dims[expected] = int(got)
                continue
            if isinstance(expected, e.IntImm) and expected.value == got:
                continue
            self._check(Deferred(got, expected, axis, tuple(shape), wanted, name))

    def _scalar(self, value: Any, info: PrimStructInfo, name: str) -> None:
        """A number of the dtype, and the value that the struct info says."""
        kind, expected = info.dtype, info.value
        if not is_number_of(value, kind):
            raise RuntimeInputError(f"{name}: expected a number of {kind}, got {_kind_of(value)}")
        found = value[()] if isinstance(value, np.ndarray) else value
        if isinstance(expected, e.Var) and expected not in self.dims:
            if not kind.is_float:
                self.dims[expected] = int(found)
        elif expected is not None:
            self._check(DeferredScalar(found, expected, name))

    def _check(self, deferred: Deferred | DeferredScalar) -> None:
        """Check it now, or when the sizes that it is made of are bound."""
        if _free(deferred.expected, self.dims):
            self.later.append(deferred)
        else:
            deferred.check(self.dims)


def is_number_of(value: Any, kind: DType) -> bool:
    """True for a number, or an array of shape (), that a scalar of that dtype can be."""
    found = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if kind.is_float:
        return isinstance(found, Real | np.generic)
    if not (kind.is_integer or kind.is_bool):
        return True
    whole = isinstance(found, Integral | np.bool_)
    return whole and (kind.is_bool or kind.holds(int(found)))


def _kind_of(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape:
        return f"a tensor of shape {tuple(shape)}"
    return str(value) if isinstance(value, Real | np.generic) else kind_of(value)


def is_size_check(binding: rx.MatchCast, known: Collection[e.Var]) -> bool:
    """True for a cast of sizes to sizes that names none but those that are known."""
    info = binding.struct_info
    if not isinstance(binding.value, rx.ShapeExpr) or not isinstance(info, ShapeStructInfo):
        return False
    dims = (*binding.value.values, *(info.values or ()))
    return info.values is not None and not any(_free(d, known) for d in dims)


def check_sizes(binding: rx.MatchCast, dims: Mapping[e.Var, int]) -> None:
    """Check sizes that are known against what they have to be.

    Raises:
        ExecutionError: naming the node, the size, and what it has to be.
    """
    given, wanted = binding.value.values, binding.struct_info.values  # type: ignore[attr-defined]
    if len(given) != len(wanted):
        raise ExecutionError(f"{binding.var.name_hint}: {len(given)} sizes, not {len(wanted)}")
    for dim, other in zip(given, wanted, strict=True):
        if evaluate(dim, dims) != evaluate(other, dims):
            raise ExecutionError(
                f"{_place(binding.var)}{binding.var.name_hint} is {_told(dim, dims)}, but has to "
                f"be {_wanted(other, dim, dims)}",
                hint="these dimensions are open in the program: call it with sizes that agree",
            )


def _place(var: rx.Var) -> str:
    """`node 'add1' (Add): `, where a variable remembers it."""
    return f"node {var.span.name!r} ({var.span.kind}): " if var.span is not None else ""


def _wanted(dim: Any, given: Any, dims: Mapping[e.Var, int]) -> str:
    """What a size has to be: `given == 1 or wanted == 1 ? given : wanted` where it is repeated."""
    if not isinstance(dim, e.Select):
        return _told(dim, dims)
    itself = isinstance(dim.condition, e.EQ) and dim.condition.a is given
    return f"{_told(dim.false_value, dims)}, or {'1' if itself else 'one of the two 1'}"


def _told(dim: Any, dims: Mapping[e.Var, int]) -> str:
    """`5`, or `n + 2 = 5`."""
    value = evaluate(dim, dims)
    return str(value) if as_int(dim) is not None else f"{dim} = {value}"


def _free(x: Any, dims: Collection[e.Var]) -> bool:
    return any(isinstance(n, e.Var) and n not in dims for n in walk(x))


def _text(dims: tuple[PrimExpr, ...]) -> str:
    return f"({', '.join(str(d if as_int(d) is None else as_int(d)) for d in dims)})"

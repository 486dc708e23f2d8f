"""Relations between struct infos: same, implied by, joined, erased, substituted.

same_info(a, b)                 equal in every run (dimensions proved by arith)
same_known(a, b)                … and tensors of known shape: one may stand for the other
struct_info_base_check(a, b)    does every value of b belong to a?
struct_info_lca(a, b)           the narrowest info that both belong to
erase_to_well_defined(a, vars)  dimensions that mention other variables are forgotten
return_info(params, a)          … and what only the inside of a function knows
substitute(a, {n: 4})           symbolic variables replaced
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from math import prod
from typing import Any

from mlcnb.core.errors import ArgumentError
from mlcnb.core.node import Node, map_children, replace, visit
from mlcnb.ir.expr import IntImm, PrimExpr, Var
from mlcnb.ir.structural import structural_equal
from mlcnb.relax.expr import Expr, PrimValue, ShapeExpr, shape_expr
from mlcnb.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)


class BaseCheckResult(IntEnum):
    """How sure it is that a value belongs to a struct info.

    FAIL_L0: never; FAIL_L1: not by the static part alone; FAIL_L2: only a check at run time can
    tell; PASS: always."""

    FAIL_L0 = 0
    FAIL_L1 = 1
    FAIL_L2 = 2
    PASS = 3


def same_dim(a: PrimExpr, b: PrimExpr) -> bool:
    """True if two dimensions are equal in every run."""
    if a is b:
        return True
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    if isinstance(a, IntImm | Var) and isinstance(b, IntImm | Var):
        return False
    return structural_equal(a, b) or _proved(a, b)


def _proved(a: PrimExpr, b: PrimExpr) -> bool:
    from mlcnb.arith import simplify

    difference = simplify(a - b)
    return isinstance(difference, IntImm) and difference.value == 0


def same_dims(a: Iterable[PrimExpr], b: Iterable[PrimExpr]) -> bool:
    """True if two shapes are equal in every run."""
    one, two = tuple(a), tuple(b)
    return len(one) == len(two) and all(map(same_dim, one, two))


def of_one_shape(x: Any, y: Any) -> bool:
    """True for two values whose shapes are known, and equal in every run."""
    a, b = (getattr(v.struct_info, "dims", None) for v in (x, y))
    return a is not None and b is not None and same_dims(a, b)


def same_info(a: Any, b: Any) -> bool:
    """True if two struct infos say the same (None: nothing known, only equal to None)."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    compare = _SAME.get(type(a))
    return structural_equal(a, b) if compare is None else compare(a, b)


def same_known(a: Any, b: Any) -> bool:
    """True for two tensors of one dtype whose shapes are known, and equal in every run."""
    return isinstance(a, TensorStructInfo) and a.dims is not None and same_info(a, b)


def _same_tensor(a: TensorStructInfo, b: TensorStructInfo) -> bool:
    if a.dtype != b.dtype or a.ndim != b.ndim or a.vdevice != b.vdevice:
        return False
    if a.dims is None or b.dims is None:
        return a.shape is b.shape
    return same_dims(a.dims, b.dims)


def _same_shape(a: ShapeStructInfo, b: ShapeStructInfo) -> bool:
    if a.values is None or b.values is None:
        return a.values is b.values and a.ndim == b.ndim
    return same_dims(a.values, b.values)


def _same_tuple(a: TupleStructInfo, b: TupleStructInfo) -> bool:
    return len(a.fields) == len(b.fields) and all(map(same_info, a.fields, b.fields))


_SAME: dict[type, Any] = {
    TensorStructInfo: _same_tensor,
    ShapeStructInfo: _same_shape,
    TupleStructInfo: _same_tuple,
    ObjectStructInfo: lambda a, b: True,
}


def struct_info_base_check(base: StructInfo, derived: StructInfo) -> BaseCheckResult:
    """Whether every value of `derived` belongs to `base`; as TVM's function of that name."""
    if isinstance(base, ObjectStructInfo):
        return BaseCheckResult.PASS
    if isinstance(derived, ObjectStructInfo):
        return BaseCheckResult.FAIL_L1
    check = _CHECKS.get(type(base))
    if check is None or type(base) is not type(derived):
        return BaseCheckResult.FAIL_L0
    return check(base, derived)


def _check_tensor(base: TensorStructInfo, derived: TensorStructInfo) -> BaseCheckResult:
    kind = _check_known(base.dtype, derived.dtype, None)
    rank = _check_known(base.ndim, derived.ndim, -1)
    least = min(kind, rank)
    if least is BaseCheckResult.FAIL_L0 or base.shape is None:
        return least
    if derived.shape is None:
        return min(least, BaseCheckResult.FAIL_L2)
    if base.dims is None or derived.dims is None:
        same = base.shape is derived.shape
        return min(least, BaseCheckResult.PASS if same else BaseCheckResult.FAIL_L2)
    return min(least, _check_dims(base.dims, derived.dims))


def _check_known(base: Any, derived: Any, unknown: Any) -> BaseCheckResult:
    if base in (unknown, derived):
        return BaseCheckResult.PASS
    return BaseCheckResult.FAIL_L1 if derived == unknown else BaseCheckResult.FAIL_L0


def _check_dims(base: tuple[PrimExpr, ...], derived: tuple[PrimExpr, ...]) -> BaseCheckResult:
    if len(base) != len(derived):
        return BaseCheckResult.FAIL_L0
    results = [_check_dim(a, b) for a, b in zip(base, derived, strict=True)]
    return min(results, default=BaseCheckResult.PASS)


def _check_dim(a: PrimExpr, b: PrimExpr) -> BaseCheckResult:
    if same_dim(a, b):
        return BaseCheckResult.PASS
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return BaseCheckResult.FAIL_L0
    return BaseCheckResult.FAIL_L2


def _check_shape(base: ShapeStructInfo, derived: ShapeStructInfo) -> BaseCheckResult:
    rank = _check_known(base.ndim, derived.ndim, -1)
    if rank is BaseCheckResult.FAIL_L0 or base.values is None:
        return rank
    if derived.values is None:
        return min(rank, BaseCheckResult.FAIL_L2)
    return _check_dims(base.values, derived.values)


def _check_prim(base: PrimStructInfo, derived: PrimStructInfo) -> BaseCheckResult:
    if base.dtype != derived.dtype:
        return BaseCheckResult.FAIL_L0
    if base.value is None:
        return BaseCheckResult.PASS
    if derived.value is None:
        return BaseCheckResult.FAIL_L2
    return _check_dim(base.value, derived.value)


def _check_tuple(base: TupleStructInfo, derived: TupleStructInfo) -> BaseCheckResult:
    if len(base.fields) != len(derived.fields):
        return BaseCheckResult.FAIL_L0
    pairs = zip(base.fields, derived.fields, strict=True)
    results = [struct_info_base_check(a, b) for a, b in pairs]
    return min(results, default=BaseCheckResult.PASS)


def _check_func(base: FuncStructInfo, derived: FuncStructInfo) -> BaseCheckResult:
    if base.purity and not derived.purity:
        return BaseCheckResult.FAIL_L0
    if base.params is None:
        return BaseCheckResult.PASS
    if derived.params is None:
        return BaseCheckResult.FAIL_L2
    if structural_equal(base, derived, map_free_vars=True):
        return BaseCheckResult.PASS
    if len(base.params) != len(derived.params):
        return BaseCheckResult.FAIL_L0
    params = zip(derived.params, base.params, strict=True)
    results = [struct_info_base_check(a, b) for a, b in params]
    return min([*results, struct_info_base_check(base.ret, derived.ret)])


_CHECKS: dict[type, Any] = {
    TensorStructInfo: _check_tensor,
    ShapeStructInfo: _check_shape,
    PrimStructInfo: _check_prim,
    TupleStructInfo: _check_tuple,
    FuncStructInfo: _check_func,
}


def struct_info_lca(a: StructInfo, b: StructInfo) -> StructInfo:
    """The narrowest struct info that values of both belong to: what an If gives."""
    if same_info(a, b):
        return a
    if type(a) is not type(b):
        return ObjectStructInfo()
    if isinstance(a, TensorStructInfo) and isinstance(b, TensorStructInfo):
        ndim = a.ndim if a.ndim == b.ndim else -1
        device = a.vdevice if a.vdevice == b.vdevice else None
        keep = a.dims is not None and b.dims is not None and same_dims(a.dims, b.dims)
        kind = a.dtype if a.dtype == b.dtype else None
        return TensorStructInfo(a.shape if keep else None, kind, device, ndim)
    if isinstance(a, ShapeStructInfo) and isinstance(b, ShapeStructInfo):
        return ShapeStructInfo(None, a.ndim if a.ndim == b.ndim else -1)
    if isinstance(a, PrimStructInfo) and isinstance(b, PrimStructInfo) and a.dtype == b.dtype:
        return PrimStructInfo(a.dtype)
    if isinstance(a, TupleStructInfo) and isinstance(b, TupleStructInfo):
        if len(a.fields) == len(b.fields):
            return TupleStructInfo(tuple(map(struct_info_lca, a.fields, b.fields)))
    if isinstance(a, FuncStructInfo) and isinstance(b, FuncStructInfo):
        return _lca_of_functions(a, b)
    return ObjectStructInfo()


def _lca_of_functions(a: FuncStructInfo, b: FuncStructInfo) -> FuncStructInfo:
    """Parameters and result joined; parameters are not known where their number differs."""
    pure, ret = a.purity and b.purity, struct_info_lca(a.ret, b.ret)
    if a.params is None or b.params is None or len(a.params) != len(b.params):
        return FuncStructInfo(None, ret, pure)
    if structural_equal(a, b, map_free_vars=True):
        return a
    return FuncStructInfo(tuple(map(struct_info_lca, a.params, b.params)), ret, pure)


def symbolic_vars(info: Any) -> tuple[Var, ...]:
    """The symbolic variables that a struct info (or a shape) mentions, in order, each once."""
    found: dict[Var, None] = {}
    if info is not None:
        visit(info, lambda n: _collect(n, found))
    return tuple(found)


def _collect(n: Node, into: dict[Var, None]) -> bool:
    if isinstance(n, Var):
        into.setdefault(n)
    return not isinstance(n, IntImm)


def definable_vars(info: Any) -> tuple[Var, ...]:
    """The variables that a value of this struct info defines: those that are a dimension alone."""
    return tuple(dict.fromkeys(_definable(info)))


def _definable(info: Any) -> Iterator[Var]:
    parts: Any = ()
    if isinstance(info, TupleStructInfo):
        parts = info.fields
    elif isinstance(info, FuncStructInfo):
        parts = info.params or ()
    for each in parts:
        yield from _definable(each)
    yield from (v for v in values_of(info) if isinstance(v, Var))


def match_vars(pattern: Any, given: Any, found: dict[Var, PrimExpr]) -> None:
    """Fill `found` with what the definable variables of `pattern` are in `given` (first wins)."""
    if type(pattern) is not type(given):
        return
    if isinstance(pattern, TupleStructInfo):
        for a, b in zip(pattern.fields, given.fields, strict=False):
            match_vars(a, b, found)
        return
    for a, b in zip(values_of(pattern), values_of(given), strict=False):
        if isinstance(a, Var) and a not in found and b is not None:
            found[a] = b


def values_of(info: Any) -> tuple[Any, ...]:
    """The dimensions, sizes or the number that a struct info tells; () where it tells none."""
    if isinstance(info, TensorStructInfo):
        return info.dims or ()
    if isinstance(info, ShapeStructInfo):
        return info.values or ()
    value = info.value if isinstance(info, PrimStructInfo) else None
    return () if value is None else (value,)


def substitute(node: Any, values: Mapping[Any, Any]) -> Any:
    """A struct info, shape or expression with variables (symbolic, or of a shape) replaced."""
    if not values or node is None:
        return node
    return _Substitution(values)(node)


class _Substitution:
    def __init__(self, values: Mapping[Any, Any]) -> None:
        self.values = values

    def __call__(self, n: Any) -> Any:
        if isinstance(n, Var):
            return self.values.get(n, n)
        if isinstance(n, PrimExpr):
            return self.prim(n)
        if isinstance(n, Expr) and not isinstance(n, ShapeExpr | PrimValue):
            return self.values.get(n, n)
        return map_children(n, self)

    def prim(self, n: PrimExpr) -> PrimExpr:
        new = map_children(n, self)
        if new is n:
            return n
        from mlcnb.arith import simplify

        return simplify(new)


def erase_to_well_defined(info: Any, defined: Any = None, var_map: Any = None) -> Any:
    """`info` where what mentions a variable outside of `defined`, a symbolic one or one that holds
    a shape, is forgotten; of TVM's tables the values take the places of the variables."""
    kept = _erase(info, {*(defined or ()), *(var_map or ())})
    values = {k: v for t in (defined, var_map) if isinstance(t, Mapping) for k, v in t.items()}
    return substitute(kept, values) if values else kept


def _erase(info: Any, known: set[Any]) -> Any:
    if isinstance(info, TupleStructInfo):
        return replace(info, fields=tuple(_erase(f, known) for f in info.fields))
    held = getattr(info, "shape", None)
    lost = held is not None and not isinstance(held, ShapeExpr) and held not in known
    if not lost and all(v in known for v in symbolic_vars(info)):
        return info
    if isinstance(info, TensorStructInfo):
        return replace(info, shape=None, ndim=info.ndim)
    if isinstance(info, ShapeStructInfo):
        return ShapeStructInfo(None, len(info.values or ()) if info.values is not None else -1)
    if isinstance(info, PrimStructInfo):
        return PrimStructInfo(info.dtype)
    return info


def return_info(params: Sequence[Any], info: Any) -> Any:
    """The struct info of a result as callers may know it: of symbolic variables those of the
    parameters only, and no shape that a variable inside of the function holds.
    """
    known = [v for p in params for v in symbolic_vars(p.struct_info)]
    return erase_to_well_defined(info, [*known, *params])


def get_shape_of(expr: Any) -> ShapeExpr:
    """The shape of a tensor, as an expression.

    Raises:
        ArgumentError: it is no tensor, or its dimensions are not known.
    """
    info = expr.struct_info
    if not isinstance(info, TensorStructInfo) or info.dims is None:
        raise ArgumentError(
            "its shape is not known", where=expr, hint="R.shape_of(x) tells it as the program runs"
        )
    return shape_expr(info.dims)


def static_shape(info: Any) -> tuple[int, ...] | None:
    """The dimensions of a tensor as Python ints, or None where one is not known."""
    dims = getattr(info, "dims", None)
    if dims is None:
        return None
    shape = tuple(d.value for d in dims if isinstance(d, IntImm))
    return shape if len(shape) == len(dims) else None


def nbytes(info: Any) -> int | None:
    """Bytes of a value of this struct info: a tensor's, a tuple's sum; None where not known."""
    if isinstance(info, TupleStructInfo):
        sizes = [nbytes(f) for f in info.fields]
        return None if None in sizes else sum(s for s in sizes if s is not None)
    shape = static_shape(info)
    if shape is None or info.dtype is None:
        return None
    return prod(shape, start=info.dtype.nbytes)

"""IndexMap: a layout as a function of indices.

IndexMap.from_func(lambda n, c, h, w: [n, c // 16, h, w, c % 16])      NCHW -> NCHW16c
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from math import gcd, lcm, prod
from typing import Any, ClassVar, TypeVar

import numpy as np

from mlcnb.arith import Analyzer, simplify
from mlcnb.arith.evaluate import Unknown, evaluate
from mlcnb.arith.int_set import set_of
from mlcnb.arith.inverse import inverse_affine_iter_map
from mlcnb.arith.iter_map import detect_iter_map
from mlcnb.arith.linear import depends_on
from mlcnb.core.errors import MLCError
from mlcnb.core.node import Node, binder, node, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.ir.folding import FOLDING
from mlcnb.ir.structural import structural_equal

#: what stands in a map's indices between the axes of memory, as in TVM's `te.AXIS_SEPARATOR`
AXIS_SEPARATOR = "axis_separator"

T = TypeVar("T")


def _once(question: Callable[[IndexMap, Sequence[Any]], T]) -> Callable[[IndexMap, Any], T]:
    """A question of a map and a shape, answered once: a step asks the same of buffer and block."""

    @lru_cache(maxsize=64)
    def answer(asked: IndexMap, sizes: tuple[tuple[int, Any], ...]) -> T:
        return question(asked, [p.const(size, kind) for size, kind in sizes])

    @wraps(question)
    def answered(self: IndexMap, shape: Sequence[Any]) -> T:
        sizes = [(p.as_int(n), p.as_expr(n).dtype) for n in shape]
        if any(size is None for size, _ in sizes):
            return question(self, shape)
        return answer(self, tuple(sizes))  # type: ignore[arg-type]

    return answered


@node
class IndexMap(Node):
    """`initial_indices` (variables) -> `final_indices` (expressions of them).

    `inverse_index_map`, if given, is taken for the inverse.
    """

    #: stands between indices where a new axis of physical memory begins
    AXIS_SEPARATOR: ClassVar[str] = AXIS_SEPARATOR

    initial_indices: tuple[Var, ...] = binder()
    final_indices: tuple[PrimExpr, ...]
    inverse_index_map: IndexMap | None = None

    @staticmethod
    def from_func(
        mapping: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: IndexMap | Callable[..., Any] | None = None,
        *,
        index_dtype: str = "int64",
    ) -> IndexMap:
        """The map that a Python function of index variables says.

        Args:
            mapping: from indices to a list of indices.
            ndim: number of indices, needed where `mapping` takes `*indices`.
            inverse_index_map: the inverse, a map or a function.
            index_dtype: dtype of the variables.
        """
        made, separators = IndexMap.from_func_with_separators(
            mapping, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            raise MLCError("the map has axis separators", hint="from_func_with_separators")
        return made

    @staticmethod
    def from_func_with_separators(
        mapping: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: IndexMap | Callable[..., Any] | None = None,
        *,
        index_dtype: str = "int64",
    ) -> tuple[IndexMap, list[int]]:
        """The map, and before which of its indices `IndexMap.AXIS_SEPARATOR` stands.

        lambda i, j: [i, IndexMap.AXIS_SEPARATOR, j // 4, j % 4]     separators [1]
        """
        names = _argument_names(mapping, ndim)
        variables = tuple(Var(name, dtype(index_dtype)) for name in names)
        behind = _names_behind(mapping)
        count = len(variables) - len(behind)
        final = mapping(*variables[:count], **dict(zip(behind, variables[count:], strict=True)))
        given = final if isinstance(final, list | tuple) else [final]
        listed = [x for x in given if not _is_separator(x)]
        places = [n for n, x in enumerate(given) if _is_separator(x)]
        separators = [place - n for n, place in enumerate(places)]
        indices = tuple(p.as_expr(x, dtype(index_dtype)) for x in listed)
        inverse = inverse_index_map
        if inverse is not None and not isinstance(inverse, IndexMap):
            inverse = IndexMap.from_func(inverse, len(indices), index_dtype=index_dtype)
        return IndexMap(variables, indices, inverse), separators

    def map_indices(
        self, indices: Sequence[Any], analyzer: Analyzer | None = None
    ) -> list[PrimExpr]:
        """The final indices where the initial ones are `indices`, in short form."""
        if len(indices) != len(self.initial_indices):
            raise MLCError(
                f"the map takes {len(self.initial_indices)} indices, {len(indices)} were given"
            )
        given = [p.as_expr(i) for i in indices]
        values: dict[Any, PrimExpr] = dict(zip(self.initial_indices, given, strict=True))
        analyzer = analyzer or Analyzer()
        kinds = {i.dtype for i in given}
        same = kinds == {self.initial_indices[0].dtype} if self.initial_indices else True
        if same:
            found = [rewrite(x, lambda _: None, enter=values.get) for x in self.final_indices]
        else:
            found = [_retyped(x, values) for x in self.final_indices]
        return [analyzer.simplify(x) for x in found]

    def map_shape(self, shape: Sequence[Any]) -> list[PrimExpr]:
        """The shape of the final index space; padded where a factor does not divide an extent."""
        return [*self._mapped_shape(shape)]

    @_once
    def _mapped_shape(self, shape: Sequence[Any]) -> list[PrimExpr]:
        padded = self._padded(shape)
        domains = {
            var: Range(p.const(0, var.dtype), p.fitted(var.dtype, extent))
            for var, extent in zip(self.initial_indices, padded, strict=True)
        }
        analyzer = Analyzer()
        analyzer.mark_nonnegative(*(n for n in shape if isinstance(n, Var)))
        for var, domain in domains.items():
            analyzer.bind(var, domain)
        kind = p.as_expr(shape[0]).dtype if shape else dtype("int32")
        result = []
        for index in self.final_indices:
            reach = set_of(index, domains, analyzer)
            high = reach.high
            if high is None or reach.low is None or not _is_nonnegative(reach.low, analyzer):
                high = p.const(self._highest(index, shape), index.dtype)
            extent = analyzer.simplify(p.cast(index.dtype, high) + 1)
            result.append(simplify(p.fitted(kind, extent)))
        return result

    def _highest(self, index: PrimExpr, shape: Sequence[Any]) -> int:
        """The largest value of an index that interval arithmetic cannot bound."""
        found = self._points(shape)
        if found is None:
            raise MLCError(f"the index {index!r} has no bound, or may be negative")
        values = found[self.final_indices.index(index)]
        if values.min(initial=0) < 0:
            raise MLCError(f"the index {index!r} takes negative values, down to {values.min()}")
        return int(values.max(initial=0))

    def _points(self, shape: Sequence[Any], most: int = 1 << 20) -> list[np.ndarray] | None:
        """The final indices of all initial ones within a shape; None where these are too many."""
        sizes = [p.as_int(n) for n in shape]
        known = [n for n in sizes if n is not None]
        if len(known) < len(sizes) or prod(known) > most:
            return None
        places = list(np.indices(known))
        values: dict[Var, Any] = dict(zip(self.initial_indices, places, strict=True))
        try:
            found = [evaluate(x, values) for x in self.final_indices]
        except Unknown:
            return None
        return [np.broadcast_to(x, known) for x in found]

    def collision(self, shape: Sequence[Any]) -> tuple[tuple[int, ...], ...] | None:
        """Two initial indices within `shape` and the one final index of both; () if none are.

        None says that these are too many to try, or that the map is not made of integer arithmetic.
        """
        found = self._points(shape)
        if found is None:
            return None
        rows = np.stack([x.reshape(-1) for x in found], axis=1)
        _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        again = np.flatnonzero(first[inverse.reshape(-1)] != np.arange(len(rows)))
        if not len(again):
            return ()
        pair = (first[inverse.reshape(-1)[again[0]]], again[0])
        sizes = found[0].shape
        places = [tuple(int(i) for i in np.unravel_index(n, sizes)) for n in pair]
        return (*places, tuple(int(i) for i in rows[again[0]]))

    def map_ndarray(self, array: Any, pad_value: Any = 0) -> np.ndarray:
        """An array, or a tensor, in the final layout; what no element goes to is `pad_value`."""
        array = array.numpy() if hasattr(array, "numpy") else np.asarray(array)
        shape = [p.as_int(d) or 0 for d in self.map_shape([int(n) for n in array.shape])]
        result = np.full(shape, pad_value, array.dtype)
        where = self._points(array.shape, array.size)
        if where is None:
            raise MLCError("the map is not made of integer arithmetic")
        result[tuple(where)] = array
        return result

    def inverse(self, shape: Sequence[Any]) -> IndexMap:
        """The map from final to initial indices, for initial indices within `shape`.

        Raises:
            MLCError: the map is not bijective there.
        """
        if self.inverse_index_map is not None:
            return self.inverse_index_map
        return self._inverse([p.as_expr(n) for n in shape])

    @_once
    def non_surjective_inverse(self, shape: Sequence[Any]) -> tuple[IndexMap, PrimExpr]:
        """(inverse, padding): `padding` holds at final indices that no initial index maps to.

        `padding` is an expression of the inverse's `initial_indices`.
        """
        padded = self._padded(shape)
        inverse = (
            self._inverse(padded) if self.inverse_index_map is None else self.inverse_index_map
        )
        conditions = []
        for found, extent, full in zip(inverse.final_indices, shape, padded, strict=True):
            extent = p.cast(found.dtype, p.as_expr(extent))
            if not Analyzer().can_prove_equal(extent, p.cast(extent.dtype, full)):
                conditions.append(extent <= found)
        ranges = dict(zip(inverse.initial_indices, self.map_shape(shape), strict=True))
        bounds = {
            var: Range(p.const(0, var.dtype), p.fitted(var.dtype, n)) for var, n in ranges.items()
        }
        return inverse, Analyzer(bounds).simplify(p.any_of(*conditions))

    def is_equivalent_to(self, other: IndexMap) -> bool:
        """True if both give the same final indices."""
        if len(self.initial_indices) != len(other.initial_indices):
            return False
        mapped = other.map_indices(self.initial_indices)
        own = self.map_indices(self.initial_indices)
        return len(mapped) == len(own) and all(map(structural_equal, own, mapped))

    @_once
    def _inverse(self, shape: Sequence[PrimExpr]) -> IndexMap:
        domains = {
            var: Range(p.const(0, var.dtype), p.fitted(var.dtype, extent))
            for var, extent in zip(self.initial_indices, shape, strict=True)
        }
        found = detect_iter_map(
            self.final_indices, domains, check_level="bijective", simplify_trivial_iterators=False
        )
        if not found:
            raise MLCError(
                f"the index map has no inverse: {found.errors[0]}",
                hint="use non_surjective_inverse where it pads, or give inverse_index_map",
            )
        variables = tuple(
            Var(x.name if isinstance(x, Var) else f"axis{i}", x.dtype)
            for i, x in enumerate(self.final_indices)
        )
        values = inverse_affine_iter_map(found, variables)
        extents = self.map_shape(shape)
        bounds = {
            var: Range(p.const(0, var.dtype), p.fitted(var.dtype, n))
            for var, n in zip(variables, extents, strict=True)
            if not p.is_const(n, 1)
        }
        analyzer = Analyzer(bounds)
        back = tuple(
            analyzer.simplify(values.get(v, p.const(0, v.dtype))) for v in self.initial_indices
        )
        return IndexMap(variables, back, self)

    @_once
    def _padded(self, shape: Sequence[Any]) -> list[PrimExpr]:
        """The shape with extents rounded up to what the divisions in the map need."""
        if len(shape) != len(self.initial_indices):
            raise MLCError(
                f"the map takes {len(self.initial_indices)} indices, the shape has {len(shape)}"
            )
        result = []
        for var, extent in zip(self.initial_indices, shape, strict=True):
            step = lcm(1, *(s for x in self.final_indices for s in _steps(x, var)))
            extent = p.as_expr(extent)
            full = p.ceildiv(extent, p.const(step, extent.dtype)) * p.const(step, extent.dtype)
            result.append(simplify(full) if step > 1 else extent)
        return result


@node
class RegionMap(Node):
    """A box as a function of axes: from `begins` to `ends`, which are expressions of the axes.

    lambda v_i, v_j: [(v_i - 1, v_i + 2), (v_j, v_j + 1)]
    """

    axes: tuple[Var, ...] = binder()
    begins: tuple[PrimExpr, ...]
    ends: tuple[PrimExpr, ...]

    @staticmethod
    def from_func(given: Callable[..., Any], axes: Sequence[Var]) -> RegionMap:
        """What a function of the axes gives, (begin, end) or an index for each dimension.

        Raises:
            MLCError: an entry is neither.
        """
        pairs = []
        for entry in given(*axes):
            pair = entry if isinstance(entry, tuple | list) else (entry, entry + 1)
            if len(pair) != 2:
                raise MLCError(f"a range is (begin, end), not {len(pair)} numbers")
            pairs.append(tuple(p.as_expr(x) for x in pair))
        return RegionMap(tuple(axes), tuple(x for x, _ in pairs), tuple(y for _, y in pairs))

    def ranges(self, axes: Sequence[Var]) -> list[tuple[PrimExpr, PrimExpr]]:
        """(begin, end) for each dimension, of other axes.

        Raises:
            MLCError: these are more axes, or fewer.
        """
        if len(axes) != len(self.axes):
            raise MLCError(f"{len(self.axes)} axes are expected, {len(axes)} were given")
        values = dict(zip(self.axes, axes, strict=True))
        found = [
            rewrite(x, lambda _: None, enter=values.get)  # type: ignore[arg-type]
            for x in (*self.begins, *self.ends)
        ]
        return list(zip(found[: len(self.begins)], found[len(self.begins) :], strict=True))


def _is_nonnegative(low: PrimExpr, analyzer: Analyzer) -> bool:
    known = p.as_int(low)
    return known >= 0 if known is not None else analyzer.can_prove(p.greater_equal(low, 0))


def _is_separator(x: Any) -> bool:
    return isinstance(x, str) and x == IndexMap.AXIS_SEPARATOR


def _argument_names(mapping: Callable[..., Any], ndim: int | None) -> list[str]:
    parameters = inspect.signature(mapping).parameters.values()
    named = [x.name for x in parameters if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
    if not any(x.kind is x.VAR_POSITIONAL for x in parameters):
        return [*named, *_names_behind(mapping)]
    if ndim is None:
        raise MLCError("ndim is needed where the function takes *indices")
    behind = _names_behind(mapping)
    spread = [f"i{i}" for i in range(ndim - len(named) - len(behind))]
    return [*named, *spread, *behind]


def _names_behind(mapping: Callable[..., Any]) -> list[str]:
    """The indices behind `*indices`: `lambda *indices, k: …` takes the last one by its name."""
    parameters = inspect.signature(mapping).parameters.values()
    return [x.name for x in parameters if x.kind is x.KEYWORD_ONLY]


def _steps(x: PrimExpr, var: Var) -> list[int]:
    """What an extent of `var` must be a multiple of, for each division that it stands in alone."""
    analyzer = Analyzer()
    found = []
    for n in walk(x):
        by = p.as_int(n.b) if isinstance(n, e.FloorDiv | e.FloorMod) else None
        if by is None or by <= 1 or not isinstance(n, e.BinaryOp):
            continue
        poly = analyzer.normal_form(n.a)
        if poly.coefficient_of(analyzer.context.var(var)) is None or not depends_on(poly, {var}):
            continue
        factors = [abs(c) for x, c in poly.terms.items() if x.factors[0].expr is var]
        if len(poly.terms) == 1 and factors:
            found.append(by // gcd(by, factors[0]))
    return found


def _retyped(x: PrimExpr, values: dict[Var, PrimExpr]) -> PrimExpr:
    """`x` with its variables replaced by expressions of another dtype."""
    match x:
        case e.Var():
            return values.get(x, x)
        case e.IntImm():
            kind = next(iter(values.values())).dtype
            return p.const(x.value, kind)
        case e.BinaryOp() | e.CmpOp():
            return FOLDING[type(x)](_retyped(x.a, values), _retyped(x.b, values))
        case e.Cast(_, value):
            return _retyped(value, values)
    raise MLCError(f"{type(x).__name__} has no place in an index map")

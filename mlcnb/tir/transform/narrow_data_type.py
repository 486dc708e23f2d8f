"""NarrowDataType: 64-bit index arithmetic becomes 32-bit where every value fits.

for i in range(T.int64(16)):                    for i in range(16):
    B[i * T.int64(4)] = A[i]             ->         B[i * 4] = A[i]
    C[i] = T.Cast("float32", i)                     C[i] = T.Cast("float32", T.Cast("int64", i))

A loop's variable becomes narrow if its bounds fit, and an expression if all of its parts do; where
the value itself is wanted, not an index, it is widened again. ForceNarrowIndexToInt32 makes all
64-bit integers of a function narrow, shapes and parameters included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlcnb.arith import Analyzer, const_bounds
from mlcnb.arith.ranges import RULES
from mlcnb.core.errors import PassError
from mlcnb.core.node import Node, map_children, replace, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.analysis.kernels import is_launch
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import PyStmtExprMutator
from mlcnb.tir.stmt import AttrStmt, BlockRealize, BufferStore, For, IterVar, LetStmt, Stmt

_ARITHMETIC = (e.Add, e.Sub, e.Mul, e.FloorDiv, e.FloorMod, e.Div, e.Mod, e.Min, e.Max)
_COMPARISONS = (e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE)


def narrow_data_type(func: PrimFunc, target_bits: int = 32) -> PrimFunc:
    """`func` with integer index arithmetic of `target_bits` bits where all values fit.

    Args:
        func: a function, with blocks or without.
        target_bits: the width wanted, in bits.
    """
    return func.with_body(_Narrower(target_bits).visit(func.body))


def narrow_static(func: PrimFunc) -> PrimFunc:
    """`func` with narrow indices where no loop counts to a size that is open; else as it is.

    Where one loop is open, narrow variables of others would be widened in each index.
    """
    loops = [n for n in walk(func.body) if isinstance(n, For)]
    if not any(n.loop_var.dtype.bits > 32 for n in loops):
        return func
    own = {n.loop_var for n in loops}
    ends = (x for n in loops for end in (n.min, n.extent) for x in walk(end))
    is_open = any(isinstance(x, Var | BufferLoad | e.Call) and x not in own for x in ends)
    return func if is_open else narrow_data_type(func)


class _Narrower(PyStmtExprMutator):
    """Rewrites from the outside in; loops tell the bounds of their variables."""

    def __init__(self, bits: int) -> None:
        self.kind = dtype(f"int{bits}")
        self.first, self.last = self.kind.min_value, self.kind.max_value
        self.analyzer = Analyzer()
        self.narrow: dict[Var, Var] = {}

    def visit(self, n: Any) -> Any:
        """Whatever stands in a program; a value keeps its dtype."""
        if isinstance(n, Stmt):
            return self.visit_stmt(n)
        if isinstance(n, PrimExpr):
            return self.visit_expr(n)
        if isinstance(n, Range):
            return self.region(n)
        return n if isinstance(n, Buffer) else self.visit_inside(n)

    def visit_inside(self, n: Any) -> Any:
        """A node with what is inside visited, its variables too."""
        return map_children(n, self.visit)

    def visit_expr(self, n: Any) -> Any:
        """A value, in its dtype."""
        if isinstance(n, BufferLoad):
            return self.access(n)
        if isinstance(n, _COMPARISONS) and self.is_wide(n.a):
            return self.comparison(n)
        if isinstance(n, Var):
            return p.cast(n.dtype, self.narrow[n]) if n in self.narrow else n
        if self.is_wide(n) and not isinstance(n, e.IntImm):
            return self.value(n)
        return self.visit_inside(n)

    def visit_buffer_store_(self, n: BufferStore) -> Stmt:
        """A store, its indices narrow where they fit."""
        return self.access(n)  # type: ignore[no-any-return]

    def access(self, n: Any) -> Any:
        """A load or store: its indices, and the value that is stored."""
        changes: dict[str, Any] = {"indices": tuple(map(self.index, n.indices))}
        for name in ("value", "predicate"):
            if getattr(n, name, None) is not None:
                changes[name] = self.visit(getattr(n, name))
        return replace(n, **changes)

    def visit_for_(self, n: For) -> Stmt:
        """A loop, with a narrow variable if it fits."""
        self.analyzer.bind(n.loop_var, Range(n.min, n.extent))
        last = n.min + n.extent
        if not (self.is_wide(n.loop_var) and self.fits(last) and self.fits(n.loop_var)):
            return map_children(n, self.visit)
        fresh = self.narrow[n.loop_var] = Var(n.loop_var.name, self.kind)
        start, extent = self.forced(n.min), self.forced(n.extent)
        return replace(n, loop_var=fresh, min=start, extent=extent, body=self.visit(n.body))

    def visit_block_realize_(self, n: BlockRealize) -> Stmt:
        """A block: its axes are narrow where they fit, as what they are bound to is then."""
        values: list[PrimExpr] = []
        axes: list[IterVar] = []
        for axis, value in zip(n.block.iter_vars, n.iter_values, strict=True):
            dom = axis.dom
            self.analyzer.bind(axis.var, dom)
            narrow = self.is_wide(axis.var) and self.fits(dom.min + dom.extent)
            if not (narrow and self.fits(value)):
                values.append(self.visit(value))
                axes.append(axis)
                continue
            fresh = self.narrow[axis.var] = Var(axis.var.name, self.kind)
            values.append(self.forced(value))
            bounds = Range(self.forced(dom.min), self.forced(dom.extent))
            axes.append(replace(axis, dom=bounds, var=fresh))
        block = replace(n.block, iter_vars=tuple(axes))
        predicate = self.visit(n.predicate)
        inside = map_children(block, lambda x: x if x in axes else self.visit(x))
        return replace(n, iter_values=tuple(values), predicate=predicate, block=inside)

    def visit_attr_stmt_(self, n: AttrStmt) -> Stmt:
        """A thread axis: one variable in the whole function."""
        if not is_launch(n):
            return self.visit_inside(n)  # type: ignore[no-any-return]
        axis = n.node
        self.analyzer.bind(axis.var, axis.dom)
        wide = self.is_wide(axis.var) and self.fits(axis.dom.min + axis.dom.extent)
        if axis.var not in self.narrow and not wide:
            return map_children(n, lambda x: x if x is axis else self.visit(x))
        fresh = self.narrow.setdefault(axis.var, Var(axis.var.name, self.kind))
        bounds = Range(self.forced(axis.dom.min), self.forced(axis.dom.extent))
        made = replace(axis, dom=bounds, var=fresh)
        return replace(n, node=made, value=self.forced(n.value), body=self.visit(n.body))

    def region(self, n: Range) -> Range:
        """The bounds of a region: both narrow where they fit."""
        start, extent = self.index(n.min), self.index(n.extent)
        if start.dtype != extent.dtype:
            return n if not self.narrow else map_children(n, self.visit)
        return n if start is n.min and extent is n.extent else Range(start, extent)

    def visit_let_stmt_(self, n: LetStmt) -> Stmt:
        """A variable for a value that fits is narrow too."""
        if not (self.is_wide(n.var) and self.fits(n.value)):
            return map_children(n, self.visit)
        self.analyzer.bind(n.var, n.value)
        fresh = self.narrow[n.var] = Var(n.var.name, self.kind)
        return replace(n, var=fresh, value=self.forced(n.value), body=self.visit(n.body))

    def index(self, x: PrimExpr) -> PrimExpr:
        """An index: narrow if it fits."""
        if isinstance(x, e.Ramp) and self.is_wide(x.base) and self.fits(x.base):
            last = x.base + x.stride * (x.lanes - 1)
            if self.fits(x.stride) and self.fits(last):
                return e.Ramp(self.forced(x.base), self.forced(x.stride), x.lanes)
        return self.forced(x) if self.is_wide(x) and self.fits(x) else self.visit(x)

    def comparison(self, n: Any) -> PrimExpr:
        """Both sides narrow, or none."""
        if self.fits(n.a) and self.fits(n.b):
            return type(n)(self.forced(n.a), self.forced(n.b))
        return map_children(n, self.visit)

    def value(self, n: PrimExpr) -> PrimExpr:
        """A value that is used as it is: computed narrow and widened, if that helps."""
        uses = any(isinstance(x, Var) and x in self.narrow for x in walk(n))
        if uses and isinstance(n, _ARITHMETIC) and self.fits(n):
            return p.cast(n.dtype, self.forced(n))
        return map_children(n, self.visit)

    def is_wide(self, x: PrimExpr) -> bool:
        """True for signed integers wider than what is wanted."""
        return x.dtype.is_int and x.dtype.lanes == 1 and x.dtype.bits > self.kind.bits

    def fits(self, x: PrimExpr) -> bool:
        """True if an expression and all of its parts stay within the narrow range."""
        if self.quick_ends(x) is not None:
            return True
        low, high = self.analyzer.const_bounds(x)
        if low < self.first or high > self.last:
            return False
        if isinstance(x, Var):
            return x in self.narrow or self.is_wide(x)
        if isinstance(x, _ARITHMETIC):
            return self.fits(x.a) and self.fits(x.b)
        return True

    def quick_ends(self, x: PrimExpr) -> tuple[int, int] | None:
        """Ends of an expression of which all parts fit, by what the ends of the parts say.

        None is no answer: parts that depend on each other may fit all the same.
        """
        low: float
        high: float
        if isinstance(x, e.IntImm):
            low = high = x.value
        elif not isinstance(x, _ARITHMETIC):
            if isinstance(x, Var) and not (x in self.narrow or self.is_wide(x)):
                return None
            low, high = self.analyzer.const_bounds(x)
        else:
            a = self.quick_ends(x.a)
            b = None if a is None else self.quick_ends(x.b)
            if a is None or b is None:
                return None
            low, high = RULES[type(x)](x, lambda part: a if part is x.a else b)
        if low < self.first or high > self.last:
            return None
        return int(low), int(high)

    def forced(self, x: PrimExpr) -> PrimExpr:
        """The same value as a narrow expression: it fits."""
        if isinstance(x, e.IntImm):
            return p.const(x.value, self.kind)
        if isinstance(x, Var) and x in self.narrow:
            return self.narrow[x]
        if isinstance(x, _ARITHMETIC):
            return type(x)(self.forced(x.a), self.forced(x.b))
        if isinstance(x, e.Cast) and x.value.dtype == self.kind:
            return self.visit(x.value)
        return p.cast(self.kind, self.visit(x))


def force_narrow_index_to_int32(func: PrimFunc) -> PrimFunc:
    """`func` with every 64-bit integer made a 32-bit one, parameters among them.

    Raises:
        PassError: a buffer holds 64-bit integers, or a constant does not fit.
    """
    for given in [b for b in walk(func) if isinstance(b, Buffer) and _is_int64(b)]:
        raise PassError(
            f"ForceNarrowIndexToInt32: {given.name} is {given.dtype}",
            where=given,
            root=func,
            hint="use NarrowDataType, which keeps what does not fit",
        )
    loops = [n for n in walk(func.body) if isinstance(n, For)]
    bounds = {n.loop_var: Range(n.min, n.extent) for n in loops}
    counted = func.with_body(rewrite(func.body, lambda n: _counted(n, bounds)))
    return rewrite(counted, lambda n: _forced(func, n))


def _counted(n: Node, bounds: Mapping[Var, Range]) -> Node | None:
    """What counts the bits of 64, as it will be counted in 32."""
    if not isinstance(n, e.Call) or n.op not in ("tir.clz", "tir.popcount"):
        return None
    x = n.args[0]
    if not _is_int64(x) or x.dtype.lanes != 1:
        return None
    leading = n.op == "tir.clz"
    here: PrimExpr = e.Add(e.Sub(n, p.const(32, n.dtype)), p.const(64, n.dtype)) if leading else n
    if x.dtype.is_uint or const_bounds(x, bounds)[0] >= 0:
        return here
    negative = p.const(0, n.dtype) if leading else e.Add(n, p.const(32, n.dtype))
    return e.Select(e.LT(x, p.const(0, x.dtype)), negative, here)


def _is_int64(x: Any) -> bool:
    return bool(x.dtype.is_integer and x.dtype.bits == 64)


def _forced(func: PrimFunc, n: Node) -> Node | None:
    if not isinstance(n, Var | e.IntImm | e.Cast | e.Call) or not _is_int64(n):
        return None
    kind = dtype("int32").with_lanes(n.dtype.lanes)
    if isinstance(n, e.Cast):
        return p.cast(kind, n.value)
    if isinstance(n, e.IntImm) and not kind.min_value <= n.value <= kind.max_value:
        raise PassError(f"ForceNarrowIndexToInt32: {n.value} does not fit", where=n, root=func)
    return replace(n, dtype=kind)


class NarrowDataType(PrimFuncPass):
    """Compute indices in fewer bits where all values fit.

    target_bits: the width wanted, in bits.
    """

    target_bits: int = 32

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `narrow_data_type`."""
        return narrow_data_type(func, self.target_bits)


class ForceNarrowIndexToInt32(PrimFuncPass):
    """Make every 64-bit integer of loop functions a 32-bit one; refuse where data is 64-bit."""

    work = staticmethod(force_narrow_index_to_int32)

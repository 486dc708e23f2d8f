"""Results whose size depends on the data: unique, nonzero. Loops count, then others fill.

x            2 1 1 3     unique       order 1 2 0 3    group of each 1 0 0 2    3 groups
                         first of each 1 0 3           values 1 2 3             counts 2 1 1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.op._accumulate import wide
from mlcnb.op._dims import as_int, axis_at, product, tensor, unravel, want_axis
from mlcnb.op._elementwise import ANY, want_kinds
from mlcnb.op._loops import held, hold, let, load, loop, scratch, seq, store, with_scratch
from mlcnb.op._select import passing
from mlcnb.op._sort import BY_DIGITS, rising, sort_of
from mlcnb.op._spell import spelled_as
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator
from mlcnb.relax.struct_info import TupleStructInfo
from mlcnb.relax.traits import Measured
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import IfThenElse, Stmt

INT64 = dtype("int64")


@operator("relax.unique")
class Unique(Measured, OpDecl):
    """The elements of `x`, each once; with `axis`, the slices across that dimension, each once.

    sorted: in rising order, else in that of their first occurrence. The result is a tuple where one
    of these is asked for, all int64: return_index (where each first occurs), return_inverse (which
    of them each place of x holds), return_counts. NaN is one element, but in slices of more
    dimensions, of which those with NaN all differ. Semantics: numpy.unique.
    """

    x: Tensor
    sorted: bool = True
    return_index: bool = False
    return_inverse: bool = False
    return_counts: bool = False
    axis: int | None = None

    def infer(self, x: Any) -> Any:
        """Tensors of unknown size."""
        want_kinds(self, ANY, x=x)
        if self.axis is not None:
            want_axis(self, x)
        values = tensor(None, x.dtype, 1 if self.axis is None else x.ndim)
        if not any(self.wanted):
            return values
        return TupleStructInfo((values, *(tensor(None, "int64", 1) for w in self.wanted if w)))

    def partly(self, x: Any) -> Any:
        """With an axis, all dimensions but that are x's."""
        if self.axis is None or x.dims is None:
            return None
        axis = axis_at(self, self.axis, x.ndim, x)
        dims = [None if i == axis else d for i, d in enumerate(x.dims)]
        return [dims, *([None] for w in self.wanted if w)] if any(self.wanted) else dims

    @property
    def wanted(self) -> tuple[bool, bool, bool]:
        """Which of index, inverse and counts are results."""
        return self.return_index, self.return_inverse, self.return_counts

    def numpy(self, x: Any) -> Any:
        """numpy.unique, in the order asked for; halves as float32, of which NumPy orders NaN"""
        flat = np.reshape(x, -1) if self.axis is None else x
        _, index, inverse, counts = np.unique(wide(flat), True, True, True, axis=self.axis)
        inverse = np.reshape(inverse, -1)
        if not self.sorted:
            order = np.argsort(index, kind="stable")
            place = np.argsort(order, kind="stable")
            index, inverse, counts = index[order], place[inverse], counts[order]
        values = np.take(flat, index, self.axis or 0)
        more = [v.astype(np.int64) for v in (index, inverse, counts)]
        return self.chosen(values, more)

    def measure(self, x: Any) -> Any:
        """Which of them each place of x holds, the first place and the number of places of each,
        what the loops work in, and how many there are.
        """
        n, m = self.places(x)

        def loops(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
            groups = _Groups(n, m, lambda i, c: load(ins[0], *self.place(x.shape, i, c)), *outs)
            return groups.found(self.sorted, self.axis is None or len(x.shape) == 1)

        shapes = [(n,)] * 5 + [(1,)]
        return te.extern(shapes, [x], loops, "groups", ["int64"] * 6)

    def fill(self, sizes: Any, found: Any, x: Any) -> Any:
        """The elements at the first place of each."""
        count, (group, first, counts, *_) = sizes[0], found
        at = 0 if self.axis is None else self.axis % len(x.shape)

        def element(*i: Any) -> Any:
            if self.axis is None:
                return x(*self.place(x.shape, first(*i), 0))
            return x(*i[:at], first(i[at]), *i[at + 1 :])

        shape = [] if self.axis is None else x.shape
        values = te.compute([*shape[:at], count, *shape[at + 1 :]], element, name="values")
        more = [
            te.compute((size,), lambda i, t=t: t(i), name=name)
            for t, size, name in (
                (first, count, "index"),
                (group, group.shape[0], "inverse"),
                (counts, count, "counts"),
            )
        ]
        return self.chosen(values, more)

    def places(self, x: Any) -> tuple[Any, Any]:
        """How many elements or slices x has, and of how many elements one is."""
        if self.axis is None:
            return product(x.shape), 1
        at = self.axis % len(x.shape)
        return x.shape[at], product([*x.shape[:at], *x.shape[at + 1 :]])

    def place(self, dims: Sequence[Any], i: Any, c: Any) -> tuple[Any, ...]:
        """Where element `c` of element or slice `i` of x is."""
        if self.axis is None:
            return unravel(i, _divisors(dims))
        at = self.axis % len(dims)
        others = unravel(c, _divisors([*dims[:at], *dims[at + 1 :]]))
        return (*others[:at], i, *others[at:])

    def chosen(self, values: Any, more: Sequence[Any]) -> Any:
        """The values, and those of index, inverse and counts that are results."""
        chosen = [v for v, w in zip(more, self.wanted, strict=True) if w]
        return (values, *chosen) if chosen else values


def _divisors(dims: Sequence[Any]) -> list[Any]:
    """Dimensions to divide by: where one is 0, nothing is looked at."""
    return [1 if as_int(d) == 0 else d for d in dims]


class _Groups:
    """Loops that find which of n rows, of m elements each, are one.

    Args:
        row: (i, c) -> element c of row i.
        group: of each row, its place among the rows that differ; first, counts: of each of these,
            the first place and the number of places; order, work: to work in; many: how many.
    """

    def __init__(self, n: Any, m: Any, row: Any, *outs: Buffer) -> None:
        self.n, self.m, self.row = n, m, row
        self.group, self.first, self.counts, self.order, self.work, self.many = outs
        self.at, self.head, self.new = (scratch(v, INT64) for v in ("at", "head", "new"))

    def found(self, in_order: bool, nan_is_one: bool) -> Stmt:
        """in_order: places in rising order, else in that of the first of each; nan_is_one: NaN
        equals NaN.
        """
        n, order, at = self.n, self.order, self.at
        sort = sort_of(self.is_long(), INT64, n, INT64, self.work)

        def by_column(c: Any) -> Stmt:
            return sort.sorts(order, lambda k: (k,), lambda i: self.row(i, c), rising)

        def walk(k: Var) -> Stmt:
            before = load(order, p.maximum(k - 1, 0))
            return let(
                lambda i, j: self.next_of_order(k, i, j, in_order, nan_is_one),
                i=load(order, k),
                before=before,
            )

        by_columns = by_column(0)
        if as_int(self.m) != 1:
            by_columns = loop("c", self.m, lambda c: by_column(self.m - 1 - c), INT64)
        again = [] if in_order else [hold(at, -1), loop("j", n, self.renumber, INT64)]
        return with_scratch(
            [*sort.buffers, at, self.head, self.new],
            loop("k", n, lambda k: store(order, [k], k), INT64),
            by_columns,
            hold(at, -1),
            hold(self.head, 0),
            loop("k", n, walk, INT64),
            *again,
            store(self.many, [0], held(at) + 1),
            name="groups",
        )

    def is_long(self) -> bool:
        """Whether there are many rows, or may be and each is but one element."""
        n = as_int(self.n)
        return as_int(self.m) == 1 if n is None else n >= BY_DIGITS

    def next_of_order(self, k: Var, i: Var, before: Var, in_order: bool, nan_is_one: bool) -> Stmt:
        """Whether row i, the k-th, differs from the one before: then a group begins."""
        at, new = self.at, self.new

        def look(c: Any) -> Stmt:
            differ = _differ(self.row(i, c), self.row(before, c), nan_is_one)
            return IfThenElse(differ, hold(new, 1))

        begins = self.begin(i) if in_order else hold(self.head, i)
        place = held(at)
        counted = seq(
            store(self.group, [i], place), store(self.counts, [place], load(self.counts, place) + 1)
        )
        return seq(
            hold(new, p.cast("int64", p.equal(k, 0))),
            loop("c", self.m, look, INT64),
            IfThenElse(p.equal(held(new), 1), begins),
            counted if in_order else store(self.group, [i], held(self.head)),
        )

    def begin(self, i: Var) -> Stmt:
        """One group more, whose first row is i."""
        at = self.at
        return seq(
            hold(at, held(at) + 1),
            store(self.first, [held(at)], i),
            store(self.counts, [held(at)], 0),
        )

    def renumber(self, j: Var) -> Stmt:
        """The groups, which are named by their first rows, by their places; into `order`."""
        begins = seq(self.begin(j), store(self.order, [j], held(self.at)))

        def known(g: Var) -> Stmt:
            return seq(store(self.group, [j], g), store(self.counts, [g], load(self.counts, g) + 1))

        place = load(self.order, load(self.group, j))
        return seq(IfThenElse(p.equal(load(self.group, j), j), begins), let(known, g=place))


def _differ(a: PrimExpr, b: PrimExpr, nan_is_one: bool) -> PrimExpr:
    """Whether two elements differ."""
    if not a.dtype.is_float or not nan_is_one:
        return p.not_equal(a, b)
    both = p.logical_and(te.isnan(a), te.isnan(b))
    return p.logical_and(p.not_equal(a, b), p.logical_not(both))


@onnx("Unique")
def onnx_unique(n: OnnxNode, x: Expr) -> Any:
    """All four results; those that the node does not name are not computed for nothing."""
    wanted = [at < len(n.outputs) and bool(n.outputs[at]) for at in range(4)]
    axis, order = n.attr("axis"), bool(n.attr("sorted", 1))
    if not any(wanted[1:]):
        return make_call(Unique, x, order, axis=axis)
    found = n.emit(make_call(Unique, x, order, True, True, True, axis=axis))
    return tuple(found[i] for i in range(n.num_outputs))


@operator("relax.nonzero")
class Nonzero(Measured, OpDecl):
    """The indices, int64, of the elements that are not 0: one row a dimension, one column each.

    Of a tensor without dimensions there are no rows.
    Semantics: https://onnx.ai/onnx/operators/onnx__NonZero.html
    """

    x: Tensor

    def infer(self, x: Any) -> Any:
        """A matrix of unknown size."""
        want_kinds(self, ANY, x=x)
        return tensor(None, "int64", 2)

    def partly(self, x: Any) -> Any:
        """One row for each dimension of x."""
        return None if x.ndim == -1 else [x.ndim, None]

    def numpy(self, x: Any) -> Any:
        """numpy.nonzero"""
        if np.ndim(x) == 0:
            return np.zeros((0, int(bool(x))), np.int64)
        return np.array(np.nonzero(x), np.int64).reshape(np.ndim(x), -1)

    def measure(self, x: Any) -> Any:
        """Where they are, and how many there are."""
        if not x.shape:
            return (te.compute((1,), lambda _: p.cast("int64", _is_set(x())), name="count"),)
        shapes = [(product(x.shape),), (1,)]
        return te.extern(shapes, [x], _places, "count", "int64")

    def fill(self, sizes: Any, found: Any, x: Any) -> Any:
        """The indices of each place."""
        if not x.shape:
            return te.compute((0, *sizes), lambda *i: p.const(0, "int64"), name="nonzero")
        return te.extern((len(x.shape), *sizes), [found[0], x], _indices, "nonzero", "int64")


def _is_set(x: PrimExpr) -> PrimExpr:
    return p.not_equal(x, p.const(0, x.dtype))


def _places(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
    """The place of each element that is not 0: of some at a time, if there is one among them."""
    (x,), (places, many) = ins, outs
    found, at = scratch("found", "int32"), scratch("at", INT64)
    divisors = _divisors(x.shape)

    def is_set(k: Any) -> PrimExpr:
        return _is_set(load(x, *unravel(k, divisors)))

    def next_place(k: Any) -> Stmt:
        more = p.cast("int64", is_set(k))
        return seq(store(places, [held(at)], k), hold(at, held(at) + more))

    return with_scratch(
        [found, at],
        hold(at, 0),
        passing(found, places.shape[0], is_set, next_place, INT64, is_tested=True),
        store(many, [0], held(at)),
        name="places",
    )


def _indices(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
    """The index of each place."""
    (places, x), (rows,) = ins, outs

    def element(j: Var) -> Stmt:
        index = unravel(load(places, j), _divisors(x.shape))
        return seq(*(store(rows, [d, j], i) for d, i in enumerate(index)))

    return loop("j", rows.shape[1], element, INT64)


spelled_as("NonZero", Nonzero)

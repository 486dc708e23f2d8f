"""Running sums and products: cumsum, cumprod.

for each row:   running = 0
                for k:  running = running + x[k];  out[k] = running       (exclusive: the other way)

Along an axis with others inside of it, whole lines are added, which are vectors:

    out[0, …] = x[0, …]                                                   (unless there is none)
    for k:  for …:  out[k + 1, …] = out[k, …] + x[k + 1, …]               (exclusive: from 0, x[k])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Var
from mlcnb.op._accumulate import accumulator
from mlcnb.op._convert import convert
from mlcnb.op._dims import product, size, tensor, tidy, unravel, want_axis
from mlcnb.op._elementwise import NUMBERS, quiet, short_name, want_kinds
from mlcnb.op._loops import (
    Place,
    held,
    hold,
    index_dtype,
    load,
    loop,
    nest,
    rows,
    scratch,
    seq,
    store,
    with_scratch,
)
from mlcnb.op._order import along_axis
from mlcnb.op._spell import call, scalar_of
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import Stmt


class _Scan(OpDecl):
    """Base of cumsum and cumprod."""

    __slots__ = ()
    cost = 1
    in_order = along_axis

    data: Tensor
    axis: int | None = None
    dtype: str | None = None
    exclusive: bool = False
    #: numpy.cumsum or numpy.cumprod
    meaning: ClassVar[Callable[..., Any]]
    combine: ClassVar[Callable[..., Any]]
    start: ClassVar[int]

    def infer(self, data: Any) -> Any:
        """As data, or without an axis one dimension of its size."""
        want_kinds(self, NUMBERS, data=data)
        kind = self.dtype or data.dtype
        if self.axis is None:
            return tensor(None if data.dims is None else [size(data)], kind, 1)
        want_axis(self, data)
        return tensor(data.dims, kind, data.ndim)

    def numpy(self, data: Any) -> Any:
        """numpy.cumsum or cumprod; half precision is summed in float32"""
        kind = dtype(self.dtype or data.dtype.name)
        x = convert(data, accumulator(kind))
        if self.axis is None:
            x = np.reshape(x, -1)
        axis = self.axis or 0
        found = quiet(lambda: self.meaning(x, axis=axis, dtype=x.dtype))
        if self.exclusive:
            found = np.roll(found, 1, axis)
            np.moveaxis(found, axis, 0)[:1] = self.start
        return convert(found, kind)

    def compute(self, data: Any) -> Any:
        """A loop along the axis inside of a loop nest over the others."""
        kind = dtype(str(self.dtype or data.dtype))
        shape = data.shape if self.axis is not None else (tidy(product(data.shape)),)
        return te.extern(shape, [data], self.loops, short_name(self), kind)

    def loops(self, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        """The statement, from the buffer of data to that of the result."""
        data, out = ins[0], outs[0]
        axis = 0 if self.axis is None else self.axis % data.ndim
        kind = accumulator(out.dtype)
        running = scratch("running", kind)
        index = index_dtype(data)
        if self.axis is not None and axis + 1 < out.ndim and kind == out.dtype:
            return self.lines(data, out, axis)

        def row(place: Place) -> Stmt:
            def step(k: Var) -> Stmt:
                here = place(k)
                read = here if self.axis is not None else unravel(k, data.shape)
                value = p.cast(kind, load(data, *read))
                more = hold(running, self.combine(held(running), value))
                put = store(out, here, held(running))
                return seq(put, more) if self.exclusive else seq(more, put)

            return seq(hold(running, self.start), loop("k", out.shape[axis], step, index))

        every = rows(out.shape, axis, row, index)
        return with_scratch([running], every, name=f"{short_name(self)}_rows")

    def lines(self, data: Buffer, out: Buffer, axis: int) -> Stmt:
        """The statement for an axis that is not the last one."""
        outer, inner = out.shape[:axis], out.shape[axis + 1 :]
        index = index_dtype(data)

        def element(place: Sequence[Any]) -> Any:
            return p.cast(out.dtype, load(data, *place))

        def line(*o: Var) -> Stmt:
            def first(k: Var, *i: Var) -> Stmt:
                place = (*o, k, *i)
                return store(out, place, self.start if self.exclusive else element(place))

            def step(k: Var) -> Stmt:
                def following(*i: Var) -> Stmt:
                    before, place = (*o, k, *i), (*o, k + 1, *i)
                    value = element(before if self.exclusive else place)
                    return store(out, place, self.combine(load(out, *before), value))

                return nest(inner, following, index)

            lead = p.minimum(out.shape[axis], 1)  # none, if the axis is empty
            return seq(
                nest([lead, *inner], first, index), loop("k", out.shape[axis] - 1, step, index)
            )

        return with_scratch([], nest(outer, line, index), name=f"{short_name(self)}_lines")


@operator("relax.cumsum")
class Cumsum(_Scan):
    """The sum of all elements up to each place along `axis` (None: of the flat tensor).

    exclusive: without the element itself, so that the first is 0. dtype: of the result; None: that
    of data. Semantics: https://numpy.org/doc/stable/reference/generated/numpy.cumsum.html
    """

    meaning = staticmethod(np.cumsum)
    combine = staticmethod(p.add)
    start = 0


@operator("relax.cumprod")
class Cumprod(_Scan):
    """The product of all elements up to each place along `axis` (None: of the flat tensor).

    exclusive: without the element itself, so that the first is 1. dtype: of the result; None: that
    of data. Semantics: https://numpy.org/doc/stable/reference/generated/numpy.cumprod.html
    """

    meaning = staticmethod(np.cumprod)
    combine = staticmethod(p.multiply)
    start = 1


@onnx("CumSum")
@onnx("CumProd")
def onnx_scan(n: OnnxNode, x: Expr, axis: Expr) -> Expr:
    """Along `axis`, an input; `reverse` goes from the end."""
    decl = Cumsum if n.op_type == "CumSum" else Cumprod
    along, reverse = int(scalar_of(n, axis, "axis")), n.attr("reverse", 0)
    if reverse:
        x = n.emit(call("relax.flip", x, axis=along))
    found = make_call(decl, x, axis=along, exclusive=bool(n.attr("exclusive", 0)))
    return call("relax.flip", n.emit(found), axis=along) if reverse else found

"""The determinant: linalg.det, by elimination with the largest pivot of each column.

for k:  the row with the largest |w[i, k]|, i >= k, changes places with row k;  det = det * w[k, k]
        for i > k, j > k:  w[i, j] = w[i, j] - w[i, k] / w[k, k] * w[k, j]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Var
from mlcnb.op._dims import differ, refuse, tell, tensor
from mlcnb.op._elementwise import FLOATS, want_kinds
from mlcnb.op._loops import (
    held,
    hold,
    index_dtype,
    load,
    loop,
    nest,
    scratch,
    seq,
    store,
    with_scratch,
)
from mlcnb.op._spell import spelled_as
from mlcnb.relax.operator import OpDecl, Tensor, operator
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import IfThenElse, Stmt


def want_square(op: OpDecl, x: Any) -> None:
    """Refuse what holds no square matrices of floats."""
    want_kinds(op, FLOATS, x=x)
    if x.ndim in (0, 1) or (x.dims is not None and differ(*x.dims[-2:])):
        refuse(op, f"{tell(x)} holds no square matrices")


@operator("relax.linalg.det")
class Det(OpDecl):
    """The determinants of the matrices in the last two dimensions.

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.linalg.det.html
    """

    x: Tensor

    def infer(self, x: Any) -> Any:
        """x without its last two dimensions."""
        want_square(self, x)
        rank = max(x.ndim - 2, -1)
        return tensor(None if x.dims is None else x.dims[:-2], x.dtype, rank)

    def numpy(self, x: Any) -> Any:
        """numpy.linalg.det, in float64"""
        return np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype)

    def compute(self, x: Any) -> Any:
        """Elimination in float64, matrix by matrix"""
        return te.extern(x.shape[:-2], [x], _eliminate, "det", x.dtype)


def _eliminate(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
    data, out = ins[0], outs[0]
    size, index = data.shape[-1], index_dtype(data)
    work = scratch("work", "float64", size, size)
    pivot, kept, factor, det = (scratch(n, "float64") for n in ("pivot", "kept", "factor", "det"))
    best = scratch("best", index)

    def below(k: Var, change: Callable[[Var], Stmt]) -> Stmt:
        return loop("i", size, lambda i: IfThenElse(p.greater(i, k), change(i)), index)

    def step(k: Var) -> Stmt:
        def larger(i: Var) -> Stmt:
            found = te.abs(load(work, i, k))
            return IfThenElse(p.greater(found, held(pivot)), seq(hold(pivot, found), hold(best, i)))

        def swapped(j: Var) -> Stmt:
            place = [held(best), j]
            moved = store(work, [k, j], load(work, *place))
            return seq(hold(kept, load(work, k, j)), moved, store(work, place, held(kept)))

        def reduced(i: Var) -> Stmt:
            def less(j: Var) -> Stmt:
                rest = load(work, i, j) - held(factor) * load(work, k, j)
                return IfThenElse(p.greater(j, k), store(work, [i, j], rest))

            return seq(
                hold(factor, load(work, i, k) / load(work, k, k)), loop("j", size, less, index)
            )

        search = seq(hold(pivot, te.abs(load(work, k, k))), hold(best, k), below(k, larger))
        swap = seq(hold(det, 0.0 - held(det)), loop("j", size, swapped, index))
        return seq(
            search,
            IfThenElse(p.not_equal(held(best), k), swap),
            hold(det, held(det) * load(work, k, k)),
            IfThenElse(p.not_equal(load(work, k, k), 0.0), below(k, reduced)),
        )

    def matrix(*outer: Var) -> Stmt:
        copied = nest(
            [size, size], lambda i, j: store(work, [i, j], load(data, *outer, i, j)), index
        )
        return seq(
            copied, hold(det, 1.0), loop("k", size, step, index), store(out, outer, held(det))
        )

    buffers = [work, pivot, kept, factor, det, best]
    return with_scratch(buffers, nest(data.shape[:-2], matrix, index), name="det_rows")


spelled_as("Det", Det, since=11)

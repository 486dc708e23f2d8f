"""grad.take_backward: what goes through the places that `take` read, summed where it read twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import const
from mlcnb.op._accumulate import accumulator, rounded, wide
from mlcnb.op._dims import refuse, size, tell, unfit, want_same_dtype
from mlcnb.op._loops import load, nest, store
from mlcnb.op.indexing.take import Take
from mlcnb.relax.operator import OpDecl, Tensor, operator
from mlcnb.tir.index_check import checked, inside
from mlcnb.tir.stmt import Stmt, seq


@operator("relax.grad.take_backward")
class TakeBackward(OpDecl):
    """The gradient of take(x, indices, axis) for x: each of output_grad's added where it was read.

    An index outside of 0 .. size - 1 is an error, as for `take`.
    """

    output_grad: Tensor
    x: Tensor
    indices: Tensor
    axis: int | None = None

    @property
    def forward(self) -> Any:
        """The operator whose gradient this is."""
        made: Any = Take
        return made(self.axis)

    def infer(self, output_grad: Any, x: Any, indices: Any) -> Any:
        """Like x."""
        want_same_dtype(self, output_grad=output_grad, x=x)
        taken = self.forward.infer(x, indices)
        if unfit(taken.dims, output_grad.dims):
            refuse(self, f"output_grad is {tell(output_grad)}, but take gives {tell(taken)}")
        return x

    def numpy(self, output_grad: Any, x: Any, indices: Any) -> Any:
        """numpy.add.at"""
        axis = self.forward.place(np.ndim(x))
        found = np.zeros_like(wide(x))
        at = inside(indices, 0, x.shape[axis], "take_backward: indices")
        place: Any = (slice(None),) * axis + (at,)
        np.add.at(found, place, wide(output_grad))
        return found.astype(x.dtype)

    def compute(self, output_grad: Any, x: Any, indices: Any) -> Any:
        """Zeros, then one serial loop over output_grad."""
        axis, many = self.forward.place(len(x.shape)), len(indices.shape)
        kind = accumulator(x.dtype)

        def body(ins: Any, outs: Any) -> Stmt:
            grad, places = ins
            out = outs[0]
            clear = nest(x.shape, lambda *i: store(out, i, const(0, kind)))

            def add(*index: Any) -> Stmt:
                read = load(places, *index[axis : axis + many])
                where = checked(read, x.shape[axis], "take_backward: indices")
                at = (*index[:axis], where, *index[axis + many :])
                return store(out, at, load(out, *at) + load(grad, *index).astype(kind))

            return seq(clear, nest(output_grad.shape, add))

        inputs = [output_grad, indices]
        found = te.extern(x.shape, inputs, body, name="take_backward", dtype=str(kind))
        return rounded(found, x.dtype, "take_backward_cast")

    def flops(self, output_grad: Any, x: Any, indices: Any) -> Any:
        """One for each of output_grad's."""
        return None if output_grad.dims is None else size(output_grad)

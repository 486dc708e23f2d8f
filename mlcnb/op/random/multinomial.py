"""Draws of classes: multinomial_from_uniform, and ONNX's Multinomial made of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.op._dims import as_int, refuse, tell, tensor, want_rank, want_same_dtype
from mlcnb.op._elementwise import FLOATS, INTEGERS, want_kinds
from mlcnb.op._onnx_dtype import dtype_of
from mlcnb.op._spell import affordable, call
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.op.random.generators import Uniform, seed_of
from mlcnb.op.scan import Cumsum
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.operator import OpDecl, Tensor, make_call, operator

_cumsum: Any = Cumsum
along_classes = _cumsum(axis=1)


@operator("relax.multinomial_from_uniform")
class MultinomialFromUniform(OpDecl):
    """Draws by given random numbers: which class the number falls in, of the class probabilities.

    prob: (batch, classes). uniform_sample, sample_indices: (n, 1), a number in [0, 1) and the row
    of `prob` that it draws from. Result: (n, 1), the first class up to which the probabilities sum
    to more than the number; the last class where they do not.
    """

    prob: Tensor
    uniform_sample: Tensor
    sample_indices: Tensor
    dtype: str = "int64"

    def infer(self, prob: Any, uniform_sample: Any, sample_indices: Any) -> Any:
        """(n, 1)"""
        want_kinds(self, FLOATS, prob=prob, uniform_sample=uniform_sample)
        want_kinds(self, INTEGERS, sample_indices=sample_indices)
        want_same_dtype(self, prob=prob, uniform_sample=uniform_sample)
        given = {"prob": prob, "uniform_sample": uniform_sample, "sample_indices": sample_indices}
        for name, info in given.items():
            want_rank(self, name, info, 2)
        if not dtype(self.dtype).is_integer:
            refuse(self, f"dtype {self.dtype} holds no classes, for {tell(prob)}")
        return tensor(uniform_sample.dims, self.dtype, 2)

    def numpy(self, prob: Any, uniform_sample: Any, sample_indices: Any) -> Any:
        """As said above"""
        total = along_classes.numpy(prob)[sample_indices[:, 0]]
        passed = np.sum(total <= uniform_sample, axis=1, keepdims=True)
        return np.minimum(passed, prob.shape[1] - 1).astype(dtype(self.dtype).numpy)

    def compute(self, prob: Any, uniform_sample: Any, sample_indices: Any) -> Any:
        """A running sum, a count of what it passes, and the bound."""
        total = along_classes.compute(prob)
        classes = prob.shape[1]
        k = te.reduce_axis((0, classes), name="k")

        def passed(i: Any, j: Any) -> Any:
            row = sample_indices(i, j)
            below = p.less_equal(total(row, k), uniform_sample(i, j))
            return te.sum(p.cast(self.dtype, below), axis=k)

        counts = te.compute(uniform_sample.shape, passed, name="passed")
        last = p.cast(self.dtype, classes - 1)
        name = "multinomial_from_uniform"
        return te.compute(counts.shape, lambda i, j: p.minimum(counts(i, j), last), name=name)


@onnx("Multinomial")
def onnx_multinomial(n: OnnxNode, x: Expr) -> Expr:
    """`sample_size` classes for each row of x, which holds logarithms of weights."""
    rows, each = as_int(n.dims(x)[0]), n.attr("sample_size", 1)
    if rows is None:
        n.refuse("the number of rows is not known")
    count = rows * each
    prob = n.emit(call("relax.nn.softmax", x, axis=-1))
    drawn = n.emit(make_call(Uniform, (count, 1), seed=seed_of(n), dtype=n.dtype(x)))
    affordable(n, "the rows", rows, each)
    row = const(np.repeat(np.arange(rows), each).reshape(count, 1))
    kind = dtype_of(n, "dtype", "int32")
    found = n.emit(make_call(MultinomialFromUniform, prob, drawn, row, kind))
    return call("relax.reshape", found, (rows, each))

"""Shapes as values, and what is sugar or a formula of other operators."""

from __future__ import annotations

import numpy as np

from mlcnb import relax
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Var
from mlcnb.op.shape import ShapeOf, ShapeToTensor, Size, TensorToShape
from mlcnb.relax.expr import const, shape_expr, tensor_info
from mlcnb.relax.struct_info import ShapeStructInfo
from tests.op.eager import evaluate
from tests.op.harness import Case, numbers

N = Var("n", dtype("int64"))


def test_shape_of_keeps_symbolic_dimensions():
    found = ShapeOf().infer(tensor_info((N, 3), "float32"))
    assert found.values[0] is N
    assert ShapeOf().infer(tensor_info(None, None, 2)).ndim == 2
    assert ShapeOf().numpy(np.ones((2, 3))) == (2, 3)


def test_a_tensor_becomes_a_shape_of_known_length():
    found = TensorToShape().infer(tensor_info((3,), "int64"))
    assert isinstance(found, ShapeStructInfo)
    assert (found.values, found.ndim) == (None, 3)
    assert TensorToShape().numpy(np.array([2, 3, 4])) == (2, 3, 4)


def test_shape_to_tensor_and_size():
    for case in (
        Case(ShapeToTensor(), [(2, 3, 5)]),
        Case(ShapeToTensor(), [(7,)]),
        Case(Size(), [numbers((2, 3))]),
        Case(Size(), [numbers(())]),
    ):
        case.check(case.run_loops())
    info = ShapeToTensor().infer(shape_expr((N, 3)).struct_info)
    assert (info.dtype, [int(d) for d in info.dims]) == ("int64", [2])


def test_linear_is_permute_matmul_add():
    x, w, b = (numbers(shape, seed=seed) for seed, shape in enumerate([(2, 3), (4, 3), (4,)]))
    call = relax.op.linear(const(x), const(w), const(b))
    assert call.op.name == "relax.add"
    np.testing.assert_allclose(evaluate(call), x @ w.T + b, rtol=1e-6)

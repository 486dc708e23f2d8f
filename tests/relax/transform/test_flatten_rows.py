"""FlattenRows: a sequence before an open batch is one matrix."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.relax import BlockBuilder, Var, op
from mlcnb.relax.expr import const, tensor_info
from mlcnb.relax.transform import FlattenRows
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import evaluate
from mlcnb.tir import SizeVar
from tests.relax.harness import check_pass

W = np.arange(6, dtype="float32").reshape(3, 2)


def test_before_and_after() -> None:
    @R.function
    def before(x: R.Tensor((5, "b", 3), "float32")):
        with R.dataflow():
            gv = R.matmul(x, R.const(W))
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((5, "b", 3), "float32")):
        b = T.int64()
        with R.dataflow():
            x1 = R.reshape(x, (5 * b, 3))
            y = R.matmul(x1, R.const(W))
            gv = R.reshape(y, (5, b, 2))
            R.output(gv)
        return gv

    check_pass(FlattenRows(), before, after)


def test_rows_that_meet_a_transposed_matrix_are_one_axis() -> None:
    @R.function
    def before(x: R.Tensor((2, 5, 3), "float32"), w: R.Tensor((4, 3), "float32"),
               b: R.Tensor((4,), "float32")):  # fmt: skip
        with R.dataflow():
            wt = R.permute_dims(w, axes=[1, 0])
            y = R.matmul(x, wt)
            gv = R.add(y, b)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((2, 5, 3), "float32"), w: R.Tensor((4, 3), "float32"),
              b: R.Tensor((4,), "float32")):  # fmt: skip
        with R.dataflow():
            wt = R.permute_dims(w, axes=[1, 0])
            x1 = R.reshape(x, (10, 3))
            y1 = R.matmul(x1, wt)
            y = R.reshape(y1, (2, 5, 4))
            gv = R.add(y, b)
            R.output(gv)
        return gv

    check_pass(FlattenRows(), before, after)
    ex = mlc.compile(before)
    assert list(ex.kernels) == ["fused_NT_matmul_add"], "the bias is part of the product"
    assert [tuple(map(int, b.shape)) for b in ex.kernels[0].func.buffers][-1] == (10, 4)


def test_where_it_does_nothing() -> None:
    @R.function
    def known(x: R.Tensor(("b", 5, 3), "float32")):
        with R.dataflow():
            gv = R.matmul(x, R.const(W))
            R.output(gv)
        return gv

    @R.function
    def alone(x: R.Tensor((1, "s", 3), "float32")):
        with R.dataflow():
            gv = R.matmul(x, R.const(W))
            R.output(gv)
        return gv

    @R.function
    def given(x: R.Tensor((5, "b", 3), "float32"), w: R.Tensor((3, 2), "float32")):
        with R.dataflow():
            gv = R.matmul(x, w)
            R.output(gv)
        return gv

    for same in (known, alone, given):
        check_pass(FlattenRows(), same, same)


@pytest.mark.parametrize("batch", [0, 1, 3, 17])
def test_bias_and_residual_stay_in_the_kernel(batch: int) -> None:
    rng = np.random.default_rng(0)
    w, bias = rng.standard_normal((40, 24)).astype("f4"), rng.standard_normal(24).astype("f4")
    b = SizeVar("b", "int64")
    x = Var("x", tensor_info((7, b, 40), "float32"))
    r = Var("r", tensor_info((7, b, 24), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x, r]):
        with bb.dataflow():
            y = bb.emit(op.add(op.matmul(x, const(w)), const(bias)))
            out = bb.emit_output(op.nn.relu(op.add(y, r)))
        bb.emit_func_output(out)
    ex = mlc.compile(bb.get(), target="llvm")
    assert list(ex.kernels) == ["fused_matmul_packed_add_add_relu"]
    given = [rng.standard_normal((7, batch, n)).astype("f4") for n in (40, 24)]
    np.testing.assert_allclose(ex(*given), evaluate(bb.get(), *given), rtol=1e-4, atol=1e-5)

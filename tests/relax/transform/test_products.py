"""Passes on products of matrices: their order, sums of them, several of one operand, transposed."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.relax.transform import (
    AdjustMatmulOrder,
    CombineParallelMatmul,
    ExpandMatmulOfSum,
    FuseTransposeMatmul,
    RemoveRedundantReshape,
    ReorderPermuteDimsAfterConcat,
    ReorderTakeAfterMatmul,
)
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from tests.relax.harness import check_pass


@pytest.mark.parametrize("side", ["left", "right"])
def test_three_matrices_are_multiplied_in_the_cheaper_order(side: str) -> None:
    if side == "left":

        @R.function
        def before(
            x: R.Tensor([8], "float32"),
            a: R.Tensor([8, 2], "float32"),
            b: R.Tensor([2, 9], "float32"),
        ):
            w = R.matmul(a, b)
            out = R.matmul(x, w)
            return out

        @R.function
        def after(
            x: R.Tensor([8], "float32"),
            a: R.Tensor([8, 2], "float32"),
            b: R.Tensor([2, 9], "float32"),
        ):
            y = R.matmul(x, a)
            out = R.matmul(y, b)
            return out
    else:

        @R.function
        def before(
            x: R.Tensor([8], "float32"),
            a: R.Tensor([9, 2], "float32"),
            b: R.Tensor([2, 8], "float32"),
        ):
            w = R.matmul(a, b)
            out = R.matmul(w, x)
            return out

        @R.function
        def after(
            x: R.Tensor([8], "float32"),
            a: R.Tensor([9, 2], "float32"),
            b: R.Tensor([2, 8], "float32"),
        ):
            y = R.matmul(b, x)
            out = R.matmul(a, y)
            return out

    check_pass(AdjustMatmulOrder(), before, after)


def test_the_order_is_proved_for_every_rank_of_a_low_rank_update() -> None:
    @R.function
    def before(
        x: R.Tensor(["batch", 1, 16], "float32"),
        a: R.Tensor([16, "rank"], "float32"),
        b: R.Tensor(["rank", 32], "float32"),
    ) -> R.Tensor(["batch", 1, 32], "float32"):
        batch = T.int64()
        w: R.Tensor([16, 32], "float32") = R.matmul(a, b)
        out: R.Tensor([batch, 1, 32], "float32") = R.matmul(x, w)
        return out

    @R.function
    def after(
        x: R.Tensor(["batch", 1, 16], "float32"),
        a: R.Tensor([16, "rank"], "float32"),
        b: R.Tensor(["rank", 32], "float32"),
    ) -> R.Tensor(["batch", 1, 32], "float32"):
        batch = T.int64()
        rank = T.int64()
        y: R.Tensor([batch, 1, rank], "float32") = R.matmul(x, a)
        out: R.Tensor([batch, 1, 32], "float32") = R.matmul(y, b)
        return out

    check_pass(AdjustMatmulOrder(), before, after)


def test_the_order_stays_where_weights_meet_or_nothing_can_be_proved() -> None:
    @R.function
    def weights(
        x: R.Tensor([16], "float32"),
        a: R.Tensor([16, 2], "float32"),
        b: R.Tensor([2, 32], "float32"),
    ):
        R.func_attr({"num_input": 1})
        w = R.matmul(a, b)
        out = R.matmul(x, w)
        return out

    @R.function
    def unknown(
        a: R.Tensor(["m", "n"], "float32"),
        b: R.Tensor(["n", "p"], "float32"),
        c: R.Tensor(["p", "q"], "float32"),
    ):
        out = R.matmul(R.matmul(a, b), c)
        return out

    @R.function
    def batched(
        x: R.Tensor([16], "float32"),
        a: R.Tensor([3, 16, 2], "float32"),
        b: R.Tensor([3, 2, 32], "float32"),
    ):
        out = R.matmul(x, R.matmul(a, b))
        return out

    for program in (weights, unknown, batched):
        check_pass(AdjustMatmulOrder(), program, program)


def test_the_order_through_a_transposition() -> None:
    @R.function
    def before(
        x: R.Tensor([1, 16], "float32"),
        a: R.Tensor([32, 2], "float32"),
        b: R.Tensor([2, 16], "float32"),
    ):
        w = R.permute_dims(R.matmul(a, b))
        out = R.matmul(x, w)
        return out

    @R.function
    def after(
        x: R.Tensor([1, 16], "float32"),
        a: R.Tensor([32, 2], "float32"),
        b: R.Tensor([2, 16], "float32"),
    ):
        bt = R.permute_dims(b)
        y = R.matmul(x, bt)
        at = R.permute_dims(a)
        out = R.matmul(y, at)
        return out

    check_pass(AdjustMatmulOrder(), before, after)


def test_a_product_with_a_sum() -> None:
    @R.function
    def before(
        x: R.Tensor([3, 4], "float32"),
        base: R.Tensor([4, 5], "float32"),
        a: R.Tensor([4, 2], "float32"),
        b: R.Tensor([2, 5], "float32"),
    ):
        part = R.matmul(a, b)
        w = R.add(base, part)
        out = R.matmul(x, w)
        return out

    @R.function
    def after(
        x: R.Tensor([3, 4], "float32"),
        base: R.Tensor([4, 5], "float32"),
        a: R.Tensor([4, 2], "float32"),
        b: R.Tensor([2, 5], "float32"),
    ):
        part = R.matmul(a, b)
        one = R.matmul(x, base)
        two = R.matmul(x, part)
        out = R.add(one, two)
        return out

    check_pass(ExpandMatmulOfSum(), before, after)


def test_a_sum_of_weights_stays() -> None:
    @R.function
    def weights(
        x: R.Tensor([3, 4], "float32"),
        a: R.Tensor([4, 5], "float32"),
        b: R.Tensor([4, 5], "float32"),
    ):
        R.func_attr({"num_input": 1})
        out = R.matmul(x, R.add(a, b))
        return out

    @R.function
    def broadcast(
        x: R.Tensor([3, 4], "float32"), a: R.Tensor([4, 5], "float32"), b: R.Tensor([5], "float32")
    ):
        out = R.matmul(x, R.add(a, b))
        return out

    for program in (weights, broadcast):
        check_pass(ExpandMatmulOfSum(), program, program)


def test_products_with_one_left_operand_become_one() -> None:
    @R.function
    def before(
        x: R.Tensor((2, 3, 4), "float32"),
        w0: R.Tensor((4, 5), "float32"),
        w1: R.Tensor((4, 6), "float32"),
        w2: R.Tensor((4, 7), "float32"),
    ):
        with R.dataflow():
            a = R.matmul(x, w0)
            b = R.matmul(x, w1)
            c = R.matmul(x, w2)
            gv = R.concat((a, b, c), axis=2)
            R.output(gv)
        return gv

    @R.function
    def after(
        x: R.Tensor((2, 3, 4), "float32"),
        w0: R.Tensor((4, 5), "float32"),
        w1: R.Tensor((4, 6), "float32"),
        w2: R.Tensor((4, 7), "float32"),
    ):
        with R.dataflow():
            w = R.concat((w0, w1, w2), axis=1)
            all = R.matmul(x, w, out_dtype="float32")
            parts = R.split(all, indices_or_sections=[5, 11], axis=2)
            a = parts[0]
            b = parts[1]
            c = parts[2]
            gv = R.concat((a, b, c), axis=2)
            R.output(gv)
        return gv

    check_pass(CombineParallelMatmul(), before, after)
    check_pass(CombineParallelMatmul(lambda *_: False), before, before)


def test_biases_and_activations_join_where_all_have_them() -> None:
    @R.function
    def before(
        x: R.Tensor((3, 4), "float32"),
        w0: R.Tensor((4, 5), "float32"),
        b0: R.Tensor((5,), "float32"),
        w1: R.Tensor((4, 6), "float32"),
        b1: R.Tensor((6,), "float32"),
    ):
        with R.dataflow():
            m0 = R.matmul(x, w0)
            a0 = R.add(m0, b0)
            r0 = R.nn.gelu(a0)
            m1 = R.matmul(x, w1)
            a1 = R.add(m1, b1)
            r1 = R.nn.gelu(a1)
            gv = R.concat((r0, r1), axis=1)
            R.output(gv)
        return gv

    @R.function
    def after(
        x: R.Tensor((3, 4), "float32"),
        w0: R.Tensor((4, 5), "float32"),
        b0: R.Tensor((5,), "float32"),
        w1: R.Tensor((4, 6), "float32"),
        b1: R.Tensor((6,), "float32"),
    ):
        with R.dataflow():
            w = R.concat((w0, w1), axis=1)
            m = R.matmul(x, w, out_dtype="float32")
            b = R.concat((b0, b1), axis=0)
            a = R.add(m, b)
            r = R.nn.gelu(a)
            parts = R.split(r, indices_or_sections=[5], axis=1)
            r0 = parts[0]
            r1 = parts[1]
            gv = R.concat((r0, r1), axis=1)
            R.output(gv)
        return gv

    check_pass(CombineParallelMatmul(), before, after)


def test_a_bias_of_one_stays_behind_the_split() -> None:
    @R.function
    def before(
        x: R.Tensor((3, 4), "float32"),
        w0: R.Tensor((4, 5), "float32"),
        b0: R.Tensor((5,), "float32"),
        w1: R.Tensor((4, "n"), "float32"),
    ):
        with R.dataflow():
            m1 = R.matmul(x, w1)
            m0 = R.matmul(x, w0)
            a0 = R.nn.relu(R.add(m0, b0))
            gv = (R.nn.relu(m1), a0)
            R.output(gv)
        return gv

    @R.function
    def after(
        x: R.Tensor((3, 4), "float32"),
        w0: R.Tensor((4, 5), "float32"),
        b0: R.Tensor((5,), "float32"),
        w1: R.Tensor((4, "n"), "float32"),
    ):
        with R.dataflow():
            w = R.concat((w0, w1), axis=1)
            m = R.matmul(x, w, out_dtype="float32")
            parts = R.split(m, indices_or_sections=[5], axis=1)
            m1 = parts[1]
            m0 = parts[0]
            s = R.add(m0, b0)
            a0 = R.nn.relu(s)
            r = R.nn.relu(m1)
            gv = (r, a0)
            R.output(gv)
        return gv

    check_pass(CombineParallelMatmul(), before, after)


def test_products_that_need_each_other_or_differ_in_batches_stay() -> None:
    @R.function
    def chained(x: R.Tensor((4, 4), "float32"), w0: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.matmul(x, w0)
            gv = R.matmul(x, a)
            R.output(gv)
        return gv

    @R.function
    def batches(
        x: R.Tensor((4, 4), "float32"),
        w0: R.Tensor((2, 4, 4), "float32"),
        w1: R.Tensor((3, 4, 4), "float32"),
    ):
        with R.dataflow():
            a = R.matmul(x, w0)
            b = R.matmul(x, w1)
            gv = (a, b)
            R.output(gv)
        return gv

    for program in (chained, batches):
        check_pass(CombineParallelMatmul(), program, program)


def test_transpositions_after_the_join() -> None:
    @R.function
    def before(x: R.Tensor((1, 4, 8, 8), "float32"), y: R.Tensor((1, 5, 8, 8), "float32")):
        with R.dataflow():
            xt = R.permute_dims(x, axes=[0, 2, 3, 1])
            yt = R.permute_dims(y, axes=[0, 2, 3, 1])
            gv = R.concat([xt, yt], axis=-1)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((1, 4, 8, 8), "float32"), y: R.Tensor((1, 5, 8, 8), "float32")):
        with R.dataflow():
            xy = R.concat([x, y], axis=1)
            gv = R.permute_dims(xy, axes=[0, 2, 3, 1])
            R.output(gv)
        return gv

    @R.function
    def differ(x: R.Tensor((4, 8), "float32"), y: R.Tensor((8, 4), "float32")):
        with R.dataflow():
            xt = R.permute_dims(x, axes=[0, 1])
            yt = R.permute_dims(y)
            gv = R.concat([xt, yt], axis=0)
            R.output(gv)
        return gv

    check_pass(ReorderPermuteDimsAfterConcat(), before, after)
    check_pass(ReorderPermuteDimsAfterConcat(), differ, differ)


def test_columns_are_taken_after_the_product() -> None:
    @R.function
    def before(
        x: R.Tensor(["batch", 1, 4], "float32"),
        table: R.Tensor([4, "size"], "float32"),
        which: R.Tensor([3], "int64"),
    ) -> R.Tensor(["batch", 1, 3], "float32"):
        with R.dataflow():
            w = R.take(table, which, axis=1)
            gv = R.matmul(x, w)
            R.output(gv)
        return gv

    @R.function
    def after(
        x: R.Tensor(["batch", 1, 4], "float32"),
        table: R.Tensor([4, "size"], "float32"),
        which: R.Tensor([3], "int64"),
    ) -> R.Tensor(["batch", 1, 3], "float32"):
        with R.dataflow():
            all = R.matmul(x, table)
            gv = R.take(all, which, axis=2)
            R.output(gv)
        return gv

    rng = np.random.default_rng(0)
    x, table = rng.random((2, 1, 4), "float32"), rng.random((4, 9), "float32")
    check_pass(ReorderTakeAfterMatmul(), before, after, [x, table, np.array([8, 0, 3])])


def test_matrices_are_taken_after_the_product() -> None:
    @R.function
    def before(
        x: R.Tensor(["batch", 1, 4], "float32"),
        table: R.Tensor(["size", 4, 5], "float32"),
        which: R.Tensor(["batch"], "int64"),
    ) -> R.Tensor(["batch", 1, 5], "float32"):
        with R.dataflow():
            w = R.take(table, which, axis=0)
            gv = R.matmul(x, w)
            R.output(gv)
        return gv

    @R.function
    def after(
        x: R.Tensor(["batch", 1, 4], "float32"),
        table: R.Tensor(["size", 4, 5], "float32"),
        which: R.Tensor(["batch"], "int64"),
    ) -> R.Tensor(["batch", 1, 5], "float32"):
        batch = T.int64()
        size = T.int64()
        with R.dataflow():
            moved = R.permute_dims(table, [1, 0, 2])
            wide = R.reshape(moved, [4, size * 5])
            product = R.matmul(x, wide)
            apart = R.reshape(product, [batch, 1, size, 5])
            taken = R.take(apart, which, axis=2)
            gv = R.einsum([taken], "ijik->ijk")
            R.output(gv)
        return gv

    rng = np.random.default_rng(0)
    x, table = rng.random((3, 1, 4), "float32"), rng.random((6, 4, 5), "float32")
    check_pass(ReorderTakeAfterMatmul(), before, after, [x, table, np.array([5, 0, 3])])


def test_a_take_of_rows_stays() -> None:
    @R.function
    def rows(
        x: R.Tensor([2, 3], "float32"),
        table: R.Tensor([9, 5], "float32"),
        which: R.Tensor([3], "int64"),
    ):
        with R.dataflow():
            gv = R.matmul(x, R.take(table, which, axis=0))
            R.output(gv)
        return gv

    check_pass(ReorderTakeAfterMatmul(), rows, rows)


def test_a_transposed_operand_is_read_as_it_lies() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 4), "float32"), w: R.Tensor((5, 4), "float32")):
            with R.dataflow():
                wt = R.permute_dims(w, axes=[1, 0])
                gv = R.matmul(x, wt)
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @T.prim_func(private=True)
        def NT_matmul(
            x: T.Buffer((T.int64(3), T.int64(4)), "float32"),
            w: T.Buffer((T.int64(5), T.int64(4)), "float32"),
            out: T.Buffer((T.int64(3), T.int64(5)), "float32"),
        ):
            T.func_attr({"tir.noalias": True})
            for i, j, k in T.grid(T.int64(3), T.int64(5), T.int64(4)):
                with T.block("NT_matmul"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        out[vi, vj] = T.float32(0)
                    out[vi, vj] = out[vi, vj] + x[vi, vk] * w[vj, vk]

        @R.function
        def main(x: R.Tensor((3, 4), "float32"), w: R.Tensor((5, 4), "float32")):
            cls = After
            with R.dataflow():
                gv = R.call_tir(cls.NT_matmul, (x, w), out_sinfo=R.Tensor((3, 5), "float32"))
                R.output(gv)
            return gv

    check_pass(FuseTransposeMatmul(), Before, After)


def test_other_transpositions_stay() -> None:
    @R.function
    def left(x: R.Tensor((4, 3), "float32"), w: R.Tensor((4, 5), "float32")):
        with R.dataflow():
            gv = R.matmul(R.permute_dims(x), w)
            R.output(gv)
        return gv

    @R.function
    def batch(x: R.Tensor((2, 3, 4), "float32"), w: R.Tensor((5, 2, 4), "float32")):
        with R.dataflow():
            gv = R.matmul(x, R.permute_dims(w, axes=[1, 2, 0]))
            R.output(gv)
        return gv

    for program in (left, batch):
        check_pass(FuseTransposeMatmul(), program, program)


def test_reshapes_of_reshapes() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32"), y: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.reshape(x, (1, 6))
            b = R.reshape(a, (3, 2))
            c = R.reshape(b, (2, 3))
            d = R.reshape(y, (2, 2))
            gv = (b, R.exp(c), R.exp(d))
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((2, 3), "float32"), y: R.Tensor((4,), "float32")):
        with R.dataflow():
            b = R.reshape(x, (3, 2))
            d = R.reshape(y, (2, 2))
            e = R.exp(x)
            f = R.exp(d)
            gv = (b, e, f)
            R.output(gv)
        return gv

    check_pass(RemoveRedundantReshape(), before, after)


def test_of_matrices_only_batches_stay() -> None:
    @R.function
    def batch(x: R.Tensor((2, 3, 4), "float32"), w: R.Tensor((2, 5, 4), "float32")):
        with R.dataflow():
            gv = R.matmul(x, R.permute_dims(w, axes=[0, 2, 1]))
            R.output(gv)
        return gv

    check_pass(FuseTransposeMatmul(matrices_only=True), batch, batch)


def test_a_weight_that_a_call_brings_is_not_transposed() -> None:
    """`x @ w.T + b` is one kernel, which reads the weight as it lies."""

    @R.function
    def linear(
        x: R.Tensor((2, 3, 40), "float32"),
        w: R.Tensor((50, 40), "float32"),
        b: R.Tensor((50,), "float32"),
    ):
        with R.dataflow():
            gv = R.add(R.matmul(x, R.permute_dims(w)), b)
            R.output(gv)
        return gv

    ex = mlc.compile(mlc.IRModule({"linear": linear}), target="llvm")
    assert list(ex.kernels) == ["fused_NT_matmul_add"]
    rng = np.random.default_rng(3)
    x, w, b = (rng.standard_normal(s).astype("float32") for s in ((2, 3, 40), (50, 40), (50,)))
    np.testing.assert_allclose(ex(x, w, b), x @ w.T + b, rtol=1e-4, atol=1e-5)


def test_a_column_with_a_transposed_matrix_is_a_row_with_the_matrix() -> None:
    @R.function
    def before(x: R.Tensor((2, 7, 1), "float32"), a: R.Tensor((7, 5), "float32")):
        with R.dataflow():
            gv = R.matmul(R.permute_dims(a), x)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((2, 7, 1), "float32"), a: R.Tensor((7, 5), "float32")):
        with R.dataflow():
            row = R.reshape(x, (2, 1, 7))
            y = R.matmul(row, a)
            gv = R.reshape(y, (2, 5, 1))
            R.output(gv)
        return gv

    @R.function
    def vector(x: R.Tensor((7,), "float32"), a: R.Tensor((2, 7, 5), "float32")):
        with R.dataflow():
            gv = R.matmul(R.permute_dims(a, axes=[0, 2, 1]), x)
            R.output(gv)
        return gv

    @R.function
    def as_it_lies(x: R.Tensor((7,), "float32"), a: R.Tensor((2, 7, 5), "float32")):
        with R.dataflow():
            gv = R.matmul(x, a)
            R.output(gv)
        return gv

    check_pass(FuseTransposeMatmul(), before, after)
    check_pass(FuseTransposeMatmul(), vector, as_it_lies)


@pytest.mark.parametrize("depth, rows", [(1, 1), (5, 3), (64, 100), (129, 257)])
def test_columns_with_transposed_matrices_of_open_sizes(depth: int, rows: int) -> None:
    @R.function
    def product(x: R.Tensor(("k", 1), "float32"), a: R.Tensor(("k", "m"), "float32")):
        with R.dataflow():
            gv = R.matmul(R.permute_dims(a), x)
            R.output(gv)
        return gv

    ex = mlc.compile(mlc.IRModule({"product": product}), target="llvm")
    assert not any("permute" in name or "transpose" in name for name in ex.kernels)
    rng = np.random.default_rng(4)
    x, a = (rng.standard_normal(s).astype("float32") for s in ((depth, 1), (depth, rows)))
    np.testing.assert_allclose(ex(x, a), a.T @ x, rtol=1e-4, atol=1e-4)

"""SplitLayoutRewritePreproc: what changes a weight's layout leaves the function that uses it."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import PassError
from mlcnb.relax import transform as X
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from tests.relax.harness import check_pass


def test_one_weight() -> None:
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def f(x: T.Buffer((8, 8)), w: T.Buffer((8, 8)), out: T.Buffer((8, 8))):
            T.func_attr({"layout_free_buffers": [1], "tir.noalias": True})
            packed = T.alloc_buffer((2, 2, 4, 4))
            for i, j in T.grid(8, 8):
                with T.block("pack"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                    packed[vi // 4, vj // 4, vi % 4, vj % 4] = w[vi, vj]
            for i, j in T.grid(8, 8):
                with T.block("out"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    out[vi, vj] = x[vi, vj] + packed[vi // 4, vj // 4, vi % 4, vj % 4]

        @R.function
        def main(x: R.Tensor((8, 8), "float32"), w: R.Tensor((8, 8), "float32")):
            R.func_attr({"num_input": 1})
            cls = Before
            with R.dataflow():
                gv = R.call_tir(cls.f, (x, w), out_sinfo=R.Tensor((8, 8), "float32"))
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @T.prim_func(private=True)
        def f_prepacked(x: T.Buffer((8, 8)), packed: T.Buffer((2, 2, 4, 4)), out: T.Buffer((8, 8))):
            T.func_attr({"tir.noalias": True})
            for i, j in T.grid(8, 8):
                with T.block("out"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    out[vi, vj] = x[vi, vj] + packed[vi // 4, vj // 4, vi % 4, vj % 4]

        @T.prim_func(private=True)
        def f_weight_prepack(w: T.Buffer((8, 8)), packed: T.Buffer((2, 2, 4, 4))):
            T.func_attr({"tir.noalias": True})
            for i, j in T.grid(8, 8):
                with T.block("pack"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    packed[vi // 4, vj // 4, vi % 4, vj % 4] = w[vi, vj]

        @R.function
        def main(x: R.Tensor((8, 8), "float32"), w: R.Tensor((8, 8), "float32")):
            R.func_attr({"num_input": 1})
            cls = After
            with R.dataflow():
                lv = R.call_tir(
                    cls.f_weight_prepack, (w,), out_sinfo=R.Tensor((2, 2, 4, 4), "float32")
                )
                gv = R.call_tir(cls.f_prepacked, (x, lv), out_sinfo=R.Tensor((8, 8), "float32"))
                R.output(gv)
            return gv

    split = check_pass(X.SplitLayoutRewritePreproc(), Before, After)
    lifted = X.LiftTransformParams()(split)
    assert "f_weight_prepack" in lifted["main_transform_params"].script()
    assert "f_weight_prepack" not in lifted["main"].script()


def test_two_weights_and_a_function_that_stays() -> None:
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def f(x: T.Buffer((8,)), w: T.Buffer((8,)), v: T.Buffer((8,)), out: T.Buffer((8,))):
            v1 = T.alloc_buffer((2, 4))
            w1 = T.alloc_buffer((4, 2))
            for i in range(8):
                with T.block("v1"):
                    vi = T.axis.spatial(8, i)
                    T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                    v1[vi // 4, vi % 4] = v[vi]
            for i in range(8):
                with T.block("w1"):
                    vi = T.axis.spatial(8, i)
                    T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                    w1[vi // 2, vi % 2] = w[vi]
            for i in range(8):
                with T.block("out"):
                    vi = T.axis.spatial(8, i)
                    out[vi] = x[vi] * w1[vi // 2, vi % 2] + v1[vi // 4, vi % 4]

        @T.prim_func(private=True)
        def g(x: T.Buffer((8,)), out: T.Buffer((8,))):
            for i in range(8):
                with T.block("out"):
                    vi = T.axis.spatial(8, i)
                    out[vi] = x[vi] + 1.0

        @R.function
        def main(
            x: R.Tensor((8,), "float32"), w: R.Tensor((8,), "float32"), v: R.Tensor((8,), "float32")
        ):
            cls = Before
            with R.dataflow():
                a = R.call_tir(cls.f, (x, w, v), out_sinfo=R.Tensor((8,), "float32"))
                b = R.call_tir(cls.f, (a, v, w), out_sinfo=R.Tensor((8,), "float32"))
                gv = R.call_tir(cls.g, (b,), out_sinfo=R.Tensor((8,), "float32"))
                R.output(gv)
            return gv

    made = check_pass(X.SplitLayoutRewritePreproc(), Before)
    assert sorted(k.name_hint for k in made) == ["f_prepacked", "f_weight_prepack", "g", "main"]
    alone = made.with_functions({})
    assert X.SplitLayoutRewritePreproc()(alone) is alone


def test_a_block_that_does_more_is_refused() -> None:
    @I.ir_module
    class Odd:
        @T.prim_func(private=True)
        def f(x: T.Buffer((8,)), w: T.Buffer((8,)), out: T.Buffer((8,))):
            w1 = T.alloc_buffer((8,))
            for i in range(8):
                with T.block("w1"):
                    vi = T.axis.spatial(8, i)
                    T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                    w1[vi] = w[vi] + x[vi]
            for i in range(8):
                with T.block("out"):
                    vi = T.axis.spatial(8, i)
                    out[vi] = w1[vi]

        @R.function
        def main(x: R.Tensor((8,), "float32"), w: R.Tensor((8,), "float32")):
            cls = Odd
            return R.call_tir(cls.f, (x, w), out_sinfo=R.Tensor((8,), "float32"))

    with pytest.raises(PassError, match="block w1 does more than change a layout"):
        X.SplitLayoutRewritePreproc()(Odd)

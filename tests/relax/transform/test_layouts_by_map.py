"""Layouts by index maps: layout_transform, AlterOpImpl, OptimizeLayoutTransform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlcnb import relax
from mlcnb.core.errors import PassError, TypeInferError
from mlcnb.ir import assert_structural_equal
from mlcnb.relax import transform as X
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.script import from_source
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import evaluate
from tests.relax.harness import check_pass


def tiled(i: Any) -> Any:
    return i // 4, i % 4


@I.ir_module
class Adds:
    @T.prim_func(private=True)
    def add(a: T.Buffer((16,)), b: T.Buffer((16,)), c: T.Buffer((16,))):
        T.func_attr({"operator_name": "relax.add"})
        for i in range(16):
            with T.block("add"):
                v = T.axis.spatial(16, i)
                c[v] = a[v] + b[v]

    @R.function
    def main(x: R.Tensor((16,), "float32"), y: R.Tensor((16,), "float32")):
        cls = Adds
        with R.dataflow():
            lv = R.call_tir(cls.add, (x, y), out_sinfo=R.Tensor((16,), "float32"))
            gv = R.call_tir(cls.add, (lv, y), out_sinfo=R.Tensor((16,), "float32"))
            R.output(gv)
        return gv


@T.prim_func(private=True)
def add_2d(a: T.Buffer((4, 4)), b: T.Buffer((4, 4)), c: T.Buffer((4, 4))):
    for i, j in T.grid(4, 4):
        with T.block("add"):
            v, w = T.axis.remap("SS", [i, j])
            c[v, w] = a[v, w] + b[v, w]


@I.ir_module
class AddsOfTiles:
    @T.prim_func(private=True)
    def relax_add_replacement(a: T.Buffer((4, 4)), b: T.Buffer((4, 4)), c: T.Buffer((4, 4))):
        T.func_attr({"operator_name": "relax.add"})
        for i, j in T.grid(4, 4):
            with T.block("add"):
                v, w = T.axis.remap("SS", [i, j])
                c[v, w] = a[v, w] + b[v, w]

    @R.function
    def main(x: R.Tensor((16,), "float32"), y: R.Tensor((16,), "float32")):
        cls = AddsOfTiles
        with R.dataflow():
            lv1 = R.layout_transform(x, index_map=lambda i: (i // 4, i % 4))
            lv2 = R.layout_transform(y, index_map=lambda i: (i // 4, i % 4))
            lv3 = R.call_tir(
                cls.relax_add_replacement, (lv1, lv2), out_sinfo=R.Tensor((4, 4), "float32")
            )
            lv = R.layout_transform(lv3, index_map=lambda a, b: (a * 4 + b,))
            lv4 = R.layout_transform(lv, index_map=lambda i: (i // 4, i % 4))
            lv5 = R.layout_transform(y, index_map=lambda i: (i // 4, i % 4))
            lv6 = R.call_tir(
                cls.relax_add_replacement, (lv4, lv5), out_sinfo=R.Tensor((4, 4), "float32")
            )
            gv = R.layout_transform(lv6, index_map=lambda a, b: (a * 4 + b,))
            R.output(gv)
        return gv


ALTER = X.AlterOpImpl({"relax.add": add_2d}, {"relax.add": [tiled] * 3})


def test_alter_op_impl() -> None:
    both = X.DeadCodeElimination()(ALTER(Adds))
    assert_structural_equal(both, AddsOfTiles)
    check_pass(ALTER, Adds, again=False)
    assert_structural_equal(from_source(both.script()), both)


def test_changes_between_two_replacements_undo_each_other() -> None:
    made = check_pass(X.OptimizeLayoutTransform(), AddsOfTiles)
    assert made.script().count("layout_transform") == 4


def test_maps_that_do_not_undo_each_other_stay() -> None:
    @R.function
    def main(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.layout_transform(x, index_map=lambda i, j: (j, i))
            gv = R.layout_transform(a, index_map=lambda i, j: (i, j))
            R.output(gv)
        return gv

    check_pass(X.OptimizeLayoutTransform(), main, main)


def test_alter_op_impl_of_several_results_and_of_no_layouts() -> None:
    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def both(a: T.Buffer((16,)), b: T.Buffer((16,)), c: T.Buffer((16,))):
            T.func_attr({"operator_name": "both"})
            for i in range(16):
                with T.block("both"):
                    v = T.axis.spatial(16, i)
                    b[v] = a[v] + 1.0
                    c[v] = a[v] - 1.0

        @R.function
        def main(x: R.Tensor((16,), "float32")):
            cls = Before
            with R.dataflow():
                gv = R.call_tir(
                    cls.both,
                    (x,),
                    out_sinfo=[R.Tensor((16,), "float32"), R.Tensor((16,), "float32")],
                )
                R.output(gv)
            return gv

    @T.prim_func(private=True)
    def both_2d(a: T.Buffer((4, 4)), b: T.Buffer((4, 4)), c: T.Buffer((4, 4))):
        for i, j in T.grid(4, 4):
            with T.block("both"):
                v, w = T.axis.remap("SS", [i, j])
                b[v, w] = a[v, w] + 1.0
                c[v, w] = a[v, w] - 1.0

    check_pass(X.AlterOpImpl({"both": both_2d}, {"both": [tiled] * 3}), Before, again=False)
    same = X.AlterOpImpl({"both": Before["both"]}, {})(Before)
    assert "layout_transform" not in same.script() and "both_replacement" in same.script()
    other = X.AlterOpImpl({"relax.relu": both_2d}, {"relax.relu": [tiled] * 3})
    assert other(Before) is Before


def test_alter_op_impl_refuses() -> None:
    padding = X.AlterOpImpl({"relax.add": add_2d}, {"relax.add": [lambda i: (i // 5, i % 5)] * 3})
    with pytest.raises(PassError, match="Non bijective transforms on input and output buffers"):
        padding(Adds)
    with pytest.raises(PassError, match="relax.add has 3 buffers, 1 layouts given"):
        X.AlterOpImpl({"relax.add": add_2d}, {"relax.add": [tiled]})(Adds)


@pytest.mark.parametrize(
    ("shape", "index_map", "result"),
    [
        ((2, 3, 4), lambda a, b, c: (a, c, b), (2, 4, 3)),
        ((2, 6, 4), lambda a, b, c: (a, b // 2, c, b % 2), (2, 3, 4, 2)),
        ((2, 5, 4), lambda a, b, c: (a, c, b // 3, b % 3), (2, 4, 2, 3)),
        ((2, 3, 4), lambda a, b, c: a * 12 + b * 4 + c, (24,)),
    ],
)
def test_layout_transform_by_a_map(shape: Any, index_map: Any, result: Any) -> None:
    x = Var("x", tensor_info(shape, "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(relax.op.layout_transform(x, index_map=index_map, pad_value=7))
        bb.emit_func_output(y)
    mod = bb.get()
    assert_structural_equal(mod["main"].ret_struct_info, tensor_info(result, "float32"))
    data = np.random.default_rng(0).standard_normal(shape).astype("float32")
    expected = np.full(result, 7, "float32")
    for place in np.ndindex(shape):
        expected[index_map(*place)] = data[place]
    np.testing.assert_array_equal(evaluate(mod, data), expected)
    np.testing.assert_array_equal(evaluate(X.LegalizeOps()(mod), data), expected)
    assert_structural_equal(from_source(mod.script()), mod)


def test_layout_transform_refuses() -> None:
    whole = Var("x", tensor_info((2, 5), "int32"))
    bb = relax.BlockBuilder()
    with pytest.raises(TypeInferError, match=r"pad_value 0.5 is none of int32"):
        bb.normalize(relax.op.layout_transform(whole, index_map=lambda i, j: (j, i), pad_value=0.5))
    with pytest.raises(TypeInferError, match="the index map takes 1 indices"):
        bb.normalize(relax.op.layout_transform(whole, index_map=tiled))
    with pytest.raises(TypeInferError, match="neither src and dst nor index_map is given"):
        bb.normalize(relax.op.layout_transform(whole))

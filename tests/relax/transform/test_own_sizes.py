"""OwnSizes: loop functions name the sizes of their buffers; numbers and closed sizes stay."""

from __future__ import annotations

import numpy as np

import mlcnb as mlc
from mlcnb import relax
from mlcnb.ir.expr import Var
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.relax import op
from mlcnb.relax.transform.own_sizes import OwnSizes
from mlcnb.script import parse
from mlcnb.script import relax as R

BEFORE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def halved(var_A: T.handle, var_B: T.handle, n: T.int64):
        A = T.match_buffer(var_A, ((n + T.int64(1)) // T.int64(2), T.int64(4)))
        B = T.match_buffer(var_B, (((n + T.int64(1)) // T.int64(2) + T.int64(1)) // T.int64(2),
                                   T.int64(4)))
        for i, j in T.grid(((n + T.int64(1)) // T.int64(2) + T.int64(1)) // T.int64(2), T.int64(4)):
            with T.block("B"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                B[v_i, v_j] = A[v_i * T.int64(2), v_j] * T.float32(2)

    @T.prim_func(private=True)
    def filled(var_A: T.handle, n: T.int64):
        A = T.match_buffer(var_A, (n + T.int64(1),))
        for i in range(n + T.int64(1)):
            with T.block("A"):
                v_i = T.axis.spatial(n + T.int64(1), i)
                A[v_i] = T.Cast("float32", n)

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("(n + 1) // 2", 4), "float32")):
        n = T.int64()
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.halved, (y,),
                out_sinfo=R.Tensor((((n + 1) // 2 + 1) // 2, 4), "float32"), tir_vars=R.shape([n]))
            b = R.call_tir(cls.filled, R.tuple(),
                out_sinfo=R.Tensor((n + 1,), "float32"), tir_vars=R.shape([n]))
            gv = (a, b)
            R.output(gv)
        return gv
"""

AFTER = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def halved(var_A: T.handle, var_B: T.handle):
        extent = T.int64(is_size_var=True)
        A = T.match_buffer(var_A, (extent, T.int64(4)))
        extent1 = T.int64(is_size_var=True)
        B = T.match_buffer(var_B, (extent1, T.int64(4)))
        for i, j in T.grid(extent1, T.int64(4)):
            with T.block("B"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                B[v_i, v_j] = A[v_i * T.int64(2), v_j] * T.float32(2)

    @T.prim_func(private=True)
    def filled(var_A: T.handle, n: T.int64):
        extent = T.int64(is_size_var=True)
        A = T.match_buffer(var_A, (extent,))
        for i in range(extent):
            with T.block("A"):
                v_i = T.axis.spatial(extent, i)
                A[v_i] = T.Cast("float32", n)

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("(n + 1) // 2", 4), "float32")):
        n = T.int64()
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.halved, (y,),
                out_sinfo=R.Tensor((((n + 1) // 2 + 1) // 2, 4), "float32"))
            b = R.call_tir(cls.filled, R.tuple(),
                out_sinfo=R.Tensor((n + 1,), "float32"), tir_vars=R.shape([n]))
            gv = (a, b)
            R.output(gv)
        return gv
"""


def test_the_whole_module_before_and_after():
    before, after = parse(BEFORE), parse(AFTER)
    made = OwnSizes()(before)
    assert_structural_equal(made, after)
    assert OwnSizes()(made) is made


def test_numbers_stay():
    mods = [OwnSizes()(parse(BEFORE)), parse(BEFORE)]
    for n in (1, 2, 7):
        given = np.ones((n, 4), np.float32), np.ones(((n + 1) // 2, 4), np.float32)
        found = [mlc.compile(m, relax_pipeline=None)(*given) for m in mods]
        for a, b in zip(*found, strict=True):
            np.testing.assert_array_equal(a, b)
        assert found[0][1][0] == n


def test_sizes_that_are_parameters_of_their_own_and_closed_sizes_stay():
    text = BEFORE
    for half in ("(n + T.int64(1)) // T.int64(2)", "(n + 1) // 2") * 2:
        text = text.replace(half, "n")
    mod = parse(text.replace("n + T.int64(1)", "n").replace("(n + 1,)", "(n,)"))
    assert OwnSizes()(mod) is mod


def test_a_box_tells_nothing_of_a_size_that_the_loops_do_not_know():
    """The first five of n + 10: what they read, simplified, is a matter of n; the loops know one
    number, and were refused for boxes that do not hold what they read.
    """
    builder = relax.BlockBuilder()
    n = Var("n", "int64")
    x, y = relax.Var("x", R.Tensor((n,), "float32")), relax.Var("y", R.Tensor((10,), "float32"))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            both = builder.emit(op.concat([x, y], axis=0))
            out = builder.emit_output(op.topk(both, k=5, ret_type="values"))
        builder.emit_func_output(out)
    ex = mlc.compile(builder.get(), target="llvm")
    for size in (1, 7, 200):
        a, b = (np.random.default_rng(size).random(m, np.float32) for m in (size, 10))
        np.testing.assert_array_equal(ex(a, b), np.sort(np.concatenate([a, b]))[:-6:-1])

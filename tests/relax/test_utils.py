"""relax.utils: Python values as graph values, the parts of a call_tir, copies of functions."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import relax, te, tir
from mlcnb.core.errors import ArgumentError
from mlcnb.ir import assert_structural_equal
from mlcnb.relax.analysis import all_vars, defined_symbolic_vars
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T


def test_python_values_become_graph_values() -> None:
    x = relax.Var("x", R.Tensor((2,), "float32"))
    n = tir.Var("n", "int64")
    made = relax.utils.convert_to_expr((x, 1, 2.5, True, "text", [n]))
    expected = relax.Tuple(
        [
            x,
            relax.PrimValue(tir.IntImm("int64", 1)),
            relax.PrimValue(tir.FloatImm("float64", 2.5)),
            relax.PrimValue(tir.IntImm("bool", 1)),
            relax.StringImm("text"),
            relax.Tuple([relax.PrimValue(n)]),
        ]
    )
    assert_structural_equal(made, expected)
    with pytest.raises(ArgumentError) as caught:
        relax.utils.convert_to_expr(np.ones(2))
    assert str(caught.value) == (
        "convert_to_expr: a ndarray is no value of a graph\n"
        "hint: an array becomes one by relax.const"
    )


def test_the_parts_of_a_call_are_those_that_the_builder_binds() -> None:
    n = tir.Var("n", "int64")
    x = relax.Var("x", R.Tensor((n,), "float32"))
    s = relax.Var("s", R.Shape([n]))

    def shifted(a, by):
        return te.compute((4,), lambda i: a[i] + by, name="shifted")

    func, args, info, scalars = relax.utils.gen_call_tir_inputs(shifted, x, 2.0)
    bb = relax.BlockBuilder()
    with bb.function("main", [x, s]):
        bb.emit_func_output(bb.emit_te(shifted, x, 2.0))
    call = bb.get()["main"].body.bindings[0].value
    assert_structural_equal(func, bb.get()["shifted"])
    assert_structural_equal(args, call.args[1])
    assert_structural_equal(info, call.sinfo_args[0])
    assert scalars is None

    marked, _, _, values = relax.utils.gen_call_tir_inputs(
        lambda a, by: te.compute((4,), lambda i: a[i + by]),
        relax.Var("y", R.Tensor((9,), "float32")),
        n,
        primfunc_attrs={"mark": 1},
    )
    assert marked.attrs["mark"] == 1
    assert_structural_equal(values, relax.ShapeExpr([n]))


def test_a_copy_shares_no_variable_and_means_the_same() -> None:
    @R.function
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(
        ("n",), "float32"
    ):
        with R.dataflow():
            lv = R.add(x, x)
            gv = R.nn.relu(lv)
            R.output(gv)
        if c:
            y = R.exp(gv)
        else:
            y = gv
        return y

    copied = relax.utils.copy_with_new_vars(main)
    assert_structural_equal(copied, main)
    assert not set(all_vars(copied)) & set(all_vars(main))
    sizes = [defined_symbolic_vars(f) for f in (copied, main)]
    assert [len(s) for s in sizes] == [1, 1]
    assert sizes[0][0] is not sizes[1][0]


def test_emit_te_in_a_program_is_emit_te_of_the_builder() -> None:
    def half(a):
        return te.compute(a.shape, lambda *i: a(*i) / 2.0, name="half")

    @I.ir_module
    class Written:
        @R.function
        def main(x: R.Tensor((4, "n"), "float32")):
            with R.dataflow():
                lv = R.emit_te(half, x)
                lv1 = R.emit_te(half, lv)
                gv = R.emit_te(mlc.topi.add, lv1, x, primfunc_name_hint="joined")
                R.output(gv)
            return gv

    n = tir.Var("n", "int64")
    x = relax.Var("x", R.Tensor((4, n), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            lv1 = bb.emit_te(half, bb.emit_te(half, x))
            gv = bb.emit_output(bb.call_te(mlc.topi.add, lv1, x, primfunc_name_hint="joined"))
        bb.emit_func_output(gv)
    assert [v.name_hint for v in Written.get_global_vars()] == ["main", "half", "joined"]
    assert_structural_equal(Written, bb.get())
    data = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
    np.testing.assert_allclose(mlc.compile(Written)(data), data / 4 + data, rtol=1e-6)


def test_emit_te_needs_a_module_around() -> None:
    with pytest.raises(mlc.MLCError, match="R.emit_te needs a module, which gets the loops"):

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = R.emit_te(mlc.topi.add, x, x)
            return y


def test_an_operator_whose_result_nobody_takes_is_refused() -> None:
    with pytest.raises(mlc.MLCError, match=r"the result of relax\.add is not used"):

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            R.add(x, x)
            return x


def test_attributes_given_as_constants_are_numbers() -> None:
    @I.ir_module
    class Module:
        I.module_attrs({"attr": 10, "on": True})

        @T.prim_func
        def f(x: T.Buffer((4,), "float32")):
            T.evaluate(0)

    made = mlc.IRModule({"f": Module["f"]}).with_attr("attr", tir.IntImm("int32", 10))
    assert_structural_equal(made.with_attr("on", tir.IntImm("bool", 1)), Module)

"""Passes over whole modules: symbolic variables, inlining, parameters that nobody reads."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import PassError
from mlcnb.ir import IRModule, assert_structural_equal
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.relax.transform import (
    AttachGlobalSymbol,
    BindSymbolicVars,
    InlinePrivateFunctions,
    LegalizeOps,
    RemoveUnusedParameters,
)
from mlcnb.script import ir as I
from mlcnb.script import parse
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import evaluate
from tests.relax.harness import as_module, check_pass, same_numbers


def test_symbolic_dimensions_become_numbers() -> None:
    @R.function
    def before(x: R.Tensor(("n", "m"), "float32"), s: R.Shape(["n"])):
        n = T.int64()
        m = T.int64()
        with R.dataflow():
            a = R.exp(x)
            b = R.reshape(a, R.shape([n * m]))
            c = R.call_pure_packed("test.bind", b, sinfo_args=(R.Tensor((n, m), "float32"),))
            d = R.match_cast(c, R.Tensor((n, m), "float32"))
            gv = R.permute_dims(d)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((2, "m"), "float32"), s: R.Shape([2])):
        m = T.int64()
        with R.dataflow():
            a = R.exp(x)
            b = R.reshape(a, R.shape([m * 2]))
            c = R.call_pure_packed("test.bind", b, sinfo_args=(R.Tensor((2, m), "float32"),))
            d = R.match_cast(c, R.Tensor((2, m), "float32"))
            gv = R.permute_dims(d)
            R.output(gv)
        return gv

    mod = as_module(before)
    got = BindSymbolicVars({"n": 2})(mod)
    assert_well_formed(got)
    assert_structural_equal(got, as_module(after))
    both = BindSymbolicVars({"n": 2, "m": 3})(mod)
    assert [int(d) for d in both["main"].ret_struct_info.dims] == [3, 2]
    n = mod["main"].params[0].struct_info.dims[0]
    assert_structural_equal(BindSymbolicVars({n: 2})(mod), got)
    with pytest.raises(PassError, match="BindSymbolicVars: no symbolic variable k"):
        BindSymbolicVars({"k": 2})(mod)


def test_sizes_that_are_values_become_numbers() -> None:
    """They stayed symbols that nothing knew, and the call stopped."""

    @R.function
    def before(x: R.Tensor(("n", 2), "float32")):
        n = T.int64()
        with R.dataflow():
            a = R.arange(R.prim_value(n), dtype="float32")
            b = R.reshape(a, R.shape([n, 1]))
            gv = R.add(x, b)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((3, 2), "float32")):
        with R.dataflow():
            a = R.arange(R.prim_value(3), dtype="float32")
            b = R.reshape(a, R.shape([3, 1]))
            gv = R.add(x, b)
            R.output(gv)
        return gv

    got = BindSymbolicVars({"n": 3})(as_module(before))
    assert_well_formed(got)
    assert_structural_equal(got, as_module(after))
    x = np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(evaluate(got, x), x + np.arange(3)[:, None])


def looped(size: str) -> IRModule:
    return parse(f"""
@R.function
def main(x: R.Tensor(({size},), "float32")) -> R.Tensor(({size},), "float32"):
    {"n = T.int64()" if size == '"n"' else ""}
    @R.function
    def loop(turn: R.Tensor((), "int64"), y: R.Tensor(({size.strip('"')},), "float32")
    ) -> R.Tensor(({size.strip('"')},), "float32"):
        more = R.less(turn, R.const(3, "int64"))
        if more:
            later = R.add(turn, R.const(1, "int64"))
            sums = R.add(y, x)
            r: R.Tensor(({size.strip('"')},), "float32") = loop(later, sums)
            out = r
        else:
            out = y
        return out
    gv: R.Tensor(({size.strip('"')},), "float32") = loop(R.const(0, "int64"), x)
    return gv
""")


def test_a_function_inside_goes_on_calling_itself() -> None:
    """A loop of a model with open sizes called a function that was gone."""
    got = BindSymbolicVars({"n": 5})(as_module(looped('"n"')))
    assert_well_formed(got)
    assert_structural_equal(got, as_module(looped("5")))
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(mlc.compile(got)(x), 4 * x)


def test_lowered_calls_are_bound_too() -> None:
    @R.function
    def before(x: R.Tensor(("n * 2", 4), "float32"), y: R.Tensor(("n",), "float32")):
        n = T.int64()
        with R.dataflow():
            gv = R.reshape(x, R.shape([n, 8]))
            R.output(gv)
        return gv

    lowered = LegalizeOps()(as_module(before))
    got = BindSymbolicVars({"n": 3})(lowered)
    assert_well_formed(got)
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    np.testing.assert_array_equal(evaluate(got, x, np.zeros(3, np.float32)), x.reshape(3, 8))


@I.ir_module
class Calls:
    @R.function(private=True)
    def twice(x: R.Tensor(("n", 2), "float32")) -> R.Tensor(("n", 2), "float32"):
        n = T.int64()
        with R.dataflow():
            lv = R.add(x, x)
            gv = R.nn.relu(lv)
            R.output(gv)
        return gv

    @R.function(private=True)
    def four(x: R.Tensor(("n", 2), "float32")) -> R.Tensor(("n", 2), "float32"):
        n = T.int64()
        cls = Calls
        y = cls.twice(x)
        z = cls.twice(y)
        return z

    @R.function
    def main(x: R.Tensor((3, 2), "float32")) -> R.Tensor((3, 2), "float32"):
        R.func_attr({"global_symbol": "main"})
        cls = Calls
        with R.dataflow():
            lv = R.exp(x)
            lv1 = cls.four(lv)
            gv = R.exp(lv1)
            R.output(gv)
        return gv


def test_private_functions_are_inlined() -> None:
    got = check_pass(InlinePrivateFunctions(), Calls)
    assert [k.name_hint for k in got] == ["main"]
    func = got["main"]
    assert [b.value.op.name for b in func.body.bindings] == [
        "relax.exp",
        "relax.add",
        "relax.nn.relu",
        "relax.add",
        "relax.nn.relu",
        "relax.exp",
    ]
    names = [b.var.name_hint for b in func.body.bindings]
    assert len(set(names)) == len(names)
    assert [int(d) for d in func.body.bindings[2].var.struct_info.dims] == [3, 2]


def test_branches_and_recursion() -> None:
    @I.ir_module
    class Mod:
        @R.function(private=True)
        def choose(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(
            (2,), "float32"
        ):
            if c:
                y = R.exp(x)
                z = R.add(y, x)
            else:
                z = R.nn.relu(x)
            return z

        @R.function(private=True)
        def loop(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(
            (2,), "float32"
        ):
            cls = Mod
            if c:
                z: R.Tensor((2,), "float32") = cls.loop(x, R.const(False, "bool"))
            else:
                z: R.Tensor((2,), "float32") = x
            return z

        @R.function
        def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(
            (2,), "float32"
        ):
            R.func_attr({"global_symbol": "main"})
            cls = Mod
            a = cls.choose(x, c)
            b = cls.choose(a, c)
            d = cls.loop(b, c)
            return d

    got = check_pass(InlinePrivateFunctions(), Mod)
    assert sorted(k.name_hint for k in got) == ["loop", "main"]


def test_parameters_that_nobody_reads_go() -> None:
    @I.ir_module
    class Before:
        @R.function(private=True)
        def helper(
            a: R.Tensor(("n",), "float32"),
            b: R.Tensor(("m",), "float32"),
            c: R.Tensor((2,), "float32"),
        ) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            m = T.int64()
            y = R.exp(a)
            z = R.zeros(R.shape([m]), dtype="float32")
            return y

        @R.function
        def main(x: R.Tensor((3,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tensor(
            (3,), "float32"
        ):
            R.func_attr({"global_symbol": "main"})
            cls = Before
            z = cls.helper(x, y, y)
            return z

    @I.ir_module
    class After:
        @R.function(private=True)
        def helper(a: R.Tensor(("n",), "float32"), b: R.Tensor(("m",), "float32")) -> R.Tensor(
            ("n",), "float32"
        ):
            n = T.int64()
            m = T.int64()
            y = R.exp(a)
            z = R.zeros(R.shape([m]), dtype="float32")
            return y

        @R.function
        def main(x: R.Tensor((3,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tensor(
            (3,), "float32"
        ):
            R.func_attr({"global_symbol": "main"})
            cls = After
            z = cls.helper(x, y)
            return z

    check_pass(RemoveUnusedParameters(), Before, After)


def test_exposed_functions_keep_their_parameters() -> None:
    @R.function
    def before(x: R.Tensor((3,), "float32"), y: R.Tensor((2,), "float32")):
        z = R.exp(x)
        return z

    mod = as_module(before)
    assert RemoveUnusedParameters()(mod) is mod
    same_numbers(mod, mod)


def test_linkage_names_of_a_library_have_its_prefix() -> None:
    @I.ir_module
    class Before:
        I.module_attrs({"system_lib_prefix": "left_"})

        @T.prim_func(private=True)
        def double(x: T.Buffer((2,)), y: T.Buffer((2,))):
            for i in range(2):
                y[i] = x[i] * T.float32(2)

        @T.prim_func
        def public(x: T.Buffer((2,)), y: T.Buffer((2,))):
            for i in range(2):
                y[i] = x[i]

        @R.function(private=True)
        def main(x: R.Tensor((2,), "float32")):
            a = R.call_tir(Before.double, (x,), R.Tensor((2,), "float32"))
            b = R.call_tir(Before.public, (a,), R.Tensor((2,), "float32"))
            return b

    @I.ir_module
    class After:
        I.module_attrs({"system_lib_prefix": "left_"})

        @T.prim_func
        def left_double(x: T.Buffer((2,)), y: T.Buffer((2,))):
            for i in range(2):
                y[i] = x[i] * T.float32(2)

        @T.prim_func
        def public(x: T.Buffer((2,)), y: T.Buffer((2,))):
            for i in range(2):
                y[i] = x[i]

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            a = R.call_tir(After.left_double, (x,), R.Tensor((2,), "float32"))
            b = R.call_tir(After.public, (a,), R.Tensor((2,), "float32"))
            return b

    assert_structural_equal(AttachGlobalSymbol()(Before), After)
    assert AttachGlobalSymbol()(After) is After

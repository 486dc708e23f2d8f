"""Passes on weights: lifted, bundled, read and written one at a time; parameters and results."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb
from mlcnb import relax
from mlcnb.core import registry
from mlcnb.core.errors import PassError
from mlcnb.ir import assert_structural_equal
from mlcnb.ir.transform import PassContext
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.relax.transform import (
    BundleModelParams,
    ExpandTupleArguments,
    LazyGetInput,
    LazySetOutput,
    LazyTransformParams,
    LiftTransformParams,
    NormalizeGlobalVar,
    RemoveUnusedOutputs,
    UpdateParamStructInfo,
)
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import evaluate
from tests.relax.harness import as_module, check_pass


@I.ir_module
class Model:
    @R.function
    def main(
        x: R.Tensor((2, 3), "float32"),
        w1: R.Tensor((4, 3), "float32"),
        w2: R.Tensor((4,), "float32"),
    ):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            w1t = R.permute_dims(w1, [1, 0])
            y = R.matmul(x, w1t)
            z = R.add(y, w2)
            R.output(z)
        return z


@I.ir_module
class Lifted:
    @R.function
    def main(
        x: R.Tensor((2, 3), "float32"),
        w2: R.Tensor((4,), "float32"),
        w1t: R.Tensor((3, 4), "float32"),
    ):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            y = R.matmul(x, w1t)
            z = R.add(y, w2)
            R.output(z)
        return z

    @R.function
    def main_transform_params(
        params: R.Tuple(R.Tensor((4, 3), "float32"), R.Tensor((4,), "float32")),
    ):
        R.func_attr({"num_input": 0})
        with R.dataflow():
            w1 = params[0]
            w1t = R.permute_dims(w1, [1, 0])
            w2 = params[1]
            gv = (w2, w1t)
            R.output(gv)
        return gv


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.random(s, "float32") for s in shapes]


def test_what_follows_from_weights_is_lifted() -> None:
    got = LiftTransformParams()(Model)
    assert_well_formed(got)
    assert_structural_equal(got, Lifted)
    assert [p.name_hint for p in got["main"].params] == ["x", "w2", "w1t"]
    x, w1, w2 = arrays((2, 3), (4, 3), (4,))
    weights = evaluate(got, (w1, w2), name="main_transform_params")
    np.testing.assert_allclose(evaluate(got, x, *weights), evaluate(Model, x, w1, w2), 1e-6)


def test_weights_are_given_up_as_they_are_read() -> None:
    with PassContext(config={"relax.lift_transform_params.consume_params": True}):
        got = LiftTransformParams()(Model)
    names = [b.value.op.name for b in got["main_transform_params"].body.bindings[1:2]]
    assert names == ["relax.call_pure_packed"]
    text = got["main_transform_params"].script()
    assert text.count('R.call_pure_packed("vm.builtin.tuple_reset_item", params,') == 2
    x, w1, w2 = arrays((2, 3), (4, 3), (4,))
    expected = evaluate(Model, x, w1, w2)
    weights = evaluate(got, (w1, w2), name="main_transform_params")
    np.testing.assert_allclose(evaluate(got, x, *weights), expected, 1e-6)
    vm = relax.VirtualMachine(mlcnb.compile(got, relax_pipeline="zero"))
    np.testing.assert_allclose(
        vm["main"](x, *vm["main_transform_params"]((w1, w2))), expected, 1e-6
    )


def test_nothing_is_lifted_without_num_input_or_behind_a_stop() -> None:
    @R.function
    def plain(x: R.Tensor((2, 3), "float32"), w: R.Tensor((4, 3), "float32")):
        with R.dataflow():
            gv = R.matmul(x, R.permute_dims(w))
            R.output(gv)
        return gv

    mod = as_module(plain)
    assert LiftTransformParams()(mod) is mod

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                wt = R.permute_dims(w, [1, 0])
                ws = R.builtin.stop_lift_params(wt)
                wa = R.add(ws, R.const(1, "float32"))
                y = R.matmul(x, wa)
                R.output(y)
            return y

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((2, 4), "float32"), wt: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                wa = R.add(wt, R.const(1, "float32"))
                y = R.matmul(x, wa)
                R.output(y)
            return y

        @R.function
        def main_transform_params(params: R.Tuple(R.Tensor((4, 4), "float32"))):
            R.func_attr({"num_input": 0})
            with R.dataflow():
                w = params[0]
                wt = R.permute_dims(w, [1, 0])
                gv = (wt,)
                R.output(gv)
            return gv

    assert_structural_equal(LiftTransformParams()(Before), After)


def test_values_of_no_weight_are_computed_on_both_sides() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(a: R.Tensor([4], "int32"), b: R.Tensor([4], "int32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                offset = R.ones([4], "int32")
                ao = R.add(a, offset)
                bo = R.add(b, offset)
                gv = R.multiply(ao, bo)
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @R.function
        def main(a: R.Tensor([4], "int32"), bo: R.Tensor([4], "int32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                offset = R.ones([4], "int32")
                ao = R.add(a, offset)
                gv = R.multiply(ao, bo)
                R.output(gv)
            return gv

        @R.function
        def main_transform_params(params: R.Tuple(R.Tensor([4], "int32"))):
            R.func_attr({"num_input": 0})
            with R.dataflow():
                offset = R.ones([4], "int32")
                b = params[0]
                bo = R.add(b, offset)
                gv = (bo,)
                R.output(gv)
            return gv

    assert_structural_equal(LiftTransformParams()(Before), After)


def test_a_size_that_only_weights_told_becomes_a_parameter() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, "n"), "float32")):
            R.func_attr({"num_input": 1})
            n = T.int64()
            with R.dataflow():
                total = R.sum(w)
                shifted = R.add(x, total)
                ones = R.ones((n,), "float32")
                noise = R.nn.softmax(R.multiply(ones, R.sum(shifted)))
                R.output(shifted, noise)
            return (shifted, noise)

    got = LiftTransformParams()(Before)
    assert_well_formed(got)
    x, w = arrays((2, 3), (3, 5))
    weights = evaluate(got, (w,), name="main_transform_params")
    for one, two in zip(evaluate(got, x, *weights), evaluate(Before, x, w), strict=True):
        np.testing.assert_allclose(one, two, 1e-5)


def test_functions_share_what_they_have_in_common() -> None:
    @I.ir_module
    class Before:
        @R.function
        def one(x: R.Tensor((2, 3), "float32"), w: R.Tensor((4, 3), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                wt = R.permute_dims(w, [1, 0])
                y = R.matmul(x, wt)
                R.output(y)
            return y

        @R.function
        def two(x: R.Tensor((3,), "float32"), v: R.Tensor((4, 3), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                vt = R.permute_dims(v, [1, 0])
                y = R.matmul(x, R.exp(vt))
                R.output(y)
            return y

    got = LiftTransformParams(shared_transform=True)(Before)
    assert_well_formed(got)
    assert sorted(k.name_hint for k in got) == ["one", "transform_params", "two"]
    (w,) = arrays((4, 3))
    weights = evaluate(got, (w,), name="transform_params")
    assert [t.shape for t in weights] == [(3, 4)]
    for name, x in zip(("one", "two"), arrays((2, 3), (3,)), strict=True):
        alone = evaluate(Before, x, w, name=name)
        np.testing.assert_allclose(evaluate(got, x, *weights, name=name), alone, 1e-5)


def test_functions_of_different_weights_share_nothing() -> None:
    @I.ir_module
    class Before:
        @R.function
        def one(x: R.Tensor((2, 3), "float32"), w: R.Tensor((4, 3), "float32")):
            R.func_attr({"num_input": 1})
            return x

        @R.function
        def two(x: R.Tensor((3,), "float32"), v: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            return x

    with pytest.raises(
        PassError, match="one and two cannot share a transform: their weights differ in number"
    ):
        LiftTransformParams(shared_transform=True)(Before)


def test_weights_become_one_tuple() -> None:
    @R.function
    def before(
        x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")
    ):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            y = R.multiply(x, w)
            z = R.add(y, b)
            R.output(z)
        return (z, b)

    @R.function
    def after(
        x: R.Tensor((4,), "float32"),
        all_of_them: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32")),
    ):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            w = all_of_them[0]
            y = R.multiply(x, w)
            b = all_of_them[1]
            z = R.add(y, b)
            R.output(z)
        b2 = all_of_them[1]
        return (z, b2)

    got = check_pass(BundleModelParams("all_of_them"), before, after, args=False)
    assert got["main"].params[1].name_hint == "all_of_them"
    x, w, b = arrays((4,), (4,), (4,))
    np.testing.assert_allclose(evaluate(got, x, (w, b)), evaluate(as_module(before), x, w, b))


def test_weights_are_read_and_written_one_at_a_time() -> None:
    @I.ir_module
    class After:
        @R.function(pure=False)
        def main_transform_params() -> R.Tuple:
            w1_: R.Object = R.call_packed("get_item", R.prim_value(0), sinfo_args=(R.Object,))
            w1 = R.match_cast(w1_, R.Tensor((4, 3), "float32"))
            w1t = R.permute_dims(w1, [1, 0])
            _: R.Tuple = R.vm.kill_object(w1)
            _1: R.Object = R.call_packed("set_item", R.prim_value(1), w1t, sinfo_args=(R.Object,))
            w2_: R.Object = R.call_packed("get_item", R.prim_value(1), sinfo_args=(R.Object,))
            w2 = R.match_cast(w2_, R.Tensor((4,), "float32"))
            _2: R.Object = R.call_packed("set_item", R.prim_value(0), w2, sinfo_args=(R.Object,))
            _3: R.Tuple = R.vm.kill_object(w2)
            gv: R.Tuple = R.tuple()
            return gv

    before = Lifted.without_functions(["main"])
    got = LazyTransformParams()(before)
    assert_well_formed(got)
    assert_structural_equal(got, After)
    given, found = arrays((4, 3), (4,)), {}
    registry.register_func("get_item", lambda i: given[i], override=True)
    registry.register_func("set_item", found.__setitem__, override=True)
    ex = relax.build(got, "llvm")
    relax.VirtualMachine(ex)["main_transform_params"]()
    whole = evaluate(before, tuple(given), name="main_transform_params")
    for i, value in enumerate(whole):
        np.testing.assert_array_equal(found[i], value)


def test_weights_are_only_read_one_at_a_time() -> None:
    @I.ir_module
    class After:
        @R.function(pure=False)
        def main_transform_params(loader: R.Object):
            w1_: R.Object = R.call_packed("load", loader, R.prim_value(0), sinfo_args=(R.Object,))
            w1 = R.match_cast(w1_, R.Tensor((4, 3), "float32"))
            w1t = R.permute_dims(w1, [1, 0])
            w2_: R.Object = R.call_packed("load", loader, R.prim_value(1), sinfo_args=(R.Object,))
            w2 = R.match_cast(w2_, R.Tensor((4,), "float32"))
            gv = (w2, w1t)
            return gv

    loader = relax.Var("loader", relax.ObjectStructInfo())
    lazy = LazyTransformParams(fget_item="load", fset_item=None, extra_get_item_params=[loader])
    got = lazy(Lifted)
    assert_structural_equal(got["main"], Lifted["main"])
    assert_structural_equal(got["main_transform_params"], After["main_transform_params"])


def test_inputs_from_a_function_and_outputs_to_one() -> None:
    @R.function
    def before(a: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")):
        R.func_attr({"num_input": 0})
        c = R.add(a, b)
        d = R.exp(c)
        return (d, c)

    @R.function
    def get(fget_param: R.Callable([R.Prim("int64"), R.Object], R.Object)):
        R.func_attr({"num_input": 1})
        a_ = fget_param(R.prim_value(0), R.str("a"))
        a = R.match_cast(a_, R.Tensor((4,), "float32"))
        b_ = fget_param(R.prim_value(1), R.str("b"))
        b = R.match_cast(b_, R.Tensor((4,), "float32"))
        c = R.add(a, b)
        d = R.exp(c)
        return (d, c)

    @R.function(pure=False)
    def put(
        fset_output: R.Callable([R.Prim("int64"), R.Object], R.Tuple([]), purity=False),
        a: R.Tensor((4,), "float32"),
        b: R.Tensor((4,), "float32"),
    ):
        R.func_attr({"num_input": 1})
        c = R.add(a, b)
        _ = fset_output(R.prim_value(1), c)
        d = R.exp(c)
        _1 = fset_output(R.prim_value(0), d)
        gv = R.tuple()
        return gv

    mod = as_module(before)
    assert_structural_equal(LazyGetInput()(mod), as_module(get))
    assert_structural_equal(LazySetOutput()(mod), as_module(put))
    given, found = arrays((4,), (4,)), {}
    lazy = LazyGetInput()(LazySetOutput()(mod.with_function("main", mod["main"])))
    ex = relax.build(lazy, "llvm")
    names = [p.name_hint for p in lazy["main"].params]
    assert names == ["fset_output", "fget_param"]

    def read(index, name):
        assert name == "ab"[index]
        return given[index]

    relax.VirtualMachine(ex)["main"](found.__setitem__, read)
    total = given[0] + given[1]
    np.testing.assert_allclose(found[1], total, 1e-6)
    np.testing.assert_allclose(found[0], np.exp(total), 1e-5)


def test_results_that_nobody_reads() -> None:
    @I.ir_module
    class Before:
        @R.function(private=True)
        def three(x: R.Tensor((4,), "float32")):
            a = R.exp(x)
            b = R.abs(x)
            c = R.negative(x)
            return (a, b, c)

        @R.function(private=True)
        def two(x: R.Tensor((4,), "float32")):
            a = R.exp(x)
            b = R.abs(x)
            return (a, b)

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            t = Before.three(x)
            u = Before.two(x)
            gv = (t[2], t[0], u[1])
            return gv

    @I.ir_module
    class After:
        @R.function(private=True)
        def three(x: R.Tensor((4,), "float32")):
            a = R.exp(x)
            c = R.negative(x)
            return (a, c)

        @R.function(private=True)
        def two(x: R.Tensor((4,), "float32")):
            b = R.abs(x)
            return b

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            t = After.three(x)
            u = After.two(x)
            gv = (t[1], t[0], u)
            return gv

    check_pass(RemoveUnusedOutputs(), Before, After)


def test_a_result_that_is_handed_on_stays() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            t = Module.two(x)
            return t

        @R.function(private=True)
        def two(x: R.Tensor((4,), "float32")):
            a = R.exp(x)
            b = R.abs(x)
            return (a, b)

    check_pass(RemoveUnusedOutputs(), Module, Module)


def test_tuples_are_handed_over_field_by_field() -> None:
    @I.ir_module
    class Before:
        @R.function(private=True)
        def inner(
            t: R.Tuple(
                R.Tensor((4,), "float32"),
                R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32")),
            ),
            z: R.Tensor((4,), "float32"),
        ):
            p = t[1]
            gv = R.add(R.subtract(t[0], p[0]), z)
            return gv

        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            t = (x, (y, x))
            gv = Before.inner(t, y)
            return gv

    @I.ir_module
    class After:
        @R.function(private=True)
        def inner(
            t_0: R.Tensor((4,), "float32"),
            t_1_0: R.Tensor((4,), "float32"),
            t_1_1: R.Tensor((4,), "float32"),
            z: R.Tensor((4,), "float32"),
        ):
            a = R.subtract(t_0, t_1_0)
            gv = R.add(a, z)
            return gv

        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            gv = After.inner(x, y, x, y)
            return gv

    check_pass(ExpandTupleArguments(), Before, After)
    assert [p.name_hint for p in ExpandTupleArguments()(Before)["inner"].params] == [
        "t_0", "t_1_0", "t_1_1", "z",
    ]  # fmt: skip


def test_functions_are_named_as_they_are_called_outside() -> None:
    @I.ir_module
    class Plain:
        @R.function(private=True)
        def main(x: R.Tensor((4,), "float32")):
            return R.exp(x)

        @R.function(private=True)
        def f(x: R.Tensor((4,), "float32")):
            gv = Plain.main(x)
            return gv

    @I.ir_module
    class After:
        @R.function(private=True)
        def main_1(x: R.Tensor((4,), "float32")):
            return R.exp(x)

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            gv = After.main_1(x)
            return gv

    Before = Plain.with_function("f", Plain["f"].with_attr("global_symbol", "main"))
    got = NormalizeGlobalVar()(Before)
    assert_well_formed(got)
    assert_structural_equal(got, After)
    assert NormalizeGlobalVar()(got) is got


def test_parameters_of_another_dtype() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32")):
            with R.dataflow():
                gv = R.nn.relu(R.matmul(x, w))
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((2, 3), "float16"), w: R.Tensor((3, 4), "float16")):
            with R.dataflow():
                gv = R.nn.relu(R.matmul(x, w))
                R.output(gv)
            return gv

    def half(var):
        return R.Tensor(var.struct_info.shape, "float16")

    got = UpdateParamStructInfo(half)(Before)
    assert_structural_equal(got, After)
    assert UpdateParamStructInfo(lambda var: None)(Before) is Before
    with pytest.raises(PassError, match="x was given 3, no struct info"):
        UpdateParamStructInfo(lambda var: 3)(Before)

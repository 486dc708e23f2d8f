"""What graph tests in TVM's way of writing found: refusals, results that claim more, inlining."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import relax
from mlcnb.core.errors import ArgumentError, PassError, RuntimeInputError
from mlcnb.ir import IRModule, assert_structural_equal, structural_equal
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.analysis import erase_to_well_defined
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.tir import Var

OP_ADD = relax.Op("relax.add")
X = relax.Var("x", R.Tensor((2, 3), "float32"))


@I.ir_module
class Claims:
    @R.function
    def foo(x: R.Tensor(("n", "m"), "int32"), y: R.Object) -> R.Tensor(("m", "n"), dtype=None):
        return y

    @R.function
    def whole(x: R.Tensor(("n", 3), "float32"), y: R.Tensor(("k", 3), "float32")):
        return R.concat((x, y), axis=0)


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_a_result_is_what_the_function_says(target):
    """Its body may show less: what comes is checked, as an argument is, at every call."""
    ex = mlc.compile(Claims, target)
    x, y = np.zeros((1, 2), "int32"), np.ones((2, 1), "float32")
    for _ in range(3):
        np.testing.assert_array_equal(ex["foo"](x, y), y)
        with pytest.raises(RuntimeInputError, match="the result of foo: dimension 0 is 1"):
            ex["foo"](x, y.T.copy())
    tensor = mlc.runtime.tensor(y)
    assert relax.VirtualMachine(ex)["foo"](mlc.runtime.tensor(x), tensor).shape == (2, 1)
    assert ex._claims("foo") is not None and ex._claims("whole") is None


def test_what_is_called_is_a_function():
    with pytest.raises(ArgumentError) as error:
        relax.Call(10, [X])
    assert str(error.value) == (
        "Call: 10 is no function\nhint: an Op, a GlobalVar, a variable or a function"
    )


def test_a_shape_and_another_number_of_dimensions():
    assert relax.TensorStructInfo((2, 3), "int8", ndim=2).ndim == 2
    with pytest.raises(ArgumentError) as error:
        relax.TensorStructInfo((2, 3), ndim=3)
    assert str(error.value) == (
        "TensorStructInfo: a shape of 2 dimensions with ndim=3\n"
        "hint: leave out ndim where there is a shape"
    )


def test_small_words():
    assert len(relax.Tuple([X, X])) == 2
    func = relax.Function([X], relax.SeqExpr([], X), X.struct_info, attrs=None)
    assert func.attrs == {} and func.with_attr("k", 1).without_attr("k").attrs == {}
    call = op.unique(X, sorted=relax.PrimValue(False), axis=relax.PrimValue(1))
    assert structural_equal(call, op.unique(X, sorted=False, axis=1))


def test_forgetting_by_tables():
    n, m = Var("n", "int64"), Var("m", "int64")
    info = relax.TensorStructInfo([n, m], "float32")
    whole = relax.TensorStructInfo(dtype="float32", ndim=2)
    assert_structural_equal(erase_to_well_defined(info), whole)
    assert_structural_equal(erase_to_well_defined(info, [n]), whole)
    swapped = erase_to_well_defined(info, {n: m, m: n})
    assert swapped.dims == (m, n)
    held = relax.Var("held", relax.ShapeStructInfo(ndim=2))
    found = erase_to_well_defined(
        relax.TensorStructInfo(held, "float32"), None, {held: relax.ShapeExpr([1, n])}
    )
    assert_structural_equal(found, relax.TensorStructInfo([1, n], "float32"))


@I.ir_module
class Nested:
    @R.function
    def main(a: R.Tensor((10,), "int32")) -> R.Tensor((10,), "int32"):
        b = Nested.twice(a)
        return b

    @R.function(private=True)
    def twice(a: R.Tensor((10,), "int32")) -> R.Tensor((10,), "int32"):
        b = Nested.more(a)
        c = R.add(b, a)
        return c

    @R.function(private=True)
    def more(a: R.Tensor((10,), "int32")) -> R.Tensor((10,), "int32"):
        b = R.add(a, R.const(1, "int32"))
        return b


def test_functions_in_the_place_of_their_calls():
    once = Nested["main"].inline_functions({"twice": Nested["twice"]})
    assert [b.value.op for b in once.body.bindings] == [relax.GlobalVar("more"), OP_ADD]
    made = Nested["main"].inline_functions(
        {Nested.get_global_var("more"): Nested["more"], "twice": Nested["twice"]}
    )
    x = np.arange(10, dtype="int32")
    np.testing.assert_array_equal(mlc.compile(IRModule.from_expr(made))(x), 2 * x + 1)
    assert Nested["main"].inline_functions({"other": Nested["more"]}) is Nested["main"]
    with pytest.raises(PassError, match="inline_functions: main call each other"):
        _calls_itself().inline_functions({"main": _calls_itself()})


def _calls_itself():
    bb = BlockBuilder()
    a = relax.Var("a", R.Tensor((10,), "int32"))
    name = relax.GlobalVar("main")
    with bb.function("main", [a]):
        bb.emit_func_output(bb.emit(relax.Call(name, [a], sinfo_args=[a.struct_info])))
    return bb.get()["main"]


@pytest.mark.usefixtures("own_pipelines")
def test_a_pipeline_that_is_one_pass():
    relax.register_pipeline("tests.one", lambda **options: relax.transform.LegalizeOps())
    assert "call_tir" in relax.get_pipeline("tests.one")(Nested).script()


def test_a_layout_by_its_place():
    by_place = op.layout_transform(X, lambda i, j: (j, i))
    assert structural_equal(by_place, op.layout_transform(X, index_map=lambda i, j: (j, i)))
    padded = op.layout_transform(X, lambda i, j: (j, i // 4, i % 4), 0.0)
    assert padded.attrs.pad_value == 0.0
    assert BlockBuilder().normalize(padded).struct_info.dims == (3, 1, 4)
    blocked = op.layout_transform(X, src="KN", dst="NK")
    assert BlockBuilder().normalize(blocked).struct_info.dims == (3, 2)
    as_printed = op.layout_transform(
        X, mlc.relax.ShapeExpr([3, 2]), src="KN", dst="NK", index_map=None
    )
    assert BlockBuilder().normalize(as_printed).struct_info.dims == (3, 2)


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_literals_among_results(target):
    """A function that is straight gave up on them."""

    @R.function
    def main(x: R.Tensor((2,), "float32"), s: R.Shape(["n"])):
        n = T.int64()
        y = R.exp(x)
        return (R.str("hello"), R.dtype("int8"), R.prim_value(n + 1), R.prim_value(0.5), y)

    ex = mlc.compile(main, target)
    for _ in range(2):
        *found, y = ex(np.zeros(2, "float32"), (4,))
        assert found == ["hello", "int8", 5, 0.5]
        np.testing.assert_array_equal(y, 1)


def test_separators_for_too_few_buffers():
    names = {"relax.add": [[]]}
    change = relax.transform.AlterOpImpl(
        {"relax.add": Altered["add"]}, {"relax.add": [lambda i: (i,)] * 3}, names
    )
    with pytest.raises(PassError, match="relax.add has more than 1 buffers, for which separators"):
        change(Altered)


@I.ir_module
class Altered:
    @T.prim_func(private=True)
    def add(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32"), c: T.Buffer((4,))):
        T.func_attr({"operator_name": "relax.add"})
        for i in range(4):
            with T.block("c"):
                v = T.axis.spatial(4, i)
                c[v] = a[v] + b[v]

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = R.call_tir(Altered.add, (x, x), out_sinfo=R.Tensor((4,), "float32"))
        return y

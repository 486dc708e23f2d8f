"""What a pattern matches, one class after the other."""

from __future__ import annotations

import pytest

from mlcnb import relax
from mlcnb.core.errors import ArgumentError, UnsupportedError, UnsupportedOpError
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.relax import dpl
from mlcnb.relax.analysis import get_var2val
from mlcnb.relax.dpl import has_dtype, has_shape, is_const, is_dfv, is_gv, is_op, is_var, wildcard
from mlcnb.script import relax as R


@R.function
def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 8), "float32")):
    with R.dataflow():
        lv = R.matmul(x, w)
        lv1 = R.add(lv, R.const(1.0, "float32"))
        lv2 = R.nn.relu(lv1)
        lv3 = R.split(lv2, 2, axis=1)
        lv4 = lv3[0]
        gv = R.reshape(lv4, (16,))
        R.output(gv)
    return gv


VALUES = get_var2val(main)
BY_NAME = {v.name_hint: v for v in VALUES}
X = main.params[0]
SIZE = PrimVar("n", "int64")


def test_leaves() -> None:
    const = relax.const(1.0)
    assert is_var().match(X) and is_var("x").match(X) and not is_var("y").match(X)
    assert is_var().match(BY_NAME["lv"]) and is_dfv("lv").match(BY_NAME["lv"])
    assert is_dfv("lv").match(BY_NAME["lv"], VALUES)
    assert not is_dfv().match(X)
    assert is_gv("f").match(relax.GlobalVar("f")) and not is_gv("g").match(relax.GlobalVar("f"))
    assert is_const().match(const) and not is_const().match(X)
    assert dpl.is_expr(const).match(relax.const(1.0))
    assert not dpl.is_expr(const).match(relax.const(2.0))
    assert dpl.ExternFuncPattern("f").match(relax.ExternFunc("f"))
    assert wildcard() != wildcard()


def test_calls_go_through_variables_only_with_their_values() -> None:
    x = wildcard()
    product = is_op("relax.matmul")(x, wildcard())
    pattern = is_op("relax.nn.relu")(product + is_const())
    assert pattern.match(BY_NAME["lv2"], VALUES)
    assert not pattern.match(BY_NAME["lv2"])
    found = pattern.extract_matched_expr(BY_NAME["lv2"], VALUES)
    assert found is not None
    assert found[x] is X
    assert found[product] is VALUES[BY_NAME["lv"]]
    assert pattern.extract_matched_expr(BY_NAME["lv1"], VALUES) is None


@pytest.mark.parametrize("op", ["relax.add", "relax.multiply"])
def test_the_operands_of_a_commutative_operator_match_in_either_order(op: str) -> None:
    call = relax.Call(relax.Op(op), (X, relax.const(1.0)))
    assert is_op(op)(is_const(), is_var()).match(call)
    assert not is_op("relax.subtract")(is_const(), is_var()).match(
        relax.Call(relax.Op("relax.subtract"), (X, relax.const(1.0)))
    )


def test_a_first_choice_that_fails_later_is_taken_back() -> None:
    a, b = relax.Var("a"), relax.Var("b")
    inner = relax.Call(relax.Op("relax.add"), (a, b))
    whole = relax.Call(relax.Op("relax.subtract"), (inner, a))
    x, y = wildcard(), wildcard()
    found = (is_op("relax.add")(x, y) - y).extract_matched_expr(whole)
    assert found is not None
    assert found[x] is b and found[y] is a


def test_the_same_object_twice_is_one_value() -> None:
    x = wildcard()
    add = is_op("relax.add")
    assert add(x, x).match(relax.Call(relax.Op("relax.add"), (X, X)))
    assert not add(x, x).match(relax.Call(relax.Op("relax.add"), (X, main.params[1])))


def test_number_of_arguments() -> None:
    call = relax.Call(relax.Op("relax.add"), (X, X))
    assert not is_op("relax.add")(wildcard()).match(call)
    assert is_op("relax.add")(wildcard(), varg_default_wildcard=True).match(call)
    three = is_op("relax.add")(wildcard(), wildcard(), wildcard(), varg_default_wildcard=True)
    assert not three.match(call)


def test_tuples() -> None:
    pair = relax.Tuple((relax.GlobalVar("f"), relax.const(1.0)))
    one = dpl.is_tuple([is_gv(), is_const()])
    assert one.match(pair)
    assert not dpl.is_tuple([is_const(), is_gv()]).match(pair)
    assert dpl.is_tuple([is_const(), is_gv()], unordered=True).match(pair)
    assert one[0].match(relax.TupleGetItem(pair, 0)) and one[-1].match(relax.TupleGetItem(pair, 1))
    assert one[None].match(relax.TupleGetItem(pair, 1))
    assert not one[0].match(relax.TupleGetItem(pair, 1))
    with pytest.raises(IndexError, match="field 2 of a tuple pattern of 2"):
        one[2]
    split = is_op("relax.split")(wildcard())
    assert dpl.is_tuple_get_item(split, 0).match(BY_NAME["lv4"], VALUES)


def test_or_and_not() -> None:
    either = is_var() | is_const()
    assert either.match(X) and either.match(relax.const(1.0))
    both = has_shape((4, 8)) & has_dtype("float32")
    assert both.match(X) and not (both & has_dtype("float16")).match(X)
    assert (~is_const()).match(X) and not dpl.reject(is_var()).match(X)


def test_shapes_dtypes_and_struct_infos() -> None:
    n, m = PrimVar("n", "int64"), PrimVar("m", "int64")
    sized = relax.Var("s", R.Tensor([n, m, n + m], "float32"))
    assert has_shape([n, m, m + n]).match(sized)
    assert not has_shape([m, n, n + m]).match(sized)
    assert not has_shape([1, 2, 3]).match(sized)
    assert not has_shape([4]).match(relax.Var("u", R.Tensor(ndim=1)))
    assert not has_dtype("int32").match(X)
    assert wildcard().has_struct_info(R.Tensor((4, 8))).match(X)
    assert not wildcard().has_struct_info(R.Tensor((4, 9))).match(X)
    assert dpl.is_shape([16]).match(relax.ShapeExpr(VALUES[BY_NAME["gv"]].args[1].values))
    assert dpl.is_shape([n, m])[1] is m


def test_a_symbolic_size_of_a_struct_info_is_one_size() -> None:
    square = wildcard().has_struct_info(R.Tensor([SIZE, SIZE], "float32"))
    assert square.match(main.params[1])
    assert not square.match(X)


def test_attributes() -> None:
    conv = R.nn.conv2d(relax.Var("d"), relax.Var("w"), strides=(2, 2))
    pattern = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    assert pattern.has_attr({"strides": [2, 2], "groups": 1}).match(conv)
    assert not pattern.has_attr({"strides": [1, 2]}).match(conv)
    assert not pattern.has_attr({"no_such": 1}).match(conv)
    function = main.with_attr("Codegen", "toy")
    assert dpl.has_attr({"Codegen": "toy"}).match(function)
    assert not dpl.has_attr({"Codegen": "toy"}).match(main)


def test_functions() -> None:
    x, y = wildcard(), wildcard()
    body = dpl.is_op("relax.reshape")(wildcard(), wildcard())
    assert dpl.FunctionPattern([x, y], body).match(main)
    assert not dpl.FunctionPattern([x], body).match(main)


def test_calls_of_functions() -> None:
    out = R.Tensor((4, 8), "float32")
    tir = relax.call_tir(relax.GlobalVar("relu"), (X,), out)
    assert dpl.is_call_tir("relu").match(tir) and dpl.is_call_tir("relu", [is_var("x")]).match(tir)
    assert not dpl.is_call_tir("gelu").match(tir)
    assert not dpl.is_call_tir("relu", [is_const()]).match(tir)
    packed = relax.call_dps_packed("f", (X,), out)
    assert dpl.is_call_dps_packed("f").match(packed)
    assert dpl.is_call_packed("g").match(relax.call_packed("g", X, sinfo_args=out))
    assert dpl.is_call_packed("g", [wildcard()]).match(relax.call_packed("g", X, sinfo_args=out))


def test_dup_has_an_identity_of_its_own() -> None:
    x = wildcard()
    pattern = is_op("relax.add")(x, x)
    copy = pattern.dup()
    assert copy is not pattern and copy.args[0] is copy.args[1] and copy.args[0] is not x


def test_text() -> None:
    x = wildcard()
    pattern = is_op("relax.add")(is_op("relax.nn.relu")(x).optional(is_op("relax.exp")), x)
    assert repr(pattern) == (
        'is_op("relax.add")((is_op("relax.exp")(a:=is_op("relax.nn.relu")(b:=*)) | a), b)'
    )
    assert repr(~is_var("x") & has_shape((4, SIZE))) == '(~is_var("x") & *.has_shape((4, n)))'


def test_refusals() -> None:
    with pytest.raises(UnsupportedOpError, match="no operator 'relax.nope' is declared"):
        is_op("relax.nope")
    with pytest.raises(ArgumentError, match="a call of patterns was given a Constant"):
        is_op("relax.add")(wildcard(), relax.const(1.0))
    with pytest.raises(ArgumentError, match="is_shape takes a list of dimensions, not an int"):
        dpl.is_shape(4)
    with pytest.raises(UnsupportedError, match="no dominator pattern"):
        dpl.dominates(wildcard(), wildcard(), wildcard())


def test_fused_bias_activation() -> None:
    pattern = dpl.make_fused_bias_activation_pattern("relax.matmul", True, "relax.nn.relu")
    assert pattern.match(BY_NAME["lv2"], VALUES)
    block, names = dpl.make_residual_block_pattern(
        (is_op("relax.matmul")(wildcard(), wildcard()), {})
    )
    assert list(names) == ["residual"]
    assert block.match(BY_NAME["lv1"], VALUES)


def test_a_function_whose_body_is_one_call() -> None:
    x, y = (relax.Var(name, R.Tensor("float32")) for name in "xy")
    func = relax.Function([x, y], relax.op.add(x, y), ret_struct_info=R.Tensor("float32"))
    a, b = wildcard(), wildcard()
    assert dpl.FunctionPattern([a, b], is_op("relax.add")(a, b)).match(func)
    assert not dpl.FunctionPattern([a, b], is_op("relax.multiply")(a, b)).match(func)

"""Struct info of calls: the form that declarations get, and refusals that name the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlcnb.core.errors import OperatorArgumentError, TypeInferError, UnsupportedOpError
from mlcnb.ir import VDevice, assert_structural_equal
from mlcnb.ir.expr import SizeVar
from mlcnb.ir.module import IRModule
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.analysis.struct_info import definable_vars, struct_info_lca, symbolic_vars
from mlcnb.relax.expr import (
    Call,
    Op,
    PrimValue,
    Tuple,
    TupleGetItem,
    Var,
    call_packed,
    const,
    shape_expr,
    tensor_info,
)
from mlcnb.relax.infer import children_of, infer, is_leaf
from mlcnb.relax.operand_infos import operand_infos
from mlcnb.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
    describe,
)
from mlcnb.relax.transform import LegalizeOps
from mlcnb.script import from_source
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import evaluate

n = SizeVar("n", "int64")
x = Var("x", tensor_info((n, 4), "float32"))
pair = Var("pair", TupleStructInfo((x.struct_info, x.struct_info)))


def test_operands_in_the_form_of_the_declaration() -> None:
    (parts,) = operand_infos(op.concat(pair, axis=0))
    assert parts == (x.struct_info, x.struct_info)
    data, shape = operand_infos(op.reshape(x, (n * 4,)))
    assert data is x.struct_info and isinstance(shape, ShapeStructInfo)
    alloc = op.builtin.alloc_tensor((2,), "float32", 0, "global")
    shape, kind, device, scope = operand_infos(alloc)
    assert (kind, scope) == ("float32", "global") and isinstance(device, PrimStructInfo)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            Call(Op("relax.reshape"), (x, x)),
            "reshape: argument 'shape' has to be a shape, it is Tensor((n, 4), float32)",
        ),
        (
            Call(Op("relax.exp"), (pair,)),
            "exp: argument 'x' has to be a tensor, it is "
            "Tuple(Tensor((n, 4), float32), Tensor((n, 4), float32))",
        ),
        (
            Call(Op("relax.concat"), (x,)),
            "concat: argument 'tensors' has to be a tuple of tensors, it is "
            "Tensor((n, 4), float32)",
        ),
        (Call(Op("relax.add"), (x,)), "add: argument 'x2' is missing"),
        (Call(Op("relax.exp"), (x, x)), "exp: 2 arguments, it takes 1"),
    ],
)
def test_wrong_operands_are_named(call: Call, message: str) -> None:
    with pytest.raises(TypeInferError) as caught:
        infer(call)
    assert caught.value.message == message
    assert caught.value.where is call


def test_unknown_operators_and_values() -> None:
    with pytest.raises(UnsupportedOpError, match="no operator 'relax.nope' is declared"):
        infer(Call(Op("relax.nope"), (x,)))
    assert isinstance(infer(call_packed("f", x)), ObjectStructInfo)
    unknown = Var("u", ObjectStructInfo())
    assert infer(op.exp(unknown)).ndim == -1


def test_leaves_and_parts() -> None:
    assert is_leaf(Tuple((x, const(1.0), shape_expr([2])))) and not is_leaf(Tuple((op.exp(x),)))
    assert is_leaf(PrimValue(n)) and not is_leaf(op.exp(x))
    assert children_of(op.concat(Tuple((x, pair)), axis=0)) == (x, pair)


def test_struct_infos_in_words() -> None:
    assert describe(tensor_info(None, None)) == "Tensor(unknown shape, unknown dtype)"
    assert describe(tensor_info(None, "int8", 2)) == "Tensor(ndim=2, int8)"
    assert describe(tensor_info((n * 2, 4), "float32")) == "Tensor((n * 2, 4), float32)"
    assert describe(ShapeStructInfo((n,), 1)) == "Shape((n,))"
    assert describe(PrimStructInfo("int64")) == "a scalar of int64"


here, there = VDevice("llvm"), VDevice("cuda", 1)


def placed(dims: Any, device: Any) -> TensorStructInfo:
    return TensorStructInfo(dims, "float32", device)


def inferred(call: Any) -> Any:
    return BlockBuilder().normalize(call).struct_info


@pytest.mark.parametrize(
    "made",
    [
        lambda a, b: op.add(a, b),
        lambda a, b: op.nn.relu(a),
        lambda a, b: op.matmul(a, b),
        lambda a, b: op.reshape(a, (3, 3)),
        lambda a, b: TupleGetItem(op.split(a, 3, axis=0), 1),
        lambda a, b: op.concat([a, b], axis=0),
    ],
)
def test_results_lie_where_the_operands_lie(made: Any) -> None:
    a, b = Var("a", placed((3, 3), here)), Var("b", tensor_info((3, 3), "float32"))
    assert inferred(made(a, b)).vdevice == here


def test_operands_on_two_devices_are_refused() -> None:
    a, b = Var("a", placed((3,), here)), Var("b", placed((3,), there))
    with pytest.raises(TypeInferError, match="the tensors lie on several devices") as caught:
        inferred(op.add(a, b))
    assert caught.value.hint == "bring one over: R.to_vdevice"
    assert inferred(op.to_vdevice(a, there)).vdevice == there


def test_a_shape_that_a_variable_holds_stays() -> None:
    s = Var("s", ShapeStructInfo(None, 2))
    held = TensorStructInfo(s, "float32")
    a = Var("a", held)
    assert held.ndim == 2 and held.dims is None
    for same in (op.exp(a), op.add(a, a), op.permute_dims(a, [0, 1]), op.expand_dims(a, [])):
        assert_structural_equal(inferred(same), held)
    for made in (op.reshape(x, s), op.broadcast_to(x, s), op.zeros(s, "float32")):
        assert_structural_equal(inferred(made), held)
    assert inferred(op.permute_dims(a)).shape is None


def test_void_says_of_a_dtype_that_it_is_not_known() -> None:
    unknown = Var("u", TensorStructInfo((2, 3), ""))
    assert unknown.struct_info.dtype is None
    known = Var("k", tensor_info((2, 3), "float32"))
    assert inferred(op.add(unknown, known)).dtype is None
    assert inferred(op.concat([known, unknown], axis=0)).dtype == "float32"


def test_scalars_take_part_in_arithmetic() -> None:
    t = Var("t", tensor_info((2, 3), "float32"))
    p = Var("p", PrimStructInfo("float32"))
    assert_structural_equal(inferred(op.add(t, p)), t.struct_info)
    assert_structural_equal(inferred(op.less(p, t)), tensor_info((2, 3), "bool"))
    assert_structural_equal(inferred(op.multiply(p, p)), PrimStructInfo("float32"))
    q = Var("q", PrimStructInfo(value=n))
    assert_structural_equal(inferred(op.add(q, q)), PrimStructInfo(value=n + n))
    with pytest.raises(TypeInferError, match="it is a scalar of float32"):
        inferred(op.exp(p))


def test_scalars_in_arithmetic_have_loops() -> None:
    @R.function
    def main(a: R.Tensor((2, 3), "float32"), b: R.Tensor(("k", 3), "int64")):
        k = T.int64()
        u = R.add(a, R.prim_value(T.float32(0.1)))
        v = R.multiply(R.prim_value(k), b)
        return (u, v, R.less(b, R.prim_value(k)))

    mod = IRModule.make({"main": main.with_attr("global_symbol", "main")})
    a, b = np.ones((2, 3), "float32"), np.arange(12).reshape(4, 3)
    legal = LegalizeOps()(mod)
    assert legal.script().count("R.call_tir(") == 3
    for program in (mod, legal):
        u, v, w = evaluate(program, a, b)
        np.testing.assert_array_equal(u, a + np.float32(0.1))
        np.testing.assert_array_equal(v, b * 4)
        np.testing.assert_array_equal(w, b < 4)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: op.add(x), "add: argument 'x2' is missing"),
        (lambda: op.exp(x, x), "exp: too many arguments"),
        (lambda: op.nn.softmax(x, axis=[0, 1]), "nn.softmax: axis is one number, not [0, 1]"),
        (lambda: op.nn.leakyrelu(x, alpha="1"), "nn.leakyrelu: alpha is one number, not '1'"),
    ],
)
def test_what_a_call_does_not_take(made: Any, message: str) -> None:
    with pytest.raises(OperatorArgumentError) as caught:
        made()
    assert caught.value.message == message and isinstance(caught.value, TypeError)


@pytest.mark.parametrize("target", [(2, -1, -1), (-2, -3), (2.0, 3)])
def test_shapes_that_are_none(target: Any) -> None:
    a = Var("a", tensor_info((2, 3), "float32"))
    with pytest.raises(TypeInferError):
        inferred(op.reshape(a, target))


def test_of_an_unknown_dtype_nothing_is_known() -> None:
    image, kernel = (
        Var("i", TensorStructInfo((1, 3, 8, 8))),
        Var("k", tensor_info((4, 3, 3, 3), "float32")),
    )
    assert inferred(op.nn.conv2d(image, kernel)).dtype is None
    rows = Var("r", TensorStructInfo((2, 3)))
    known = Var("k", tensor_info((2, 3), "float32"))
    assert inferred(op.matmul(rows, op.permute_dims(known))).dtype is None
    mask = Var("m", tensor_info((2, 3), "bool"))
    assert inferred(op.where(mask, rows, known)).dtype is None


def test_a_reduction_of_all_axes_needs_no_sizes() -> None:
    some = Var("s", tensor_info(None, "float32", 3))
    assert_structural_equal(inferred(op.sum(some)), tensor_info((), "float32"))
    assert_structural_equal(
        inferred(op.max(some, keepdims=True)), tensor_info((1, 1, 1), "float32")
    )
    assert_structural_equal(inferred(op.argmax(some)), tensor_info((), "int64"))


@pytest.mark.parametrize(
    "made",
    [
        lambda i, w: op.nn.conv2d(i, w, strides=(1, 2, 3)),
        lambda i, w: op.nn.conv2d(i, w, groups=0),
        lambda i, w: op.nn.max_pool2d(i, pool_size=(1, 2, 3)),
        lambda i, w: op.nn.avg_pool2d(i, strides=0),
    ],
)
def test_windows_that_fit_nothing_are_refused_at_once(made: Any) -> None:
    image = Var("i", tensor_info((1, 3, 8, 8), "float32"))
    kernel = Var("w", tensor_info((4, 3, 3, 3), "float32"))
    with pytest.raises(TypeInferError, match="do not fit 2 spatial dimensions"):
        made(image, kernel)


def test_normalisations_are_of_floats() -> None:
    x, g = Var("x", tensor_info((2, 4), "float32")), Var("g", tensor_info((4,), "int8"))
    with pytest.raises(TypeInferError, match="gamma must hold floats"):
        inferred(op.nn.layer_norm(x, g, g, axes=[-1]))
    with pytest.raises(TypeInferError, match="gamma must hold floats"):
        inferred(op.nn.batch_norm(x, g, g, g, g, axis=1))


def test_bounds_of_other_lengths_are_refused() -> None:
    x = Var("x", tensor_info((2, 4), "float32"))
    with pytest.raises(TypeInferError, match=r"differ in length: \[2, 1, 1\]"):
        inferred(op.strided_slice(x, axes=[0, 1], begin=[0], end=[1]))


def test_of_one_tensor_concat_says_all_that_is_known() -> None:
    for held in (ShapeStructInfo(ndim=2), ShapeStructInfo()):
        x = Var("x", TensorStructInfo(Var("s", held), "float32"))
        assert inferred(op.concat([x], axis=0)) is x.struct_info
        assert inferred(op.strided_slice(x, [], [], [])) is x.struct_info


def test_an_error_of_inference_is_a_value_error_and_a_type_error() -> None:
    x, y = (Var("x", tensor_info((2,), k)) for k in ("float32", "int8"))
    for kind in (ValueError, TypeError, TypeInferError):
        with pytest.raises(kind, match="which differs in rank or dtype"):
            inferred(op.concat([x, y], axis=0))


def test_groups_and_ranks_that_never_fit_are_refused() -> None:
    data = Var("x", tensor_info((2, n * 6, 8), "float32"))
    weight = Var("w", tensor_info((n * 6 + 4, n, 3), "float32"))
    with pytest.raises(TypeInferError, match="do not fit 6 groups"):
        inferred(op.nn.conv1d(data, weight, groups=6))
    two, unknown = (
        Var("a", tensor_info((2, 3), "float32")),
        Var("b", tensor_info(None, "float32", 4)),
    )
    with pytest.raises(TypeInferError, match="differ in rank"):
        inferred(op.nn.cross_entropy_with_logits(two, unknown))


def test_a_call_that_gives_a_function_gives_one_with_sizes_of_its_own() -> None:
    @I.ir_module
    class Mod:
        @R.function
        def make(
            k: R.Tensor((), "float32"),
        ) -> R.Callable((R.Tensor(("n",), "float32"),), R.Tensor(("n",), "float32")):
            @R.function
            def inner(v: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
                return R.multiply(v, k)

            return inner

        @R.function
        def main(x: R.Tensor((3,), "float32"), k: R.Tensor((), "float32")):
            f = Mod.make(k)
            return f(x)

    assert_structural_equal(Mod, from_source(Mod.script()))
    (param,) = Mod["main"].body.bindings[0].var.struct_info.params
    assert param.dims[0] not in symbolic_vars(Mod["make"].ret_struct_info)


def test_functions_joined_have_their_parameters_joined() -> None:
    def of(size: int) -> FuncStructInfo:
        given = tensor_info((size, n), "float32")
        return FuncStructInfo([given], tensor_info((size,), "float32"))

    joined = struct_info_lca(of(1), of(2))
    whole = FuncStructInfo([tensor_info(None, "float32", 2)], tensor_info(None, "float32", 1))
    assert_structural_equal(joined, whole)
    assert symbolic_vars(of(1)) == definable_vars(of(1)) == (n,)
    other = FuncStructInfo([], tensor_info((1,), "float32"))
    assert struct_info_lca(of(1), other).params is None

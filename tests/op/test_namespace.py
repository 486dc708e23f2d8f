"""relax.op: functions derived from the declarations."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import mlcnb
from mlcnb import relax
from mlcnb.core.errors import OperatorArgumentError, TypeInferError
from mlcnb.op import namespace
from mlcnb.relax.expr import Call, Constant, PrimValue, Var, tensor_info
from mlcnb.relax.operator import declaration, declarations
from mlcnb.script import tir as T

X = Var("x", tensor_info([2, 3], "float32"))
IMAGE = Var("image", tensor_info([1, 3, 8, 8], "float32"))
QUERY = Var("q", tensor_info([1, 2, 2, 4], "float32"))


def test_every_declared_operator_is_there():
    for name, decl in declarations().items():
        found = relax.op
        for part in decl.sugar.split("."):
            found = getattr(found, part)
        assert callable(found), name


def test_a_function_makes_a_call():
    call = relax.op.nn.leakyrelu(X, 0.2)
    assert isinstance(call, Call)
    assert (call.op.name, call.args, call.attrs.alpha) == ("relax.nn.leakyrelu", (X,), 0.2)


def test_python_values_become_constants_scalars_and_shapes():
    added = relax.op.add(X, 1)
    assert isinstance(added.args[1], Constant)
    assert added.args[1].data.dtype == np.float32
    clipped = relax.op.clip(X, 0, 1.5)
    assert [type(a) for a in clipped.args[1:]] == [PrimValue, PrimValue]
    assert [str(a.value.dtype) for a in clipped.args[1:]] == ["int64", "float32"]
    (shape,) = relax.op.zeros([2, 3], "int8").args
    assert [(v.value, str(v.dtype)) for v in shape.values] == [(2, "int64"), (3, "int64")]


EXP = """e ** x, elementwise.

Args:
    x: a tensor, of a shape and dtype that may be symbolic or unknown.

Raises:
    OperatorArgumentError: arguments of another number, name or kind.
    TypeInferError: shapes or dtypes that do not go together, once the call is typed."""


def test_signature_and_text_come_from_the_declaration():
    assert str(inspect.signature(relax.op.sum)) == (
        "(x: 'Tensor', axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> 'Expr'"
    )
    assert relax.op.exp.__doc__ == EXP
    assert relax.op.exp.__name__ == "exp"


def test_sugar_asks_for_less_than_the_operator():
    counted = relax.op.arange(3)
    assert [a.value.value for a in counted.args] == [0, 3, 1]
    assert counted.attrs.dtype == "int64"
    assert relax.op.arange(0, 1, 0.5).attrs.dtype == "float32"
    filled = relax.op.masked_fill(X, Var("m", tensor_info([2, 3], "bool")), 0)
    assert (filled.op.name, filled.args[1].data.dtype) == ("relax.where", np.float32)
    assert relax.op.tril(X).args[1].value.value == 0


def test_integers_are_not_filled_with_fractions():
    x, mask = Var("x", tensor_info([2], "int32")), Var("m", tensor_info([2], "bool"))
    assert relax.op.masked_fill(x, mask, 2.0).args[1].data == 2
    with pytest.raises(TypeInferError) as caught:
        relax.op.masked_fill(x, mask, 0.5)
    assert caught.value.message == "masked_fill: 0.5 is no int32"


def test_names_are_listed():
    assert {"add", "nn", "image"} <= set(dir(relax.op))
    assert {"relu", "conv2d"} <= set(dir(relax.op.nn))
    assert "nn.relu" in namespace.names()
    assert repr(relax.op.nn).startswith("relax.op.nn: ")


def test_an_unknown_name_suggests_a_known_one():
    with pytest.raises(AttributeError) as caught:
        _ = relax.op.nn.rellu
    assert str(caught.value) == "relax.op has no 'nn.rellu': did you mean 'nn.relu'?"


def test_functions_can_be_imported():
    from mlcnb.relax.op import add

    assert add is relax.op.add


def test_operators_made_from_a_table_say_where_they_stand():
    from mlcnb.op import unary

    lines = inspect.getsource(unary).splitlines()
    assert lines[unary.Exp.__firstlineno__ - 1].startswith('Exp = unary("exp"')
    assert (unary.Exp.__module__, unary.Exp.__qualname__) == ("mlcnb.op.unary", "Exp")


def test_attributes_are_plain_numbers():
    size = {"roi": [T.float32(0)] * 4, "extrapolation_value": 0, "cubic_exclude": T.int32(0)}
    given = relax.op.image.resize2d(IMAGE, [4, 4], **size)
    plain = relax.op.image.resize2d(IMAGE, [4, 4])
    mlcnb.ir.assert_structural_equal(given, plain)
    assert type(given.attrs.extrapolation_value) is float and type(given.attrs.roi[0]) is float
    assert type(relax.op.nn.leakyrelu(X, 1).attrs.alpha) is float
    assert relax.op.nn.attention_bias(*(QUERY,) * 4, scale=None).attrs.scale is None


def test_a_form_that_tvm_has_as_an_operator():
    biased = relax.op.nn.attention_bias(QUERY, QUERY, QUERY, QUERY, 0.5)
    same = relax.op.nn.attention(QUERY, QUERY, QUERY, QUERY, scale=0.5)
    mlcnb.ir.assert_structural_equal(biased, same)
    assert declaration("relax.nn.attention_bias") is declaration("relax.nn.attention")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (lambda op, x: op.nn.relu(data=x), "R.nn.relu(x)"),
        (lambda op, x: op.nn.softmax(data=x, axis=0), "R.nn.softmax(x, axis=0)"),
        (lambda op, x: op.flip(data=x, axis=0), "R.flip(x, axis=0)"),
        (lambda op, x: op.sum(x=x, axis=[0]), "R.sum(x, axis=[0])"),
        (lambda op, x: op.concat(tensors=(x, x), axis=0), "R.concat((x, x))"),
        (lambda op, x: op.shape_of(expr=x), "R.shape_of(x)"),
        (lambda op, x: op.tile(data=x, repeats=(2,)), "R.tile(x, repeats=[2])"),
        (
            lambda op, x: op.collapse_sum_like(data=x, collapse_target=x),
            "R.collapse_sum_like(x, x)",
        ),
        (lambda op, x: op.make_closure(func=x, args=(x,)), "R.make_closure(x, (x,))"),
    ],
)
def test_operands_by_the_names_that_tvm_has(given: Any, text: str) -> None:
    x = relax.Var("x", relax.TensorStructInfo((4, 4), "float32"))
    assert str(given(relax.op, x)) == text


def test_closures_take_their_arguments_as_in_tvm() -> None:
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    by_name = relax.op.invoke_closure(closure=x, args=(x,), sinfo_args=x.struct_info)
    by_place = relax.op.invoke_closure(x, (x,), x.struct_info)
    text = 'R.invoke_closure(x, (x,), sinfo_args=(R.Tensor((4,), dtype="float32"),))'
    assert str(by_name) == str(by_place) == text


def test_an_operand_is_given_once() -> None:
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    for wrong in ({"data": x}, {"dta": x}):
        with pytest.raises(OperatorArgumentError, match="nn.relu: no argument"):
            relax.op.nn.relu(x, **wrong)


def test_what_does_not_fit_is_a_value_error_as_with_tvm() -> None:
    x, y = (relax.Var(n, relax.TensorStructInfo((d,), "float32")) for n, d in (("x", 3), ("y", 4)))
    for kind in (ValueError, mlcnb.TVMError, TypeInferError):
        with pytest.raises(kind, match="add: the shapes"):
            relax.BlockBuilder().normalize(relax.op.add(x, y))
    with pytest.raises(TypeError, match="no argument 'z'"):
        relax.op.add(x, z=y)


@pytest.mark.parametrize(("word", "mode"), [("replicate", "edge"), ("circular", "wrap")])
def test_tvm_s_words_of_padding(word, mode):
    found = relax.op.nn.pad(X, [1, 1, 2, 2], pad_mode=word)
    assert found.attrs.pad_mode == mode
    x = np.arange(6, dtype="float32").reshape(2, 3)
    wanted = np.pad(x, [(1, 1), (2, 2)], mode=mode)
    np.testing.assert_array_equal(found.attrs.numpy(x), wanted)

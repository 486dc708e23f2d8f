"""Struct info of calls: the form that declarations get, and refusals that name the argument."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import TypeInferError, UnsupportedOpError
from mlcnb.ir.expr import SizeVar
from mlcnb.relax import op
from mlcnb.relax.expr import (
    Call,
    Op,
    PrimValue,
    Tuple,
    Var,
    call_packed,
    const,
    shape_expr,
    tensor_info,
)
from mlcnb.relax.infer import children_of, describe, infer, is_leaf, operand_infos
from mlcnb.relax.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TupleStructInfo,
)

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

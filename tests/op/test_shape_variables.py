"""Tensors whose shape a variable holds: what is known of it, and what leaves a function."""

from __future__ import annotations

from typing import Any

import pytest

import mlcnb as tvm
from mlcnb import relax, tir
from mlcnb.core.errors import OperatorArgumentError, TypeInferError
from mlcnb.relax.struct_info import ShapeStructInfo, TensorStructInfo
from mlcnb.script import ir as I
from mlcnb.script import relax as R

M = tir.Var("m", "int64")
SHAPES = [
    (ShapeStructInfo((2, 3)), "R.Tensor((2, 3), {})"),
    (ShapeStructInfo((M, 3)), "R.Tensor((m, 3), {})"),
    (ShapeStructInfo(ndim=2), "R.Tensor(s, {})"),
    (ShapeStructInfo(), "R.Tensor(s, {})"),
]


@pytest.mark.parametrize("info, text", SHAPES, ids=str)
def test_made_of_a_shape(info: Any, text: str) -> None:
    builder, s = relax.BlockBuilder(), relax.Var("s", info)
    half = relax.Var("v", R.Tensor((), "float16"))
    calls = {
        "float32": (relax.op.ones(s, "float32"), relax.op.zeros(s, "float32")),
        "float16": (relax.op.full(s, half), relax.op.full(s, relax.const(1.0), "float16")),
    }
    for dtype, made in calls.items():
        for call in made:
            found = builder.normalize(call).struct_info
            assert str(found) == text.format(f'dtype="{dtype}"')
            tvm.ir.assert_structural_equal(found, TensorStructInfo(s, dtype))


@pytest.mark.parametrize("name", ["ones", "zeros"])
def test_no_dtype(name: str) -> None:
    with pytest.raises(OperatorArgumentError) as error:
        getattr(relax.op, name)((2, 3), "")
    assert error.value.message == f"{name}: dtype is '', which says none"


@pytest.mark.parametrize("make", [relax.op.ones, relax.op.zeros])
def test_one_number_is_no_shape(make: Any) -> None:
    for given in (4, M):
        with pytest.raises(OperatorArgumentError) as error:
            make(given, "float32")
        assert error.value.message == f"a shape is a tuple of dimensions, not {given}"


@pytest.mark.parametrize("info", [R.Tensor((1,), "float32"), R.Tensor("float32")], ids=str)
def test_filled_with_no_scalar(info: Any) -> None:
    call = relax.op.full((2, 3), relax.Var("v", info))
    with pytest.raises(TypeInferError, match="^full: fill_value must be a scalar, but is "):
        relax.BlockBuilder().normalize(call)


def test_no_shape_leaves_its_function() -> None:
    """A result says nothing of a variable that only the inside of the function has."""

    @I.ir_module
    class Module:
        @R.function
        def filled(s: R.Shape(ndim=2)):
            a = R.ones(s, "float32")
            return a

        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            cls = Module
            s = R.call_pure_packed("shape", x, sinfo_args=R.Shape(ndim=2))
            a = R.ones(s, "float32")
            b = cls.filled(s)
            return a, b

    assert str(Module["filled"].ret_struct_info) == 'R.Tensor(s, dtype="float32")'
    unknown = 'R.Tensor(dtype="float32", ndim=2)'
    assert str(Module["main"].ret_struct_info) == f"R.Tuple({unknown}, {unknown})"
    tvm.ir.assert_structural_equal(tvm.script.from_source(Module.script()), Module)

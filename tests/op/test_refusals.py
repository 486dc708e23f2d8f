"""What elementwise operators, reductions, scans and their kin refuse, and in which words."""

from __future__ import annotations

import numpy as np
import pytest

from mlcnb import relax
from mlcnb.core.errors import ExecutionError, MLCError, TypeInferError
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import SizeVar
from mlcnb.op import binary
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.relax.infer import infer

N = SizeVar("n", dtype("int64"))


def var(name, *dims, kind="float32"):
    return Var(name, tensor_info(dims, kind))


X, W = var("x", 2, 3), var("w", 3, 4, kind="int32")
op = relax.op

REFUSED = [
    (
        op.add(X, var("y", 2, 4)),
        "add: the shapes of Tensor((2, 3), float32) and Tensor((2, 4), float32) do not broadcast",
        None,
    ),
    (
        op.add(X, var("y", 3, kind="float16")),
        "add: the tensors must have one dtype, but x1 is Tensor((2, 3), float32) and x2 is "
        "Tensor((3,), float16)",
        "use astype on one",
    ),
    (
        op.exp(W),
        "exp: x must hold floats, but is Tensor((3, 4), int32)",
        'use astype("float32")',
    ),
    (
        op.multiply(var("a", 2, kind="bool"), var("b", 2, kind="bool")),
        "multiply: x1 must hold numbers, but is Tensor((2,), bool)",
        'use astype("int32")',
    ),
    (
        op.logical_and(W, W),
        "logical_and: x1 must hold bool, but is Tensor((3, 4), int32)",
        'use astype("bool")',
    ),
    (
        op.left_shift(X, X),
        "left_shift: x1 must hold integers, but is Tensor((2, 3), float32)",
        "use astype",
    ),
    (
        op.where(X, X, X),
        "where: condition must hold bool, but is Tensor((2, 3), float32)",
        'use astype("bool")',
    ),
    (
        op.clip(var("a", 2, kind="bool"), 0, 1),
        "clip: x must hold numbers, but is Tensor((2,), bool)",
        'use astype("int32")',
    ),
    (
        op.sum(X, axis=2),
        "sum: axis 2 is outside of the 2 dimensions of Tensor((2, 3), float32)",
        None,
    ),
    (op.max(X, axis=[0, -2]), "max: axes (0, -2) name a dimension twice", None),
    (
        op.variance(W),
        "variance: x must hold floats, but is Tensor((3, 4), int32)",
        'use astype("float32")',
    ),
    (
        op.argmax(var("e", 0, 2), axis=0),
        "argmax: Tensor((0, 2), float32) has no element to choose from",
        None,
    ),
    (
        op.cumsum(X, axis=-3),
        "cumsum: axis -3 is outside of the 2 dimensions of Tensor((2, 3), float32)",
        None,
    ),
    (
        op.topk(X, k=4),
        "topk: there are no 4 elements in axis 1 of Tensor((2, 3), float32)",
        None,
    ),
    (op.topk(X, k=1, ret_type="all"), "topk: no ret_type 'all'", "both, values or indices"),
    (
        op.full([2], X, "float32"),
        "full: fill_value must be a scalar, but is Tensor((2, 3), float32)",
        None,
    ),
    (op.arange(0, 5, 0), "arange: step is 0", None),
    (
        op.tril(var("v", 3)),
        "tril: x must have at least two dimensions, but is Tensor((3,), float32)",
        None,
    ),
    (
        op.quantize(X, var("s", 5), var("z", 5, kind="int8"), axis=1),
        "quantize: scale is Tensor((5,), float32), which does not fit Tensor((2, 3), float32)",
        None,
    ),
    (
        op.bitcast(X, "int64"),
        "bitcast: Tensor((2, 3), float32) and int64 differ in width",
        None,
    ),
    (
        op.subtract(var("a", N, 3), var("b", 4)),
        "subtract: the shapes of Tensor((n, 3), float32) and Tensor((4,), float32) do not "
        "broadcast",
        None,
    ),
]


@pytest.mark.parametrize(("call", "message", "hint"), REFUSED, ids=[r[0].op.name for r in REFUSED])
def test_refusals(call, message, hint):
    with pytest.raises(TypeInferError) as caught:
        infer(call)
    assert caught.value.message == message
    assert caught.value.hint == hint


def test_the_error_points_at_the_call():
    call = op.exp(W)
    with pytest.raises(TypeInferError) as caught:
        infer(call)
    assert caught.value.where is call


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: op.add(X), "add: argument 'x2' is missing\nhint: add(x1, x2)"),
        (lambda: op.add(X, X, X), "add: too many arguments\nhint: add(x1, x2)"),
        (
            lambda: op.sum(X, axes=1),
            "sum: no argument 'axes'\nhint: sum(x, axis=None, keepdims=False)",
        ),
    ],
)
def test_wrong_calls(make, message):
    with pytest.raises(TypeInferError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["Divide", "FloorDivide", "Mod", "FloorMod"])
def test_integers_are_not_divided_by_zero(name):
    decl = getattr(binary, name)
    with pytest.raises(ExecutionError) as caught:
        decl().numpy(np.array([1, 2]), np.array([1, 0]))
    assert caught.value.message == f"{decl.sugar}: an integer is divided by 0"


def test_two_declarations_of_one_name_are_refused():
    from mlcnb.relax.operator import OpDecl, operator

    class Exp(OpDecl):
        """Another."""

    with pytest.raises(MLCError) as caught:
        operator("relax.exp")(Exp)
    assert caught.value.message == "operator 'relax.exp' is declared twice"

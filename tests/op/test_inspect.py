"""inspect.*: what a tensor is, where it is known and as the program runs."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb
from mlcnb.core.errors import TypeInferError
from mlcnb.relax import op
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.relax.infer import infer
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.script import relax as R
from mlcnb.testing import evaluate

X = Var("x", tensor_info([2, 3, 4], "float16"))
KNOWN = {
    "tensor_dtype_code": ("uint8", 2),
    "tensor_dtype_bits": ("uint8", 16),
    "tensor_dtype_lanes": ("uint16", 1),
    "tensor_byte_offset": ("uint64", 0),
    "tensor_elem_offset": ("uint64", 0),
    "tensor_ndim": ("int32", 3),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_is_inferred(name: str) -> None:
    info = infer(getattr(op.inspect, name)(X))
    assert (str(info.dtype), info.value.value) == KNOWN[name]
    unknown = Var("u", TensorStructInfo(None, None, -1))
    open_info = infer(getattr(op.inspect, name)(unknown))
    assert str(open_info.dtype) == KNOWN[name][0]


def test_extents_and_strides() -> None:
    assert [infer(op.inspect.tensor_shape_i(X, i)).value.value for i in range(3)] == [2, 3, 4]
    assert [infer(op.inspect.tensor_stride_i(X, i)).value.value for i in range(3)] == [12, 4, 1]
    with pytest.raises(TypeInferError, match="has no dimension 3"):
        infer(op.inspect.tensor_shape_i(X, 3))


def test_kinds_of_dtypes() -> None:
    kinds = {"int8": 0, "uint32": 1, "float64": 2, "bfloat16": 4, "bool": 6}
    found = {k: infer(op.inspect.tensor_dtype_code(Var("x", tensor_info([], k)))) for k in kinds}
    assert {k: i.value.value for k, i in found.items()} == kinds


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_they_run(target: str) -> None:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), u: R.Tensor(ndim=2)):
        a = R.inspect.tensor_shape_i(x, R.prim_value(1))
        b = R.inspect.tensor_stride_i(x, R.prim_value(0))
        c = R.inspect.tensor_dtype_bits(u)
        d = R.inspect.tensor_ndim(x)
        return (a, b, c, d)

    mod = mlcnb.IRModule({"main": main})
    x, u = np.zeros((3, 5), "float32"), np.zeros((1, 1), "int64")
    assert tuple(map(int, evaluate(mod, x, u))) == (5, 5, 64, 2)
    assert tuple(map(int, mlcnb.compile(mod, target)(x, u))) == (5, 5, 64, 2)

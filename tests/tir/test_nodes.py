"""Nodes of the loop IR take dtypes and kinds as plain strings."""

from __future__ import annotations

import pytest

from mlcnb import tir
from mlcnb.core.errors import UnsupportedDtypeError
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import Range
from mlcnb.relax.struct_info import PrimStructInfo, TensorStructInfo

N = tir.Var("n", "int64")
MADE = {
    "Var": N,
    "SizeVar": tir.SizeVar("n", "int64"),
    "IntImm": tir.IntImm("int64", 3),
    "Cast": tir.Cast("int64", N),
    "Call": tir.Call("int64", "tir.popcount", (N,)),
    "Buffer": tir.Buffer("A", "int64", (N,), tir.Var("A", "handle")),
    "decl_buffer": tir.decl_buffer((N,), "int64"),
    "Allocate": tir.Allocate(tir.Var("A", "handle"), "int64", (N,), N > 0, tir.Evaluate(N)),
    "PrimStructInfo": PrimStructInfo("int64"),
    "TensorStructInfo": TensorStructInfo((1, 2), "int64"),
}


@pytest.mark.parametrize("name", MADE)
def test_dtype_is_a_dtype(name):
    assert type(MADE[name].dtype) is DType
    assert MADE[name].dtype is dtype("int64")
    assert MADE[name].dtype.is_integer


def test_float_constant():
    assert tir.FloatImm("float32", 1.5).dtype.is_float


def test_what_is_no_dtype_is_refused_where_it_is_given():
    with pytest.raises(UnsupportedDtypeError, match="no dtype 'int65x'"):
        tir.Buffer("A", "int65x", (N,), tir.Var("A", "handle"))


def test_kind_of_an_axis():
    axis = tir.IterVar(Range(tir.const(0), tir.const(4)), tir.Var("v", "int32"), "R")
    assert axis.iter_type is tir.IterType.REDUCE

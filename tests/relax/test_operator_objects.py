"""Operators of a graph: one object for each name."""

from __future__ import annotations

import copy

import pytest

import mlcnb as mlc
from mlcnb.core.errors import ArgumentError, UnsupportedDtypeError
from mlcnb.ir import structural_equal
from mlcnb.relax import Op, Var, op
from mlcnb.script import relax as R
from mlcnb.tir import IntImm

X = Var("x", R.Tensor((2, 4), "float32"))
X1 = Var("x", R.Tensor((1, 4), "float32"))
X4 = Var("x", R.Tensor((1, 4, 3, 3), "float32"))


def test_there_is_one_object_for_each_name():
    add = Op("relax.add")
    assert Op.get("relax.add") is add is Op(name="relax.add")
    assert copy.copy(add) is copy.deepcopy(add) is add
    assert Op("relax.subtract") != add


def test_attributes_are_read_by_their_names():
    attrs = op.concat((X, X), axis=IntImm("int64", 1)).attrs
    assert (attrs.axis, attrs["axis"], attrs.get_int("axis"), attrs.keys()) == (1, 1, 1, ["axis"])
    reduced = op.sum(X, axis=[IntImm("int32", 0), 1], keepdims=True).attrs
    assert reduced.get_int_tuple("axis") == (0, 1)
    assert op.nn.conv2d(X4, X4).attrs.get_str("data_layout") == "NCHW"
    with pytest.raises(ArgumentError) as error:
        attrs["axes"]
    assert str(error.value) == "Concat has no attribute 'axes'\nhint: did you mean 'axis'?"


@pytest.mark.parametrize(
    "make", [op.sum, op.mean, op.max, op.min, op.prod, op.std, op.variance, op.expand_dims, op.tile]
)
def test_one_axis_is_a_list_of_one(make):
    """As in TVM: both ways to write it are one call."""
    one, listed = make(X, 1), make(X, [1])
    assert structural_equal(one, listed)
    assert structural_equal(op.squeeze(X1, 0), op.squeeze(X1, [0]))
    assert op.split(X, 2, axis=0).attrs.indices_or_sections == 2


def test_dtypes_by_their_class():
    assert (mlc.DataType("float32x4").lanes, mlc.DataType("int8").bits) == (4, 8)
    assert mlc.DataType("bool") is mlc.dtype("bool")
    with pytest.raises(UnsupportedDtypeError):
        mlc.DataType("int7")
    assert R.Tensor(ndim=IntImm("int64", 2), dtype="int8").ndim == 2

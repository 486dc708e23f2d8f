"""Layouts as functions of indices: shapes, arrays, inverses."""

from __future__ import annotations

import numpy as np
import pytest

from mlcnb import tir
from mlcnb.core.errors import MLCError
from mlcnb.ir.structural import structural_equal
from mlcnb.runtime import tensor
from mlcnb.tir import IndexMap

NCHW16C = IndexMap.from_func(lambda n, c, h, w: [n, c // 16, h, w, c % 16])


def as_text(expressions):
    return [str(x).replace("T.int64", "").replace("(", "").replace(")", "") for x in expressions]


def test_map_indices_and_shape():
    i = [tir.Var(name) for name in "abcd"]
    assert [str(x) for x in NCHW16C.map_indices(i)] == ["a", "b // 16", "c", "d", "b % 16"]
    assert [int(d) for d in NCHW16C.map_shape([1, 64, 7, 5])] == [1, 4, 7, 5, 16]
    assert [int(d) for d in NCHW16C.map_shape([1, 3, 7, 5])] == [1, 1, 7, 5, 16]


def test_symbolic_shapes():
    n = tir.SizeVar("n", tir.Var("x").dtype)
    halves = IndexMap.from_func(lambda i, j: [j, i], index_dtype="int32")
    assert [str(d) for d in halves.map_shape([n, 4])] == ["4", "n"]


def test_inverse():
    inverse = NCHW16C.inverse([2, 64, 7, 5])
    assert as_text(inverse.final_indices) == ["n", "axis1 * 16 + axis4", "h", "w"]
    i = tir.Var("i", inverse.initial_indices[0].dtype)
    there = inverse.map_indices(NCHW16C.map_indices([i] * 4))
    assert all(structural_equal(x, i) for x in there)


def test_a_fused_layout_is_split_back():
    fused = IndexMap.from_func(lambda i, j: [i * 16 + j])
    assert as_text(fused.inverse([8, 16]).final_indices) == ["axis0 // 16", "axis0 % 16"]


def test_padding_where_a_factor_does_not_divide():
    inverse, padding = NCHW16C.non_surjective_inverse([2, 40, 7, 5])
    assert as_text(inverse.final_indices) == ["n", "axis1 * 16 + axis4", "h", "w"]
    assert as_text([padding]) == ["40 <= axis1 * 16 + axis4"]
    _, none = NCHW16C.non_surjective_inverse([2, 32, 7, 5])
    assert none.value == 0


def test_arrays():
    a = np.arange(2 * 20 * 3 * 2).reshape(2, 20, 3, 2)
    packed = NCHW16C.map_ndarray(a, pad_value=-1)
    assert packed.shape == (2, 2, 3, 2, 16)
    back = packed.transpose(0, 1, 4, 2, 3).reshape(2, 32, 3, 2)
    np.testing.assert_array_equal(back[:, :20], a)
    assert (back[:, 20:] == -1).all()
    np.testing.assert_array_equal(NCHW16C.map_ndarray(tensor(a), pad_value=-1), packed)


def test_variable_numbers_of_indices_and_given_inverses():
    swap = IndexMap.from_func(lambda *i: [*i[1:], i[0]], ndim=3)
    assert [v.name for v in swap.initial_indices] == ["i0", "i1", "i2"]
    assert as_text(swap.final_indices) == ["i1", "i2", "i0"]
    mine = IndexMap.from_func(lambda i: [i * 2], inverse_index_map=lambda i: [i // 2])
    assert as_text(mine.inverse([4]).final_indices) == ["i // 2"]


def test_equivalence():
    same = IndexMap.from_func(lambda a, b, c, d: [a, (b * 2) // 32, c, d, b % 16])
    assert NCHW16C.is_equivalent_to(same)
    assert not NCHW16C.is_equivalent_to(IndexMap.from_func(lambda a, b, c, d: [a, b, c, d]))


def test_errors():
    with pytest.raises(MLCError) as error:
        IndexMap.from_func(lambda i, j: [i + j]).inverse([8, 4])
    assert error.value.message.startswith("the index map has no inverse: a term has the factor")
    with pytest.raises(MLCError, match="the map takes 4 indices, 2 were given"):
        NCHW16C.map_indices([1, 2])
    with pytest.raises(MLCError, match="ndim is needed where the function takes"):
        IndexMap.from_func(lambda *i: list(i))

"""tir.layout and tir.bijective_layout: letters as objects, against arrays that are transposed."""

from __future__ import annotations

import numpy as np
import pytest

from mlcnb import tir
from mlcnb.core.errors import MLCError
from mlcnb.ir.structural import structural_equal
from mlcnb.op import _layout


def test_what_a_layout_says_of_its_axes():
    blocked = tir.layout("NCHW16c")
    assert isinstance(blocked, tir.Layout)
    assert [blocked[n] for n in range(len(blocked))] == list("NCHWc")
    assert blocked[-1] == "c"
    assert [blocked.index_of(axis) for axis in "NCHWcO"] == [0, 1, 2, 3, 4, -1]
    assert [blocked.factor_of(axis) for axis in "NCcO"] == [-1, 16, 16, -1]
    assert "c" in blocked
    assert "O" not in blocked
    assert str(blocked) == blocked.name == "NCHW16c"


@pytest.mark.parametrize(("src", "dst"), [("NCHW", "NHWC"), ("NCHW", "NCHW4c"), ("NHWC8c", "NCHW")])
def test_indices_and_shapes_follow_the_arrays(src, dst):
    both = tir.bijective_layout(src, dst)
    shape = _layout.shape_in(src, {"N": 2, "C": 8, "H": 3, "W": 5})
    x = np.arange(np.prod(shape)).reshape(shape)
    plain = _layout.to_plain(x, src, "NCHW", {})
    y = _layout.from_plain(plain, "NCHW", dst)
    assert tuple(map(int, both.forward_shape(shape))) == y.shape
    assert tuple(map(int, both.backward_shape(y.shape))) == x.shape
    for place in np.ndindex(*shape):
        there = tuple(map(int, both.forward_index(place)))
        assert y[there] == x[place]
        assert tuple(map(int, both.backward_index(there))) == place


def test_open_sizes_and_indices():
    n, i = tir.Var("n", "int32"), tir.Var("i", "int32")
    both = tir.bijective_layout("NC", "NC4c")
    assert str(both.forward_shape((n, 8))) == "(n, 2, 4)"
    rows, outer, inner = both.forward_index([n, i])
    assert structural_equal([rows, outer, inner], [n, i // 4, i % 4])


def test_layouts_that_are_none_or_not_alike():
    for src, dst in [("NCHW", "ABCD"), ("", "NCHW"), ("NCHW", "__undef__"), ("", "")]:
        assert tir.bijective_layout(src, dst) is None
    assert len(tir.layout("__undef__")) == 0
    with pytest.raises(MLCError, match="'NC16' is no layout"):
        tir.layout("NC16")
    with pytest.raises(MLCError, match="NCHW has 4 axes, 3 were given"):
        tir.bijective_layout("NCHW", "NHWC").forward_shape((1, 2, 3))

"""Operators of a graph: one object for each name."""

from __future__ import annotations

import copy

from mlcnb.relax import Op


def test_there_is_one_object_for_each_name():
    add = Op("relax.add")
    assert Op.get("relax.add") is add is Op(name="relax.add")
    assert copy.copy(add) is copy.deepcopy(add) is add
    assert Op("relax.subtract") != add

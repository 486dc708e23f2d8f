"""layout_transform by an index map: element x[i] goes to place map(i) of the result.

R.layout_transform(x, index_map=lambda i: (i // 4, i % 4), pad_value=0.0)    (10,) -> (3, 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.core.errors import MLCError
from mlcnb.ir.prim_ops import all_of, as_int, cast, const
from mlcnb.op._dims import refuse, tell, tensor, tidy
from mlcnb.relax.operator import OpDecl
from mlcnb.tir.index_map import IndexMap


def infer(op: OpDecl, x: Any, index_map: IndexMap, pad_value: Any) -> Any:
    """The shape that the map makes of x's dimensions."""
    if x.ndim not in (-1, len(index_map.initial_indices)):
        refuse(op, f"the index map takes {len(index_map.initial_indices)} indices, not {tell(x)}")
    if x.dims is None:
        refuse(op, f"an index map needs the dimensions of {tell(x)}", hint="use R.match_cast")
    whole = x.dtype is not None and not x.dtype.is_float
    if whole and pad_value is not None and float(pad_value) != int(pad_value):
        refuse(op, f"pad_value {pad_value} is none of {x.dtype}")
    return tensor(result_dims(op, x.dims, index_map), x.dtype)


def result_dims(op: OpDecl, dims: Sequence[Any], index_map: IndexMap) -> list[Any]:
    """The dimensions of the result."""
    try:
        made = index_map.map_shape(dims)
    except MLCError as error:
        refuse(op, f"the index map cannot be followed: {error.message}")
    return [tidy(cast("int64", d)) for d in made]


def numpy(x: np.ndarray, index_map: IndexMap, pad_value: Any) -> np.ndarray:
    """Every element where the map puts it, `pad_value` (or 0) elsewhere."""
    return index_map.map_ndarray(np.asarray(x), 0 if pad_value is None else pad_value)


def compute(op: OpDecl, x: Any, index_map: IndexMap, pad_value: Any) -> Any:
    """One copy, which asks for each place which element belongs there."""
    dims = result_dims(op, x.shape, index_map)
    inverse, padding = index_map.non_surjective_inverse(x.shape)

    def source(*index: Any) -> Any:
        place = inverse.map_indices(index)
        if as_int(padding) == 0:
            return x(*place)
        inside = all_of(*(i < cast(i.dtype, d) for i, d in zip(place, x.shape, strict=True)))
        return te.if_then_else(inside, x(*place), const(pad_value or 0, x.dtype))

    return te.compute(dims, source, name="layout_transform")

"""Products with a matrix packed for instructions that sum some products at once.

    sums[i, j0, j1] += x[i, 4 * k0 + k1] * weight[j0, k0, j1, k1]
    y[i, j] = sums[i, j // b, j % b]

A matrix (K, columns) lies as (ceil(columns / b), K / g, b, g): a block of b columns is one piece of
memory, and what one instruction takes of each column lies together: g is 4 for bytes, 2 for
bfloat16. Columns that fill up the last block are summed, but not stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir.prim_ops import as_int, cast
from mlcnb.op._dims import differ, refuse, tell, tidy
from mlcnb.relax.operator import OpDecl


def check_groups(op: OpDecl, x: Any, weight: Any, columns: int, width: int) -> None:
    """Refuse an x, or a number of columns, that the packed weight does not fit."""
    blocks, groups, block, inner = weight.dims
    if x.ndim < 1 or differ(x.dims[-1], tidy(groups * inner)) or as_int(inner) != width:
        refuse(op, f"{tell(x)} does not fit the packed {tell(weight)}")
    room = as_int(tidy(blocks * block))
    if room is not None and not 0 < columns <= room:
        refuse(op, f"{columns} columns are not in {tell(weight)}")


def unpacked(weight: np.ndarray, columns: int) -> np.ndarray:
    """The matrix (K, columns) of a packed weight."""
    blocks, groups, block, inner = weight.shape
    matrix = weight.transpose(1, 3, 0, 2).reshape(groups * inner, blocks * block)
    return matrix[:, :columns]


def sums_in_groups(x: Any, weight: Any, columns: int, kinds: tuple[Any, Any], name: str) -> Any:
    """te tensor of the product: one reduction in groups, `name`; a copy of what counts of it.

    kinds: the dtype of the sums, and that of the result.
    """
    blocks, groups, block, inner = weight.shape
    k0 = te.reduce_axis((0, groups), name="k_group")
    k1 = te.reduce_axis((0, inner), name="k_dot")
    wide, kind = kinds

    def element(*index: Any) -> Any:
        *rows, j, column = index
        a, b = x(*rows, k0 * inner + k1), weight(j, k0, column, k1)
        return te.sum(cast(wide, a) * cast(wide, b), axis=[k0, k1])

    def column(*index: Any) -> Any:
        *rows, j = index
        return cast(kind, sums(*rows, j // block, j % block))

    rows = x.shape[:-1]
    sums = te.compute((*rows, blocks, block), element, name=name)
    return te.compute((*rows, columns), column, name=name.replace("_packed", "_columns"))

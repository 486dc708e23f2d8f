"""PackQuantizedMatmul: matrices of bytes lie in blocks of columns, in fours of rows.

y = R.qnn.matmul(x, w)      ->      y = R.qnn.matmul_packed(x, w1, columns=1000)

Also the packing of convolutions' kernels, which ConvertLayout's rules use. A dot product
instruction takes four bytes of each column: they lie together.
"""

from __future__ import annotations

from string import ascii_uppercase
from typing import Any

import numpy as np

from mlcnb.ir.prim_ops import as_int
from mlcnb.op.qnn.matmul import QuantizedMatmul
from mlcnb.relax import op
from mlcnb.relax.expr import Constant, ShapeExpr, const
from mlcnb.relax.transform.written_out import CallPass, Reader

#: values whose products one instruction sums
DOT = 4


class PackQuantizedMatmul(CallPass, says="matrices of bytes packed", quiet=True):
    """Pack the matrices of products of bytes, constant ones now, others when it runs.

    int8 matrices (K, N), one or one of each batch, times uint8 tensors of two or more dimensions,
    constant ones also times int8; K is filled up to a multiple of 4. Sizes may be open. Others
    stay, none is refused.

    lanes: columns in a vector; 0 takes those of the current target's int32 vectors.
    """

    lanes: int = 0


@PackQuantizedMatmul.rewrites(QuantizedMatmul)
def _matrix(r: Reader, call: Any, _attrs: Any) -> Any:
    """A matrix of bytes lies in blocks of columns, four rows together."""
    x, weight = call.args
    info, matrix = x.struct_info, weight.struct_info
    if matrix.dtype != "int8" or info.dims is None or info.ndim < 2 or matrix.dims is None:
        return None
    depth, columns = (as_int(d) for d in matrix.dims[-2:])
    share, known = None, isinstance(weight, Constant) and matrix.ndim == 2
    if 0 in (depth, columns) or (info.dtype == "int8" and not known):
        return None
    if info.dtype == "int8":
        x, share = r.emit(op.qnn.unsigned(x)), signed_share(weight.data.T)
    # a row alone (a batch of unknown size is taken for one) is read with four vectors at once
    rows = [as_int(d) for d in info.dims[:-1]]
    block = r.lanes("int32") * (4 if all(d in (1, None) for d in rows) else 2)
    x = _in_fours(r, x, depth)
    packed = const(pack_matrix(weight.data, block)) if known else _packed(r, weight, block)
    if columns is None:
        return op.qnn.matmul_packed(x, packed, ShapeExpr((matrix.dims[-1],)))
    made = op.qnn.matmul_packed(x, packed, columns=columns)
    if share is None:
        return made
    return op.add(r.emit(made), const(share))


def _in_fours(r: Reader, x: Any, depth: int | None) -> Any:
    """x with rows that zeros fill up to whole fours."""
    if depth is not None:
        return _filled(r, x, 0, -depth % DOT) if depth % DOT else x
    letters = ascii_uppercase[: x.struct_info.ndim]
    made: Any = r.emit(
        op.layout_transform(x, src=letters, dst=f"{letters}{DOT}{letters[-1].lower()}")
    )
    *rows, fours, _ = made.struct_info.dims
    return r.emit(op.reshape(made, [*rows, fours * DOT]))


def _packed(r: Reader, weight: Any, block: int) -> Any:
    """The matrix in blocks of columns, four rows together, when it runs: filled up first, so that
    what brings four rows together asks nothing of their ends."""
    depth, columns = (as_int(d) for d in weight.struct_info.dims[-2:])
    batch = ascii_uppercase[: weight.struct_info.ndim - 2]
    src, dst = f"{batch}YZ", f"{batch}ZY{block}z{DOT}y"
    if depth is None or columns is None:
        whole = r.emit(op.layout_transform(weight, src=src, dst=f"{batch}Y{DOT}yZ{block}z"))
        src = f"{batch}Y{DOT}yZ{block}z"
    else:
        whole = _filled(r, weight, -depth % DOT, -columns % block)
    return r.emit(op.layout_transform(whole, src=src, dst=dst))


def _filled(r: Reader, x: Any, rows: int, columns: int) -> Any:
    """x with so many more rows and columns of zeros."""
    if not rows and not columns:
        return x
    before = [0] * (2 * (x.struct_info.ndim - 2))
    return r.emit(op.nn.pad(x, pad_width=(*before, 0, rows, 0, columns)))


def pack_matrix(matrix: np.ndarray, block: int) -> np.ndarray:
    """(K, N) as (ceil(N / block), ceil(K / 4), block, 4), zeros filled in."""
    rows, columns = matrix.shape
    filled = np.pad(matrix, ((0, -rows % DOT), (0, -columns % block)))
    cut = filled.reshape(-(-rows // DOT), DOT, -1, block).transpose(2, 0, 3, 1)
    return np.ascontiguousarray(cut)


def pack_kernel(kernel: np.ndarray, outer: int, inner: int, dot: int = DOT) -> np.ndarray:
    """(O, I, H, W) as (O / outer, I / inner, H, W, inner / dot, outer, dot), zeros filled in."""
    o, i, h, w = kernel.shape
    filled = np.pad(kernel, ((0, -o % outer), (0, -i % inner), (0, 0), (0, 0)))
    cut = filled.reshape(-(-o // outer), outer, -(-i // inner), inner // dot, dot, h, w)
    return np.ascontiguousarray(cut.transpose(0, 2, 5, 6, 3, 1, 4))


def pack_depthwise(kernel: np.ndarray, block: int) -> np.ndarray:
    """(C, 1, H, W) as (C / block, H, ceil(W / 4), block, 4), zeros filled in."""
    c, _, h, w = kernel.shape
    filled = np.pad(kernel[:, 0], ((0, -c % block), (0, 0), (0, -w % DOT)))
    cut = filled.reshape(-(-c // block), block, h, -(-w // DOT), DOT)
    return np.ascontiguousarray(cut.transpose(0, 2, 3, 1, 4))


def unsigned_point(point: Any) -> Constant:
    """A constant zero point of int8 as one of what `qnn.unsigned` makes."""
    return const(np.array(int(point.data) + 128, np.uint8))


def signed_share(weights: np.ndarray) -> np.ndarray:
    """What 128 more in each value of the data has to be taken off the sums of each (O, …)."""
    return (-128 * weights.reshape(len(weights), -1).astype(np.int64).sum(axis=1)).astype(np.int32)

"""PackQuantizedMatmul: constant matrices of bytes lie in blocks of columns, in fours of rows.

y = R.qnn.matmul(x, w)      ->      y = R.qnn.matmul_packed(x, w1, columns=1000)

Also the packing of convolutions' kernels, which ConvertLayout's rules use. A dot product
instruction takes four bytes of each column: they lie together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcnb.ir.prim_ops import as_int
from mlcnb.op.qnn.matmul import QuantizedMatmul
from mlcnb.relax import op
from mlcnb.relax.expr import Constant, const
from mlcnb.relax.transform.written_out import CallPass, Reader

#: values whose products one instruction sums
DOT = 4


class PackQuantizedMatmul(CallPass, says="constant matrices of bytes packed", quiet=True):
    """Pack the constant matrices of products of bytes.

    int8 matrices of shape (K, N), K a multiple of 4, times int8 or uint8 tensors of two or more
    dimensions; others stay, none is refused.

    lanes: columns in a vector; 0 takes those of the current target's int32 vectors.
    """

    lanes: int = 0


@PackQuantizedMatmul.rewrites(QuantizedMatmul)
def _matrix(r: Reader, call: Any, _attrs: Any) -> Any:
    """A constant matrix of bytes lies in blocks of columns, four rows together."""
    x, weight = call.args
    info: Any = x.struct_info
    if not isinstance(weight, Constant) or weight.data.dtype != np.int8 or info.dims is None:
        return None
    matrix, inner = weight.data, as_int(info.dims[-1])
    if inner is None or inner % DOT or info.ndim < 2:
        return None
    share = None
    if info.dtype == "int8":
        x, share = r.emit(op.qnn.unsigned(x)), signed_share(matrix.T)
    # a row alone (a batch of unknown size is taken for one) is read with four vectors at once
    rows = [as_int(d) for d in info.dims[:-1]]
    block = r.lanes("int32") * (4 if all(d in (1, None) for d in rows) else 2)
    packed = const(pack_matrix(matrix, block))
    made = op.qnn.matmul_packed(x, packed, columns=matrix.shape[1])
    if share is None:
        return made
    return op.add(r.emit(made), const(share))


def pack_matrix(matrix: np.ndarray, block: int) -> np.ndarray:
    """(K, N) as (ceil(N / block), K / 4, block, 4)."""
    rows, columns = matrix.shape
    filled = np.pad(matrix, ((0, 0), (0, -columns % block)))
    cut = filled.reshape(rows // DOT, DOT, -1, block).transpose(2, 0, 3, 1)
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

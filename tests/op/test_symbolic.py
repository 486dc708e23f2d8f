"""Inference over symbolic dimensions: what stays, what is computed, what is left open."""

from __future__ import annotations

from typing import Any

import pytest

from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Var
from mlcnb.op._dims import tell
from mlcnb.op.image import resize
from mlcnb.op.indexing import slice as slices
from mlcnb.op.indexing import take
from mlcnb.op.linear_algebra import einsum, matmul
from mlcnb.op.manipulate import broadcast, gather, join, layout, pad, permute, repeat, reshape
from mlcnb.op.nn import attention, conv, conv_transpose, pool, pool_more, softmax
from mlcnb.relax.expr import shape_expr, tensor_info
from mlcnb.relax.struct_info import TupleStructInfo

N, M = Var("n", dtype("int64")), Var("m", dtype("int64"))
BIG = 2**63 - 1


def t(*dims: Any, kind: str = "float32") -> Any:
    return tensor_info(dims, kind)


def s(*dims: Any) -> Any:
    return shape_expr(dims).struct_info


def unknown(ndim: int = -1) -> Any:
    return tensor_info(None, "float32", ndim)


SHAPES = [
    (reshape.Reshape(), [t(N, 3, 4), s(-1, 12)], "(n, 12)"),
    (reshape.Reshape(), [t(N, M, 8), s(N, M * 8)], "(n, m * T.int64(8))"),
    (reshape.Reshape(), [t(N, 2048), s(-1, 1024)], "(n * T.int64(2), 1024)"),
    (reshape.Flatten(), [t(N, M)], "(n * m,)"),
    (reshape.Squeeze((1,)), [t(N, 1)], "(n,)"),
    (reshape.Squeeze(), [t(N, 1)], "ndim=-1"),
    (permute.PermuteDims(), [t(N, M, 3)], "(3, m, n)"),
    (broadcast.BroadcastTo(), [t(1, 3), s(N, 3)], "(n, 3)"),
    (join.Concat(0), [(t(N, 3), t(M, 3))], "(n + m, 3)"),
    (join.Concat(0), [(t(N, 3), t(2, 3))], "(n + T.int64(2), 3)"),
    (join.Stack(0), [(t(N, 3), t(N, 3))], "(2, n, 3)"),
    (pad.Pad((1, 2, 0, 0)), [t(N, 3)], "(n + T.int64(3), 3)"),
    (layout.LayoutTransform("NCHW", "NCHW16c"), [t(N, 30, M, 4), None], "(n, 2, m, 4, 16)"),
    (repeat.Tile((2, 1)), [t(N, 3)], "(n * T.int64(2), 3)"),
    (slices.StridedSlice(), [t(N, 4), s(0), s(0), s(BIG), None], "(n, 4)"),
    (slices.StridedSlice(), [t(N, 4), s(0), s(0), s(N), None], "(n, 4)"),
    (slices.StridedSlice(), [t(N, 4), s(0), s(-1), s(BIG), None], "(T.min(n, T.int64(1)), 4)"),
    (slices.StridedSlice(), [t(N, 4), s(0), s(1), s(BIG), None],
     "(T.max(n - T.int64(1), T.int64(0)), 4)"),
    (take.Take(0), [t(N, 4), t(M, kind="int64")], "(m, 4)"),
    (gather.GatherNd(), [t(N, 4), t(M, 1, kind="int64")], "(m, 4)"),
    (matmul.Matmul(), [t(N, M, 3), t(3, 4)], "(n, m, 4)"),
    (matmul.Matmul(), [t(1, M, 3), t(N, 3, 4)], "(n, m, 4)"),
    (einsum.Einsum("bi,ij->bj"), [(t(N, 3), t(3, M))], "(n, m)"),
    (conv.Conv2d(padding=1), [t(N, 3, 8, 8), t(4, 3, 3, 3)], "(n, 4, 8, 8)"),
    (conv.Conv2d(2, 1), [t(1, 3, N, M), t(4, 3, 3, 3)],
     "(1, 4, (n + T.int64(1)) // T.int64(2), (m + T.int64(1)) // T.int64(2))"),
    (conv_transpose.Conv2dTranspose(2), [t(1, 3, N, N), t(3, 4, 2, 2)],
     "(1, 4, n * T.int64(2), n * T.int64(2))"),
    (pool.MaxPool2d(2, 2), [t(N, 3, M, 8)], "(n, 3, m // T.int64(2), 4)"),
    (pool.AvgPool2d(3, 2, 1, ceil_mode=True), [t(N, 3, M, 8)],
     "(n, 3, m // T.int64(2) + T.int64(1), 5)"),
    (pool_more.AdaptiveAvgPool2d(1), [t(N, 3, M, 8)], "(n, 3, 1, 1)"),
    (softmax.Softmax(), [t(N, M)], "(n, m)"),
    (attention.Attention(), [t(N, M, 2, 8), t(N, M, 2, 8), t(N, M, 2, 4), None], "(n, m, 2, 4)"),
    (resize.Resize2d(), [t(1, 3, N, M), s(N * 2, M * 2)],
     "(1, 3, n * T.int64(2), m * T.int64(2))"),
    (reshape.Reshape(), [unknown(), s(3, 4)], "(3, 4)"),
    (reshape.Reshape(), [unknown(2), s(-1, 4)], "ndim=2"),
    (permute.PermuteDims(), [unknown(3)], "ndim=3"),
    (join.Concat(0), [(unknown(2), t(3, 4))], "ndim=2"),
    (matmul.Matmul(), [unknown(3), t(3, 4)], "ndim=3"),
    (conv.Conv2d(), [unknown(4), t(4, 3, 3, 3)], "ndim=4"),
    (softmax.Softmax(), [unknown()], "ndim=-1"),
]  # fmt: skip


@pytest.mark.parametrize("case", SHAPES, ids=lambda c: f"{c[0].sugar} {c[2]}")
def test_shapes_are_followed(case):
    op, args, shape = case
    assert tell(op.infer(*args)) == f"Tensor({shape}, float32)"


def test_parts_of_a_symbolic_split():
    found = join.Split(2).infer(t(N, 3))
    assert isinstance(found, TupleStructInfo)
    half = "(n + T.int64(1)) // T.int64(2)"
    assert [tell(f) for f in found.fields] == [
        f"Tensor(({half}, 3), float32)",
        f"Tensor((n - {half}, 3), float32)",
    ]

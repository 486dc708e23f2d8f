"""Operators to tune as tensor expressions, by the names of `tvm.meta_schedule.testing.te_workload`.

    te.create_prim_func(te_workload.matmul_relu(n=512, m=512, k=512))

Each gives its inputs and its result; products are taken in `out_dtype`.
"""

from __future__ import annotations

from typing import Any

from mlcnb import te
from mlcnb.ir import prim_ops as p

Tensors = tuple[te.Tensor, ...]


def matmul(
    n: int, m: int, k: int, in_dtype: str = "float32", out_dtype: str = "float32"
) -> Tensors:
    """C (n, m) = A (n, k) @ B (k, m)."""
    A, B = te.placeholder((n, k), in_dtype, name="A"), te.placeholder((k, m), in_dtype, name="B")
    r = te.reduce_axis((0, k), name="k")

    def element(i: Any, j: Any) -> Any:
        return te.sum(A[i, r].astype(out_dtype) * B[r, j].astype(out_dtype), axis=r)

    return A, B, te.compute((n, m), element, name="C")


def matmul_relu(
    n: int, m: int, k: int, in_dtype: str = "float32", out_dtype: str = "float32"
) -> Tensors:
    """max(A @ B, 0), both stages."""
    A, B, C = matmul(n, m, k, in_dtype, out_dtype)
    zero = p.const(0, out_dtype)
    return A, B, te.compute((n, m), lambda i, j: p.maximum(C[i, j], zero), name="compute")


def batch_matmul_nkkm(
    B: int, N: int, M: int, K: int, in_dtype: str = "float32", out_dtype: str = "float32"
) -> Tensors:
    """Z (b, n, m) = X (b, n, k) @ Y (b, k, m)."""
    X = te.placeholder((B, N, K), in_dtype, name="X")
    Y = te.placeholder((B, K, M), in_dtype, name="Y")
    r = te.reduce_axis((0, K), name="k")

    def element(b: Any, i: Any, j: Any) -> Any:
        return te.sum(X[b, i, r].astype(out_dtype) * Y[b, r, j].astype(out_dtype), axis=r)

    return X, Y, te.compute((B, N, M), element, name="Z")


def conv2d_nhwc(
    N: int,
    H: int,
    W: int,
    CI: int,
    CO: int,
    kernel_size: int,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    in_dtype: str = "float32",
    out_dtype: str = "float32",
) -> Tensors:
    """A convolution of (n, h, w, ci) with (kh, kw, ci / groups, co), zeros around the image."""
    inputs = te.placeholder((N, H, W, CI), in_dtype, name="inputs")
    share, outputs = CI // groups, CO // groups
    weight = te.placeholder((kernel_size, kernel_size, share, CO), in_dtype, name="weight")
    rows, columns = (
        (side + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1 for side in (H, W)
    )
    zero = p.const(0, in_dtype)

    def inside(n: Any, h: Any, w: Any, c: Any) -> Any:
        y, x = h - padding, w - padding
        return p.if_then_else(p.all_of(0 <= y, y < H, 0 <= x, x < W), inputs[n, y, x, c], zero)

    shape = (N, H + 2 * padding, W + 2 * padding, CI)
    padded = te.compute(shape, inside, name="PadInput")
    rh = te.reduce_axis((0, kernel_size), name="rh")
    rw = te.reduce_axis((0, kernel_size), name="rw")
    rc = te.reduce_axis((0, share), name="rc")

    def element(n: Any, h: Any, w: Any, co: Any) -> Any:
        channel = rc if groups == 1 else co // outputs * share + rc
        pixel = padded[n, h * stride + rh * dilation, w * stride + rw * dilation, channel]
        product = pixel.astype(out_dtype) * weight[rh, rw, rc, co].astype(out_dtype)
        return te.sum(product, axis=[rh, rw, rc])

    return inputs, weight, te.compute((N, rows, columns, CO), element, name="conv2d_nhwc")

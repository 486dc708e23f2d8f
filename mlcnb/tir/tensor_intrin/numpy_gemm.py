"""An instruction made of NumPy, to learn with: a 4 x 4 x 4 product that a Python function does.

    T.call_packed("mlcnb.numpy_gemm_4x4x4", pointers to A, B, C, and the strides of their rows)

The interpreter calls the function; to compiled code it is unknown, and the backend says so. To make
an instruction of your own, write these two functions and register them with
`mlcnb.tir.TensorIntrin.register(name, desc, impl)`.
"""

from __future__ import annotations

import numpy as np

from mlcnb.core.registry import register_func
from mlcnb.script import tir as T
from mlcnb.tir.tensor_intrin.descriptions import product, register

NUMPY_GEMM_INTRIN = "numpy_gemm_4x4x4"


@register_func("mlcnb.numpy_gemm_4x4x4", override=True)
def numpy_gemm(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, row_a: int, row_b: int, row_c: int
) -> int:
    """C += A @ B, of 4 x 4 elements each, whose rows begin `row_*` elements apart."""
    c_tile = _tile(c, row_c)
    c_tile += _tile(a, row_a) @ _tile(b, row_b)
    return 0


def _tile(memory: np.ndarray, row: int) -> np.ndarray:
    """A 4 x 4 view of flat memory."""
    used = memory[: 3 * row + 4]
    return np.lib.stride_tricks.as_strided(used, (4, 4), (row * used.itemsize, used.itemsize))


@T.prim_func
def numpy_gemm_impl(a: T.handle, b: T.handle, c: T.handle):
    """A call of the function: where the tiles begin, and how far apart their rows are."""
    row_a, row_b, row_c = T.int32(), T.int32(), T.int32()
    at_a, at_b, at_c = T.int32(), T.int32(), T.int32()
    A = T.match_buffer(a, (4, 4), "float32", strides=[row_a, 1], elem_offset=at_a)
    B = T.match_buffer(b, (4, 4), "float32", strides=[row_b, 1], elem_offset=at_b)
    C = T.match_buffer(c, (4, 4), "float32", strides=[row_c, 1], elem_offset=at_c)
    with T.block("root"):
        T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
        T.writes(C[0:4, 0:4])
        T.evaluate(
            T.call_packed(
                "mlcnb.numpy_gemm_4x4x4",
                A.access_ptr("r"),
                B.access_ptr("r"),
                C.access_ptr("rw"),
                row_a,
                row_b,
                row_c,
            )
        )


register(NUMPY_GEMM_INTRIN, product(4, 4, 4), numpy_gemm_impl)

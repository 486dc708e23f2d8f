"""Matrix products: squares from 64 to 4096, what transformers do, odd sizes, a matrix by a vector.

Neither matrix is known before, so nobody can pack one ahead of time. Where a library can write to
an array that is given, it does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import helper

from mlcnb import te
from tests.benchmarks.case import Case, model_of, random

SQUARES = (64, 128, 256, 512, 1024, 2048, 4096)
#: rows, columns, depth
TRANSFORMER = (
    (128, 384, 384), (128, 1536, 384), (128, 384, 1536), (128, 768, 768), (128, 3072, 768),
    (128, 768, 3072), (512, 768, 768), (512, 3072, 768), (32, 4096, 4096),
)  # fmt: skip
ODD = ((1000, 515, 37), (37, 1000, 515), (515, 37, 1000), (127, 129, 131), (1023, 1025, 1021))
VECTOR = ((1, 4096, 4096), (1, 1000, 2048), (4, 4096, 4096), (4096, 1, 4096))
#: squares that a quick run takes
QUICK = (64, 256, 1024)


def cases(quick: bool = False) -> Iterator[Case]:
    """All shapes, squares first."""
    for n in QUICK if quick else SQUARES:
        yield product("gemm", n, n, n)
    if not quick:
        for shape in (*TRANSFORMER, *ODD, *VECTOR):
            yield product("gemm", *shape)


def product(suite: str, m: int, n: int, k: int) -> Case:
    """C[m, n] = A[m, k] B[k, n]"""
    a, b = random(m, k, seed=1), random(k, n, seed=2)
    node = helper.make_node("MatMul", ["a", "b"], ["c"])
    model = model_of([node], {"a": a.shape, "b": b.shape}, "c")
    return Case(suite, f"{m}x{n}x{k}", model, (a, b), _numpy, _torch, loops(m, n, k))


def loops(m: int, n: int, k: int):
    """The product as a loop nest."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_prim_func([a, b, c])


def _numpy(a: np.ndarray, b: np.ndarray):
    out = np.empty((a.shape[0], b.shape[1]), np.float32)
    return lambda: np.matmul(a, b, out=out)


def _torch(a, b):
    import torch

    out = torch.empty((a.shape[0], b.shape[1]))
    return lambda: torch.matmul(a, b, out=out)

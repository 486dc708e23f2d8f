"""Products by the rules for GPUs, on a GPU: whole tiles, remainders, batches."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import dlight as dl
from mlcnb.target import Target
from tests.codegen.test_cuda import needs_gpu
from tests.dlight.test_gpu_rules import SHIPPED, halves, product, scheduled

CUDA = Target("cuda")
#: batch, rows, columns, length
SIZES = [(0, 512, 512, 512), (0, 1024, 256, 136), (0, 130, 200, 72), (2, 257, 96, 1000)]


def run_on_a_gpu(func, args, expected, tolerance: float) -> None:
    out = np.full(expected.shape, np.nan, "float32")
    mlc.compile(func, target=CUDA)(*args, out)
    np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)


@needs_gpu
@pytest.mark.parametrize("name", SHIPPED)
def test_what_a_rule_makes(name):
    rule, make = SHIPPED[name]
    func, args, expected = make()
    run_on_a_gpu(scheduled(rule, func), args, expected, 2e-3)


@needs_gpu
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_products_of_float32(sizes, turned):
    batch, *rest = sizes
    func, args, expected = product(max(batch, 1), *rest, turned, True)
    run_on_a_gpu(scheduled(dl.gpu.Matmul, func), args, expected, 2e-3)


@needs_gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("sizes", SIZES)
def test_products_of_halves(sizes, dtype):
    func, args, expected = halves(dtype, *sizes)
    run_on_a_gpu(scheduled(dl.gpu.Matmul, func), args, expected, 1e-2)

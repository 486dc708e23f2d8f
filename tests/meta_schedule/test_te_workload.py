"""Operators to tune: they compute what they say."""

from __future__ import annotations

import numpy as np
import pytest

from mlcnb import te
from mlcnb.codegen.interp import run_prim_func
from mlcnb.meta_schedule.testing import te_workload


def run(tensors, *arrays):
    func = te.create_prim_func(list(tensors))
    result = np.zeros([int(n) for n in func.buffers[-1].shape], func.buffers[-1].dtype.numpy)
    run_prim_func(func, [*arrays, result])
    return result


def numbers(*shape, dtype="float32"):
    return np.random.default_rng(len(shape)).integers(-4, 5, shape).astype(dtype)


def test_products():
    a, b = numbers(3, 5, dtype="float16"), numbers(5, 4, dtype="float16")
    exact = a.astype("float32") @ b.astype("float32")
    given = {"in_dtype": "float16", "out_dtype": "float32"}
    assert (run(te_workload.matmul(3, 4, 5, **given), a, b) == exact).all()
    assert (run(te_workload.matmul_relu(3, 4, 5, **given), a, b) == np.maximum(exact, 0)).all()
    x, y = numbers(2, 3, 5), numbers(2, 5, 4)
    assert (run(te_workload.batch_matmul_nkkm(2, 3, 4, 5), x, y) == x @ y).all()


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2)]
)
def test_convolutions(stride, padding, dilation, groups):
    image, weight = numbers(1, 6, 5, 4), numbers(3, 3, 4 // groups, 6)
    found = run(
        te_workload.conv2d_nhwc(1, 6, 5, 4, 6, 3, stride, padding, dilation, groups), image, weight
    )
    padded = np.pad(image, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    exact = np.zeros_like(found)
    for _, h, w, co in np.ndindex(found.shape):
        first = co // (6 // groups) * (4 // groups)
        rows = slice(h * stride, h * stride + 2 * dilation + 1, dilation)
        columns = slice(w * stride, w * stride + 2 * dilation + 1, dilation)
        pixels = padded[0, rows, columns, first : first + 4 // groups]
        exact[0, h, w, co] = (pixels * weight[..., co]).sum()
    assert (found == exact).all()

"""Each rule for GPUs: taken where it should be, right on random shapes, without spills."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import dlight as dl
from mlcnb import te
from mlcnb.codegen.cuda import nvrtc
from mlcnb.ir.module import IRModule
from mlcnb.target import Target

SIM = Target("cuda-sim")
ARCHITECTURES = ("sm_80", "sm_90a", "sm_120")
few = settings(max_examples=6, deadline=None, derandomize=True)


def product(batch: int, rows: int, columns: int, length: int, turned: bool, after: bool):
    """y[b, m, n] = sum of x[b, m, k] * W[b, k, n] (W[b, n, k] if turned), and 2 y + 1 after it."""
    X = te.placeholder((batch, rows, length), name="X")
    shape = (columns, length) if turned else (length, columns)
    W = te.placeholder((batch, *shape), name="W")
    k = te.reduce_axis((0, length), name="k")
    Y = te.compute(
        (batch, rows, columns),
        lambda b, m, n: te.sum(X[b, m, k] * (W[b, n, k] if turned else W[b, k, n]), axis=k),
        name="Y",
    )
    Z = te.compute(Y.shape, lambda b, m, n: Y[b, m, n] * 2.0 + 1.0, name="Z") if after else Y
    x, w = random(batch, rows, length), random(batch, *shape)
    expected = np.matmul(x, w.swapaxes(1, 2) if turned else w, dtype="float64")
    return te.create_prim_func([X, W, Z]), [x, w], expected * 2 + 1 if after else expected


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def copied(shape: tuple[int, ...], order: tuple[int, ...]):
    """The axes of an array in another order."""
    A = te.placeholder(shape, name="A")
    turned = [shape[n] for n in order]
    back = [order.index(n) for n in range(len(order))]
    B = te.compute(turned, lambda *at: A[tuple(at[n] for n in back)], name="B")
    a = random(*shape)
    return te.create_prim_func([A, B]), [a], a.transpose(order)


def scheduled(rule, func):
    """A function as a rule makes it; None where the rule does not take it."""
    return rule().apply(func, SIM)


def check(rule, made) -> str:
    """The rule takes a function, and a simulated GPU computes what NumPy does; its CUDA C++."""
    func, args, expected = made
    sch = scheduled(rule, func)
    assert sch is not None
    ex = mlc.compile(sch, target=SIM)
    out = np.full(expected.shape, np.nan, "float32")
    ex(*args, out)
    np.testing.assert_allclose(out, expected, rtol=2e-4, atol=2e-4)
    return ex.kernels[0].source


SIZES = st.integers(64, 300)


@few
@given(st.integers(1, 3), st.integers(32, 200), SIZES, st.booleans(), st.booleans())
def test_gemv(batch, columns, length, turned, after):
    func, args, expected = made = product(batch, 1, columns, length, turned, after)
    if scheduled(dl.gpu.GEMV, func) is None:  # sizes that share no factor with a warp
        expected_by_default(func, args, expected)
    else:
        check(dl.gpu.GEMV, made)


@few
@given(st.integers(2, 15), st.integers(32, 200), SIZES, st.booleans(), st.booleans())
def test_low_batch_gemv(rows, columns, length, turned, after):
    func, args, expected = made = product(1, rows, columns, length, turned, after)
    if scheduled(dl.gpu.LowBatchGEMV, func) is None:
        expected_by_default(func, args, expected)
    else:
        check(dl.gpu.LowBatchGEMV, made)


def expected_by_default(func, args, expected):
    """Whichever rule takes it computes the same."""
    out = np.full(expected.shape, np.nan, "float32")
    mlc.compile(func, target=SIM, schedule="default")(*args, out)
    np.testing.assert_allclose(out, expected, rtol=2e-4, atol=2e-4)


@few
@given(st.integers(16, 150), st.integers(16, 150), st.integers(16, 100), st.booleans())
def test_matmul(rows, columns, length, turned):
    check(dl.gpu.Matmul, product(1, rows, columns, length, turned, True))


@pytest.mark.parametrize("turned", [False, True])
def test_a_matrix_is_read_once_and_side_by_side(turned):
    source = check(dl.gpu.GEMV, product(1, 1, 256, 512, turned, True))
    along = "ax3_1" if turned else "ax1_1"
    assert f"const int {along} = threadIdx.x;" in source
    assert source.count("W[") == 1
    assert ("__shfl_down_sync" in source) == turned


@few
@given(st.integers(1, 3), st.integers(30, 100), st.integers(30, 100))
def test_transpose(outer, rows, columns):
    func, args, expected = made = copied((outer, rows, columns), (0, 2, 1))
    if scheduled(dl.gpu.Transpose, func) is None:  # most of its tiles would be empty
        expected_by_default(func, args, expected)
    else:
        source = check(dl.gpu.Transpose, made)
        assert "* 33 +" in source and source.count("A[") == 1


def test_transposes_of_more_axes():
    check(dl.gpu.Transpose, copied((2, 64, 8, 12), (0, 2, 3, 1)))
    check(dl.gpu.Transpose, copied((2, 8, 12, 64), (0, 3, 1, 2)))
    func, *_ = copied((64, 32, 5), (1, 0, 2))  # rows stay rows: a copy that needs no tile
    assert scheduled(dl.gpu.Transpose, func) is None


@few
@given(st.integers(1, 9), st.integers(60, 400))
def test_elementwise(rows, quarter):
    A, B = te.placeholder((rows, 4 * quarter), name="A"), te.placeholder((4 * quarter,), name="B")
    C = te.compute(A.shape, lambda i, j: (A[i, j] + B[j]) * A[i, j], name="C")
    a, b = random(rows, 4 * quarter), random(4 * quarter)
    source = check(dl.gpu.Fallback, (te.create_prim_func([A, B, C]), [a, b], (a + b) * a))
    assert ("vec<float, 4>" in source) == (rows * quarter >= 256)


SHIPPED = {
    "gemv": (dl.gpu.GEMV, lambda: product(1, 1, 256, 512, False, True)),
    "gemv, turned": (dl.gpu.GEMV, lambda: product(1, 1, 256, 512, True, True)),
    "low batch gemv": (dl.gpu.LowBatchGEMV, lambda: product(1, 8, 128, 256, False, True)),
    "low batch gemv, turned": (dl.gpu.LowBatchGEMV, lambda: product(1, 8, 128, 256, True, True)),
    "matmul": (dl.gpu.Matmul, lambda: product(2, 100, 90, 70, False, True)),
    "transpose": (dl.gpu.Transpose, lambda: copied((3, 64, 100), (0, 2, 1))),
}


@pytest.mark.skipif(not nvrtc.is_available(), reason="NVRTC is not installed")
@pytest.mark.parametrize("name", SHIPPED)
def test_nothing_spills(name):
    """Offline, for three architectures."""
    rule, make = SHIPPED[name]
    kernel = mlc.compile(scheduled(rule, make()[0]), target="cuda").kernels[0]
    for arch in ARCHITECTURES:
        for found in nvrtc.compile_text(kernel.source, arch).resources.values():
            assert (found.spill_stores, found.spill_loads, found.stack) == (0, 0, 0), arch


def test_rules_of_the_cpu_by_name():
    func, args, expected = product(1, 1, 64, 128, True, False)
    mod = IRModule.from_expr(func.with_attr("global_symbol", "main"))
    with Target("llvm"):
        made = dl.ApplyDefaultSchedule(dl.cpu.GEMV(), dl.cpu.Reduction(), dl.cpu.Fallback())(mod)
    assert made["main"].attrs["tir.is_scheduled"]
    out = np.empty(expected.shape, "float32")
    mlc.compile(made, target="llvm")(*args, out)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)

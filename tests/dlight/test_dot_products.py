"""Products of bfloat16 in pairs: right for all sizes, and the instruction where the CPU has it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import te
from mlcnb.codegen.interp import run_prim_func
from mlcnb.codegen.llvm.inspect import facts
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.dlight.cpu.dot_products import instruction
from mlcnb.ir.dtype import dtype
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.op.linear_algebra.packed import MatmulPacked
from mlcnb.op.manipulate.layout import LayoutTransform
from mlcnb.op.nn.activation import Relu
from mlcnb.op.nn.conv_packed import Conv2dPacked
from mlcnb.relax.transform.pack_quantized import pack_kernel
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

HOST = Target("llvm")
ZNVER4 = Target({"kind": "llvm", "mcpu": "znver4"})
AVX2 = Target({"kind": "llvm", "mcpu": "x86-64-v3"})
HAS_BF16 = HOST.sums_pairs("bfloat16")
BFLOAT16 = dtype("bfloat16").numpy
NATIVE = [HOST, *([AVX2] if "avx2" in HOST.features else [])]


def values(shape, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(BFLOAT16)


def packed(matrix: np.ndarray, block: int) -> np.ndarray:
    return LayoutTransform("KN", f"NK{block}n2k").numpy(matrix)


def with_relu(op, args):
    """(PrimFunc of the operator and a relu, the expected result in float64)."""
    tensors = [te.placeholder(a.shape, a.dtype.name, f"x{i}") for i, a in enumerate(args)]
    func = te.create_prim_func([*tensors, Relu().compute(op.compute(*tensors))])
    return func, np.maximum(op.numpy(*args), 0)


def check(op, args, targets=None) -> None:
    """The scheduled loops are within the rounding of a float32 sum of the meaning."""
    func, expected = with_relu(op, args)
    for target in targets or NATIVE:
        ex = mlc.compile(func, target=target, schedule="default")
        for threads in (1, 2):
            mlc.set_num_threads(threads)
            found = np.full(expected.shape, 99, expected.dtype)
            ex(*args, found)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-4)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 40), inner=st.integers(1, 40), columns=st.integers(1, 150))
def test_products(rows, inner, columns):
    matrix = values((2 * inner, columns), 1)
    for target in NATIVE:
        weight = packed(matrix, target.lanes("float32") * (4 if rows == 1 else 2))
        args = [values((rows, 2 * inner)), weight]
        check(MatmulPacked(columns, "float32"), args, [target])


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    channels=st.integers(1, 40),
    outer=st.integers(1, 70),
    size=st.tuples(st.integers(3, 17), st.integers(3, 17)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.tuples(*[st.integers(0, 2)] * 4),
)
def test_convolutions(channels, outer, size, kernel, strides, padding):
    for target in NATIVE:
        lanes = target.lanes("float32")
        data = values((1, -(-channels // lanes), *size, lanes))
        weight = pack_kernel(values((outer, channels, *kernel), 1), lanes, lanes, 2)
        check(Conv2dPacked(strides, padding, "float32"), [data, weight], [target])


def test_the_result_is_rounded_once():
    """Summed in float32: a sum of bfloat16 would stay at 256."""
    ones = np.ones((4, 1024), BFLOAT16)
    weight = packed(np.ones((1024, 32), BFLOAT16), 32)
    func, _ = with_relu(MatmulPacked(32), [ones, weight])
    found = np.zeros((4, 32), BFLOAT16)
    mlc.compile(func, target="llvm", schedule="default")(ones, weight, found)
    assert (found == 1024).all()


def kernel_of(op, args, target):
    func, _ = with_relu(op, args)
    (kernel,) = mlc.compile(func, target=target, schedule="default").kernels.values()
    return kernel


def hot_text(kernel) -> str:
    found = max(facts(kernel.compiled).values(), key=lambda f: f.hot.fma if f.hot else 0)
    assert found.hot.spills == 0
    return found.hot_text


@pytest.mark.skipif(not HAS_BF16, reason="the CPU has no AVX-512 BF16")
def test_a_product_is_dot_products_and_loads():
    """14 x 2 sums in registers; the left operand is broadcast as it lies, nothing is converted."""
    args = [values((28, 64)), packed(values((64, 64), 1), 32)]
    text = hot_text(kernel_of(MatmulPacked(64, "float32"), args, HOST))
    assert len(re.findall(r"\bvdpbf16ps\b", text)) == 28
    assert not re.findall(r"\bvcvt|\bvpmov[sz]x|\bvpsll|\bvpsrl", text)


@pytest.mark.skipif(not HAS_BF16, reason="the CPU has no AVX-512 BF16")
def test_a_convolution_is_dot_products_and_loads():
    data = values((1, 4, 14, 14, 16))
    weight = pack_kernel(values((64, 64, 1, 1), 1), 16, 16, 2)
    text = hot_text(kernel_of(Conv2dPacked(out_dtype="float32"), [data, weight], HOST))
    assert len(re.findall(r"\bvdpbf16ps\b", text)) == 28
    assert not re.findall(r"\bvcvt|\bvpmov[sz]x|\bvpsll|\bvpsrl", text)


def test_what_is_scheduled_for_another_cpu_computes_the_same():
    args = [values((9, 12)), packed(values((12, 40), 1), 32)]
    func, expected = with_relu(MatmulPacked(40, "float32"), args)
    sch = schedule_cpu(func, ZNVER4)
    assert "dot_16x2_bf16" in str(sch.trace)
    found = np.zeros(expected.shape, np.float32)
    run_prim_func(sch.mod[sch.func_working_on], [*args, found])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-5)
    again = Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_who_has_the_instruction():
    assert instruction("dot", ZNVER4, "bfloat16") == "dot_16x2_bf16"
    for other in (AVX2, Target("llvm -mcpu=x86-64-v4"), Target("llvm -mcpu=neoverse-n1")):
        assert instruction("dot", other, "bfloat16") is None
    assert instruction("dot", Target("llvm -mcpu=znver4 -mattr=-avx512bf16"), "bfloat16") is None


@pytest.mark.parametrize("shape", [(6, 32), (64, 96), (34, 160)])
def test_a_matrix_is_brought_to_pairs_by_whole_vectors(shape):
    x = values(shape)
    op = LayoutTransform("KN", "NK32n2k")
    tensor = te.placeholder(shape, "bfloat16", "x")
    func = te.create_prim_func([tensor, op.compute(tensor)])
    found = np.zeros(op.numpy(x).shape, BFLOAT16)
    for target in NATIVE:
        ex = mlc.compile(func, target=target, schedule="default")
        ex(x, found)
        np.testing.assert_array_equal(found, op.numpy(x))
        (kernel,) = ex.kernels.values()
        assert not re.findall(r"\bvpgather|\bvpinsrw|\bvpextrw", kernel.asm)

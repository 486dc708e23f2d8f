"""Default schedules of quantised operators: exact at the extremes, in the right instructions.

The reference is the operator's meaning in NumPy, in int32. What another CPU's instructions compute
is asked of the interpreter.
"""

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
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.op.qnn.conv import QuantizedConv2dPacked, QuantizedDepthwiseConv2dPacked
from mlcnb.op.qnn.elementwise import Requantize
from mlcnb.op.qnn.matmul import QuantizedMatmulPacked
from mlcnb.relax.transform.pack_quantized import pack_depthwise, pack_kernel, pack_matrix
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule

HOST = Target("llvm")
AVX2 = Target({"kind": "llvm", "mcpu": "x86-64-v3"})
HAS_AVX2 = "avx2" in HOST.features
HAS_VNNI = "avx512vnni" in HOST.features
NATIVE = [HOST, *([AVX2] if HAS_AVX2 else [])]
#: other CPUs: their instructions are interpreted
ELSEWHERE = [
    Target({"kind": "llvm", "mcpu": "alderlake", "vector-bits": 256}),
    Target({"kind": "llvm", "mcpu": "neoverse-v1"}),
    Target({"kind": "llvm", "mcpu": "neoverse-n1"}),
]
EXTREMES = st.sampled_from(["random", "least", "most"])


def data(shape, how: str, seed: int = 0) -> np.ndarray:
    if how == "random":
        return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    return np.full(shape, 255, np.uint8)


def weights(shape, how: str, seed: int = 1) -> np.ndarray:
    if how == "random":
        return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
    return np.full(shape, -128 if how == "least" else 127, np.int8)


def with_requantize(op, args, scale: float = 0.003):
    """(PrimFunc of the operator scaled back to bytes, all arguments, the expected result)."""
    sums = np.asarray(op.numpy(*args))
    shape = (1, *sums.shape[1:2], 1, 1, *sums.shape[4:]) if sums.ndim == 5 else sums.shape[-1:]
    factors = np.full(shape, scale, np.float32)
    given_all = [*args, factors, np.array(11, np.uint8)]
    tensors = [te.placeholder(a.shape, a.dtype.name, f"x{i}") for i, a in enumerate(given_all)]
    made = Requantize().compute(op.compute(*tensors[: len(args)]), *tensors[-2:])
    expected = Requantize().numpy(sums, *given_all[-2:])
    return te.create_prim_func([*tensors, made]), given_all, expected


def check(op, args, targets=None) -> Schedule:
    """The scheduled loops give the meaning, on every target; the schedule of the last one."""
    func, given_all, expected = with_requantize(op, args)
    for target in targets or NATIVE:
        ex = mlc.compile(func, target=target, schedule="default")
        for threads in (1, 2):
            mlc.set_num_threads(threads)
            found = np.full(expected.shape, 99, np.uint8)
            ex(*given_all, found)
            np.testing.assert_array_equal(found, expected)
    return schedule_cpu(func, (targets or NATIVE)[-1])


def dense(channels, outer, size, kernel, strides, padding, how, block):
    x = data((1, -(-channels // block), *size, block), how)
    w = pack_kernel(weights((outer, channels, *kernel), how), block, block)
    return QuantizedConv2dPacked(strides, padding), [x, w, np.array(7, np.uint8)]


def depthwise(channels, size, kernel, strides, padding, how, block):
    x = data((1, -(-channels // block), *size, block), how)
    w = pack_depthwise(weights((channels, 1, *kernel), how), block)
    op = QuantizedDepthwiseConv2dPacked(kernel[1], strides, padding)
    return op, [x, w, np.array(7, np.uint8)]


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    channels=st.integers(1, 40),
    outer=st.integers(1, 70),
    size=st.tuples(st.integers(3, 17), st.integers(3, 17)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.tuples(*[st.integers(0, 2)] * 4),
    how=EXTREMES,
)
def test_convolutions_are_exact(channels, outer, size, kernel, strides, padding, how):
    for target in NATIVE:
        lanes = target.lanes("int32")
        args = dense(channels, outer, size, kernel, strides, padding, how, lanes)
        check(*args, targets=[target])


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    channels=st.integers(1, 40),
    size=st.tuples(st.integers(5, 17), st.integers(5, 17)),
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    strides=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.tuples(*[st.integers(0, 2)] * 4),
    how=EXTREMES,
)
def test_depthwise_convolutions_are_exact(channels, size, kernel, strides, padding, how):
    for target in NATIVE:
        lanes = target.lanes("int32")
        args = depthwise(channels, size, kernel, strides, padding, how, lanes)
        check(*args, targets=[target])


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(rows=st.integers(1, 20), inner=st.integers(1, 40), columns=st.integers(1, 150), how=EXTREMES)
def test_products_are_exact(rows, inner, columns, how):
    for target in NATIVE:
        matrix = weights((4 * inner, columns), how)
        packed = pack_matrix(matrix, target.lanes("int32") * (4 if rows == 1 else 2))
        check(
            QuantizedMatmulPacked(columns), [data((rows, 4 * inner), how), packed], targets=[target]
        )


@pytest.mark.parametrize("target", ELSEWHERE, ids=str)
@pytest.mark.parametrize("how", ["random", "least"])
def test_instructions_of_other_cpus_are_exact(target, how):
    """Scheduled for another CPU, and interpreted."""
    lanes = target.lanes("int32")
    for op, args in (
        dense(8, lanes * 2, (3, 5), (1, 1), 1, 0, how, lanes),
        depthwise(lanes, (4, 6), (3, 3), 1, 1, how, lanes),
    ):
        func, given_all, expected = with_requantize(op, args)
        scheduled = schedule_cpu(func, target)
        found = np.zeros(expected.shape, np.uint8)
        run_prim_func(scheduled.mod[scheduled.func_working_on], [*given_all, found])
        np.testing.assert_array_equal(found, expected)


def kernel_of(op, args, target):
    func, _, _ = with_requantize(op, args)
    (kernel,) = mlc.compile(func, target=target, schedule="default").kernels.values()
    return kernel


def hot(kernel):
    """The facts of the part that works."""
    return max(facts(kernel.compiled).values(), key=lambda f: f.hot.fma if f.hot else 0)


@pytest.mark.skipif(not HAS_VNNI, reason="the CPU has no AVX-512 VNNI")
def test_a_dense_convolution_is_dot_products_and_loads():
    """14 x 2 sums in registers: 28 products of four a step; no conversion among them."""
    found = hot(kernel_of(*dense(64, 64, (14, 14), (1, 1), 1, 0, "random", 16), HOST))
    text = found.hot_text
    assert len(re.findall(r"\bvpdpbusd\b", text)) == 28
    assert found.hot.spills == 0
    assert not re.findall(r"\bvcvt|\bvpmov[sz]x", text)
    assert len(re.findall(r"\bvpbroadcastd\b", text)) == 14


@pytest.mark.skipif(not HAS_VNNI, reason="the CPU has no AVX-512 VNNI")
def test_a_depthwise_convolution_is_a_permutation_and_a_dot_product_a_row():
    found = hot(kernel_of(*depthwise(32, (28, 28), (3, 3), 1, 1, "random", 16), HOST))
    assert len(re.findall(r"\bvpdpbusd\b", found.hot_text)) == 14 * 3
    assert len(re.findall(r"\bvpermb\b", found.hot_text)) == 14 * 3
    assert found.hot.spills == 0


@pytest.mark.skipif(not HAS_AVX2, reason="the CPU has no AVX2")
def test_without_vnni_nothing_saturates():
    """vpmaddwd on 16 bits; never vpmaddubsw, whose pairs are cut to 16 bits."""
    kernel = kernel_of(*dense(32, 32, (8, 8), (1, 1), 1, 0, "least", 8), AVX2)
    assert "vpmaddwd" in kernel.asm
    assert "vpmaddubsw" not in kernel.asm
    assert "zmm" not in kernel.asm


def test_on_arm_with_the_matrix_extension_it_is_usdot():
    target = ELSEWHERE[1]
    kernel = kernel_of(*dense(16, 16, (8, 8), (1, 1), 1, 0, "random", 4), target)
    assert len(re.findall(r"\busdot\b", kernel.asm)) >= 8
    kernel = kernel_of(*depthwise(8, (8, 8), (3, 3), 1, 1, "random", 4), target)
    assert len(re.findall(r"\busdot\b", kernel.asm)) >= 8


def test_on_arm_with_dot_products_it_is_sdot():
    """One for each sum and step, two for the weights of a step."""
    target = ELSEWHERE[2]
    assert instruction("dot", target) == "dot_4x4_shifted_sdot"
    kernel = kernel_of(*dense(16, 16, (8, 8), (1, 1), 1, 0, "random", 4), target)
    found = hot(kernel)
    sums = len(re.findall(r"\bsdot\b", found.hot_text))
    assert sums >= 8
    kernel = kernel_of(*depthwise(8, (8, 8), (3, 3), 1, 1, "random", 4), target)
    assert len(re.findall(r"\bsdot\b", kernel.asm)) >= 8


def test_with_avx_vnni_it_is_vpdpbusd_on_256_bits():
    kernel = kernel_of(*dense(32, 32, (8, 8), (1, 1), 1, 0, "random", 8), ELSEWHERE[0])
    assert len(re.findall(r"\bvpdpbusd\b", kernel.asm)) >= 8
    assert "zmm" not in kernel.asm
    assert "vpmaddubsw" not in kernel.asm


def test_the_trace_replays():
    func, _, _ = with_requantize(
        *dense(32, 32, (8, 8), (3, 3), 1, 1, "random", HOST.lanes("int32"))
    )
    sch = schedule_cpu(func, HOST)
    again = Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)

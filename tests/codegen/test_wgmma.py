"""Products of warpgroups: descriptors followed byte by byte, in simulations and in CUDA C++."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import CodegenError, PassError, UnsupportedOpError
from mlcnb.ir.dtype import dtype as dtypes
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.script import from_source
from mlcnb.script import tir as T
from mlcnb.target import Target

SIM = Target("cuda-sim -arch=sm_90a")
GPU = Target("cuda -arch=sm_90a")


def layout(length: int, depth: int, along_k: bool, swizzle: int):
    """A tile as it lies in shared memory, made of panels of rows that are `swizzle` bytes long.

    Returns:
        index[side, k]: which 16-bit element; and leading, stride and step in bytes.
    """
    row, index = swizzle // 2, np.empty((length, depth), int)
    for side in range(length):
        for k in range(depth):
            across, line, count = (k, side, length) if along_k else (side, k, depth)
            address = ((across // row) * count + line) * swizzle + across % row * 2
            bits = {128: 7, 64: 3, 32: 1}[swizzle]
            index[side, k] = (address ^ ((address >> 7 & bits) << 4)) // 2
    if along_k:
        assert depth <= row
        return index, (16, 8 * swizzle, 32)
    return index, (depth * swizzle, 8 * swizzle, 16 * swizzle)


def program(columns, count, a_along_k, b_along_k, swizzle, kind, changed=None, scope="shared.dyn"):
    """Copies tiles as they lie into shared memory, multiplies, and stores by the layout of sums."""
    depth = 16 * count
    a_index, a_steps = layout(64, depth, a_along_k, swizzle)
    b_index, b_steps = layout(columns, depth, b_along_k, swizzle)
    a_size, b_size = (-(-int(x.max() + 1) // 512) * 512 for x in (a_index, b_index))
    if changed is not None:
        b_steps = changed(b_steps)
    own, shape = columns // 2, f"m64n{columns}k16"
    majors = "k" if a_along_k else "m", "k" if b_along_k else "n"

    @T.prim_func
    def main(
        a: T.Buffer((a_size,), kind), b: T.Buffer((b_size,), kind),
        c: T.Buffer((64, columns), "float32"),
    ):  # fmt: skip
        for w in T.thread_binding(4, thread="threadIdx.y"):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                with T.block("product"):
                    T.reads(a[0:a_size], b[0:b_size])
                    T.writes(c[0:64, 0:columns])
                    A = T.alloc_buffer((a_size,), kind, scope=scope)
                    B = T.alloc_buffer((b_size,), kind, scope=scope)
                    C = T.alloc_buffer((32, own), "float32", scope="warp")
                    for x in T.serial(a_size // 128):
                        A[x * 128 + w * 32 + t] = a[x * 128 + w * 32 + t]
                    for x in T.serial(b_size // 128):
                        B[x * 128 + w * 32 + t] = b[x * 128 + w * 32 + t]
                    for x in T.serial(own):
                        C[t, x] = T.float32(1)
                    T.tvm_storage_sync("shared")
                    T.evaluate(
                        T.ptx_wgmma(kind, shape, *majors, count, C.data, t * own,
                                    A.data, 0, *a_steps, B.data, 0, *b_steps, swizzle)
                    )  # fmt: skip
                    for x in T.serial(own):
                        c[w * 16 + t // 4 + x // 2 % 2 * 8, x // 4 * 8 + t % 4 * 2 + x % 2] = C[
                            t, x
                        ]

    rng = np.random.default_rng(columns + count)
    x, y = (rng.standard_normal((n, depth)).astype(dtypes(kind).numpy) for n in (64, columns))
    given = [np.zeros(n, x.dtype) for n in (a_size, b_size)]
    for memory, values, index in ((given[0], x, a_index), (given[1], y, b_index)):
        memory[index] = values
    expected = 1 + x.astype("float64") @ y.astype("float64").T
    return main, given, expected


def ran(func, given, expected, how):
    out = np.full(expected.shape, np.nan, "float32")
    if how == "interp":
        run_prim_func(func, [*given, out])
    else:
        mlc.compile(func, target=SIM)(*given, out)
    return out


CASES = [
    (8, 1, True, True, 32, "float16"),
    (128, 4, True, True, 128, "float16"),
    (128, 4, True, False, 128, "bfloat16"),
    (64, 4, False, False, 128, "float16"),
    (256, 4, False, True, 128, "bfloat16"),
    (24, 2, True, True, 64, "float16"),
    (96, 3, False, False, 64, "float16"),
    (40, 2, False, False, 32, "bfloat16"),
]


@pytest.mark.parametrize("case", CASES)
def test_descriptors_find_what_lies_there(case):
    func, given, expected = program(*case)
    found = ran(func, given, expected, "sim")
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_the_interpreter_does_the_same():
    func, given, expected = program(*CASES[0])
    np.testing.assert_allclose(ran(func, given, expected, "interp"), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("wrong", [(0, 2), (1, 2), (2, 2)])
def test_a_wrong_descriptor_gives_a_wrong_number(wrong):
    at, factor = wrong
    double = lambda steps: tuple(x // factor if n == at else x for n, x in enumerate(steps))
    func, given, expected = program(128, 2, True, False, 128, "float16", double)
    assert not np.allclose(ran(func, given, expected, "sim"), expected, rtol=1e-2, atol=1e-2)


def changed(case, before: str, after: str):
    """The program with one piece of its text as another."""
    text = program(*case)[0].script()
    assert before in text
    return from_source(text.replace(before, after, 1))


CALL = 'T.ptx_wgmma("float16", "m64n16k16", "k", "k", 1, C.data, t * 8, A.data, 0, 16, 1024, 32, '
SMALL = (16, 1, True, True, 128, "float16")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("B.data, 0, 16, 1024", "B.data, 0, 16, 65536",
         "ptx_wgmma reads 66,560 bytes of B from element 0 on, and there are 2,048"),
        ("B.data, 0, 16", "B.data, 64, 16",
         "ptx_wgmma reads 2,048 bytes of B from element 64 on, and there are 2,048"),
        (CALL + "B.data, 0,", CALL.replace("m64n16", "m64n8") + "B.data, w * 8,",
         "ptx_wgmma reads B from element w * 8 on, which may be no multiple of 1024 bytes"),
        (CALL, f"if t < 16: {CALL}",
         "ptx_wgmma stands under a condition, or in a loop, that differs by thread"),
    ],
)  # fmt: skip
def test_programs_that_no_gpu_runs(before, after, message):
    func = changed(SMALL, before, after)
    for target in (SIM, GPU):
        with pytest.raises(PassError, match=re.escape(message)):
            _ = mlc.compile(func, target=target).kernels[0].source


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("m64n16k16", "m64n20k16", "ptx_wgmma has no shape m64n20k16"),
        ("m64n16k16", "m64n264k16", "ptx_wgmma has no shape m64n264k16"),
        ("m64n16k16", "m16n8k16", "ptx_wgmma has no shape m16n8k16"),
        ('"k", "k", 1', '"k", "row", 1', "ptx_wgmma has no operands along k and row"),
        ('"k", "k", 1', '"k", "k", 0', "ptx_wgmma has no 0 products"),
        ("1024, 32, 128)", "1024, 32, 256)", "ptx_wgmma has no rows of 256 bytes"),
        ("A.data, 0, 16, 1024", "A.data, 0, 16, 1000", "ptx_wgmma has no distances of"),
        ('ptx_wgmma("float16"', 'ptx_wgmma("float32"', "ptx_wgmma has no operands of float32"),
    ],
)
def test_calls_that_no_instruction_is(before, after, message):
    with pytest.raises(UnsupportedOpError, match=message) as error:
        mlc.compile(changed(SMALL, before, after), target=SIM)
    assert error.value.hint


def test_memory_and_threads_that_do_not_fit():
    static = program(*SMALL, scope="shared")[0]
    with pytest.raises(CodegenError, match="does not begin at a multiple of 1024 bytes"):
        _ = mlc.compile(static, target=SIM).kernels[0].source
    two = changed(SMALL, 'T.thread_binding(4, thread="threadIdx.y")',
                  'T.thread_binding(2, thread="threadIdx.y")')  # fmt: skip
    for target in (SIM, "cuda -arch=sm_90a"):
        with pytest.raises(PassError, match="warpgroups of 128 threads, and a block has 64"):
            mlc.compile(two, target=target)


def test_text_comes_back():
    func, _, _ = program(*CASES[2])
    assert 'T.ptx_wgmma("bfloat16", "m64n128k16", "k", "n", 4, ' in func.script()
    assert_structural_equal(from_source(func.script()), func)


@pytest.mark.parametrize("case", CASES)
def test_code_for_sm_90a(case):
    """NVRTC takes it; sums stay in registers, and the instruction is what was asked for."""
    func, _, _ = program(*case)
    kernel = mlc.compile(func, target=SIM).kernels[0]
    columns, count, a_along_k, b_along_k, _, kind = case
    short = {"float16": "f16", "bfloat16": "bf16"}[kind]
    ptx = kernel.cuda.ptx
    name = f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{short}.{short}"
    assert ptx.count(name) == count
    turned = f"{int(not a_along_k)}, {int(not b_along_k)}"
    assert len(re.findall(rf"add, 1, 1, {turned};", ptx)) == count
    for word in ("wgmma.fence", "wgmma.commit_group", "wgmma.wait_group", "fence.proxy.async"):
        assert word in ptx

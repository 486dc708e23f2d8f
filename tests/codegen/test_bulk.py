"""Barriers with phases and copies in bulk: in text, in both simulations, and in CUDA C++."""

from __future__ import annotations

import ctypes
import re
from types import SimpleNamespace

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.codegen.cuda import gpu
from mlcnb.codegen.cuda.gpu import encoded
from mlcnb.codegen.cuda_sim.threads import threads_to_loops
from mlcnb.codegen.interp import run_prim_func
from mlcnb.codegen.interp.launching import TO_THREADS
from mlcnb.codegen.races import races
from mlcnb.core.errors import (
    BarrierError,
    CodegenError,
    DataRaceError,
    DeviceError,
    ExecutionError,
    PassError,
    UnsupportedOpError,
)
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.script import from_source
from mlcnb.script import tir as T
from mlcnb.target import Target
from mlcnb.tir.analysis.bulk import Matrix
from mlcnb.tir.transform.flatten_buffer import flattened_function
from mlcnb.tir.transform.lower import lower
from mlcnb.tir.transform.lower_opaque_block import lower_opaque_block

SIM = Target("cuda-sim -arch=sm_90a")


def boxes(kind, swizzle, columns, size=(20, 96)):
    """Boxes of 8 rows of a matrix, of which two lie partly outside, one after the other as they lie
    in shared memory.
    """
    height, width = size
    count = 8 * columns

    @T.prim_func
    def main(A: T.Buffer((height, width), kind), B: T.Buffer((3 * count,), kind)):
        for bx in T.thread_binding(3, thread="blockIdx.x"):
            for tx in T.thread_binding(64, thread="threadIdx.x"):
                with T.block("copied"):
                    T.reads(A[0:height, 0:width])
                    T.writes(B[0 : 3 * count])
                    S = T.alloc_buffer((count,), kind, scope="shared.dyn")
                    T.create_barriers(1)
                    if tx == 0:
                        T.ptx_init_barrier_thread_count(0, 1)
                    T.tvm_storage_sync("shared")
                    if tx == 0:
                        T.ptx_arrive_barrier_expect_tx(0, count * A.dtype.nbytes)
                        T.evaluate(
                            T.ptx_cp_async_bulk_tensor(
                                kind, S.data, 0, A.data, height, width,
                                bx * 8 - 1, 96 - columns // 2, 8, columns, swizzle, 0,
                            )
                        )  # fmt: skip
                    T.ptx_wait_barrier(0, 0)
                    T.tvm_storage_sync("shared")
                    for x in T.serial(count // 64):
                        B[bx * count + x * 64 + tx] = S[x * 64 + tx]

    a = np.random.default_rng(columns).integers(-100, 100, size).astype(kind)
    expected = np.zeros(3 * count, kind)
    for bx in range(3):
        for i in range(8):
            for j in range(columns):
                row, column = bx * 8 - 1 + i, 96 - columns // 2 + j
                byte = (i * columns + j) * a.itemsize
                bits = {0: 0, 128: 7, 64: 3, 32: 1}[swizzle]
                byte ^= (byte >> 7 & bits) << 4
                if 0 <= row < height and column < width:
                    expected[bx * count + byte // a.itemsize] = a[row, column]
    return main, a, expected


CASES = [("float16", 128, 64), ("float16", 64, 32), ("float16", 32, 16), ("float32", 128, 32),
         ("int8", 64, 64), ("float32", 0, 8), ("int32", 0, 64)]  # fmt: skip


@pytest.mark.parametrize("how", ["interp", "sim"])
@pytest.mark.parametrize("case", CASES)
def test_boxes_arrive_shuffled_and_zeros_outside(case, how):
    func, a, expected = boxes(*case)
    out = np.full_like(expected, 1)
    if how == "interp":
        run_prim_func(func, [a, out])
    else:
        mlc.compile(func, target=SIM)(a, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("case", CASES)
def test_code_of_boxes(case):
    func, _, _ = boxes(*case)
    kernel = mlc.compile(func, target="cuda -arch=sm_90a").kernels[0]
    ((_, source),) = kernel.sources.items()
    assert source.maps == ((0, Matrix(case[0], 20, 96, 8, case[2], case[1])),)
    assert "const __grid_constant__ tensor_map A_map)" in source.text
    assert "cp.async.bulk.tensor.2d" in kernel.ptx and "mbarrier.try_wait.parity" in kernel.ptx
    assert next(iter(kernel.resources.values())).spill_stores == 0


def ring(wait="T.ptx_wait_barrier(x % 2, x // 2 % 2)", free="T.ptx_arrive_barrier(x % 2 + 2)",
         reuse="T.ptx_wait_barrier(x % 2 + 2, x // 2 % 2)", count=64):  # fmt: skip
    """Rows of 16 floats through two places in shared memory, given back by barriers."""
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer((128,), "float32"), B: T.Buffer((8, 64), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        with T.block("ring"):
            T.reads(A[0:128])
            T.writes(B[0:8, 0:64])
            S = T.alloc_buffer((32,), "float32", scope="shared")
            T.create_barriers(4)
            if tx == 0:
                for s in range(2):
                    T.ptx_init_barrier_thread_count(s, 1)
                    T.ptx_init_barrier_thread_count(s + 2, {count})
            T.tvm_storage_sync("shared")
            if tx == 0:
                for s in range(2):
                    T.ptx_arrive_barrier_expect_tx(s, 64)
                    T.ptx_cp_async_bulk("float32", S.data, s * 16, A.data, s * 16, 64, s)
            for x in range(8):
                {wait}
                B[x, tx] = S[x % 2 * 16 + tx % 16]
                {free}
                if x < 6:
                    if tx == 0:
                        {reuse}
                        T.ptx_arrive_barrier_expect_tx(x % 2, 64)
                        T.ptx_cp_async_bulk(
                            "float32", S.data, x % 2 * 16, A.data, x * 16 + 32, 64, x % 2)
""")


def test_places_are_given_back_by_barriers():
    """Who waits for a phase knows what those that arrived in it have done: no other barrier."""
    a, out = np.arange(128, dtype="float32"), np.zeros((8, 64), "float32")
    expected = np.tile(a.reshape(8, 16), (1, 4))
    run_prim_func(ring(), [a, out])
    np.testing.assert_array_equal(out, expected)
    out[:] = 0
    mlc.compile(ring(), target=SIM)(a, out)
    np.testing.assert_array_equal(out, expected)


def test_places_given_back_by_barriers_need_no_other():
    assert lower(ring()).script().count("tvm_storage_sync") == 1
    assert races(ring()) == ()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"wait": "T.ptx_wait_barrier(x % 2, (x // 2 + 1) % 2)"}, "threads may wait for good"),
        ({"wait": "T.evaluate(0)"}, "phase 1 of barrier 2 may come before it begins"),
        ({"free": "T.evaluate(0)"}, "threads may wait for good"),
        ({"reuse": "T.evaluate(0)"}, "threads may wait for good"),
        ({"count": 63}, "more than 63 threads arrive in phase 0 of barrier 2"),
        ({"count": 65}, "threads may wait for good"),
        ({"wait": "T.ptx_wait_barrier(x % 2, x // 2 % 2)\n                S[x % 2 * 16] = 1.0"},
         "threads write there too"),
        ({"wait": "if B[0, 0] < 1.0:\n                    T.ptx_wait_barrier(x % 2, x // 2 % 2)"},
         "a condition around barriers is not known"),
        ({"wait": "T.ptx_wait_barrier(x % 2, x // 2 * tx % 2)"}, "a parity differs by thread"),
        ({"wait": "T.ptx_wait_barrier(x % 2, x // 2 % 2)\n                if tx < 32:\n"
          "                    T.tvm_storage_sync('shared')"},
         "a barrier of the block that not all threads come by"),
    ],
)  # fmt: skip
def test_a_ring_that_is_not_proved_is_refused(changed, told):
    """A barrier of the block would not help: copies go on while threads stand there."""
    for ask in (lower, races):
        with pytest.raises(PassError, match="not proved to be ordered by their barriers") as found:
            ask(ring(**changed))
        assert told in str(found.value)


def test_what_a_thread_itself_has_read_a_copy_knows_by_a_barrier_only():
    """One thread; its copy goes another way to memory than its reads."""

    def twice(between):
        return from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((2,), "float32")):
    for tx in T.thread_binding(1, thread="threadIdx.x"):
        with T.block("twice"):
            T.reads(A[0:8])
            T.writes(B[0:2])
            S = T.alloc_buffer((4,), "float32", scope="shared")
            T.create_barriers(1)
            T.ptx_init_barrier_thread_count(0, 1)
            T.tvm_storage_sync("shared")
            for x in range(2):
                T.ptx_arrive_barrier_expect_tx(0, 16)
                T.ptx_cp_async_bulk("float32", S.data, 0, A.data, x * 4, 16, 0)
                T.ptx_wait_barrier(0, x % 2)
                B[x] = S[tx]
                {between}
""")

    with pytest.raises(PassError, match="a copy may overwrite what is read in S"):
        lower(twice("T.evaluate(0)"))
    a, out = np.arange(8, dtype="float32"), np.zeros(2, "float32")
    mlc.compile(twice('T.tvm_storage_sync("shared")'), target=SIM)(a, out)
    assert out.tolist() == [0, 4]


def looped(func):
    """What simulates a program, of which nothing is asked before."""
    for transform in (*TO_THREADS, lower_opaque_block, flattened_function):
        func = transform(func)
    return mlc.compile(threads_to_loops(func), target="llvm")


@pytest.mark.parametrize(
    ("changed", "error", "told"),
    [
        ({"wait": "T.ptx_wait_barrier(x % 2, (x // 2 + 1) % 2)"}, DataRaceError, "S[0] in shared"),
        ({"wait": "T.ptx_wait_barrier((x + 1) % 2, x // 2 % 2)"}, DataRaceError, "S[0] in shared"),
        ({"reuse": "T.evaluate(0)"}, DataRaceError, "in shared memory"),
        ({"reuse": "T.ptx_wait_barrier(x % 2 + 2, (x // 2 + 1) % 2)"}, DataRaceError, "S["),
        ({"free": "T.evaluate(0)"}, BarrierError, "hang: thread (threadIdx.x = 0) waits for the"),
        ({"count": 63}, DataRaceError, "thread (threadIdx.x = 63) reads it"),
    ],
)
def test_what_the_interpreter_finds(changed, error, told):
    a, out = np.zeros(128, "float32"), np.zeros((8, 64), "float32")
    with pytest.raises(ExecutionError, match=re.escape(told)) as found:
        run_prim_func(ring(**changed), [a, out])
    assert isinstance(found.value, error)


SMALL = ("float16", 128, 64)


@pytest.mark.parametrize(
    ("before", "after", "interp", "sim"),
    [
        ("wait_barrier(0, 0)", "wait_barrier(0, 1)", "data race on S[0] in shared.dyn memory",
         "waits for a phase that is over while bytes of the next one come"),
        ("expect_tx(0, 1024)", "expect_tx(0, 2048)", "hang: ", "hang: the phase never ends"),
        ("T.ptx_arrive_barrier_expect_tx(0, 1024)", "T.ptx_arrive_barrier(0)",
         "in whose phase 1 0 announced bytes are left",
         "a copy brings bytes that were not announced"),
        ("T.ptx_wait_barrier(0, 0)", "T.evaluate(0)", "data race on S[0] in shared.dyn memory",
         "a copy in bulk is still on its way when its block ends"),
        ("thread_count(0, 1)", "thread_count(0, 2)", "1 of 2 threads have not arrived",
         "hang: the phase never ends"),
        ("T.ptx_init_barrier_thread_count(0, 1)", "T.evaluate(0)",
         "uses barrier 0, but nobody has said", "used before T.ptx_init_barrier_thread_count"),
    ],
)  # fmt: skip
def test_programs_that_hang_or_race(before, after, interp, sim):
    func, a, expected = boxes(*SMALL)
    text = func.script()
    assert text.count(before) == 1
    changed = from_source(text.replace(before, after))
    with pytest.raises(ExecutionError, match=re.escape(interp)):
        run_prim_func(changed, [a, np.zeros_like(expected)])
    with pytest.raises(ExecutionError, match=re.escape(sim)):
        looped(changed)(a, np.zeros_like(expected))
    with pytest.raises(PassError, match="copies in bulk are not proved to be ordered"):
        mlc.compile(changed, target=SIM)


@pytest.mark.parametrize(
    ("before", "after", "error", "told"),
    [
        ("20, 96,", "20, 90,", UnsupportedOpError, "no matrix with rows of 180 bytes"),
        ("20, 96,", "21, 96,", PassError, "a matrix of 21 x 96, and A has 1,920 elements"),
        (" 8, 64, 128, 0)", " 300, 64, 128, 0)", UnsupportedOpError, "no box of 300 x 64"),
        (" 8, 64, 128, 0)", " 8, 60, 0, 0)", UnsupportedOpError, "no box with rows of 120 bytes"),
        (" 8, 64, 128, 0)", " 8, 64, 64, 0)", UnsupportedOpError,
         "no box with rows of 128 bytes and a swizzle of 64"),
        (" 8, 64, 128, 0)", " 8, 64, 16, 0)", UnsupportedOpError, "no swizzle of 16 bytes"),
        ([(" 8, 64, 128, 0)", " 16, 64, 128, 0)"), ("tx(0, 1024)", "tx(0, 2048)")], "", PassError,
         "writes 2,048 bytes of S from element 0 on, and there are 1,280"),
        ("S.data, 0,", "S.data, bx * 8,", PassError, "begins in S at element bx * 8"),
        ("S.data, 0,", "S.data, 64 - 64 * bx,", PassError, "writes 1,024 bytes of S"),
        ("T.create_barriers(1)", "T.evaluate(0)", PassError, "has 0 T.create_barriers"),
        ([("wait_barrier(0, 0)", "wait_barrier(1, 0)"), ("expect_tx(0,", "expect_tx(1,"),
          ("128, 0)", "128, 1)"), ("thread_count(0,", "thread_count(1,")], "", PassError,
         "barrier 1, and there are 1"),
        ("thread_count(0, 1)", "thread_count(0, 0)", PassError, "more than 0 threads arrive"),
        ('scope="shared.dyn"', 'scope="shared"', CodegenError,
         "does not begin at a multiple of 1024 bytes"),
    ],
)  # fmt: skip
def test_programs_that_no_gpu_runs(before, after, error, told):
    text = boxes(*SMALL)[0].script().replace("alloc_buffer((512,)", "alloc_buffer((640,)")
    for old, new in before if isinstance(before, list) else [(before, after)]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    with pytest.raises(error, match=re.escape(told)) as found:
        _ = mlc.compile(from_source(text), target=SIM).kernels[0].source
    assert found.value.hint


def test_older_gpus_are_refused():
    for arch in ("sm_80", "sm_89"):
        with pytest.raises(PassError, match=f"an instruction since sm_90, the GPU is {arch}"):
            mlc.compile(boxes(*SMALL)[0], target=f"cuda -arch={arch}")


def test_text_comes_back():
    for func in (boxes(*SMALL)[0], ring()):
        assert_structural_equal(from_source(func.script()), func)


def test_tensor_maps_are_encoded_by_the_driver():
    """The driver is asked for sizes and strides in its order, the row first."""
    asked = []

    def encode(place, kind, rank, address, sizes, strides, box, steps, *words):
        numbers = [list(x) for x in (sizes, strides, box, steps)]
        asked.append((place.value % 64, kind, rank.value, address.value, *numbers, *words))
        ctypes.memmove(place.value, bytes(range(128)), 128)
        return 0

    made = encoded(1 << 40, Matrix("bfloat16", 20, 96, 8, 64, 128), encode)
    assert asked == [(0, 9, 2, 1 << 40, [96, 20], [192], [64, 8], [1, 1], 0, 3, 2, 0)]
    assert made.tobytes() == bytes(range(128)) and made.size == 1
    with pytest.raises(DeviceError, match="multiple of 16 bytes"):
        encoded(8, Matrix("float16", 20, 96, 8, 64, 128), encode)
    with pytest.raises(DeviceError, match="error 1"):
        encoded(1 << 40, Matrix("float16", 20, 96, 8, 64, 128), lambda *_: 1)


def test_an_artifact_keeps_which_maps_it_needs(tmp_path):
    ex = mlc.compile(boxes(*SMALL)[0], target="cuda -arch=sm_90a")
    ex.export_library(tmp_path / "boxes.tar")
    back = mlc.runtime.load_module(tmp_path / "boxes.tar").kernels[0]
    assert back.is_saved
    assert [x.maps for x in back.sources.values()] == [
        ((0, Matrix("float16", 20, 96, 8, 64, 128)),)
    ]


def test_maps_are_encoded_once_for_each_address(monkeypatch):
    """A launch gets them behind its arguments."""
    asked = []
    monkeypatch.setattr(gpu, "encoded", lambda *key: asked.append(key) or len(asked))
    matrix = Matrix("float16", 20, 96, 8, 64, 128)
    cupy = SimpleNamespace(RawModule=lambda path: None)
    module = gpu._Module(cupy, b"", "cubin", {"main_kernel": ((1, matrix),)})
    places = [SimpleNamespace(data=SimpleNamespace(ptr=n << 20)) for n in (1, 2, 3)]
    assert module.tensor_maps("main_kernel", places) == [1]
    assert module.tensor_maps("main_kernel", places) == [1]
    assert module.tensor_maps("main_kernel", [places[0], places[2]]) == [2]
    assert module.tensor_maps("other", places) == []
    assert asked == [(2 << 20, matrix), (3 << 20, matrix)]

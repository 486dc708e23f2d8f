"""The simulated GPU: results in any order of threads, races, barriers, memory that begins empty."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import BarrierError, DataRaceError, ExecutionError, PassError
from mlcnb.script import parse
from mlcnb.tir.transform import lower
from tests.codegen.gpu_programs import PROGRAMS, Program

SYNC = 'T.tvm_storage_sync("shared")'


@pytest.fixture(scope="module", params=sorted(PROGRAMS))
def program(request) -> Program:
    return PROGRAMS[request.param]()


def agrees(program: Program, func, **how) -> None:
    args = program.arguments()
    run_prim_func(func, args, **how)
    np.testing.assert_allclose(args[-1], program.expected, rtol=1e-5, atol=1e-6)


def run(text: str, *args, **how):
    return run_prim_func(parse(dedent(text)), list(args), **how)


# whole programs ----------------------------------------------------------------------------------


def test_loops_of_a_program_in_block_form(program):
    agrees(program, program.before)
    agrees(program, program.func)


@pytest.mark.parametrize("order", [None, 1, 2])
def test_threads_of_a_program_in_block_form(program, order):
    agrees(program, program.func, simulate=True, order=order)


@pytest.mark.slow
def test_every_step_of_lowering(program):
    for _, func, _ in lower(program.func, steps=True):
        agrees(program, func, order=3)


def test_order_is_that_of_the_seed():
    """Each block and thread does its work once, and another seed means another order."""
    func = PROGRAMS["vector_add"]().func

    def places(order):
        record = []
        args = PROGRAMS["vector_add"]().arguments()
        run_prim_func(func, args, record, simulate=True, order=order)
        return [at for name, at, what, _ in record if (name, what) == ("C", "w")]

    assert places(None) == list(range(50))
    assert places(5) == places(5) != places(6)
    assert sorted(places(5)) == list(range(50))


# data races --------------------------------------------------------------------------------------

REVERSE = """
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        tx = T.launch_thread("threadIdx.x", 8)
        S = T.allocate([8], "float32", "shared")
        S_1 = T.decl_buffer((8,), data=S, scope="shared")
        S_1[tx] = A[tx]
        {sync}
        B[tx] = S_1[7 - tx]
"""


def arrays(*sizes):
    return [np.arange(n, dtype="float32") for n in sizes]


def test_a_missing_barrier_is_a_race():
    a, b = arrays(8, 8)
    run(REVERSE.format(sync=SYNC), a, b)
    np.testing.assert_array_equal(b, a[::-1])
    for order in (None, 1, 2, 3):
        with pytest.raises(DataRaceError, match="data race on S_1"):
            run(REVERSE.format(sync="T.evaluate(0)"), a, b, order=order)
    with pytest.raises(DataRaceError) as caught:
        run(REVERSE.format(sync="T.evaluate(0)"), a, b)
    assert caught.value.message == (
        "data race on S_1[4] in shared memory: nothing orders these two accesses\n"
        "  thread (threadIdx.x = 3) reads it: B[tx] = S_1[7 - tx]\n"
        "  thread (threadIdx.x = 4) writes it: S_1[tx] = A[tx]"
    )
    assert caught.value.hint == (
        'put T.tvm_storage_sync("shared") between the two (ThreadSync does), '
        "or bind another loop to the threads"
    )
    assert (caught.value.buffer, caught.value.index) == ("S_1", (4,))
    assert caught.value.threads == ({"threadIdx.x": 3}, {"threadIdx.x": 4})
    assert [verb for verb, _ in caught.value.accesses] == ["read", "write"]
    assert "^^^^" in caught.value.excerpt() and "S_1[tx] = A[tx]" in caught.value.excerpt()


def test_reading_what_another_thread_wrote_since_the_barrier():
    text = """
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        bx = T.launch_thread("blockIdx.x", 2)
        ty = T.launch_thread("threadIdx.y", 2)
        tx = T.launch_thread("threadIdx.x", 2)
        S = T.allocate([4], "float32", "shared")
        S_1 = T.decl_buffer((2, 2), data=S, scope="shared")
        S_1[ty, tx] = A[bx * 4 + ty * 2 + tx]
        B[bx * 4 + ty * 2 + tx] = S_1[0, 0]
    """
    with pytest.raises(DataRaceError) as caught:
        run(text, *arrays(8, 8))
    assert caught.value.message == (
        "data race on S_1[0, 0] in shared memory: nothing orders these two accesses\n"
        "  thread (blockIdx.x = 0, threadIdx.x = 0, threadIdx.y = 0) writes it: "
        "S_1[ty, tx] = A[bx * 4 + ty * 2 + tx]\n"
        "  thread (blockIdx.x = 0, threadIdx.x = 1, threadIdx.y = 0) reads it: "
        "B[bx * 4 + ty * 2 + tx] = S_1[0, 0]"
    )


def test_writing_what_another_thread_read_in_the_iteration_before():
    text = """
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        tx = T.launch_thread("threadIdx.x", 8)
        S = T.allocate([8], "float32", "shared")
        S_1 = T.decl_buffer((8,), data=S, scope="shared")
        for k in range(2):
            S_1[tx] = A[tx]
            T.tvm_storage_sync("shared")
            B[tx] = S_1[7 - tx]
    """
    with pytest.raises(DataRaceError, match=r"x = 4\) reads it: B\[tx\] = S_1\[7 - tx\]"):
        run(text.replace("A[tx]\n", 'A[tx] + T.Cast("float32", k)\n'), *arrays(8, 8))


def test_blocks_never_wait_for_each_other():
    text = """
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        bx = T.launch_thread("blockIdx.x", 4)
        B[0] = B[0] + A[bx]
    """
    with pytest.raises(DataRaceError) as caught:
        run(text, *arrays(4, 4))
    assert caught.value.message == (
        "data race on B[0] in global memory: nothing orders these two accesses\n"
        "  thread (blockIdx.x = 0) writes it: B[0] = B[0] + A[bx]\n"
        "  thread (blockIdx.x = 1) reads it: B[0] = B[0] + A[bx]"
    )
    assert caught.value.hint == (
        "blocks of one kernel cannot wait for each other: give each block elements of its own, or "
        "make it two kernels"
    )


def test_two_kernels_are_ordered():
    text = """
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in T.thread_binding(4, thread="blockIdx.x"):
            B[i] = A[i]
        for j in T.thread_binding(4, thread="threadIdx.x"):
            A[j] = B[3 - j]
    """
    a, b = arrays(4, 4)
    run(text, a, b, order=1)
    np.testing.assert_array_equal(a, [3, 2, 1, 0])


def test_a_barrier_of_one_block_orders_its_global_memory():
    text = """
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        tx = T.launch_thread("threadIdx.x", 4)
        B[tx] = A[tx] * T.float32(2)
        {sync}
        A[tx] = B[3 - tx]
    """
    a, b = arrays(4, 4)
    run(text.format(sync=SYNC), a, b, order=2)
    np.testing.assert_array_equal(a, [6, 4, 2, 0])
    with pytest.raises(DataRaceError) as caught:
        run(text.format(sync="T.evaluate(0)"), *arrays(4, 4))
    assert caught.value.hint.startswith("ThreadSync orders accesses to shared memory only")


def test_threads_that_store_the_same_value_do_not_race():
    text = """
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        tx = T.launch_thread("threadIdx.x", 4)
        B[0] = A[{index}]
    """
    a, b = arrays(4, 4)
    run(text.format(index="2"), a, b)
    assert b[0] == 2
    with pytest.raises(DataRaceError, match="threadIdx.x = 1. writes it"):
        run(text.format(index="tx"), a, b)


def test_a_buffer_that_threads_share_but_hold_by_themselves():
    """In block form the loops are right; on threads, each has local memory of its own."""
    program = PROGRAMS["transpose"]()
    sch = program.schedule.copy()
    sch.set_scope("A_shared", 0, "local")
    agrees(program, sch.mod["main"])
    with pytest.raises(PassError) as caught:
        agrees(program, sch.mod["main"], simulate=True)
    assert caught.value.message == (
        "UnifyThreadBinding: A_shared[1, 0] is filled by thread (blockIdx.y = 0, blockIdx.x = 0, "
        "threadIdx.y = 1, threadIdx.x = 0) and read by thread (blockIdx.y = 0, blockIdx.x = 0, "
        "threadIdx.y = 0, threadIdx.x = 1): each thread has local memory of its own"
    )


# memory ------------------------------------------------------------------------------------------


def test_shared_memory_begins_empty_in_each_block():
    text = """
    @T.prim_func
    def main(B: T.Buffer((8,), "float32")):
        bx = T.launch_thread("blockIdx.x", 2)
        tx = T.launch_thread("threadIdx.x", 4)
        S = T.allocate([4], "float32", "shared")
        S_1 = T.decl_buffer((4,), data=S, scope="shared")
        if bx == 0:
            S_1[tx] = T.float32(1)
        B[bx * 4 + tx] = S_1[tx]
    """
    with pytest.raises(ExecutionError) as caught:
        run(text, np.zeros(8, "float32"))
    assert caught.value.message == (
        "uninitialised: thread (blockIdx.x = 1, threadIdx.x = 0) reads S_1[0] in shared memory "
        "before any thread of its block has written it"
    )


def test_out_of_bounds_says_which_thread():
    text = REVERSE.format(sync=SYNC).replace("S_1[7 - tx]", "S_1[8 - tx]")
    with pytest.raises(ExecutionError) as caught:
        run(text, *arrays(8, 8))
    assert caught.value.message == "out of bounds: S_1[8] is read, its shape is (8,) at tx = 0"


def test_shared_memory_outside_of_a_kernel():
    text = """
    @T.prim_func
    def main(B: T.Buffer((4,), "float32")):
        S = T.allocate([4], "float32", "shared")
        S_1 = T.decl_buffer((4,), data=S, scope="shared")
        for i in T.thread_binding(4, thread="threadIdx.x"):
            S_1[i] = T.float32(1)
        for i in T.thread_binding(4, thread="threadIdx.x"):
            B[i] = S_1[i]
    """
    with pytest.raises(ExecutionError) as caught:
        run(text, np.zeros(4, "float32"))
    assert caught.value.message == (
        "S_1 is in shared memory, but is allocated outside of the kernel that uses it"
    )


def test_warps_have_memory_of_their_own():
    text = """
    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        tx = T.launch_thread("threadIdx.x", 64)
        W = T.allocate([32], "float32", "warp")
        W_1 = T.decl_buffer((32,), data=W, scope="warp")
        W_1[tx % 32] = A[tx]
        {sync}
        B[tx] = W_1[31 - tx % 32]
    """
    a, b = arrays(64, 64)
    run(text.format(sync='T.tvm_storage_sync("warp")'), a, b, order=1)
    np.testing.assert_array_equal(b, a.reshape(2, 32)[:, ::-1].reshape(-1))
    with pytest.raises(ExecutionError):
        run(text.format(sync="T.evaluate(0)"), *arrays(64, 64))


# barriers, shuffles ------------------------------------------------------------------------------


def test_two_barriers_are_not_one():
    text = """
    @T.prim_func
    def main():
        tx = T.launch_thread("threadIdx.x", 4)
        if tx < 2:
            T.tvm_storage_sync("shared")
        else:
            T.tvm_storage_sync("shared")
    """
    with pytest.raises(BarrierError) as caught:
        run(text)
    assert caught.value.message == (
        "barrier: 2 of 4 threads of the block wait at it; thread (threadIdx.x = 0) does, but "
        "thread (threadIdx.x = 2) waits at another barrier"
    )


def test_a_loop_that_differs_by_thread():
    text = """
    @T.prim_func
    def main():
        tx = T.launch_thread("threadIdx.x", 4)
        for i in range(tx + 1):
            T.tvm_storage_sync("shared")
    """
    with pytest.raises(BarrierError, match="3 of 4 threads of the block wait at it"):
        run(text)


SHUFFLE = """
    @T.prim_func
    def main(A: T.Buffer((40,), "float32"), B: T.Buffer((40,), "float32")):
        tx = T.launch_thread("threadIdx.x", {threads})
        B[tx] = T.tvm_warp_shuffle{way}(T.uint32(4294967295), A[tx], {by}, {width}, 32)
"""


@pytest.mark.parametrize(
    ("way", "by", "width", "expected"),
    [
        ("", 3, 8, lambda i: i // 8 * 8 + 3),
        ("_down", 2, 8, lambda i: i + 2 if i % 8 + 2 < 8 else i),
        ("_up", 3, 4, lambda i: i - 3 if i % 4 >= 3 else i),
    ],
)
def test_shuffles(way, by, width, expected):
    a, b = arrays(40, 40)
    run(SHUFFLE.format(threads=40, way=way, by=by, width=width), a, b, order=4)
    np.testing.assert_array_equal(b, [expected(i) for i in range(40)])


def test_a_shuffle_from_a_lane_that_is_not_there():
    with pytest.raises(ExecutionError) as caught:
        run(SHUFFLE.format(threads=4, way="_down", by=2, width=8), *arrays(40, 40))
    assert caught.value.message == (
        "tvm_warp_shuffle_down: thread (threadIdx.x = 2) takes the value of lane 4, but no thread "
        "of the warp is there"
    )


def test_virtual_threads_meet_at_barriers():
    text = """
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            S = T.allocate([8], "float32", "shared")
            S_1 = T.decl_buffer((8,), data=S, scope="shared")
            for v in T.thread_binding(2, thread="vthread.x"):
                S_1[v * 4 + tx] = A[v * 4 + tx]
                T.tvm_storage_sync("shared")
                B[v * 4 + tx] = S_1[7 - v * 4 - tx]
    """
    a, b = arrays(8, 8)
    run(text, a, b, order=1)
    np.testing.assert_array_equal(b, a[::-1])


def test_loops_of_one_axis_with_different_extents():
    text = """
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            for i in T.thread_binding(8, thread="threadIdx.x"):
                B[i] = A[i]
            for j in T.thread_binding(4, thread="threadIdx.x"):
                A[j] = A[j]
    """
    with pytest.raises(PassError) as caught:
        run(text, *arrays(8, 8))
    assert caught.value.message == (
        "UnifyThreadBinding: loops i and j are both bound to threadIdx.x, but have 8 and 4 "
        "iterations"
    )

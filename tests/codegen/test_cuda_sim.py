"""Kernels for a GPU run on the CPU: the numbers of the reference, the refusals of a GPU."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import te
from mlcnb.codegen.interp import run_prim_func
from mlcnb.codegen.llvm import cache as disk
from mlcnb.core.errors import CodegenError, MLCError, PassError, ScheduleError
from mlcnb.script import ir as I
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.schedule import Schedule
from tests.codegen.gpu_courses import COURSES
from tests.codegen.gpu_programs import PROGRAMS
from tests.codegen.test_threads_random import FUNCTIONS, REFUSALS, step
from tests.observe.test_pipeline import BY_HAND
from tests.tir.schedule import programs
from tests.tir.test_tensor_intrin import inputs, on_tensor_cores

ALL = {**PROGRAMS, **COURSES}


def test_kernels_are_made_once(monkeypatch, tmp_path):
    """Equal functions share their code; a second process would find all of it on disk."""
    monkeypatch.setenv("MLCNB_CACHE_DIR", str(tmp_path))

    @I.ir_module
    class Module:
        @T.prim_func
        def one(A: T.Buffer((40, 60), "float32"), B: T.Buffer((60, 50), "float32"),
                C: T.Buffer((40, 50), "float32")):  # fmt: skip
            for i, j, k in T.grid(40, 50, 60):
                with T.block("C"):
                    v, w, r = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[v, w] = 0.0
                    C[v, w] = C[v, w] + A[v, r] * B[r, w]

        @T.prim_func
        def other(A: T.Buffer((40, 60), "float32"), B: T.Buffer((60, 50), "float32"),
                  C: T.Buffer((40, 50), "float32")):  # fmt: skip
            for i, j, k in T.grid(40, 50, 60):
                with T.block("C"):
                    v, w, r = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[v, w] = 0.0
                    C[v, w] = C[v, w] + A[v, r] * B[r, w]

    def compiled():
        return mlc.compile(Module, target="cuda-sim", schedule="default").kernels

    first = compiled()
    assert first["one"].symbol == first["other"].symbol
    store = disk.user_store()
    hits, misses = store.hits, store.misses
    again = compiled()
    assert (store.hits, store.misses) == (hits + 2, misses)
    assert again["one"].asm == first["one"].asm
    assert "threadIdx.x" in again["one"].scheduled.script()


def simulated(func):
    """The function on threads, compiled for this CPU."""
    return mlc.compile(func, target="cuda-sim")


@pytest.mark.parametrize("name", sorted(ALL))
def test_program(name):
    made = ALL[name]()
    args = made.arguments()
    simulated(made.schedule)(*args)
    np.testing.assert_allclose(args[-1], made.expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(40))
def test_random_schedules(seed):
    """Whatever schedule is accepted computes what the loops do, or is refused in words."""
    dice = random.Random(seed)
    func = dice.choice(FUNCTIONS)()
    sch = Schedule(func)
    for _ in range(dice.randint(3, 14)):
        try:
            step(sch, dice)
        except ScheduleError:
            continue
    expected = programs.numbers(func)
    args = [x.copy() for x in expected]
    args[-1][...] = np.nan
    try:
        simulated(sch)(*args)
    except (CodegenError, PassError) as error:
        assert any(text in error.message for text in (*REFUSALS, *REFUSED)), error
        return
    for x, y in zip(expected, args, strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-4, atol=1e-5)


#: what no kernel can do, whether simulated or not
REFUSED = ("is not bound to threads", "in a kernel", "of a reduction", "several kernels use it")


def run_both(func, *shapes, dtype="float32"):
    """What the interpreter and the simulation make of the same random arguments; the last array."""
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    one, other = ([x.copy() for x in given] for _ in range(2))
    run_prim_func(func, one, simulate=True)
    simulated(func)(*other)
    return one[-1], other[-1]


@T.prim_func
def uneven(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    """Loops, branches and variables that differ by thread, values kept over a barrier."""
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            s = T.allocate([8], "float32", "shared")
            S = T.decl_buffer((8,), data=s, scope="shared")
            r = T.allocate([2], "float32", "local")
            R = T.decl_buffer((2,), data=r, scope="local")
            R[0] = 0.0
            for k in range(tx + 1):
                R[0] = R[0] + A[bx, k]
            with T.LetStmt(R[0] * 2.0) as twice:
                S[tx] = twice
                T.evaluate(T.tvm_storage_sync("shared"))
                if tx % 3 == 1:
                    R[1] = twice + S[7 - tx]
                    for k in range(2):
                        R[1] = R[1] + S[k]
                else:
                    R[1] = -twice
            B[bx, tx] = R[1]


def test_what_differs_by_thread_is_its_own():
    expected, found = run_both(uneven, (4, 8), (4, 8))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def shuffles(way: str, by: int, width: int, threads: int = 64):
    """B[i] = what the thread takes from another one, twice."""

    @T.prim_func
    def func(A: T.Buffer((threads,), "float32"), B: T.Buffer((threads,), "float32")):
        for tx in T.thread_binding(threads, thread="threadIdx.x"):
            B[tx] = T.call_intrin(
                "float32", way, T.uint32(0xFFFFFFFF), A[tx] * 2.0, by, width, 32
            ) + T.call_intrin("float32", way, T.uint32(0xFFFFFFFF), A[tx], 1, width, 32)

    return func


@pytest.mark.parametrize("width", [4, 16, 32])
@pytest.mark.parametrize("by", [0, 1, 3, 8])
@pytest.mark.parametrize("way", ["", "_up", "_down"])
def test_shuffle(way, by, width):
    func = shuffles(f"tir.tvm_warp_shuffle{way}", by, width)
    expected, found = run_both(func, (64,), (64,))
    np.testing.assert_array_equal(found, expected)


@T.prim_func
def chosen_lanes(
    A: T.Buffer((5,), "float32"), I: T.Buffer((5,), "int32"), B: T.Buffer((32,), "float32")
):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        B[tx] = T.if_then_else(
            tx < 5,
            T.tvm_warp_shuffle(T.uint32(31), A[I[tx]], 4 - tx, 32, 32),
            T.if_then_else(
                tx < 27,
                T.float32(7),
                T.tvm_warp_shuffle(T.uint32(31 << 27), A[tx - 27], 27, 32, 32),
            ),
        )


@T.prim_func
def tested_lanes(
    A: T.Buffer((5,), "float32"), I: T.Buffer((5,), "int32"), B: T.Buffer((32,), "float32")
):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        B[tx] = T.Select(
            tx < 5 and T.tvm_warp_shuffle(T.uint32(31), A[I[tx]], 0, 32, 32) < A[T.min(tx, 4)],
            T.float32(1),
            T.float32(0),
        )


@pytest.mark.parametrize("func", [chosen_lanes, tested_lanes])
def test_a_shuffle_on_one_side_of_a_choice_is_refused(func):
    """Its value is loaded where only some threads may load."""
    args = [np.zeros(5, "float32"), np.zeros(5, "int32"), np.zeros(32, "float32")]
    for run in (
        lambda: simulated(func),
        lambda: mlc.compile(func, target="cuda"),
        lambda: run_prim_func(func, args, simulate=True),
    ):
        with pytest.raises(MLCError, match="shuffle.* stands where only some threads come by") as e:
            run()
        assert e.value.hint == "give its value a name with T.LetStmt before the choice"


@T.prim_func
def waits_alone(A: T.Buffer((8,), "float32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        if tx < 4:
            T.evaluate(T.tvm_storage_sync("shared"))
            A[tx] = 1.0


@T.prim_func
def waits_at_times(A: T.Buffer((8,), "float32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        for k in range(tx):  # noqa: B007
            T.evaluate(T.tvm_storage_sync("shared"))
            A[tx] = 1.0


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (waits_alone, "a barrier stands under a condition that differs by thread"),
        (waits_at_times, "threads meet (tvm_storage_sync) in loop k, which differs by thread"),
    ],
)
def test_threads_that_do_not_come_by_are_refused(func, message):
    with pytest.raises(CodegenError) as caught:
        simulated(func)
    assert message in caught.value.message


def test_what_is_bound_to_no_thread_is_refused():
    with pytest.raises(CodegenError, match="it cannot run on a GPU"):
        simulated(programs.elementwise(8))


def test_more_threads_than_a_gpu_has_are_refused():
    sch = PROGRAMS["vector_add"]().schedule
    with pytest.raises(PassError, match="16 threads"):
        mlc.compile(sch, target="cuda-sim -max_threads_per_block=8")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_tensor_cores(dtype):
    """mma.sync by its definition: the fragments of a warp, sums of sixteen products or more."""
    func, sch = on_tensor_cores(dtype)
    expected = inputs(func)
    args = [x.copy() for x in expected]
    run_prim_func(func, expected)
    simulated(sch)(*args)
    tol = 0 if dtype == "int8" else 1e-3
    np.testing.assert_allclose(args[-1], expected[-1], rtol=tol, atol=tol)


def test_sums_of_bytes_wrap_around():
    """In the simulation as in the interpreter: near the end of int32, where PTX wraps too."""
    _, sch = on_tensor_cores("int8")
    text = sch.mod.script()
    assert text.count("= 0\n") == 1
    sch = Schedule(mlc.script.from_source(text.replace("= 0\n", "= 2147480000\n")))
    a, b = np.full((32, 64), -128, "int8"), np.full((64, 16), -128, "int8")
    expected = np.full((32, 16), 2147480000 + 64 * 128 * 128 - 2**32, "int32")
    for run in (simulated(sch), lambda *args: run_prim_func(sch.mod["main"], args)):
        out = np.zeros((32, 16), "int32")
        run(a, b, out)
        np.testing.assert_array_equal(out, expected)


def test_kernel_shows_what_stands_for_its_threads():
    kernel = simulated(PROGRAMS["row_sum"]().schedule).kernels[0]
    assert "thread_binding" in kernel.scheduled.script()
    text = kernel.simulated.script()
    assert "T.parallel(6)" in text and "launch_thread" not in text and "shuffle" not in text
    assert "__shfl_down_sync" in kernel.source
    assert kernel.facts.hottest.total.instructions


@pytest.mark.parametrize("size", [0, 1, 7])
def test_loops_for_threads_go_on_until_their_end_is_reached(size):
    """`icmp ne`, which LLVM understands in half of the time; what has no round is not begun."""

    @T.prim_func
    def func(a: T.handle, B: T.Buffer((32,), "int32")):
        n = T.int64()
        A = T.match_buffer(a, (n,), "int32")
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            for i in T.serial(n):
                B[tx] = B[tx] + A[i]

    ex = simulated(func)
    ends = re.findall(r"icmp (\w+) i64 %next", ex.kernels[0].llvm_ir)
    assert ends == ["ne", "ne"]
    out = np.arange(32, dtype="int32")
    ex(np.full(size, 3, "int32"), out)
    np.testing.assert_array_equal(out, np.arange(32) + 3 * size)


def test_a_reduction_over_threads_waits_for_another_one():
    """The sum reads the maximum in shared memory: the barrier stood inside of what is combined."""
    A = te.placeholder((16, 64), name="A")
    k, r = te.reduce_axis((0, 64), name="k"), te.reduce_axis((0, 64), name="r")
    largest = te.compute((16,), lambda i: te.max(A[i, k], axis=k), name="largest")
    total = te.compute((16,), lambda i: te.sum(te.exp(A[i, r] - largest[i]), axis=r), name="total")
    B = te.compute((16, 64), lambda i, j: te.exp(A[i, j] - largest[i]) / total[i], name="B")
    sch = Schedule(te.create_prim_func([A, B]))
    row, column = sch.get_loops("B")
    sch.bind(row, "blockIdx.x")
    for name in ("total", "largest"):
        sch.set_scope(name, 0, "shared")
        sch.compute_at(name, row)
        sch.bind(sch.get_loops(name)[-1], "threadIdx.x")
    sch.bind(column, "threadIdx.x")
    a = np.random.default_rng(0).standard_normal((16, 64), dtype="float32")
    found = np.empty_like(a)
    simulated(sch)(a, found)
    powers = np.exp(a - a.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


def test_registers_of_a_body_that_stands_twice():
    """Double buffering peels the last step, and what a step allocates stands in both copies."""
    made = COURSES["matmul_in_registers"]()
    for name in ("A_shared", "B_shared"):
        made.schedule.annotate(made.schedule.get_block(name), "double_buffer_scope", 0)
    args = made.arguments()
    simulated(made.schedule)(*args)
    np.testing.assert_allclose(args[-1], made.expected, rtol=1e-5, atol=1e-5)


@T.prim_func
def a_kernel_for_each_lane(A: T.Buffer((2, 70), "float32"), B: T.Buffer((2,), "float32")):
    for i in T.vectorized(2):
        for k_0 in T.thread_binding(2, thread="threadIdx.x"):
            for k_1 in range(64):
                with T.block("B"):
                    v_i = T.axis.spatial(2, i)
                    v_k = T.axis.reduce(70, k_0 * 64 + k_1)
                    T.where(k_0 * 64 + k_1 < 70)
                    with T.init():
                        B[v_i] = T.float32(0)
                    B[v_i] = B[v_i] + A[v_i, v_k]


def test_threads_share_a_reduction_in_a_vectorized_loop():
    a = np.random.default_rng(5).normal(size=(2, 70)).astype(np.float32)
    found = np.zeros(2, np.float32)
    mlc.compile(a_kernel_for_each_lane, target="cuda-sim")(a, found)
    np.testing.assert_allclose(found, a.astype(np.float64).sum(1), rtol=1e-5)


@T.prim_func
def memory_around_kernels(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    C = T.alloc_buffer((8,), scope="local")
    for i in T.thread_binding(8, thread="threadIdx.x"):
        C[i] = A[i]
    for i in T.thread_binding(8, thread="threadIdx.x"):
        B[i] = C[i]


def test_memory_of_threads_around_kernels_is_refused():
    with pytest.raises(CodegenError, match="^C is in local memory, but several kernels use it"):
        mlc.compile(memory_around_kernels, target="cuda-sim")


def test_copies_by_hand_into_a_buffer_of_one_dimension():
    """What is used by its pointer keeps its size: lowering it ended in an AttributeError."""
    a = np.random.default_rng(0).normal(size=96).astype(np.float32)
    wanted = 2 * a.reshape(12, 8)
    wanted[1:, 4:] = 0
    found = np.empty_like(a)
    simulated(parse(BY_HAND))(a, found)
    np.testing.assert_array_equal(found.reshape(12, 8), wanted)

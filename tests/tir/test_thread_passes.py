"""Passes of GPU programs: the whole program before and after each, and the same numbers."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from mlcnb.codegen.interp import run_prim_func
from mlcnb.core import display
from mlcnb.core.errors import PassError
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.script import parse
from mlcnb.target import Target
from mlcnb.tir import transform as t
from mlcnb.tir.access import threads
from mlcnb.tir.analysis import GpuLimits, verify_gpu_code, verify_well_formed

HEAD = """\
@T.prim_func
def main(A: T.Buffer(({n},), "float32"), B: T.Buffer(({m},), "float32")):
"""


def func_of(body, n=8, m=8):
    text = HEAD.format(n=n, m=m) + "".join(f"    {x}\n" for x in dedent(body).strip().splitlines())
    return parse(text)


def becomes(transform, before, after, n=8, m=8, run=True):
    """The program becomes the other one, which can be read back and computes the same."""
    given = func_of(before, n, m)
    mod = IRModule.from_expr(given)
    made = transform()(mod)["main"]
    lines = display.text(made).splitlines()[2:]
    found = [x for x in lines if "# with T.block" not in x]
    assert dedent("\n".join(found)) == dedent(after).strip()
    assert verify_well_formed(made)
    assert display.text(parse(display.text(made))) == display.text(made)
    again = transform()(IRModule.from_expr(made))["main"]
    assert display.text(again) == display.text(made)
    if run:
        same_numbers(given, made, n, m)


def same_numbers(before, after, n, m):
    results = []
    for func in (before, after):
        a, b = np.arange(n, dtype="float32"), np.full(m, 7, "float32")
        run_prim_func(func, [a, b], order=1)
        results.append(b)
    np.testing.assert_array_equal(*results)


def refuses(transform, before, message, hint=None, n=8, m=8):
    with pytest.raises(PassError) as caught:
        transform()(IRModule.from_expr(func_of(before, n, m)))
    assert caught.value.message == message
    assert caught.value.hint == hint


# UnifyThreadBinding ------------------------------------------------------------------------------


def test_one_variable_for_each_axis():
    becomes(
        t.UnifyThreadBinding,
        """
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            S = T.allocate([4], "float32", "shared")
            S_1 = T.decl_buffer((4,), data=S, scope="shared")
            for i in T.thread_binding(4, thread="threadIdx.x"):
                S_1[i] = A[bx * 4 + i]
            T.tvm_storage_sync("shared")
            for k in range(1):
                for j in T.thread_binding(2, 6, thread="threadIdx.x"):
                    B[bx * 4 + j - 2] = S_1[5 - j]
        """,
        """
        bx = T.launch_thread("blockIdx.x", 2)
        i = T.launch_thread("threadIdx.x", 4)
        S = T.allocate([4], "float32", "shared")
        S_1 = T.decl_buffer((4,), data=S, scope="shared")
        S_1[i] = A[bx * 4 + i]
        T.tvm_storage_sync("shared")
        for k in range(1):
            B[bx * 4 + (i + 2) - 2] = S_1[5 - (i + 2)]
        """,
    )


def test_two_kernels_keep_axes_of_their_own():
    becomes(
        t.UnifyThreadBinding,
        """
        for i in T.thread_binding(8, thread="threadIdx.x"):
            B[i] = A[i]
        for j in T.thread_binding(4, thread="threadIdx.x"):
            B[j] = B[j] + A[j]
        """,
        """
        with T.launch_thread("threadIdx.x", 8) as i:
            B[i] = A[i]
        j = T.launch_thread("threadIdx.x", 4)
        B[j] = B[j] + A[j]
        """,
    )


def test_an_extent_that_is_not_known_at_the_launch():
    refuses(
        t.UnifyThreadBinding,
        """
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for k in range(4):
                for i in T.thread_binding(k + 1, thread="threadIdx.x"):
                    B[i] = A[i]
        """,
        "UnifyThreadBinding: loop i is bound to threadIdx.x and has k + 1 iterations: k is not "
        "known when the kernel starts",
    )


FILLED = """
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        S = T.allocate([4], "float32", "{scope}")
        S_1 = T.decl_buffer((4,), data=S, scope="{scope}")
        for i in T.thread_binding(4, thread="{axis}"):
            S_1[i] = A[bx * 4 + i]
        for k in range(4):
            B[bx * 4 + k] = S_1[k]
    """


@pytest.mark.parametrize(
    ("axis", "scope", "whose"),
    [("blockIdx.y", "shared", "block"), ("blockIdx.y", "local", "block"),
     ("threadIdx.x", "local", "thread")],
)  # fmt: skip
def test_what_others_have_for_themselves_is_not_read_beside_their_loop(axis, scope, whose):
    """It compiled, and three of four elements were never written."""
    refuses(
        t.UnifyThreadBinding,
        FILLED.format(axis=axis, scope=scope),
        f"UnifyThreadBinding: S_1 is read beside loop i, which is bound to {axis} and fills it: "
        f"each {whose} has {scope} memory of its own, and has filled a part",
        "bind the loop to another axis, or bring what reads it under the loop",
    )


OF_EACH = """
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        S = T.allocate([8], "float32", "{scope}")
        S_1 = T.decl_buffer((8,), data=S, scope="{scope}")
        for i in T.thread_binding(4, thread="threadIdx.x"):
            for k in range(2):
                S_1[i * 2 + k] = A[bx * 8 + i * 2 + k]
        for j in T.thread_binding(4, thread="threadIdx.x"):
            for k in range(2):
                B[bx * 8 + j * 2 + k] = S_1[{index}]
    """


@pytest.mark.parametrize(
    ("index", "at", "reader"),
    [("k * 4 + j", 4, 0), ("7 - (j * 2 + k)", 6, 0), ("j // 2 * 4", 0, 1)],
)
def test_what_another_thread_has_for_itself_is_not_read(index, at, reader):
    """It compiled, and read elements that nobody had written."""
    refuses(
        t.UnifyThreadBinding,
        OF_EACH.format(scope="local", index=index),
        f"UnifyThreadBinding: S_1[{at}] is filled by thread (blockIdx.x = 0, threadIdx.x = "
        f"{at // 2}) and read by thread (blockIdx.x = 0, threadIdx.x = {reader}): each thread has "
        "local memory of its own",
        "put it into shared memory, or bind the loops that read it as those that fill it",
    )


@pytest.mark.parametrize(
    ("scope", "index"), [("local", "j * 2 + k"), ("local", "j * 2 + 1 - k"), ("shared", "7 - j")]
)
def test_what_a_thread_has_filled_is_read_in_another_loop(scope, index):
    func = func_of(OF_EACH.format(scope=scope, index=index))
    made = t.UnifyThreadBinding()(IRModule.from_expr(func))["main"]
    assert "S_1[i * 2 + k] = A[bx * 8 + i * 2 + k]" in display.text(made)


def test_shared_memory_is_filled_by_threads_and_read_beside_their_loop():
    func = func_of(FILLED.format(axis="threadIdx.x", scope="shared"))
    made = t.UnifyThreadBinding()(IRModule.from_expr(func))["main"]
    assert "S_1[i] = A[bx * 4 + i]" in display.text(made)


# ThreadSync --------------------------------------------------------------------------------------

SHARED = """
tx = T.launch_thread("threadIdx.x", 8)
S = T.allocate([{size}], "float32", "shared")
S_1 = T.decl_buffer(({size},), data=S, scope="shared")
"""


def sync(body, expected, size=8, **sizes):
    """Barriers in a kernel of 8 threads; what it computes is compared with the loops' meaning."""
    head = SHARED.format(size=size).strip() + "\n"
    marked = 'T.func_attr({"tir.implicit_barriers": True})\n' + head + dedent(body).strip()
    becomes(t.ThreadSync, marked, head + dedent(expected).strip(), **sizes)


def test_a_barrier_between_write_and_read():
    sync(
        """
        S_1[tx] = A[tx]
        B[tx] = S_1[7 - tx]
        """,
        """
        S_1[tx] = A[tx]
        T.tvm_storage_sync("shared")
        B[tx] = S_1[7 - tx]
        """,
    )


def test_an_allocation_between_the_launches_hides_no_threads():
    """As TVM lowers kernels; threads behind it were not seen, and no barrier was put in."""
    func = parse(
        """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    bx = T.launch_thread("blockIdx.x", 1)
    S = T.allocate([64], "float32", "shared")
    tx = T.launch_thread("threadIdx.x", 64)
    S_1 = T.decl_buffer((64,), data=S, scope="shared")
    S_1[tx] = A[tx]
    B[tx] = S_1[63 - tx]
"""
    )
    made = t.ThreadSync("shared")(IRModule.make({"main": func}))["main"]
    lines = [x.strip() for x in made.script().splitlines()]
    at = lines.index('T.tvm_storage_sync("shared")')
    assert lines[at - 1 : at + 2 : 2] == ["S_1[tx] = A[tx]", "B[tx] = S_1[63 - tx]"]


def test_no_barrier_for_elements_of_ones_own():
    sync(
        """
        for k in range(4):
            S_1[tx * 2 + k % 2] = A[tx]
            B[tx] = S_1[tx * 2 + (k + 2) % 2]
        """,
        """
        for k in range(4):
            S_1[tx * 2 + k % 2] = A[tx]
            B[tx] = S_1[tx * 2 + (k + 2) % 2]
        """,
        size=16,
    )


def test_a_loop_needs_one_for_the_iteration_before():
    sync(
        """
        for k in range(2):
            S_1[tx] = A[tx] + T.Cast("float32", k)
            B[tx] = S_1[7 - tx]
        """,
        """
        for k in range(2):
            T.tvm_storage_sync("shared")
            S_1[tx] = A[tx] + T.Cast("float32", k)
            T.tvm_storage_sync("shared")
            B[tx] = S_1[7 - tx]
        """,
    )


def test_two_halves_that_take_turns_need_one_barrier():
    """What iteration k writes is not what iteration k - 1 reads."""
    sync(
        """
        for k in range(3):
            S_1[k % 2 * 8 + tx] = A[tx] + T.Cast("float32", k)
            B[tx] = S_1[k % 2 * 8 + 7 - tx]
        """,
        """
        for k in range(3):
            S_1[k % 2 * 8 + tx] = A[tx] + T.Cast("float32", k)
            T.tvm_storage_sync("shared")
            B[tx] = S_1[k % 2 * 8 + 7 - tx]
        """,
        size=16,
    )


def test_a_loop_that_begins_with_a_barrier_needs_none_before_it():
    sync(
        """
        S_1[tx] = A[tx]
        for k in range(3):
            S_1[(k + 1) % 2 * 8 + tx] = A[tx] + T.Cast("float32", k)
            B[tx] = S_1[k % 2 * 8 + 7 - tx]
        """,
        """
        S_1[tx] = A[tx]
        for k in range(3):
            T.tvm_storage_sync("shared")
            S_1[(k + 1) % 2 * 8 + tx] = A[tx] + T.Cast("float32", k)
            B[tx] = S_1[k % 2 * 8 + 7 - tx]
        """,
        size=16,
    )


def test_the_barrier_stands_before_the_loop_that_reads():
    sync(
        """
        S_1[tx] = A[tx]
        for k in range(8):
            B[tx] = B[tx] + S_1[k]
        """,
        """
        S_1[tx] = A[tx]
        T.tvm_storage_sync("shared")
        for k in range(8):
            B[tx] = B[tx] + S_1[k]
        """,
    )


def test_a_barrier_comes_before_a_branch_of_some_threads():
    sync(
        """
        S_1[tx] = A[tx]
        if tx < 4:
            B[tx] = S_1[tx + 4]
        """,
        """
        S_1[tx] = A[tx]
        T.tvm_storage_sync("shared")
        if tx < 4:
            B[tx] = S_1[tx + 4]
        """,
    )


def test_a_condition_that_keeps_threads_apart_is_seen():
    sync(
        """
        if tx < 4:
            S_1[tx] = A[tx]
        if tx >= 4:
            S_1[tx] = A[tx]
        B[tx] = S_1[tx]
        """,
        """
        if tx < 4:
            S_1[tx] = A[tx]
        if tx >= 4:
            S_1[tx] = A[tx]
        B[tx] = S_1[tx]
        """,
    )


def test_barriers_that_are_written_are_enough():
    sync(
        """
        S_1[tx] = A[tx]
        T.tvm_storage_sync("shared")
        B[tx] = S_1[7 - tx]
        """,
        """
        S_1[tx] = A[tx]
        T.tvm_storage_sync("shared")
        B[tx] = S_1[7 - tx]
        """,
    )


def test_a_barrier_inside_of_a_branch_of_some_threads_is_refused():
    body = SHARED.format(size=8) + ("if tx < 4:\n    S_1[tx] = A[tx]\n    B[tx] = S_1[3 - tx]\n")
    refuses(
        t.ThreadSync,
        body,
        "ThreadSync: S_1 needs a barrier between two statements that not all threads of the block "
        "come by",
        "move what depends on the thread into the statements",
    )


# LowerCrossThreadReduction, LowerThreadAllreduce -------------------------------------------------

ROWS = """
for i in T.thread_binding(2, thread="blockIdx.x"):
    for k in T.thread_binding(4, thread="threadIdx.x"):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi * 4 + vk])
            T.writes(B[vi])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi * 4 + vk]
"""


def test_a_reduction_over_threads():
    becomes(
        t.LowerCrossThreadReduction,
        ROWS,
        """
        cross_thread_B = T.alloc_buffer((1,), scope="local")
        for i in T.thread_binding(2, thread="blockIdx.x"):
            for k in T.thread_binding(4, thread="threadIdx.x"):
                with T.block("B_cross_thread"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    T.reads(A[vi * 4 + vk])
                    T.writes(cross_thread_B[0])
                    T.attr(T.comm_reducer(lambda x0, y0: x0 + y0, [T.float32(0.0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0)))
                    T.tvm_thread_allreduce(T.uint32(1), A[vi * 4 + vk], T.bool(True), cross_thread_B[0], vk)
                with T.block("B_write_back"):
                    vi = T.axis.spatial(2, i)
                    T.where(k == 0)
                    T.reads(cross_thread_B[0])
                    T.writes(B[vi])
                    B[vi] = cross_thread_B[0]
        """,  # noqa: E501
        m=2,
    )


def test_a_start_that_is_not_neutral_is_added_in_the_end():
    func = func_of(ROWS.replace("T.float32(0)", "T.float32(5)"), m=2)
    made = t.LowerCrossThreadReduction()(IRModule.from_expr(func))["main"]
    assert "B[vi] = T.float32(5.0) + cross_thread_B[0]" in display.text(made)
    same_numbers(func, made, 8, 2)


@pytest.mark.parametrize(
    ("before", "after", "problem", "hint"),
    [
        (
            "B[vi] + A[vi * 4 + vk]",
            "B[vi] - A[vi * 4 + vk]",
            "it is no sum, product, minimum or maximum",
            "bind another loop, or rfactor it first",
        ),
        (
            'for k in T.thread_binding(4, thread="threadIdx.x")',
            'for k in T.thread_binding(4, thread="blockIdx.y")',
            "reduce loop k is bound to blockIdx.y: only threads of one block can combine their "
            "parts",
            "bind it to threadIdx, or rfactor it first",
        ),
    ],
)
def test_reductions_that_threads_cannot_share(before, after, problem, hint):
    refuses(
        t.LowerCrossThreadReduction,
        ROWS.replace(before, after),
        f"LowerCrossThreadReduction: threads share the reduction of block B, but {problem}",
        hint,
        m=2,
    )


REDUCE = """
bx = T.launch_thread("blockIdx.x", 2)
tx = T.launch_thread("threadIdx.x", {threads})
c = T.allocate([1], "float32", "local")
c_1 = T.decl_buffer((1,), data=c, scope="local")
with T.attr(T.comm_reducer(lambda x0, y0: x0 + y0, [T.float32(0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))):
    T.tvm_thread_allreduce(T.uint32(1), A[bx * {threads} + tx], T.bool(True), c_1[0], tx)
B[bx * {threads} + tx] = c_1[0]
"""  # noqa: E501


def test_a_reduction_by_shuffles():
    mask = "T.uint32(4294967295)"
    becomes(
        t.LowerThreadAllreduce,
        REDUCE.format(threads=4),
        f"""
        bx = T.launch_thread("blockIdx.x", 2)
        tx = T.launch_thread("threadIdx.x", 4)
        c = T.allocate([1], "float32", "local")
        c_1 = T.decl_buffer((1,), data=c, scope="local")
        with T.allocate([1], "float32", "local") as red_buf0:
            red_buf0_1 = T.decl_buffer((1,), data=red_buf0, scope="local")
            red_buf0_1[0] = A[bx * 4 + tx]
            red_buf0_1[0] = red_buf0_1[0] + T.tvm_warp_shuffle_down({mask}, red_buf0_1[0], 2, 4, 32)
            red_buf0_1[0] = red_buf0_1[0] + T.tvm_warp_shuffle_down({mask}, red_buf0_1[0], 1, 4, 32)
            c_1[0] = T.tvm_warp_shuffle({mask}, red_buf0_1[0], 0, 4, 32)
        B[bx * 4 + tx] = c_1[0]
        """,
    )


def test_a_reduction_in_shared_memory():
    becomes(
        t.LowerThreadAllreduce,
        REDUCE.format(threads=3),
        """
        bx = T.launch_thread("blockIdx.x", 2)
        tx = T.launch_thread("threadIdx.x", 3)
        c = T.allocate([1], "float32", "local")
        c_1 = T.decl_buffer((1,), data=c, scope="local")
        with T.allocate([3], "float32", "shared") as red_buf0:
            red_buf0_1 = T.decl_buffer((3,), data=red_buf0, scope="shared")
            red_buf0_1[tx] = A[bx * 3 + tx]
            T.tvm_storage_sync("shared")
            if tx < 1:
                red_buf0_1[tx] = red_buf0_1[tx] + red_buf0_1[tx + 2]
            T.tvm_storage_sync("shared")
            if tx < 1:
                red_buf0_1[tx] = red_buf0_1[tx] + red_buf0_1[tx + 1]
            T.tvm_storage_sync("shared")
            c_1[0] = red_buf0_1[0]
            T.tvm_storage_sync("shared")
        B[bx * 3 + tx] = c_1[0]
        """,
    )


BLOCKS = [
    *((8,), (32,), (3,), (48,), (64,), (96,), (128, 2), (4, 2), (5, 3), (2, 3, 2), (1,)),
]


@pytest.mark.parametrize(
    ("axes", "over"),
    [(axes, over) for axes in BLOCKS for over in ("x", "y", "xy") if over == "x" or len(axes) > 1],
)
def test_reductions_over_any_threads(axes, over):
    """Sums over some of the axes of a block; every thread gets its own."""
    names = ["tx", "ty", "tz"][: len(axes)]
    reduced = [n for n in names if n[1] in over]
    strides = np.cumprod([1, *axes[:-1]])
    me = " + ".join(f"{n} * {s}" for n, s in zip(names, strides, strict=True))
    launches = "\n".join(
        f'{n} = T.launch_thread("threadIdx.{n[1]}", {x})' for n, x in zip(names, axes, strict=True)
    )
    total = int(np.prod(axes))
    body = REDUCE[REDUCE.index("c = ") :].replace("bx * {threads} + tx", me)
    func = func_of(
        launches + "\n" + body.replace(", tx)", f", {', '.join(reduced)})"), total, total
    )
    made = t.lower_thread_allreduce(func)
    a = np.arange(total, dtype="float32")
    shape = a.reshape(axes[::-1])
    dims = tuple(len(axes) - 1 - names.index(n) for n in reduced)
    expected = np.broadcast_to(shape.sum(dims, keepdims=True), shape.shape).reshape(-1)
    for version in (func, made):
        b = np.zeros(total, "float32")
        run_prim_func(version, [a, b], order=2)
        np.testing.assert_array_equal(b, expected)


@pytest.mark.parametrize("threads", [8, 6, 64])
def test_two_values_at_once(threads):
    """The largest value and where it is: both are combined before either is overwritten."""
    func = parse(
        dedent(
            f"""
            @T.prim_func
            def main(A: T.Buffer(({threads},), "float32"), B: T.Buffer((2,), "float32")):
                tx = T.launch_thread("threadIdx.x", {threads})
                v = T.allocate([1], "float32", "local")
                v_1 = T.decl_buffer((1,), data=v, scope="local")
                at = T.allocate([1], "float32", "local")
                at_1 = T.decl_buffer((1,), data=at, scope="local")
                with T.attr(T.comm_reducer(lambda x0, x1, y0, y1: (T.Select(x0 >= y0, x0, y0), T.Select(x0 >= y0, x1, y1)), [T.float32("-inf"), T.float32(-1)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))):
                    T.tvm_thread_allreduce(T.uint32(2), A[tx], T.Cast("float32", tx), T.bool(True), v_1[0], at_1[0], tx)
                if tx == 0:
                    B[0] = v_1[0]
                    B[1] = at_1[0]
            """  # noqa: E501
        )
    )
    a = np.random.default_rng(0).standard_normal(threads).astype("float32")
    for version in (func, t.lower_thread_allreduce(func)):
        b = np.zeros(2, "float32")
        run_prim_func(version, [a, b], order=1)
        np.testing.assert_array_equal(b, [a.max(), a.argmax()])


def test_a_reduction_of_several_warps():
    """One barrier between the warps' parts and what every warp makes of them."""
    mask = "T.uint32(4294967295)"
    down = f"T.tvm_warp_shuffle_down({mask}, red_buf0_1[0], {{}}, {{}}, 32)"
    made = t.lower_thread_allreduce(func_of(REDUCE.format(threads=96), 192, 192))
    halves = "".join(
        f"        red_buf0_1[0] = red_buf0_1[0] + {down.format(n, 32)}\n" for n in (16, 8, 4, 2, 1)
    )
    expected = f"""\
        red_buf0_1[0] = A[bx * 96 + tx]
{halves}\
        if tx % 32 == 0:
            red_buf_of_warps0_1[tx // 32] = red_buf0_1[0]
        T.tvm_storage_sync("shared")
        red_buf0_1[0] = T.if_then_else(tx % 32 < 3, red_buf_of_warps0_1[tx % 32], T.float32(0.0))
        red_buf0_1[0] = red_buf0_1[0] + {down.format(2, 4)}
        red_buf0_1[0] = red_buf0_1[0] + {down.format(1, 4)}
        c_1[0] = T.tvm_warp_shuffle({mask}, red_buf0_1[0], 0, 32, 32)
        T.tvm_storage_sync("shared")
"""
    assert expected in display.text(made)


# InjectVirtualThread -----------------------------------------------------------------------------


def test_virtual_threads_become_loops():
    becomes(
        t.InjectVirtualThread,
        """
        tx = T.launch_thread("threadIdx.x", 4)
        for v in T.thread_binding(2, thread="vthread.x"):
            S = T.allocate([8], "float32", "shared")
            S_1 = T.decl_buffer((8,), data=S, scope="shared")
            r = T.allocate([1], "float32", "local")
            r_1 = T.decl_buffer((1,), data=r, scope="local")
            S_1[tx] = A[tx]
            S_1[tx + 4] = A[tx + 4]
            T.tvm_storage_sync("shared")
            for k in range(2):
                r_1[0] = S_1[v * 4 + 3 - tx]
            B[v * 4 + tx] = r_1[0]
        """,
        """
        tx = T.launch_thread("threadIdx.x", 4)
        S = T.allocate([8], "float32", "shared")
        S_1 = T.decl_buffer((8,), data=S, scope="shared")
        r = T.allocate([2, 1], "float32", "local")
        r_1 = T.decl_buffer((2, 1), data=r, scope="local")
        S_1[tx] = A[tx]
        S_1[tx + 4] = A[tx + 4]
        T.tvm_storage_sync("shared")
        for k in range(2):
            for v in T.unroll(2):
                r_1[v, 0] = S_1[v * 4 + 3 - tx]
        for v in T.unroll(2):
            B[v * 4 + tx] = r_1[v, 0]
        """,
    )


def test_a_virtual_thread_cannot_wait_by_itself():
    refuses(
        t.InjectVirtualThread,
        """
        tx = T.launch_thread("threadIdx.x", 4)
        for v in T.thread_binding(2, thread="vthread.x"):
            if v == 0:
                T.tvm_storage_sync("shared")
            B[v * 4 + tx] = A[v * 4 + tx]
        """,
        "InjectVirtualThread: virtual thread v would come to a barrier or shuffle by itself",
    )


# SplitHostDevice ---------------------------------------------------------------------------------


def test_host_and_device():
    func = func_of(
        """
        C = T.allocate([8], "float32", "global")
        C_1 = T.decl_buffer((8,), data=C)
        with T.launch_thread("blockIdx.x", 2) as bx:
            tx = T.launch_thread("threadIdx.x", 4)
            C_1[bx * 4 + tx] = A[bx * 4 + tx] * T.float32(2)
        for r in range(3):
            with T.launch_thread("threadIdx.x", 8) as tx:
                S = T.allocate([8], "float32", "shared.dyn")
                S_1 = T.decl_buffer((8,), data=S, scope="shared.dyn")
                S_1[tx] = C_1[tx]
                T.tvm_storage_sync("shared.dyn")
                B[tx] = S_1[7 - tx] + T.Cast("float32", r)
        """
    )
    mod = t.SplitHostDevice()(IRModule.from_expr(func))
    assert verify_well_formed(mod)
    kernels = {v.name_hint: f for v, f in mod.items() if v.name_hint != "main"}
    assert (
        display.text(mod["main"])
        == dedent(
            """
        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            C = T.allocate([8], "float32", "global")
            C_1 = T.decl_buffer((8,), data=C)
            T.call_packed("main_kernel", A.data, C, 2, 4)
            for r in range(3):
                T.call_packed("main_kernel_1", B.data, C, r, 8, 32)
        """
        ).strip()
    )
    assert (
        display.text(kernels["main_kernel_1"])
        == dedent(
            """
        @T.prim_func
        def main_kernel_1(B: T.handle("float32", "global"), C: T.handle("float32", "global"), r: T.int32):
            T.func_attr({"tir.is_global_func": True, "tir.kernel_launch_params": ["threadIdx.x", "tir.use_dyn_shared_memory"]})
            tx = T.launch_thread("threadIdx.x", 8)
            C_1 = T.decl_buffer((8,), data=C)
            B_1 = T.decl_buffer((8,), data=B)
            S = T.allocate([8], "float32", "shared.dyn")
            S_1 = T.decl_buffer((8,), data=S, scope="shared.dyn")
            S_1[tx] = C_1[tx]
            T.tvm_storage_sync("shared.dyn")
            B_1[tx] = S_1[7 - tx] + T.Cast("float32", r)
        """  # noqa: E501
        ).strip()
    )
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    run_prim_func(mod["main"], [a, b], kernels=kernels)
    np.testing.assert_array_equal(b, a[::-1] * 2 + 2)


# VerifyGPUCode -----------------------------------------------------------------------------------

KERNEL = """
bx = T.launch_thread("blockIdx.{block}", {blocks})
ty = T.launch_thread("threadIdx.{axis}", {ty})
tx = T.launch_thread("threadIdx.x", {tx})
S = T.allocate([{size}], "float32", "{scope}")
S_1 = T.decl_buffer(({size},), data=S, scope="{scope}")
S_1[tx] = A[tx]
B[tx] = S_1[tx]
"""
FITS = {"block": "x", "blocks": 4, "axis": "y", "ty": 4, "tx": 32, "size": 64, "scope": "shared"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tx": 2048, "ty": 1}, "threadIdx.x has 2048 iterations, the GPU takes at most 1024"),
        (
            {"axis": "z", "ty": 65, "tx": 1},
            "threadIdx.z has 65 iterations, the GPU takes at most 64",
        ),
        (
            {"tx": 64, "ty": 32},
            "a block has 2048 threads (threadIdx.x 64 * threadIdx.y 32), the GPU takes at most "
            "1024",
        ),
        (
            {"block": "y", "blocks": 70000},
            "blockIdx.y has 70000 iterations, the GPU takes at most 65535",
        ),
        (
            {"size": 12289},
            "a block uses 49,168 bytes of shared memory (S 49,168), the GPU has 49,152",
        ),
        (
            {"size": 60000, "scope": "shared.dyn"},
            "a block uses 240,000 bytes of shared.dyn memory (S 240,000), the GPU has 166,912",
        ),
    ],
    ids=range(6),
)
def test_kernels_that_no_gpu_takes(change, message):
    assert verify_gpu_code(func_of(KERNEL.format(**FITS)), {})
    func = func_of(KERNEL.format(**{**FITS, **change}))
    assert not verify_gpu_code(func, GpuLimits.of(Target("cuda")))
    with pytest.raises(PassError) as caught:
        t.VerifyGPUCode()(IRModule.from_expr(func))
    assert caught.value.message == f"VerifyGPUCode: {message}"
    assert caught.value.hint


def test_limits_are_those_of_the_architecture():
    func = func_of(KERNEL.format(**{**FITS, "size": 50000, "scope": "shared.dyn"}))
    assert verify_gpu_code(func, GpuLimits.of(Target("cuda -arch=sm_90a")))
    assert not verify_gpu_code(func, GpuLimits.of(Target("cuda -arch=sm_86")))
    assert not verify_gpu_code(func, GpuLimits.of(Target("cuda -max_threads_per_block=64")))
    assert not verify_gpu_code(func_of(KERNEL.format(**FITS)), {"max_thread_x": 16})


def test_where_blocks_stand_the_axes_stay_loops_and_keep_what_was_noted_of_them():
    func = parse(
        """
@T.prim_func(private=True)
def func(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
    for i in T.thread_binding(8, thread="blockIdx.x"):
        for j in T.thread_binding(4, thread="threadIdx.x", annotations={"mark": 1}):
            with T.block("b"):
                B[i, j] = A[i, j]
        for k in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("c"):
                B[i, k] = B[i, k] + T.float32(1)
"""
    )
    expected = parse(
        """
@T.prim_func(private=True)
def func(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
    for i in T.thread_binding(8, thread="blockIdx.x"):
        for j in T.thread_binding(4, thread="threadIdx.x"):
            for one in T.serial(1, annotations={"mark": 1}):
                with T.block("b"):
                    B[i, j] = A[i, j]
            with T.block("c"):
                B[i, j] = B[i, j] + T.float32(1)
"""
    )
    mod = IRModule.make({"main": func})
    assert_structural_equal(t.UnifyThreadBinding()(mod)["main"], expected)


def test_statements_that_are_alike_are_asked_about_once():
    lines = "".join(f"        S[tx, {i}] = A[tx] + {i}.0\n" for i in range(12))
    lines += "".join(f"        B[tx] = B[tx] + S[tx, {i}]\n" for i in range(12))
    func = parse(
        f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    S = T.alloc_buffer((8, 12), "float32", scope="shared")
    for tx in T.thread_binding(8, thread="threadIdx.x"):
{lines}"""
    )
    threads._is_empty.cache_clear()
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    run_prim_func(func, [a, b], simulate=True)
    np.testing.assert_array_equal(b, a * 12 + 66)
    assert threads._is_empty.cache_info().misses <= 12 * 12
    asked = threads._is_empty.cache_info().misses
    run_prim_func(func, [a, b], simulate=True)
    assert threads._is_empty.cache_info().misses == asked

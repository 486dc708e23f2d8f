"""Requests and totals of kernels are those of the accesses that the reference interpreter makes."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import MLCError
from mlcnb.machine.warp import LANES
from mlcnb.observe.warps.kernels import kernels_of
from mlcnb.observe.warps.lens import warp_run
from mlcnb.observe.warps.requests import Request
from mlcnb.observe.warps.totals import Count, totals
from mlcnb.script import from_source
from mlcnb.script import tir as T
from mlcnb.testing.gallery.programs import matmul
from mlcnb.tir.schedule import Schedule
from tests.observe.warps.programs import copied, product, transposed


def interpreted(kernel) -> dict:
    """Requests by (site, loops, block, warp, turn), as the interpreter's threads make them."""
    found: dict = defaultdict(lambda: (np.zeros(LANES, np.int64), np.zeros(LANES, bool)))
    turns: dict = defaultdict(int)
    axes = {axis.var.name: tag for tag, axis in kernel.launch.axes.items()}

    def record(name, at, what, loops):
        instruction = kernel.instructions.get(int(name))
        if instruction is None:
            return
        of_tag = {tag: loops.get(var, 0) for var, tag in axes.items()}
        x, y, z = (of_tag.get(f"threadIdx.{c}", 0) for c in "xyz")
        thread = x + kernel.block[0] * (y + kernel.block[1] * z)
        block = tuple(of_tag.get(f"blockIdx.{c}", 0) for c in "xyz")
        own = tuple(sorted((n, i) for n, i in loops.items() if n not in axes))
        key = (int(name), own, block, thread)
        turn = turns[key]
        turns[key] += 1
        lanes = instruction.width // instruction.array.itemsize
        if turn % lanes == 0:
            row = found[int(name), own, block, thread // LANES, turn // lanes]
            row[0][thread % LANES] = at * instruction.array.itemsize
            row[1][thread % LANES] = True

    func = kernel.program.func
    args = [np.zeros([int(n.value) for n in b.shape], b.dtype.numpy) for b in func.buffers]
    run_prim_func(func, args, record)
    return found


def check(func) -> None:
    """Requests of every warp and the totals, against the interpreter's accesses."""
    (kernel,) = kernels_of(func)
    wanted = interpreted(kernel)
    counts: dict = defaultdict(Count)
    for (number, *_), (at, on) in wanted.items():
        r = Request(kernel.instructions[number], (), at, on)
        worst = int(r.served.worst[0])
        counts[number] += Count(1, int(on.sum()), r.taken, r.ideal, worst)
    found = totals(kernel)
    assert not found.unseen and found.blocks == found.of == kernel.blocks
    assert {n: c for n, c in found.counts.items() if c.requests} == dict(counts)
    by_hand = defaultdict(list)
    for (number, own, block, warp, _), row in wanted.items():
        by_hand[block, warp].append((number, own, row[0][row[1]].tolist(), np.flatnonzero(row[1])))
    for n in range(kernel.blocks):
        for warp in range(kernel.warps):
            run = warp_run(func, kernel.at(n), warp)
            told = [
                (r.instruction.number, tuple(sorted(r.loops)), r.at[r.active].tolist(),
                 np.flatnonzero(r.active)) for r in run.requests
            ]  # fmt: skip
            key = str
            assert sorted(map(key, told)) == sorted(map(key, by_hand[kernel.at(n), warp]))


@pytest.mark.parametrize("pad", [False, True])
def test_a_transpose_through_shared_memory(pad):
    check(transposed(64, pad))


@pytest.mark.parametrize("width", [1, 2, 4])
def test_a_copy_by_vectors(width):
    check(copied(512, width))


def test_a_tiled_product():
    check(product(32, 16))


TERMS = st.lists(
    st.sampled_from(
        [
            "tx", "tx * 2", "tx * 3", "tx * 32", "ty", "ty * 4", "ty * 33", "bx", "bx * 8", "k",
            "k * 16", "tx // 4", "tx % 8 * 5", "(tx + k) % 7", "(ty * 8 + tx) // 3",
            "(bx + k) // 2 * 4", "k * bx", "5",
        ]
    ),
    min_size=1, max_size=4,
)  # fmt: skip
GUARDS = st.sampled_from(
    [
        "",
        "if tx < 5:",
        "if bx * 24 + tx < 60:",
        "if (k + ty) % 2 == 0:",
        "if tx + k < 20 and ty > 0:",
    ]
)


@settings(max_examples=60, deadline=None)
@given(TERMS, st.permutations(["tx", "ty", "bx", "k"]), st.integers(0, 3), GUARDS,
       st.sampled_from(["float32", "float16", "int8", "float64"]),
       st.sampled_from([(24, 3), (32, 2), (8, 5), (40, 1)]))  # fmt: skip
def test_programs_of_any_index(read, order, pad, guard, dtype, block):
    x, y = block
    write, stride = [], 1
    for var in order:  # each thread writes elements of its own: the interpreter allows no races
        write.append(f"{var} * {stride}")
        stride = stride * {"tx": x, "ty": y, "bx": 3, "k": 3}[var] + pad
    inner = "                        " if guard else "                    "
    source = f"""
@T.prim_func
def func(A: T.Buffer((8192,), "{dtype}"), B: T.Buffer((4096,), "{dtype}")):
    for bx in T.thread_binding(3, thread="blockIdx.x"):
        for ty in T.thread_binding({y}, thread="threadIdx.y"):
            for tx in T.thread_binding({x}, thread="threadIdx.x"):
                for k in range(3):
{"                    " + guard if guard else ""}
{inner}with T.block("B"):
{inner}    T.reads(A[0:8192])
{inner}    T.writes(B[0:4096])
{inner}    B[{" + ".join(write)}] = A[{" + ".join(read)}]
"""
    check(from_source(source))


def test_naive_transpose_touches_32_sectors_for_4():
    run = warp_run(transposed(64, False, tiled=False))
    read, write = run.requests[:2]
    assert (read.taken, read.ideal, write.taken, write.ideal) == (4, 4, 32, 4)
    assert write.efficiency == 4 / 32 and write.lines == 32
    assert run.globals == Count(2 * 128, 2 * 4096, 128 * 36, 128 * 8, 32)


def test_one_column_of_padding_ends_the_conflict():
    plain, padded = (warp_run(transposed(1024, pad)) for pad in (False, True))
    assert plain.shared == Count(65536, 2097152, 32768 * 33, 65536, 32)
    assert padded.shared == Count(65536, 2097152, 65536, 65536, 1)
    assert plain.globals == padded.globals == Count(65536, 2097152, 262144, 262144, 4)
    column = plain.requests[8]
    assert column.ways == 32 and column.banks.tolist() == [0] * 32
    assert padded.requests[8].banks.tolist() == list(range(32))
    assert column.instruction.element(int(column.at[3])) == "A_shared[3, 0]"
    assert padded.requests[8].instruction.element(int(padded.requests[8].at[3])) == "A_shared[3, 0]"


def test_a_sample_of_the_blocks_is_said_to_be_one():
    source = """
@T.prim_func
def func(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32")):
    for bx in T.thread_binding(128, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("B"):
                T.reads(A[0:4096])
                T.writes(B[0:4096])
                if bx * 32 + tx < 4000:
                    B[bx * 32 + tx] = A[bx * 32 + tx]
"""
    (kernel,) = kernels_of(from_source(source))
    whole, some = totals(kernel), totals(kernel, most=32 * 16)
    assert (whole.blocks, whole.of, some.blocks, some.of) == (128, 128, 16, 128)
    assert sum(c.requests for c in whole.counts.values()) == 250
    assert sum(c.requests for c in some.counts.values()) == 30  # the last block runs in none


def test_what_values_in_memory_decide_is_named():
    @T.prim_func
    def func(
        A: T.Buffer((64,), "float32"), at: T.Buffer((64,), "int32"), B: T.Buffer((64,), "float32")
    ):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            with T.block("B"):
                T.reads(A[0:64], at[tx])
                T.writes(B[tx])
                B[tx] = A[at[tx]]

    run = warp_run(func)
    assert run.unseen == {"A[at[tx]]": "an index that is read from memory"}
    assert [(i.text, c.requests, c.taken) for i, c in run.counts] == [
        ("at[tx]", 2, 8),
        ("B[tx]", 2, 8),
    ]
    assert [r.instruction.text for r in run.requests] == ["at[tx]", "B[tx]"]


def test_what_is_refused():
    func = transposed(64, True)
    told = []
    for options in ({"block": (9, 0)}, {"warp": 8}, {"kernel": 1}):
        with pytest.raises(MLCError) as caught:
            warp_run(func, **options)
        told.append(str(caught.value))
    assert told == [
        "warp_lens: no block (9, 0)\nhint: the grid is (2, 2, 1): (x, y, z)",
        "warp_lens: no warp 8\nhint: a block of (32, 8, 1) has warps 0 to 7",
        "warp_lens: no kernel 1\nhint: there are 0 to 0",
    ]
    with pytest.raises(MLCError, match="no loop is bound to threads"):
        warp_run(Schedule(matmul(8, 8, 8)).mod["main"])

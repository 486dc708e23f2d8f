"""Blocks that say they write more than they store: what believes them was wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import ScheduleError
from mlcnb.core.node import walk
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir import TensorIntrin
from mlcnb.tir import stmt as s
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.legality.stored import stores_all


@T.prim_func
def two_of_four(A: T.Buffer((2,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(2):
        with T.block("B"):
            v = T.axis.spatial(2, i)
            B[v * 4] = A[v]
            B[v * 4 + 3] = A[v]


@T.prim_func
def by_hand(A: T.Buffer((4,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            T.reads(A[v])
            T.writes(B[v * 2 : v * 2 + 2])
            B[v * 2] = A[v]


@T.prim_func
def last_positive(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((1,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.reads(A[v])
            T.writes(B[0])
            if A[v] > T.float32(0):
                B[0] = A[v]
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = B[0]


@T.prim_func
def one_of_four(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((4,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.reads(A[v])
            T.writes(B[0:4])
            B[v % 4] = A[v]
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = B[0] + B[1] + B[2] + B[3]


@T.prim_func
def every_other(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((1,))
    for i in range(8):
        for k in range((i + 1) % 2):
            with T.block("B"):
                v, u = T.axis.remap("SS", [i, k])
                T.reads(A[v])
                T.writes(B[0])
                B[0] = A[v]
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = B[0]


@T.prim_func
def every_other_inside(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((1,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.reads(A[v])
            T.writes(B[0])
            for _k in range((v + 1) % 2):
                B[0] = A[v]
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = B[0]


@T.prim_func
def perhaps_never(n: T.int32, A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.reads(A[v])
            T.writes(B[v])
            for _k in range(n):
                B[v] = A[v]


@T.prim_func
def through_views(A: T.Buffer((2,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(2):
        with T.block("B"):
            v = T.axis.spatial(2, i)
            T.reads(A[v])
            T.writes(B[v * 4 : v * 4 + 4])
            low = T.match_buffer(B[v * 4 : v * 4 + 2], (2,), offset_factor=1)
            high = T.match_buffer(B[v * 4 + 2 : v * 4 + 4], (2,), offset_factor=1)
            for j in range(2):
                low[j] = A[v]
            for j in range(2):
                if A[v] > T.float32(0):
                    high[j] = A[v]


@pytest.mark.parametrize("func", [every_other_inside, perhaps_never, through_views])
def test_loops_that_may_not_run_and_views_are_no_stores(func):
    """A loop without an iteration, and a view of the same index elsewhere."""
    block = next(n for n in walk(func.body) if isinstance(n, s.Block) and n.name_hint == "B")
    assert not stores_all(block, block.writes[0])
    told = "block B writes elements of B on a condition, and the copy would write them always"
    with pytest.raises(ScheduleError, match=f"^cache_write: {told}"):
        Schedule(func).cache_write("B", 0, "local")


@pytest.mark.parametrize("func", [two_of_four, by_hand], ids=lambda x: x.attrs["global_symbol"])
def test_no_copy_of_what_is_not_stored(func):
    sch = Schedule(func)
    told = "block B does not store all that it says it writes of B, and the copy would write them"
    with pytest.raises(ScheduleError, match=f"^cache_write: {told}"):
        sch.cache_write("B", 0, "local")
    with pytest.raises(ScheduleError, match=f"^write_at: {told}"):
        sch.write_at(sch.get_loops("B")[0], "B", 0, "local")


@pytest.mark.parametrize(
    "func",
    [last_positive, one_of_four, every_other, every_other_inside],
    ids=lambda x: x.attrs["global_symbol"],
)
def test_iterations_that_read_what_another_one_left_are_not_parallel(func):
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match="loop i is not parallel: its iterations may touch"):
        sch.parallel(sch.get_loops("D")[0])


def test_a_store_at_a_place_that_memory_holds():
    """Where it is is not known: it stores all of one element only, and steps are still decided."""

    @T.prim_func
    def counted(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        with T.block("B"):
            T.reads(A[0:8])
            T.writes(B[0:8])
            at = T.alloc_buffer((1,), "int32")
            at[0] = 0
            for i in range(8):
                if A[i] > 0:
                    B[at[0]] = i
                    at[0] = at[0] + 1

    sch = Schedule(counted)
    (block,) = (n for n in walk(counted.body) if isinstance(n, s.Block) and n.name_hint == "B")
    assert not stores_all(block, block.writes[0])
    sch.bind(sch.add_unit_loop("B"), "threadIdx.x")


def test_stores_side_by_side_are_one():
    @T.prim_func
    def four(A: T.Buffer((2,), "float32"), B: T.Buffer((8, 2), "float32")):
        for i in range(2):
            with T.block("B"):
                v = T.axis.spatial(2, i)
                B[v * 4 + 3, 0] = A[v]
                for j in range(2):
                    B[v * 4 + j, 0] = A[v]
                    B[v * 4 + j, 1] = A[v]
                if A[v] > T.float32(0):
                    B[v * 4 + 3, 1] = A[v]
                else:
                    B[v * 4 + 3, 1] = T.float32(0)
                for j in range(2):
                    B[v * 4 + 2, j] = A[v]

    sch = Schedule(four)
    sch.cache_write("B", 0, "local")
    assert "B_local" in str(sch.mod)


VIEWED = """
@T.prim_func
def f(A: T.Buffer((32, 8), "float16"), n: T.int32):
    W = T.alloc_buffer((4, 32, 8), "float16", scope="warp")
    S = T.alloc_buffer((16, 16), "float16", scope="shared")
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            T.reads(S[0:16, 0:16], A[0:32, 0:8])
            T.writes(W[v, 0:32, 0:8])
            at = T.int32()
            F = T.match_buffer(W[v, 0:32, 0:8], (32, 8), "float16", elem_offset=at, scope="warp")
            {}
"""
LOADED = """for t in T.thread_binding(32, thread="threadIdx.x"):
                T.ptx_ldmatrix("float16", False, 4, ".b16", F.data, at + t * 8, S.data, t % 16 * 16)
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (LOADED, True),
        ("if v > 0:\n              " + LOADED, False),
        ("for k in range(n):\n              " + LOADED, False),
        ("for t, k in T.grid(32, 8):\n                F[t, k] = A[t, k]", True),
        ("for t, k in T.grid(32, 4):\n                F[t, k * 2] = A[t, k]", False),
    ],
    ids=["instruction", "on a condition", "perhaps never", "stores", "holes"],
)
def test_what_is_stored_in_a_view_is_stored(body, expected):
    """As `tensorize` leaves blocks: an instruction writes into a `match_buffer`."""
    func = parse(VIEWED.format(body), check_well_formed=False)
    block = next(n for n in walk(func.body) if isinstance(n, s.Block) and n.name_hint == "B")
    assert stores_all(block, block.writes[0]) is expected


def spread(call):
    """Four elements, each the second of eight: what it computes, and by a call or stores."""
    text = """
@T.prim_func
def f(a: T.handle, c: T.handle):
    A = T.match_buffer(a, (4,), "float32", offset_factor=1)
    C = T.match_buffer(c, (7,), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(C[0:7])
        {}
"""
    stores = "for i in range(4):\n            C[i * 2] = A[i]"
    desc = """for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                C[v * 2] = A[v]"""
    extern = 'T.call_extern("int32", "spread", C.access_ptr("w"), A.access_ptr("r"))'
    return parse(text.format(desc)), parse(text.format(extern if call else stores))


@pytest.mark.parametrize("call", [True, False])
def test_an_instruction_does_not_hide_what_is_left_out(call):
    TensorIntrin.register(f"test_stored.spread{call}", *spread(call))

    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), C: T.Buffer((16,), "float32")):
        for o, i in T.grid(2, 4):
            with T.block("B"):
                v = T.axis.spatial(8, o * 4 + i)
                C[v * 2] = A[v]

    sch = Schedule(f)
    if call:
        told = "block B_o does not store all that it says it writes of C, and behind the pointers"
        with pytest.raises(ScheduleError, match=f"^tensorize: {told} of test_stored.spreadTrue"):
            sch.tensorize(sch.get_loops("B")[1], "test_stored.spreadTrue")
        return
    sch.tensorize(sch.get_loops("B")[1], "test_stored.spreadFalse")
    block = sch.get(sch.get_block("B_o"))
    assert not stores_all(block, block.writes[0])


#: a store of a block: rows and columns from v on, the condition it stands under
STORES = st.tuples(
    st.integers(0, 2), st.integers(1, 3), st.integers(0, 2), st.integers(1, 3),
    st.sampled_from(["", "", "if v > 0:", "if A[v] > T.float32(0):"]),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(STORES, min_size=1, max_size=4))
def test_what_is_said_to_be_stored_is(stores):
    """The elements that runs really write, for two signs of what conditions ask."""
    lines = []
    for n, (row, rows, column, columns, condition) in enumerate(stores):
        pad = "                "
        if condition:
            lines.append(pad + condition)
            pad += "    "
        lines += [
            f"{pad}for a{n}, b{n} in T.grid({rows}, {columns}):",
            f"{pad}    B[v * 5 + {row} + a{n}, {column} + b{n}] = T.float32(1)",
        ]
    func = parse(
        "\n".join(
            [
                "@T.prim_func",
                'def f(A: T.Buffer((2,), "float32"), B: T.Buffer((10, 5), "float32")):',
                "    for i in range(2):",
                '        with T.block("B"):',
                "            v = T.axis.spatial(2, i)",
                "            if True:",
                *lines,
            ]
        )
    )
    block = next(n for n in walk(func.body) if isinstance(n, s.Block) and n.name_hint == "B")
    (region,) = block.writes
    if not stores_all(block, region):
        return
    low = [r.min for r in region.region]
    rows, columns = (int(r.extent.value) for r in region.region)
    for value in (-1.0, 1.0):
        B = np.zeros((10, 5), "float32")
        run_prim_func(func, [np.full(2, value, "float32"), B])
        written = np.argwhere(B[:5])
        (first, left), (last, right) = written.min(0), written.max(0)
        assert (last - first + 1, right - left + 1) == (rows, columns), low
        assert B[first : last + 1, left : right + 1].all()
        assert B[first + 5 : last + 6, left : right + 1].all()

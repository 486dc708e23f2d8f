"""Accesses found by NumPy are those that the reference interpreter records, in the same order."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb.arith.evaluate import Unknown
from mlcnb.core.errors import MLCError
from mlcnb.machine import stream as streams
from mlcnb.machine.addresses import placed
from mlcnb.machine.cache import Cache, run
from mlcnb.machine.stream import stream
from mlcnb.observe.access import interpreted, recorded
from mlcnb.script import from_source
from mlcnb.script import tir as T
from mlcnb.testing.gallery.programs import matmul
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.transform import lower
from tests.tir.schedule.random_steps import PROGRAMS, STEPS, attempt, scheduled


def same(func) -> bool:
    """Whether both ways find the same accesses; False where only the interpreter knows."""
    program = placed(func)
    try:
        quick = stream(program)
    except Unknown:
        return False
    slow = interpreted(program)
    assert np.array_equal(quick.addresses, slow.addresses)
    assert np.array_equal(quick.sites, slow.sites)
    return True


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(PROGRAMS)), st.integers(0, 10**6), st.sampled_from([1, 9, 70, 1 << 18])
)
def test_as_the_interpreter_records(name, seed, chunk):
    dice = random.Random(seed)
    sch = Schedule(PROGRAMS[name]())
    for _ in range(dice.randrange(5)):
        attempt(sch, dice.choice(sorted(set(STEPS) - {"bind"})), dice.choice)
    func = scheduled(sch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "CHUNK", chunk)
        try:
            same(func)
            same(lower(func))
        except MLCError as error:
            assert ("is not known" if name == "symbolic" else "GPU") in error.message


def test_every_access_of_a_small_program():
    @T.prim_func
    def func(A: T.Buffer((2, 3), "float32"), B: T.Buffer((3,), "int8")):
        for i, j in T.grid(2, 3):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj] = T.Cast("int8", A[vi, vj])

    program = placed(func)
    assert [(a.name, a.base, a.nbytes) for a in program.arrays] == [("A", 0, 24), ("B", 64, 3)]
    found = stream(program)
    assert found.addresses.tolist() == [0, 64, 4, 65, 8, 66, 12, 64, 16, 65, 20, 66]
    assert [program.sites[n].is_write for n in found.sites] == [False, True] * 6
    assert {site.block for site in program.sites} == {"B"}


def test_ragged_loops_conditions_vectors_and_lets():
    func = from_source(
        """
@T.prim_func
def func(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i):
            B[i, j] = T.if_then_else(j % 3 == 1 and i > 2, A[j, i], T.float32(0)) + A[i, j]
        if i % 2 == 0:
            for j in T.vectorized(4):
                B[i, j + 4] = A[i, j * 2]
        else:
            B[i, 0:8:2] = T.Select(i < 4, A[i, 0:4], A[0, 0:4])
        with T.LetStmt(i // 2) as h:
            B[h, h] = T.max(A[h, 0], A[h, 1])
"""
    )
    assert same(func)


def test_a_gather_is_left_to_the_interpreter():
    @T.prim_func
    def func(
        A: T.Buffer((8,), "float32"), at: T.Buffer((4,), "int32"), B: T.Buffer((4,), "float32")
    ):
        for i in range(4):
            B[i] = A[at[i]]

    program = placed(func)
    with pytest.raises(Unknown):
        stream(program)
    base = [a.base for a in program.arrays]
    at = np.array([5, 0, 5, 7], "int32")
    args = [np.zeros(8, "float32"), at, np.zeros(4, "float32")]
    found = recorded(program, args).addresses.reshape(4, 3)
    # the index is read before the element that it names
    assert found[:, 0].tolist() == [base[1] + 4 * i for i in range(4)]
    assert found[:, 1].tolist() == (4 * at).tolist()
    assert found[:, 2].tolist() == [base[2] + 4 * i for i in range(4)]
    assert (recorded(program).addresses.reshape(4, 3)[:, 1] == 0).all()


def test_allocations_are_those_of_the_compiled_program():
    sch = Schedule(matmul(16, 16, 16))
    i, j, _ = sch.get_loops("C")
    local = sch.cache_write("C", 0, "global")
    sch.reverse_compute_at(local, j)
    program = placed(scheduled(sch))
    assert [(a.name, a.shape, a.is_argument) for a in program.arrays] == [
        ("A", (16, 16), True),
        ("B", (16, 16), True),
        ("C", (16, 16), True),
        ("C_global", (1, 1), False),
    ]
    assert same(scheduled(sch))


def test_known_misses_of_a_program():
    level = Cache.of("32K/8way/64B")
    assert run(level, stream(placed(matmul(96, 96, 96))).addresses // 64).misses == 56_448
    sch = Schedule(matmul(96, 96, 96))
    split = [sch.split(loop, [None, 16]) for loop in sch.get_loops("C")]
    sch.reorder(*(outer for outer, _ in split), *(inner for _, inner in split))
    assert run(level, stream(placed(scheduled(sch))).addresses // 64).misses == 4_608


def refused(func, *args, **options) -> str:
    with pytest.raises(MLCError) as caught:
        recorded(placed(func), *args, **options)
    return str(caught.value)


def test_what_is_refused():
    assert refused(matmul(16, 16, 16), most=1000) == (
        "accesses: the program makes more than 1,000 accesses\n"
        "hint: first=1_000 plays where it begins; mlc.observe.access_counts counts all of "
        "them and plays none; or take smaller shapes: the order of its loops is the same"
    )

    @T.prim_func
    def open_size(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,))
        B = T.match_buffer(b, (n,))
        for i in range(n):
            B[i] = A[i]

    assert refused(open_size) == (
        "accesses: the shape of A is not known\n"
        "hint: take a program of fixed sizes: small ones show the same"
    )
    sch = Schedule(matmul(16, 16, 16))
    sch.bind(sch.get_loops("C")[0], "threadIdx.x")
    assert refused(scheduled(sch)) == (
        "accesses: the program runs on the threads of a GPU, which have no one order\n"
        "hint: mlc.observe.warp_lens(func) looks at its warps; or look at it before bind"
    )

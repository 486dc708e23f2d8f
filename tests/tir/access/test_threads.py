"""Accesses of threads that may meet: what isl is asked, and that it is the same question."""

from __future__ import annotations

from itertools import product

import pytest

from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.access.read import Reading
from mlcnb.tir.access.threads import Pending, Threads, _numbers
from mlcnb.tir.buffer import BufferLoad, decl_buffer

SIZE = 12


def accesses(store, load):
    """The variable of a loop that stores and loads B at these indices, the store, and the load."""
    t = e.Var("t", "int32")
    b, c = decl_buffer((3, 2, 2), "float32", "B"), decl_buffer((SIZE,), "float32", "C")
    stored, loaded = (tuple(map(p.as_expr, index(t))) for index in (store, load))
    body = s.seq(
        s.BufferStore(b, p.const(1.0, "float32"), stored),
        s.BufferStore(c, BufferLoad(b, loaded), (t,)),
    )
    loop = s.For(t, p.const(0), p.const(SIZE), s.ForKind.SERIAL, body)
    write, read = (x for x in Reading(loop, (b, c)).accesses if x.buffer is b)
    assert write.is_write and not read.is_write
    return t, write, read


def flat(t):
    """The digits of t."""
    return t // 4, t % 4 // 2, t % 2


@pytest.mark.parametrize("store, load", [
    (flat, flat),
    (flat, lambda t: ((t + 1) // 4 % 3, (t + 1) % 4 // 2, (t + 1) % 2)),
    (flat, lambda t: ((t + 4) // 4 % 3, t % 4 // 2, t % 2)),
    (flat, lambda t: (t // 4, t // 2 % 2, 1)),
    (lambda t: (t // 4, t % 4 // 2, 0), flat),
    (lambda t: (t // 4, t % 3 // 2, t % 2), flat),
    (lambda t: (t // 4, t % 4 // 2, t % 4 // 2), flat),
    (lambda t: (0, t // 6, t % 2), lambda t: (2 - t // 4, t % 4 // 2, 0)),
])  # fmt: skip
def test_threads_meet_where_their_indices_do(store, load):
    var, write, read = accesses(store, load)
    pairs = product(range(SIZE), repeat=2)
    wanted = any(i != j and store(i) == load(j) for i, j in pairs)
    found = Threads({var: p.const(SIZE)}).meeting(Pending(write), Pending(read))
    assert (found is not None) == wanted
    if found is not None:
        i, j = (side[var] for side in found.sides)
        assert i != j and store(i) == load(j) == found.index


def test_digits_of_a_number_are_asked_as_that_number():
    var, write, read = accesses(flat, flat)
    assert _numbers(write, read) == [(var, var)]


def test_what_may_be_no_digit_is_asked_as_it_is():
    _, write, read = accesses(lambda t: (t // 4, t % 4 // 2, t % 3), flat)
    (_, last) = _numbers(write, read)
    assert isinstance(last[0], e.FloorMod)

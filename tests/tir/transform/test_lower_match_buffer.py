"""LowerMatchBuffer: regions under other names, and those that do not fit."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import PassError
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.transform import LowerMatchBuffer, lower_match_buffer
from tests.tir.transform.lowering import check, check_lowering, run_pass


@T.prim_func
def match(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(4, 2):
        with T.block("b"):
            T.reads(A[i * 2 : i * 2 + 2, j * 4 : j * 4 + 4])
            T.writes(B[i * 2 : i * 2 + 2, j * 4 : j * 4 + 4])
            s = T.int32()
            X = T.match_buffer(
                A[i * 2 : i * 2 + 2, j * 4 : j * 4 + 4],
                (2, 4),
                "float32",
                strides=[s, 1],
                offset_factor=4,
            )
            Y = T.match_buffer(
                B[i * 2 : i * 2 + 2, j * 4 : j * 4 + 4],
                (2, 4),
                "float32",
                strides=["t", 1],
                offset_factor=1,
            )
            for a in range(2):
                with T.block("inner"):
                    T.reads(X[a, 0:4])
                    T.writes(Y[a, 0:4])
                    Z = T.match_buffer(X[a, 0:4], (4,), offset_factor=1)
                    for b in range(4):
                        Y[a, b] = Z[b] + T.Cast("float32", s)


def test_names_become_the_buffer_that_they_are_a_region_of():
    check(
        LowerMatchBuffer(),
        match,
        """
        for i, j in T.grid(4, 2):
            with T.block("b"):
                T.reads(A[i * 2:i * 2 + 2, j * 4:j * 4 + 4])
                T.writes(B[i * 2:i * 2 + 2, j * 4:j * 4 + 4])
                for a in range(2):
                    with T.block("inner"):
                        T.reads(A[i * 2 + a, j * 4:j * 4 + 4])
                        T.writes(B[i * 2 + a, j * 4:j * 4 + 4])
                        for b in range(4):
                            B[i * 2 + a, j * 4 + b] = A[i * 2 + a, j * 4 + b] + T.float32(8.0)
        """,
    )
    check_lowering(match, match)


@T.prim_func
def match_local(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    C = T.alloc_buffer((8, 8), "float32")
    for i, j in T.grid(4, 2):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi * 2 : vi * 2 + 2, vj * 4 : vj * 4 + 4])
            T.writes(C[vi * 2 : vi * 2 + 2, vj * 4 : vj * 4 + 4])
            Y = T.match_buffer(
                C[vi * 2 : vi * 2 + 2, vj * 4 : vj * 4 + 4],
                (2, 4),
                strides=["t", 1],
                offset_factor=1,
            )
            for a, b in T.grid(2, 4):
                Y[a, b] = A[vi * 2 + a, vj * 4 + b] + T.Cast("float32", T.int32(1))
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            for a, b in T.grid(2, 4):
                B[vi * 2 + a, vj * 4 + b] = C[vi * 2 + a, vj * 4 + b]


def test_a_region_of_a_local_buffer_follows_it_where_it_shrinks():
    check_lowering(match_local, match_local)


@pytest.mark.parametrize("func", [match, match_local])
def test_nothing_to_lower_the_second_time(func):
    once = run_pass(LowerMatchBuffer(), func)
    assert run_pass(LowerMatchBuffer(), once) is once


MISFIT = """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            X = T.match_buffer({0})
            B[i] = X[0]
"""


@pytest.mark.parametrize(
    ("match", "why"),
    [
        (
            "A[i, 0:4], (4,), strides=[2], offset_factor=1",
            "wants stride 0 to be 2, the region's is 1",
        ),
        ("A[i, 0:4], (8,), offset_factor=1", "wants dimension 0 to be 8, the region's is 4"),
        ("A[i, 0:4], (4,), elem_offset=8", "wants elem_offset to be 8, the region's is i * 8"),
        ("A[0:2, i], (2,), offset_factor=1", "has 1 dimensions"),
        ("A[i, 4:8], (4,), offset_factor=8", "wants an offset that is a multiple of 8"),
    ],
)
def test_what_does_not_fit_is_refused(match, why):
    with pytest.raises(PassError) as error:
        lower_match_buffer(parse(MISFIT.format(match)))
    assert error.value.message == f"LowerMatchBuffer: X, a region of A, {why}"
    assert error.value.hint == "use variables for strides and elem_offset, and offset_factor=1"

"""LowerMatchBuffer: regions under other names, and those that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.core.errors import MLCError, PassError, RuntimeInputError
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


FAR = """
@T.prim_func
def f(A: T.Buffer({shape}, "uint8"), B: T.Buffer((3,), "int64")):
    for i in range(1):
        with T.block("b"):
            vi = T.axis.spatial(1, i)
            T.reads(A[{starts}])
            T.writes(B[0:3])
            off = T.{kind}()
            s = T.{kind}()
            n = T.{kind}()
            X = T.match_buffer(A[{starts}], (1, n), "uint8", strides=[s, 1], elem_offset=off)
            B[0] = T.Cast("int64", off)
            B[1] = T.Cast("int64", s)
            B[2] = T.Cast("int64", n)
"""


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([(2, 4, 8), (3, 32768, 32768), (2, 65536, 32768), (5, 20000, 30000)]),
    st.tuples(*[st.sampled_from([0, 1, -1])] * 3),
    st.sampled_from(["int32", "int64"]),
    st.sampled_from(["interp", "llvm"]),
)
def test_offsets_of_views_are_exact_or_refused(shape, corner, kind, target):
    first, second, third = (at % n for at, n in zip(corner, shape, strict=True))
    starts = f"{first} + vi, {second}, {third}:{shape[2]}"
    func = parse(FAR.format(shape=shape, starts=starts, kind=kind))
    there = np.empty(shape, "uint8")  # its pages are not touched
    offset = (first * shape[1] + second) * shape[2] + third
    found = np.zeros(3, "int64")
    if kind == "int32" and offset >= 2**31:
        with pytest.raises(MLCError, match="off, elem_offset of X: index|cannot hold"):
            mlc.compile(func, target=target)(there, found)
    else:
        mlc.compile(func, target=target)(there, found)
        assert found.tolist() == [offset, shape[2], shape[2] - third]


def test_a_stride_that_its_variable_cannot_hold():
    func = parse(
        MISFIT.replace("(8, 8)", "(4, 65536, 65536)")
        .format('A[0:2, 0, 0:4], (2, 1, 4), strides=["s", "t", 1], offset_factor=1')
        .replace("X[0]", "X[0, 0, 0]")
    )
    with pytest.raises(PassError, match="has the stride 0 T.int64.4294967296., which int32 cannot"):
        lower_match_buffer(func)


OPEN = """
@T.prim_func
def f(a: T.handle, B: T.Buffer((1,), "int64")):
    n = T.int32()
    A = T.match_buffer(a, (n,), "uint8")
    with T.block("b"):
        B[0] = T.Cast("int64", n)
"""


@pytest.mark.parametrize("target", ["interp", "llvm"])
def test_a_size_of_an_argument_that_its_variable_cannot_hold(target):
    func = parse(OPEN)
    with pytest.raises(RuntimeInputError) as error:
        mlc.compile(func, target=target)(np.empty(2**32 + 5, "uint8"), np.zeros(1, "int64"))
    assert "dimension 0 is 4294967301, which 'n', an int32, cannot hold" in error.value.message
    assert error.value.hint == "declare the size as T.int64()"

"""NarrowDataType and ForceNarrowIndexToInt32: 32 bits where all values fit."""

from __future__ import annotations

import numpy as np
import pytest

from mlcnb import te, tir
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import PassError
from mlcnb.ir.structural import structural_equal
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.transform import (
    ForceNarrowIndexToInt32,
    NarrowDataType,
    force_narrow_index_to_int32,
    lower,
    narrow_data_type,
)
from tests.tir.schedule.random_steps import PROGRAMS
from tests.tir.transform.lowering import check, random_schedule, run_pass, same_bits


@T.prim_func
def wide(A: T.Buffer((T.int64(16),), "float32"), B: T.Buffer((T.int64(64),), "float32")):
    for i in range(T.int64(16)):
        x: T.int64 = i * T.int64(2)
        if i * T.int64(4) < T.int64(60):
            B[i * T.int64(4)] = A[i] + T.Cast("float32", x + T.int64(1))
        for j in range(T.int64(3)):
            B[i * T.int64(4) + j + T.int64(1)] = A[x // T.int64(2)]
        if i == T.int64(15):
            B[60] = T.Cast("float32", i * T.int64(4294967296) // T.int64(10))


def test_indices_that_fit_are_narrow_and_values_keep_their_width():
    check(
        NarrowDataType(),
        wide,
        """
        for i in range(16):
            x: T.int32 = i * 2
            if i * 4 < 60:
                B[i * 4] = A[i] + T.Cast("float32", T.Cast("int64", x + 1))
            for j in range(3):
                B[i * 4 + j + 1] = A[x // 2]
            if i == 15:
                B[60] = T.Cast("float32", T.Cast("int64", i) * T.int64(4294967296) // T.int64(10))
        """,
    )


LONG = """
@T.prim_func
def f(A: T.Buffer((T.int64(4294967296),), "float32")):
    for i in range(T.int64({0})):
        A[i * T.int64(4)] = T.float32(0)
"""


def test_what_does_not_fit_stays_wide():
    func = parse(LONG.format(1 << 31))
    assert run_pass(NarrowDataType(), func) is func
    after = narrow_data_type(parse(LONG.format(1 << 30)))
    assert "for i in range(1073741824):" in after.script()
    assert 'A[T.Cast("int64", i) * T.int64(4)]' in after.script()


SYMBOLIC = """
@T.prim_func
def f(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,))
    for i in range(n):
        A[i] = T.float32(0)
"""


def test_bounds_that_are_not_known_stay_wide():
    func = parse(SYMBOLIC)
    assert run_pass(NarrowDataType(), func) is func


def test_other_widths():
    after = run_pass(NarrowDataType(target_bits=16), wide)
    same_bits(wide, after)
    assert "x: T.int16 = i * T.int16(2)" in after.script()


@T.prim_func
def small(A: T.Buffer((T.int64(8),), "float32"), B: T.Buffer((T.int64(8),), "float32")):
    for i in range(T.int64(8)):
        B[i] = A[T.int64(7) - i] + T.Cast("float32", i)


def test_force_makes_all_of_it_narrow():
    after = check(
        ForceNarrowIndexToInt32(),
        small,
        """
        for i in range(8):
            B[i] = A[7 - i] + T.Cast("float32", i)
        """,
    )
    assert after.buffers[0].shape[0].dtype == "int32"


FORCED = """
@T.prim_func
def f(A: T.Buffer((8,), "{0}")):
    for i in range(8):
        A[i] = {1}
"""


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("int64", "T.int64(1)", "ForceNarrowIndexToInt32: A is int64"),
        (
            "float32",
            'T.Cast("float32", T.int64(4294967296) + T.Cast("int64", i))',
            "ForceNarrowIndexToInt32: 4294967296 does not fit",
        ),
    ],
)
def test_force_refuses_what_needs_64_bits(dtype, value, message):
    with pytest.raises(PassError) as error:
        force_narrow_index_to_int32(parse(FORCED.format(dtype, value)))
    assert error.value.message == message


@T.prim_func
def counting(n: T.int64, B: T.Buffer((T.int64(4), T.int64(9)), "int32")):
    for i in range(T.int64(9)):
        B[T.int64(0), i] = T.clz(i)
        B[T.int64(1), i] = T.clz(i - T.int64(4))
        B[T.int64(2), i] = T.popcount(i)
        B[T.int64(3), i] = T.popcount(i - n)


def test_bits_are_counted_as_of_64():
    after = run_pass(ForceNarrowIndexToInt32(), counting)
    assert after.params[0].dtype == "int32"
    assert "B[0, i] = T.clz(i) - 32 + 64" in after.script()
    for n in (0, 3, 20):
        one, two = np.zeros((4, 9), "int32"), np.zeros((4, 9), "int32")
        run_prim_func(counting, [n, one])
        run_prim_func(after, [n, two])
        np.testing.assert_array_equal(two, one)
    assert one[0].tolist() == [64, 63, 62, 62, 61, 61, 61, 61, 60]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_random_schedules_keep_every_bit(name):
    func = lower(random_schedule(name, 5))
    same_bits(func, narrow_data_type(func, 16))


def test_axes_of_blocks_and_of_threads_are_narrow_too():
    func = parse(
        """
@T.prim_func
def func(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    for i in range(T.int64(128)):
        with T.block("b"):
            vi = T.axis.spatial(T.int64(128), i)
            T.reads(A[vi])
            T.writes(B[vi])
            B[vi] = A[vi]
"""
    )
    narrow = parse(
        """
@T.prim_func
def func(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    for i in range(128):
        with T.block("b"):
            vi = T.axis.spatial(128, i)
            T.reads(A[vi])
            T.writes(B[vi])
            B[vi] = A[vi]
"""
    )
    assert structural_equal(narrow_data_type(func, 32), narrow)
    ib = tir.ir_builder.create()
    A = ib.pointer("float32", name="A")
    tx = te.thread_axis((0, tir.const(32, "int64")), "threadIdx.x")
    ib.scope_attr(tx, "thread_extent", tir.const(32, "int64"))
    A[tx] = tir.const(1.0)
    launch = narrow_data_type(tir.PrimFunc([A], ib.get()), 32).body
    kinds = (launch.node.var.dtype, launch.value.dtype, launch.body.indices[0].dtype)
    assert kinds == ("int32",) * 3

"""Divisions by sizes that only a run knows: before the loops, errors where the program divides."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import te, tir
from mlcnb.codegen.interp import run_prim_func
from mlcnb.codegen.llvm.emit import emit_kernel
from mlcnb.core.errors import ExecutionError
from mlcnb.script import parse
from mlcnb.tir.transform import lower

HEAD = """
@T.prim_func
def main(n: T.{kind}, m: T.{kind}, A: T.Buffer((64,), "int64"), B: T.Buffer((8, 4), "int64")):
"""

GUARDED = (
    HEAD
    + """
    for i in range(8):
        if n > 0:
            if m != 0:
                for k in range(4):
                    B[i, k] = A[T.max(T.min((i % n) // m + k, 63), 0)]
"""
)

BARE = (
    HEAD
    + """
    for i in range(8):
        for k in range(4):
            B[i, k] = A[T.max(T.min({left} // {right} + {left} % {right} + k, 63), 0)]
"""
)


def both(text: str, n: int, m: int) -> np.ndarray:
    """B of the compiled function, after comparing with the interpreter's."""
    func = parse(text)
    a = np.arange(64, dtype="int64") ** 2
    found, wanted = np.full((8, 4), -1, "int64"), np.full((8, 4), -1, "int64")
    mlc.compile(func)(n, m, a, found)
    run_prim_func(func, [n, m, a, wanted])
    np.testing.assert_array_equal(found, wanted)
    return found


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize(("n", "m"), [(3, 1), (0, 1), (3, 0), (0, 0), (-2, 5), (5, -1)])
def test_what_a_test_keeps_from_dividing_by_zero_runs(kind, n, m):
    """The division of a division too, whose divisor is tested elsewhere."""
    found = both(GUARDED.format(kind=kind), n, m)
    assert (found == -1).all() == (n <= 0 or m == 0)


@pytest.mark.parametrize("kind", ["int32", "int64"])
@given(
    n=st.integers(-70, 70).filter(bool),
    m=st.integers(-9, 9).filter(bool),
    pair=st.sampled_from([("i", "n"), ("(i * n)", "m"), ("(i % n)", "m"), ("(i - m)", "(n * n)")]),
)
def test_divisions_round_down(kind, n, m, pair):
    both(BARE.format(kind=kind, left=pair[0], right=pair[1]), n, m)


@pytest.mark.parametrize("pair", [("i", "n"), ("(i % n)", "m"), ("(i % m)", "n")])
def test_zero_stops_where_the_program_divides(pair):
    func = parse(BARE.format(kind="int32", left=pair[0], right=pair[1]))
    with pytest.raises(ExecutionError, match="integer division by zero"):
        mlc.compile(func)(0, 3, np.zeros(64, "int64"), np.zeros((8, 4), "int64"))


@pytest.mark.parametrize("place", ["(n - i) // m", "((n - i) // m) % 5 % m", "i // ((n - i) // m)"])
def test_the_least_number_by_minus_one_is_not_divided_ahead(place):
    """It has no quotient, and ends a process; a test keeps it from being asked for."""
    text = (
        HEAD.format(kind="int64")
        + f"""
    for i in range(8):
        if m > 0:
            for k in range(4):
                B[i, k] = A[T.max(T.min({place}, 63), 0)]
"""
    )
    assert (both(text, -(2**63), -1) == -1).all()


def test_no_loop_inside_divides():
    """A sum over channels, at places that come from one loop over rows and columns of any size."""
    h, w = te.var("h", "int64"), te.var("w", "int64")
    x = te.placeholder((16, w, h), name="X")
    k = te.reduce_axis((0, 16), "k")
    y = te.compute((h, w), lambda i, j: te.sum(x[k, j, i], axis=k), name="Y")
    sch = tir.Schedule(te.create_prim_func([x, y]))
    i, j, k = sch.get_loops(sch.get_block("Y"))
    sch.parallel(sch.fuse(i, j))
    text = emit_kernel(lower(sch.mod["main"]), "main", vector_bits=256).ir
    (body,) = re.findall(r"^define internal i32 @main\.par1\.body\(.*?^}", text, re.S | re.M)
    divisions = re.compile(r"\b(sdiv|udiv|srem|urem)\b")
    loops = re.split(r"^loop\d+:", body, flags=re.M)
    assert len(loops) == 3
    assert divisions.search(loops[1]) and not divisions.search(loops[2])
    data = np.random.default_rng(0).standard_normal((16, 7, 5)).astype("float32")
    found = np.zeros((5, 7), "float32")
    mlc.compile(sch.mod, schedule=None)(data, found)
    np.testing.assert_allclose(found, data.sum(0).T, rtol=1e-5)

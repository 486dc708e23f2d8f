"""Each construct, in both spellings: it reads back, it is saved, and it does what NumPy says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import MLCError
from mlcnb.ir import assert_structural_equal, load_json, save_json
from mlcnb.script import parse, script
from mlcnb.tir.analysis import verify_well_formed
from mlcnb.tir.function import PrimFunc
from tests.script.roundtrip import assert_round_trip
from tests.tir.constructs import ROWS, Row

NAMES = [row.name for row in ROWS]
RUN = [row for row in ROWS if row.after is not None]
each = pytest.mark.parametrize("row", ROWS, ids=NAMES)
each_that_runs = pytest.mark.parametrize("row", RUN, ids=[r.name for r in RUN])


def program(row: Row) -> PrimFunc:
    return parse(row.text, dialect=row.dialect)


def arguments(func: PrimFunc) -> list[Any]:
    """Small numbers for every parameter; a symbolic dimension is 5."""
    random = np.random.default_rng(7)
    return [_argument(random, func, param) for param in func.params]


def _argument(random: np.random.Generator, func: PrimFunc, param: Any) -> Any:
    if param not in func.buffer_map:
        return True if param.dtype.is_bool else 1.5 if param.dtype.is_float else _three(param.dtype)
    buffer = func.buffer_map[param]
    shape = [getattr(dim, "value", 5) for dim in buffer.shape]
    shape += [buffer.dtype.lanes] * (buffer.dtype.lanes != 1)
    if buffer.dtype.is_float:
        return np.asarray(random.random(shape) * 3 + 0.25).astype(buffer.dtype.numpy)
    high = min(8, buffer.dtype.max_value + 1)
    return random.integers(0, high, shape).astype(buffer.dtype.numpy)


def _three(kind: Any) -> int:
    return min(3, kind.max_value)


def equal(expected: list[Any], found: list[Any], rtol: float) -> None:
    for a, b in zip(expected, found, strict=True):
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            a, b = (x if x.dtype.kind in "biu" else x.astype("float64") for x in (a, b))
            np.testing.assert_allclose(b, a, rtol=rtol)


@each
def test_it_is_well_formed_and_reads_back(row: Row) -> None:
    func = program(row)
    verify_well_formed(func)
    assert_round_trip(func, ("0.21",) if row.scoped else ("0.21", "0.27"))
    assert_round_trip(parse(script(func, dialect="0.27")))


@each
def test_it_is_saved(row: Row) -> None:
    func = program(row)
    assert_structural_equal(load_json(save_json(func)), func)


@each_that_runs
def test_the_interpreter_does_what_numpy_says(row: Row) -> None:
    func = program(row)
    found, expected = arguments(func), arguments(func)
    result = run_prim_func(func, found)
    assert result == row.after(*expected)  # type: ignore[misc]
    equal(expected, found, 2e-7)


@each_that_runs
def test_llvm_does_what_the_interpreter_does(row: Row) -> None:
    func = program(row)
    if row.llvm is not None:
        with pytest.raises(MLCError) as caught:
            mlc.compile(func, target="llvm")
        assert caught.value.message == row.llvm
        return
    found, expected = arguments(func), arguments(func)
    result = mlc.compile(func, target="llvm")(*found)
    assert result == run_prim_func(func, expected)
    equal(expected, found, 1e-6)

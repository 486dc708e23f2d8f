"""Long rows are sorted by the digits of their keys: the order is that of short ones, NumPy's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.op._sort import BY_DIGITS
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.tir import SizeVar

KINDS = (
    "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
    "uint16", "uint32", "uint64", "bool",
)  # fmt: skip
EDGES = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.2e-38, -1.2e-38, 3.4e38, -3.4e38, 1.0, -1.0]


def values(kind: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """All bits that a dtype has, some values often."""
    rng = np.random.default_rng(seed)
    made = np.dtype(getattr(ml_dtypes, kind, kind))
    if kind == "bool":
        return rng.random(shape) < 0.5
    if made.kind in "iu":
        info = np.iinfo(made)
        found = rng.integers(info.min, info.max, shape, made, endpoint=True)
        few = rng.choice(np.array([0, 1, info.max, info.min], made), shape)
        return np.where(rng.random(shape) < 0.3, few, found)
    found = (rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 4, shape)).astype("float64")
    with np.errstate(over="ignore"):
        return np.where(rng.random(shape) < 0.3, rng.choice(EDGES, shape), found).astype(made)


def order(x: np.ndarray, descending: bool) -> np.ndarray:
    """By Python's sort, which is stable: NaN counts as larger than all numbers."""
    rows = []
    for row in x.reshape(-1, x.shape[-1]).astype("float64" if x.dtype.kind in "fV" else x.dtype):
        keys = [(v != v, 0 if v != v else v) for v in row.tolist()]
        places = range(len(keys))[:: -1 if descending else 1]
        found = sorted(places, key=keys.__getitem__)
        rows.append(found[:: -1 if descending else 1])  # of equal ones the first stays first
    return np.array(rows).reshape(x.shape)


def compiled(make: Any, shape: Any, kind: str, target: str = "llvm") -> Any:
    """An operator of one tensor."""
    bb = BlockBuilder()
    x = Var("x", tensor_info(shape, kind))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(make(x)))
    return mlc.compile(bb.get(), target=target)


@pytest.mark.parametrize("descending", [False, True], ids=["rising", "falling"])
@pytest.mark.parametrize("kind", KINDS)
def test_orders_of_all_dtypes(kind: str, descending: bool) -> None:
    x = values(kind, (2, BY_DIGITS + 3))
    ex = compiled(lambda v: op.argsort(v, descending=descending, dtype="int64"), x.shape, kind)
    np.testing.assert_array_equal(ex(x), order(x, descending))


@pytest.mark.parametrize("count", [BY_DIGITS - 1, BY_DIGITS, 3000])
def test_lengths_on_both_sides(count: int) -> None:
    x = values("float32", (3, count), 1).T.copy()
    ex = compiled(lambda v: op.sort(v, axis=0), x.shape, "float32")
    wanted = np.take_along_axis(x, order(x.T, False).T, 0)
    np.testing.assert_array_equal(ex(x).view("uint32"), wanted.view("uint32"))


@pytest.mark.parametrize("target", ["llvm", "cuda-sim", "interp"])
def test_rows_of_one_element_of_open_length(target: str) -> None:
    """None, one, all equal, many."""
    ex = compiled(op.unique, (SizeVar("n", "int64"),), "float32", target)
    short = values("float32", (40,), 2)
    for x in (short[:0], short[:1], np.full(9, -0.0, "float32"), short):
        got, wanted = ex(x), np.unique(x)
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("target", ["cuda-sim", "interp"])
def test_other_targets(target: str) -> None:
    x = values("int16", (BY_DIGITS,), 3)
    ex = compiled(lambda v: op.argsort(v, descending=True, dtype="int64"), x.shape, "int16", target)
    np.testing.assert_array_equal(ex(x), order(x, True))

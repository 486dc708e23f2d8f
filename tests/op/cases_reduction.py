"""Cases of reductions, scans, searches and sorts."""

from __future__ import annotations

import numpy as np

from mlcnb.op import median, reduction, scan, search, sorting
from tests.op.harness import Case, numbers, special

MODULES = tuple(f"mlcnb.op.{name}" for name in "reduction scan search sorting median".split())
SUMS = (reduction.Sum, reduction.Prod, reduction.Mean)
EXTREMES = (reduction.Max, reduction.Min)
SPREADS = (reduction.Variance, reduction.Std)
RTOL = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


def _reductions():
    for decl in (*SUMS, *EXTREMES, *SPREADS):
        for axis, keepdims in (
            (None, False),
            (1, True),
            ((0, -1), False),
            ((), False),
            (-1, False),
        ):
            yield Case(decl(axis, keepdims), [numbers((2, 3, 2))], RTOL["float32"])
        yield Case(decl(None, True), [numbers((3, 2))], RTOL["float32"])
        yield Case(decl(), [numbers(())], RTOL["float32"])
        for kind in ("float16", "bfloat16", "float64"):
            yield Case(decl(1), [numbers((2, 5), kind)], RTOL.get(kind, 1e-12))
        if decl not in SPREADS:
            for kind in ("int32", "int64", "uint32"):
                yield Case(decl(0), [numbers((3, 2), kind)])
    for decl in EXTREMES:
        yield Case(decl(0), [special().reshape(1, -1)])
        yield Case(decl(), [special()], note="nan")
        for kind in ("float32", "int32", "uint8", "bool", "float16"):
            yield Case(decl(1, True), [numbers((2, 0, 3), kind)], note="empty")
        for kind in ("bool", "int8", "uint8"):
            yield Case(decl(-1), [numbers((2, 4), kind)])
    for decl in (reduction.Sum, reduction.Prod):
        yield Case(decl(1), [numbers((2, 0, 3))], note="empty")
        yield Case(decl(1), [numbers((0, 2))], note="empty")
    wrapping = np.array([2**31 - 1, 1, 5], "int32")
    yield Case(reduction.Sum(), [wrapping], note="wraps")
    many = np.full(5000, 0.1, "float16")
    yield Case(reduction.Sum(), [many], 2e-3, note="wide")
    yield Case(reduction.Mean(0), [np.array([[-3, 3], [-4, 4]], "int32")], note="towards-zero")


def _scans():
    for decl in (scan.Cumsum, scan.Cumprod):
        for axis, exclusive in ((0, False), (1, True), (-1, False), (None, False), (None, True)):
            yield Case(decl(axis, None, exclusive), [numbers((2, 3, 2))], 1e-5)
        for kind in ("float16", "int32", "int64", "float64"):
            yield Case(decl(0), [numbers((4,), kind)], 4e-3 if kind == "float16" else 1e-12)
        yield Case(decl(1, "float64"), [numbers((2, 4), "int32")])
        yield Case(decl(0, "int64"), [numbers((3,), "int8")])
        yield Case(decl(), [numbers(())])
        yield Case(decl(0, None, True), [numbers((0, 2))])


def _searches():
    ties = np.array([[1, 3, 3, 0], [2, 2, 2, 2], [-1, -5, -1, -5]])
    holes = np.array([[1, np.nan, 3, np.nan], [-np.inf] * 4, [np.inf, 1, np.inf, -np.inf]])
    for decl in (search.Argmax, search.Argmin):
        for kind in ("float32", "int32", "int8", "float16", "float64"):
            for axis, keepdims in ((0, False), (1, True), (None, False), (-1, False)):
                yield Case(decl(axis, keepdims), [ties.astype(kind)])
        yield Case(decl(1), [holes.astype("float32")])
        yield Case(decl(), [holes.astype("float32")])
        yield Case(decl(0), [np.array([3, 200, 200], "uint8")])
        yield Case(decl(None, True), [ties.astype("float32")])
        yield Case(decl(0), [numbers((3, 0))], note="empty")
    edges = np.array([-1, 0, 0, 2.5], "float32")
    values = np.array([[-2, -1, 0, 1], [2.5, 3, np.nan, -np.inf]], "float32")
    for out_int32 in (False, True):
        for right in (False, True):
            yield Case(search.Bucketize(out_int32, right), [values, edges])
    yield Case(search.Bucketize(), [np.array([1, 5, 9]), np.array([2, 5, 8])])


def _sorts():
    for kind in ("float32", "int32", "float16", "bool", "uint8"):
        x = numbers((2, 7, 3), kind, 5, 0, 4)
        x = np.round(x) if kind.startswith("float") else x
        for axis in (0, 1, -1):
            yield Case(sorting.Sort(axis, axis == 1), [x])
            yield Case(sorting.Argsort(axis, axis != 1, "int64"), [x])
        yield Case(sorting.Topk(2, 1), [x])
    yield Case(sorting.Sort(), [special()])
    yield Case(sorting.Sort(-1, True), [special()])
    yield Case(sorting.Argsort(0, True), [special()])
    yield Case(sorting.Sort(), [numbers((1,))])
    yield Case(sorting.Sort(0), [numbers((0, 2))])
    yield Case(sorting.Sort(), [numbers((33,), "int64", 2, -9, 9)])
    x = np.array([[3, 1, 3, 2], [0, 0, 0, 0]], "float32")
    for ret_type in ("both", "values", "indices"):
        yield Case(sorting.Topk(3, -1, ret_type), [x])
        yield Case(sorting.Topk(1, 0, ret_type, False, "int64"), [x])
    yield Case(sorting.Topk(0), [x], note="all")


def _medians():
    for axis, keepdims in ((None, False), (None, True), (1, False), (-1, True), ((0,), False)):
        yield Case(median.Median(axis, keepdims), [numbers((4, 3, 5))])
    yield Case(median.Median(), [numbers(())])
    yield Case(median.Median(0), [np.array([3, 1, 2, 2], "int32")])
    yield Case(median.Median(0), [special()])


CASES = [*_reductions(), *_scans(), *_searches(), *_sorts(), *_medians()]

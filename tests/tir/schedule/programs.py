"""Small programs to schedule, and what tests ask of a schedule.

becomes(sch, text)         the body of the program is this text, and computes what it did before
refuses(sch, message)      a step is refused with this message, and the program is as it was
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
import pytest

from mlcnb import te, tir
from mlcnb.arith import Analyzer
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import ScheduleError
from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.tir import PrimFunc, Var, op
from mlcnb.tir.functor import substitute
from mlcnb.tir.schedule import Schedule, Trace
from mlcnb.tir.stmt import Block
from tests.printed import has_body, split_text


def elementwise(n: int = 16) -> PrimFunc:
    """B = A * 2, C = B + 1"""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + 1.0, name="C")
    return te.create_prim_func([A, C])


def copy_2d(n: int = 8, m: int = 8) -> PrimFunc:
    """B = A * 2 over two axes."""
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] * 2.0, name="B")
    return te.create_prim_func([A, B])


def matmul(n: int = 4, m: int = 4, k: int = 4) -> PrimFunc:
    """C = A @ B"""
    A = te.placeholder((n, k), name="A")
    B = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return te.create_prim_func([A, B, C])


def matmul_relu(n: int = 4, m: int = 4, k: int = 4) -> PrimFunc:
    """D = max(A @ B, 0)"""
    A = te.placeholder((n, k), name="A")
    B = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    D = te.compute((n, m), lambda i, j: p.maximum(C[i, j], p.const(0.0)), name="D")
    return te.create_prim_func([A, B, D])


def row_sum(n: int = 4, m: int = 8) -> PrimFunc:
    """B[i] = sum of A[i, :]"""
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    return te.create_prim_func([A, B])


def stencil(n: int = 14) -> PrimFunc:
    """B = A * 2, C[i] = B[i] + B[i + 1] + B[i + 2]"""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n - 2,), lambda i: B[i] + B[i + 1] + B[i + 2], name="C")
    return te.create_prim_func([A, C])


def padded_pool(n: int = 6) -> PrimFunc:
    """A sum over 3 x 3 windows of A with a border of zeros."""
    A = te.placeholder((n, n), name="A")

    def pad(i, j):
        inside = te.all(i >= 1, i < n + 1, j >= 1, j < n + 1)
        return te.if_then_else(inside, A[i - 1, j - 1], 0.0)

    P = te.compute((n + 2, n + 2), pad, name="pad")
    a, b = te.reduce_axis((0, 3), name="a"), te.reduce_axis((0, 3), name="b")
    C = te.compute((n, n), lambda i, j: te.sum(P[i + a, j + b], axis=[a, b]), name="C")
    return te.create_prim_func([A, C])


def padded_sum(n: int = 6) -> PrimFunc:
    """Sums of each element and the one before, with a zero in front."""
    A = te.placeholder((n,), name="A")
    P = te.compute((n + 1,), lambda i: te.if_then_else(i >= 1, A[i - 1], 0.0), name="pad")
    k = te.reduce_axis((0, 2), name="k")
    C = te.compute((n,), lambda i: te.sum(P[i + k], axis=k), name="C")
    return te.create_prim_func([A, C])


def softmax(n: int = 4, m: int = 6) -> PrimFunc:
    """Rows of exp(A - max) divided by their sums."""
    A = te.placeholder((n, m), name="A")
    k, r = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="r")
    M = te.compute((n,), lambda i: te.max(A[i, k], axis=k), name="M")
    E = te.compute((n, m), lambda i, j: op.exp(A[i, j] - M[i]), name="E")
    S = te.compute((n,), lambda i: te.sum(E[i, r], axis=r), name="S")
    D = te.compute((n, m), lambda i, j: E[i, j] / S[i], name="D")
    return te.create_prim_func([A, D])


def conv2d(
    height: int = 6, channels: tuple[int, int] = (2, 2), lanes: int = 4, stride: int = 1
) -> PrimFunc:
    """A direct convolution 3 x 3 in NCHWc layout with padding 1, bias and relu."""
    co, ci = channels
    X = te.placeholder((ci, height, height, lanes), name="X")
    W = te.placeholder((co, ci, 3, 3, lanes, lanes), name="W")
    bias = te.placeholder((co, lanes), name="b")

    def padded(c, y, x, v):
        inside = te.all(y >= 1, y < height + 1, x >= 1, x < height + 1)
        return te.if_then_else(inside, X[c, y - 1, x - 1, v], 0.0)

    P = te.compute((ci, height + 2, height + 2, lanes), padded, name="pad")
    out = (height - 1) // stride + 1
    r = [
        te.reduce_axis((0, n), name=x) for n, x in ((ci, "rc"), (3, "ry"), (3, "rx"), (lanes, "rv"))
    ]

    def conv(c, y, x, v):
        rc, ry, rx, rv = r
        value = P[rc, y * stride + ry, x * stride + rx, rv] * W[c, rc, ry, rx, rv, v]
        return te.sum(value, axis=r)

    shape = (co, out, out, lanes)
    C = te.compute(shape, conv, name="conv")
    D = te.compute(shape, lambda c, y, x, v: C[c, y, x, v] + bias[c, v], name="add")
    E = te.compute(shape, lambda *i: p.maximum(D(*i), p.const(0.0)), name="relu")
    return te.create_prim_func([X, W, bias, E])


def symbolic_chain() -> PrimFunc:
    """B = A * 2, C = B + 1, for any number n of elements."""
    n = Var("n", "int64")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + 1.0, name="C")
    return te.create_prim_func([A, C])


def symbolic_matmul_relu() -> PrimFunc:
    """D = max(A @ B, 0), n x k times k x 4, for any n and k that are the same number."""
    n = Var("n", "int64")
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, 4), name="B")
    r = te.reduce_axis((0, n), name="k")
    C = te.compute((n, 4), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    D = te.compute((n, 4), lambda i, j: p.maximum(C[i, j], p.const(0.0)), name="D")
    return te.create_prim_func([A, B, D])


def two_consumers(n: int = 12) -> PrimFunc:
    """B = A * 2, C = B + 1, D = B - C."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + 1.0, name="C")
    D = te.compute((n,), lambda i: B[i] - C[i], name="D")
    return te.create_prim_func([A, C, D])


def text(sch: Schedule) -> str:
    """The statements of the scheduled function."""
    return split_text(only(sch.mod))[1]


#: the values that symbolic dimensions take: smaller than a tile, and no multiple of one
SIZES = (1, 7, 16)


@lru_cache(maxsize=256)
def numbers(
    func: PrimFunc, size: int = SIZES[1], blank: bool = True, seed: int = 0, run: bool = True
) -> tuple[np.ndarray, ...]:
    """What a function makes of random inputs; with `blank`, its last buffer starts as NaN or 85.

    Without `run`: these inputs.
    """
    random = np.random.default_rng(seed)
    read = {r.buffer for n in walk(func.body) if isinstance(n, Block) for r in n.reads}
    last = None if func.buffers[-1] in read else func.buffers[-1]
    args: list = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        args.append(
            size if buffer is None else _filled(buffer, size, blank and buffer is last, random)
        )
    if run:
        run_prim_func(func, args)
    return tuple(x for x in args if isinstance(x, np.ndarray))


def _filled(buffer, size: int, written: bool, random) -> np.ndarray:
    shape = []
    for extent in buffer.shape:
        known = {v: p.const(size, v.dtype) for v in walk(extent) if isinstance(v, Var)}
        shape.append(int(Analyzer().simplify(substitute(extent, known))))
    kind = buffer.dtype.numpy
    if written:
        return np.full(shape, np.nan if buffer.dtype.is_float else 85, kind)
    if buffer.dtype.is_float:
        return random.standard_normal(shape).astype(kind)
    return random.integers(0, 9, shape).astype(kind)


def is_symbolic(func: PrimFunc) -> bool:
    """True if a dimension of a buffer is no number."""
    return any(p.as_int(n) is None for b in func.buffers for n in b.shape)


def same_numbers(before: PrimFunc, after: PrimFunc, rtol: float = 1e-5) -> None:
    """Both functions compute the same from the same inputs, and all of it."""
    reads = (r.buffer for n in walk(before.body) if isinstance(n, Block) for r in n.reads)
    blank = before.buffers[-1] not in reads
    for size in SIZES if is_symbolic(before) else SIZES[:1]:
        results = numbers(before, size, blank), numbers(after, size, blank)
        for x, y in zip(*results, strict=True):
            np.testing.assert_allclose(y, x, rtol=rtol, atol=rtol)
            assert x.dtype.kind not in "fV" or not np.isnan(x.astype("float32")).any()


def replays(sch: Schedule) -> None:
    """The trace as Python, as JSON and as it is does the same to the program as it was given."""
    space: dict = {"tir": tir}
    exec(str(sch.trace), space)  # noqa: S102
    written = json.loads(json.dumps(sch.trace.as_json()))
    for replay in (
        space["apply_trace"],
        lambda again: Trace.apply_json_to_schedule(written, again),
        sch.trace.apply_to_schedule,
    ):
        again = Schedule(sch.steps[0].mod)
        replay(again)
        assert_structural_equal(again.mod, sch.mod)
        assert again.trace.as_python() == sch.trace.as_python()


def becomes(sch: Schedule, expected: str) -> None:
    """The program now has this body, computes what it did at first, and is made again by its
    trace.
    """
    has_body(only(sch.mod), expected)
    same_numbers(only(sch.steps[0].mod), only(sch.mod))
    replays(sch)


def only(mod) -> PrimFunc:
    """The one function of a module."""
    (func,) = mod.functions.values()
    return func


@contextmanager
def refuses(sch: Schedule, message: str, hint: str | None = None) -> Iterator[None]:
    """The step inside is refused with exactly this message and hint, and changes nothing."""
    before, trace = sch.mod, str(sch.trace)
    with pytest.raises(ScheduleError) as caught:
        yield
    assert caught.value.message == message
    assert caught.value.hint == hint
    assert sch.mod is before
    assert str(sch.trace) == trace

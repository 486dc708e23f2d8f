"""Cases of operators that make tensors from shapes and numbers."""

from __future__ import annotations

import numpy as np

from mlcnb.op.creation import filled, matrix, sequence
from tests.op.harness import Case, numbers

MODULES = tuple(f"mlcnb.op.creation.{name}" for name in "filled matrix sequence".split())
SHAPES = ((2, 3), (), (0, 2))


def _filled():
    three = np.array(3.7, "float32")
    for shape in SHAPES:
        yield Case(filled.Full(), [shape, three])
        yield Case(filled.Full("int32"), [shape, three])
        yield Case(filled.FullLike(), [numbers(shape, "int64"), three])
        yield Case(filled.FullLike("float16"), [numbers(shape, "int64"), three])
        for decl, like in ((filled.Ones, filled.OnesLike), (filled.Zeros, filled.ZerosLike)):
            for kind in ("float32", "int8", "bool", "float16"):
                yield Case(decl(kind), [shape])
                yield Case(like(kind), [numbers(shape)])
            yield Case(like(), [numbers(shape, "uint8")])


def _matrices():
    for n, m, k in ((3, 3, 0), (2, 4, 1), (4, 2, -1), (1, 1, 5), (0, 2, 0)):
        yield Case(matrix.Eye(), [n, m, k])
        yield Case(matrix.EyeLike("int32"), [numbers((n, m)), k])
    yield Case(matrix.Eye("bool"), [2, 3, 0])
    yield Case(matrix.EyeLike(), [numbers((2, 2), "float16"), 0])
    for decl in (matrix.Tril, matrix.Triu):
        for k in (-4, -1, 0, 1, 9):
            yield Case(decl(), [numbers((2, 3, 4)), k])
        for kind in ("bool", "int64", "float16"):
            yield Case(decl(), [numbers((3, 2), kind), 0])
        yield Case(decl(), [numbers((0, 3)), 1])
        nans = np.full((2, 2), np.nan, "float32")
        yield Case(decl(), [nans, 0])


def _sequences():
    for kind in ("int64", "int32", "float32", "float16"):
        for start, end, step in ((0, 5, 1), (2, 9, 3), (5, 0, -2), (3, 3, 1), (4, 1, 1)):
            yield Case(sequence.Arange(kind), [start, end, step])
    for kind in ("float32", "float64", "float16"):
        yield Case(sequence.Arange(kind), [0.5, 3.25, 0.5])
        yield Case(sequence.Arange(kind), [1.0, -1.0, -0.25])
    for size in (0, 1, 2, 9):
        for periodic in (True, False):
            yield Case(sequence.HammingWindow(), [size, periodic, 0.54, 0.46])
    yield Case(sequence.HammingWindow("float64"), [6, False, 0.5, 0.5], 1e-6)
    yield Case(sequence.HammingWindow("float16"), [6, False, 0.5, 0.5])


CASES = [*_filled(), *_matrices(), *_sequences()]

"""Tensor expressions as functions of (te, tir): the same text makes them here and in Apache TVM."""

from __future__ import annotations

from typing import Any


def matmul(te: Any, tir: Any) -> list:
    A, B = te.placeholder((4, 16), name="A"), te.placeholder((16, 8), name="B")
    k = te.reduce_axis((0, 16), name="k")
    return [A, B, te.compute((4, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")]


def names_that_are_taken(te: Any, tir: Any) -> list:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda *i: A(*i) + 1.0, name="T_add")
    return [A, te.compute((8,), lambda *i: B(*i) * 2.0, name="T_add")]


def sum_of_all(te: Any, tir: Any) -> list:
    A = te.placeholder((4, 8), name="A")
    r, q = te.reduce_axis((0, 4), name="r"), te.reduce_axis((0, 8), name="q")
    return [A, te.compute((), lambda: te.sum(A[r, q], axis=[r, q]), name="B")]


def no_dimensions(te: Any, tir: Any) -> list:
    A = te.placeholder((), name="A")
    return [A, te.compute((), lambda: A() + 1.0, name="B")]


def argmax(te: Any, tir: Any) -> list:
    def combine(x: Any, y: Any) -> Any:
        first = x[1] >= y[1]
        return tir.Select(first, x[0], y[0]), tir.Select(first, x[1], y[1])

    def start(index: str, value: str) -> Any:
        return tir.const(-1, index), tir.min_value(value)

    largest = te.comm_reducer(combine, start, name="argmax")
    idx, A = te.placeholder((4, 8), "int32", name="idx"), te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    return [idx, A, *te.compute((4,), lambda i: largest((idx[i, k], A[i, k]), axis=k), name="T")]


def two_outputs(te: Any, tir: Any) -> list:
    A = te.placeholder((4,), name="A")
    return [A, *te.compute((4,), lambda i: (A[i] + 1.0, A[i] * 2.0), name="P")]


def symbolic(te: Any, tir: Any) -> list:
    A = te.placeholder((te.var("n"), 4), name="A")
    return [A, te.compute(A.shape, lambda i, j: A[i, j] + 1.0, name="B")]


def padded(te: Any, tir: Any) -> list:
    A = te.placeholder((4,), name="A")
    zero = tir.const(0.0, "float32")

    def element(i: Any) -> Any:
        return tir.if_then_else(tir.all(i >= 1, i < 5), A[i - 1], zero)

    return [A, te.compute((6,), element, name="P")]


def scalar(te: Any, tir: Any) -> list:
    a, A = te.var("a", "float32"), te.placeholder((4,), name="A")
    return [a, A, te.compute((4,), lambda i: A[i] * a, name="B")]


def annotated(te: Any, tir: Any) -> list:
    A = te.placeholder((4,), name="A")
    return [A, te.compute((4,), lambda i: A[i] + 1.0, name="B", attrs={"key": 1})]


def names_of_nobody(te: Any, tir: Any) -> list:
    A = te.placeholder((4, 8))
    return [A, te.compute((4, 8), lambda i, j: A[i, j] + 1.0)]


def names_of_axes(te: Any, tir: Any) -> list:
    A = te.placeholder((4, 8), name="A")
    names = ["p", "q"]
    return [A, te.compute((4, 8), lambda *at: A[at] + 1.0, name="B", varargs_names=names)]


def one_name_for_two(te: Any, tir: Any) -> list:
    A = te.placeholder((4,), name="A")
    return [A, te.compute((4,), lambda i: A[i] + 1.0, name="A")]


PROGRAMS = [
    matmul, names_that_are_taken, sum_of_all, no_dimensions, argmax, two_outputs, symbolic, padded,
    scalar, annotated, names_of_nobody, names_of_axes, one_name_for_two,
]  # fmt: skip

"""LoopPartition by option and by mark: open extents, tests that hold nowhere, marked loops."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.codegen.interp import run_prim_func
from mlcnb.ir.transform import PassContext
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir import PrimFunc
from mlcnb.tir.transform import LoopPartition, Simplify
from tests.tir.transform.lowering import run_pass, same_bits, statements

CONSTANT = {"tir.LoopPartition": {"partition_const_loop": True}}


def cut(func: PrimFunc, config: dict | None = None) -> PrimFunc:
    with PassContext(config=config or {}):
        return run_pass(LoopPartition(), func)


@T.prim_func
def open_tail(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range((n + 3) // 4):
        for j in range(4):
            if T.likely(i * 4 + j < n):
                B[i * 4 + j] = A[i * 4 + j] + T.float32(1)


def test_a_loop_of_open_extent_is_cut_at_a_marked_test():
    after = run_pass(Simplify(), cut(open_tail))
    first, second = after.body.seq
    assert "if" not in first.script() and "if" in second.script()
    for n in range(13):
        x, y = np.arange(n, dtype="float32"), np.zeros(n, "float32")
        run_prim_func(after, [x, y])
        np.testing.assert_array_equal(y, x + 1)


@T.prim_func
def marked(A: T.Buffer((1600,), "int32"), B: T.Buffer((1600,), "int32")):
    for i in range(11):
        for j in range(160):
            if T.likely(i * 160 + j < 1600):
                B[i * 160 + j] = A[i * 160 + j]


def test_loops_of_constant_extent_are_cut_by_option():
    whole = "for i, j in T.grid(11, 160):\n    if i * 160 + j < 1600:"
    assert statements(cut(marked, {"tir.LoopPartition": {}})).startswith(whole)
    after = run_pass(Simplify(), cut(marked, CONSTANT))
    assert statements(after) == (
        "for i, j in T.grid(10, 160):\n    B[i * 160 + j] = A[i * 160 + j]"
    )
    same_bits(marked, after)


def test_a_marked_loop_is_cut_at_every_test_and_keeps_its_other_annotations():
    @T.prim_func
    def parts(A: T.Buffer((160,), "int32"), B: T.Buffer((160,), "int32")):
        for i in range(160, annotations={"pragma_loop_partition_hint": True, "key": "value"}):
            if i < 10:
                B[i] = A[i] + 1
            elif i < 150:
                B[i] = A[i] + 2
            else:
                B[i] = A[i] + 3

    after = run_pass(Simplify(), cut(parts, CONSTANT))
    assert (
        statements(after)
        == """
for i in T.serial(10, annotations={"key": "value"}):
    B[i] = A[i] + 1
for i in T.serial(140, annotations={"key": "value"}):
    B[i + 10] = A[i + 10] + 2
for i in T.serial(10, annotations={"key": "value"}):
    B[i + 150] = A[i + 150] + 3
""".strip()
    )
    same_bits(parts, after)


@pytest.mark.parametrize(
    "body",
    [
        "        if T.likely(A[i] < 5):\n            B[i] = 1",
        "        x = A[i]\n        if T.likely(i < x):\n            B[i] = 1",
        "        if T.likely(i % 3 < 2):\n            B[i] = 1",
        "        if T.likely(i < 8):\n            B[i] = 1\n            T.break_loop()",
    ],
)
def test_what_is_not_known_before_the_loop_cuts_nothing(body):
    text = "@T.prim_func\ndef main(A: T.Buffer((16,), 'int32'), B: T.Buffer((16,), 'int32')):\n"
    func = parse(text + "    for i in range(16):\n" + body)
    after = cut(func, CONSTANT)
    assert statements(after) == re.sub(r"T\.likely\((.*)\):", r"\1:", statements(func))
    same_bits(func, after)


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Two loops of open or known extent, tests of both in them."""
    lines = ["    for i in range({}):", "        for j in range({}):"]
    extents = [draw(st.sampled_from(["n", "5", "n + 1", "(n + 3) // 4"])) for _ in lines]
    lines = [line.format(extent) for line, extent in zip(lines, extents, strict=True)]
    for depth in range(draw(st.integers(1, 2))):
        a, b, c = (draw(st.integers(-3, 3)) for _ in range(3))
        word = draw(st.sampled_from(["<", "<=", ">", ">="]))
        size = draw(st.sampled_from(["n", "0", "6"]))
        test = f"if T.likely(i * {a} + j * {b} + {c} {word} {size}):"
        lines.append("    " * (3 + depth) + test)
    indent = "    " * (len(lines) + 1)
    lines.append(f"{indent}B[i, j] = B[i, j] + i * 100 + j")
    head = "@T.prim_func\ndef main(n: T.int32, B: T.Buffer((12, 12), 'int32')):"
    return "\n".join([head, *lines])


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(programs(), st.booleans())
def test_random_loops_mean_the_same(source, constant):
    func = parse(source)
    after = cut(func, CONSTANT if constant else None)
    for n in (1, 4, 7):
        one, two = np.zeros((12, 12), "int32"), np.zeros((12, 12), "int32")
        run_prim_func(func, [n, one])
        run_prim_func(after, [n, two])
        np.testing.assert_array_equal(two, one, err_msg=f"n = {n}\n{after.script()}")


def test_it_compiles():
    x, y = np.arange(30, dtype="float32"), np.zeros(30, "float32")
    mlc.compile(cut(open_tail), target="llvm")(x, y)
    np.testing.assert_array_equal(y, x + 1)

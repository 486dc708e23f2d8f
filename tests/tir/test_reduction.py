"""Which updates are reductions, and with what they combine."""

from __future__ import annotations

import pytest

from mlcnb import te, tir
from mlcnb.script import parse
from mlcnb.tir import analysis


def block_of(init, update):
    text = f"""
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {init}
            C[vi] = {update}
"""
    return analysis.find_block(parse(text), "C").block


@pytest.mark.parametrize(
    ("init", "update", "reducer", "value", "is_sound"),
    [
        ("T.float32(0)", "C[vi] + A[vi, vk]", "sum", "A[vi, vk]", True),
        ("T.float32(0)", "A[vi, vk] + C[vi]", "sum", "A[vi, vk]", True),
        ("T.float32(1)", "C[vi] + A[vi, vk]", "sum", "A[vi, vk]", False),
        ("T.float32(1)", "C[vi] * A[vi, vk]", "prod", "A[vi, vk]", True),
        ("T.min_value('float32')", "T.max(C[vi], A[vi, vk])", "max", "A[vi, vk]", True),
        ("T.float32('-inf')", "T.max(C[vi], A[vi, vk])", "max", "A[vi, vk]", True),
        ("T.float32('-inf')", "T.min(C[vi], A[vi, vk])", "min", "A[vi, vk]", False),
        ("T.max_value('float32')", "T.min(C[vi], A[vi, vk])", "min", "A[vi, vk]", True),
        ("T.float32(0)", "C[vi] + A[vi, vk] + A[vk, vi]", "sum", "A[vi, vk] + A[vk, vi]", True),
    ],
)
def test_updates(init, update, reducer, value, is_sound):
    found = analysis.reduction_pattern(block_of(init, update))
    assert (found.reducer, str(found.values[0]), found.is_sound) == (reducer, value, is_sound)
    assert [b.name for b in found.buffers] == ["C"] and [v.var.name for v in found.axes] == ["vk"]


@pytest.mark.parametrize(
    "update", ["C[vi] - A[vi, vk]", "A[vi, vk]", "C[vi] + C[vi]", "C[vi] + A[vi, vk] * C[vi]"]
)
def test_what_is_no_reduction(update):
    assert analysis.reduction_pattern(block_of("T.float32(0)", update)) is None


def test_several_values_at_once():
    A, k = te.placeholder((8, 8), name="A"), te.reduce_axis((0, 8), "k")

    def largest(lhs, rhs):
        first = lhs[1] >= rhs[1]
        return te.Select(first, lhs[0], rhs[0]), te.Select(first, lhs[1], rhs[1])

    reducer = te.comm_reducer(largest, lambda i, v: (tir.const(-1, i), te.min_value(v)))
    func = te.create_prim_func([A, *te.compute((8,), lambda i: reducer((k.var, A[i, k]), axis=k))])
    (block,) = (realize.block for realize in analysis.blocks_of(func))
    found = analysis.reduction_pattern(block)
    assert found.reducer == "custom" and len(found.buffers) == 2

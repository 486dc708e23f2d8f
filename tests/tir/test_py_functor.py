"""Visitors and mutators of loop programs that a person writes."""

from __future__ import annotations

import numpy as np

import mlcnb as tvm
from mlcnb import tir
from mlcnb.script import tir as T


@T.prim_func
def program(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + T.if_then_else(vk < 4, A[vi, vk], T.float32(1) - A[vi, vk])


@tir.functor.visitor
class Counts(tir.PyStmtExprVisitor):
    def __init__(self):
        super().__init__()
        self.loops, self.stores, self.loads, self.names = [], 0, 0, []

    def visit_for_(self, op):
        self.loops.append(int(op.extent))
        super().visit_for_(op)

    def visit_buffer_store_(self, op):
        self.stores += 1
        super().visit_buffer_store_(op)

    def visit_buffer_load_(self, op):
        self.loads += 1

    def visit_var_(self, op):
        self.names.append(op.name)


def test_a_visitor():
    seen = Counts()
    seen.visit_stmt(program.body)
    assert (seen.loops, seen.stores, seen.loads) == ([4, 8], 2, 3)
    assert set(seen.names) == {"i", "k", "vi", "vk"}


@tir.functor.mutator
class SubToAdd(tir.PyStmtExprMutator):
    def visit_sub_(self, op):
        op = super().visit_sub_(op)
        return op.a + op.b

    def visit_float_imm_(self, op):
        return tir.const(3.0, "float32") if op.value == 1 else op


def test_a_mutator():
    assert tir.PyStmtExprMutator().visit_stmt(program.body) is program.body
    body = SubToAdd().visit_stmt(program.body)
    func = program.with_body(body)
    assert "T.float32(3.0) + A[vi, vk]" in func.script() and " - " not in func.script()
    a = np.random.standard_normal((4, 8)).astype("float32")
    b = np.zeros(4, "float32")
    tvm.build(func, target="llvm")(a, b)
    expected = a[:, :4].sum(1) + (3 + a[:, 4:]).sum(1)
    np.testing.assert_allclose(b, expected, rtol=1e-5, atol=1e-5)


def test_substitution_leaves_what_it_does_not_change():
    """Buffers are told apart by identity: one whose shape is `n + 1` is no other one afterwards."""

    @T.prim_func
    def func(a: T.handle, b: T.handle, m: T.int64, i: T.int32):
        n = T.int64()
        A = T.match_buffer(a, (m + T.int64(1), T.Select(n > T.int64(2), n, T.int64(2))), "float32")
        B = T.match_buffer(b, (n, T.Cast("int64", i), T.if_then_else(m > T.int64(2), m, m + 3)))
        for j in range(4):
            B[j, 0, 0] = A[j + 1, T.if_then_else(not (j == i), j, 1)]

    other = tir.Var("other", "int32")
    assert tir.functor.substitute(func.body, {other: tir.const(1, "int32")}) is func.body
    j = func.body.loop_var
    made = tir.functor.substitute(func.body.body, {j: tir.const(0, "int32")})
    before = func.body.body
    assert made.buffer is before.buffer
    assert made.value.buffer is before.value.buffer
    assert made.value.indices[0].value == 1

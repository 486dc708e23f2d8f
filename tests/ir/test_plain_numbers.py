"""Constructors take plain numbers and lists, as those who write TVM's classes give them."""

from __future__ import annotations

import pytest

from mlcnb import tir
from mlcnb.core.errors import NotEqualError
from mlcnb.ir.structural import assert_structural_equal, structural_equal, structural_hash

x = tir.Var("x", "int64")
A = tir.decl_buffer((16,), "float32", "A")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (tir.Add(x, 1), "x + T.int64(1)"),
        (tir.LE(2, x), "T.int64(2) <= x"),
        (tir.Add(1, 2), "T.Add(1, 2)"),
        (tir.Max(1.5, 2), "T.max(T.float32(1.5), 2)"),
        (tir.Select(True, 1, x), "T.Select(T.bool(True), T.int64(1), x)"),
        (tir.Not(False), "not T.bool(False)"),
        (tir.Ramp(0, 1, 4), "T.Ramp(0, 1, 4)"),
        (tir.Broadcast(0.5, 4), "T.Broadcast(T.float32(0.5), 4)"),
        (tir.Cast("int8", 3), "T.Cast(\"int8\", 3)"),
        (tir.Call("int32", "tir.call_extern", ["f", 1]), 'T.call_extern("int32", "f", 1)'),
        (tir.BufferStore(A, 1, [0]), "A[0] = T.float32(1.0)"),
        (tir.Evaluate(0), "T.evaluate(0)"),
        (
            tir.For(tir.Var("i"), 0, 16, tir.ForKind.PARALLEL, tir.Evaluate(1)),
            "for i in T.parallel(16):\n    T.evaluate(1)",
        ),
        (tir.IfThenElse(True, tir.Evaluate(1)), "if T.bool(True):\n    T.evaluate(1)"),
    ],
)  # fmt: skip
def test_numbers_become_constants(made, text):
    assert made.script() == text


def test_lists_become_tuples():
    made = tir.SeqStmt([tir.Evaluate(0), tir.BufferStore(A, 0, [1])])
    assert type(made.seq) is tuple and type(made.seq[1].indices) is tuple
    block = tir.Block([], [], [], "b", made, annotations={"k": [1]})
    assert block.iter_vars == () and block.alloc_buffers == ()
    func = tir.PrimFunc([A.data], tir.BlockRealize([], True, block), None, {A.data: A}, None)
    assert func.params == (A.data,) and func.attrs == {} and func.buffers == (A,)


def test_a_list_and_an_offset_of_zero_make_no_difference():
    others = [tir.Evaluate(0), tir.Evaluate(1)]
    one, two = (tir.Block((), (), (), "b", others[0], annotations={"k": v}) for v in ([1], (1,)))
    assert structural_equal(one, two) and structural_hash(one) == structural_hash(two)
    at_zero = tir.decl_buffer((16,), elem_offset=0)
    assert structural_equal(at_zero, tir.decl_buffer((16,)), map_free_vars=True)
    with pytest.raises(NotEqualError) as caught:
        assert_structural_equal(*others)
    assert isinstance(caught.value, ValueError)

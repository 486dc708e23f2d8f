"""Tensors as JSON text."""

from __future__ import annotations

import pytest

from mlcnb import te, tir
from mlcnb.core.errors import ArgumentError
from mlcnb.ir import load_json, save_json, structural_equal


def test_a_compute_comes_back_with_what_it_reads():
    A = te.placeholder((te.var("m"), 8), name="A")
    B = te.compute(A.shape, lambda i, j: A[i, j] * 2, name="B")
    k = te.reduce_axis((0, 8), "k")
    attrs = {"hello": 1, "arr": [10, 12]}
    C = te.compute((A.shape[0],), lambda i: te.sum(B[i, k], axis=k), name="C", attrs=attrs)
    found = load_json(save_json(C))
    assert isinstance(found, te.Tensor) and str(found) == str(C)
    assert (found.op.attrs["hello"], list(found.op.attrs["arr"])) == (1, [10, 12])
    (b,) = found.op.input_tensors
    (a,) = b.op.input_tensors
    before, after = te.create_prim_func([A, C]), te.create_prim_func([a, found])
    assert structural_equal(before, after)


def test_a_scan_comes_back():
    m, n = te.var("m"), te.var("n")
    x, state = te.placeholder((m, n)), te.placeholder((m, n))
    init = te.compute((1, n), lambda _, i: x[0, i])
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i])
    found = load_json(save_json(te.scan(init, update, state).op))
    assert isinstance(found, te.ScanOp) and found.num_outputs == 1


def test_a_tag_scope_in_another_is_a_value_error():
    with te.tag_scope(tag="a"), pytest.raises(ArgumentError) as error, te.tag_scope(tag="b"):
        pass
    assert isinstance(error.value, ValueError)
    assert str(error.value) == "tag_scope 'b' stands in tag_scope 'a'"


def test_variables_of_a_pointer_type():
    from mlcnb import ir

    kind = ir.PointerType(ir.PrimType("float32"), "local")
    for v in (te.var("v", kind), tir.Var("v", kind)):
        assert (v.dtype, v.pointee, v.type_annotation) == ("handle", ("float32", "local"), kind)
    assert tir.Var("n", ir.PrimType("int64")).dtype == "int64"

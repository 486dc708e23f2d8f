"""Words of TVM's Python that tests and tutorials use: Any, EqualOp, convert, make_node, op.name."""

from __future__ import annotations

import pytest

from mlcnb import arith, ir, runtime, te, tir
from mlcnb.core.errors import ArgumentError, NotEqualError


def test_unknown_numbers_equal_themselves_only():
    a, b = tir.Any(), tir.Any()
    analyzer = arith.Analyzer()
    assert ir.structural_equal(analyzer.rewrite_simplify(a - a), 0)
    assert ir.structural_equal(analyzer.rewrite_simplify(a - b), a - b)
    assert not analyzer.can_prove_equal(a, b)


def test_comparisons_are_what_they_look_like():
    x = te.var("x")
    assert isinstance(x == 1, tir.expr.EqualOp) and isinstance(x != 1, tir.expr.NotEqualOp)
    assert (x == 1).asobject().a is x


def test_plain_values_become_constants():
    assert ir.structural_equal(runtime.convert(1), tir.const(1, "int32"))
    assert ir.structural_equal(runtime.convert([1, True]), (tir.const(1), tir.const(True)))
    assert runtime.convert(None) is None
    assert runtime.ObjectPath is ir.ObjectPath


def test_a_number_is_a_constant_to_structural_equality():
    assert ir.structural_equal(tir.const(False), False)
    assert not ir.structural_equal(tir.const(1, "int64"), 1)
    with pytest.raises(NotEqualError):
        ir.assert_structural_equal(tir.const(2), 1)


def test_attributes_by_their_constructor():
    assert ir.make_node("ir.DictAttrs", key="value") == {"key": "value"}
    with pytest.raises(ArgumentError) as error:
        ir.make_node("tir.For")
    assert str(error.value) == (
        "make_node: no 'tir.For' by name\nhint: call the class of the node itself"
    )


def test_the_name_of_an_intrinsic():
    call = tir.exp(tir.Var("x", "float32"))
    assert call.op == "tir.exp" and call.op.name == "tir.exp"
    assert ir.load_json(ir.save_json(call)).op.name == "tir.exp"

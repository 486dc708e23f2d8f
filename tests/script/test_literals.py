"""Names, numbers and strings as Python source."""

from __future__ import annotations

import ast
import keyword
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import FloatImm
from mlcnb.script import literals, script
from mlcnb.script.names import RESERVED, Names, identifier


@given(st.text())
def test_any_string_reads_back(text: str) -> None:
    assert ast.literal_eval(literals.string(text)) == text


@given(st.text())
def test_any_name_becomes_an_identifier(text: str) -> None:
    name = identifier(text)
    assert name.isidentifier() and name.isascii() and not keyword.iskeyword(name)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn"])
def test_any_float_reads_back(kind: str) -> None:
    largest = float(p.max_value(kind))

    @given(st.floats(-largest, largest))
    def check(value: float) -> None:
        held = p.const(value, kind).value
        again = p.const(float(literals.number(held, kind)), kind).value
        assert again == held and math.copysign(1, again) == math.copysign(1, held)

    check()


def test_a_scope_gives_names_back() -> None:
    names = Names()
    objects = [object() for _ in range(6)]
    assert names.define(objects[0], "x") == "x"
    with names.scope():
        assert names.define(objects[1], "x") == "x_1"
        assert names.define(objects[2], "x") == "x_2"
        assert names.find(objects[1]) == "x_1"
    assert names.find(objects[1]) is None
    assert names.define(objects[3], "x") == "x_1"
    assert names.define(objects[4], "x_1") == "x_1_1"


def test_a_free_name_stays() -> None:
    names = Names()
    inner, outer = object(), object()
    with names.scope():
        assert names.define_free(inner, "x") == "x"
    assert names.find(inner) == "x"
    assert names.define(outer, "x") == "x_1"


def test_reserved_names_are_not_given() -> None:
    names = Names()
    assert names.define(object(), "T") == "T_1"
    assert {"T", "R", "I", "cls", "metadata"} <= RESERVED


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_number_is_not_rounded_beyond_it_for_tvm(kind: str, sign: int) -> None:
    """TVM 0.27 reads a number as a double, and refuses what lies beyond the dtype."""
    largest = sign * float(ml_dtypes.finfo(dtype(kind).numpy).max)
    x = FloatImm(dtype(kind), largest)
    text = script(x, dialect="0.27")
    assert abs(float(text.split("(")[1].rstrip(")"))) <= abs(largest)
    for other in (text, script(x)):
        back = float(other.split("(")[1].rstrip(")"))
        assert float(np.asarray(back).astype(dtype(kind).numpy)) == largest

"""structural_text: the whole content of a program as a key."""

from __future__ import annotations

import pytest

from mlcnb.ir.dtype import dtype
from mlcnb.ir.structural import structural_equal, structural_hash, structural_text
from mlcnb.relax import op
from mlcnb.relax.expr import Var, const, tensor_info
from mlcnb.script import parse

PROGRAM = """
@T.prim_func
def main({a}: T.Buffer(({n},), "float32")):
    for {i} in range({n}):
        with T.block("{block}"):
            v = T.axis.spatial({n}, {i})
            {a}[v] = {value}
"""


def program(a="A", n=8, i="i", block="B", value="T.float32(0.0)"):
    return parse(PROGRAM.format(a=a, n=n, i=i, block=block, value=value))


@pytest.mark.parametrize("change", [{"a": "Z"}, {"i": "row"}, {"block": "matmul"}])
def test_names_are_apart_from_the_meaning(change):
    one, two = program(), program(**change)
    assert structural_equal(one, two)
    (meaning, names), (same, others) = structural_text(one), structural_text(two)
    assert meaning == same
    assert names != others


@pytest.mark.parametrize("change", [{"n": 9}, {"value": "T.float32(-0.0)"}])
def test_another_meaning_is_another_text(change):
    assert structural_text(program())[0] != structural_text(program(**change))[0]


def test_equal_programs_have_equal_texts():
    assert structural_text(program()) == structural_text(program())


def test_a_dtype_and_its_text_are_one():
    """Equality says what the digest says: text that is read back holds a str."""
    x = Var("x", tensor_info((2,), "float32"))
    one, two = (
        op.quantize(x, const(0.5, "float32"), const(0, "uint8"), axis=0, out_dtype=kind)
        for kind in (dtype("uint8"), "uint8")
    )
    assert structural_equal(one, two, map_free_vars=True)
    assert structural_hash(one, map_free_vars=True) == structural_hash(two, map_free_vars=True)
    other = op.quantize(x, const(0.5, "float32"), const(0, "uint8"), axis=0, out_dtype="int8")
    assert not structural_equal(one, other, map_free_vars=True)

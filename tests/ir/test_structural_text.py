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


OVER = """
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    {memory} = T.allocate_const([1.0, 2.0, 3.0, 4.0], "float32", [4])
    {view} = T.Buffer(({n},), data={memory})
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            A[v] = {view}[v % {n}]
"""


def test_a_buffer_that_nothing_declares_is_known_by_its_pointer():
    def over(memory="p", view="b", n=4):
        return parse(OVER.format(memory=memory, view=view, n=n))

    one, same, other = over(), over("q", "c"), over(n=2)
    assert structural_equal(one, same)
    assert structural_hash(one) == structural_hash(same)
    assert structural_text(one)[0] == structural_text(same)[0]
    assert not structural_equal(one, other)
    assert structural_hash(one) != structural_hash(other)
    loads = [program("A"), program("B")]
    assert not structural_equal(loads[0].body, loads[1].body)  # pointers that nothing matches


@pytest.mark.parametrize("offset", ["0", "n"])
def test_any_offset_is_a_multiple_of_one(offset):
    def made(more):
        return parse(
            f"@T.prim_func\ndef main(a: T.handle, n: T.int32):\n"
            f"    A = T.match_buffer(a, (4,), elem_offset={offset}{more})\n    A[0] = 1.0\n"
        )

    one, other = made(""), made(", offset_factor=1")
    assert structural_equal(one, other)
    assert structural_hash(one) == structural_hash(other)
    assert not structural_equal(one, made(", offset_factor=4"))

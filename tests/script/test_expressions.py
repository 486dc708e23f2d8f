"""Every scalar expression in its printed form, and back."""

from __future__ import annotations

import math

import pytest

from mlcnb.core.errors import MLCError
from mlcnb.ir import assert_structural_equal
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Var
from mlcnb.script import parse
from mlcnb.script import tir as T
from tests.script.roundtrip import PRIM_FUNC, assert_round_trip

I32 = [
    # arithmetic, with as few parentheses as Python needs
    "n + 1",
    "n - 1 - n",
    "n - (1 - n)",
    "n * (n + 2) * 3",
    "n * (n * n)",
    "(n + 1) // 4 % 3",
    "n // (4 % n)",
    "n - -5",
    "-5 // n",
    "T.Mul(2, 3)",
    "n * 1 + 0",
    "T.Div(n, 3)",
    "T.truncmod(n, 4)",
    "T.min(n, T.max(2, 3))",
    # bits
    "n << 2 | n & 3 ^ n >> 1",
    "(n | 1) & 7",
    "~n",
    "~T.int32(5)",
    "n & n + 1",
    # choices
    "T.Select(n < 3, n, 0)",
    "T.if_then_else(n < 3 and n > 0, n, 0)",
    "T.Let(x + x, where={x: n * 2})",
    "T.Let(x * x, where={x: T.Let(y + 1, where={y: n})})",
    'T.Cast("int32", m)',
    'T.Cast("int32", T.int64(4))',
    # calls
    'T.call_extern("int32", "f", n, A.data, "text")',
    'T.call_pure_extern("int32", "g", T.float32(1.0))',
    'T.call_intrin("int32", "tir.strange", n)',
    "T.likely(n)",
    "T.popcount(n)",
    "T.clz(m)",
    'T.reinterpret("int32", A[0])',
    'T.call_packed("f", n, A[n])',
]
F32 = [
    "T.float32(1.0)",
    "T.float32(0.1)",
    "T.float32(-0.0)",
    "T.float32(1e-45)",
    "T.float32(3.4028235e+38)",
    'T.float32("inf")',
    'T.float32("-inf")',
    'T.float32("nan")',
    "A[n] / A[n + 1]",
    "A[0] - (A[1] - A[2]) * A[3]",
    "A[0] / (A[1] / A[2])",
    "T.floordiv(A[0], A[1])",
    "T.exp(A[0])",
    "T.pow(A[0], T.float32(2.0))",
    "T.sigmoid(T.tanh(A[0]))",
    "T.fma(A[0], A[1], A[2])",
    "T.max(A[0], T.float32(0.0))",
    "B[n, n + 1]",
    'T.call_llvm_pure_intrin("float32", "llvm.sqrt", A[0])',
    'T.Cast("float32", T.Cast("float16", A[0]))',
]
BOOL = [
    "n < 3",
    "n + 1 <= n * 2 and m != T.int64(0)",
    "n < 3 or n > 5 and not n == 4",
    "(n < 3 or n > 5) and n == 4",
    "not (n < 3 and n > 5)",
    "n < 3 and (n > 5 and n == 1)",
    "(n < 3) == (n > 5)",
    "not not n < 3",
    "T.bool(True)",
    "T.isnan(A[0])",
    "T.LT(2, 3)",
]
I64 = ["m", "T.int64(-3)", "m * T.int64(2)", "m << T.int64(3)", 'T.Cast("int64", n)', "m - (m + m)"]
OTHER = [
    "T.uint8(255)",
    "T.float16(0.1)",
    "T.bfloat16(0.1)",
    "T.float64(0.1)",
    "T.float64(0.30000000000000004)",
    "T.int8(-128)",
    "T.Ramp(n, 2, 4)",
    "T.Broadcast(A[0], 8) + T.Broadcast(T.float32(1.0), 8)",
    "T.Shuffle([T.Ramp(0, 1, 4), T.Ramp(4, 1, 4)], [0, 7])",
    "T.address_of(A[0])",
    'T.tvm_access_ptr(T.type_annotation("float32"), A.data, 0, 4, 1)',
    'T.tvm_storage_sync("shared")',
]


def printed_form(text: str) -> str:
    """The text of an expression after a round trip (a call stands on a line without T.evaluate)."""
    func = parse(f"{PRIM_FUNC}    T.evaluate({text})")
    line = assert_round_trip(func).split("\n")[-1].strip()
    if line.startswith("T.evaluate("):
        line = line.removeprefix("T.evaluate(").removesuffix(")")
    return line


@pytest.mark.parametrize("text", [*I32, *F32, *BOOL, *I64, *OTHER])
def test_an_expression_prints_as_it_is_written(text: str) -> None:
    assert printed_form(text) == text


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("4 * 32 + n", "128 + n"),
        ("2 ** 5 + n", "32 + n"),
        ("-n", "0 - n"),
        ("n + m", 'T.Cast("int64", n) + m'),
        ("0 < n < 8", "0 < n and n < 8"),
        ("A[0] + 1", "A[0] + T.float32(1.0)"),
        ("n if n < 3 else 0", "T.if_then_else(n < 3, n, 0)"),
        ("T.int64(n)", 'T.Cast("int64", n)'),
        ("T.power(A[0], A[1])", "T.pow(A[0], A[1])"),
        ("T.all(n < 3, n > 1, n != 2)", "n < 3 and n > 1 and n != 2"),
        ("T.truncdiv(n, 2)", "T.Div(n, 2)"),
        ('T.float32(float("inf"))', 'T.float32("inf")'),
        ("T.abs(A[0])", "T.fabs(A[0])"),
        ("A.vload([n])", "A[n]"),
        ('A.vload([n], "float32x4")', "A[n:n + 4]"),
        ('A.vload([T.Ramp(n, 2, 4)], dtype="float32x4")', "A[T.Ramp(n, 2, 4)]"),
        ("A.shape[0] + n", "16 + n"),
        ("T.ceildiv(n, 4)", "(n + 3) // 4"),
    ],
)
def test_what_people_write_is_understood(written: str, printed: str) -> None:
    assert printed_form(written) == printed


def test_an_expression_alone_needs_no_program() -> None:
    i, j = e.Var("i"), e.Var("j")
    assert repr(i * 4 + j) == "i * 4 + j"
    assert repr(e.Var("i") + e.Var("i")) == "i + i_1"


def test_two_bare_numbers_would_be_folded_by_python() -> None:
    assert repr(e.Mul(p.const(2), p.const(3))) == "T.Mul(2, 3)"


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn"])
def test_floats_are_written_with_the_fewest_digits(kind: str) -> None:
    assert repr(p.const(0.1, kind)) == f"T.{kind}(0.1)"


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_floats_that_are_no_numbers_are_strings(value: float) -> None:
    assert repr(p.const(value, "float32")) == f'T.float32("{value}")'


def test_strings_are_escaped_so_that_they_stay_strings() -> None:
    hostile = 'a"b\\c\n\x00\u2028\u202e</pre>é\ud800'
    call = e.Call(dtype("int32"), "tir.call_extern", (e.StringImm(hostile),))
    assert repr(call) == (
        'T.call_extern("int32", "a\\"b\\\\c\\n\\x00\\u2028\\u202e</pre>é\\ud800")'
    )


def test_expressions_can_be_built_with_the_words_outside_of_a_program() -> None:
    n = T.int32()
    assert repr(T.exp(T.float32(1.0)) + T.Cast("float32", n)) == (
        'T.exp(T.float32(1.0)) + T.Cast("float32", v)'
    )
    assert repr(T.min(n, 4)) == "T.min(v, 4)"
    assert isinstance(T.int64(is_size_var=True), e.SizeVar)
    assert repr(T.float32x4(1)) == "T.Broadcast(T.float32(1.0), 4)"


def test_an_unknown_word_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^no T.expp; did you mean T.exp\?$"):
        T.expp
    assert "exp" in dir(T) and "float32" in dir(T)


def test_an_intrinsic_whose_dtype_is_unknown_says_what_to_write() -> None:
    with pytest.raises(MLCError, match="does not follow") as caught:
        T.exp()
    assert caught.value.hint == 'say it: T.call_intrin("float32", "tir.exp", …)'


def test_a_condition_beside_a_vector_of_conditions_holds_for_all_lanes():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), n: T.int32):
    T.evaluate(A[0:4] > T.Broadcast(T.float32(0.0), 4) and n < 3)
    T.evaluate(A[0:4] > T.Broadcast(T.float32(0.0), 4) or T.bool(True))
"""
    both, either = (stmt.value for stmt in parse(text).body.seq)
    assert (str(both.dtype), str(both.b.dtype)) == ("boolx4", "boolx4")
    assert isinstance(both.b, e.Broadcast) and isinstance(either.b, e.Broadcast)
    assert_structural_equal(parse(parse(text).script()), parse(text))


@pytest.mark.parametrize(
    "word", ["shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor"]
)
def test_words_for_bits_convert_their_operands(word):
    wide, narrow = Var("x", dtype("int64")), Var("y", dtype("int32"))
    for a, b in ((wide, narrow), (narrow, wide)):
        made = getattr(T, word)(a, b)
        assert [str(x.dtype) for x in (made, *made.args)] == ["int64"] * 3

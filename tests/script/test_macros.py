"""Macros: lines that are read where they are called."""

from __future__ import annotations

from textwrap import dedent

import pytest

from mlcnb.core.errors import MLCError, ParseError
from mlcnb.ir import assert_structural_equal
from mlcnb.script import parse, script
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from tests.script.roundtrip import assert_round_trip

WIDTH = 3


@T.macro
def fill(C, i):
    """A docstring is no line."""
    C[i] = T.float32(WIDTH)


@T.macro(hygienic=False)
def here(C):
    C[x] = T.float32(1.0)


@T.inline
def late(C):
    with T.sblock("late"):
        C[WIDTH] = T.float32(2.0)


def lines(func: object) -> list[str]:
    return [line.strip() for line in assert_round_trip(func).split("\n")[2:]]


def test_a_macro_of_the_file() -> None:
    WIDTH = 9  # a hygienic macro does not see it

    @T.prim_func
    def func(C: T.Buffer((16,), "float32")):
        for i in range(4):
            fill(C, i)
            fill(C=C, i=i + 4)

    assert lines(func) == [
        "for i in range(4):",
        "C[i] = T.float32(3.0)",
        "C[i + 4] = T.float32(3.0)",
    ]


def test_a_macro_that_is_not_hygienic_sees_the_place_of_the_call() -> None:
    @T.prim_func
    def func(C: T.Buffer((16,), "float32")):
        for x in range(4):  # noqa: B007
            here(C)

    assert lines(func) == ["for x in range(4):", "C[x] = T.float32(1.0)"]


def test_a_hygienic_macro_does_not() -> None:
    @T.macro
    def lost(C):
        C[unseen] = T.float32(1.0)

    with pytest.raises(ParseError, match="no name 'unseen' here") as caught:

        @T.prim_func
        def func(C: T.Buffer((16,), "float32")):
            for unseen in range(4):  # noqa: B007
                lost(C)

    assert caught.value.picture.split("\n")[2].startswith(">")
    assert "C[unseen] = T.float32(1.0)" in caught.value.picture
    assert caught.value.__notes__ == ["in macro lost"]


def test_a_second_call_of_an_inline_has_blocks_of_its_own() -> None:
    @T.prim_func
    def func(C: T.Buffer((16,), "float32")):
        late(C)
        late(C)

    assert [line for line in lines(func) if "block(" in line and "#" not in line] == [
        'with T.block("late"):',
        'with T.block("late_1"):',
    ]


def test_an_inline_sees_later_values() -> None:
    size = 1

    @T.inline
    def store(C):
        C[size] = T.float32(1.0)

    size = 5

    @T.prim_func
    def func(C: T.Buffer((16,), "float32")):
        store(C)

    assert lines(func) == ["C[5] = T.float32(1.0)"]


INSIDE = """
    @T.prim_func
    def main(C: T.Buffer((16,), "float32"), n: T.int32):
        size = 2
        @T.macro
        def store(at, value=1.0, *rest, scale=2):
            half = at // scale
            C[half + size] = value
        store(n)
        store(n + 1, 3.0, scale=4)
"""


def test_macros_inside_of_a_program_take_what_is_around_them() -> None:
    assert lines(parse(dedent(INSIDE))) == [
        "half: T.int32 = n // 2",
        "C[half + 2] = T.float32(1.0)",
        "half_1: T.int32 = (n + 1) // 4",
        "C[half_1 + 2] = T.float32(3.0)",
    ]


def test_macros_of_a_text_stand_above_the_program() -> None:
    text = """
        @T.macro
        def store(C, i):
            C[i] = 1.0

        @T.prim_func
        def main(C: T.Buffer((16,), "float32")):
            store(C, 3)
    """
    assert lines(parse(dedent(text))) == ["C[3] = T.float32(1.0)"]


def test_blocks_buffers_and_macros_in_macros() -> None:
    text = """
        @T.macro
        def tile(C):
            D = T.alloc_buffer((4,), scope="local")
            D[0] = 1.0
            C[0] = D[0]

        @T.macro
        def twice(C):
            tile(C)
            tile(C)

        @T.prim_func
        def main(C: T.Buffer((16,), "float32")):
            with T.block("b"):
                twice(C)
    """
    found = lines(parse(dedent(text)))
    assert found[3:5] == [
        'D = T.alloc_buffer((4,), scope="local")',
        'D_1 = T.alloc_buffer((4,), scope="local")',
    ]


HEAD = '@T.prim_func\ndef main(C: T.Buffer((16,), "float32"), n: T.int32):\n    '
STORE = "@T.macro\ndef store(i):\n    T.evaluate(i)\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (STORE + HEAD + "store()", "macro store: missing a required argument: 'i'"),
        (STORE + HEAD + "store(1, 2)", "macro store: too many positional arguments"),
        (STORE + HEAD + "store(j=2)", "macro store: missing a required argument: 'i'"),
        (STORE + HEAD + "C[0] = store(1)", "macro store stands on a line of its own"),
        (
            "@T.macro\ndef again(i):\n    again(i)\n" + HEAD + "again(1)",
            "no name 'again' here",
        ),
        (
            "@T.macro(hygienic=False)\ndef again(i):\n    again(i)\n" + HEAD + "again(1)",
            "macro again calls itself without end",
        ),
        (
            "@T.macro\ndef early(i):\n    return i\n" + HEAD + "early(1)",
            "a macro has no value to return",
        ),
        (
            HEAD + "def f(x):\n        return x\n    f(n)",
            "f is a function inside of a program",
        ),
    ],
)
def test_errors_of_macros(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert caught.value.message.startswith(message)
    assert "^" in str(caught.value)


def test_a_macro_runs_nowhere_else() -> None:
    with pytest.raises(MLCError, match="macro fill stands on a line of its own"):
        fill(1, 2)
    assert repr(fill) == "<macro fill>"
    assert "fill" not in script(parse(dedent(INSIDE)))


def test_a_macro_takes_any_arguments_and_may_belong_to_a_class():
    class Doubled:
        def __init__(self, factor):
            self.factor = factor

        @T.macro
        def into(self, *at, to, **others):
            to[at[0]] = others["of"][at[0]] * T.float32(self.factor)

    double = Doubled(2.0)

    @T.prim_func
    def made(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            double.into(i, to=B, of=A)

    assert "B[i] = A[i] * T.float32(2.0)" in made.script()
    with pytest.raises(ValueError, match="T.macro takes its options by name"):
        T.macro(True)


def test_a_macro_in_a_graph_reads_its_lines_and_gives_its_value():
    @R.macro
    def twice(x, times):
        y = R.multiply(x, times)
        return R.add(y, y)

    @R.function
    def made(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = twice(x, R.const(2, "float32"))
            b = R.add(twice(a, a), x)
            R.output(b)
        return b

    @R.function
    def written(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            y = R.multiply(x, R.const(2, "float32"))
            a = R.add(y, y)
            z = R.multiply(a, a)
            lv = R.add(z, z)
            b = R.add(lv, x)
            R.output(b)
        return b

    assert_structural_equal(
        made.without_attr("global_symbol"), written.without_attr("global_symbol")
    )


def test_a_macro_in_a_graph_that_is_not_hygienic_sees_the_place_of_the_call():
    @R.macro(hygienic=False)
    def shape_of_new(dtype):
        alloc = R.builtin.alloc_tensor(R.shape([4, k]), dtype, 0)
        shape = R.shape_of(alloc)
        return shape

    @R.function
    def made(x: R.Tensor((4, "k"), "float32")):
        k = T.int64()
        s = shape_of_new("float16")
        return s

    @R.function
    def written(x: R.Tensor((4, "k"), "float32")):
        k = T.int64()
        alloc = R.builtin.alloc_tensor(R.shape([4, k]), "float16", 0)
        shape = R.shape_of(alloc)
        s = shape
        return s

    assert_structural_equal(
        made.without_attr("global_symbol"), written.without_attr("global_symbol")
    )


def test_a_macro_of_a_graph_that_calls_itself_is_refused():
    @R.macro(hygienic=False)
    def again(x):
        return again(R.add(x, x))

    with pytest.raises(ParseError, match="macro again calls itself without end"):

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = again(x)
            return y

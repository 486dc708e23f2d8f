"""Errors of the parser, whole: what is wrong, where, and what to write."""

from __future__ import annotations

from itertools import pairwise
from textwrap import dedent

import pytest

from mlcnb.core.errors import MLCError, ParseError
from mlcnb.script import parse

PRIM = '@T.prim_func\ndef main(A: T.Buffer((16,), "float32"), n: T.int32):\n    '
MODULE = "@I.ir_module\nclass Module:\n    "
GRAPH = '@R.function\ndef main(x: R.Tensor((4,), dtype="float32")):\n    '


def message(text: str) -> str:
    with pytest.raises(ParseError) as caught:
        parse(text)
    return str(caught.value)


def test_the_whole_message_of_a_misspelled_name() -> None:
    text = dedent("""\
        @T.prim_func
        def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
            for i in range(16):
                with T.block("B"):
                    value = T.axis.spatial(16, i)
                    B[value] = A[valu] + T.float32(1.0)
    """)
    assert message(text) == dedent("""\
        no name 'valu' here
          --> <text>:6:26
          4 |         with T.block("B"):
          5 |             value = T.axis.spatial(16, i)
        > 6 |             B[value] = A[valu] + T.float32(1.0)
            |                          ^^^^
        hint: did you mean 'value'?""")


def test_an_error_knows_its_place() -> None:
    with pytest.raises(ParseError) as caught:
        parse(PRIM + "A[0] = nn")
    assert (caught.value.line, caught.value.column) == (3, 12)
    assert caught.value.source_name == "<text>"


@pytest.mark.parametrize(
    ("line", "token"),
    [
        ("A[0] = T.Cast('flaot32', n)", "'flaot32'"),
        ("C = T.alloc_buffer((4,), dtype='flaot32')", "'flaot32'"),
        ("for i in T.serial(4, annotation={}):\n        pass", "annotation={}"),
        ("for i, j in T.grid(4):\n        pass", "i, j"),
        ("A[0] = A[nn] + A[0]", "nn"),
        ("A[0] = A.foo", "A.foo"),
        ("if n > 0:\n        A[0] = T.foo(n)", "T.foo"),
        ("try:\n        pass\n    finally:\n        pass", "try"),
        ("x: T.int64 = n + 1", "n + 1"),
        ("n += 1", "n"),
        ("for i in range(4):\n        while n:\n            pass", "n"),
        ("A[0] = n ** 2", "n ** 2"),
    ],
)
def test_the_caret_stands_under_the_token(line: str, token: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(PRIM + line)
    marked, carets = next((a, b) for a, b in pairwise(caught.value.picture.split("\n")) if "^" in b)
    assert marked[carets.index("^") : carets.rindex("^") + 1] == token


def test_columns_count_characters() -> None:
    with pytest.raises(ParseError) as caught:
        parse(PRIM + 'T.call_extern("int32", "éé", nn)')
    assert caught.value.column == 34
    assert caught.value.picture.split("\n")[3].index("^") == 6 + 33


#: program, message, hint
CASES: list[tuple[str, str, str | None]] = [
    (PRIM + "T.grd(4)", "no T.grd", "did you mean T.grid?"),
    (PRIM + "A[0] = T.expp(A[0])", "no T.expp", "did you mean T.exp?"),
    (GRAPH + "return R.nn.relux(x)", "no R.nn.relux", "did you mean R.nn.relu?"),
    (GRAPH + "return R.ad(x, x)", "no R.ad", "did you mean R.add?"),
    (PRIM + "A[0, 1] = 0.0", "A has ndim 1, it gets 2 indices", None),
    (PRIM + "A[0] = A[0, n]", "A has ndim 1, it gets 2 indices", None),
    (PRIM + "A.foo", "the buffer A has no 'foo'", None),
    (
        PRIM + "for i in A:\n        T.evaluate(0)",
        "a loop runs over range(…), T.grid(…), T.serial(…), T.parallel(…) …",
        None,
    ),
    (
        PRIM + "for i, j in T.grid(2, 3, 4):\n        T.evaluate(0)",
        "3 loops need 3 names, not 2",
        None,
    ),
    (
        PRIM + "for i in T.thread_binding(8):\n        T.evaluate(0)",
        "which thread axis?",
        'T.thread_binding(8, thread="threadIdx.x")',
    ),
    (
        PRIM + "for i in range(0, 8, 0):\n        T.evaluate(0)",
        "the step of a loop is a constant that is not 0",
        None,
    ),
    (PRIM + "T.reads(A[0])", "this line belongs in a block", 'with T.block("name"):'),
    (PRIM + "v = T.axis.spatial(16, n)", "an axis belongs in a block", 'with T.block("name"):'),
    (
        PRIM + "T.block('b')",
        "this line does nothing",
        "open it with `with`, or give it a name",
    ),
    (PRIM + "x: T.int64 = n + 1", "x is int64, its value is int32", 'T.Cast("int64", …)'),
    (PRIM + "n = n / 2", "`/` between integers is ambiguous", "use // or T.truncdiv"),
    (PRIM + "A[0] = n ** 2", "no operator Pow of scalars", "T.pow(a, b)"),
    (PRIM + "import os", "a loop program has no Import statement", None),
    (
        PRIM + "try:\n        pass\n    except E:\n        pass",
        "a loop program has no Try statement",
        None,
    ),
    (PRIM + "n += 1", "only an element of a buffer can be changed", None),
    (
        PRIM + "A[0] = [x for x in range(3)]",
        "TVMScript has no ListComp expression",
        "write the items out",
    ),
    (
        PRIM + "A[0] = T.call_extern",
        "a scalar expression is expected, this is a function",
        None,
    ),
    (
        PRIM + "A[0] = T.Broadcast(A[0], n)",
        "a vector has a constant number of lanes",
        None,
    ),
    (
        PRIM + "A[0] = T.Cast('flaot32', n)",
        "no dtype 'flaot32'",
        "e.g. float32, int64, bool, float16x8",
    ),
    (PRIM + "A[0] = T.float32(1e39)", "1e+39 is no float32", None),
    (PRIM + "T.evaluate(T.int8(128))", "128 is no int8", None),
    (PRIM + "m = T.match_buffer(q, (4,))", "no name 'q' here", None),
    (
        PRIM + "m = T.match_buffer(A.data, (4,))",
        "A is no parameter of the function",
        None,
    ),
    (
        "@T.prim_func\ndef f(A):\n    T.evaluate(0)",
        "parameter 'A' has no annotation",
        'A: T.Buffer((128,), "float32") or A: T.int32',
    ),
    (
        "@T.prim_func\ndef f(A: 5):\n    T.evaluate(0)",
        "a parameter is a T.Buffer, a T.handle or a scalar such as T.int32",
        None,
    ),
    (
        "@T.prim_func\ndef f(*A: T.int32):\n    T.evaluate(0)",
        "a function of TVMScript has plain parameters only",
        None,
    ),
    (
        '@R.function\ndef f(x: R.Tensor(("n +",))):\n    return x',
        "dimension 'n +' is no expression",
        None,
    ),
    (
        "@R.function\ndef f(x):\n    return x",
        "parameter 'x' has no type",
        'x: R.Tensor((4,), dtype="float32")',
    ),
    (GRAPH + "y = R.add(x, x)", "a graph function ends with `return`", None),
    (GRAPH + "return x\n    y = x", "a graph function ends with `return`", None),
    (
        GRAPH + "for i in range(4):\n        y = x\n    return x",
        "a graph program has no For statement",
        "loops belong in a @T.prim_func",
    ),
    (
        GRAPH + "x += x\n    return x",
        "a graph program has no AugAssign statement",
        "every name is bound once: y = x + 1",
    ),
    (
        GRAPH + 'y: R.Tensor((5,), "float32") = R.add(x, x)\n    return y',
        "y is said to be Tensor((5,), float32), this gives Tensor((4,), float32)",
        "leave the annotation out, and it is inferred",
    ),
    (
        GRAPH + 'y: R.Tensor((4,), "int8") = R.nn.relu(x)\n    return y',
        "y is said to be Tensor((4,), int8), this gives Tensor((4,), float32)",
        None,
    ),
    (GRAPH + "y = R.add(x)\n    return y", "add: argument 'x2' is missing", None),
    (
        GRAPH + "y = R.nn.softmax(x, axi=1)\n    return y",
        "nn.softmax: no argument 'axi'",
        None,
    ),
    (
        GRAPH + "y = R.call_tir(cls.f, (x,))\n    return y",
        "R.call_tir needs the type of its result",
        'out_sinfo=R.Tensor((4,), dtype="float32")',
    ),
    (GRAPH + "y = x[n]\n    return y", "no name 'n' here", None),
    (
        GRAPH + "y = x['a']\n    return y",
        "only a tuple can be indexed, by a constant",
        "a part of a tensor is R.take or R.strided_slice",
    ),
    (
        GRAPH + "y = x @ x\n    return y",
        "no operator MatMult of graph expressions",
        "call it by name: R.…",
    ),
    (
        GRAPH + 'return metadata["relax.expr.Constant"][0]',
        "the constants of this text are missing",
        "the text was printed without its constants: print it with show_meta=True",
    ),
    (
        GRAPH + "with R.dataflow():\n        y = R.add(x, x)\n    return y",
        "a dataflow block ends with R.output(…)",
        "R.output(gv)",
    ),
    (
        GRAPH + "with R.dataflow():\n        y = x\n        R.output(z)\n    return y",
        "R.output names variables of this block",
        None,
    ),
    (
        GRAPH + "with R.dataflow():\n        y = x\n        R.output()\n    return y",
        "no name 'y' here",
        None,
    ),
    (
        GRAPH + "if x:\n        y = x\n    return y",
        "a branch of a graph needs its `else`",
        None,
    ),
    (
        GRAPH + "if x:\n        y = x\n    else:\n        z = x\n    return y",
        "the branches bind 'y' and 'z', not the same name",
        None,
    ),
    (
        GRAPH + "@T.prim_func\n    def f(n: T.int32):\n        T.evaluate(0)\n    return x",
        "only graph functions stand inside graph functions",
        None,
    ),
    (GRAPH + "y = T.grid(4)\n    return y", "Loops is no value here", None),
    ("def f(): pass", "f is no program", "decorate it with @T.prim_func or @R.function"),
    ("class A: pass", "class A is no module", "@I.ir_module"),
    (MODULE + "x = 5", "a module holds functions", 'R.ExternFunc("name")'),
    (
        MODULE + "@R.function\n    def f(x: R.Object):\n        return cls.g(x)",
        "the module has no function 'g'",
        None,
    ),
    (
        MODULE + "@R.function\n    def first(x: R.Object):\n        return cls.frist(x)",
        "the module has no function 'frist'",
        "did you mean 'first'?",
    ),
    (
        PRIM + "x = n + 1\n    for i in range(4):\n        x = x + i",
        "x is a name for one value: a new one here would end with these lines",
        'a value that changes needs memory: x = T.alloc_buffer((1,), "int32", scope="local"), '
        "then x[0] = …",
    ),
    (
        PRIM + "x = 0\n    if n > 0:\n        x: T.int32 = 5",
        "x is a name for one value: a new one here would end with these lines",
        None,
    ),
    (PRIM + "break", "`break` stands in no loop", None),
    (
        PRIM + 'for i in range(4):\n        with T.block("b"):\n            continue',
        "`continue` would leave block 'b', which runs as a whole",
        "T.where(condition) keeps a block from running",
    ),
    (PRIM + "if n:\n        pass", "a condition is bool, this is int32", "compare it: x != 0"),
    (PRIM + "while A[0]:\n        pass", "a condition is bool, this is float32", None),
    (
        PRIM + "if A[0:4] > T.Broadcast(A[0], 4):\n        pass",
        "a condition is one bool, this is boolx4",
        "T.Select, lane by lane",
    ),
    (PRIM + "print(n)", "print is Python's own: a program is read, not run", None),
    (
        PRIM + "C = T.Buffer[(4,), 'int32']",
        "Buffer takes parentheses, not brackets",
        "Buffer(…)",
    ),
    (
        PRIM + "C = T.Buffer((4,), 'int32')",
        "T.Buffer in a body is a view and needs data=…",
        "data=A.data makes a view of A; T.alloc_buffer makes memory",
    ),
    (
        PRIM + "C = A.view(5, 5)",
        "view: (16) and (5, 5) differ in their number of elements",
        None,
    ),
    (PRIM + "T.static_assert(1 > 2, 'too small')", "too small", None),
    (
        PRIM + "T.static_assert(n > 2)",
        "T.static_assert takes a Python value, this is known when the program runs",
        'assert condition, "message"',
    ),
    (
        PRIM + "T.ptx_tcgen05()",
        "no T.ptx_tcgen05",
        "words of ptx are not here: T.call_extern or T.call_intrin names one",
    ),
    (PRIM + "C = T.buffer_decl((4,))", "no T.buffer_decl", "T.decl_buffer"),
    (PRIM + "x, y = n", "2 names need 2 values", None),
    (PRIM + "x, y = (n, n, n)", "2 names need 2 values, not 3", None),
    (
        PRIM + "for i in [1, 2]:\n        pass",
        "a loop runs over range(…), T.grid(…), T.serial(…), T.parallel(…) …",
        "T.unroll(3)",
    ),
    (
        PRIM + "for i in range(4.0):\n        pass",
        "a bound of a loop is an integer, this is float32",
        "T.int32(…)",
    ),
    (
        PRIM + "for i in range(4):\n        pass\n    else:\n        pass",
        "a loop of a program has no `else`",
        None,
    ),
    (PRIM + "A[0] = (1", "no Python syntax: '(' was never closed", None),
]


@pytest.mark.parametrize(("text", "expected", "hint"), CASES, ids=[c[1] for c in CASES])
def test_errors_say_what_is_wrong_and_what_to_write(
    text: str, expected: str, hint: str | None
) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert caught.value.message == expected
    if hint is not None:
        assert caught.value.hint == hint
    assert "^" in str(caught.value)


def test_a_text_holds_one_program() -> None:
    with pytest.raises(MLCError, match="the text holds no program") as caught:
        parse("x = 5")
    assert caught.value.hint == "it needs @I.ir_module, @R.function or @T.prim_func"
    two = PRIM + "T.evaluate(0)\n" + PRIM + "T.evaluate(0)"
    assert message(two).startswith("the text holds two programs\n")
    with pytest.raises(MLCError, match="parse takes a text, not an int"):
        parse(5)


def test_a_text_with_a_null_byte_is_no_text() -> None:
    assert "source code string cannot contain null bytes" in message("\0")


def test_where_speaks_of_loops() -> None:
    text = PRIM + (
        'for i in range(16):\n        with T.block("b"):\n'
        "            vi = T.axis.spatial(16, i)\n            T.where(vi < 3)\n"
        "            A[vi] = 0.0"
    )
    assert message(text).startswith("T.where speaks of loops: vi is an axis of the block\n")


@pytest.mark.parametrize(
    "text",
    [
        PRIM + "__import__('os')",
        PRIM + "open('/etc/passwd')",
        PRIM + "T.__builtins__",
        PRIM + "T.grid.__globals__",
        PRIM + "''.__class__",
        PRIM + "'{0.__class__}'.format(A)",
        PRIM + "exec('1')",
        PRIM + "(lambda: 1)()",
        PRIM + "A.__class__",
        PRIM + "A[0] = 9 ** 9 ** 9",
        PRIM + "A[0] = 1 << 99999999",
        PRIM + "T.evaluate('a' * 99999999999)",
        PRIM + "T.evaluate([0] * 99999999999)",
        GRAPH + "return R.operators()",
        GRAPH + "return R.const.__globals__",
        "@eval('1')\ndef f(): pass",
        "import os\nos.system('ls')",
        "x = __import__('os')",
        "metadata = __import__('os')\n" + GRAPH + "return x",
    ],
)
def test_a_text_cannot_reach_python(text: str) -> None:
    with pytest.raises(MLCError):
        parse(text)


@pytest.mark.parametrize(
    "entry",
    [
        '{"dtype": "float32", "shape": [4], "data": "AAAA"}',
        '{"dtype": "float32", "shape": [-1], "data": "AAAAAA=="}',
        '{"dtype": "float32", "shape": [99999999, 99999999, 99999999], "data": "AAAAAA=="}',
        '{"dtype": "nothing", "shape": [1], "data": "AAAAAA=="}',
        '{"dtype": "handle", "shape": [1], "data": "AAAAAA=="}',
        '{"dtype": "float32", "shape": [1], "data": "###"}',
        '{"dtype": "float32", "shape": "x", "data": "AAAAAA=="}',
    ],
)
def test_constants_that_do_not_fit_are_refused(entry: str) -> None:
    text = f'metadata = {{"k": [{entry}]}}\n' + GRAPH + 'return metadata["k"][0]'
    with pytest.raises(MLCError):
        parse(text)


@pytest.mark.parametrize(
    "value",
    ["(" * 500 + "A[0]" + ")" * 500, "-" * 100_000 + "A[0]", "A[0]" + " + A[0]" * 100_000],
)
def test_nesting_beyond_measure_is_an_error(value: str) -> None:
    with pytest.raises(ParseError, match="nest|syntax"):
        parse(PRIM + "A[0] = " + value)


def test_a_block_gives_nothing_to_name() -> None:
    text = '@T.prim_func\ndef main():\n    with T.block("root") as x:\n        T.evaluate(0)\n'
    assert message(text) == dedent("""\
        a block has no value to name
          --> <text>:3:29
          1 | @T.prim_func
          2 | def main():
        > 3 |     with T.block("root") as x:
            |                             ^
          4 |         T.evaluate(0)
        hint: leave `as` away""")


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("for i in rang(8): B[i] = A[i]", "no name 'rang' here", "did you mean 'range'?"),
        ("for i in range(8): D[i] = A[i]", "no name 'D' here", "there are A, B, i"),
        (
            "for i in range(8): T[i] = A[i]",
            "only elements of buffers can be assigned, this is the namespace T",
            "there are A, B",
        ),
    ],
)
def test_names_that_mean_nothing(line, message, hint):
    head = 'def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):'
    with pytest.raises(ParseError) as caught:
        parse(f"@T.prim_func\n{head}\n    {line}\n")
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize("kind", ["T.prim_func", "R.function"])
def test_two_parameters_of_one_name(kind):
    """The second one took the name, and the first was out of reach."""
    of = 'T.Buffer((8,), "float32")' if kind[0] == "T" else 'R.Tensor((8,), "float32")'
    with pytest.raises(ParseError) as caught:
        parse(f"@{kind}\ndef f(A: {of}, A: {of}):\n    return A\n")
    assert caught.value.message == "two parameters are named 'A'"


def test_a_number_that_is_too_large_is_infinite_without_a_warning():
    func = parse('@T.prim_func\ndef f(A: T.Buffer((8,), "float32")):\n    A[0] = 1e39\n')
    assert 'A[0] = T.float32("inf")' in func.script()

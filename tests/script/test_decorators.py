"""Programs under decorators: in this file, in a class, in a cell, where there is no source."""

from __future__ import annotations

import linecache
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from mlcnb.core import options
from mlcnb.core.errors import ParseError, WellFormedError
from mlcnb.ir import structural_equal
from mlcnb.ir.module import IRModule
from mlcnb.relax.expr import Function
from mlcnb.script import ir as I
from mlcnb.script import parse, script
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.tir.function import PrimFunc

ROOT = Path(__file__).parents[2]
WIDTH = 8
WEIGHTS = R.const(np.ones((4, 4), "float32"))


@T.prim_func
def top_level(A: T.Buffer((WIDTH,), "float32")):
    """A docstring is no statement."""
    for i in range(WIDTH * 2 // 2):
        A[i] = T.float32(WIDTH) + 1


@T.prim_func(private=True)
def private(A: T.Buffer((4,), "float32")):
    A[0] = T.float32(0.0)


@R.function(pure=False)
def graph(x: R.Tensor(("n", 4), "float32")):
    n = T.int64()
    y = R.matmul(x, WEIGHTS)
    return y


@I.ir_module
class Both:
    @T.prim_func
    def kernel(A: T.Buffer((WIDTH,), "float32")):
        A[0] = T.float32(0.0)

    @R.function
    def main(x: R.Tensor((WIDTH,), "float32")):
        cls = Both
        y = R.call_tir(cls.kernel, R.tuple(), out_sinfo=R.Tensor((WIDTH,), "float32"))
        return y


def test_functions_of_a_file() -> None:
    assert isinstance(top_level, PrimFunc)
    assert script(top_level, header=False) == (
        '@T.prim_func\ndef top_level(A: T.Buffer((8,), "float32")):\n'
        "    for i in range(8):\n        A[i] = T.float32(8.0) + T.float32(1.0)"
    )
    assert "global_symbol" not in private.attrs
    assert isinstance(graph, Function) and not graph.is_pure
    assert script(graph, header=False).split("\n")[-2:] == [
        '    y: R.Tensor((n, 4), dtype="float32") = '
        'R.matmul(x, metadata["relax.expr.Constant"][0])',
        "    return y",
    ] or script(graph).endswith("show it.")


def test_a_class_of_a_file() -> None:
    assert isinstance(Both, IRModule)
    assert [g.name_hint for g in Both.functions] == ["kernel", "main"]
    assert structural_equal(parse(script(Both)), Both)


def make(extent: int, dtype: str) -> tuple[PrimFunc, IRModule]:
    inner = extent + 1

    @T.prim_func
    def scale(A: T.Buffer((extent,), dtype)):
        for i in T.serial(extent):
            A[i] = A[i] * T.Cast(dtype, inner)

    @I.ir_module
    class Scaled:
        @T.prim_func
        def scale(A: T.Buffer((extent,), dtype)):
            A[inner - 1] = T.Cast(dtype, inner)

    return scale, Scaled


def test_names_come_from_the_function_around() -> None:
    func, mod = make(4, "float16")
    assert script(func, header=False).split("\n")[1:] == [
        'def scale(A: T.Buffer((4,), "float16")):',
        "    for i in range(4):",
        '        A[i] = A[i] * T.Cast("float16", 5)',
    ]
    assert '        A[4] = T.Cast("float16", 5)' in script(mod)
    assert make(7, "int8")[0].buffers[0].dtype == "int8"


def test_functions_of_the_file_can_be_called_while_it_is_read() -> None:
    def weighted(value, factor):
        return value * factor + T.float32(1.0)

    @T.prim_func
    def func(A: T.Buffer((4,), "float32")):
        A[0] = weighted(A[1], T.float32(2.0))

    assert repr(func.body) == "A[0] = A[1] * T.float32(2.0) + T.float32(1.0)"


def test_buffers_can_be_made_outside() -> None:
    shape = T.Buffer((4, 4), "int8")

    @T.prim_func
    def func(A: shape, B: shape):
        A[0, 0] = B[1, 1]

    assert [repr(b) for b in func.buffers] == [
        'A: T.Buffer((4, 4), "int8")',
        'B: T.Buffer((4, 4), "int8")',
    ]
    assert func.buffers[0].data is not func.buffers[1].data


def test_type_variables_are_dimensions() -> None:
    n = TypeVar("n")

    @R.function
    def func(x: R.Tensor((n, 4), "float32")) -> R.Tensor((n * 2, 4), "float32"):  # type: ignore
        y = R.concat((x, x))
        return y

    assert '-> R.Tensor(("n * 2", 4), dtype="float32"):' in script(func)


class TestInsideAClass:
    """A class that is no module: functions in it are read on their own."""

    @T.prim_func
    def method(A: T.Buffer((4,), "float32")):
        A[0] = T.float32(0.0)

    def test_it_is_a_prim_func(self) -> None:
        assert isinstance(type(self).__dict__["method"], PrimFunc)


def test_a_notebook_cell() -> None:
    interactive = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    shell = interactive.instance()
    try:
        shell.run_cell("from mlcnb.script import ir as I, relax as R, tir as T\nN = 4")
        result = shell.run_cell(
            "@I.ir_module\nclass Cell:\n    @T.prim_func\n"
            "    def f(A: T.Buffer((N,), 'float32')):\n        A[0] = T.float32(N)\n"
            "Cell"
        )
        assert "A[0] = T.float32(4.0)" in script(result.result)
        result = shell.run_cell(
            "@T.prim_func\ndef g(A: T.Buffer((N,), 'int8')):\n    A[0] = T.int8(1)\ng"
        )
        assert isinstance(result.result, PrimFunc)
        result = shell.run_cell("@T.prim_func\ndef h(n: T.int32):\n    T.evaluate(nn)")
        assert "no name 'nn' here" in str(result.error_in_exec)
    finally:
        interactive.clear_instance()


def run(text: str, name: str) -> None:
    exec(compile(text, name, "exec"), {"T": T, "I": I, "R": R})  # noqa: S102


def test_a_cell_is_called_a_cell() -> None:
    name = "folder/ipykernel_1/2.py"
    linecache.cache[name] = (len(BROKEN), None, BROKEN.splitlines(True), name)
    with pytest.raises(ParseError, match="--> this cell:5:16"):
        run(BROKEN, name)


def test_a_program_without_source_says_what_to_do() -> None:
    with pytest.raises(ParseError) as caught:
        run("@T.prim_func\ndef f(n: T.int32):\n    T.evaluate(n)", "<nowhere>")
    assert str(caught.value) == (
        "the source of 'f' cannot be found: <nowhere> has no text that can be read back\n"
        "hint: put the program in a file or a notebook cell, or read its text: "
        "mlcnb.script.from_source('''@T.prim_func …''')"
    )
    with pytest.raises(ParseError, match="the source of 'M' cannot be found"):
        run("@I.ir_module\nclass M:\n    pass", "<nowhere>")


PROGRAM = """\
from mlcnb.script import ir as I, tir as T

def f():
    @T.prim_func
    def f(A: T.Buffer((4,), "float32")):
        A[0] = 1.0
    return f

@I.ir_module
class Module:
    @T.prim_func
    def g(A: T.Buffer((4,), "int8")):
        A[0] = T.int8(1)

print(f(), Module["g"])
"""


def python(*words: str, **how: Any) -> str:
    """What an interpreter of its own says, out and error together."""
    given = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.run([sys.executable, *words], timeout=120, **given, **how).stdout


def test_a_program_on_the_command_line() -> None:
    found = python("-c", PROGRAM)
    assert "A[0] = T.float32(1.0)" in found and "A[0] = T.int8(1)" in found


def test_a_program_from_a_file_as_standard_input(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    with open(tmp_path / "program.py") as text:
        found = python("-", stdin=text)
    assert "A[0] = T.float32(1.0)" in found and "A[0] = T.int8(1)" in found


def test_a_program_from_a_pipe_says_what_to_do() -> None:
    found = python("-", input=PROGRAM)
    assert (
        "the source of 'Module' cannot be found: <stdin> has no text that can be read back" in found
    )
    assert "mlcnb.script.from_source" in found


def test_a_text_for_exec_is_not_that_of_the_command_line() -> None:
    other = 'exec(PROGRAM.replace("1.0", "2.0"), {})'
    found = python("-c", f"PROGRAM = {PROGRAM!r}\n{other}")
    assert "the source of 'Module' cannot be found: <string> has no text" in found


BROKEN = "\n\n@T.prim_func\ndef f(n: T.int32):\n    T.evaluate(nn)\n"


def test_an_error_points_into_the_file_and_its_traceback_is_short() -> None:
    linecache.cache["<cell 5>"] = (len(BROKEN), None, BROKEN.splitlines(True), "<cell 5>")
    with pytest.raises(ParseError) as caught:
        run(BROKEN, "<cell 5>")
    assert str(caught.value).split("\n")[:2] == ["no name 'nn' here", "  --> <cell 5>:5:16"]
    assert len(traceback.extract_tb(caught.tb)) <= 7
    assert caught.value.__cause__ is None
    with options.scoped(debug=True), pytest.raises(ParseError) as caught:
        run(BROKEN, "<cell 5>")
    assert len(traceback.extract_tb(caught.tb)) > 10


def test_a_program_that_breaks_a_rule_is_refused() -> None:
    with pytest.raises(WellFormedError) as caught:

        @T.prim_func
        def func(A: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    A[v] = T.Cast("float32", i)

    assert caught.value.message == "block B uses loop variable i, which is not its axis"
    with pytest.raises(WellFormedError):

        @I.ir_module
        class Module:
            @T.prim_func
            def func(A: T.Buffer((8,), "float32")):
                for i in range(8):
                    with T.block("B"):
                        v = T.axis.spatial(8, i)
                        A[v] = T.Cast("float32", i)


def test_the_rules_can_be_left_unchecked() -> None:
    @T.prim_func(check_well_formed=False, s_tir=True)
    def func(A: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                A[v] = T.Cast("float32", i)

    assert isinstance(func, PrimFunc)
    assert structural_equal(parse(script(func)), func)
    with pytest.raises(WellFormedError):
        parse(script(func), check_well_formed=True)


def test_a_graph_function_alone_keeps_the_rules_too():
    with pytest.raises(WellFormedError, match="y: a call with effects stands in a function"):

        @R.function
        def pure(x: R.Tensor((2,), "float32")):
            y = R.call_packed("g", x, sinfo_args=R.Tensor((2,), "float32"))
            return y

    @R.function(check_well_formed=False)
    def unchecked(x: R.Tensor((2,), "float32")):
        y = R.call_packed("g", x, sinfo_args=R.Tensor((2,), "float32"))
        return y

    assert isinstance(unchecked, Function) and unchecked.is_pure

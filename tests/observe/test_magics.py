"""The magics, in a real IPython shell."""

from __future__ import annotations

import atexit

import numpy as np
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

import mlcnb as mlc
from mlcnb.core.errors import MLCError
from mlcnb.ir.pass_trace import PassTrace
from tests.view.samples import matmul, mlp

COPY = """
@T.prim_func
def copy(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    for i in T.serial(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi]
"""


@pytest.fixture
def shell():
    made = InteractiveShell()
    made.run_line_magic("load_ext", "mlcnb")
    yield made
    made.history_manager.end_session()
    made.atexit_operations()
    atexit.unregister(made.atexit_operations)  # done: it fails when it is done twice


def test_a_cell_becomes_a_function(shell):
    shell.user_ns["n"] = 8
    made = shell.run_cell_magic("tvmscript", "", COPY)
    assert isinstance(made, mlc.tir.PrimFunc)
    assert shell.user_ns["copy"] is made
    assert made.script().count("T.serial(8)") + made.script().count("range(8)") == 1
    other = shell.run_cell_magic("tvmscript", "other", COPY)
    assert shell.user_ns["other"] is other


def test_a_cell_becomes_a_module(shell):
    made = shell.run_cell_magic("tvmscript", "", mlp().script())
    mlc.ir.assert_structural_equal(made, mlp())
    assert shell.user_ns["Module"] is made


def test_the_last_value_is_shown(shell, capsys):
    shell.user_ns["n"] = 8
    shell.run_cell(f"%%tvmscript{COPY}").raise_error()
    assert "PrimFunc copy" in capsys.readouterr().out


def test_carets_stand_at_the_lines_of_the_cell(shell):
    cell = "@T.prim_func\ndef f(A: T.Buffer((8,), 'float32')):\n    A[0] = nothing\n"
    with pytest.raises(MLCError) as error:
        shell.run_cell_magic("tvmscript", "", cell)
    lines = str(error.value).splitlines()
    at = next(n for n, line in enumerate(lines) if "A[0] = nothing" in line)
    assert "4" in lines[at].partition("|")[0]  # the magic itself is line 1
    assert lines[at + 1].index("^") == lines[at].index("nothing")
    assert len(error.traceback) < 12


def test_a_line_times_calls(shell):
    rng = np.random.default_rng(0)
    shell.user_ns |= {
        "mine": matmul,
        "a": rng.random((16, 8), np.float32),
        "b": rng.random((8, 32), np.float32),
        "c": np.zeros((16, 32), np.float32),
        "theirs": lambda a, b, c: np.matmul(a, b, out=c),
    }
    made = shell.run_line_magic("mlc_bench", "--seconds 0.01 mine(a, b, c) vs theirs(a, b, c)")
    assert [timing.name for timing in made.timings] == ["mine", "theirs"]
    assert np.allclose(shell.user_ns["c"], shell.user_ns["a"] @ shell.user_ns["b"])
    one = shell.run_line_magic("mlc_bench", "--threads 1 --seconds 0.01 mine(a, b, c)")
    assert len(one.timings) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "give a call: %mlc_bench f(a, b, c)"),
        ("f", "'f' is no call with arguments: give f(a, b, c)"),
        ("f(", "'f(' is no Python: '(' was never closed"),
        ("f(a) vs g(b)", "the calls differ in their arguments: one benchmark has one set"),
    ],
)
def test_what_cannot_be_timed(shell, line, message):
    with pytest.raises(UsageError) as error:
        shell.run_line_magic("mlc_bench", line)
    assert str(error.value) == message


def test_a_line_runs_passes(shell):
    shell.user_ns |= {"mod": mlp(), "mine": [mlc.relax.transform.LegalizeOps()]}
    made = shell.run_line_magic("mlc_passes", "mod")
    assert isinstance(made, PassTrace)
    assert "FuseOps" in [step.name for step in made.steps]
    assert [s.name for s in shell.run_line_magic("mlc_passes", "mod mine").steps] == ["LegalizeOps"]
    named = shell.run_line_magic("mlc_passes", "mod zero").steps
    assert len(named) < len(made.steps)


def test_passes_are_for_modules(shell):
    shell.user_ns["x"] = 3
    with pytest.raises(UsageError, match="x is an int, not an IRModule"):
        shell.run_line_magic("mlc_passes", "x")
    with pytest.raises(MLCError):
        shell.user_ns["mod"] = mlp()
        shell.run_line_magic("mlc_passes", "mod nonsense")


@pytest.mark.parametrize("name", ["tvmscript", "mlc_bench", "mlc_passes"])
def test_help(shell, name):
    kind = "cell" if name == "tvmscript" else "line"
    text = shell.magics_manager.magics[kind][name].__doc__
    assert f"%{name}" in text and "::" in text
    assert len(text.splitlines()) > 8

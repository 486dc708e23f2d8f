"""An error that no one caught, in IPython's terminal shell and in a kernel."""

from __future__ import annotations

import atexit
import re

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient

from mlcnb.core import errors, options
from mlcnb.core.errors import MLCError

SETUP = """\
import mlcnb as mlc
from mlcnb import te
A = te.placeholder((8, 8), name="A")
k = te.reduce_axis((0, 8), "k")
B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="B")
sch = mlc.tir.Schedule(te.create_prim_func([A, B]))
i, k = sch.get_loops("B")
def wrong():
    sch.parallel(k)"""
REASON = (
    "ScheduleError: parallel: loop k is not parallel: it runs over the reduce axis v_k of block B: "
    "its iterations update the same elements of B"
)
TERMINAL = f"""\
Cell In[1], line 9, in wrong
  7 | i, k = sch.get_loops("B")
  8 | def wrong():
> 9 |     sch.parallel(k)
{REASON}
  2 | def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
  3 |     T.func_attr({{"tir.noalias": True}})
  4 |     # with T.block("root"):
> 5 |     for i, k in T.grid(8, 8):
    |            ^
  6 |         with T.block("B"):
  7 |             v_i, v_k = T.axis.remap("SR", [i, k])
  8 |             T.reads(A[v_i, v_k])
counter-example:
  1. block B at i = 0, k = 0 writes B[0]
  2. block B at i = 0, k = 1 reads B[0]
  B[0] is 28.0, and would be 8.0 (run on (8, 8), (8,))
  it shows on shapes as small as (2, 2), (2,)
hint: rfactor the loop first, or choose a spatial loop
N frames inside mlcnb: mlcnb.options.set("debug", True)
"""


@pytest.fixture
def shell():
    made = InteractiveShell.instance(colors="nocolor")
    yield made
    made.history_manager.end_session()
    made.atexit_operations()
    atexit.unregister(made.atexit_operations)
    InteractiveShell.clear_instance()


def run(shell, capsys, cell: str) -> str:
    """What a cell prints, after a first one that makes a schedule."""
    shell.run_cell(SETUP, store_history=True)
    capsys.readouterr()
    shell.run_cell(cell, store_history=True)
    return re.sub(r"\b\d+ frames", "N frames", capsys.readouterr().out)


def test_a_terminal_shows_the_readers_line_and_a_card(shell, capsys):
    assert run(shell, capsys, "wrong()") == TERMINAL


def test_the_traceback_of_a_bug_stays_whole(shell, capsys):
    shown = run(shell, capsys, "sch.parallel.nothing")
    assert "Traceback (most recent call last)" in shown and "frames inside mlcnb" not in shown


def test_the_option_debug_shows_every_frame(shell, capsys):
    with options.scoped(debug=True):
        shown = run(shell, capsys, "wrong()")
    assert "Traceback (most recent call last)" in shown
    assert "primitives/parallel.py" in shown and REASON in shown


def test_an_error_of_the_readers_own_function_names_what_it_came_of(shell, capsys):
    cell = (
        "from mlcnb.core.errors import MLCError\n"
        "try:\n    1 / 0\nexcept ZeroDivisionError as why:\n    raise MLCError('no') from why"
    )
    assert run(shell, capsys, cell) == (
        "Cell In[2], line 5\n  3 |     1 / 0\n  4 | except ZeroDivisionError as why:\n"
        "> 5 |     raise MLCError('no') from why\nMLCError: no\n"
        "because of ZeroDivisionError: division by zero\n"
    )


def test_names_cannot_write_to_the_terminal(shell, capsys):
    cell = "from mlcnb.core.errors import MLCError\nraise MLCError('a\\x1b[31m')"
    shown = run(shell, capsys, cell)
    assert "\x1b" not in shown and "MLCError: a\\x1b[31m" in shown


def test_a_view_that_fails_does_not_hide_the_error(monkeypatch):
    monkeypatch.setattr(errors, "uncaught_view", "mlcnb.view.uncaught:nothing")
    assert MLCError("lost")._render_traceback_()[-1].endswith("MLCError: lost\n")


def test_a_notebook_shows_the_card_and_one_line():
    cells = [nbformat.v4.new_code_cell(x) for x in (SETUP, "wrong()")]
    made = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(made, kernel_name="python3", timeout=120, allow_errors=True).execute()
    card, error = made.cells[1].outputs
    assert error.output_type == "error" and error.ename == "ScheduleError"
    assert error.traceback == [f"Cell In[1], line 9, in wrong: {REASON}"]
    html = card.data["text/html"]
    assert card.data["text/plain"] == REASON
    for text in ("Cell In[1], line 9, in wrong", "counter-example", "legal instead"):
        assert text in html
    assert re.search(r"<details.*?\d+ frames inside mlcnb.*?primitives/parallel\.py", html, re.S)

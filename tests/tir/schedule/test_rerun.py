"""Cells that are run again: in IPython's shell, and in a real kernel."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient

from mlcnb.core import cells, options
from mlcnb.core.errors import ArgumentError, ScheduleError
from mlcnb.tir.schedule import Schedule
from mlcnb.widgets import replaced
from tests.tir.schedule.programs import matmul

MAKE = """
from mlcnb import te
from mlcnb.tir import Schedule
A = te.placeholder((8,), name="A")
B = te.compute((8,), lambda i: A[i] * 2.0, name="B")
sch = Schedule(te.create_prim_func([A, B]))
"""


class Notebook:
    """A shell of IPython without a kernel, and cells with ids."""

    def __init__(self) -> None:
        from IPython.core.interactiveshell import InteractiveShell

        self.shell = InteractiveShell.instance()
        self.run("import mlcnb", "setup")

    def run(self, code: str, cell: str | None) -> None:
        """Run a cell; what it raises is raised here."""
        done = self.shell.run_cell(code, store_history=True, cell_id=cell)
        done.raise_error()

    def steps(self) -> list[str]:
        """The steps of `sch`."""
        return [s.name for s in self.shell.user_ns["sch"].steps]

    def close(self) -> None:
        """Take the shell away."""
        from IPython.core.interactiveshell import InteractiveShell

        InteractiveShell.clear_instance()
        cells._announced.clear()
        cells._listening.clear()


@pytest.fixture
def notebook():
    import builtins

    before = getattr(builtins, "get_ipython", None)
    book = Notebook()
    cells.current()
    book.run(MAKE, "a")
    yield book
    book.close()
    if before is None and hasattr(builtins, "get_ipython"):
        del builtins.get_ipython


def test_replace(notebook, capsys):
    notebook.run("(i,) = sch.get_loops('B'); a, b = sch.split(i, [None, 4])", "b")
    notebook.run("sch.vectorize(b)", "c")
    assert notebook.steps() == ["start", "split", "vectorize"]
    assert capsys.readouterr().out == ""
    notebook.run("(i,) = sch.get_loops('B'); a, b = sch.split(i, [None, 2])", "b")
    assert notebook.steps() == ["start", "split"]
    assert capsys.readouterr().out == (
        "run again: step 1 of this cell replaced, 2 after it undone; "
        "sch.restore() brings back what was\n"
    )
    notebook.run("sch.vectorize(b)", "c")
    assert notebook.steps() == ["start", "split", "vectorize"]
    sch = notebook.shell.user_ns["sch"]
    assert "T.vectorized(2)" in repr(sch)
    assert [x.name for x in sch.trace] == ["get_block", "get_loops", "split", "vectorize"]
    assert capsys.readouterr().out == ""


def test_restore_brings_back_what_was_replaced(notebook):
    sch = notebook.shell.user_ns["sch"]
    notebook.run("(i,) = sch.get_loops('B'); a, b = sch.split(i, [None, 4])", "b")
    notebook.run("sch.vectorize(b)", "c")
    notebook.run("(i,) = sch.get_loops('B'); a, b = sch.split(i, [None, 2])", "b")
    before, after = "T.vectorized(4)", "T.grid(4, 2)"
    assert after in repr(sch)
    assert before in repr(sch.restore())
    assert after in repr(sch.restore())
    notebook.run("sch.restore().undo()", "d")
    assert notebook.steps() == ["start", "split", "vectorize"]
    assert sch.position == 1


def test_nothing_was_replaced():
    with pytest.raises(ScheduleError, match="restore: no cell has replaced steps"):
        Schedule(matmul()).restore()


def test_the_button_takes_the_replacement_back_and_does_it_again(notebook):
    sch = notebook.shell.user_ns["sch"]
    for n in (4, 2):
        notebook.run(f"_ = sch.split(sch.get_loops('B')[0], [None, {n}])", "b")
    line, button = replaced.row(sch, "replaced").children
    for words, factor in (("replace them", 4), ("undo", 2)):
        button.click()
        assert button.description == words
        assert sch.get(sch.get_loops("B")[1]).extent.value == factor
    assert line.value == "replaced"


def test_stack(notebook):
    with options.scoped(rerun="stack"):
        for _ in range(3):
            notebook.run("sch.split(sch.get_loops('B')[0], [None, 2])", "b")
    assert notebook.steps() == ["start", "split", "split", "split"]


def test_what_was_undone_is_not_replaced(notebook):
    with options.scoped(rerun="replace"):
        notebook.run("sch.split(sch.get_loops('B')[0], [None, 2])", "b")
        notebook.run("sch.undo()", "c")
        notebook.run("sch.unroll(sch.get_loops('B')[0])", "d")
        notebook.run("sch.split(sch.get_loops('B')[0], [None, 2])", "b")
    assert notebook.steps() == ["start", "unroll", "split"]


def test_a_refused_step_in_a_cell_that_is_run_again(notebook):
    from mlcnb.core.errors import ScheduleError

    with options.scoped(rerun="replace"):
        notebook.run("sch.unroll(sch.get_loops('B')[0])", "b")
        with pytest.raises(ScheduleError):
            notebook.run("sch.compute_inline('B')", "b")
    assert notebook.shell.user_ns["sch"].position == 0


def test_cells_without_ids_stack(notebook):
    for _ in range(2):
        notebook.run("sch.split(sch.get_loops('B')[0], [None, 2])", None)
    assert notebook.steps() == ["start", "split", "split"]


def test_outside_of_notebooks_no_cell_is_known():
    assert cells.current() is None
    sch = Schedule(matmul())
    sch.unroll(sch.get_loops("C")[2])
    assert sch.steps[1].run is None


def test_an_unknown_choice():
    with pytest.raises(ArgumentError, match="no rerun 'ask'\nhint: one of replace, stack"):
        options.set("rerun", "ask")


def test_in_a_kernel(monkeypatch):
    """Requests as JupyterLab sends them: with the id of the cell among the metadata."""
    from jupyter_client.asynchronous import AsyncKernelClient

    def execute(self, code, **options_):
        """Send a request with the id of its cell, which its first line names."""
        allowed = ("silent", "store_history", "user_expressions", "allow_stdin", "stop_on_error")
        content = {"silent": False, "store_history": True, "user_expressions": {}}
        content |= {"allow_stdin": False, "stop_on_error": True}
        content |= {k: v for k, v in options_.items() if k in allowed and v is not None}
        cell = code.splitlines()[0].removeprefix("# ")
        request = self.session.msg(
            "execute_request", {"code": code, **content}, metadata={"cellId": cell}
        )
        self.shell_channel.send(request)
        return request["header"]["msg_id"]

    monkeypatch.setattr(AsyncKernelClient, "execute", execute)
    sources = [
        "# a\n" + MAKE.strip(),
        "# b\nimport mlcnb",
        "# c\n(i,) = sch.get_loops('B'); a, b = sch.split(i, [None, 2])",
        "# d\nsch.vectorize(b)",
        "# c\n(i,) = sch.get_loops('B'); a, b = sch.split(i, [None, 4])",
        "# e\nprint([s.name for s in sch.steps], sch.get(b).extent.value)",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(x) for x in sources])
    NotebookClient(book, timeout=120, kernel_name="python3").execute()
    assert book.cells[-1].outputs[0].text == "['start', 'split'] 4\n"
    (said,) = book.cells[4].outputs
    told = "run again: step 1 of this cell replaced, 2 after it undone"
    assert said.data["text/plain"] == f"{told}; sch.restore() brings back what was"
    state = book.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    model = state[said.data["application/vnd.jupyter.widget-view+json"]["model_id"]]
    children = [state[x.removeprefix("IPY_MODEL_")]["state"] for x in model["state"]["children"]]
    assert [children[0]["value"], children[1]["description"]] == [told, "undo"]

"""Cells that are run again: in IPython's shell, and in a real kernel."""

from __future__ import annotations

from types import SimpleNamespace

import nbformat
import pytest
from nbclient import NotebookClient

from mlcnb.core import cells, options
from mlcnb.core.errors import MLCError
from mlcnb.tir.schedule import Schedule
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
    with options.scoped(rerun="replace"):
        notebook.run("(i,) = sch.get_loops('B'); a, b = sch.split(i, [None, 4])", "b")
        notebook.run("sch.vectorize(b)", "c")
        assert notebook.steps() == ["start", "split", "vectorize"]
        notebook.run("(i,) = sch.get_loops('B'); a, b = sch.split(i, [None, 2])", "b")
        assert notebook.steps() == ["start", "split"]
        notebook.run("sch.vectorize(b)", "c")
        assert notebook.steps() == ["start", "split", "vectorize"]
    sch = notebook.shell.user_ns["sch"]
    assert "T.vectorized(2)" in repr(sch)
    assert [x.name for x in sch.trace] == ["get_block", "get_loops", "split", "vectorize"]
    assert capsys.readouterr().out == ""


def test_stack(notebook):
    with options.scoped(rerun="stack"):
        for _ in range(3):
            notebook.run("sch.split(sch.get_loops('B')[0], [None, 2])", "b")
    assert notebook.steps() == ["start", "split", "split", "split"]


def test_ask_where_nobody_answers(notebook, capsys):
    for _ in range(2):
        notebook.run("for n in (2, 1): _ = sch.split(sch.get_loops('B')[0], [None, n])", "b")
    assert notebook.steps() == ["start", *["split"] * 4]
    assert capsys.readouterr().out == (
        "this cell has done steps 1 to 2 of this schedule already; they stay. "
        'mlcnb.options.set("rerun", "replace") takes them back\n'
    )


@pytest.mark.parametrize(("answer", "steps"), [("", 1), ("y", 1), ("No", 2)])
def test_ask(notebook, monkeypatch, answer, steps):
    asked = []
    monkeypatch.setattr(cells, "can_ask", lambda: True)
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or answer)
    for _ in range(2):
        notebook.run("sch.split(sch.get_loops('B')[0], [None, 2])", "b")
    assert notebook.steps() == ["start", *["split"] * steps]
    assert asked == [
        "this cell has done step 1 of this schedule already. Take them back first? [Y/n] "
    ]


def test_what_was_undone_is_not_asked_about(notebook):
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


def test_outside_of_notebooks_nothing_is_asked():
    assert cells.current() is None
    sch = Schedule(matmul())
    sch.unroll(sch.get_loops("C")[2])
    assert sch.steps[1].run is None


def test_an_unknown_choice(notebook):
    with options.scoped(rerun="maybe"), pytest.raises(MLCError, match="no rerun option 'maybe'"):
        for _ in range(2):
            notebook.run("sch.unroll(sch.get_loops('B')[0])", "b")


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
        '# b\nimport mlcnb; mlcnb.options.set("rerun", "replace")',
        "# c\n(i,) = sch.get_loops('B'); a, b = sch.split(i, [None, 2])",
        "# d\nsch.vectorize(b)",
        "# c\n(i,) = sch.get_loops('B'); a, b = sch.split(i, [None, 4])",
        "# e\nprint([s.name for s in sch.steps], sch.get(b).extent.value)",
        '# f\nmlcnb.options.set("rerun", "ask")',
        "# c\nsch.unroll(sch.get_loops('B')[0])",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(x) for x in sources])
    NotebookClient(book, timeout=120, kernel_name="python3").execute()
    said = [SimpleNamespace(**x) for c in book.cells for x in c.outputs if "text" in x]
    assert said[0].text == "['start', 'split'] 4\n"
    assert said[1].text.startswith("this cell has done step 1 of this schedule already; they stay.")

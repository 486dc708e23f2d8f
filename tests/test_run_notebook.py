"""The runner of notebooks, on notebooks made here."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from tests.run_notebook import execute, main, text_lines, unseen, warnings_of


def write(path: Path, *cells: str) -> Path:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbformat.write(notebook, path)
    return path


def test_runs_in_the_notebooks_folder_and_prints_the_result_lines(tmp_path, capsys):
    (tmp_path / "data.txt").write_text("0.386")
    cells = [
        "x = open('data.txt').read()",
        "print('loud')\nprint('top-1: tiger cat', x)",
        "'top-3'",
    ]
    path = write(tmp_path / "small.ipynb", *cells)
    before = path.read_bytes()
    page = tmp_path / "build" / "small.html"
    assert main([str(path), "--html", str(page), "--print", "top-1:", "ratio"]) == 0
    result, summary = capsys.readouterr().out.splitlines()
    assert result == "top-1: tiger cat 0.386"
    assert summary.startswith(f"{path}: 3 cells in ")
    assert "top-1: tiger cat 0.386" in page.read_text()
    assert path.read_bytes() == before


def test_a_cell_that_raises_fails_the_run(tmp_path, capsys):
    path = write(tmp_path / "bad.ipynb", "1 / 0")
    with pytest.raises(CellExecutionError, match="ZeroDivisionError.*: division by zero"):
        execute(path)
    assert main([str(path)]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_text_and_warnings_are_found(tmp_path):
    cells = ["import warnings; warnings.warn('old')", "print('a\\nb')", "7"]
    run = execute(write(tmp_path / "warn.ipynb", *cells))
    assert [line for line in text_lines(run.notebook) if len(line) == 1] == ["a", "b", "7"]
    assert len(warnings_of(run.notebook)) == 1
    assert run.peak_bytes > 2**20


def test_keeps_outputs_and_only_widgets_that_are_shown(tmp_path, capsys):
    path = write(
        tmp_path / "small.ipynb",
        "import ipywidgets as w\ngone = w.HBox([w.FloatProgress()])\n'text'",
        "w.HBox([w.IntSlider(3)])",
    )
    assert main([str(path), "--keep"]) == 0
    notebook = nbformat.read(path, as_version=4)
    assert next(text_lines(notebook)) == "'text'"
    (state,) = notebook.metadata.widgets.values()
    kinds = sorted(model["model_name"] for model in state["state"].values())
    assert kinds == [
        "HBoxModel",
        "IntSliderModel",
        "LayoutModel",
        "LayoutModel",
        "SliderStyleModel",
    ]
    plain = write(tmp_path / "plain.ipynb", "import ipywidgets as w\ngone = w.HBox()")
    assert main([str(plain), "--keep"]) == 0
    assert "widgets" not in nbformat.read(plain, as_version=4).metadata
    capsys.readouterr()


def test_progress_leaves_nothing(tmp_path, capsys):
    path = write(
        tmp_path / "small.ipynb",
        "from tqdm.auto import tqdm\nfor i in tqdm(range(3)):\n    pass\n'done'",
        "import sys\nfrom tqdm import tqdm\nfor i in tqdm(range(3), file=sys.stderr):\n    pass",
        "from time import sleep\nfrom mlcnb.core.progress import progress_bar\n"
        "with progress_bar('working', 3) as bar:\n    for i in range(3):\n"
        "        sleep(0.5), bar.update(1)",
    )
    shown = [o for cell in execute(path).notebook.cells for o in cell.outputs]
    assert "application/vnd.jupyter.widget-view+json" not in shown[-1]["data"]
    assert main([str(path), "--keep"]) == 0
    notebook = nbformat.read(path, as_version=4)
    assert list(text_lines(notebook)) == ["'done'"]
    assert "widgets" not in notebook.metadata
    capsys.readouterr()


def test_claims_of_cells_are_held_against_their_outputs(tmp_path):
    path = write(tmp_path / "small.ipynb", "print('16 lanes')\n7")
    notebook = execute(path).notebook
    notebook.cells[0].metadata["claims"] = [r"^\d+ lanes$", "^7$", "^8$"]
    assert unseen(notebook) == ["cell 0: ^8$"]

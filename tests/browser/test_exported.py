"""Notebooks as `jupyter nbconvert` writes them, without a kernel or network: nothing is blank."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from mlcnb.cli.lab import with_settings
from tests.browser.server import ROOT

expect = pytest.importorskip("playwright.sync_api").expect

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
#: with pages, and quick to write
ALWAYS = "07_pages"
#: of what cells show: letters, pictures, and how much is cut off
SHOWN = """() => [...document.querySelectorAll('.jp-OutputArea-output')].map(o => [
    o.innerText.trim().length, o.querySelectorAll('svg, img').length, o.scrollWidth - o.clientWidth,
])"""


CASES = [
    pytest.param(p, id=p.stem, marks=() if p.stem == ALWAYS else pytest.mark.slow)
    for p in NOTEBOOKS
]


@pytest.mark.parametrize("source", CASES)
def test_a_notebook_as_html(idle, tmp_path: Path, source: Path) -> None:
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--output-dir", str(tmp_path)]
    env = with_settings(os.environ)
    subprocess.run([*command, str(source)], check=True, capture_output=True, env=env, timeout=120)
    cells = nbformat.read(source, 4).cells
    check(idle, tmp_path / f"{source.stem}.html", sum(len(c.get("outputs", ())) for c in cells))


@pytest.mark.parametrize("source", CASES)
def test_a_notebook_as_html_by_a_program_that_knows_nothing_of_mlcnb(idle, tmp_path, source):
    """nbviewer, say: no setting of ours, the notebook as it is."""
    plain(idle, tmp_path, source)


def test_what_a_reader_saves_is_static_there_too_and_live_when_it_is_opened_again(
    lab, idle, tmp_path
):
    nb = lab.open(["from tests.browser.kit import Kit; Kit()", "1 + 1"], trusted=True)
    nb.run()
    page = nb.output(0).locator(".mlcnb")
    expect(page).to_be_visible()
    nb.save()
    plain(idle, tmp_path, nb.path)
    again = nb.reopen()
    expect(again.output(0).locator(".mlcnb")).to_be_visible()


def plain(idle, folder: Path, source: Path) -> None:
    """The notebook by nbconvert as it comes; each output shows something."""
    from nbconvert import HTMLExporter

    notebook = nbformat.read(source, 4)
    body, _ = HTMLExporter().from_notebook_node(notebook)
    (folder / "plain.html").write_text(body, encoding="utf-8")
    count = sum(len(cell.get("outputs", ())) for cell in notebook.cells)
    check(idle, folder / "plain.html", count)


def check(idle, path: Path, count: int) -> None:
    """So many outputs, none of them blank or cut off where nothing can be fetched."""
    page = idle[0].context.new_page()
    page.route("http*://**", lambda route: route.abort())
    try:
        page.goto(path.as_uri())
        shown = page.evaluate(SHOWN)
        told = page.inner_text("body")
    finally:
        page.close()
    assert len(shown) == count
    for n, (letters, pictures, beyond) in enumerate(shown):
        assert letters or pictures, f"output {n} is blank"
        assert beyond <= 2, f"output {n} is cut off"
    for words in ("model not found", "Loading widget", "compiling kernels"):
        assert words not in told

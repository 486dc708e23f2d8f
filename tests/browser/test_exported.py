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

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
#: with pages, and quick to write
ALWAYS = "07_pages"
#: of what cells show: letters, pictures, and how much is cut off
SHOWN = """() => [...document.querySelectorAll('.jp-OutputArea-output')].map(o => [
    o.innerText.trim().length, o.querySelectorAll('svg, img').length, o.scrollWidth - o.clientWidth,
])"""


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(p, id=p.stem, marks=() if p.stem == ALWAYS else pytest.mark.slow)
        for p in NOTEBOOKS
    ],
)
def test_a_notebook_as_html(idle, tmp_path: Path, source: Path) -> None:
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--output-dir", str(tmp_path)]
    env = with_settings(os.environ)
    subprocess.run([*command, str(source)], check=True, capture_output=True, env=env, timeout=120)
    page = idle[0].context.new_page()
    try:
        page.goto((tmp_path / f"{source.stem}.html").as_uri())
        shown = page.evaluate(SHOWN)
        told = page.inner_text("body")
    finally:
        page.close()
    cells = nbformat.read(source, 4).cells
    assert len(shown) == sum(len(cell.get("outputs", ())) for cell in cells)
    for n, (letters, pictures, beyond) in enumerate(shown):
        assert letters or pictures, f"output {n} is blank"
        assert beyond <= 2, f"output {n} is cut off"
    for words in ("model not found", "Loading widget", "compiling kernels"):
        assert words not in told

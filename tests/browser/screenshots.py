"""Pictures of every view and page in JupyterLab: three widths, both of its own themes.

make screenshots        build/screenshots/lab/WIDTH-THEME/NAME.png, and sheet-WIDTH-THEME.png: all
                        of them small, side by side
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw
from playwright.sync_api import sync_playwright

from tests.browser import chromium
from tests.browser.conftest import SCREENSHOTS
from tests.browser.lab import Lab, Notebook
from tests.browser.room import WIDTHS
from tests.browser.server import Server
from tests.view.samples import everything
from tests.widgets.samples import SAMPLES

FOLDER = SCREENSHOTS / "lab"
VIEWS = "from tests.view.samples import everything; shown = everything('x'); None"
VIEW = (
    "from IPython.display import HTML; from mlcnb import view; HTML(view.to_html(shown[{name!r}]))"
)
PAGES = "from tests.widgets.samples import page"
#: a contact sheet: so many beside each other, each so wide, at most so high
COLUMNS, WIDE, HIGH = 6, 300, 260


def main() -> None:
    """Run a notebook of everything, and take its outputs."""
    views = [*everything("x")]
    cells = [VIEWS, PAGES, *(VIEW.format(name=name) for name in views)]
    cells += [f"page({kind!r})" for kind in SAMPLES]
    names = ["", "", *(f"view {x}" for x in views), *(f"page {x}" for x in SAMPLES)]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        server = Server(Path(folder))
        browser = driver.chromium.launch(executable_path=chromium.find(), args=[*chromium.FLAGS])
        lab = Lab(server, browser.new_page())
        notebook = lab.open(cells, trusted=True)
        notebook.run()
        for width, with_files, _ in WIDTHS:
            lab.resize(width, with_files)
            for theme in ("light", "dark"):
                lab.theme(dark=theme == "dark")
                target = FOLDER / f"{width}-{theme}"
                taken = dict(take(notebook, names, target))
                print(f"{target.name}: {len(taken)} pictures")
                sheet(taken).save(FOLDER / f"sheet-{width}-{theme}.png")
        browser.close()
        server.stop()


def take(notebook: Notebook, names: list[str], folder: Path) -> Iterator[tuple[str, Path]]:
    """A picture of each output that has a name."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        shown = notebook.output(number).locator(".mlcnb, .mlc-view").first
        if not name or not shown.count():
            continue
        path = folder / f"{re.sub(r'[^A-Za-z]+', '-', name)}.png"
        shown.scroll_into_view_if_needed()
        shown.screenshot(path=path, animations="disabled")
        yield name, path


def sheet(taken: dict[str, Path]) -> Any:
    """All pictures small, under their names."""
    rows = -(-len(taken) // COLUMNS)
    made = Image.new("RGB", (COLUMNS * (WIDE + 8), rows * (HIGH + 24)), "#808080")
    pen = ImageDraw.Draw(made)
    for number, (name, path) in enumerate(taken.items()):
        left, top = number % COLUMNS * (WIDE + 8), number // COLUMNS * (HIGH + 24)
        small = Image.open(path).convert("RGB")
        small.thumbnail((WIDE, HIGH))
        pen.text((left + 2, top + 4), name, fill="white")
        made.paste(small, (left, top + 20))
    return made


if __name__ == "__main__":
    main()

"""What tests in a browser share: one Chromium and one JupyterLab for each process of tests.

lab             JupyterLab in a page, with what it was left at: see tests.browser.lab
page_of(obj)    an exported page of an object, in a page of its own without network
axe(root)       assert that axe finds nothing wrong with an element
screenshot(name, root)      build/screenshots/NAME.png
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import chromium
from tests.browser.accessibility import check as check_axe
from tests.browser.lab import Lab
from tests.browser.server import ROOT, Server

SCREENSHOTS = ROOT / "build" / "screenshots"
#: tall, so that an output is in the picture as a whole
SIZE = {"width": 1280, "height": 1600}


# One browser for all of this folder, and none after it: while Playwright runs, its event loop is
# the thread's, and other tests want one of their own.


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Chromium."""
    path = chromium.find()
    if path is None:
        pytest.skip(chromium.MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=path, args=[*chromium.FLAGS])
        yield running
        running.close()


@pytest.fixture(scope="package")
def server(browser: Any, tmp_path_factory: Any) -> Iterator[Server]:
    """A JupyterLab of these tests' own."""
    running = Server(tmp_path_factory.mktemp("jupyterlab"))
    yield running
    running.stop()


@pytest.fixture(scope="package")
def laboratory(browser: Any, server: Server) -> Iterator[Lab]:
    """JupyterLab's page, loaded once."""
    page = browser.new_page(viewport=SIZE)
    yield Lab(server, page)
    page.close()


@pytest.fixture
def lab(laboratory: Lab) -> Iterator[Lab]:
    """JupyterLab with the light theme and no notebook; nothing bad may happen in it."""
    laboratory.theme(dark=False)
    yield laboratory
    laboratory.end()


@pytest.fixture
def axe() -> Callable[..., None]:
    """Assert that axe finds nothing wrong with the element of a locator."""
    return check_axe


@pytest.fixture(scope="session")
def screenshot() -> Callable[[str, Any], Path]:
    """Keep a picture of a page or an element to look at: build/screenshots/NAME.png."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    def take(name: str, what: Any) -> Path:
        path = SCREENSHOTS / f"{name}.png"
        what.screenshot(path=path, animations="disabled")
        return path

    return take

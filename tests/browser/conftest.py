"""What tests in a browser share: one Chromium and one JupyterLab for each process of tests.

lab             JupyterLab in a page, with what it was left at: see tests.browser.lab
page_of(obj)    an exported page of an object, in a page of its own without network
opened(obj)     its page with a model as in a notebook, without a notebook
axe(root)       assert that axe finds nothing wrong with an element
screenshot(name, root)      build/screenshots/NAME.png, but not in CI
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import mlcnb as mlc
from mlcnb.widgets import base
from tests.browser import chromium
from tests.browser.accessibility import check as check_axe
from tests.browser.guard import Guard
from tests.browser.lab import Lab
from tests.browser.server import ROOT, Server

SCREENSHOTS = ROOT / "build" / "screenshots"
#: tall, so that an output is in the picture as a whole
SIZE = {"width": 1280, "height": 1600}
#: what anywidget gives a module: values, who hears of their changes, and what was sent to Python
_MODEL = """
const heard = {};
window.model = {
  state: JSON.parse(document.querySelector("[type='application/json']").textContent),
  get: (name) => model.state[name],
  set(name, value) {
    model.state[name] = value;
    model.fire(`change:${name}`);
  },
  fire(name, what) { (heard[name] || []).forEach((f) => f(what)); },
  on(name, f) { (heard[name] ||= []).push(f); },
  off(name, f) { heard[name] = (heard[name] || []).filter((g) => g !== f); },
  sent: [],
  send(message) { model.sent.push(message); },
  save_changes() {},
};
await widget.render({ model, el: document.querySelector("#page") });
"""


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


@pytest.fixture(scope="package")
def idle(browser: Any) -> Iterator[list[Any]]:
    """Pages without network that no test holds. A new one costs a second of a core, so they are
    used again: what a document leaves behind goes with it, and a page that was faulted is closed.
    """
    context = browser.new_context(offline=True)
    pages = [context.new_page()]
    yield pages
    context.close()


@pytest.fixture
def show(idle: list[Any]) -> Iterator[Callable[..., Any]]:
    """A file in a page of its own, without network; nothing that must not happen happens."""
    guards = []

    def open_page(path: Path, dark: bool = False) -> Any:
        page = idle.pop() if len(idle) > 1 else idle[0].context.new_page()
        guards.append(Guard(page))
        page.set_viewport_size({**SIZE, "width": 1100})
        scheme = "dark" if dark else "light"
        page.emulate_media(media="null", color_scheme=scheme, reduced_motion="null")
        page.goto(path.as_uri())
        return page

    yield open_page
    for guard in guards:
        try:
            guard.check()
        except BaseException:
            guard.page.close()
            raise
        guard.leave()
        guard.page.goto("about:blank")
        idle.append(guard.page)


@pytest.fixture
def page_of(show: Any, tmp_path: Path) -> Callable[..., Any]:
    """The exported page of an object."""
    numbers = count()
    return lambda obj, dark=False: show(
        mlc.export(obj, tmp_path / f"page{next(numbers)}.html"), dark
    )


@pytest.fixture
def opened(show: Any, tmp_path: Path) -> Callable[..., Any]:
    """The page of an object with a model as in a notebook, whose traits can be set; what it asks is
    in `model.sent`, and the test is its Python.
    """
    numbers = count()

    def open_page(made: Any, **traits: Any) -> Any:
        state = {"packed": base.pack(made.snapshot()), "label": made.label}
        state |= dict.fromkeys(type(made).traits) | traits
        module = base.esm(made.module).replace("\nexport default ", "\nconst widget = ", 1)
        path = tmp_path / f"opened{next(numbers)}.html"
        parts = (
            f"<!doctype html><meta charset=utf-8><style>{base.css(made.module)}</style>",
            "<div id=page></div><script type='application/json'>",
            json.dumps(state).replace("<", "\\u003c"),
            "</script><script type=module>\n",
            module.replace("\nexport ", "\n"),
            f"{_MODEL}</script>",
        )
        path.write_text("".join(parts))
        shown = show(path)
        shown.locator(".mlc-body > *").first.wait_for()
        return shown

    return open_page


@pytest.fixture
def bare(show: Any, tmp_path: Path) -> Callable[[str], Any]:
    """HTML in a page that allows everything: no policy, no sanitiser."""

    def write(html: str) -> Any:
        path = tmp_path / "bare.html"
        page = f"<!doctype html><meta charset=utf-8><body class=touch>{html}"
        path.write_bytes(page.encode(errors="replace"))
        return show(path)

    return write


@pytest.fixture
def axe() -> Callable[..., None]:
    """Assert that axe finds nothing wrong with the element of a locator."""
    return check_axe


@pytest.fixture(scope="session")
def screenshot() -> Callable[[str, Any], Path]:
    """Keep a picture of a page or an element to look at: build/screenshots/NAME.png.

    In CI nobody looks at them, and none is taken.
    """
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    def take(name: str, what: Any) -> Path:
        path = SCREENSHOTS / f"{name}.png"
        if not os.environ.get("CI"):
            what.screenshot(path=path, animations="disabled")
        return path

    return take

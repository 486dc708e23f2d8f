"""Names that mean harm, in every static view: nothing runs, in no kind of page."""

from __future__ import annotations

import pytest

from tests.browser.lab import with_outputs
from tests.browser.test_static import bundles
from tests.view.names import NAMES

expect = pytest.importorskip("playwright.sync_api").expect
# what a name would run when it is pointed at, clicked or focused
_TOUCH = """() => [...document.querySelectorAll(".touch *")].forEach(node => {
  for (const kind of ["click", "focus", "mouseover", "load", "error"]) {
    node.dispatchEvent(new Event(kind));
  }
})"""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_every_view(bare, lab, name):
    """Together in one page that allows everything, and in a notebook that is trusted."""
    made = bundles(name)
    page = bare("".join(bundle["text/html"] for bundle in made.values()))
    page.evaluate(_TOUCH)
    nb = lab.open(with_outputs([*made.values()]), trusted=True, live=False)
    outputs = nb.root.locator(".jp-OutputArea-output")
    expect(outputs).to_have_count(len(made), timeout=120_000)  # they come one by one
    nb.root.evaluate("node => node.classList.add('touch')")
    lab.page.evaluate(_TOUCH.replace(".touch", ".touch .jp-OutputArea-output"))

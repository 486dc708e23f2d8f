"""Static views in JupyterLab: in a notebook that is not trusted and in one that is."""

from __future__ import annotations

import re

import pytest

from mlcnb import view
from mlcnb.core import display
from tests.browser.lab import with_outputs
from tests.view.allowed import check_html
from tests.view.samples import everything

expect = pytest.importorskip("playwright.sync_api").expect


def bundles(name):
    """What cells get of every object of the samples, by what it is."""
    return {
        what: {"text/plain": display.cell(obj), "text/html": view.to_html(obj)}
        for what, obj in everything(name).items()
    }


@pytest.fixture(scope="module")
def calm():
    return bundles("x")


# pictures have loaded, in the size that is written on them
_PICTURES = """outputs => outputs.flatMap(output => [...output.querySelectorAll("img")])
  .filter(img => !(img.complete && img.naturalWidth > 0)).length"""
# all folds opened, or as they were at first
_FOLDS = """(outputs, all) => outputs.flatMap(output => [...output.querySelectorAll("details")])
  .forEach(fold => {
    fold.dataset.first ??= fold.open;
    fold.open = all || fold.dataset.first === "true";
  })"""


@pytest.mark.parametrize("trusted", [False, True], ids=["untrusted", "trusted"])
def test_every_view(lab, calm, axe, screenshot, trusted):
    nb = lab.open(with_outputs([*calm.values()]), trusted=trusted, live=False)
    outputs = nb.root.locator(".jp-OutputArea-output.jp-RenderedHTMLCommon")
    expect(outputs).to_have_count(len(calm))
    for dark in (False, True):
        lab.theme(dark)
        outputs.evaluate_all(_FOLDS, False)
        for number, what in enumerate(calm if trusted else ()):
            name = re.sub(r"\W+", "-", what)
            screenshot(f"static/{name}-{'dark' if dark else 'light'}", nb.output(number))
        outputs.evaluate_all(_FOLDS, True)
        axe(outputs, SCROLLING)
    assert outputs.evaluate_all(_PICTURES) == 0
    shown = outputs.all_text_contents()
    wanted = [check_html(bundle["text/html"]) for bundle in calm.values()]
    assert [*map(words, shown)] == [*map(words, wanted)]


#: an element that scrolls takes no tabindex through JupyterLab's sanitiser, and needs none: it is
#: reached by Tab in today's browsers
SCROLLING = ("scrollable-region-focusable",)


def words(text):
    """A text but for its white space."""
    return "".join(text.split())

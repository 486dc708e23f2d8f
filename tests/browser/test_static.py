"""Static views in JupyterLab: in a notebook that is not trusted and in one that is."""

from __future__ import annotations

import re

import pytest

from mlcnb import view
from mlcnb.core import display
from mlcnb.testing import gallery
from tests.browser.lab import with_outputs
from tests.browser.room import IN_VIEWS, WIDTHS, clipped
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
# what outputs say; a style sheet says nothing
_TEXTS = """outputs => outputs.map(output => {
  const copy = output.cloneNode(true);
  copy.querySelectorAll("style").forEach(sheet => sheet.remove());
  return copy.textContent;
})"""
# all folds opened, or as they were at first
_FOLDS = """(outputs, all) => outputs.flatMap(output => [...output.querySelectorAll("details")])
  .forEach(fold => {
    fold.dataset.first ??= fold.open;
    fold.open = all || fold.dataset.first === "true";
  })"""


# columns that stand one below the other, and have an empty line
_HOLES = """() => [...document.querySelectorAll(".mlc-view div")]
  .filter(row => row.style.display === "flex")
  .filter(row => new Set([...row.children].map(x => x.getBoundingClientRect().top)).size > 1)
  .flatMap(row => [...row.querySelectorAll("pre")])
  .filter(pre => pre.textContent.trimEnd().split("\\n").some(line => !line.trim()))
  .map(pre => pre.textContent)"""


@pytest.mark.parametrize("trusted", [False, True], ids=["untrusted", "trusted"])
def test_every_view(lab, calm, axe, screenshot, trusted):
    nb = lab.open(with_outputs([*calm.values()]), trusted=trusted, live=False)
    outputs = nb.root.locator(".jp-OutputArea-output.jp-RenderedHTMLCommon")
    expect(outputs).to_have_count(len(calm), timeout=60_000)
    for dark in (False, True):
        lab.theme(dark)
        outputs.evaluate_all(_FOLDS, False)
        for number, what in enumerate(calm if trusted else ()):
            name = re.sub(r"\W+", "-", what)
            screenshot(f"static/{name}-{'dark' if dark else 'light'}", nb.output(number))
        outputs.evaluate_all(_FOLDS, True)
        axe(outputs)
        assert dark or not trusted or check_widths(lab, nb, len(calm)) == []
    assert outputs.evaluate_all(_PICTURES) == 0
    shown = outputs.evaluate_all(_TEXTS)
    wanted = [check_html(bundle["text/html"]) for bundle in calm.values()]
    assert [*map(words, shown)] == [*map(words, wanted)]


def test_long_names_are_not_cut_off(idle):
    """Kernels of models have long names: nothing of a table lies beyond its view, folds open."""
    name = "fused_conv2d_winograd_without_transform_add_clip2"
    views = [(what, view.to_html(obj)) for what, obj in everything(name).items()]
    page = idle[0].context.new_page()
    try:
        body = "".join(f"<div class='shown'>{html}</div>" for _, html in views)
        page.set_content(f"<body style='margin:0;font-family:sans-serif'>{body}")
        shown = page.locator(".shown")
        shown.evaluate_all(_FOLDS, True)
        found = []
        for _, _, room in WIDTHS:
            page.set_viewport_size({"width": room, "height": 1000})
            for number, (what, _) in enumerate(views):
                found += [f"{room}: {what}: {cut}" for cut in clipped(shown.nth(number), IN_VIEWS)]
    finally:
        page.close()
    assert found == []


def test_two_programs_have_no_holes(idle):
    """Empty lines keep equal lines abreast; none are left where one program is below the other."""
    views = [view.to_html(gallery(name)) for name in ("merge", "split", "vectorize", "cache_read")]
    page = idle[0].context.new_page()
    try:
        page.set_content(f"<body style='margin:0;font-family:sans-serif'>{''.join(views)}")
        found = []
        for _, _, room in WIDTHS:
            page.set_viewport_size({"width": room, "height": 1000})
            found += page.evaluate(_HOLES)
    finally:
        page.close()
    assert found == []


def check_widths(lab, nb, count):
    """What is cut off of the views at the widths that people have."""
    found = []
    for width, with_files, _ in WIDTHS:
        lab.resize(width, with_files)
        for number in range(count):
            root = nb.output(number).locator(".mlc-view").first
            found += [f"{width}: {number}: {cut}" for cut in clipped(root, IN_VIEWS)]
    lab.resize()
    return found


def words(text):
    """A text but for its white space."""
    return "".join(text.split())

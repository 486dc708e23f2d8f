"""What all widgets are built from, in a page and in JupyterLab."""

from __future__ import annotations

import pytest
from nbformat import v4

from tests.browser.kit import Kit
from tests.browser.lab import notebook_of
from tests.view.names import NAMES

expect = pytest.importorskip("playwright.sync_api").expect
CELLS = ["from tests.browser.kit import Kit", "kit = Kit(); kit", "kit"]


def check_keys(root):
    """The stepper goes by arrows, Home and End; the listing by arrows and Enter."""
    steps = root.get_by_role("slider", name="step")
    at = root.locator(".mlc-at")
    for key, wanted in (("ArrowRight", "reorder"), ("End", "vectorize"), ("Home", "split")):
        steps.press(key)
        expect(at).to_have_text(wanted)
    steps.press("ArrowDown")
    expect(root.get_by_role("status")).to_have_text("step 1: reorder")
    expect(root.get_by_role("option")).to_have_count(4)
    expect(root.locator("[data-mark='+']")).to_have_count(1)
    root.get_by_role("listbox").press("ArrowDown")
    root.get_by_role("listbox").press("ArrowDown")
    root.get_by_role("listbox").press("Enter")
    expect(root.locator(".kit-said")).to_have_text("line 1")
    root.get_by_role("tab", name="program").press("ArrowRight")
    expect(root.get_by_role("table")).to_be_visible()
    expect(root.get_by_role("listbox")).to_be_hidden()
    root.get_by_role("tab", name="facts").press("ArrowLeft")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_exported_page(page_of, axe, screenshot, dark):
    page = page_of(Kit(), dark=dark)
    root = page.locator(".mlcnb")
    check_keys(root)
    root.get_by_role("button", name="double").click()
    expect(root.locator(".kit-said")).to_contain_text("no kernel is running")
    axe(root)
    screenshot(f"base-{'dark' if dark else 'light'}", root)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_hostile_names_are_text(page_of, name):
    root = page_of(Kit(name)).locator(".mlcnb")
    root.get_by_role("slider", name="step").press("End")
    expect(root.locator(".mlc-at")).to_have_text("vectorize")


def test_with_a_kernel(lab, axe):
    nb = lab.open(CELLS, trusted=True)
    nb.run()
    pages = [nb.output(cell).locator(".mlcnb") for cell in (1, 2)]
    for root in pages:  # two pages of one object
        check_keys(root)
    root, other = pages
    root.get_by_role("button", name="double").click()
    expect(root.locator(".kit-said")).to_have_text("2")
    root.get_by_role("slider", name="step").press("End")
    root.get_by_role("button", name="double").click()
    expect(root.locator(".kit-said")).to_have_text("two is enough")
    for dark in (True, False):
        lab.theme(dark)
        axe(root)
    nb.execute("kit.names = ['tile'] * 5; kit.refresh()")
    for page in (root, other):
        expect(page.locator("h3")).to_have_text("tile")
        page.get_by_role("slider", name="step").press("End")
        expect(page.get_by_role("status")).to_have_text("step 4: tile")


#: the first text of a notebook, edited after its pages were drawn
DEEPER = """([path]) => {
  panels[path].content.widgets[1].model.sharedModel.setSource("# one\\n## two\\n### more");
}"""


def test_headings_go_on_from_those_of_the_notebook(lab, axe):
    """A page under a heading of level 2 has one of level 3; under one of level 4 one of level 5."""
    notebook = notebook_of([CELLS[0], "kit = Kit(); kit", "kit"])
    notebook.cells.insert(1, v4.new_markdown_cell("# one\n## two"))
    notebook.cells.insert(3, v4.new_markdown_cell("### three\n#### four"))
    nb = lab.open(notebook, trusted=True)
    nb.run()
    for cell, wanted in ((2, "3"), (4, "5")):
        title = nb.output(cell).locator(".mlcnb h3")
        expect(title).to_have_attribute("aria-level", wanted)
        axe(nb.output(cell).locator(".mlcnb"))
    nb.call(DEEPER)
    expect(nb.output(2).locator(".mlcnb h3")).to_have_attribute("aria-level", "4")


def test_after_a_reload(lab):
    nb = lab.open(CELLS, trusted=True)
    nb.run()
    saved = nb.save()
    assert set(saved.cells[1].outputs[0].data) == {"text/plain", "text/html"}  # as others read it
    assert "widgets" not in saved.metadata
    again = nb.reopen()
    root = again.output(1).locator(".mlcnb")
    check_keys(root)
    root.get_by_role("button", name="double").click()
    expect(root.locator(".kit-said")).to_contain_text("no kernel is running")


def test_in_a_notebook_that_is_not_trusted(lab, server):
    nb = lab.open(CELLS, trusted=True)
    nb.run()
    notebook = nb.save()
    notebook.cells[1].outputs[0].data["text/plain"] = "changed by somebody"
    nb.close()
    untrusted = lab.open(notebook, live=False)
    expect(untrusted.output(1)).to_contain_text("as a static view")
    expect(untrusted.root.locator(".mlcnb")).to_have_count(0)

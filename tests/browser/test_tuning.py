"""The page of a search in Chromium: by keyboard, and in JupyterLab while it runs."""

from __future__ import annotations

import pytest

from tests.view.names import NAMES
from tests.widgets.samples import page

expect = pytest.importorskip("playwright.sync_api").expect
#: a search that would go on for minutes
CELLS = [
    "import mlcnb as mlc; from tests.widgets.test_tuning import PRODUCT",
    "found = mlc.tune(mlc.script.from_source(PRODUCT), seconds=300, threads=1)",
    "print(found.stopped, len(found.trials) > 1, len(found.rounds) > 1); found",
]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_trials_by_keyboard_and_tabs(page_of, axe, screenshot, dark):
    root = page_of(page("Tuning"), dark=dark).locator(".mlcnb")
    expect(root.get_by_role("heading", name="tuned x")).to_be_visible()
    expect(root.get_by_role("button", name="stop the search")).to_be_hidden()
    steps = root.get_by_role("slider", name="trial")
    for key, wanted in (("End", "rejected: x"), ("Home", "the default"), ("ArrowRight", "0.800")):
        steps.press(key)
        expect(root.locator(".mlc-detail")).to_contain_text(wanted)
    axe(root)
    for tab, wanted in (
        ("decisions", "1 tried, 1 rejected: x"),
        ("race", "time, where the default's is 1"),
        ("why it won", "measured"),
        ("trials", "the fastest of 4"),
    ):
        root.get_by_role("tab", name=tab).click()
        expect(root.get_by_role("tabpanel", name=tab)).to_contain_text(wanted)
        axe(root)
    screenshot(f"tuning-{'dark' if dark else 'light'}", root)


def test_axes_have_round_values_over_their_whole_length(page_of):
    root = page_of(page("Tuning")).locator(".mlcnb")
    progress, foretold = (
        root.locator("figure").nth(n).locator(".mlc-tick").all_text_contents() for n in (0, 1)
    )
    assert progress[-5:] == ["0", "1", "2", "3", "seconds"]
    assert {"0.8", "1", "1.2", "1.4"} <= set(foretold)


def test_kernels_of_a_model(page_of):
    root = page_of(page("ModelTuning")).locator(".mlcnb")
    head = root.locator("table").first.locator("th").all_text_contents()
    assert head == ["kernel", "calls", "default", "ratio", "tried", "search"]
    expect(root.locator("[aria-pressed=true]")).to_have_count(1)
    first = root.get_by_role("button", name="x", exact=True).first
    first.click()
    expect(first).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_hostile_names_are_text(page_of, name):
    root = page_of(page("Tuning", name)).locator(".mlcnb")
    root.get_by_role("slider").press("End")
    root.get_by_role("tab", name="why it won").click()
    expect(root.locator(".mlc-code").first).to_be_visible()


def test_a_search_is_seen_and_stopped_while_its_cell_runs(lab):
    nb = lab.open(CELLS, trusted=True)
    nb.start()
    root = nb.output(1).locator(".mlcnb")
    expect(root.locator(".mlc-point").first).to_be_visible(timeout=60_000)
    expect(root.locator(".mlc-leveltext", has_text="roofline")).to_have_count(1)
    stop = root.get_by_role("button", name="stop the search")
    expect(stop).to_be_enabled(timeout=20_000)
    stop.click()
    expect(nb.output(2).first).to_contain_text("True True True", timeout=60_000)
    # what stays is static: a picture, and no widget that asks for its kernel
    expect(nb.output(1).locator(".mlcnb")).to_have_count(0)
    expect(nb.output(1).locator("img")).to_have_count(1)
    expect(nb.output(2).locator("img")).to_have_count(3)
    saved = nb.save()
    kept = saved.cells[1].outputs[0]["data"]
    assert set(kept) == {"text/plain", "text/html"}

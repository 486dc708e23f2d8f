"""Where the reader is in a page: traits that cells and linked widgets set, and the page too."""

from __future__ import annotations

import pytest

from tests.widgets.samples import page

expect = pytest.importorskip("playwright.sync_api").expect
#: page, its trait, a place, and what the page then says of its first slider
PLACES = [
    ("Schedule", "step", 1, "step 1 of"),
    ("Replay", "step", 99, "2 of"),
    ("AccessReplay", "cursor", 4, "5 of"),
    ("WarpLens", "cursor", 1, "2 of"),
]


def value(shown, name):
    return shown.evaluate("name => model.get(name)", name)


@pytest.mark.parametrize(("kind", "trait", "place", "told"), PLACES)
def test_a_page_goes_where_its_trait_says_and_says_where_it_is(opened, kind, trait, place, told):
    shown = opened(page(kind))
    slider = shown.locator("input[type=range]").first
    assert value(shown, trait) is None
    shown.evaluate("([name, to]) => model.set(name, to)", [trait, place])
    assert told in slider.get_attribute("aria-valuetext")
    slider.press("Home")
    assert value(shown, trait) == 0
    again = opened(page(kind), **{trait: place})
    assert told in again.locator("input[type=range]").first.get_attribute("aria-valuetext")


def test_the_explorer_says_which_loop_and_branch(opened):
    shown = opened(page("Schedule"))
    shown.locator(".x-tree [role=option]").nth(1).click()
    chosen = value(shown, "loop")
    assert chosen and value(shown, "branch") == "main"
    shown.locator(".x-tree [role=option]").first.click()
    assert value(shown, "loop") != chosen
    shown.evaluate("name => model.set('loop', name)", chosen)
    assert chosen in shown.locator(".x-tree [aria-selected=true]").inner_text()


def test_a_timeline_goes_to_a_pass(opened):
    shown = opened(page("PassTrace"))
    last = shown.locator(".mlc-pass").count() - 1
    shown.evaluate("i => model.set('step', i)", last)
    assert shown.locator("tr[aria-current=true] td").first.inner_text() == str(last)


def test_a_model_goes_to_an_operator(opened):
    shown = opened(page("Executable"))
    shown.locator("[role=treeitem], [role=option], .mlc-node").first.click()
    chosen = value(shown, "selection")
    assert chosen
    again = opened(page("Executable"), selection=chosen)
    expect(again.locator(".mlc-detail")).not_to_contain_text("pick an operator")

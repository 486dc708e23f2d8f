"""Where the reader is in a page: traits that cells and linked widgets set, and the page too."""

from __future__ import annotations

import json

import pytest

from mlcnb.widgets import base
from tests.widgets.samples import page

expect = pytest.importorskip("playwright.sync_api").expect
#: what anywidget gives a module: values, and who hears of their changes
MODEL = """
const heard = {};
window.model = {
  state: JSON.parse(document.querySelector("[type='application/json']").textContent),
  get: (name) => model.state[name],
  set(name, value) {
    model.state[name] = value;
    (heard[`change:${name}`] || []).forEach((f) => f());
  },
  on(name, f) { (heard[name] ||= []).push(f); },
  off(name, f) { heard[name] = (heard[name] || []).filter((g) => g !== f); },
  send() {}, save_changes() {},
};
await widget.render({ model, el: document.querySelector("#page") });
"""
#: page, its trait, a place, and what the page then says of its first slider
PLACES = [
    ("Schedule", "step", 1, "step 1 of"),
    ("Replay", "step", 99, "2 of"),
    ("AccessReplay", "cursor", 4, "5 of"),
    ("WarpLens", "cursor", 1, "2 of"),
]


@pytest.fixture
def opened(show, tmp_path):
    """A page with a model whose traits can be set, as in a notebook, and traits that are set."""

    def open_page(kind, **traits):
        made = page(kind)
        state = {"packed": base.pack(made.snapshot()), "label": made.label}
        state |= dict.fromkeys(type(made).traits) | traits
        module = base.esm(made.module).replace("\nexport default ", "\nconst widget = ", 1)
        path = tmp_path / "page.html"
        parts = (
            f"<!doctype html><meta charset=utf-8><style>{base.css(made.module)}</style>",
            "<div id=page></div><script type='application/json'>",
            json.dumps(state).replace("<", "\\u003c"),
            "</script><script type=module>\n",
            module.replace("\nexport ", "\n"),
            f"{MODEL}</script>",
        )
        path.write_text("".join(parts))
        shown = show(path)
        expect(shown.locator(".mlc-body > *").first).to_be_visible()
        return shown

    return open_page


def value(shown, name):
    return shown.evaluate("name => model.get(name)", name)


@pytest.mark.parametrize(("kind", "trait", "place", "told"), PLACES)
def test_a_page_goes_where_its_trait_says_and_says_where_it_is(opened, kind, trait, place, told):
    shown = opened(kind)
    slider = shown.locator("input[type=range]").first
    assert value(shown, trait) is None
    shown.evaluate("([name, to]) => model.set(name, to)", [trait, place])
    assert told in slider.get_attribute("aria-valuetext")
    slider.press("Home")
    assert value(shown, trait) == 0
    again = opened(kind, **{trait: place})
    assert told in again.locator("input[type=range]").first.get_attribute("aria-valuetext")


def test_the_explorer_says_which_loop_and_branch(opened):
    shown = opened("Schedule")
    shown.locator(".x-tree [role=option]").nth(1).click()
    chosen = value(shown, "loop")
    assert chosen and value(shown, "branch") == "main"
    shown.locator(".x-tree [role=option]").first.click()
    assert value(shown, "loop") != chosen
    shown.evaluate("name => model.set('loop', name)", chosen)
    assert chosen in shown.locator(".x-tree [aria-selected=true]").inner_text()


def test_a_timeline_goes_to_a_pass(opened):
    shown = opened("PassTrace")
    last = shown.locator(".mlc-pass").count() - 1
    shown.evaluate("i => model.set('step', i)", last)
    assert shown.locator("tr[aria-current=true] td").first.inner_text() == str(last)


def test_a_model_goes_to_an_operator(opened):
    shown = opened("Executable")
    shown.locator("[role=treeitem], [role=option], .mlc-node").first.click()
    chosen = value(shown, "selection")
    assert chosen
    again = opened("Executable", selection=chosen)
    expect(again.locator(".mlc-detail")).not_to_contain_text("pick an operator")

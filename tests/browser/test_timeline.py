"""The page of a run of passes in Chromium: steps by keyboard, rules, text, and in JupyterLab."""

from __future__ import annotations

import pytest

import mlcnb as mlc
from mlcnb.relax.transform import SimplifyOps
from mlcnb.script import parse
from mlcnb.transform import trace
from tests.ir.test_rules import TURNS, convolutions
from tests.view.names import NAMES
from tests.view.samples import passes

expect = pytest.importorskip("playwright.sync_api").expect
CELLS = [
    "import mlcnb as mlc; from tests.ir.test_rules import TURNS; from mlcnb.script import parse",
    "from mlcnb.relax.transform import SimplifyOps; from mlcnb.transform import trace",
    "mlc.explore(trace([SimplifyOps()], parse(TURNS)))",
]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_steps_by_keyboard(page_of, axe, screenshot, dark):
    run = trace(mlc.get_pipeline("default"), convolutions())
    root = page_of(mlc.explore(run), dark=dark).locator(".mlcnb")
    steps = root.get_by_role("slider", name="pass that changed something")
    changed = [step.name for step in run if step.changed]
    for key, wanted in (("End", changed[-1]), ("Home", changed[0]), ("ArrowRight", changed[1])):
        steps.press(key)
        expect(root.locator("[aria-current=true] .mlc-passname")).to_have_text(wanted)
    root.get_by_role("button", name="FuseOps").click()
    expect(root.locator(".mlc-frame").first).to_be_visible()
    drawn = root.locator(".mlc-graph > svg").first
    order = drawn.evaluate(
        "x => [...x.children].map(y => y.matches(':has(.mlc-edge)') ? 'edges' : y.classList[0])"
    )
    assert order.index("mlc-frame") < order.index("edges") < order.index("mlc-frametitle")
    before = root.get_by_role("listbox", name="before")
    before.get_by_role("option").first.click()
    before.get_by_role("option").first.press("ArrowDown")
    expect(before.locator("[aria-selected=true]")).to_have_count(1)
    expect(root.get_by_role("listbox", name="after").locator("[aria-selected=true]")).to_have_count(
        1
    )
    axe(root)
    screenshot(f"timeline-{'dark' if dark else 'light'}", root)
    root.get_by_role("tab", name="text").click()
    expect(root.locator("[data-mark='+']").first).to_be_visible()
    axe(root)


#: names of rules that go over lines elsewhere than at their joints
_TORN = """rules => rules.flatMap(rule => [...rule.childNodes])
  .filter(part => {
    const range = document.createRange();
    range.selectNodeContents(part);
    return part.nodeType === Node.TEXT_NODE && range.getClientRects().length > 1;
  }).map(part => part.textContent)"""


def test_names_of_rules_break_at_their_joints(page_of):
    run = trace(mlc.get_pipeline("default"), convolutions())
    root = page_of(mlc.explore(run)).locator(".mlcnb")
    root.page.set_viewport_size({"width": 720, "height": 900})
    steps = root.get_by_role("slider", name="pass that changed something")
    names = root.locator(".mlc-rules td:first-child b")
    steps.press("Home")
    for _ in range(sum(step.changed for step in run)):
        assert names.evaluate_all(_TORN) == []
        steps.press("ArrowRight")


def test_rules_light_their_nodes(page_of):
    root = page_of(mlc.explore(trace([SimplifyOps()], parse(TURNS)))).locator(".mlcnb")
    root.get_by_role("button", name="light the place of SimplifyOps.reshape").click()
    expect(root.locator(".mlc-on")).to_have_count(1)
    root.get_by_role("button", name="source of SimplifyOps.reshape").click()
    expect(root.get_by_role("region", name="source of SimplifyOps.reshape")).to_contain_text(
        "def _reshape"
    )
    expect(root.get_by_role("button", name="run without this rule").first).to_be_disabled()


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_hostile_names_are_text(page_of, name):
    root = page_of(mlc.explore(passes(name))).locator(".mlcnb")
    root.get_by_role("slider").press("End")
    root.get_by_role("tab", name="text").click()
    expect(root.locator("[aria-current=true]")).to_have_count(1)


def test_with_a_kernel(lab):
    nb = lab.open(CELLS, trusted=True)
    nb.run()
    root = nb.output(2).locator(".mlcnb")
    without = root.get_by_role("button", name="run without this rule").nth(1)
    expect(without).to_be_enabled()
    without.click()
    expect(root.locator(".mlc-instead")).to_contain_text("without SimplifyOps.reshape")
    expect(root.get_by_role("heading", name="after, without SimplifyOps.reshape")).to_be_visible()
    root.get_by_role("button", name="back to the run with all rules").click()
    expect(root.locator(".mlc-instead")).to_be_empty()

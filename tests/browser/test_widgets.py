"""Every page of `mlc.explore`, by its table: it opens, goes by keyboard, comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest

import mlcnb as mlc
from mlcnb.machine.roofline import Level, Roofline
from mlcnb.observe.replay import Replay, Stage
from mlcnb.widgets import base, registry
from mlcnb.widgets.export import LIMIT
from mlcnb.widgets.export import page as page_text
from tests.browser.room import IN_PAGES, WIDTHS, clipped
from tests.view.names import NAMES
from tests.view.samples import named_strip
from tests.widgets.samples import SAMPLES, page

expect = pytest.importorskip("playwright.sync_api").expect
KINDS = pytest.mark.parametrize("kind", SAMPLES)
#: what a reader steps through
STEPS = "input[type=range]:enabled, [role=tab], [role=listbox], [role=tree], [role=grid]"
#: keys that change what is shown, in a page's first slider, listing, list of tabs or table
MOVES = ("End", "Home", "ArrowRight", "ArrowDown")
#: samples whose pages are drawn by the code of another's
ALIKE = ("Linked", "CudaLinked", "WarpRun", "Kernels", "Function", "PassStep")


def test_every_page_has_a_sample():
    assert {kind.partition(":")[2] for kind in registry.kinds()} <= set(SAMPLES)
    assert {type(page(kind)) for kind in SAMPLES} >= {*pages_of(base.Interactive)}


def pages_of(kind):
    """The classes of pages that come with mlcnb."""
    for sub in kind.__subclasses__():
        yield from [sub] if sub.__module__.startswith("mlcnb.") else []
        yield from pages_of(sub)


def check_keyboard(root):
    """Tab leads into the page, and a key changes what it says."""
    before = state(root)
    for _ in range(10):  # JupyterLab takes the focus when its kernel is there, maybe only now
        root.evaluate("node => { node.tabIndex = -1; node.focus(); }")
        if moved(root, before) or not root.locator(STEPS).count():
            return
        root.page.wait_for_timeout(300)
    raise AssertionError("no key changes the page")


def moved(root, before):
    """Whether keys on what Tab reaches inside of the page change what it says."""
    for _ in range(40):
        root.page.keyboard.press("Tab")
        if not root.evaluate("node => node.contains(document.activeElement)"):
            return False
        if not root.evaluate("(_, s) => Boolean(document.activeElement.closest(s))", STEPS):
            continue
        for key in MOVES:
            root.page.keyboard.press(key)
            if state(root) != before:
                return True
    return False


def state(root):
    """What the page says and what is chosen in it."""
    return root.evaluate("""node => [node.innerText, ...[...node.querySelectorAll(
      "[aria-selected=true],[aria-valuetext],[aria-pressed=true],[aria-expanded=true]")]
      .map(n => n.textContent + n.getAttribute("aria-valuetext"))].join("|")""")


def opened(root):
    """It has drawn something and has no error to tell."""
    expect(root).to_have_count(1)
    expect(root.locator(".mlc-body > *").first).to_be_visible()
    expect(root.locator(".mlc-failed")).to_have_count(0)


@KINDS
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_exported_page(page_of, axe, screenshot, kind, dark):
    root = page_of(page(kind), dark=dark).locator(".mlcnb")
    opened(root)
    axe(root)
    screenshot(f"page-{kind}-{'dark' if dark else 'light'}", root)
    check_keyboard(root)
    if not dark:
        check_widths(root, kind)


def check_widths(root, kind):
    """Nothing essential is cut off where there is as much room as JupyterLab leaves for a page."""
    around = root.page.viewport_size["width"] - round(root.bounding_box()["width"])
    for _, _, width in WIDTHS:
        root.page.set_viewport_size({"width": width + around, "height": 1600})
        root.page.wait_for_timeout(50)  # a page is told of its room by the next frame
        assert clipped(root, IN_PAGES) == [], f"{kind} at {width} px"


@pytest.mark.slow
@KINDS
def test_in_jupyterlab(lab, axe, kind):
    """With its kernel, saved and opened again, and in a notebook that is not trusted."""
    nb = lab.open(["from tests.widgets.samples import page", f"page({kind!r})"], trusted=True)
    nb.run()
    root = nb.output(1).locator(".mlcnb")
    opened(root)
    check_keyboard(root)
    saved = nb.save()
    again = nb.reopen()
    root = again.output(1).locator(".mlcnb")
    opened(root)
    check_keyboard(root)
    lab.theme(dark=True)
    axe(root)
    again.close()
    saved.cells[1].outputs[0].data["text/plain"] += " changed by somebody"
    untrusted = lab.open(saved, live=False)
    expect(untrusted.output(1).locator("div").first).to_be_visible()
    expect(untrusted.root.locator(".mlcnb")).to_have_count(0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in SAMPLES if kind not in ALIKE])
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_hostile_names(page_of, kind, name):
    root = page_of(page(kind, name)).locator(".mlcnb")
    opened(root)
    check_keyboard(root)


@KINDS
def test_sizes(kind):
    made = page(kind)
    module, text = len(base.esm(made.module).encode()), len(page_text(made).encode())
    packed = len(base.pack(made.snapshot()))
    print(f"\n{kind}: module {module:,} B, state {packed:,} B, page {text:,} B")
    assert module < base.MODULE_LIMIT
    assert text < LIMIT


#: pairs of texts of a picture that cover each other
_COVERED = """picture => {
  const texts = [...picture.querySelectorAll("text")]
    .map(x => [x.textContent, x.getBoundingClientRect()]);
  return texts.flatMap(([a, p], i) => texts.slice(i + 1)
    .filter(([, q]) => p.left < q.right - 1 && q.left < p.right - 1
      && p.top < q.bottom - 4 && q.top < p.bottom - 4)
    .map(([b]) => `${a} and ${b}`));
}"""


def test_no_text_of_a_roofline_covers_another(page_of):
    """Levels whose knees lie close, a trail of steps that change little, and one at the roof."""
    speeds = {"L1": 300.0, "L2": 220.0, "L3": 180.0, "memory": 150.0}
    levels = tuple(Level(n, 1 << 15 if n == "L1" else None, s) for n, s in speeds.items())
    roof = Roofline(117.9, levels, 1)
    times = [n * 1e-9 for n in (8192 / 2.8, 8192 / 2.88, 8192 / 15.4, 8192 / 116, 8192 / 117.5)]
    stages = [
        Stage(n, ("split",), None, replace(named_strip("x", t), roofline=roof), 0.0)
        for n, t in enumerate(times)
    ]
    root = page_of(mlc.explore(Replay("x", tuple(stages), 4, 1))).locator(".mlcnb")
    for key in ("Home", "End"):
        root.locator("input[type=range]").first.press(key)
        assert root.locator(".mlc-plot svg").first.evaluate(_COVERED) == []


def test_listings_beside_each_other_end_alike(page_of):
    root = page_of(page("CudaLinked")).locator(".mlcnb")
    ends = root.locator(".src-panes .mlc-code").evaluate_all(
        "all => all.map(x => x.getBoundingClientRect()).map(x => [x.top, x.bottom])"
    )
    rows = {top: {bottom for at, bottom in ends if at == top} for top, _ in ends}
    assert len(ends) > len(rows) == len([1 for bottoms in rows.values() if len(bottoms) == 1])


def test_a_card_s_listing_keeps_off_its_frame(page_of):
    root = page_of(page("ScheduleError")).locator(".mlcnb")
    expect(root.locator(".x-card .mlc-text").first).to_have_css("padding-left", "8px")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_graphs_are_dark_on_a_dark_page(page_of, dark):
    """Shapes and their labels are turned together, so that one can be read on the other."""
    root = page_of(page("IRModule"), dark=dark).locator(".mlcnb")
    wanted = "invert(0.93) hue-rotate(180deg)" if dark else "none"
    for what in (".mlc-shape", ".mlc-label"):
        expect(root.locator(f".mlc-graph {what}").first).to_have_css("filter", wanted)

"""The access replay in a page: by keyboard, played, side by side, read by a screen reader."""

from __future__ import annotations

from collections import Counter
from io import BytesIO

import pytest

import mlcnb as mlc
from mlcnb.observe.access import replayed
from mlcnb.testing.gallery.programs import matmul
from mlcnb.tir.schedule import Schedule
from mlcnb.widgets.access import AccessReplay
from tests.view.names import NAMES
from tests.view.samples import named_loops

expect = pytest.importorskip("playwright.sync_api").expect
SMALL = "512B/2way/64B"


def pair() -> AccessReplay:
    tiles = Schedule(matmul(96, 96, 96))
    split = [tiles.split(loop, [None, 16]) for loop in tiles.get_loops("C")]
    tiles.reorder(*(outer for outer, _ in split), *(inner for _, inner in split))
    return mlc.observe.accesses(Schedule(matmul(96, 96, 96)), tiles, cache="32K/8way/64B, 1M/8way")


def totals(root) -> list[list[str]]:
    """The last row of counts of each program."""
    rows = root.locator(".acc-counts tbody tr:last-child")
    return [rows.nth(n).locator("td").all_inner_texts() for n in range(rows.count())]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_small_product(page_of, axe, screenshot, dark):
    root = page_of(mlc.observe.accesses(matmul(8, 8, 8), cache=SMALL), dark=dark).locator(".mlcnb")
    clock = root.get_by_role("slider", name="access")
    expect(root.locator("canvas").first).to_be_visible()
    clock.press("ArrowRight")
    expect(root.get_by_role("status")).to_have_text("reads C[0, 0]: hit in L1")
    expect(root.locator(".acc-clock .mlc-at")).to_have_text("2 of 2,112")
    root.get_by_role("button", name="go to the next miss").click()
    expect(root.get_by_role("status")).to_have_text("reads A[0, 0]: missed, found in memory")
    clock.press("End")
    assert totals(root) == [["2,112", "1,715", "397", "18.8 %", "389"]]
    clock.press("Home")
    assert totals(root) == [["1", "0", "1", "100.0 %", "0"]]
    for _ in range(30):
        clock.press("ArrowRight")
    axe(root)
    screenshot(f"access-{'dark' if dark else 'light'}", root)
    for name in ("where it misses", "reuse distance", "loads and stores"):
        root.get_by_role("tab", name=name).click()
        axe(root)
        screenshot(f"access-{name.replace(' ', '-')}-{'dark' if dark else 'light'}", root)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_two_schedules_on_one_clock(page_of, axe, screenshot, dark):
    found = pair()
    root = page_of(found, dark=dark).locator(".mlcnb")
    expect(root.locator(".acc-verdict").first).to_contain_text("12.2 times as many")
    clock = root.get_by_role("slider", name="access")
    clock.press("End")
    missed = [f"{r.counts['L1'].misses:,}" for r in found]
    assert [row[2] for row in totals(root)] == missed == ["56,448", "4,608"]
    clock.evaluate("x => { x.value = 12500; x.dispatchEvent(new Event('input')); }")
    axe(root)
    screenshot(f"access-race-{'dark' if dark else 'light'}", root)


CELLS = [
    "import mlcnb as mlc\nfrom mlcnb.testing.gallery.programs import matmul",
    "mlc.observe.accesses(matmul(8, 8, 8), cache='512B/2way/64B')",
]


def check_end(root):
    root.get_by_role("slider", name="access").press("End")
    assert totals(root) == [["2,112", "1,715", "397", "18.8 %", "389"]]


#: what a cell may look like: never touched, in the cache, no more in it
STATES = {"never": "--mlc-paper", "in": "--acc-in", "gone": "--acc-gone"}
#: a patch of each colour, painted by the style sheet alone
_PATCHES = """(root, names) => root.append(...names.map(name => {
  const patch = document.createElement("div");
  patch.className = "patch";
  patch.style.cssText = `width:9px;height:9px;background:var(${name})`;
  return patch;
}))"""


def pixels(locator):
    """What is on the screen there."""
    image = pytest.importorskip("PIL.Image")
    return image.open(BytesIO(locator.screenshot())).convert("RGB")


def cells(root, number):
    """How many of the 8 x 8 cells of a grid have the colour of which state, read between the net
    and the dots."""
    patches = root.locator(".patch")
    patch = (pixels(patches.nth(at)).getpixel((4, 4)) for at in range(len(STATES)))
    states = dict(zip(patch, STATES, strict=True))
    assert len(states) == len(STATES)
    drawn = pixels(root.locator("canvas").nth(number))
    side = (drawn.width - 2) / 8
    at = [round(1 + (k + 0.2) * side) for k in range(8)]
    return Counter(states.get(drawn.getpixel((x, y)), "else") for y in at for x in at)


def check_colours(root):
    """The grids have the colours of the theme, but for what signs of the last accesses cover: at
    first a line of 16 elements is in the cache, at last its eight lines, of whatever array."""
    clock = root.get_by_role("slider", name="access")
    clock.press("Home")
    grids = root.locator(".acc-grids").first.locator("figcaption b").all_inner_texts()
    first = {name: cells(root, number) for number, name in enumerate(grids)}
    covered = first["C"].pop("else", 0)
    assert covered <= 4 and first["C"] == {"in": 16 - covered, "never": 48}
    assert first["A"] == first["B"] == {"never": 64}
    clock.press("End")
    last = sum((cells(root, number) for number in range(len(grids))), Counter())
    assert last.pop("else", 0) <= 24
    assert last <= Counter({"in": 8 * 16, "gone": 3 * 64 - 8 * 16})


def test_in_jupyterlab_with_a_kernel_without_and_not_trusted(lab, axe):
    nb = lab.open(CELLS, trusted=True)
    nb.run()
    root = nb.output(1).locator(".mlcnb")
    check_end(root)
    root.evaluate(_PATCHES, [*STATES.values()])
    for dark in (True, False):
        lab.theme(dark)
        axe(root)
        check_colours(root)
    notebook = nb.save()
    check_end(nb.reopen().output(1).locator(".mlcnb"))
    notebook.cells[1].outputs[0].data["text/plain"] = "changed by somebody"
    untrusted = lab.open(notebook, live=False)
    expect(untrusted.output(1)).to_contain_text("397")  # the static view
    expect(untrusted.root.locator(".mlcnb")).to_have_count(0)


def test_it_plays_and_stops(page_of):
    root = page_of(mlc.observe.accesses(matmul(8, 8, 8), cache=SMALL)).locator(".mlcnb")
    speed = root.get_by_role("slider", name="speed")
    speed.press("End")
    root.get_by_role("button", name="play").click()
    expect(root.locator(".acc-clock .mlc-at")).to_have_text("2,112 of 2,112")
    expect(root.get_by_role("button", name="play")).to_be_visible()
    assert totals(root) == [["2,112", "1,715", "397", "18.8 %", "389"]]


def test_less_motion_where_it_is_asked_for(page_of):
    page = page_of(mlc.observe.accesses(matmul(8, 8, 8), cache=SMALL))
    page.emulate_media(reduced_motion="reduce")
    root = page.locator(".mlcnb")
    root.get_by_role("button", name="play").click()
    expect(root.locator(".acc-clock .mlc-at")).to_have_text("107 of 2,112")  # a twentieth
    root.get_by_role("button", name="pause").click()


def test_two_copies_in_a_page_are_two(page_of):
    page = page_of(mlc.observe.accesses(matmul(8, 8, 8), cache=SMALL))
    assert page.locator(".mlcnb [id]").count() == 0


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_hostile_names_are_text(page_of, name):
    found = AccessReplay([replayed(named_loops(name), SMALL, name=name)])
    root = page_of(found).locator(".mlcnb")
    clock = root.get_by_role("slider", name="access")
    clock.press("End")
    expect(root.locator(".acc-now")).to_contain_text("missed, found in memory")
    for tab in root.get_by_role("tab").all():
        tab.click()

"""The warp lens in a page: by keyboard, by pointer, two programs, another warp, a screen reader."""

from __future__ import annotations

import pytest

import mlcnb as mlc
from tests.observe.warps.programs import copied, of, transposed
from tests.observe.warps.programs import schedule_of_transpose as schedule
from tests.view.names import NAMES
from tests.view.samples import copied as named_copy

expect = pytest.importorskip("playwright.sync_api").expect
THEMES = pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])


def pair():
    return mlc.observe.warp_lens(schedule(1024, False), schedule(1024, True))


def lanes(root, program=0):
    return root.locator(".warp-lanes").nth(program).locator(".warp-lane").all_inner_texts()


@THEMES
def test_two_schedules_side_by_side(page_of, axe, screenshot, dark):
    root = page_of(pair(), dark=dark).locator(".mlcnb")
    expect(root.locator(".warp-verdict").nth(1)).to_contain_text("16.5 times as many")
    clock = root.get_by_role("slider", name="request")
    clock.press("ArrowRight")
    expect(root.locator(".warp-clock .mlc-at")).to_have_text("2 of 16")
    axe(root)
    root.get_by_role("button", name="go to the next request that is not").click()
    expect(root.locator(".warp-now").first).to_contain_text("32 wavefronts, 32-way bank conflict")
    expect(root.locator(".warp-now").nth(1)).to_contain_text("1 wavefront, no bank conflict")
    assert lanes(root) == ["0"] * 32
    assert lanes(root, 1) == [str(n) for n in range(32)]
    grids = root.locator(".warp-grid")
    assert [grids.nth(n).locator(".warp-row").count() for n in (0, 1)] == [33, 2]
    axe(root)
    screenshot(f"warp-conflict-{'dark' if dark else 'light'}", root)
    root.get_by_role("tab", name="totals").click()
    expect(root.get_by_role("cell", name="1,048,576")).to_be_visible()
    axe(root)
    screenshot(f"warp-totals-{'dark' if dark else 'light'}", root)


def test_a_lane_says_where_it_reads(page_of):
    root = page_of(pair()).locator(".mlcnb")
    root.get_by_role("button", name="go to the next request that is not").click()
    strip = root.get_by_role("listbox", name="lanes of the warp").first
    for _ in range(3):
        strip.press("ArrowRight")
    detail = root.locator(".warp-detail")
    expect(detail.first).to_have_text(
        "lane 3, thread (3, 0, 0): A_shared[3, 0], byte 384, bank 0, served in wavefront 4 of 32"
    )
    expect(detail.nth(1)).to_have_text(
        "lane 3, thread (3, 0, 0): A_shared[3, 0], byte 396, bank 3, served in wavefront 1 of 1"
    )
    expect(root.locator(".warp-grid").first.locator(".warp-lit")).to_have_text("3")
    root.locator(".warp-grid").nth(1).locator("i.warp-first").nth(9).hover()
    expect(detail.nth(1)).to_contain_text("lane 9, ")
    expect(strip.locator("[aria-selected=true]")).to_have_text("0")


@THEMES
def test_a_naive_transpose_touches_a_sector_for_each_lane(page_of, axe, screenshot, dark):
    root = page_of(mlc.observe.warp_lens(transposed(64, False, tiled=False)), dark=dark).locator(
        ".mlcnb"
    )
    expect(root.locator(".warp-now")).to_contain_text("4 sectors in 1 line, coalesced")
    assert "".join(lanes(root)) == "a" * 8 + "b" * 8 + "c" * 8 + "d" * 8
    root.get_by_role("slider", name="request").press("End")
    expect(root.locator(".warp-now")).to_contain_text("32 sectors in 32 lines, 4 at best (12.5 %)")
    assert root.locator(".warp-grid .warp-moved").count() == 32 * 7
    assert root.locator(".warp-grid .warp-row").count() == 33
    axe(root)
    screenshot(f"warp-sectors-{'dark' if dark else 'light'}", root)


def test_vectors_are_served_by_quarters(page_of, axe, screenshot):
    found = mlc.observe.warp_lens(copied(4096, 4))
    root = page_of(found).locator(".mlcnb")
    expect(root.locator(".warp-now")).to_contain_text("16 sectors in 4 lines, coalesced")
    assert root.locator(".warp-grid .warp-row").count() == 5
    axe(root)
    screenshot("warp-vectors", root)


def test_the_page_counts_as_python_does(page_of):
    """Rows of each request's grid: wavefronts, or lines; cells that are coloured: what is asked."""
    found = pair()
    root = page_of(found).locator(".mlcnb")
    clock = root.get_by_role("slider", name="request")
    for n in range(16):
        for number, run in enumerate(found):
            q = run.requests[n]
            rows = root.locator(".warp-grid").nth(number).locator(".warp-row")
            assert rows.count() - 1 == (q.taken if q.is_shared else q.lines)
        clock.press("ArrowRight")


CELLS = [
    "import mlcnb as mlc\n"
    "from tests.observe.warps.programs import schedule_of_transpose as transpose\n"
    "found = mlc.observe.warp_lens(transpose(64, False))\nfound",
    "found.pick((1, 1), 5); print(found.runs[0].block)",
]


def test_in_jupyterlab_another_warp_is_asked_for(lab, axe):
    nb = lab.open(CELLS, trusted=True)
    nb.run()
    root = nb.output(0).locator(".mlcnb")
    expect(root.locator("h3")).to_contain_text("warp 5 of block (1, 1, 0)")
    root.get_by_role("spinbutton", name="blockIdx.y").fill("0")
    warp = root.get_by_role("spinbutton", name="warp")
    warp.fill("3")
    warp.press("Enter")
    expect(root.locator("h3")).to_contain_text(
        "warp 3 of block (1, 0, 0), threads (0, 3, 0) to (31, 3, 0)"
    )
    for dark in (True, False):
        lab.theme(dark)
        axe(root)
    warp.fill("99")
    warp.press("Enter")
    expect(root.get_by_role("status")).to_contain_text("no warp 99")
    again = nb.save() and nb.reopen().output(0).locator(".mlcnb")
    expect(again.get_by_role("spinbutton", name="warp")).to_be_disabled()
    again.get_by_role("slider", name="request").press("End")
    expect(again.locator(".warp-now")).to_contain_text("write B[")


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_hostile_names_are_text(page_of, name):
    root = page_of(mlc.observe.warp_lens(named_copy(name))).locator(".mlcnb")
    root.get_by_role("slider", name="request").press("End")
    expect(root.locator(".warp-now")).to_contain_text("coalesced")
    root.get_by_role("tab", name="totals").click()


def test_no_ids(page_of):
    assert of(schedule(64, True)) is not None
    assert page_of(pair()).locator(".mlcnb [id]").count() == 0

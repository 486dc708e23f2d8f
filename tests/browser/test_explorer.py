"""The explorer and the card in a browser: keys, clicks, previews, branches, and with no kernel."""

from __future__ import annotations

import pytest

import mlcnb as mlc
from mlcnb.core.errors import ScheduleError
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import matmul
from tests.view.names import NAMES
from tests.view.samples import named_loops

expect = pytest.importorskip("playwright.sync_api").expect
CELLS = [
    "import mlcnb as mlc\nfrom tests.tir.schedule.programs import matmul\n"
    "sch = mlc.tir.Schedule(matmul(64, 64, 64)); page = mlc.explore(sch)",
    "page",
]


def scheduled():
    """A page with three steps, a branch, and what is legal at one place."""
    page = mlc.explore(Schedule(matmul(64, 64, 64)), target="llvm -mcpu=x86-64-v4 -num-cores=8")
    page.do("split", "j", factors=[None, 16]).do("reorder", ["k", "j_1"]).do("vectorize", "j_1")
    page.branch("plain", at=0)
    page.do("parallel", "i", branch="plain")
    page.legal("k")
    return page


def place(root, text):
    """A loop or block of the tree."""
    return root.get_by_role("listbox", name="loops and blocks").get_by_role("option", name=text)


#: how far costs beside lines are from the edge, where they are not at it (the line peeps out there)
BESIDE = """pane => {
  const edge = pane.getBoundingClientRect().left + pane.clientLeft + pane.clientWidth;
  return [...pane.querySelectorAll(".x-margin")].filter(x => x.getClientRects().length)
    .map(x => edge - x.getBoundingClientRect().right).filter(x => Math.abs(x) > 1);
}"""


def test_a_long_program_is_shown_before_anything_changes_it(page_of):
    """Its lines are no unchanged ones of a step: there is none yet."""
    stages = [mlc.te.placeholder((8,), name="A")]
    for number in range(16):
        last = stages[-1]
        stages.append(mlc.te.compute((8,), lambda i, x=last: x[i] + 1.0, name=f"B{number}"))
    sch = Schedule(mlc.te.create_prim_func([stages[0], stages[-1]]))
    page = mlc.explore(sch)
    page.do("parallel", sch.get_loops("B7")[0])
    root = page_of(page).locator(".mlcnb")
    program = root.get_by_role("listbox", name="program")
    expect(program).to_contain_text("unchanged lines")
    root.get_by_role("slider", name="step").press("Home")
    expect(program).not_to_contain_text("unchanged lines")
    expect(program).to_contain_text('T.block("B15")')
    expect(root.get_by_role("button", name="all lines")).to_have_count(0)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_replay_without_a_kernel(page_of, axe, screenshot, dark):
    root = page_of(scheduled(), dark=dark).locator(".mlcnb")
    program = root.get_by_role("listbox", name="program")
    expect(root.locator(".mlc-at")).to_have_text("step 3 of 3")
    expect(program.locator("[data-mark='+']")).to_have_count(2)
    root.get_by_role("slider", name="step").press("Home")
    expect(program.locator("[data-mark='+']")).to_have_count(0)
    assert program.locator(".x-margin").first.inner_text().startswith("262 k× · ")
    root.page.set_viewport_size({"width": 780, "height": 900})  # lines are longer than their pane
    assert program.evaluate("x => x.scrollWidth > x.clientWidth + 40")
    assert program.evaluate(BESIDE) == []
    root.page.set_viewport_size({"width": 1280, "height": 900})
    steps = root.get_by_role("listbox", name="steps").get_by_role("option")
    expect(steps).to_have_count(4)
    steps.first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        root.page.keyboard.press(key)
    expect(root.get_by_role("status")).to_contain_text("step 3: vectorize(j_1)")
    expect(root.get_by_text("legal at loop k in 0..64 of block C")).to_be_visible()
    for name in ("undo", "branch from here", "check numbers"):
        expect(root.get_by_role("button", name=name)).to_be_disabled()
    expect(root.get_by_text("No kernel is running")).to_be_visible()
    root.locator(".x-offer", has_text="unroll(k)").locator("..").hover()
    expect(root.get_by_text("preview: unroll(k)")).to_be_visible()
    root.locator("h3").hover()
    axe(root)
    screenshot(f"explorer-{'dark' if dark else 'light'}", root)
    root.get_by_label("compare with").select_option("plain")
    expect(root.locator(".mlc-code")).to_have_count(2)
    screenshot(f"explorer-compare-{'dark' if dark else 'light'}", root)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_card(page_of, axe, screenshot, dark):
    sch = Schedule(matmul(64, 64, 64))
    with pytest.raises(ScheduleError) as caught:
        sch.vectorize(sch.get_loops("C")[2])
    root = page_of(mlc.explore(caught.value), dark=dark).locator(".mlcnb")
    expect(root.get_by_role("img", name="iterations: 1 block C at i = 0")).to_be_visible()
    expect(root.get_by_text("smallest shapes that fail: (2, 2), (2, 2), (2, 2)")).to_be_visible()
    expect(root.locator(".x-lines li")).to_have_count(4)
    axe(root)
    screenshot(f"card-{'dark' if dark else 'light'}", root)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_hostile_names_are_text(page_of, name):
    page = mlc.explore(Schedule(named_loops(name)))
    page.do("split", name, factors=[None, 2])
    page.branch(name)
    root = page_of(page).locator(".mlcnb")
    root.get_by_role("slider", name="step").press("Home")
    expect(root.locator(".mlc-at")).to_have_text("step 0 of 1")


def test_a_place_chosen_while_a_cell_still_runs_is_asked_after_it(lab):
    nb = lab.open([*CELLS, "import time; time.sleep(8)"], trusted=True)
    nb.start()
    root = nb.output(1).locator(".mlcnb")
    place(root, "j in 64").click()
    more = root.get_by_role("button", name="more calls of split")
    expect(root.get_by_role("heading", name="legal at j")).to_be_visible()
    expect(more).to_have_count(0)
    expect(more).to_be_visible(timeout=60_000)


def test_news_under_a_pointer_that_is_down_does_not_take_its_click(lab):
    nb = lab.open(CELLS, trusted=True)
    nb.run()
    root = nb.output(1).locator(".mlcnb")
    expect(root.get_by_role("button", name="check numbers")).to_be_visible()
    place(root, "k in 64").hover()
    nb.lab.page.mouse.down()
    nb.execute("page.branch('other', at=0)")
    expect(root.get_by_role("button", name="branch other")).to_have_count(0)
    nb.lab.page.mouse.up()
    expect(root.get_by_role("button", name="branch other")).to_be_visible()
    expect(place(root, "k in 64")).to_have_attribute("aria-selected", "true")
    expect(root.get_by_role("button", name="more calls of split")).to_be_visible()


def test_scheduling_by_clicking(lab, axe, screenshot):
    nb = lab.open(CELLS, trusted=True)
    nb.run()
    root = nb.output(1).locator(".mlcnb")
    place(root, "j in 64").click()
    root.get_by_role("button", name="more calls of split").click()
    root.locator(".x-offer", has_text="split(j, factors=[None, 16])").click()
    expect(root.locator(".mlc-at")).to_have_text("step 1 of 1")
    place(root, "k in 64").click()
    root.get_by_text("refused here").click()
    root.get_by_role("button", name="show why vectorize(k) is refused").click()
    card = root.get_by_role("region", name="refused step")
    expect(card).to_contain_text("C[0, 0]")
    screenshot("explorer-card-in-place", root)
    axe(root)
    card.get_by_role("button", name="do vectorize(j_1) instead").click()
    expect(root.locator(".mlc-at")).to_have_text("step 2 of 2")
    expect(root.get_by_label("the steps as Python", exact=True)).to_have_value(
        'C = sch.get_block("C")\n'
        "i, j, k = sch.get_loops(C)\n"
        "j_0, j_1 = sch.split(j, factors=[None, 16])\n"
        "sch.vectorize(j_1)"
    )
    nb.execute("assert [x.name for x in sch.steps] == ['start', 'split', 'vectorize']")
    root.get_by_role("button", name="undo").click()
    expect(root.get_by_role("option", name="vectorize(j_1)")).to_contain_text("undone")
    nb.execute("sch.unroll(sch.get_loops('C')[0]); page.refresh()")
    expect(root.get_by_role("option", name="unroll(i)")).to_be_visible()
    nb.save()
    again = nb.reopen()
    root = again.output(1).locator(".mlcnb")
    root.get_by_role("slider", name="step").press("End")
    expect(root.locator(".mlc-at")).to_have_text("step 2 of 2")
    expect(root.get_by_role("button", name="undo")).to_be_disabled()


def test_the_page_follows_what_later_cells_do(lab):
    later = "i, j, k = sch.get_loops('C')\nsch.reorder(j, i)\nassert len(sch.steps) == 2"
    nb = lab.open([*CELLS, later], trusted=True)
    nb.run()
    root = nb.output(1).locator(".mlcnb")
    expect(root.get_by_role("option", name="reorder(j, i)")).to_be_visible()
    expect(root.locator(".mlc-at")).to_have_text("step 1 of 1")
    assert nb.output(2).count() == 0

"""The page of a model in Chromium: picking, walking, searching, folds, hostile names."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from tests.view.names import NAMES
from tests.view.samples import mlp, named_module
from tests.view.test_graph import image_network, layered

expect = pytest.importorskip("playwright.sync_api").expect
INPUTS = (np.ones((1, 4), "float32"), np.eye(4, 8, dtype="float32"))
CELLS = [
    "import mlcnb as mlc; from tests.view.test_graph import layered",
    "mlc.explore(layered(60), max_nodes=40)",
]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_picking_and_walking(page_of, axe, screenshot, dark):
    shown = mlc.explore(mlc.compile(mlp()), inputs=INPUTS)
    root = page_of(shown, dark=dark).locator(".mlcnb")
    nodes = root.get_by_role("option", include_hidden=True).filter(has=root.page.locator("path"))
    nodes.first.click()
    nodes.first.press("ArrowDown")
    detail = root.get_by_role("region", name="the operator that is picked")
    expect(detail).to_contain_text("fused_matmul_relu_add")
    expect(detail).to_contain_text("TensorIR")
    expect(detail.get_by_role("img")).to_be_visible()
    axe(root)
    screenshot(f"model-{'dark' if dark else 'light'}", root)
    root.get_by_role("combobox").select_option("bytes")
    expect(root.locator(".mlc-note").first).to_contain_text("%")


def test_searching(page_of):
    root = page_of(mlc.explore(layered(60), max_nodes=40)).locator(".mlcnb")
    box = root.get_by_role("searchbox")
    box.fill("lv100")
    expect(root.locator(".mlc-found")).to_have_count(1)
    box.press("Enter")
    expect(root.locator(".mlc-detail")).to_contain_text("operators, folded")
    box.fill("nothing of the kind")
    expect(root.locator(".mlc-found")).to_have_count(0)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_hostile_names_are_text(page_of, name):
    root = page_of(mlc.explore(named_module(name))).locator(".mlcnb")
    root.locator(".mlc-node").nth(1).click()
    expect(root.locator(".mlc-detail")).to_contain_text("relu")


def test_a_fold_opens_with_a_kernel(lab):
    nb = lab.open(CELLS, trusted=True)
    nb.run()
    root = nb.output(1).locator(".mlcnb")
    few = root.locator(".mlc-node").count()
    root.locator(".mlc-node:has(.mlc-several)").first.click()
    root.get_by_role("button", name="open this fold").click()
    expect(root.get_by_role("button", name="fold again")).to_be_visible()
    assert root.locator(".mlc-node").count() > few


def test_a_fold_picked_while_a_cell_still_runs_opens_after_it(lab):
    nb = lab.open([*CELLS, "import time; time.sleep(8)"], trusted=True)
    nb.start()
    root = nb.output(1).locator(".mlcnb")
    root.locator(".mlc-node:has(.mlc-several)").first.click()
    opens = root.get_by_role("button", name="open this fold")
    expect(root.locator(".mlc-detail h4").first).to_contain_text("operators, folded")
    expect(opens).to_have_count(0)
    expect(opens).to_be_visible(timeout=60_000)
    expect(root.locator(".mlc-node[aria-selected=true]")).to_have_count(1)


def test_what_is_picked_before_the_first_frame_stays_picked(browser, tmp_path):
    page = browser.new_page(offline=True)
    page.add_init_script("window.held = []; window.requestAnimationFrame = (f) => held.push(f);")
    page.goto(mlc.export(mlc.explore(layered(60)), tmp_path / "page.html").as_uri())
    root = page.locator(".mlcnb")
    root.locator(".mlc-node").first.click()
    page.evaluate("held.splice(0).forEach((f) => f(0))")
    expect(root.locator(".mlc-node[aria-selected=true]")).to_have_count(1)
    expect(root.locator(".mlc-detail h4.mlc-none")).to_have_count(0)
    page.close()


def test_a_network_of_images_shows_its_stages_first(page_of):
    root = page_of(mlc.explore(image_network())).locator(".mlcnb")
    nodes = root.locator(".mlc-node")
    expect(nodes).to_have_count(5)
    expect(root.locator(".mlc-minimap")).to_be_hidden()
    nodes.nth(1).dblclick()  # opens without a kernel: all operators came with the page
    expect(nodes).to_have_count(26)
    expect(root.locator(".mlc-detail h4").first).to_contain_text("conv2d")
    root.get_by_role("button", name="stages").click()
    expect(nodes).to_have_count(5)
    root.get_by_role("searchbox").fill("relu")
    expect(root.locator(".mlc-found")).to_have_count(12)
    expect(root.get_by_role("button", name="stages")).to_be_visible()


def test_the_small_picture_leads_about_the_large_one(page_of, axe):
    root = page_of(mlc.explore(image_network())).locator(".mlcnb")
    root.get_by_role("button", name="all operators").click()
    small, pane = root.locator(".mlc-minimap"), root.locator(".mlc-graph")
    expect(small.locator(".mlc-speck")).to_have_count(26)
    window = small.locator(".mlc-window")
    above, box = window.bounding_box(), small.bounding_box()
    small.click(position={"x": box["width"] / 2, "y": box["height"] - 6})
    assert pane.evaluate("x => x.scrollTop + x.clientHeight >= x.scrollHeight - 8")
    lower = "([x, y]) => x.getBoundingClientRect().y > y"  # it follows when it hears of the scroll
    root.page.wait_for_function(lower, arg=[window.element_handle(), above["y"]])
    below = window.bounding_box()
    assert below["y"] > above["y"] and below["y"] + below["height"] <= box["y"] + box["height"] + 2
    pane.evaluate("x => { x.scrollTop = 0; x.dispatchEvent(new Event('scroll')); }")
    assert abs(window.bounding_box()["y"] - above["y"]) < 2
    axe(root)


def test_a_small_graph_takes_no_more_room_than_its_picture(page_of):
    root = page_of(mlc.explore(mlp())).locator(".mlcnb")
    pane, picture = root.locator(".mlc-graph"), root.locator(".mlc-graph svg")
    assert pane.bounding_box()["height"] < picture.bounding_box()["height"] + 30
    root.get_by_role("button", name="smaller").click()
    root.get_by_role("button", name="all of it").click()
    expect(root.locator(".mlc-zoom")).to_have_text("100 %")


def test_a_large_graph_fits_the_room_that_it_may_have(page_of):
    root = page_of(mlc.explore(layered(60), max_nodes=400)).locator(".mlcnb")
    root.get_by_role("button", name="all of it").click()
    pane, picture = root.locator(".mlc-graph"), root.locator(".mlc-graph svg")
    shown, room = picture.bounding_box(), pane.bounding_box()
    assert shown["height"] <= room["height"] <= 620
    assert shown["height"] > 580 or shown["width"] > room["width"] - 40

"""Linked source and the roofline trail in a page: what lights what, by pointer and by keys."""

from __future__ import annotations

import pytest

import mlcnb as mlc
from mlcnb.observe.replay import replay
from mlcnb.script import from_source
from mlcnb.widgets.linked import LinkedSource
from tests.codegen.test_linked import GRAPHS, MATMUL, SCALE, V3
from tests.observe.warps.programs import schedule_of_transpose
from tests.view import samples
from tests.view.names import NAMES
from tests.widgets.test_roofline import scheduled

expect = pytest.importorskip("playwright.sync_api").expect
DARK = pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])


def listing(root, name):
    return root.locator(f".mlc-code[aria-label='{name}']")


def lit(root, name):
    """The texts that are lit in a pane."""
    return [x.strip() for x in listing(root, name).locator(".mlc-lit .mlc-text").all_inner_texts()]


def test_a_line_lights_the_others(page_of):
    root = page_of(LinkedSource(mlc.compile(from_source(SCALE), target=V3).kernels[0]))
    root = root.locator(".mlcnb")
    row = listing(root, "assembly").get_by_text("vaddps").first
    row.hover()
    assert lit(root, "Python") == ["B[v] = A[v] * T.float32(2)"]
    assert lit(root, "lowered") == [
        "B[i * 8:i * 8 + 8] = A[i * 8:i * 8 + 8] * T.Broadcast(T.float32(2.0), 8)"
    ]
    assert len(lit(root, "assembly")) == 24
    assert root.locator(".mlc-under").count() == 1
    expect(root.locator(".mlc-say")).to_contain_text("Python 8; scheduled 10; lowered 5")
    # what is chosen by a click stays; Escape lets it go
    row.click()
    listing(root, "Python").get_by_text("for i in range(8)").hover()
    assert len(lit(root, "assembly")) == 24
    listing(root, "assembly").press("Escape")
    root.locator("h3").hover()
    listing(root, "Python").get_by_text("for i in range(8)").hover()
    assert lit(root, "lowered") == ["for i in range(8):"]
    assert listing(root, "lowered").locator(".mlc-within").count() == 1


@DARK
def test_by_keyboard(page_of, axe, screenshot, dark):
    kernel = mlc.compile(from_source(MATMUL), schedule="default").kernels[0]
    root = page_of(LinkedSource(kernel), dark=dark).locator(".mlcnb")
    code = listing(root, "lowered")
    code.press("Home")
    at = next(n for n, text in enumerate(kernel_lines(kernel)) if "range(" in text)
    for _ in range(at):
        code.press("ArrowDown")
    code.press("Enter")
    expect(root.get_by_role("status")).to_contain_text(f"lowered, line {at + 1}")
    assert len(lit(root, "lowered")) == 1
    axe(root)
    screenshot(f"linked-{'dark' if dark else 'light'}", root)
    root.get_by_role("tab", name="Passes").press("Enter")
    root.get_by_role("slider", name="pass").press("ArrowRight")
    root.get_by_role("tab", name="Remarks").press("Enter")
    axe(root)
    screenshot(f"linked-passes-{'dark' if dark else 'light'}", root)


def kernel_lines(kernel):
    return LinkedSource(kernel).linked(kernel.name).lowered.texts


def test_levels_and_machines_of_the_page(page_of):
    root = page_of(LinkedSource(mlc.compile(from_source(SCALE), target=V3).kernels[0]))
    root = root.locator(".mlcnb")
    before = listing(root, "assembly").locator(".mlc-line").count()
    root.get_by_role("button", name="optimisation level 0").click()
    assert 0 < listing(root, "assembly").locator(".mlc-line").count() < before  # its loop is whole
    root.get_by_role("combobox", name="machine").select_option("aarch64 (NEON)")
    root.get_by_role("button", name="optimisation level 3").click()
    root.get_by_role("combobox", name="machine").select_option("aarch64 (NEON)")
    assert listing(root, "assembly").get_by_text("fadd").count() > 0
    # what the page does not hold needs a kernel, and says so
    root.get_by_role("combobox", name="machine").select_option("PTX (one thread)")
    expect(root.get_by_role("status")).to_contain_text("no kernel is running")


def test_an_executable_lists_its_kernels(page_of, axe):
    ex = mlc.compile(from_source(GRAPHS["convolution"]))
    root = page_of(mlc.explore(ex.kernels)).locator(".mlcnb")
    root.locator("summary").click()
    assert root.locator("[data-kernel]").count() == len(ex.kernels)
    axe(root)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_names_stay_text(page_of, name):
    root = page_of(LinkedSource(samples.linked(name))).locator(".mlcnb")
    expect(root.locator(".mlc-panes")).to_be_visible()


@DARK
def test_the_trail(page_of, axe, screenshot, dark):
    root = page_of(mlc.explore(replay(scheduled())), dark=dark).locator(".mlcnb")
    slider = root.get_by_role("slider", name="stage")
    expect(root.locator(".mlc-stepper .mlc-at")).to_have_text("1 of 4: step 0")
    assert root.locator(".mlc-later").count() == 3
    slider.press("ArrowRight")
    expect(root.locator(".mlc-detail h4")).to_have_text("2. reorder")
    expect(root.get_by_role("textbox")).to_have_value("sch.reorder(l1, l3, l2)")
    slider.press("End")
    expect(root.get_by_role("status")).to_contain_text("step 3, vectorize")
    root.locator("summary").click()
    assert root.locator("tbody tr.mlc-lit").count() == 1
    axe(root)
    screenshot(f"roofline-{'dark' if dark else 'light'}", root)


@DARK
def test_a_kernel_for_a_gpu(page_of, axe, screenshot, dark):
    sch = schedule_of_transpose(64, True)
    kernel = mlc.compile(sch.mod, target="cuda").kernels[0]
    root = page_of(mlc.explore(kernel, schedule=sch), dark=dark).locator(".mlcnb")
    row = listing(root, "CUDA C++").get_by_text("A_shared[ax0_0 * 264").first
    row.hover()
    assert [text.partition(" = ")[0] for text in lit(root, "TensorIR, lowered")] == [
        "A_shared_1[ax0_0 * 264 + ax0_1 * 33 + ax1]"
    ]
    assert len(lit(root, "TensorIR")) == 1
    if root.locator(".mlc-code[aria-label='PTX']").count():
        assert sum("st.shared" in text for text in lit(root, "PTX")) == 4
    axe(root)
    screenshot(f"linked-cuda-{'dark' if dark else 'light'}", root)
    row.click()
    root.locator("h3").hover()
    expect(root.locator(".mlc-say")).to_contain_text("CUDA C++, line 10 ↔ ")
    listing(root, "CUDA C++").press("Escape")
    code = listing(root, "TensorIR, lowered")
    code.press("Home")
    for _ in range(5):
        code.press("ArrowDown")
    expect(root.locator(".mlc-say")).to_contain_text("TensorIR, lowered, line 6 ↔ ")
    assert lit(root, "CUDA C++") == ["const int i_0 = blockIdx.y;"]

"""The picture of the README: the explorer and linked source in JupyterLab, light and dark.

make picture        docs/images/{explorer,linked}_{light,dark}.png
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser import chromium
from tests.browser.lab import Lab
from tests.browser.server import ROOT, Server

IMAGES = ROOT / "docs" / "images"
#: a window that is read at half its width in a README
SIZE = {"width": 1440, "height": 1500}
CELLS = (
    """\
import mlcnb as mlc
from mlcnb import te

A, B = te.placeholder((256, 256), name="A"), te.placeholder((256, 256), name="B")
k = te.reduce_axis((0, 256), name="k")
C = te.compute((256, 256), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
sch = mlc.tir.Schedule(te.create_prim_func([A, B, C]))""",
    """\
page = mlc.explore(sch, target="llvm -mcpu=x86-64-v3 -num-cores=8")
page.do("split", "j", factors=[None, 64])
page.do("reorder", ["j_0", "i", "k", "j_1"])
page.do("vectorize", "j_1")
page.legal("i")
page""",
    'mlc.explore(mlc.compile(sch, target="llvm").kernels[0], schedule=sch)',
)


def main() -> None:
    """Run a notebook in a JupyterLab of its own, and take its two outputs, in both themes."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        server = Server(Path(folder))
        browser = driver.chromium.launch(executable_path=chromium.find(), args=[*chromium.FLAGS])
        lab = Lab(server, browser.new_page(viewport=SIZE))
        notebook = lab.open(list(CELLS), trusted=True)
        notebook.run()
        for number, name in ((1, "explorer"), (2, "linked")):
            for theme in ("light", "dark"):
                lab.theme(dark=theme == "dark")
                shown = notebook.output(number).locator(".mlcnb")
                shown.scroll_into_view_if_needed()
                shown.page.wait_for_timeout(500)
                target = IMAGES / f"{name}_{theme}.png"
                shown.screenshot(path=target, animations="disabled")
                print(f"{target.relative_to(ROOT)}: {target.stat().st_size // 1000} kB")
        browser.close()
        server.stop()


if __name__ == "__main__":
    main()

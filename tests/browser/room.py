"""What is essential in a view is never cut off at a side, at the widths that people have.

WIDTHS                  of JupyterLab's window; with its side bar or without
clipped(locator)        elements that reach beyond what may cut them off, in words
"""

from __future__ import annotations

from typing import Any

#: window, whether the side bar is open, what is left for an output
WIDTHS = ((900, False, 720), (1280, True, 848), (1600, False, 1420))
#: a page marks with `mlc-essential` what its text speaks of; heads, controls and pictures that are
#: fitted always are essential
IN_PAGES = ".mlc-essential, h3, h4, button, select, input, summary, .mlc-at, canvas"
#: a static view has no marks: all of it is essential but listings, which scroll, and pictures
IN_VIEWS = "th, td, summary"
_CLIPPED = """(root, what) => [...root.querySelectorAll(what)].flatMap(node => {
  const box = node.getBoundingClientRect();
  if (!box.width || !box.height) return [];
  for (let over = node.parentElement; over && root.contains(over); over = over.parentElement) {
    if (getComputedStyle(over).overflowX === "visible" && over !== root) continue;
    const edge = over.getBoundingClientRect();
    const cut = Math.max(box.right - edge.right, edge.left - box.left);
    if (cut > 1) return [`${node.tagName} ${node.className} '${node.textContent.slice(0, 30)}': `
      + `${Math.round(cut)} px beyond ${over.tagName} ${over.className}`];
  }
  return [];
})"""


def clipped(root: Any, what: str) -> list[str]:
    """The essential elements of a view that are cut off."""
    return root.evaluate(_CLIPPED, what)

"""axe-core on elements of a page: what keeps people from reading or using it."""

from __future__ import annotations

from functools import cache
from typing import Any

# three elements of each rule: the others are most often alike
_RUN = """async roots => (await axe.run(roots, {resultTypes: ["violations"]})).violations.flatMap(
  rule => rule.nodes.slice(0, 3).map(node =>
    `${rule.id} (${rule.nodes.length} times): ${rule.help}: ` + node.html.slice(0, 200) + " "
    + [...node.any, ...node.all, ...node.none].map(check => check.message).join("; ")))"""


@cache
def script() -> str:
    """axe-core's source, from a package: nothing is fetched."""
    from axe_playwright_python.base import AXE_SCRIPT

    return AXE_SCRIPT


def check(root: Any, ignore: tuple[str, ...] = ()) -> None:
    """Assert that axe finds nothing wrong with the elements; `ignore`: rules that do not hold."""
    if not root.page.evaluate("typeof axe !== 'undefined'"):
        root.page.evaluate(script())
    wrong = root.evaluate_all(_RUN)
    left = [line for line in wrong if line.partition(" ")[0] not in ignore]
    assert not left, "\n".join(left)

"""axe-core on elements of a page: what keeps people from reading or using it."""

from __future__ import annotations

from functools import cache
from typing import Any

# of a thousand lines of a listing the first forty, and of the others ten that are chosen or lit:
# axe takes half a minute for all; three elements of each rule: the others are most often alike
_RUN = """async roots => {
  const special = "[aria-selected=true], [aria-current], [tabindex='0'], .mlc-lit, .mlc-on";
  const isSpecial = node => node.matches(special) || node.querySelector(special);
  const far = roots.flatMap(root => [root, ...root.querySelectorAll("*")])
    .flatMap(node => {
      const later = [...node.children].slice(40).filter(child => child.style);
      const kept = new Set(later.filter(isSpecial).slice(0, 10));
      return later.filter(child => !kept.has(child));
    });
  const styles = far.map(node => node.style.cssText);
  far.forEach(node => node.style.setProperty("display", "none", "important"));
  const found = await axe.run(roots, {resultTypes: ["violations"]});
  far.forEach((node, at) => { node.style.cssText = styles[at]; });
  return found.violations.flatMap(rule => rule.nodes.slice(0, 3).map(node =>
    `${rule.id} (${rule.nodes.length} times): ${rule.help}: ` + node.html.slice(0, 200) + " "
    + [...node.any, ...node.all, ...node.none].map(check => check.message).join("; ")));
}"""


@cache
def script() -> str:
    """axe-core's source, from a package: nothing is fetched."""
    from axe_playwright_python.base import AXE_SCRIPT

    return AXE_SCRIPT


def check(root: Any) -> None:
    """Assert that axe finds nothing wrong with the elements, by any of its rules."""
    if not root.page.evaluate("typeof axe !== 'undefined'"):
        root.page.evaluate(script())
    wrong = root.evaluate_all(_RUN)
    assert not wrong, "\n".join(wrong)

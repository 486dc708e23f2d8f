"""export: what a cell shows, in one file that needs no network, no server and no kernel.

    mlc.export(mlc.explore(sch), "steps.html")     a page that still steps, hovers and replays
    mlc.export(sch, "schedule.html")               its static view

A policy in the page's head forbids every request; light and dark follow the reader's system.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.view import to_html
from mlcnb.view.html import escape
from mlcnb.view.words import clip, size
from mlcnb.widgets import base
from mlcnb.widgets.base import Interactive

#: bytes of one page
LIMIT = 2_000_000
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
html {{ color-scheme: light dark; }}
body {{ margin: 16px; font: 14px/1.45 system-ui, sans-serif; background: #ffffff; }}
html[data-theme="dark"] body {{ background: #0f1419; }}
{css}</style>
{head}</head>
<body>
<main>
<h1 style="position:absolute;left:-9999px">{title}</h1>
{body}
</main>
</body>
</html>
"""
# before the body is drawn, so that a dark page does not flash
_THEME = """<script>
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
follow();
dark.addEventListener("change", follow);
</script>
"""
# what anywidget gives a module, where there is no kernel: values that stay, and no answers
_START = """
const state = JSON.parse(document.querySelector("script[type='application/json']").textContent);
const model = { get: (name) => state[name], on() {}, off() {}, send() {}, save_changes() {} };
widget.render({ model, el: document.querySelector("#page") });
"""


def export(obj: Any, path: str | Path) -> Path:
    """Write a page of an object to a file.

    Args:
        obj: any object with a view; what `mlc.explore` gives keeps its script and all steps.
        path: a file that ends with .html.

    Returns:
        The path.

    Raises:
        MLCError: another ending, or a page of more than 2 MB.
    """
    target = Path(path)
    if target.suffix != ".html":
        raise MLCError(f"export: {target.name!r} is no kind of page", hint="end it with .html")
    text = page(obj)
    if len(text.encode()) > LIMIT:
        raise MLCError(
            f"export: the page would have {size(len(text.encode()))}, more than {size(LIMIT)}",
            hint="export a part of it: one function, or fewer steps",
        )
    target.write_text(text, encoding="utf-8")
    return target


def page(obj: Any) -> str:
    """The whole text of a page."""
    if isinstance(obj, Interactive):
        return _live(obj)
    title = clip(type(obj).__name__, 120)
    return _PAGE.format(policy=_POLICY, title=escape(title), css="", head=_THEME, body=to_html(obj))


def _live(obj: Interactive) -> str:
    state = {"packed": base.pack(obj.snapshot()), "label": obj.label}
    module = base.esm(obj.module).replace("\nexport default ", "\nconst widget = ", 1)
    module = module.replace("\nexport ", "\n")
    body = (
        '<div id="page"></div>\n'
        f'<script type="application/json">{_in_script(json.dumps(state))}</script>\n'
        f'<script type="module">{module}{_START}</script>'
    )
    return _PAGE.format(
        policy=_POLICY, title=escape(obj.label), css=base.css(obj.module), head=_THEME, body=body
    )


def _in_script(text: str) -> str:
    """JSON that no HTML parser takes for the end of its script."""
    return text.replace("<", "\\u003c")

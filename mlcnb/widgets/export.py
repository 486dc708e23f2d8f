"""export: what a cell shows, in one file that needs no network, no server and no kernel.

    mlc.export(mlc.explore(sch), "steps.html")     a page that still steps, hovers and replays
    mlc.export(sch, "schedule.html")               its static view
    mlc.export(sch, "schedule.md")                 the same for GitHub: tables, programs, no script

A policy in the page's head forbids every request and every script but the page's own two; light and
dark follow the reader's system. Where no script may run, the static view is shown.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlcnb.core.errors import MLCError
from mlcnb.core.files import replacing
from mlcnb.view import as_markdown, to_html, to_markdown, to_text
from mlcnb.view.highlight import code
from mlcnb.view.html import escape
from mlcnb.view.parts import Fold
from mlcnb.view.words import clip, size
from mlcnb.widgets import base
from mlcnb.widgets.base import Interactive

#: bytes of one page
LIMIT = 2_000_000
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
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
_THEME = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
follow();
dark.addEventListener("change", follow);
"""
# what anywidget gives a module, where there is no kernel: values that stay, and no answers
_START = """
const state = JSON.parse(document.querySelector("script[type='application/json']").textContent);
const model = { get: (name) => state[name], on() {}, off() {}, save_changes() {},
  send() { throw new Error("no kernel is running"); } };
widget.render({ model, el: document.querySelector("#page") });
"""


def export(obj: Any, path: str | Path) -> Path:
    """Write a page of an object to a file; one that is there is replaced as a whole.

    Of constants the page has shape and dtype, and not all values.

    Args:
        obj: any object; what `mlc.explore` gives keeps its script and all steps.
        path: a file that ends with .html or .md, in a folder that is there.

    Returns:
        The path.

    Raises:
        MLCError: another ending, no such folder, or a page of more than 2 MB.
    """
    target = Path(path)
    write = _KINDS.get(target.suffix.lower())
    if write is None:
        raise MLCError(
            f"export: {target.name!r} is no kind of page",
            hint="end it with .html (a page with script) or .md (for GitHub)",
        )
    if not target.parent.is_dir():
        raise MLCError(f"export: there is no folder {str(target.parent)!r}", hint="make it first")
    if target.is_dir():
        raise MLCError(f"export: {str(target)!r} is a folder", hint="give the name of a file")
    data = write(obj).encode()
    if len(data) > LIMIT:
        raise MLCError(
            f"export: the page would have {size(len(data))}, more than {size(LIMIT)}",
            hint="export a part of it: one function, or fewer steps",
        )
    _replace(target, data)
    return target


def page(obj: Any) -> str:
    """The whole text of a page."""
    if isinstance(obj, Interactive):
        return _live(obj)
    title = clip(to_text(obj).partition("\n")[0], 120) or type(obj).__name__
    return _filled(title, to_html(obj))


def markdown(obj: Any) -> str:
    """The whole text of a page for GitHub; of an object with a page, also what it says in words."""
    if not isinstance(obj, Interactive):
        return to_markdown(obj)
    parts, words = obj.parts(), obj.explain()
    return as_markdown.to_markdown([*parts, Fold("in words", [code(words)])])


_KINDS: dict[str, Callable[[Any], str]] = {".html": page, ".htm": page, ".md": markdown}


def _live(obj: Interactive) -> str:
    state = {"packed": base.pack(obj.snapshot()), "label": obj.label}
    module = base.esm(obj.module).replace("\nexport default ", "\nconst widget = ", 1)
    module = module.replace("\nexport ", "\n") + _START
    body = (
        '<div id="page"></div>\n'
        f'<script type="application/json">{_in_script(json.dumps(state))}</script>\n'
        f'<script type="module">{module}</script>'
    )
    css = base.css(obj.module)
    made = _filled(obj.label, f"{body}\n<noscript>{obj.to_html()}</noscript>", css, module)
    return made if len(made.encode()) <= LIMIT else _filled(obj.label, body, css, module)


def _filled(title: str, body: str, css: str = "", module: str = "") -> str:
    """A page; the only scripts that its policy lets run are `module` and the choice of colours."""
    scripts = " ".join(_hash(text) for text in (_THEME, module) if text)
    return _PAGE.format(
        policy=_POLICY.format(scripts=scripts),
        title=escape(title),
        css=css,
        head=f"<script>{_THEME}</script>\n",
        body=body,
    )


def _hash(script: str) -> str:
    """A script's name in a policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _in_script(text: str) -> str:
    """JSON that no HTML parser takes for the end of its script."""
    return text.replace("<", "\\u003c")


def _replace(target: Path, data: bytes) -> None:
    """Nobody finds half a page."""
    with replacing(target) as part:
        part.write_bytes(data)

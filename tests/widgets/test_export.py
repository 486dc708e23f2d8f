"""One-file pages: what is in them, what their policy lets run, and how they are written."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
from html.parser import HTMLParser

import pytest

import mlcnb as mlc
from mlcnb.core.errors import MLCError
from mlcnb.widgets import base
from tests.browser.kit import Kit
from tests.view.names import NAMES
from tests.view.samples import matmul, scheduled
from tests.view.test_markdown import read as read_markdown


class Page(HTMLParser):
    """The scripts of a page by type, its policy, and every address in it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: dict[str, str] = {}
        self.policy = self.title = self.kind = ""
        self.at: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        assert not [name for name in given if name.startswith("on")]
        self.addresses += [v for k, v in attrs if k in ("src", "href", "action", "srcset")]
        self.at.append(tag)
        if tag == "script":
            self.kind = given.get("type", "")
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]

    def handle_endtag(self, tag):
        self.at.append("")

    def handle_data(self, data):
        if self.at and self.at[-1] == "script":
            self.scripts[self.kind] = self.scripts.get(self.kind, "") + data
        if self.at and self.at[-1] == "title":
            self.title += data


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_only_its_own_scripts_may_run(tmp_path, name):
    page = Page(mlc.export(Kit(name), tmp_path / "kit.html").read_text("utf-8"))
    assert set(page.scripts) == {"", "module", "application/json"}
    allowed = re.search(r"script-src ([^;]*);", page.policy)[1].split()
    for kind in ("", "module"):
        digest = hashlib.sha256(page.scripts[kind].encode()).digest()
        assert f"'sha256-{base64.b64encode(digest).decode()}'" in allowed
    assert len(allowed) == 2
    assert page.policy.startswith("default-src 'none'; ")
    assert [a for a in page.addresses if not a.startswith("data:image/svg+xml;base64,")] == []


def test_a_static_page_has_the_title_of_its_view(tmp_path):
    page = Page(mlc.export(matmul, tmp_path / "m.html").read_text("utf-8"))
    assert page.title.startswith("PrimFunc matmul: ")
    assert set(page.scripts) == {""}


def test_any_object_has_a_page(tmp_path):
    assert "<pre" in mlc.export({"a": 1}, tmp_path / "x.html").read_text("utf-8")
    assert mlc.export(3, tmp_path / "x.md").read_text("utf-8") == "```\n3\n```\n"


def test_where_no_script_runs_the_static_view_stands(tmp_path):
    text = mlc.export(Kit(), tmp_path / "kit.html").read_text("utf-8")
    (inside,) = re.findall(r"<noscript>(.*)</noscript>", text, re.DOTALL)
    assert inside == Kit().to_html()


def test_for_github(tmp_path):
    text = mlc.export(Kit("a|b"), tmp_path / "kit.md").read_text("utf-8")
    assert text == (
        "### three steps: a\\|b, reorder, vectorize\n\nas a static view\n\n<details>\n"
        "<summary>in words</summary>\n\n```\nthree steps: a|b, reorder, vectorize\n"
        "as a static view\n```\n\n</details>\n"
    )


def test_a_schedule_for_github(tmp_path):
    text = mlc.export(mlc.explore(scheduled()), tmp_path / "schedule.md").read_text("utf-8")
    shown = read_markdown(text).text
    assert shown.startswith("Explorer: schedule of matmul, 3 steps")
    assert "split" in shown and "T.grid" in shown


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "page.pdf",
            "export: 'page.pdf' is no kind of page\n"
            "hint: end it with .html (a page with script) or .md (for GitHub)",
        ),
        ("page", "export: 'page' is no kind of page\nhint: end it with .html (a page with script)"),
        ("nowhere/page.html", "export: there is no folder '{0}/nowhere'\nhint: make it first"),
        ("folder.md", "export: '{0}/folder.md' is a folder\nhint: give the name of a file"),
    ],
)
def test_refusals(tmp_path, name, message):
    (tmp_path / "folder.md").mkdir()
    with pytest.raises(MLCError) as error:
        mlc.export(matmul, tmp_path / name)
    assert str(error.value).startswith(message.format(tmp_path))
    assert os.listdir(tmp_path) == ["folder.md"]


def test_what_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["mlcnb.widgets.export"], "LIMIT", 1000)
    with pytest.raises(MLCError, match=r"export: the page would have [\d.]+ kB, more than 1 kB"):
        mlc.export(Kit(), tmp_path / "kit.html")
    assert os.listdir(tmp_path) == []


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    target = tmp_path / "kit.html"
    target.write_text("before")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        mlc.export(Kit(), target)
    assert os.listdir(tmp_path) == ["kit.html"]
    assert target.read_text() == "before"


def test_the_same_object_gives_the_same_page(tmp_path):
    one, two = (mlc.export(Kit(), tmp_path / f"{n}.html").read_bytes() for n in "ab")
    assert one == two


def test_modules_end_no_script():
    for module in sorted(p.stem for p in base.HERE.glob("*.js")):
        assert "</script" not in (base.HERE / f"{module}.js").read_text().lower()

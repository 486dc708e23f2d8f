"""Markdown of views: what GitHub makes of it, by two parsers; names from a model stay text."""

from __future__ import annotations

from html.parser import HTMLParser

import mistune
import pytest
from markdown_it import MarkdownIt

from mlcnb import view
from mlcnb.core.errors import MLCError
from mlcnb.core.text import visible
from mlcnb.view.as_markdown import LIMIT, to_markdown
from mlcnb.view.highlight import ASSEMBLY, code
from mlcnb.view.parts import (
    Beside,
    Column,
    Facts,
    Fold,
    Line,
    Picture,
    Scroll,
    Table,
    Title,
)
from tests.view.names import NAMES
from tests.view.samples import everything

TAGS = {
    *("h3", "p", "sub", "strong", "blockquote", "pre", "code", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"details": {"open"}, "code": {"class"}, "td": {"style"}, "th": {"style"}}
RENDERERS = {
    "markdown-it": MarkdownIt("commonmark", {"html": True})
    .enable(["table", "strikethrough"])
    .render,
    "mistune": mistune.create_markdown(
        escape=False, plugins=["table", "strikethrough", "url", "footnotes", "task_lists"]
    ),
}


class Reader(HTMLParser):
    """Refuses tags that no part makes; keeps the texts, and the cells of tables."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text = ""
        self.cells: list[str] = []

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS, f"<{tag}>"
        assert {name for name, _ in attrs} <= ATTRIBUTES.get(tag, set()), f"<{tag} {attrs}>"
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        self.text += data
        if "td" in self.open or "th" in self.open:
            self.cells[-1] += data

    def handle_comment(self, data):
        raise AssertionError(f"comment {data!r}")

    handle_decl = handle_pi = unknown_decl = handle_comment


def read(markdown: str, renderer: str = "markdown-it") -> Reader:
    reader = Reader()
    reader.feed(RENDERERS[renderer](markdown))
    reader.close()
    assert reader.open == []
    return reader


PARTS = [
    Title("a [name] of *this*"),
    Line("1. not a list"),
    Line("grey", "note"),
    Line("wrong", "error"),
    Line("hint: do this", "hint"),
    Facts([("size", "1 | 2 kB"), ("kind", "")]),
    Table(
        [Column("", "code"), Column("n", "number"), Column("", "bar"), Column("why", "prose")],
        [("  for i", 4, 0.5, "a\nb"), ("for `x`|", 12, 1.0, "-"), ("x", 0, 0.0, "")],
        most=2,
        see="x.rows()",
    ),
    Fold("more", lambda: [Scroll([code("\tret\n```\n", ASSEMBLY)])], "x.asm"),
    Beside([("before", [Line("one")]), ("after", [Line("two", "note")])]),
    Picture(lambda: "<svg/>", "a picture", "as\ntext"),
]


def test_every_part():
    assert (
        to_markdown(PARTS)
        == r"""### a \[name\] of \*this\*

&#49;. not a list

<sub>grey</sub>

**wrong**

> hint: do this

|  |  |
| --- | --- |
| size | 1 \| 2 kB |
| kind |  |

|  | n |  | why |
| --- | ---: | --- | --- |
| &nbsp;&nbsp;`for i` | 4 | ██████ | a b |
| <code>for \`x\`\|</code> | 12 | ████████████ | - |

<sub>… 1 more row: x.rows()</sub>

<details>
<summary>more</summary>

````gas
	ret
```
````

</details>

**before**

one

**after**

<sub>two</sub>

```
as
text
```
"""
    )


@pytest.mark.parametrize("renderer", RENDERERS)
def test_what_a_reader_sees(renderer):
    reader = read(to_markdown(PARTS), renderer)
    assert reader.text.split("\n")[0] == "a [name] of *this*"
    assert "1. not a list" in reader.text
    assert reader.cells[:6] == ["", "", "size", "1 | 2 kB", "kind", ""]
    assert reader.cells[10:15] == ["\xa0\xa0for i", "4", "██████", "a b", "for `x`|"]
    assert "\tret\n```\n" in reader.text


@pytest.mark.slow
@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_names_stay_text(name, renderer):
    for what, obj in everything(name).items():
        text = view.to_markdown(obj)
        assert len(text) <= LIMIT + 100, what
        assert read(text, renderer).text.strip(), what


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_names_are_shown_whole(name, renderer):
    parts = [Title(name), Line(name), Line(name, "error"), Table([Column("", "code")], [(name,)])]
    shown = " ".join(visible(name).split())
    text = " ".join(read(to_markdown(parts), renderer).text.split())
    assert text == " ".join([shown] * 4).strip() or not name


def test_links_and_mentions_are_none():
    text = "see http://a.example www.a.example me@a.example @all mailto:x"
    assert to_markdown([Line(text)]) == (
        "see http&#58;//a.example www&#46;a.example me&#64;a.example &#64;all mailto&#58;x\n"
    )
    assert read(to_markdown([Line(text)]), "mistune").text.strip() == text


def test_what_is_too_long_ends_in_a_note():
    text = to_markdown([Line("a" * 90), Line("b" * 90)], limit=100)
    assert text == f"{'a' * 90}\n\n<sub>… the rest is too long for a page</sub>\n"
    folded = to_markdown([Fold("more", [Line("b" * 90)])], limit=100)
    assert folded.endswith("<sub>… the rest is too long for a page</sub>\n\n</details>\n")


def test_objects_without_a_view_are_their_repr():
    assert view.to_markdown(3) == "```\n3\n```\n"
    assert view.to_markdown(MLCError("no", hint="yes")) == "**MLCError: no**\n\n> hint: yes\n"

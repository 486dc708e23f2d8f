from __future__ import annotations

import re

import pytest

from mlcnb.core.doc import NEWLINE, Indent, Mark, Page, Text, Where, block, join, lines
from mlcnb.core.render import COLOURS, SHEET


class Thing:
    """Stands for a node."""


A, B, LOOP = Thing(), Thing(), Thing()


def loop() -> list:
    body = [
        [Mark(A, Text("a", "name")), " = ", Mark(B, Text("1", "number"))],
        [Text("# <done>", "comment")],
    ]
    return [Mark(LOOP, block([Text("while ", "keyword"), Mark(A, Text("a", "name")), ":"], body))]


def test_text_is_laid_out_with_indentation() -> None:
    assert Page(loop()).text == "while a:\n    a = 1\n    # <done>"
    assert Page(loop(), "  ").text == "while a:\n  a = 1\n  # <done>"


def test_blank_lines_have_no_trailing_spaces() -> None:
    assert Page(block("f:", ["a", "", "b"])).text == "f:\n    a\n\n    b"


def test_nodes_know_all_their_places_in_order() -> None:
    page = Page(loop())
    assert page.spans_of(A) == [Where(1, 7, 1, 8), Where(2, 5, 2, 6)]
    assert page.spans_of(B) == [Where(2, 9, 2, 10)]
    assert page.spans_of(LOOP) == [Where(1, 1, 3, 13)]
    assert page.spans_of(Thing()) == []


def test_the_innermost_node_is_found_at_a_place() -> None:
    page = Page(loop())
    assert page.node_at(1, 1) is LOOP
    assert page.node_at(1, 7) is A
    assert page.node_at(2, 9) is B
    assert page.node_at(2, 7) is LOOP
    assert page.node_at(4, 1) is None


def test_carets_stand_under_nodes_and_notes_after_lines() -> None:
    text = Page(loop()).underlined([A], notes=[(B, "one")])
    assert text.split("\n") == [
        "while a:",
        "      ^",
        "    a = 1  # one",
        "    ^",
        "    # <done>",
    ]


def test_a_node_over_lines_is_underlined_without_its_indentation() -> None:
    assert Page(loop()).underlined([LOOP]).split("\n") == [
        "while a:",
        "^^^^^^^^",
        "    a = 1",
        "    ^^^^^",
        "    # <done>",
        "    ^^^^^^^^",
    ]


def test_ansi_colours_tokens_and_numbers_lines() -> None:
    page = Page(loop())
    assert page.ansi().split("\n")[0] == "\x1b[35mwhile \x1b[0ma:"
    assert page.ansi(line_numbers=True).split("\n")[1].startswith("\x1b[90m2\x1b[0m  ")
    assert re.sub(r"\x1b\[\d+m", "", page.ansi()) == page.text


def test_html_is_escaped_and_styled_by_its_sheet() -> None:
    html = Page(loop()).html()
    sheet, listing = html[: len(SHEET)], html[len(SHEET) :]
    assert sheet == SHEET
    assert listing.startswith('<pre class="mlc-view" style="background:rgba(')
    assert '<b class="mlc-k">while </b>a:' in listing
    assert "# &lt;done&gt;" in listing
    assert "<style" not in listing and "var(" not in listing and "color:" not in listing
    of_tokens = (colour for colours in COLOURS.values() for colour in colours[:2])
    assert all(f":{colour};" in SHEET for colour in of_tokens if colour)


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", '"><img src=x onerror=y>', "&'"])
def test_hostile_text_cannot_leave_its_place(hostile: str) -> None:
    html = Page([Text(hostile, "string"), hostile]).html()
    tags = r'<span class="mlc-[a-z]">|</span>|<pre class="mlc-view" style="[^"<>]*">|</pre>'
    body = re.sub(tags, "", html.removeprefix(SHEET))
    assert not set(body) & set("<>\"'")


def test_html_highlights_the_places_of_a_node() -> None:
    html = Page(loop()).html(highlight=[(B, "rgba(255,160,60,0.3)")])
    assert html.count("background:rgba(255,160,60,0.3)") == 1
    assert '<span class="mlc-n" style="background:rgba(255,160,60,0.3)">1</span>' in html


def test_html_numbers_lines() -> None:
    assert '<i class="mlc-c">2  </i>' in Page(loop()).html(line_numbers=True)


def test_a_doc_of_ten_thousand_levels_is_laid_out() -> None:
    doc: list = ["x"]
    for _ in range(10_000):
        doc = ["(", doc, ")"]
    assert len(Page(doc).text) == 20_001


def test_what_is_no_doc_is_refused() -> None:
    with pytest.raises(TypeError, match="no doc: 5"):
        Page([5])


def test_join_and_lines() -> None:
    assert Page(join(["a", "b", "c"])).text == "a, b, c"
    assert Page([lines(["a", "b"]), Indent([NEWLINE, "c"])]).text == "a\nb\n    c"

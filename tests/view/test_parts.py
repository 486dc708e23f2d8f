"""Parts as text and as HTML: the same words, within limits."""

from __future__ import annotations

import re

import pytest

from mlcnb.core.doc import Where
from mlcnb.core.render import SHEET, Text
from mlcnb.view.as_html import to_html
from mlcnb.view.as_text import bar, to_text
from mlcnb.view.highlight import ASSEMBLY, LLVM, PYTHON, code
from mlcnb.view.parts import Code, Column, Facts, Fold, Line, Picture, Table, Title, filled, heads
from tests.view.allowed import check_html
from tests.view.snapshot import same

SVG = '<svg xmlns="http://www.w3.org/2000/svg"><title>x</title></svg>'
TABLE = Table(
    [Column("name", "code"), Column("n", "number"), Column("", "bar")],
    [("a", "1", 1.0), ("long name", "1,234", 0.3), ("c", None, 0.001)],
)
ALL = [
    Title("A title"),
    Facts([("one", "1"), ("twelve", "12")]),
    Line("a note", "note"),
    Line("an error", "error"),
    Line("try this", "hint"),
    TABLE,
    code("define void @f() { ; x\n  ret void\n}", LLVM),
    Fold("folded", [Line("inside")], "obj.show()"),
    Fold("open", [Line("inside too"), Fold("deeper", [Line("deep")])], "", True, True),
    Picture(lambda: SVG, "a picture", text="a\nb"),
]


def test_text():
    assert to_text(ALL) == "\n".join(
        [
            "A title",
            "  one     1",
            "  twelve  12",
            "a note",
            "an error",
            "try this",
            "  name           n",
            "  a              1  ████████████",
            "  long name  1,234  ███▋",
            "  c                 ▏",
            "define void @f() { ; x",
            "  ret void",
            "}",
            "folded: obj.show()",
            "open:",
            "  inside too",
            "  deeper",
            "a",
            "b",
        ]
    )


def test_html():
    html = to_html(ALL)
    check_html(html)
    same("parts.html", html.replace(SHEET, "").replace("><", ">\n<"))


def test_what_stands_between_backticks_is_code():
    prose = Table([Column("what it did", "prose")], [("turned `init` into `if`",)])
    html = to_html([Line("where `a < b` holds"), Line("one ` alone", "note"), prose])
    check_html(html)
    assert re.findall(r"<code[^>]*>([^<]*)</code>", html) == ["a &lt; b", "init", "if"]
    assert "one ` alone" in html


def test_a_picture_is_no_wider_than_it_is_and_stands_beside_the_next():
    html = to_html([Picture(lambda: SVG, "one"), Picture(lambda: SVG, "two")])
    windows = re.findall(r'<div style="([^"]*)"><img', html)
    assert len(windows) == 2
    assert all("display:inline-block" in style and "max-width" in style for style in windows)


def test_text_and_html_say_the_same():
    html = re.sub(r"<[^>]*>", " ", to_html(ALL).removeprefix(SHEET))
    left = set(re.findall(r"\w+", to_text(ALL))) - set(re.findall(r"\w+", html))
    assert left == {"b", "obj", "show"}  # how to unfold, and the words for the picture


def test_ansi():
    shown = to_text([Title("t"), code("x = 1  # c", PYTHON), Line("n", "note")], colours=True)
    assert shown == "\x1b[1mt\x1b[0m\nx = \x1b[33m1\x1b[0m  \x1b[90m# c\x1b[0m\n\x1b[90mn\x1b[0m"


def test_bars():
    assert [bar(x, 4) for x in (0.0, 1e-9, 0.5, 0.53, 1.0, 7.0)] == [
        "",
        "▏",
        "██",
        "██▏",
        "████",
        "████",
    ]


@pytest.mark.parametrize(
    ("language", "text", "kinds"),
    [
        (LLVM, "%x = load <4 x float>, ptr @g, align 4", "builtin keyword type type function"),
        (ASSEMBLY, "  vaddps (%rax), %zmm1, %zmm2  # c", "keyword builtin builtin builtin comment"),
        (PYTHON, "sch.split(loop=l1, factors=[None, 4])", "function keyword number"),
    ],
)
def test_highlighting(language, text, kinds):
    tokens = language.tokens(text)
    assert "".join(t.text for t in tokens) == text
    assert [t.kind for t in tokens if t.kind][: len(kinds.split())] == kinds.split()


def test_a_long_listing_is_cut():
    long = code("\n".join(f"line {i}" for i in range(1000)), see="print(x)")
    for shown in (to_text([long], most=10_000), check_html(to_html([long]))):
        assert "line 299" in shown
        assert "line 300" not in shown
        assert "… 700 more lines: print(x)" in shown


def test_a_long_line_is_cut():
    shown = check_html(to_html([Code([[Text("x" * 5000)]])]))
    assert shown == "x" * 1000 + "… (4,000 more characters)"


def test_a_long_table_is_folded():
    table = Table([Column("n", "number")], [(str(i),) for i in range(50)], 10, "x.rows")
    assert to_text([table]).splitlines()[-1] == "… 40 more rows: x.rows"
    html = to_html([table])
    assert "<summary>… 40 more rows: x.rows</summary>" in html
    check_html(html)


def test_the_page_stays_within_its_budget():
    part = code("\n".join("x" * 900 for _ in range(290)), see="a")
    many = [Title("t"), *(Fold(f"part {i}", [part], f"see({i})") for i in range(30)), TABLE]
    html = to_html(many)
    assert 150_000 < len(html.encode()) <= 200_000
    shown = check_html(html)
    assert "part 29: see(29)" in shown
    assert "more lines: a" in shown
    check_html(to_html(many, 20_000), 20_000)


def test_a_table_too_large_for_the_page_is_cut():
    table = Table([Column("x")], [("y" * 5000,)] * 100, 100, "x.rows")
    html = to_html([table, Line("the end")])
    shown = check_html(html)
    assert "more rows: x.rows" in shown
    assert "the end" in shown


def test_a_picture_too_large_for_the_page_is_told():
    big = f'<svg xmlns="http://www.w3.org/2000/svg"><title>{"x" * 300_000}</title></svg>'
    shown = check_html(to_html([Picture(lambda: big, "a cat")]))
    assert shown == "a cat (a picture of 400 kB, too large for a cell)"


def test_marks_are_backgrounds():
    html = to_html([Code([[Text("abcdef")]], [(Where(1, 2, 1, 4), "rgba(255,160,60,0.3)")])])
    assert '<span style="background:rgba(255,160,60,0.3)">bc</span>' in html
    check_html(html)


def test_columns_in_which_nothing_stands_are_left_out():
    columns = [Column("a"), Column("b"), Column("c")]
    table = filled(columns, [("x", "", None), ("y", "", 0)], 9, "all")
    assert table == Table([columns[0], columns[2]], [["x", None], ["y", 0]], 9, "all")
    assert filled(columns, [], 9, "all").columns == columns


def test_heads_say_titles_and_kinds():
    line = "kernel: code | made of | : bar |  | GFLOP/s: number"
    told = [("kernel", "code"), ("made of", "text"), ("", "bar"), ("", "text")]
    assert heads(line) == [Column(*pair) for pair in [*told, ("GFLOP/s", "number")]]

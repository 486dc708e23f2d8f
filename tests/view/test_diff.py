"""diff: what changed, line by line and word by word."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlcnb
from mlcnb import view
from mlcnb.core.errors import MLCError
from mlcnb.ir.module import IRModule
from mlcnb.relax.transform import LegalizeOps
from mlcnb.view.diff import change_parts
from tests.view.allowed import check_html
from tests.view.samples import matmul, mlp, scheduled


def test_texts():
    made = mlcnb.diff("a\nb = 1\nc\n", "a\nb = 2\nc\nd\n")
    assert repr(made) == dedent("""\
        text: changed, +2 -1 lines
        @@ text: changed, +2 -1 lines @@
          a
        - b = 1
        + b = 2
          c
        + d""")
    assert [c.name for c in made.changes] == ["text"]


def test_no_difference():
    made = mlcnb.diff(mlp(), mlp())
    assert not made
    assert repr(made) == "no difference"
    assert view.to_text(made) == "diff: no difference"
    check_html(view.to_html(made))


def test_functions_added_removed_and_changed():
    before = mlp().with_functions({"old": matmul})
    after = LegalizeOps()(mlp())
    made = mlcnb.diff(before, after)
    assert made.summary == "main changed; matmul, relu, add, softmax added; old removed"
    assert [(c.name, c.kind) for c in made.changes] == [
        ("main", "changed"),
        *((name, "added") for name in ("matmul", "relu", "add", "softmax")),
        ("old", "removed"),
    ]
    assert "-         lv1: R.Tensor" in made.text
    assert "+         lv1 = R.call_tir(cls.relu" in made.text
    assert "- @T.prim_func" in made.text
    shown = check_html(view.to_html(made))
    assert "4 functions added: matmul, relu, add, softmax" in shown
    assert "1 function removed: old" in shown


def test_operators_are_counted_where_their_number_changed():
    one = IRModule.make({"main": mlp()["main"]})
    two = one.with_functions({"other": one["main"]})
    assert mlcnb.diff(one, two).summary == "other: added, +10 -0 lines; operators 4 -> 8"


def test_lines_that_are_only_indented_anew():
    made = mlcnb.diff("for i:\n    a\n    b", "for i:\n    for j:\n        a\n        b")
    assert made.text.splitlines()[1:] == [
        "  for i:",
        "+     for j:",
        "~         a",
        "~         b",
    ]


def test_unchanged_lines_are_folded():
    before = "\n".join(map(str, range(100)))
    made = mlcnb.diff(before, before.replace("50", "fifty"), context=2)
    assert made.text.splitlines()[1:] == [
        *("… 48 unchanged lines", "  48", "  49", "- 50", "+ fifty", "  51", "  52"),
        "… 47 unchanged lines",
    ]
    html = view.to_html(made)
    assert "<summary>… 48 unchanged lines</summary>" in html
    assert "\n  7\n" in check_html(html)


def test_words_that_differ_are_darker():
    html = view.to_html(mlcnb.diff("a = f(x, 1)", "a = f(y, 1)"))
    assert '<span style="background:rgba(230,60,75,0.32)">x</span>' in html
    assert '<span style="background:rgba(46,180,80,0.38)">y</span>' in html
    check_html(html)


def test_what_differs_far_right_is_brought_within_sight():
    """The equal parts of both lines are left out, the same ones in both; the text has them."""
    line = "lv: R.Tensor((1, 32)) = R.conv2d(x, " + "metadata[0], " * 12 + "padding=[{}], groups=1)"
    made = mlcnb.diff(line.format("0, 0"), line.format("1, 0"))
    (code,) = (part for part in change_parts(made))
    removed, added = ("".join(token.text for token in row) for row in code.lines)
    assert removed == "- lv: R.Tensor((1, 32)) =  … [0], padding=[0, 0], groups=1)"
    assert added == "+ lv: R.Tensor((1, 32)) =  … [0], padding=[1, 0], groups=1)"
    marked = [(w.line, w.column, w.end_column) for w, colour in code.marks if ",0.3" in colour]
    assert [(added if n == 2 else removed)[a - 1 : b - 1] for n, a, b in marked] == ["0", "1"]
    assert line.format("1, 0") in made.text


def test_schedules():
    made = mlcnb.diff(scheduled(), scheduled().redo())
    assert made.summary == "main: changed, +2 -1 lines"


def test_what_has_no_text():
    with pytest.raises(MLCError, match="diff: an int has no program text"):
        mlcnb.diff(1, 2)


LINES = st.lists(st.sampled_from(["a = 1", "b = 2", "  b = 2", "c", "", "a = 3"]), max_size=12)


@given(LINES, LINES)
def test_both_sides_can_be_read_from_the_diff(before, after):
    made = mlcnb.diff("\n".join(before), "\n".join(after), context=100)
    old, new = "\n".join(before).splitlines(), "\n".join(after).splitlines()
    if old == new:
        assert not made
        return
    (change,) = made.changes
    lines = made.text.split("\n")[1:]
    assert [line[2:] for line in lines if line[:1] in (" ", "", "~", "+")] == new
    assert [line[2:].strip() for line in lines if line[:1] in (" ", "", "~", "-")] == [
        line.strip() for line in old
    ]
    assert change.counts == (
        sum(line.startswith("+") for line in lines),
        sum(line.startswith("-") for line in lines),
    )
    check_html(view.to_html(made))

"""The HTML builder: what it makes, what it refuses."""

from __future__ import annotations

import pytest

from mlcnb.view.html import Html, breakable, css, details, img_svg, join, pre, scrolled, table, tag
from mlcnb.view.words import clip, visible
from tests.view.allowed import check_html, contrast


def test_tags_escape_texts_and_keep_html():
    made = tag("div", "a < b", tag("b", '"x" & y'), "</div>")
    assert made == "<div>a &lt; b<b>&quot;x&quot; &amp; y</b>&lt;/div&gt;</div>"
    assert isinstance(made, Html)


def test_long_names_may_break_at_their_joints_and_say_the_same():
    made = breakable('short_name "kernel.fused_conv2d_add.par1"')
    assert made == ("short_name &quot;kernel.<wbr>fused_<wbr>conv2d_<wbr>add.<wbr>par1&quot;")
    assert check_html(tag("td", made)) == 'short_name "kernel.fused_conv2d_add.par1"'
    assert breakable(Html("<b>a_very_long_name_of_html</b>")) == "<b>a_very_long_name_of_html</b>"


def test_attributes():
    assert tag("td", "x", title='"', style=css(color="#24292f")) == (
        '<td title="&quot;" style="color:#24292f">x</td>'
    )
    assert tag("details", open=True) == "<details open></details>"
    assert tag("details", open=False, style="") == "<details></details>"


@pytest.mark.parametrize("name", ["script", "svg", "style", "iframe", "input", "form"])
def test_tags_that_do_not_survive_are_refused(name):
    with pytest.raises(
        ValueError, match=f"tag <{name}> does not survive: there are a, b, br, code"
    ):
        tag(name, "x")


@pytest.mark.parametrize("attribute", ["onclick", "id", "class", "href", "src"])
def test_attributes_that_do_not_survive_are_refused(attribute):
    with pytest.raises(ValueError, match=f"<div> has no attribute '{attribute}' that survives"):
        tag("div", **{attribute: "x"})


def test_what_tab_reaches_is_no_link():
    assert scrolled("x") == (
        '<a tabindex="0" role="group" aria-label="scrolls" '
        'style="color:inherit;text-decoration:none">x</a>'
    )
    with pytest.raises(ValueError, match="<a> has no attribute 'href' that survives"):
        tag("a", "x", href="x")


def test_an_image_comes_with_its_data():
    with pytest.raises(ValueError, match="an image has its data in it"):
        tag("img", src="https://example.org/x.png")


@pytest.mark.parametrize(
    "style",
    [
        {"color": "var(--x)"},
        {"background": "url(x)"},
        {"position": "fixed"},
        {"color": "red;position:fixed"},
        {"width": "expression(alert(1))"},
    ],
)
def test_styles_that_do_not_survive_are_refused(style):
    with pytest.raises(ValueError, match="does not survive"):
        css(**style)


def test_parts():
    assert table([["1", "<2>"]], ["a", "b"], ["", css(color="#24292f")]) == (
        '<table><thead><tr><th>a</th><th style="color:#24292f">b</th></tr></thead>'
        '<tbody><tr><td>1</td><td style="color:#24292f">&lt;2&gt;</td></tr></tbody></table>'
    )
    assert details("t", "x", is_open=True) == "<details open><summary>t</summary>x</details>"
    assert pre("a\n<b>") == '<pre style="font-family:monospace">a\n&lt;b&gt;</pre>'
    assert join(["<", tag("b", "x")], " ") == "&lt; <b>x</b>"


def test_a_picture():
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><title>&lt;</title></svg>'
    assert check_html(img_svg(svg, '"alt"')) == ""
    assert img_svg(svg, '"alt"').startswith('<img alt="&quot;alt&quot;" src="data:image/svg+xml;')


def test_hidden_characters_are_spelled_out():
    assert visible("a\x00\x1b[1m\u202eb\ud800\r") == "a\\x00\\x1b[1m\\u202eb\\ud800\\x0d"
    assert tag("b", "\u200b") == "<b>\\u200b</b>"


def test_clip():
    assert clip("short") == "short"
    assert clip("a\nb\tc") == "a b c"
    assert clip("0123456789" * 2, 10) == "012345…789"
    assert len(clip("\u202e" * 100, 30)) == 30


@pytest.mark.parametrize(
    "html",
    [
        "<script>x</script>",
        "<div onclick='x'>x</div>",
        "<div class='x'>x</div>",
        "<div style='color:var(--x)'>x</div>",
        "<div style='background:url(x)'>x</div>",
        "<div><b>x</div></b>",
        "<div>",
        "<!-- x -->",
        "<img alt='x' src='https://example.org'>",
        '<span style="color:#999999">too pale</span>',
        "<b>\u202e</b>",
        "<svg></svg>",
    ],
)
def test_the_check_itself_refuses(html):
    with pytest.raises(AssertionError):
        check_html(html)


def test_contrast():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)

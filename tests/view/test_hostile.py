"""Names that mean harm, through every view: the page stays what it was meant to be."""

from __future__ import annotations

import re

import pytest

from mlcnb import view
from mlcnb.core import display
from mlcnb.view.registry import kinds
from mlcnb.view.words import clip
from tests.view.allowed import INVISIBLE, check_html, check_svg, pictures
from tests.view.names import NAMES
from tests.view.samples import everything, named_module


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_every_view(name):
    for what, obj in everything(name).items():
        html, text = view.to_html(obj), view.to_text(obj)
        shown = check_html(html)
        assert "alert(1)" not in re.sub(r"[^<]*", "", html), what
        assert not INVISIBLE.search(text.replace("\n", "")), what
        assert len(text.splitlines()) <= 301, what
        assert shown.strip(), what
        assert obj.to_html() == html, what


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_graph(name):
    drawn = named_module(name).graph()
    texts = check_svg(drawn.svg())
    assert clip(name, 40) in texts or not name
    assert "URL=" not in re.sub(r'"(\\.|[^"\\])*"', "", drawn.dot)
    assert all(len(line) <= 40 for node in drawn.model.nodes for line in node.lines)


def test_a_name_in_a_picture_is_text():
    (svg,) = pictures(view.to_html(named_module(NAMES["svg"]).graph()))
    assert "&lt;/title&gt;" in svg
    assert "<a " not in svg


def test_ansi_text_holds_no_codes_but_ours():
    for obj in everything(NAMES["control"]).values():
        left = re.sub(r"\x1b\[(0|1|3[1-7]|9[0-4])m", "", view.to_text(obj, colours=True))
        assert not INVISIBLE.search(left.replace("\n", ""))


def test_every_view_is_tested():
    shown = {name for obj in everything("x").values() for _, name in display.kinds_of(obj)}
    others = {
        "mlcnb.runtime.executable:Executable",
        "mlcnb.runtime.executable:Kernels",
        "mlcnb.codegen.interp.backend:InterpretedKernel",
    }
    assert set(kinds()) - shown == others

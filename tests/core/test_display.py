"""How an object comes to be shown: tables of views, what a cell gets, and views that fail."""

from __future__ import annotations

import importlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

import mlcnb
from mlcnb.core import display, options
from mlcnb.core.errors import MLCError
from mlcnb.ir.prim_ops import const
from mlcnb.view import registry as view_registry
from mlcnb.widgets import registry as page_registry


class Thing(display.Shown):
    def __repr__(self):
        return display.text(self)


class Special(Thing):
    pass


@pytest.fixture(autouse=True)
def tables(monkeypatch):
    """Tables of views that no other test sees."""
    for name in ("_text", "_cell", "_html"):
        monkeypatch.setattr(display, name, dict(getattr(display, name)))


def test_a_view_by_class_or_by_name():
    display.register_text(Thing, lambda obj: "a thing")
    assert repr(Special()) == "a thing"
    display.register_text(f"{__name__}:Special", lambda obj: "a special one")
    assert (repr(Special()), repr(Thing())) == ("a special one", "a thing")


def test_a_view_by_name_is_loaded_when_used():
    display.register_text(f"{__name__}:Thing", "mlcnb.core.display:plain")
    assert repr(Thing()) == "Thing()"


def test_what_a_cell_gets():
    display.register_text(Thing, lambda obj: "long text")
    display.register_cell(Thing, lambda obj: "short text")
    display.register_html(Thing, lambda obj: "<b>html</b>")
    assert Thing()._repr_mimebundle_() == {
        "text/plain": "short text",
        "text/html": "<b>html</b>",
    }


def test_without_html_there_is_text():
    display.register_text(Thing, lambda obj: "text")
    display.register_cell(Thing, lambda obj: "text")
    display.register_html(Thing, lambda obj: None)
    assert Thing()._repr_mimebundle_() == {"text/plain": "text"}


def broken(obj):
    raise ZeroDivisionError("oops")


def test_a_view_that_fails_never_hides_the_object():
    display.register_text(Thing, broken)
    display.register_cell(Thing, broken)
    display.register_html(Thing, broken)
    expected = "Thing()  # not printable: ZeroDivisionError: oops"
    assert Thing()._repr_mimebundle_() == {"text/plain": expected}


def test_in_debug_mode_a_failing_view_raises():
    display.register_html(Thing, broken)
    display.register_cell(Thing, broken)
    with options.scoped(debug=True):
        with pytest.raises(ZeroDivisionError):
            display.html(Thing())
        with pytest.raises(ZeroDivisionError):
            display.cell(Thing())


@pytest.mark.parametrize(
    ("mode", "shell", "html"),
    [
        ("auto", None, True),
        ("auto", "kernel", True),
        ("auto", "terminal", False),
        ("text", "kernel", False),
        ("static", "terminal", True),
        ("widget", "kernel", True),
    ],
)
def test_modes(mode, shell, html, monkeypatch):
    given = SimpleNamespace(has_trait=lambda name: shell == name) if shell else None
    ipython = SimpleNamespace(get_ipython=lambda: given)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    with options.scoped(display="auto"):
        mlcnb.display(mode)
        bundle = const(1)._repr_mimebundle_()
    assert ("text/html" in bundle) == html
    assert bundle["text/plain"] == "1"


def test_a_mode_that_is_none():
    with pytest.raises(MLCError, match="display: no mode 'loud'") as info:
        mlcnb.display("loud")
    assert info.value.hint == "one of auto, text, static, rich, widget"


def test_the_environment_says_the_mode():
    code = "import mlcnb; from mlcnb.ir.prim_ops import const; print(*const(1)._repr_mimebundle_())"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"MLCNB_DISPLAY": "text", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "text/plain\n"


def test_views_are_imported_when_something_is_shown():
    code = (
        "import sys, mlcnb; from mlcnb.ir.prim_ops import const; repr(const(1))\n"
        "print([m for m in sys.modules if m.startswith('mlcnb.view')])\n"
        "const(1)._repr_mimebundle_()\n"
        "views = ('as_html', 'program', 'replay', 'linked')\n"
        "print([f'mlcnb.view.{x}' in sys.modules for x in views])\n"
        "print([m for m in ('graphviz', 'llvmlite', 'onnx', 'matplotlib') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n[True, True, False, False]\n[]\n"


def test_the_file_that_the_text_names_has_the_view_or_page():
    for found in (view_registry._views, page_registry._pages):
        for kind, file in found._files.items():
            importlib.import_module(file)
            assert found.known[kind].__module__ == file
        own = {k for k, made in found.known.items() if made.__module__.startswith(found.package)}
        assert own == set(found._files), "a kind is written out, so that it is found by its text"

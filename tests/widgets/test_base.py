"""What every page rests on: packing, answers, the joined module, and what a file may not do."""

import importlib
import pkgutil
import re
from types import SimpleNamespace

import pytest
import traitlets

import mlcnb as mlc
from mlcnb import widgets
from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.core.render import Text
from mlcnb.view.parts import Line, Title
from mlcnb.widgets import base, registry
from mlcnb.widgets.base import Interactive, Lines, pack, spans, unpack
from tests.widgets import samples

MIME = "application/vnd.jupyter.widget-view+json"
#: pages; a file without `export default` is a part of several
MODULES = sorted(p.stem for p in base.HERE.glob("*.js") if "\nexport default " in p.read_text())


class Page(Interactive):
    module = "page"

    def snapshot(self):
        return {"n": 1}

    def parts(self):
        return [Title("a page"), Line("says one thing")]

    def on_double(self, n):
        if n < 0:
            raise MLCError("n is negative", hint="give 0 or more")
        return {"n": 2 * n}


def test_answers_are_values_or_refusals():
    page = Page()
    assert page.answer("double", {"n": 4}) == {"n": 8}
    assert page.answer("double", {"n": -1}) == {"error": "n is negative", "hint": "give 0 or more"}
    assert page.answer("halve", {}) == {"error": "Page knows no question 'halve'", "hint": ""}
    assert page.answer("double", {"m": 1})["error"].startswith("TypeError: ")
    assert page.answer("hello", {}) == {}


def test_the_text_twin_is_the_repr():
    assert repr(Page()) == "a page\nsays one thing"
    assert Page().label == "a page"


def test_what_a_cell_gets_follows_the_display(monkeypatch):
    kinds = {}
    for mode in ("text", "static", "auto"):
        with mlc.options.scoped(display=mode):
            kinds[mode] = set(Page()._repr_mimebundle_())
    assert kinds["text"] == {"text/plain"}
    assert kinds["static"] == kinds["auto"] == {"text/plain", "text/html"}


class Thing(display.Shown):
    pass


@pytest.fixture
def thing(monkeypatch):
    """Something that has a page."""
    monkeypatch.setitem(registry._pages.known, f"{__name__}:Thing", lambda obj: Page())
    monkeypatch.setattr(base, "esm", lambda module: "export default { render() {} };")
    monkeypatch.setattr(base, "css", lambda module: "")
    return Thing()


def test_a_page_runs_where_scripts_may(thing):
    with mlc.options.scoped(display="rich"):
        assert set(mlc.explore(thing)._repr_mimebundle_()) == {"text/plain", "text/html", MIME}
        assert set(thing._repr_mimebundle_()) == {"text/plain"}
    with mlc.options.scoped(display="widget"):
        bundle = thing._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", MIME}
    assert bundle["text/plain"] == "a page\nsays one thing"


def test_questions_from_a_page_are_answered(thing):
    page = mlc.explore(thing)
    sent = []
    page.panel.send = sent.append
    page.panel._handle_custom_msg({"ask": "double", "id": 7, "fields": {"n": 2}}, [])
    assert sent == [{"reply": 7, "answer": {"n": 4}}]


@pytest.mark.parametrize("snapshot", [{"a": [1, 2.5, None, "é\n"]}, {"a": ["x" * 9] * 5000}])
def test_snapshots_come_back(snapshot):
    assert unpack(pack(snapshot)) == snapshot
    assert pack(snapshot) == pack(snapshot)


def test_long_snapshots_are_deflated():
    assert len(pack({"a": ["a line of a program"] * 5000})) < 1000


def test_hidden_characters_are_spelled_out():
    assert unpack(pack({"\u202ename": ["a\u202eb\x07"]})) == {"\\u202ename": ["a\\u202eb\\x07"]}


def test_numbers_that_json_lacks_are_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        pack({"a": float("nan")})


def test_lines_are_kept_once():
    lines = Lines()
    one = [Text("for", "keyword"), Text(" ", ""), Text("i", "name")]
    assert lines.add([one, [Text("x", "")], one]) == [0, 1, 0]
    assert lines.table == [[["k", "for "], ["", "i"]], [["", "x"]]]


def test_neighbours_of_one_colour_are_one_span():
    assert spans([Text("a", "name"), Text(".", "op"), Text("b", "name")]) == [["", "a.b"]]


def test_what_has_no_page_is_refused():
    with pytest.raises(MLCError, match="explore: there is no page for an int"):
        mlc.explore(3)
    page = Page()
    assert mlc.explore(page) is page


@pytest.mark.parametrize("module", MODULES)
def test_modules_are_small_and_load_nothing(module):
    text = base.esm(module)
    assert len(text.encode()) < base.MODULE_LIMIT
    assert text.count("\nexport default ") == 1
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|https?://(?!www\.w3\.org/2000/svg)|^import",
        text,
        re.M,
    )


def test_a_sheet_holds_for_the_pages_of_its_own_module_and_version_alone():
    names = {module: base.page_id(module) for module in MODULES}
    assert len(set(names.values())) == len(MODULES)
    for module, name in names.items():
        assert f'const PAGE = "{name}";' in base.esm(module)
        rules = re.sub(r"/\*.*?\*/|\{[^}]*\}", "", base.css(module), flags=re.DOTALL)
        for selector in re.split(r",(?![^(]*\))|\n", rules):
            assert not selector.strip() or f'.mlcnb[data-page="{name}"]' in selector


def test_a_panel_is_an_ipywidget_whose_traits_can_be_linked():
    import ipywidgets

    first, other = (samples.page("Schedule").panel for _ in range(2))
    heard = []
    first.observe(lambda change: heard.append((change["name"], change["new"])), ["step", "loop"])
    ipywidgets.link((first, "step"), (other, "step"))
    other.step, first.loop = 1, "i"
    assert heard == [("step", 1), ("loop", "i")]
    assert (first.step, other.step, other.loop, first.branch) == (1, 1, None, None)
    assert set(first.keys) >= {"step", "loop", "branch"}
    assert ipywidgets.HBox([first, other]).children == (first, other)
    ipywidgets.jslink((first, "step"), (other, "step"))
    with pytest.raises(traitlets.TraitError):
        first.step = "one"


def test_every_module_has_a_page():
    for info in pkgutil.iter_modules(widgets.__path__, "mlcnb.widgets."):
        importlib.import_module(info.name)
    classes = Interactive.__subclasses__()
    pages = {cls.module for cls in classes if cls.__module__.startswith("mlcnb.")}
    assert pages == set(MODULES)


@pytest.fixture
def formatted(monkeypatch):
    """The mime bundle that IPython makes of an object."""
    from IPython.core.formatters import DisplayFormatter

    formatter = DisplayFormatter()
    events = SimpleNamespace(register=lambda name, call: None)
    shell = SimpleNamespace(display_formatter=formatter, events=events)
    monkeypatch.setattr(base.cells, "shell", lambda: shell)
    with mlc.options.scoped(display="rich"):
        yield lambda made: formatter.format(made)[0]


def test_a_box_of_ipywidgets_shows_its_pages_where_no_widget_runs(formatted):
    import ipywidgets

    page = mlc.explore(samples.SAMPLES["PrimFunc"]("x"))
    box = ipywidgets.VBox([ipywidgets.Label("x"), ipywidgets.HBox([page.panel])])
    shown, alone = formatted(box), formatted(page.panel)
    plain = formatted(ipywidgets.HBox([ipywidgets.Label("x")]))
    assert alone["text/html"] == page.to_html()
    assert shown["text/html"].endswith(f"\n{page.to_html()}") and ">x</div>" in shown["text/html"]
    assert shown[MIME]["model_id"] == box.model_id
    assert alone[MIME]["model_id"] == page.panel.model_id
    assert "text/html" not in plain and MIME in plain
    unsaid = formatted(ipywidgets.VBox([page.panel, ipywidgets.Label()]))
    assert unsaid["text/html"] == page.to_html()  # no frame around nothing


def test_what_interact_returns_stands_where_no_widget_runs(formatted):
    import ipywidgets

    pages = {n: mlc.explore(samples.SAMPLES["PrimFunc"](n)) for n in ("x", "y")}
    told = "fastest after step 3"
    box = ipywidgets.interactive(
        lambda n: ipywidgets.VBox([pages[n].panel, ipywidgets.Label(told)]), n=["x", "y"]
    )
    shown = formatted(box)
    assert shown[MIME]["model_id"] == box.model_id
    assert pages["x"].to_html() in shown["text/html"] and "n: x" in shown["text/html"]
    assert told in shown["text/html"]
    page = formatted(ipywidgets.interactive(lambda n: pages[n], n=["y", "x"]))
    assert pages["y"].to_html() in page["text/html"]
    number = formatted(ipywidgets.interactive(lambda n: 2 * n, n=[21]))
    assert ">42</div>" in number["text/html"]

    def draws(n):
        """Shows something, and returns nothing."""

    nothing = formatted(ipywidgets.interactive(draws, n=[1]))
    assert "What draws shows needs a kernel: run the cell." in nothing["text/html"]

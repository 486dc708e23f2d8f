"""What all widgets share: an object that shows itself as a page with script where one can run.

    class Timeline(Interactive):
        module = "timeline"                 widgets/timeline.js (and timeline.css, if there is one)
        def snapshot(self): ...             JSON: what the page shows; travels with the notebook
        def explain(self): ...              the same in words
        def parts(self): ...                the same as a static view
        def on_rerun(self, rule): ...       answers view.ask("rerun", {rule}) from the page

The object is not an ipywidget: it holds one, made when it is first shown. The page gets the whole
snapshot at once, so a saved notebook replays with no kernel; only questions need one. In an
untrusted notebook and on GitHub the static view stands in its place.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from mlcnb.core import cells, display, options
from mlcnb.core.errors import MLCError
from mlcnb.core.render import LETTERS, Text
from mlcnb.core.text import visible
from mlcnb.view import as_html, as_text
from mlcnb.view.parts import Line, Part
from mlcnb.view.words import clip
from mlcnb.widgets import following

#: where the ES modules and style sheets lie
HERE = Path(__file__).parent
#: bytes of one module with the base in it
MODULE_LIMIT = 50_000
#: bytes of JSON from which a snapshot is deflated
_DEFLATE = 8_000
#: traits that are numbers; the others are names
_NUMBERS = ("step", "cursor")
_COMMENT = re.compile(r"^ *(?://.*|/\*\*(?:[^*]|\*(?!/))*\*/)\n", re.MULTILINE)
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+)\.js";\n', re.MULTILINE)
#: where base.js says which page this is
_UNNAMED = 'PAGE = "";'
#: of what a front end shows by a model in the kernel
MIME = "application/vnd.jupyter.widget-view+json"


class Interactive(display.Shown):
    """An object with a page: subclasses say what is in it, in JSON, in words and as parts."""

    #: the name of the .js file of this folder
    module: ClassVar[str]
    #: where the reader is, as traits of `panel`: a page sets them, and goes where they are set
    traits: ClassVar[tuple[str, ...]] = ()
    _panel: Any = None
    #: the `version` that the pages show
    _seen: Any = None

    def snapshot(self) -> Mapping[str, Any]:
        """What the page shows, as JSON values; whole, so that it needs no kernel."""
        raise NotImplementedError

    def explain(self) -> str:
        """What the page shows, in words: by default the static view as text."""
        return as_text.to_text(self.parts())

    def parts(self) -> Sequence[Part]:
        """What the page shows, as a static view."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """The name of the page for a screen reader: the first line of its text."""
        return _label(self.explain())

    def to_html(self) -> str:
        """The static HTML that stands where no script may run."""
        return as_html.to_html(self.parts())

    def version(self) -> Any:
        """Another value (`!=`) whenever what is shown has changed; None: it never does.

        It is asked after each cell, so it has to be cheap.
        """
        return None

    def refresh(self) -> None:
        """Show what is true now on every page of this object."""
        if self._panel is not None:
            self._panel.packed = self._packed()

    def follow(self) -> bool:
        """`refresh`, if something has changed since; True if it had."""
        if self._panel is None or self._panel.comm is None or self.version() == self._seen:
            return False
        self.refresh()
        return True

    def _packed(self) -> str:
        self._seen = self.version()
        return pack(self.snapshot())

    def answer(self, kind: str, fields: Mapping[str, Any]) -> Any:
        """The answer to one question from a page; a refusal is an answer too.

        Args:
            kind: the `view.ask` of the page, answered by the method `on_<kind>`.
            fields: its arguments.
        """
        return _visible(self._answer(kind, fields))

    def _answer(self, kind: str, fields: Mapping[str, Any]) -> Any:
        asked = getattr(self, f"on_{kind}", None)
        if asked is None:
            return {"error": f"{type(self).__name__} knows no question {kind!r}", "hint": ""}
        try:
            return asked(**fields)
        except MLCError as error:
            return self.refusal(error)
        except Exception as error:  # noqa: BLE001 (the page must hear of it: there is no cell to raise in)
            return {"error": f"{type(error).__name__}: {error}", "hint": ""}

    def refusal(self, error: MLCError) -> dict[str, Any]:
        """What the page is told of an error."""
        return {"error": error.message, "hint": error.advice}

    def on_hello(self) -> dict[str, Any]:
        """A page asks whether a kernel is there."""
        return {}

    def __repr__(self) -> str:
        return self.explain()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        text = self.explain()
        bundle: dict[str, Any] = {"text/plain": text}
        if display.wants_html():
            bundle["text/html"] = self.to_html()
        if wants_widgets():
            if self._panel is None:
                self._panel = _made(self, _label(text))
            model = self._panel.model_id
            bundle[MIME] = {"version_major": 2, "version_minor": 0, "model_id": model}
        return bundle

    @property
    def panel(self) -> Any:
        """The anywidget behind the page, which is an ipywidget: it can stand in an HBox, and its
        traits (`traits`: step, loop, branch, selection, cursor, None until somebody sets them) can
        be observed, linked and set.
        """
        if self._panel is None:
            self._panel = _made(self, self.label)
        return self._panel


def wants_widgets() -> bool:
    """True where a page with script may be shown: in a notebook, unless the display is plainer."""
    mode = options.get("display")
    return mode in ("rich", "widget") or (mode == "auto" and display.in_notebook())


def _label(text: str) -> str:
    return clip(text.partition("\n")[0], 120)


def _made(shown: Interactive, label: str) -> Any:
    panel = _panel_class(shown.module, shown.traits)(packed=shown._packed(), label=label)
    panel._page = shown
    following.keep(shown)
    _bring_static_forms(type(panel))

    def hear(_: Any, message: Any, __: Any) -> None:
        answer = shown.answer(str(message["ask"]), message["fields"])
        panel.send({"reply": message["id"], "answer": answer})

    panel.on_msg(hear)
    return panel


def _bring_static_forms(panel: type) -> None:
    """Have IPython show panels, and the boxes of ipywidgets that they stand in, with the static
    HTML of their pages too: for readers without widgets.
    """
    shell = cells.shell()
    if getattr(shell, "display_formatter", None) is None:
        return
    import ipywidgets

    for kind in (panel, ipywidgets.Box):
        shell.display_formatter.mimebundle_formatter.for_type(kind, bundle_of)


def bundle_of(widget: Any, **_: Any) -> Any:
    """What IPython shows of an ipywidget: the live one, and the pages in it as static HTML."""
    made = widget._repr_mimebundle_()
    data, about = made if isinstance(made, tuple) else (made, {})
    if data and display.wants_html():
        forms = list(_static_forms(widget))
        if any(is_page for is_page, _ in forms):
            data = {**data, "text/html": "\n".join(html for _, html in forms)}
    return data, about


def _static_forms(widget: Any) -> Iterator[tuple[bool, str]]:
    """The pages and words that stand in a box, or in a box in it, and whether each is a page.

    What `interact` calls shows its output by way of the front end, so that only what it returns is
    known here; where that is nothing, the form says so.
    """
    import ipywidgets

    if (page := getattr(widget, "_page", None)) is not None:
        yield True, page.to_html()
    for part in getattr(widget, "children", ()):
        yield from _static_forms(part)
    if isinstance(widget, ipywidgets.interactive):
        yield True, _shown_by(widget)
    elif isinstance(widget, ipywidgets.ValueWidget) and isinstance(widget.value, str | int | float):
        words = f"{getattr(widget, 'description', '')}: {widget.value}".removeprefix(": ")
        if words:  # a label that nothing has been written to yet is no empty frame
            yield False, as_html.to_html([Line(words)])


def _shown_by(widget: Any) -> str:
    """The static form of what the function of `interact` returned."""
    found = widget.result
    if isinstance(found, Interactive):
        return found.to_html()
    shell = cells.shell()
    data = {} if found is None else shell.display_formatter.format(found)[0]
    if "text/html" in data:
        return str(data["text/html"])
    name = getattr(widget.f, "__name__", "the function")
    words = data.get("text/plain") or (
        f"What {name} shows needs a kernel: run the cell. (What it returns stands here too.)"
    )
    return as_html.to_html([Line(words, "" if found is not None else "note")])


@cache
def _panel_class(module: str, traits: tuple[str, ...] = ()) -> type:
    """The anywidget class of one module: two synchronised texts, where the reader is, and the
    module itself.
    """
    import anywidget
    import traitlets

    fields = {
        "__module__": __name__,
        "_esm": esm(module),
        "_css": css(module),
        "packed": traitlets.Unicode().tag(sync=True),
        "label": traitlets.Unicode().tag(sync=True),
    }
    for name in traits:
        kind = traitlets.Int if name in _NUMBERS else traitlets.Unicode
        fields[name] = kind(None, allow_none=True).tag(sync=True)
    # anywidget keeps one style sheet for each name of a class
    name = f"{module.title().replace('_', '')}Panel{_digest(fields['_esm'] + fields['_css'])}"
    return type(name, (anywidget.AnyWidget,), fields)


@cache
def page_id(module: str) -> str:
    """The name of a page as it is today, `model-1a2b3c4d`.

    Its style sheet holds for it alone, so that pages of several kinds, and one that was saved by an
    older version, stand in one notebook.
    """
    return f"{module}-{_digest(_joined(module) + _sheets(module))}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@cache
def esm(module: str) -> str:
    """The ES module of a widget: what it imports from, and its own file, joined, without comments
    that have lines of their own.
    """
    return _joined(module).replace(_UNNAMED, f'PAGE = "{page_id(module)}";', 1)


def _joined(module: str) -> str:
    libraries = [_library(name) for name in _imports(module)]
    return _COMMENT.sub("", "\n".join([*libraries, _IMPORT.sub("", _source(f"{module}.js"))]))


def _imports(module: str) -> list[str]:
    """The files that a module imports from, the base first."""
    names = _IMPORT.findall(_source(f"{module}.js"))
    if "base" not in names:
        raise MLCError(f"widgets/{module}.js does not import from ./base.js")
    return sorted(names, key=lambda name: name != "base")


def _library(name: str) -> str:
    """A file that others import from, as a part of theirs."""
    own = _IMPORT.sub("", _source(f"{name}.js"))
    return re.sub(r"^export (?=function|const)", "", own, flags=re.MULTILINE)


@cache
def css(module: str) -> str:
    """The style sheet of a widget: those of what it imports from, and its own if there is one; for
    its pages alone."""
    return _sheets(module).replace(".mlcnb", f'.mlcnb[data-page="{page_id(module)}"]')


def _sheets(module: str) -> str:
    sheets = [f"{name}.css" for name in (*_imports(module), module)]
    return "".join(_source(sheet) for sheet in sheets if (HERE / sheet).exists())


@cache
def _source(name: str) -> str:
    return (HERE / name).read_text()


def pack(snapshot: Mapping[str, Any]) -> str:
    """A snapshot as text: JSON, deflated where it is long. The same snapshot, the same text."""
    text = json.dumps(_visible(snapshot), separators=(",", ":"), allow_nan=False)
    if len(text) < _DEFLATE:
        return text
    return "z" + base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _visible(value: Any) -> Any:
    """The value with hidden characters of its texts spelled out, as in every view."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(key): _visible(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_visible(v) for v in value]
    return value


def unpack(packed: str) -> Any:
    """The snapshot that `pack` made text of."""
    if packed.startswith("z"):
        return json.loads(zlib.decompress(base64.b64decode(packed[1:])))
    return json.loads(packed)


class Lines:
    """Lines of code for a snapshot, each kept once.

    listing = Lines(); numbers = listing.add(page.lines)      listing.table goes into the snapshot
    """

    def __init__(self) -> None:
        self.table: list[list[list[str]]] = []
        self._known: dict[tuple[tuple[str, str], ...], int] = {}

    def add(self, lines: Sequence[Sequence[Text]]) -> list[int]:
        """The numbers of these lines in the table."""
        return [self._number(spans(line)) for line in lines]

    def _number(self, line: list[list[str]]) -> int:
        key = tuple((kind, text) for kind, text in line)
        if key not in self._known:
            self._known[key] = len(self.table)
            self.table.append(line)
        return self._known[key]


def spans(line: Sequence[Text]) -> list[list[str]]:
    """A line as [letter, text] pairs, neighbours of one colour in one."""
    out: list[list[str]] = []
    for token in line:
        letter = LETTERS.get(token.kind, "")
        if out and (out[-1][0] == letter or not token.text.strip()):
            out[-1][1] += token.text
        else:
            out.append([letter, token.text])
    return out

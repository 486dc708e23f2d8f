"""An error that no one caught, as IPython shows it: the reader's own line and the error's card.

    Cell In[4], line 2                          the reader's line
          1 i, j, k = sch.get_loops("C")
    ----> 2 sch.parallel(k)
    ScheduleError: parallel: …                  the card: HTML in a notebook, its text in a terminal
    ▸ 11 frames inside mlcnb                    folded; `mlcnb.options.set("debug", True)` shows all

Only errors that mlcnb raises on purpose are shown so: the traceback of a bug stays whole.
"""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from mlcnb.core import cells, display, options
from mlcnb.core.doc import Where
from mlcnb.core.errors import MLCError
from mlcnb.core.render import Text
from mlcnb.core.text import visible
from mlcnb.view import as_html, as_text
from mlcnb.view.error import FAULT, error, excerpt
from mlcnb.view.highlight import PYTHON, code
from mlcnb.view.parts import Code, Fold, Line, Part

PACKAGE = Path(__file__).parent.parent
#: lines of the reader's program before and after the one that was running
AROUND = 2
#: how to see what is folded away
WHOLE = 'mlcnb.options.set("debug", True)'


class Frame(NamedTuple):
    """One call of a traceback."""

    file: str
    line: int
    function: str

    @property
    def is_ours(self) -> bool:
        """True in mlcnb itself, and in the libraries that it calls."""
        return PACKAGE in Path(self.file).parents

    @property
    def text(self) -> str:
        """`mlcnb/tir/schedule/legality/promises/promises/promises/judge.py:120 in refuse`."""
        path = Path(self.file)
        short = path.relative_to(PACKAGE.parent).as_posix() if self.is_ours else path.name
        return f"{short}:{self.line} in {self.function}"


def rendered(e: MLCError) -> list[str]:
    """The lines that IPython prints for `e`; in a notebook the card is displayed before them."""
    shell = cells.shell()
    if options.get("debug") or shell is None:
        return _whole(e, shell)
    before, inside = split(frames(e.__traceback__))
    if display.in_notebook() and display.wants_html():
        _show_once(e, before, inside, shell.execution_count)
        place = f"{_place(before[-1])}: " if before else ""
        return [visible(f"{place}{type(e).__name__}: {e.message}")]
    colours = display.in_terminal() and shell.colors.lower() != "nocolor"
    return [as_text.to_text(card(e, before, inside, short(e)), colours)]


def _show_once(e: MLCError, before: list[Frame], inside: list[Frame], count: int) -> None:
    """Display the card: once a run, though IPython asks a second time, for its history."""
    from IPython.display import display as show

    if getattr(e, "_shown", None) != (count, e.__traceback__):
        e._shown = (count, e.__traceback__)  # type: ignore[attr-defined]
        html = as_html.to_html(card(e, before, inside))
        show({"text/html": html, "text/plain": visible(_name(e))}, raw=True)


def card(
    e: MLCError, before: Sequence[Frame], inside: Sequence[Frame], middle: Sequence[Part] = ()
) -> list[Part]:
    """The reader's line, the error (`middle`, or all that its view has), the frames folded."""
    parts: list[Part] = []
    if before:
        parts += [Line(_place(before[-1]), "note"), listing(before[-1])]
    parts += middle or error(e)
    if e.__cause__ is not None:
        parts.append(Line(f"because of {_name(e.__cause__)}", "note"))
    if inside:
        count = f"{len(inside)} frame{'s' if len(inside) > 1 else ''} inside mlcnb"
        parts.append(Fold(count, [code("\n".join(x.text for x in inside))], WHOLE))
    return parts


def short(e: MLCError) -> list[Part]:
    """The error for a terminal: message, place, counter-example in lines, what to do."""
    shown = excerpt(e)
    parts: list[Part] = [Line(f"{type(e).__name__}: {e.message}", "error")]
    parts += [shown] if shown is not None else []
    parts += [Line(x) for x in e.details()]
    return parts + ([Line(f"hint: {e.advice}", "hint")] if e.advice else [])


def frames(tb: TracebackType | None) -> list[Frame]:
    """The calls of a traceback, the innermost last."""
    return [
        Frame(frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(tb)
    ]


def split(calls: Sequence[Frame]) -> tuple[list[Frame], list[Frame]]:
    """What came before mlcnb was called for the last time, without IPython's own; and the rest."""
    last = max((n for n, x in enumerate(calls) if not x.is_ours and not _hidden(x)), default=-1)
    readers = [x for x in calls[: last + 1] if not x.is_ours and not _is_shell(x)]
    return readers, list(calls[last + 1 :])


def _hidden(x: Frame) -> bool:
    """A library below mlcnb, or the shell: not the reader's program."""
    return _is_shell(x) or "site-packages" in x.file or x.file.startswith("<frozen")


def _is_shell(x: Frame) -> bool:
    return "IPython" in Path(x.file).parts or "ipykernel" in Path(x.file).parts


def listing(x: Frame) -> Code:
    """The reader's line with its neighbours, numbered, the line itself marked."""
    source = linecache.getlines(x.file)
    first, stop = max(1, x.line - AROUND), min(len(source), x.line + AROUND)
    rows, marks = [], []
    width = len(str(stop))
    for number in range(first, stop + 1):
        sign = ">" if number == x.line else " "
        prefix, text = f"{sign} {number:>{width}} | ", source[number - 1].rstrip()
        rows.append([Text(prefix, "comment"), *PYTHON.tokens(text)])
        if number == x.line:
            row, end = len(rows), len(prefix) + len(text) + 1
            start = end - len(text.lstrip())
            marks.append((Where(row, start, row, end), FAULT))
    return Code(rows, marks, language="python")


def _place(x: Frame) -> str:
    """`Cell In[4], line 2`; `lesson.py, line 7, in build`."""
    shell = cells.shell()
    named = shell.compile.format_code_name(x.file) if shell is not None else None
    inside = "" if x.function == "<module>" else f", in {x.function}"
    return f"{' '.join(named) if named else Path(x.file).name}, line {x.line}{inside}"


def _name(e: BaseException) -> str:
    message = e.message if isinstance(e, MLCError) else str(e)
    return f"{type(e).__name__}: {message}" if message else type(e).__name__


def _whole(e: MLCError, shell: Any) -> list[str]:
    """The traceback as it is of any other error."""
    if shell is None:
        return traceback.format_exception(e)
    return list(shell.InteractiveTB.structured_traceback(type(e), e, e.__traceback__))

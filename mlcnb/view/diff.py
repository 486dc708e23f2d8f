"""What is different between two modules, functions or texts.

    d = mlcnb.diff(before, after)     main changed; 2 functions added; operators 91 -> 40
    print(d)                          - lv1 = R.add(lv, c)
    d.text  d.summary  d.changes      + lv1 = R.call_tir(cls.add, (lv, c), …)

Functions are compared one by one by their text, so that what did not change takes no room. A line
that is only indented anew has `~` before it. In a cell, unchanged lines between changes are folded,
and in a line that changed the words that did are marked darker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import groupby
from typing import Any

from mlcnb.core import display
from mlcnb.core.doc import Where
from mlcnb.core.errors import MLCError
from mlcnb.core.node import Node
from mlcnb.core.render import Text
from mlcnb.core.text import kind_of
from mlcnb.ir.function import BaseFunc
from mlcnb.ir.module import IRModule
from mlcnb.script.printer import document
from mlcnb.view.parts import Code, Fold, Part, Scroll, Title
from mlcnb.view.registry import shows
from mlcnb.view.survey import operator_count
from mlcnb.view.words import clip, count, listed, plural

#: backgrounds of lines, and of the words in them that differ
ADDED, REMOVED, MOVED = "rgba(46,180,80,0.18)", "rgba(230,60,75,0.15)", "rgba(80,140,230,0.15)"
ADDED_WORD, REMOVED_WORD = "rgba(46,180,80,0.38)", "rgba(230,60,75,0.32)"
#: lines of a change that are shown without a window that scrolls
WINDOW = 40
#: a line that differs further right is cut where it does not: beyond its head and what is near,
#: if that leaves out more than so many characters
SIGHT, HEAD, NEAR, LEAST = 90, 24, 14, 8
#: functions that are added or removed and shown
MOST = 6


@dataclass(frozen=True)
class Change:
    """One function (or the whole text): its name, and its lines before and after.

    kind: "changed", "added" or "removed".
    """

    name: str
    before: Sequence[str]
    after: Sequence[str]

    @property
    def kind(self) -> str:
        """What became of it."""
        if not self.before:
            return "added"
        return "changed" if self.after else "removed"

    @cached_property
    def blocks(self) -> Sequence[tuple[str, int, int, int, int]]:
        """Stretches that are equal, replaced, deleted or inserted, as difflib gives them.

        Lines that are only indented anew count as equal.
        """
        old, new = ([line.strip() for line in lines] for lines in (self.before, self.after))
        return SequenceMatcher(
            None, old, new, autojunk=len(old) * len(new) > 4_000_000
        ).get_opcodes()

    @property
    def counts(self) -> tuple[int, int]:
        """How many lines were added and removed."""
        changed = [b for b in self.blocks if b[0] != "equal"]
        added = sum(j2 - j1 for _, _, _, j1, j2 in changed)
        return added, sum(i2 - i1 for _, i1, i2, _, _ in changed)

    @property
    def title(self) -> str:
        """Its name with the number of lines added and removed."""
        added, removed = self.counts
        return f"{clip(self.name, 60)}: {self.kind}, +{added} -{removed} lines"


class Diff(display.Shown):
    """The difference; shows itself with + and - lines. See the module's text.

    Attributes:
        before, after: what was compared.
        changes: the functions that differ.
        context: unchanged lines shown around each change.
    """

    def __init__(self, before: Any, after: Any, context: int = 3) -> None:
        self.before, self.after, self.context = _plain(before), _plain(after), context
        self.changes = tuple(_changes(self.before, self.after))

    def __bool__(self) -> bool:
        return bool(self.changes)

    @property
    def summary(self) -> str:
        """What changed, in one line."""
        if not self.changes:
            return "no difference"
        by_kind: dict[str, list[str]] = {}
        for change in self.changes:
            by_kind.setdefault(change.kind, []).append(clip(change.name, 40))
        told = [f"{listed(names, 4)} {kind}" for kind, names in by_kind.items()]
        if len(self.changes) == 1:
            told = [self.changes[0].title]
        if isinstance(self.before, IRModule) and isinstance(self.after, IRModule):
            old, new = operator_count(self.before), operator_count(self.after)
            told += [f"operators {count(old)} -> {count(new)}"] if old != new else []
        return "; ".join(told)

    @property
    def text(self) -> str:
        """All changes with + and - before the lines."""
        lines: list[str] = []
        for change in self.changes:
            lines.append(f"@@ {change.title} @@")
            lines += [
                line for stretch in _stretches(change, self.context) for line in stretch.texts
            ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return "\n".join(part for part in (self.summary, self.text) if part)


def diff(before: Any, after: Any, context: int = 3) -> Diff:
    """The difference between two modules, functions, schedules or texts.

    As a cell shows it: added lines on green, removed ones on red, the shapes and dtypes that
    changed marked in the line.

    Args:
        before: a module, function or other node, a schedule, or a text.
        after: another one of the same sort.
        context: unchanged lines to show around each change.

    Raises:
        MLCError: something that has no program text.
    """
    return Diff(before, after, context)


def _plain(obj: Any) -> Any:
    """A module, function, node or text; of a schedule or an executable, its module."""
    if isinstance(obj, str | Node):
        return obj
    inner = getattr(obj, "mod", None)
    if isinstance(inner, IRModule):
        return inner
    raise MLCError(
        f"diff: {kind_of(obj)} has no program text", hint="pass modules, functions or texts"
    )


def _changes(before: Any, after: Any) -> Iterator[Change]:
    """The functions that differ: changed ones first, then new ones, then those that are gone."""
    if not (isinstance(before, IRModule) and isinstance(after, IRModule)):
        old, new = _lines("", before), _lines("", after)
        if old != new:
            yield Change(_name(after), old, new)
        return
    olds = {v.name_hint: f for v, f in before.items()}
    news = {v.name_hint: f for v, f in after.items()}
    for name in (n for n in news if n in olds and olds[n] is not news[n]):
        old, new = _lines(name, olds[name]), _lines(name, news[name])
        if old != new:
            yield Change(name, old, new)
    yield from (Change(n, (), _lines(n, f)) for n, f in news.items() if n not in olds)
    yield from (Change(n, _lines(n, f), ()) for n, f in olds.items() if n not in news)


def _name(obj: Any) -> str:
    if isinstance(obj, BaseFunc):
        return str(obj.attrs.get("global_symbol", "function"))
    return "text"


def _lines(name: str, obj: Any) -> list[str]:
    if isinstance(obj, str):
        return obj.splitlines()
    options = {"name": name} if name else {}
    return document(obj, header=False, **options).text_lines


@dataclass(frozen=True)
class _Stretch:
    """Lines that stand together: a sign and a text each; or a number of lines left out."""

    lines: tuple[tuple[str, str], ...]
    words: tuple[tuple[int, int, int, str], ...] = ()
    hidden: bool = False

    @property
    def texts(self) -> list[str]:
        """The lines as text."""
        if self.hidden:
            moved = any(sign == "~" for sign, _ in self.lines)
            what = "line indented anew" if moved else "unchanged line"
            many = "lines indented anew" if moved else ""
            return [f"… {plural(len(self.lines), what, many)}"]
        return [f"{sign} {text}".rstrip() for sign, text in self.lines]

    def _far(self) -> set[int]:
        """Lines in which words differ beyond the edge of a cell, each with its other form."""
        far = {row for row, _, end, _ in self.words if end > SIGHT}
        signs = [sign for sign, _ in self.lines]
        above = {row - 1 for row in far if signs[row] == "+" and signs[max(row - 1, 0)] == "-"}
        below = {row + 1 for row in far if signs[row : row + 2] == ["-", "+"]}
        return far | above | below

    def code(self) -> Code:
        """The lines as a listing on green and red."""
        shown, marks = [], []
        words: list[Mark] = []
        far = self._far()
        for number, (sign, whole) in enumerate(self.lines, 1):
            own = [x for x in self.words if x[0] == number - 1]
            text, own = _within_sight(whole, own) if number - 1 in far else (whole, own)
            words += own
            shown.append([Text(f"{sign} {text}")])
            colour = {"+": ADDED, "-": REMOVED, "~": MOVED}.get(sign)
            if colour:
                marks.append((Where(number, 1, number, len(text) + 3), colour))
        darker = {"+": ADDED_WORD, "-": REMOVED_WORD}
        for row, start, end, sign in words:
            marks.append((Where(row + 1, start + 3, row + 1, end + 3), darker[sign]))
        return Code(shown, marks, language="diff")


def _within_sight(text: str, words: list[Mark]) -> tuple[str, list[Mark]]:
    """A line that is cut where nothing differs, and the words that differ at their new places."""
    kept = [(0, HEAD), *((start - NEAR, end + NEAR) for _, start, end, _ in words)]
    made, moved, done = "", [], 0
    for start, end in kept:
        if start - done > LEAST:
            made += " … "
            done = start
        shift = len(made) - done
        moved += [(r, a + shift, b + shift, s) for r, a, b, s in words if start <= a and b <= end]
        made += text[done:end]
        done = max(done, min(end, len(text)))
    rest = text[done:]
    return made + (" …" if len(rest) > LEAST else rest), list(dict.fromkeys(moved))


def _stretches(change: Change, context: int) -> Iterator[_Stretch]:
    """The lines of a change in order, long unchanged stretches hidden."""
    lines, words = _all_lines(change)
    hidden = _hidden([sign for sign, _ in lines], context)
    start = 0
    for key, group in groupby(range(len(lines)), lambda row: hidden[row]):
        stop = start + sum(1 for _ in group)
        inside = tuple((r - start, a, b, sign) for r, a, b, sign in words if start <= r < stop)
        yield _Stretch(tuple(lines[start:stop]), inside, key != "")
        start = stop


def _all_lines(change: Change) -> tuple[list[tuple[str, str]], list[Mark]]:
    """Every line with its sign, and the words that differ."""
    lines: list[tuple[str, str]] = []
    words: list[Mark] = []
    for tag, i1, i2, j1, j2 in change.blocks:
        if tag == "equal":
            pairs = zip(change.before[i1:i2], change.after[j1:j2], strict=True)
            lines += [(" " if old == new else "~", new) for old, new in pairs]
        else:
            made, marked = _changed(change.before[i1:i2], change.after[j1:j2], len(lines))
            lines += made
            words += marked
    return lines, words


def _hidden(signs: Sequence[str], context: int) -> list[str]:
    """For each line "" if it is shown, else its sign.

    Shown are lines near an added or removed one and the first ones that are indented anew; a
    stretch of one or two is not worth hiding.
    """
    shown: set[int] = set()
    for row, sign in enumerate(signs):
        if sign in "+-":
            shown.update(range(row - context, row + context + 1))
        elif sign == "~" and (row == 0 or signs[row - 1] != "~"):
            shown.update(range(row - context, row + context))
    hidden = ["" if row in shown else sign for row, sign in enumerate(signs)]
    start = 0
    for _, group in groupby(list(hidden)):
        length = sum(1 for _ in group)
        if length <= 2:
            hidden[start : start + length] = [""] * length
        start += length
    return hidden


_WORD = re.compile(r"\w+|\s+|[^\w\s]")
Mark = tuple[int, int, int, str]


def _changed(
    old: Sequence[str], new: Sequence[str], row: int
) -> tuple[list[tuple[str, str]], list[Mark]]:
    """Lines that were replaced, and (row, start, end, sign) of the words in them that differ.

    Where they were replaced one by one (they begin with the same word), each stands above its new
    form.
    """
    if len(old) != len(new) or any(_first(a) != _first(b) for a, b in zip(old, new, strict=True)):
        return [("-", text) for text in old] + [("+", text) for text in new], []
    lines: list[tuple[str, str]] = []
    marks: list[Mark] = []
    for a, b in zip(old, new, strict=True):
        marks += _words(a, b, row + len(lines))
        lines += [("-", a), ("+", b)]
    return lines, marks


def _first(text: str) -> str:
    return (re.findall(r"\w+", text) or [""])[0]


def _words(a: str, b: str, row: int) -> Iterator[Mark]:
    """The words that differ between a line and the one below it, if most do not."""
    left, right = _WORD.findall(a), _WORD.findall(b)
    if max(len(left), len(right)) > 400:
        return
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    if matcher.ratio() < 0.5:
        return
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            yield from _place(row, left, i1, i2, "-")
            yield from _place(row + 1, right, j1, j2, "+")


def _place(row: int, words: Sequence[str], first: int, last: int, sign: str) -> Iterable[Mark]:
    start = sum(map(len, words[:first]))
    text = "".join(words[first:last])
    return [(row, start, start + len(text), sign)] if text.strip() else []


@shows("mlcnb.view.diff:Diff")
def view(d: Diff) -> list[Part]:
    """Summary, and a fold for each function that changed."""
    return [Title(f"diff: {d.summary}"), *change_parts(d)]


def change_parts(d: Diff) -> list[Part]:
    """The changes: those of functions that are on both sides open, new and gone ones folded."""
    changed = [c for c in d.changes if c.kind == "changed"]
    if len(d.changes) == 1 and changed:
        return _shown(changed[0], d.context)
    parts: list[Part] = [_fold(c, d.context, True) for c in changed]
    for kind in ("added", "removed"):
        some = [c for c in d.changes if c.kind == kind]
        if some:
            title = f"{plural(len(some), 'function')} {kind}: {listed((c.name for c in some), 4)}"
            inner = [_fold(c, d.context, len(some) == 1) for c in some[:MOST]]
            parts.append(Fold(clip(title, 200), inner, "print(diff.text)"))
    return parts


def _fold(change: Change, context: int, is_open: bool) -> Fold:
    body = _shown(change, context)
    return Fold(change.title, body, "print(diff.text)", is_open, in_text=True)


def _shown(change: Change, context: int) -> list[Part]:
    """The lines of a change; long unchanged stretches are folded."""
    parts: list[Part] = []
    for stretch in _stretches(change, context):
        if stretch.hidden:
            parts.append(Fold(stretch.texts[0], [stretch.code()]))
        else:
            parts.append(stretch.code())
    lines = sum(len(part.lines) for part in parts if isinstance(part, Code))
    return parts if lines <= WINDOW else [Scroll(parts)]

"""The programs of a schedule for a page: each line, row and function kept once.

    board = Storyboard(target)
    number = board.add("main", func)        its place in board.json()["programs"]

A line is kept without its indentation, so that one that only moved inwards is no new line. A
program is a flat list of indentation and line number; its loop tree a flat list of depth, row and
line. Row n of the tree is node n of `nodes(func)`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from mlcnb.arith.evaluate import Unknown
from mlcnb.core.errors import MLCError
from mlcnb.core.render import Text
from mlcnb.machine.addresses import placed
from mlcnb.machine.prediction import Prediction, footprints, predict
from mlcnb.machine.stream import about
from mlcnb.observe.counts import ByStore, by_store
from mlcnb.script.printer import document
from mlcnb.target import Target
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.record.tree import sub_stmts
from mlcnb.view.parts import narrow
from mlcnb.view.words import clip, count, dim, listed, plural, size
from mlcnb.widgets.base import spans

#: programs whose text and tree are kept between two pages
KEPT = 1024
#: lines and rows of one program that a page gets
MOST = 600


#: a line of code without its indentation: (kind, text) pairs
Line = tuple[tuple[str, str], ...]


class Place(NamedTuple):
    """A loop or block of a function, how deep it stands, and how often it runs (None: unknown)."""

    node: s.For | s.Block
    depth: int
    times: int | None

    @property
    def name(self) -> str:
        """Of the block, or of the loop's variable."""
        node = self.node
        return node.name_hint if isinstance(node, s.Block) else node.loop_var.name


@lru_cache(KEPT)
def places(func: PrimFunc) -> tuple[Place, ...]:
    """The loops and blocks of a function in program order, the root block left out."""
    found: list[Place] = []
    _places(func.body, 0, 1, found)
    return tuple(found)


def _places(n: Any, depth: int, times: int | None, found: list[Place]) -> None:
    if isinstance(n, s.For):
        extent = getattr(n.extent, "value", None)
        times = None if times is None or extent is None else times * extent
        found.append(Place(n, depth, times))
        depth += 1
    elif isinstance(n, s.Block) and (depth or n.name_hint != "root"):
        found.append(Place(n, depth, times))
        depth += 1
    for child in sub_stmts(n):
        _places(child, depth, times, found)


def functions_of(sch: Any) -> list[str]:
    """The loop functions of a schedule."""
    return [v.name_hint for v, f in sch.mod.of_kind(PrimFunc).items()]


@lru_cache(KEPT)
def page_of(func: PrimFunc) -> Any:
    """The text of a function, with the places of its nodes."""
    return document(func, header=False)


@lru_cache(KEPT)
def _touched(func: PrimFunc, target: str) -> dict[Any, int]:
    return dict(footprints(func, Target(target) if target else None))


#: accesses of a program whose misses are counted at once, and where somebody looks at it
FEW, MANY = 250_000, 2_500_000


class Missed(NamedTuple):
    """Misses of the statements of a program, or why there are none (None: not counted yet)."""

    stores: ByStore
    why: str | None


def missed(func: PrimFunc, target: Target | None, most: int = FEW) -> Missed:
    """The misses of each statement of a program, where it makes at most `most` accesses."""
    made = _accesses(func)
    if not isinstance(made, int):
        return Missed({}, made)
    if made > MANY:
        told = f"it makes about {count(made)} accesses, and at most {count(MANY)} are played"
        return Missed({}, told)
    if made > most:
        return Missed({}, None)
    cpu = target if target is not None and target.is_cpu else None
    return _counted(func, "" if cpu is None else str(cpu))


@lru_cache(KEPT)
def _accesses(func: PrimFunc) -> int | str:
    """How many accesses a program makes, or why that is not known."""
    try:
        return about(placed(func))
    except (MLCError, Unknown) as error:
        return _why(error)


@lru_cache(KEPT)
def _counted(func: PrimFunc, target: str) -> Missed:
    try:
        return Missed(by_store(func, Target(target) if target else None), "")
    except MLCError as error:
        return Missed({}, _why(error))


def _why(error: Exception) -> str:
    told = error.message if isinstance(error, MLCError) else str(error)
    return clip(told.removeprefix("accesses: "), 160)


class Storyboard:
    """Collects programs."""

    def __init__(self, target: Target | None = None) -> None:
        self.target = target
        self.lines: list[list[list[str]]] = []
        self._lines: dict[Line, int] = {}
        self.rows: list[list[str]] = []
        self._rows: dict[tuple[str, ...], int] = {}
        self._margins: dict[tuple[str, str], int] = {}
        self.programs: list[dict[str, Any]] = []
        self._programs: dict[tuple[str, int], int] = {}
        self._kept: list[PrimFunc] = []

    def add(self, name: str, func: PrimFunc, costed: bool = True, most: int = 0) -> int:
        """The number of a function's program; what it costs is told if that is known or asked, its
        misses line by line where it makes at most `most` accesses.
        """
        key = (name, id(func))
        if key not in self._programs:
            self._kept.append(func)
            self._programs[key] = len(self.programs)
            page = page_of(func)
            told = missed(func, self.target, most) if costed else Missed({}, None)
            self.programs.append(
                {
                    "text": self.text(func, name),
                    "more": max(0, len(page.lines) - MOST),
                    "tree": self.tree(func, page, costed),
                    "margin": self.margin(func, page, costed, told.stores),
                    "missed": told.why,
                    "cost": cost(predicted(func, self.target), self.target) if costed else None,
                }
            )
        return self._programs[key]

    def text(self, func: PrimFunc, name: str = "main") -> list[int]:
        """Indentation and number of each line, one after the other."""
        found: list[int] = []
        for indent, line in _prepared(func) if _is_named(func, name) else _lines(func, name):
            if line not in self._lines:
                self._lines[line] = len(self.lines)
                self.lines.append([list(span) for span in line])
            found += [indent, self._lines[line]]
        return found

    def tree(self, func: PrimFunc, page: Any, costed: bool = True) -> list[int]:
        """Depth, row and line of each loop and block, one after the other."""
        touched = _touched(func, str(self.target or "")) if costed else {}
        found: list[int] = []
        for place in places(func)[:MOST]:
            spans = page.spans_of(place.node)
            row = _row(place, touched.get(getattr(place.node, "loop_var", None)))
            if row not in self._rows:
                self._rows[row] = len(self.rows)
                self.rows.append(list(row))
            found += [place.depth, self._rows[row], spans[0].line - 1 if spans else 0]
        return found

    def margin(
        self, func: PrimFunc, page: Any, costed: bool = True, stores: ByStore | None = None
    ) -> list[int]:
        """Number of a line and of what stands beside it, one after the other."""
        target = str(self.target or "") if costed else None
        found: list[int] = []
        for line, row in margins(func, page, target, stores).items():
            number = self._margins.setdefault(row, len(self._margins))
            found += [line - 1, number]
        return found

    def json(self) -> dict[str, Any]:
        """The tables, for a snapshot."""
        margins = [list(row) for row in self._margins]
        tables = {"lines": self.lines, "rows": self.rows, "margins": margins}
        return {**tables, "programs": self.programs}


def margins(
    func: PrimFunc, page: Any, target: str | None, stores: ByStore | None = None
) -> dict[int, tuple[str, str]]:
    """What the lines of a program cost: line -> how often its body runs and the bytes that one run
    of it touches, in short, and the same in words, loop by loop; of a statement its misses.

    Args:
        func: the program.
        page: its text.
        target: the machine by whose lines bytes are counted; None: they are left out.
        stores: what `missed` found.
    """
    touched = {} if target is None else _touched(func, target)
    lines: dict[int, list[Place]] = {}
    for place in places(func)[:MOST]:
        if spans := page.spans_of(place.node):
            lines.setdefault(spans[0].line, []).append(place)
    told = {line: _margin(found, touched) for line, found in lines.items()}
    for store, misses in (stores or {}).items():
        if spans := page.spans_of(store):
            told[spans[0].end_line] = _told(misses)
    return told


def _told(misses: dict[str, list[int]]) -> tuple[str, str]:
    """Of a statement: its misses of the nearest cache; in words those of each level and array."""
    if not misses:
        return "no misses", "every line is in L1 when it is asked for"
    levels = [
        f"L{n} "
        + listed((f"{clip(name, 24)} {count(own[n - 1])}" for name, own in misses.items()), 6)
        for n in range(1, len(next(iter(misses.values()))) + 1)
    ]
    total = sum(own[0] for own in misses.values())
    return plural(total, "miss", "misses"), f"misses, counted: {'; '.join(levels)}"


def _margin(found: list[Place], touched: dict[Any, int]) -> tuple[str, str]:
    """Of a line: the runs are those of its innermost loop, the bytes those of its outermost."""
    memory = [touched.get(getattr(x.node, "loop_var", None)) for x in found]
    runs = [f"{count(x.times)}×" if x.times is not None else "" for x in found]
    short = filter(None, [runs[-1], size(memory[0]) if memory[0] is not None else ""])
    told = [
        f"{clip(x.name, 40)}: runs {run or 'not known'}"
        + ("" if held is None else f", one run touches {size(held)}")
        for x, run, held in zip(found, runs, memory, strict=True)
    ]
    return " · ".join(short), "; ".join(told)


def _is_named(func: PrimFunc, name: str) -> bool:
    return name in ("main", str(func.attrs.get("global_symbol", "main")))


@lru_cache(KEPT)
def _prepared(func: PrimFunc) -> list[tuple[int, Line]]:
    return _cut(page_of(func).lines)


def _lines(func: PrimFunc, name: str) -> list[tuple[int, Line]]:
    return _cut(document(func, header=False, name=name).lines)


def _cut(lines: list[list[Text]]) -> list[tuple[int, Line]]:
    """Each line as its indentation, and the rest as spans."""
    return [_cut_line(tuple((x.text, x.kind) for x in line)) for line in lines[:MOST]]


@lru_cache(1 << 14)
def _cut_line(line: tuple[tuple[str, str], ...]) -> tuple[int, Line]:
    rest = spans(narrow([Text(text, kind) for text, kind in line]))
    head = rest[0][1] if rest else ""
    text = head.lstrip(" ")
    if rest:
        rest[0][1] = text
    return len(head) - len(text), tuple((k, x) for k, x in rest if x)


def _row(place: Place, touched: int | None) -> tuple[str, ...]:
    """name, kind, extent, how often, what it touches, and a remark."""
    node = place.node
    times = "" if place.times is None else count(place.times)
    if isinstance(node, s.Block):
        uses = [
            listed(dict.fromkeys(clip(r.buffer.name, 16) for r in regions), 3)
            for regions in (node.reads, node.writes)
        ]
        axes = "".join(axis.iter_type.value[0] for axis in node.iter_vars)
        flow = f"{uses[0]} -> {uses[1]}" if uses[0] else f"-> {uses[1]}"
        return (
            clip(node.name_hint or "(unnamed)", 40),
            "block",
            "",
            times,
            "",
            f"{axes} {flow}".strip(),
        )
    kind = "thread" if node.thread_binding else node.kind.value
    words = [
        f"{clip(str(k), 24)}={clip(str(getattr(v, 'value', v)), 20)}"
        for k, v in node.annotations.items()
    ]
    if node.thread_binding:
        words.insert(0, node.thread_binding)
    memory = "" if touched is None else size(touched)
    return clip(node.loop_var.name, 40), kind, dim(node.extent), times, memory, ", ".join(words)


def predicted(func: PrimFunc, target: Target | None) -> Prediction:
    """The prediction for a function, kept for a while."""
    return _predicted(func, "" if target is None else str(target))


@lru_cache(4 * KEPT)
def _predicted(func: PrimFunc, target: str) -> Prediction:
    return predict(func, Target(target) if target else None)


def cost(found: Prediction, target: Target | None) -> dict[str, Any]:
    """A prediction for a page; threads of a GPU count where the target is one."""
    bound = found.blocks * found.threads > 1 and target is not None and not target.is_cpu
    return {
        "misses": list(found.misses),
        "lanes": found.lanes,
        "strided": [clip(x, 24) for x in found.strided],
        "tasks": found.tasks,
        "gpu": [found.blocks, found.threads] if bound else None,
        "cycles": round(found.cycles),
    }

"""When each element is written: buffers as grids, coloured and numbered by step.

    mlc.order(func)         the loops of a small program, and its buffers as grids

B: 4 x 4           The steps are those of the reference interpreter, which runs the program on a
 0  4  8 12        record of its accesses. The lanes of a vector are one step; each iteration of a
 1  5  9 13        parallel loop counts steps of its own. An element that is written several times
 2  6 10 14        has its first and its last step.
 3  7 11 15
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlcnb.codegen.interp import run_prim_func
from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.core.node import replace, rewrite
from mlcnb.ir.expr import Var
from mlcnb.ir.prim_ops import as_int
from mlcnb.observe.access import function_of
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import substitute
from mlcnb.view.svg import INK, Drawing
from mlcnb.view.words import clip

#: elements of a program that is drawn, and columns of a grid
LARGEST, WIDEST = 600, 32
CELL = 20.0
#: hues of threads (colour-blind safe), light enough for dark text
THREADS = ("#f5d58a", "#a9d8f5", "#9fe0c8", "#f2b8a0", "#d9b8e0", "#f7ef9e", "#9fc0e8", "#d6d6d6")
#: red, green and blue of the first step and of the last
_EARLY_LATE = ((240, 116), (248, 173), (255, 222))
_CONCURRENT = (s.ForKind.PARALLEL, s.ForKind.THREAD_BINDING)


@dataclass
class Grid:
    """A buffer: its shape, and of each element written the first and last step and the thread."""

    name: str
    shape: tuple[int, ...]
    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    thread: dict[int, int | None] = field(default_factory=dict)

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self.shape[-1] if self.shape else 1

    @property
    def elements(self) -> int:
        """Elements of the buffer."""
        return int(np.prod(self.shape, dtype=np.int64))

    def words(self, at: int) -> str:
        """`3`, or `0–7` where the element is written again and again; `` where it never is."""
        if at not in self.last:
            return ""
        first, last = self.first[at], self.last[at]
        return str(last) if first == last else f"{first}–{last}"


class Order(display.Shown):
    """The order in which a program writes: shows itself as a picture.

    Attributes:
        func: the program.
        grids: a grid for each buffer written; None where the program is too large to draw.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.grids = grids(func)


def order(program: Any) -> Order:
    """When each element of a small program is written.

    Args:
        program: a PrimFunc, a module with one, or a schedule; its buffers of known shapes.

    Raises:
        MLCError: no loops, a program that cannot be run, or one too large to be drawn.
    """
    func = function_of(program, "order")
    found = Order(func)
    if not found.grids:
        args = _arguments(func)
        if args is not None and _is_small(func):
            run_prim_func(func, args)  # which says what is wrong with it
        raise MLCError(
            f"order: the program is too large to be drawn, or has open sizes: at most {LARGEST} "
            "elements of a buffer",
            hint="make it smaller: the order of loops is the same",
        )
    return found


def grids(func: PrimFunc) -> list[Grid] | None:
    """The buffers that a program writes, in order of their first write; None where too large."""
    args = _arguments(func)
    if args is None or not _is_small(func):
        return None
    recorder = _Recorder(func)
    try:
        run_prim_func(recorder.func, args, recorder)
    except MLCError:  # what cannot be run is not drawn
        return None
    return list(recorder.grids.values())


def _arguments(func: PrimFunc) -> list[np.ndarray] | None:
    if len(func.buffers) != len(func.params):
        return None
    shapes = [tuple(as_int(n) for n in b.shape) for b in func.buffers]
    if any(n is None or n > LARGEST for shape in shapes for n in shape):
        return None
    return [
        np.ones([n for n in shape if n is not None], b.dtype.numpy)
        for shape, b in zip(shapes, func.buffers, strict=True)
    ]


def _is_small(func: PrimFunc) -> bool:
    """Whether no block runs more than a few times as often as a picture has elements."""

    def runs(n: Any, outer: int) -> int:
        if isinstance(n, s.For):
            return runs(n.body, outer * (as_int(n.extent) or LARGEST))
        if isinstance(n, s.SeqStmt):
            return max(runs(x, outer) for x in n.seq)
        inside = getattr(n, "block", n)
        body = getattr(inside, "body", None)
        return runs(body, outer) if isinstance(body, s.Stmt) else outer

    return runs(func.body, 1) <= 8 * LARGEST


class _Recorder:
    """Told of every access; keeps the writes, and counts steps."""

    def __init__(self, func: PrimFunc) -> None:
        self.kinds: dict[str, s.ForKind] = {}
        self.func = func.with_body(rewrite(func.body, self._named))
        self.shapes = _shapes(self.func)
        self.grids: dict[str, Grid] = {}
        self.start = self.clock = 0
        self.region: Any = None
        self.threads: dict[tuple, list[Any]] = {}
        self.last: Any = None

    def _named(self, n: Any) -> Any:
        """Every loop gets a name of its own, so that the record tells them apart."""
        if not isinstance(n, s.For):
            return None
        fresh = Var(f"loop{len(self.kinds)}", n.loop_var.dtype)
        self.kinds[fresh.name] = n.kind
        return replace(n, loop_var=fresh, body=substitute(n.body, {n.loop_var: fresh}))

    def __call__(self, name: str, at: int, what: str, loops: Mapping[str, int]) -> None:
        """An access, of which only writes count."""
        if what != "w" or name not in self.shapes:
            return
        grid = self.grids.setdefault(name, Grid(name, self.shapes[name]))
        step, thread = self._step(name, loops)
        grid.first.setdefault(at, step)
        grid.last[at] = step
        grid.thread[at] = thread

    def _step(self, name: str, loops: Mapping[str, int]) -> tuple[int, int | None]:
        """The number of the step and of the thread."""
        kinds = self.kinds
        concurrent = tuple((k, v) for k, v in loops.items() if kinds[k] in _CONCURRENT)
        moment = (name, tuple((k, v) for k, v in loops.items() if kinds[k] != _VECTOR))
        if not concurrent:
            if moment != self.last:
                self.start = self.clock
                self.clock += 1
            self.last, self.region = moment, None
            return self.clock - 1, None
        region = tuple(k for k, _ in concurrent)
        if region != self.region:
            self.region, self.start, self.threads = region, self.clock, {}
        mine = self.threads.setdefault(concurrent, [len(self.threads), self.start - 1, None])
        if mine[2] != moment:
            mine[1], mine[2] = mine[1] + 1, moment
        self.clock = max(self.clock, mine[1] + 1)
        self.last = None
        return mine[1], mine[0]


_VECTOR = s.ForKind.VECTORIZED


def _shapes(func: PrimFunc) -> dict[str, tuple[int, ...]]:
    """Name -> shape of the buffers whose elements can be counted; two of one name are left out."""
    found: dict[str, Any] = {b.name: b for b in func.buffers}
    for n in statements(func.body):
        for b in getattr(getattr(n, "block", None), "alloc_buffers", ()):
            found[b.name] = b if b.name not in found else None
    shapes = {}
    for name, b in found.items():
        sizes = [as_int(n) for n in b.shape] if b is not None else [None]
        known = [n for n in sizes if n is not None]
        if len(known) == len(sizes) and int(np.prod(known)) <= LARGEST:
            shapes[name] = tuple(known)
    return shapes


def draw(found: list[Grid]) -> Drawing:
    """The grids one below the other."""
    d, y = Drawing(), 0.0
    most = max((step for g in found for step in g.last.values()), default=0)
    for g in found:
        if g.columns > WIDEST or g.elements > LARGEST:
            continue
        wide = max((len(g.words(at)) for at in g.last), default=1)
        cell = max(CELL, 5.6 * wide + 8)
        size = " × ".join(map(str, g.shape)) or "scalar"
        d.text(0, y + 10, f"{clip(g.name, 24)}: {size}", INK, bold=True)
        boxes = []
        for at in range(g.elements):
            row, column = divmod(at, g.columns)
            x, top = column * cell, y + 16 + row * CELL
            boxes.append((x, top, cell, CELL, _fill(g, at, most), g.words(at)))
        d.cells(boxes)
        y += 16 + -(-g.elements // g.columns) * CELL + 12
    return d


def _fill(g: Grid, at: int, most: int) -> str:
    """Colour of an element: its thread's, or from light (early) to darker (late)."""
    if at not in g.last:
        return "#ffffff"
    thread = g.thread[at]
    if thread is not None:
        return THREADS[thread % len(THREADS)]
    share = g.last[at] / max(most, 1)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in _EARLY_LATE)


def text(found: list[Grid]) -> str:
    """The same as lines of numbers."""
    lines = []
    for g in found:
        if g.columns > WIDEST or g.elements > LARGEST:
            continue
        words = [g.words(at) or "." for at in range(g.elements)]
        width = max(map(len, words))
        lines.append(f"{clip(g.name, 24)}: {' x '.join(map(str, g.shape))}")
        for start in range(0, len(words), g.columns):
            lines.append(" ".join(f"{w:>{width}}" for w in words[start : start + g.columns]))
    return "\n".join(lines)

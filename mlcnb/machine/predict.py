"""What a program will cost, from its loops alone: misses of each cache, vectors, parallel work.

    found = predict(func, target)
    found.misses["L1"], found.vector_lanes, found.parallel_tasks      some milliseconds a program

Nothing is run and no access is made: it is for menus that compare candidates. The rule, for a cache
and a loop:

    all that the loop touches fits        every line of it misses once
    one iteration fits, the loop does not what the next iteration touches again is still there:
                                          again every line once
    one iteration does not fit            every iteration misses what one misses by itself

A matmul of 96 x 96 floats: an iteration of i touches 588 lines, L1 has 512: 96 x 588 = 56,448
misses, which is what `mlc.replay(func, cache="32K/8way")` counts. Lines that meet in few sets
(strides of a power of two) do not stay though there are few of them: the sets are counted. What a
loop leaves in the cache for the next loop is not seen, nor what of a loop that does not fit stays
by chance: predictions are within a few percent of the count for most products, within a half for
convolutions of several loops (tests). `replay` counts, this predicts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlcnb.core.errors import MLCError
from mlcnb.ir.expr import Var
from mlcnb.machine.addresses import Array, placed
from mlcnb.machine.cache import Cache, caches
from mlcnb.machine.footprint import Footprint, footprint
from mlcnb.machine.nest import Nest, Stride, Touch, nest_of, steps
from mlcnb.target import Target
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.cost import flops as count_flops
from mlcnb.tir.function import PrimFunc

#: caches of more lines are taken to have no sets
MOST_LINES = 1 << 15


@dataclass(frozen=True)
class Prediction:
    """What one call of a program is predicted to cost.

    Attributes:
        misses: level of cache -> lines that it does not hold when they are touched.
        vector_lanes: elements that the innermost loop of most work handles at once.
        parallel_tasks: iterations that may run at the same time.
        bytes: of the distinct elements that are touched.
        flops: arithmetic operations.
        accesses: elements read and written.
        line: bytes of a line.
    """

    misses: dict[str, float]
    vector_lanes: int
    parallel_tasks: int
    bytes: int
    flops: int
    accesses: int = 0
    line: int = 64

    def __str__(self) -> str:
        missed = [f"{name} {count:,.0f}" for name, count in self.misses.items()]
        lanes = f"vectors of {self.vector_lanes}" if self.vector_lanes > 1 else "no vectors"
        tasks = f"{self.parallel_tasks:,} parallel" if self.parallel_tasks > 1 else "one thread"
        return f"predicted misses: {', '.join(missed) or 'unknown'}; {lanes}; {tasks}"


def predict(func: PrimFunc, target: Any = None, cache: Any = None) -> Prediction:
    """What a program will cost on a machine.

    Args:
        func: the program, with fixed sizes.
        target: the machine; default: the current Target, else this computer.
        cache: other caches than the target's (see `mlcnb.machine.cache.caches`).

    Raises:
        MLCError: it has sizes that are not known, or cannot be looked at (`placed`).
    """
    where = Target(target or Target.current() or "llvm")
    levels = caches(where if cache is None else cache)
    root = nest_of(placed(func))
    flops = count_flops(func)
    if not isinstance(flops, int):
        raise MLCError("predict: the program has sizes that are not known")
    hot = _hottest(root)
    model = _Model(root, levels[0].line)
    return Prediction(
        {level.name: model.misses(level) for level in levels},
        _lanes(hot, where),
        _product(loop.extent for loop in hot.loops if loop.kind is s.ForKind.PARALLEL),
        model.nbytes(),
        flops,
        _accesses(root),
        levels[0].line,
    )


def _product(numbers: Iterable[int]) -> int:
    total = 1
    for n in numbers:
        total *= n
    return total


def _accesses(n: Nest) -> int:
    inside = (x.lanes if isinstance(x, Touch) else _accesses(x) for x in n.body)
    return n.extent * sum(inside)


@dataclass
class _Path:
    """The loops to a place, and the accesses there."""

    loops: list[Nest] = field(default_factory=list)
    touches: list[Touch] = field(default_factory=list)

    @property
    def size(self) -> int:
        return len(self.touches) * _product(loop.extent for loop in self.loops)


def _hottest(root: Nest) -> _Path:
    """The place where most accesses are made."""
    best = _Path()

    def visit(n: Nest, loops: list[Nest]) -> None:
        nonlocal best
        here = _Path(loops, [x for x in n.body if isinstance(x, Touch)])
        best = max(best, here, key=lambda path: path.size)
        for x in n.body:
            if isinstance(x, Nest):
                visit(x, [*loops, x])

    visit(root, [])
    return best


def _lanes(path: _Path, target: Target) -> int:
    """Lanes of the innermost loop: vectorized by the schedule, or as LLVM will do it."""
    written = [x for x in path.touches if x.is_write]
    if not path.loops or not written:
        return max([x.lanes for x in path.touches], default=1)
    itemsize = min(x.array.itemsize for x in written)
    most = max(1, target.vector_bits // (8 * itemsize))
    if written[0].lanes > 1:
        return min(most, written[0].lanes)
    inner = path.loops[-1]
    vectors = [x for x in path.loops if x.kind is s.ForKind.VECTORIZED]
    if vectors:
        return min(most, vectors[-1].extent)
    is_plain = inner.kind in (s.ForKind.SERIAL, s.ForKind.UNROLLED)
    if is_plain and all(_is_contiguous(x, inner.var) for x in path.touches):
        if any(x.strides.get(inner.var) for x in written):  # type: ignore[arg-type]
            return min(most, inner.extent)
    return 1


def _is_contiguous(x: Touch, var: Var | None) -> bool:
    strides = x.strides.get(var, ()) if var is not None else ()
    return not strides or strides[0][0] == x.array.itemsize


class _Model:
    """Misses of a nest, array by array; lines of one size."""

    def __init__(self, root: Nest, line: int) -> None:
        self.root = root
        self.line = line
        self.known: dict[tuple[int, bool], dict[Array, list[Footprint]]] = {}

    def nbytes(self) -> int:
        """Bytes that the program comes to."""
        return sum(
            min(array.nbytes, sum(f.elements() for f in found))
            for array, found in self.touched(self.root, True).items()
        )

    def misses(self, cache: Cache) -> float:
        """Of one call, from an empty cache."""
        return sum(self.loop(self.root, cache).values())

    def loop(self, n: Nest, cache: Cache) -> dict[Array, float]:
        """Misses of each array while a loop runs, from an empty cache."""
        once = self.once(n, cache)
        if n.var is None:
            return once
        kept, every = self.kept(n, cache), self.lines(n, True)
        return {
            array: _between(kept[array], every[array], n.extent * misses)
            for array, misses in once.items()
        }

    def once(self, n: Nest, cache: Cache) -> dict[Array, float]:
        """Misses of each array in one iteration, from an empty cache."""
        found: dict[Array, float] = {}
        for part in n.body:
            if isinstance(part, Nest):
                for array, misses in self.loop(part, cache).items():
                    found[array] = found.get(array, 0.0) + misses
            else:
                found[part.array] = found.get(part.array, 0.0) + 1.0
        lines, kept = self.lines(n, False), self.kept(n, cache)
        return {a: _between(kept[a], lines[a], misses) for a, misses in found.items()}

    def kept(self, n: Nest, cache: Cache) -> dict[Array, float]:
        """Which part of its lines of one iteration an array still has in the cache at the end."""
        total, touched = sum(self.lines(n, False).values()), self.touched(n, False)
        if total > cache.lines or cache.lines > MOST_LINES:
            return dict.fromkeys(touched, float(total <= cache.lines))
        lines = {
            array: np.unique(np.concatenate([f.numbers(cache.line) for f in found]))
            for array, found in touched.items()
        }
        load = np.bincount(np.concatenate(list(lines.values())) % cache.sets)
        return {a: float((load[x % cache.sets] <= cache.ways).mean()) for a, x in lines.items()}

    def lines(self, n: Nest, is_whole: bool) -> dict[Array, float]:
        """Lines of each array that a loop (or one iteration of it) comes to."""
        return {
            array: min(sum(f.lines(self.line) for f in found), -(-array.nbytes // self.line))
            for array, found in self.touched(n, is_whole).items()
        }

    def touched(self, n: Nest, is_whole: bool) -> dict[Array, list[Footprint]]:
        """What a loop (or one iteration of it) comes to, array by array."""
        key = id(n), is_whole
        if key not in self.known:
            groups: dict[Array, dict[tuple[Stride, ...], set[int]]] = {}
            _gather(n, (n,) if is_whole and n.var is not None else (), groups)
            self.known[key] = {a: _united(a, g, self.line) for a, g in groups.items()}
        return self.known[key]


def _between(kept: float, again: float, lost: float) -> float:
    """Misses where a part of the lines is kept."""
    return kept * min(again, lost) + (1 - kept) * lost


def _gather(
    n: Nest, loops: tuple[Nest, ...], into: dict[Array, dict[tuple[Stride, ...], set[int]]]
) -> None:
    """Array -> strides -> first addresses, of all accesses in a nest."""
    for part in n.body:
        if isinstance(part, Nest):
            _gather(part, (*loops, part), into)
            continue
        strides = [x for loop in loops for x in part.strides.get(loop.var, ())]  # type: ignore[arg-type]
        if part.lanes > 1:
            strides.append((part.array.itemsize, part.lanes))
        into.setdefault(part.array, {}).setdefault(tuple(sorted(strides)), set()).add(part.first)


def _united(array: Array, groups: dict[tuple[Stride, ...], set[int]], line: int) -> list[Footprint]:
    """One footprint for all accesses with the same strides; none for what another one covers."""
    found = []
    for strides, firsts in groups.items():
        covered = any(
            firsts <= others and set(strides) < set(more)
            for more, others in groups.items()
            if more != strides
        )
        if not covered:
            apart = steps(np.array(sorted(firsts)), len(firsts))
            found.append(footprint(min(firsts), array.itemsize, (*strides, *apart), line))
    return found

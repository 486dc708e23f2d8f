"""What a cost model sees of a program.

`PerStoreFeature`: numbers, a row for each place that stores.

row 0       the program: cycles and misses by the machine's model, operations by kind
other rows  a place: how often it runs, its vectors, tasks, threads and written-out loops, and of
            each of its buffers how much is touched, in which steps, and how soon again

Counts are logarithms, log2(1 + x). TVM's columns that are always zero are left out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.machine.locality import nest_of
from mlcnb.machine.nest import Addressed, Nest, places
from mlcnb.machine.prediction import body_cycles, predict
from mlcnb.tir.analysis.structure import work
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import BufferStore, ForKind

#: kinds of operations that are counted, of floats and of integers
_OPERATIONS: tuple[tuple[str, Any], ...] = (
    ("add", e.Add | e.Sub),
    ("mul", e.Mul),
    ("div", e.Div | e.FloorDiv | e.FloorMod),
    ("compare", e.EQ | e.NE | e.LT | e.LE | e.GT | e.GE | e.Min | e.Max),
    ("select", e.Select),
    ("call", e.Call),
    ("load", BufferLoad),
)
_COUNTED = tuple(kind for _, some in _OPERATIONS for kind in getattr(some, "__args__", (some,)))
#: the part of the cycles for misses that is not hidden behind work
IN_SIGHT = 0.25
#: places that are looked at for misses: so many times fewer than where one program is shown
COARSE = 4
PROGRAM = ("cycles", "cycles of bodies", "misses L1", "misses L2", "misses L3") + tuple(
    f"{kind} {name}" for kind in ("float", "int") for name, _ in _OPERATIONS
)
PLACE = ("runs", "vector", "unrolled", "tasks", "blocks", "threads", "depth", "innermost")
BUFFER = ("bytes", "unique bytes", "step", "contiguous", "reuse", "reuse distance")


class FeatureExtractor:
    """What turns candidates into numbers; a class of one's own has `extract_from`."""

    def extract_from(self, context: Any, candidates: Sequence[Any]) -> list[np.ndarray]:
        """For each candidate its features, float64 of shape (stores, features)."""
        raise NotImplementedError(f"{type(self).__name__}.extract_from")


PyFeatureExtractor = FeatureExtractor


class RandomFeatureExtractor(FeatureExtractor):
    """Random numbers, to test cost models with.

    Args:
        feature_size: columns.
        max_block_num: rows at most.
        seed: of the numbers.
    """

    def __init__(self, feature_size: int = 30, max_block_num: int = 5, seed: int = 0) -> None:
        self.feature_size, self.max_block_num = feature_size, max_block_num
        self._rng = np.random.default_rng(seed)

    def extract_from(self, context: Any, candidates: Sequence[Any]) -> list[np.ndarray]:
        """For each candidate float64 of shape (rows, feature_size)."""
        rows = self._rng.integers(1, self.max_block_num + 1, len(candidates))
        return [self._rng.random((int(n), self.feature_size)) for n in rows]


class PerStoreFeature(FeatureExtractor):
    """See the file.

    Args:
        buffers_per_store: buffers of a place that have columns, those with most bytes first.
    """

    def __init__(self, buffers_per_store: int = 5) -> None:
        self.buffers_per_store = buffers_per_store

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        count = range(1, self.buffers_per_store + 1)
        return [*PROGRAM, *PLACE, *(f"buffer {n}: {name}" for n in count for name in BUFFER)]

    def extract_from(self, context: Any, candidates: Sequence[Any]) -> list[np.ndarray]:
        """For each candidate float64 of shape (1 + stores, len(names))."""
        return [self.rows(c.sch.mod[c.sch.func_working_on], context.target) for c in candidates]

    def rows(self, func: PrimFunc, target: Any) -> np.ndarray:
        """The features of one function: float64 of shape (1 + stores, len(names))."""
        return _rows(self, func, target).copy()

    def _made(self, func: PrimFunc, target: Any) -> np.ndarray:
        found = predict(func, target, coarse=COARSE)
        body = body_cycles(func, target) / max(1, min(found.tasks, target.num_cores))
        counts = [_log(x) for x in (body + IN_SIGHT * found.cycles, body, *found.misses)]
        counts += [_log(x) for x in work(func.body, 64, _operations)]
        width = len(PLACE) + self.buffers_per_store * len(BUFFER)
        made = [[*counts, *[0.0] * width]]
        for around in places(nest_of(func)):
            made.append([*[0.0] * len(PROGRAM), *self._place(around)])
        return np.array(made, "float64")

    def _place(self, around: tuple[Nest, ...]) -> list[float]:
        loops = [(x.level.loop, x.trips) for x in around if x.level is not None]

        def product(kind: ForKind, axis: str = "") -> float:
            found = (t for x, t in loops if x.kind is kind and axis in (x.thread_binding or ""))
            return _log(math.prod(found) - 1)

        told = [
            _log(math.prod(t for _, t in loops)),
            product(ForKind.VECTORIZED),
            product(ForKind.UNROLLED),
            product(ForKind.PARALLEL),
            product(ForKind.THREAD_BINDING, "blockIdx"),
            product(ForKind.THREAD_BINDING, "threadIdx"),
            float(len(loops)),
            _log(loops[-1][1]) if loops else 0.0,
        ]
        trips = [t for _, t in loops]
        buffers = sorted((_buffer(x, trips) for x in around[-1].inside), key=lambda b: -b[0])
        flat = [x for one in buffers[: self.buffers_per_store] for x in one]
        return told + flat + [0.0] * (self.buffers_per_store * len(BUFFER) - len(flat))


def _buffer(access: Addressed, trips: Sequence[int]) -> list[float]:
    """The columns of one access, given the rounds of the loops around it."""
    moving = [
        bool(access.moving[n]) if n < len(access.moving) else False for n in range(len(trips))
    ]
    unique = math.prod(t for t, m in zip(trips, moving, strict=True) if m)
    last = max((n for n, m in enumerate(moving) if m), default=None)
    step = access.steps[last] if last is not None and last < len(access.steps) else 0
    size = abs(step) if isinstance(step, int) else 4096
    still = next((n for n in range(len(trips) - 1, -1, -1) if not moving[n]), None)
    reuse = 0.0 if still is None else _log(trips[still])
    apart = 0.0 if still is None else _log(access.nbytes * math.prod(trips[still + 1 :]))
    return [
        _log(access.nbytes * math.prod(trips)),
        _log(access.nbytes * unique),
        _log(size),
        float(size <= access.nbytes),
        reuse,
        apart,
    ]


def _log(x: float) -> float:
    return math.log2(1 + max(x, 0.0))


@lru_cache(512)
def _rows(extractor: PerStoreFeature, func: PrimFunc, target: Any) -> np.ndarray:
    """Asked before a candidate is measured, and again to learn from it."""
    return extractor._made(func, target)


def _operations(n: Any) -> np.ndarray:
    """How many operations of each kind a statement has: those of floats, then those of integers."""
    kinds = Counter[tuple[bool, type]]()
    for x in walk(n.value) if isinstance(n, BufferStore) else walk(n):
        if isinstance(x, _COUNTED):
            kinds[x.dtype.is_float, type(x)] += 1
    found = np.zeros((2, len(_OPERATIONS)))
    for (is_float, kind), many in kinds.items():
        found[0 if is_float else 1] += [many * issubclass(kind, x) for _, x in _OPERATIONS]
    return found.ravel()


__all__ = ["FeatureExtractor", "PerStoreFeature", "PyFeatureExtractor", "RandomFeatureExtractor"]

"""Misses of a loop program, from a few iterations of each of its loops.

    misses of a run = lines that it touches for the first time
                    + for each loop, the lines that an iteration takes up again and finds gone

A line that one iteration of a loop touches, and an earlier one touched too, was last touched there
at some place in the iteration. What stands between (the lines touched after that place, and those
that this iteration touched before) decides whether its set still holds it. That is exactly what a
cache makes of two rounds of touches: those of the earlier iteration in the order of their last
touch, then those of this one in the order of their first. So a few iterations of each loop, of
places all over the loops around it, are enumerated and passed through the exact model
(`mlcnb.machine.cache`); touches within an iteration are those of the loops inside. Parts that stand
one after the other are rounds as well.

After Mattson's stack distances (see `reuse`), and the sampling of windows by Vera and Xue, "Let's
study whole-program cache behaviour analytically", HPCA 2002.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

import numpy as np

from mlcnb.ir.expr import Var
from mlcnb.machine.cache import Cache
from mlcnb.machine.nest import Nest
from mlcnb.machine.rounds import Rounds, ticks_of

#: iterations that are looked at in each; the next number where lines come from further back, which
#: is where this part of a loop's lines, or more, is taken up without having been seen
ROUNDS, FAR = (2, 4, 12), 0.05


@dataclass
class Found:
    """What a program makes of caches.

    Attributes:
        misses: lines that each level does not have when they are asked for.
        lines: loop variable -> lines that one run of the loop touches.
    """

    misses: list[float]
    lines: dict[Var, float] = field(default_factory=dict)

    def add(self, other: Found) -> None:
        """Add what a part of the program makes of them."""
        self.misses = [n + more for n, more in zip(self.misses, other.misses, strict=True)]
        self.lines.update(other.lines)


def found(root: Nest, levels: Sequence[Cache], coarse: int = 1) -> Found:
    """Misses of one run of a whole program, all caches empty at first; `coarse`: see `Rounds`."""
    if not root.inside:
        return Found([0.0] * len(levels))
    whole = root
    if root.level is not None or not root.parts:
        whole = Nest(None, 0, (root,), root.inside, root.ticks)
    arrays = max(x.array for x in root.inside) + 1
    counter = _Counter(whole, tuple(levels), arrays, coarse)
    counter.nest(whole, None)
    return counter.found


@lru_cache(1024)
def _of_part(nest: Nest, levels: tuple[Cache, ...], own: tuple[float, ...], coarse: int) -> Found:
    """What is within a loop that stands in no other, where it touches `own` lines of each array."""
    counter = _Counter(nest, levels, len(own), coarse)
    counter.nest(nest, np.array(own))
    return counter.found


class _Counter:
    """Goes through the loops, outermost first."""

    def __init__(self, root: Nest, levels: tuple[Cache, ...], arrays: int, coarse: int) -> None:
        self.levels, self.arrays, self.coarse = levels, arrays, coarse
        self.ticks = ticks_of(root)
        self.found = Found([0.0] * len(levels))

    def nest(self, nest: Nest, own: np.ndarray | None) -> None:
        """A nest, of which one run touches `own` lines of each array (None: the whole program)."""
        if nest.level is not None and own is not None:
            self.found.lines.setdefault(nest.level.loop.loop_var, float(own.sum()))
        if not nest.parts or not nest.trips:
            return
        rounds = self._rounds(nest, own)
        runs = prod(x.trips for x in rounds.outer)
        if own is None:
            self._add((rounds.lines - rounds.seen).sum() * np.ones(len(self.levels)))
        if rounds.is_whole:
            self._add(rounds.missed.sum(axis=(2, 3)).mean(axis=1) * runs)
        elif own is not None:
            self._add(self._again(nest, own, rounds) * runs)
        lines = rounds.lines.mean(axis=0)
        for at, part in enumerate(nest.parts):
            touched = lines[at] if nest.level is None else lines.mean(axis=0)
            if rounds.fits[at if nest.level is None else slice(None)].all():
                self._small(part)  # what one run of it touches stays
            elif own is None and part.level is not None:
                self.found.add(_of_part(part, self.levels, tuple(touched), self.coarse))
            else:
                self.nest(part, touched)

    def _small(self, nest: Nest) -> None:
        """Loops that miss nothing: only what they touch."""
        if nest.level is not None:
            self.found.lines.update(_touched(nest, self.arrays))
        else:
            for part in nest.parts:
                self._small(part)

    def _rounds(self, nest: Nest, own: np.ndarray | None) -> Rounds:
        """Some rounds of a nest: more of them where lines are taken up from further back."""
        for count in ROUNDS:
            rounds = Rounds(nest, self.ticks, self.arrays, count, self.coarse)
            rounds.judge(self.levels)
            if own is None or rounds.is_whole or own.sum() <= min(x.lines for x in self.levels):
                break
            if _further(nest, own, rounds) <= FAR * own.sum():
                break
        return rounds

    def _add(self, more: np.ndarray) -> None:
        self.found.add(Found([float(m) for m in more]))

    def _again(self, nest: Nest, own: np.ndarray, rounds: Rounds) -> np.ndarray:
        """Misses of each level among the lines that the iterations of one run take up again."""
        _, _, weights = _taken_up(nest, own, rounds)
        missed = rounds.missed[:, :, 1:].reshape(len(self.levels), -1, len(own))
        near = (missed.sum(axis=2) * weights).sum(axis=1) * (nest.trips - 1)
        gone = np.array([own.sum() > level.lines for level in self.levels])
        return near + gone * _further(nest, own, rounds)


@lru_cache(4096)
def _touched(nest: Nest, arrays: int) -> dict[Var, float]:
    """Variable of each loop -> lines that one run of it touches."""
    found: dict[Var, float] = {}
    if nest.level is not None:
        alone = Nest(None, nest.depth, (nest,), nest.inside, nest.ticks)
        rounds = Rounds(alone, ticks_of(nest), arrays, 1)
        rounds.judge(())
        found[nest.level.loop.loop_var] = float(rounds.lines.sum(axis=2).mean())
    for part in nest.parts:
        found = {**_touched(part, arrays), **found}
    return found


def _taken_up(nest: Nest, own: np.ndarray, rounds: Rounds) -> tuple[np.ndarray, ...]:
    """Of each array the lines of a round that are new to the loop; those that no earlier round was
    seen to touch, in each round; and what each round counts for.
    """
    new = np.maximum(0.0, own - rounds.lines.mean(axis=(0, 1))) / (nest.trips - 1)
    unseen = (rounds.lines - rounds.seen)[:, 1:].reshape(-1, len(own))
    return new, unseen, _weights(unseen.sum(axis=1), float(new.sum()))


def _further(nest: Nest, own: np.ndarray, rounds: Rounds) -> float:
    """Lines that were not seen before, though they are not new: taken up from further back."""
    new, unseen, weights = _taken_up(nest, own, rounds)
    return float(np.maximum(0.0, weights @ unseen - new).sum()) * (nest.trips - 1)


def _weights(unseen: np.ndarray, new: float) -> np.ndarray:
    """What each round counts for.

    A loop that goes along lines comes to new ones in some of its rounds only. How many come is
    known, so the rounds in which more come than on average count for what is right.
    """
    many = unseen > new
    weights = np.full(len(unseen), 1 / len(unseen))
    if many.any() and not many.all():
        high, low = unseen[many].mean(), unseen[~many].mean()
        share = min(1.0, max(0.0, (new - low) / (high - low)))
        weights[many], weights[~many] = share / many.sum(), (1 - share) / (~many).sum()
    return weights

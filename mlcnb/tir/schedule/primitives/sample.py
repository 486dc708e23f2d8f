"""sample_perfect_tile, sample_categorical, sample_partitioned_tile, sample_compute_location: draw.

a, b = sch.sample_perfect_tile(i, n=2)      i has 32 iterations: a * b == 32
sch.split(i, factors=[a, b])

What is drawn follows from the schedule's seed; `decision` fixes it, and the trace keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlcnb.ir import prim_ops as p
from mlcnb.tir.schedule.handles import name_of, text_of
from mlcnb.tir.schedule.state import State
from mlcnb.tir.stmt import Block, For


def sample_categorical(
    state: State,
    candidates: Sequence[int],
    probs: Sequence[float],
    decision: int | None = None,
) -> int:
    """One of the candidates, each as likely as its weight in `probs`.

    Raises:
        ScheduleError: the lists differ in length, or `decision` is no position in them.
    """
    if len(candidates) != len(probs) or not candidates:
        raise state.refusal(
            f"sample_categorical: {len(candidates)} candidates have {len(probs)} probabilities"
        )
    chosen = state.random.choice(probs) if decision is None else int(decision)
    if not 0 <= chosen < len(candidates):
        raise state.refusal(
            f"sample_categorical: decision {chosen} is no position among {len(candidates)} "
            "candidates"
        )
    state.decide(chosen)
    return int(candidates[chosen])


def sample_perfect_tile(
    state: State,
    loop: For,
    n: int,
    max_innermost_factor: int = 16,
    decision: Sequence[int] | None = None,
) -> list[int]:
    """`n` factors whose product is the extent of the loop, the last at most `max_innermost_factor`.

    A loop whose extent is no number is not tiled: the factors are that of a single tile.

    Raises:
        ScheduleError: `decision` does not multiply to the extent.
    """
    extent = p.as_int(loop.extent)
    if extent is None:
        raise state.refusal(
            f"sample_perfect_tile: {name_of(loop)} has {text_of(loop.extent)} iterations, not a "
            "fixed number",
            loop,
        )
    tile = _drawn_tile(state, extent, n, max_innermost_factor) if decision is None else decision
    factors = [int(x) for x in tile]
    if len(factors) != n or _product(factors) != extent:
        raise state.refusal(
            f"sample_perfect_tile: decision {factors} is no tile of {extent} in {n} factors", loop
        )
    state.decide(factors)
    return factors


def sample_partitioned_tile(
    state: State,
    loop: For,
    n: int,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
    decision: Sequence[int] | None = None,
) -> list[int]:
    """`n` factors of the extent; those from `partition_pos` on multiply to a multiple of a number.

    Raises:
        ScheduleError: the extent is no multiple of `innerpart_factor`.
    """
    extent = p.as_int(loop.extent) or 0
    if extent == 0 or extent % innerpart_factor:
        raise state.refusal(
            f"sample_partitioned_tile: the extent {text_of(loop.extent)} of {name_of(loop)} is no "
            f"multiple of {innerpart_factor}",
            loop,
        )
    if decision is None:
        factors = _drawn_tile(state, extent // innerpart_factor, n, extent)
        factors[min(partition_pos, n - 1)] *= innerpart_factor
    else:
        factors = [int(x) for x in decision]
    state.decide(factors)
    return factors


def sample_compute_location(state: State, block: Block, decision: int | None = None) -> For:
    """A loop of a consumer under which `block` may be computed.

    Raises:
        ScheduleError: there is none: no consumer, or consumers in different nests.
    """
    tree = state.tree
    consumers = tree.info(tree.scope(block)).consumers(block)
    shared = [x for x in tree.loops(consumers[0]) if not tree.inside(block, x)] if consumers else []
    shared = [x for x in shared if all(tree.inside(c, x) for c in consumers)]
    if not shared:
        raise state.refusal(
            f"sample_compute_location: no loop holds all consumers of {name_of(block)}", block
        )
    chosen = state.random.integer(len(shared)) if decision is None else int(decision)
    state.decide(chosen)
    return shared[chosen]


def _drawn_tile(state: State, extent: int, n: int, most: int) -> list[int]:
    """Factors drawn prime by prime; what makes the last one too large goes to the first."""
    factors = [1] * n
    for prime in _primes(extent):
        place = state.random.integer(n)
        if place == n - 1 and factors[-1] * prime > most:
            place = state.random.integer(n - 1) if n > 1 else 0
        factors[place] *= prime
    return factors


def _primes(number: int) -> list[int]:
    """The prime factors, largest first."""
    found, divisor = [], 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return sorted([*found, number] if number > 1 else found, reverse=True)


def _product(factors: Sequence[int]) -> int:
    total = 1
    for factor in factors:
        total *= factor
    return total

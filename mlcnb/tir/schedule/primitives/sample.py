"""sample_perfect_tile, sample_categorical, sample_partitioned_tile, sample_compute_location: draw.

a, b = sch.sample_perfect_tile(i, n=2)      i has 32 iterations: a * b == 32
sch.split(i, factors=[a, b])

What is drawn follows from the schedule's seed; `decision` fixes it, and the trace keeps it. A
decision that no longer fits (the trace is done again on a loop of another extent) is adapted, as
TVM does it, and the trace keeps what it became.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.ir import prim_ops as p
from mlcnb.tir.schedule.legality.promises import reduce_variables
from mlcnb.tir.schedule.primitives.compute_at import compute_at
from mlcnb.tir.schedule.primitives.compute_inline import compute_inline
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import INLINE, ROOT, Mark, name_of, text_of
from mlcnb.tir.schedule.record.state import State
from mlcnb.tir.stmt import Block, For


@does(pure=True)
def sample_categorical(
    state: State,
    candidates: Sequence[int],
    probs: Sequence[float],
    decision: int | None = None,
) -> int:
    """One of the candidates, each as likely as its weight in `probs`: a number for extents.

    Raises:
        ScheduleError: the lists differ in length, a weight is negative or all are zero, or
            `decision` is no position in them.
    """
    if any(not x >= 0 for x in probs) or (probs and not sum(probs) > 0):
        raise state.refusal(f"sample_categorical: {list(probs)} are no probabilities")
    if len(candidates) != len(probs) or not candidates:
        raise state.refusal(
            f"sample_categorical: {len(candidates)} candidates have {len(probs)} probabilities"
        )
    name = "sample_categorical"
    values = [_whole(state, name, "candidate", x) for x in candidates]
    if decision is None:
        chosen = state.random.choice(probs)
    else:
        chosen = _whole(state, name, "decision", decision)
    if not 0 <= chosen < len(candidates):
        raise state.refusal(
            f"sample_categorical: decision {chosen} is no position among {len(candidates)} "
            "candidates"
        )
    state.decide(chosen)
    return values[chosen]


@does(pure=True)
def sample_perfect_tile(
    state: State,
    loop: For,
    n: int,
    max_innermost_factor: int = 16,
    decision: Sequence[int] | None = None,
) -> list[int]:
    """`n` factors whose product is the extent of the loop, the last at most `max_innermost_factor`.

    A loop whose extent is no number gets -1, 1, ..., 1: `split` takes -1 for None.

    Raises:
        ScheduleError: there are no two factors, or `decision` has another length.
    """
    return _tile(state, "sample_perfect_tile", loop, n, decision, most=max_innermost_factor)


@does(pure=True)
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
        ScheduleError: the extent is no multiple of `innerpart_factor`, or a decision does not keep
            to it.
    """
    name = "sample_partitioned_tile"
    extent = p.as_int(loop.extent)
    if not 0 <= partition_pos < max(n, 1):
        raise state.refusal(f"{name}: partition_pos {partition_pos} is none of {n} factors", loop)
    if innerpart_factor < 1 or (innerpart_factor > 1 and (extent or 1) % innerpart_factor):
        raise state.refusal(
            f"{name}: the extent {text_of(loop.extent)} of {name_of(loop)} is no multiple of "
            f"{innerpart_factor}",
            loop,
        )
    return _tile(state, name, loop, n, decision, first=partition_pos, inner=innerpart_factor)


def _tile(
    state: State,
    name: str,
    loop: For,
    n: int,
    decision: Sequence[int] | None,
    most: int | None = None,
    first: int = 0,
    inner: int = 1,
) -> list[int]:
    """Factors of the extent: drawn, or the decision where it fits, or what it becomes."""
    extent = p.as_int(loop.extent)
    if n < 2:
        raise state.refusal(f"{name}: a tile has two factors or more, {n} asked for", loop)
    tile = [_whole(state, name, "factor", x) for x in decision or ()]
    if decision is not None and len(tile) != n:
        raise state.refusal(f"{name}: decision {tile} has {len(tile)} factors, not {n}", loop)
    if extent is None:
        factors = [-1, *[1] * (n - 1)]
    elif decision is not None:
        factors = _adapted(extent, tile)
    else:
        factors = _drawn_tile(state, extent // inner, n, extent if most is None else most)
        for prime in _primes(inner):
            factors[first + state.random.integer(n - first)] *= prime
    if inner > 1 and prod(factors[first:]) % inner:
        raise state.refusal(
            f"{name}: decision {factors} has no multiple of {inner} from position {first} on", loop
        )
    state.decide(factors)
    return factors


def _whole(state: State, name: str, what: str, value: Any) -> int:
    """A number that is told, of Python or as an expression: a whole one."""
    number = p.as_int(value)
    if number is None or isinstance(value, bool):
        raise state.refusal(f"{name}: {what} {value!r} is no whole number")
    return number


def _adapted(extent: int, tile: list[int]) -> list[int]:
    """From the last factor on: what does not divide what remains becomes all that remains."""
    rest = extent
    for n in range(len(tile) - 1, 0, -1):
        if tile[n] < 1 or rest % tile[n]:
            tile[n] = rest
        rest //= tile[n]
    return [rest, *tile[1:]]


@does(pure=True)
def sample_compute_location(state: State, block: Block, decision: int | None = None) -> For | Mark:
    """Where a block may be computed: inline (-2), where it stands (-1), or a loop of its consumer.

    Loops whose extent is 1 are no places.

    Loops are counted among those around the first consumer; those of one iteration are left out,
    and spatial loops inside of the reduction too: a block computed there would be computed again
    and again. `compute_at` takes what comes out, whatever it is.
    """
    places = _places(state, block)
    positions = sorted(places)
    if decision is None:
        chosen = positions[state.random.integer(len(positions))]
    else:
        most = _whole(state, "sample_compute_location", "decision", decision)
        chosen = max((x for x in positions if x <= most), default=positions[0])
    state.decide(chosen)
    return places[chosen]


def _places(state: State, block: Block) -> dict[int, For | Mark]:
    """Decision -> place, of all places that are legal."""
    places: dict[int, For | Mark] = {-1: ROOT}
    if _is_accepted(compute_inline, state, block):
        places[-2] = INLINE
    tree = state.tree
    consumers = tree.info(tree.scope(block)).consumers(block)
    loops = tree.loops(consumers[0]) if consumers else []
    reduced = False
    for n, x in enumerate(loops):
        if not all(tree.inside(c, x) for c in consumers):
            break
        reducing = any(x.loop_var in reduce_variables(tree, c) for c in consumers)
        if reduced and not reducing and p.as_int(x.extent) != 1:
            break
        reduced = reduced or (reducing and p.as_int(x.extent) != 1)
        if p.as_int(x.extent) != 1 and _is_accepted(compute_at, state, block, x):
            places[n] = x
    return places


def _is_accepted(primitive: Callable[..., Any], state: State, *arguments: Any) -> bool:
    try:
        primitive(state, *arguments)
    except ScheduleError:
        return False
    return True


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

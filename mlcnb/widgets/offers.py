"""What a page is offered at a loop or block: the legal calls, what each is predicted to do, and the
program that it would give.

The program is told by the lines that differ: [lines kept at the top, at the end, those between].
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from mlcnb.core.errors import ScheduleError
from mlcnb.target import Target
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.offers.candidates import Call
from mlcnb.tir.schedule.offers.legal import LegalSteps, primitives
from mlcnb.tir.schedule.record.handles import Handle
from mlcnb.tir.schedule.record.site import Named, Site
from mlcnb.tir.schedule.schedule import Schedule
from mlcnb.view.words import clip, listed
from mlcnb.widgets.card import offer, short
from mlcnb.widgets.storyboard import MOST, Storyboard, cost, predicted

#: calls at one place that a page gets
OFFERS = 120


def offers_of(
    func: PrimFunc, found: LegalSteps, target: Target | None, is_weighed: bool = True
) -> dict[str, Any]:
    """The calls at one place for a page, with the program that each would give.

    `is_weighed`: with the cost that each is predicted to have, which takes longer than all else.
    """
    board = Storyboard(target)
    steps = found.steps[:OFFERS]
    now = board.text(func)
    offers = []
    for n, step in enumerate(steps):
        made = offer(n, step, target, is_weighed)
        del made["text"]
        if step.func is not None and len(now) < 2 * MOST:
            made["ghost"] = _difference(now, board.text(step.func))
        offers.append(made)
    refused = [
        {
            "n": len(found.steps) + n,
            "primitive": name,
            "label": short(call),
            "why": found.refused[name],
        }
        for n, (name, call) in enumerate(found.tried.items())
    ]
    return {
        "where": found.where,
        "steps": offers,
        "refused": refused,
        "free": found.free,
        "lines": board.lines,
        "now": now[: 2 * MOST],
    }


def costs_of(
    found: LegalSteps, target: Target | None, first: int, seconds: float
) -> list[dict[str, Any] | None]:
    """What the calls from the `first` on are predicted to cost: as many as there is time for."""
    costs: list[dict[str, Any] | None] = []
    end = time.perf_counter() + seconds
    for step in found.steps[first:OFFERS]:
        costs.append(None if step.func is None else cost(predicted(step.func, target), target))
        if time.perf_counter() > end:
            break
    return costs


def calls_of(found: LegalSteps) -> list[Any]:
    """The calls by their numbers in an offer: legal ones, then refused ones."""
    return [*(x.call for x in found.steps), *found.tried.values()]


def call_of(
    primitive: str, sch: Schedule, name: str, node: Any, arguments: Mapping[str, Any]
) -> Call:
    """A call whose first argument is a node (or some), the others by name."""
    known = {x.name: x for x in primitives()}
    if primitive not in known:
        near = get_close_matches(primitive, known, 3) or ["mlc.tir.legal_steps lists them"]
        raise ScheduleError(f"there is no primitive {clip(primitive)!r}", hint=listed(near))
    chosen = known[primitive]
    site = Site.of(sch.state.tree(name), node[0] if isinstance(node, list) else node)
    first = next(iter(chosen.signature.parameters))
    given: dict[str, Any] = {}
    for key, value in {first: node, **arguments}.items():
        if key not in chosen.signature.parameters:
            raise ScheduleError(
                f"{primitive}: there is no argument {clip(str(key))!r}",
                hint=listed(chosen.signature.parameters, 12),
            )
        given[key] = _named(sch, site, value)
    if chosen.varargs in given and not isinstance(given[chosen.varargs], list):
        given[chosen.varargs] = [given[chosen.varargs]]
    return Call(chosen, given)


def _named(sch: Schedule, site: Site, value: Any) -> Any:
    """Nodes and handles as the candidates have them."""
    if isinstance(value, Handle):
        value = sch.state.node(value)[1]
    if isinstance(value, s.For | s.Block):
        return next(
            (x for x in (*site.loops, *site.blocks) if x.node is value), Named(value, "loop")
        )
    return [_named(sch, site, x) for x in value] if isinstance(value, list | tuple) else value


def _difference(old: Sequence[int], new: Sequence[int]) -> list[Any]:
    """[lines that stay at the top, lines that stay at the end, the lines between, flat]."""
    before, after = list(_pairs(old)), list(_pairs(new))
    most = min(len(before), len(after))
    head = next((n for n in range(most) if before[n] != after[n]), most)
    most -= head
    tail = next((n for n in range(most) if before[-1 - n] != after[-1 - n]), most)
    return [head, tail, [x for pair in after[head : len(after) - tail] for x in pair]]


def _pairs(flat: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip(flat[::2], flat[1::2], strict=True)

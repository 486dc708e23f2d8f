"""repairs: what can be done in place of a step that was refused.

    vectorize(loop k) of a sum        vectorize(loop j), unroll(loop k), rfactor(loop k, 0)

Neighbours of the refused step are tried on the program that refused it: the same primitive at other
places of the nest, and others that are about the same thing. What is given is legal, by the rules
that refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from mlcnb.core.errors import MLCError, ScheduleError
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.cost import find_anchor_block
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.offers.candidates import Call, calls
from mlcnb.tir.schedule.offers.legal import LegalStep, attempt, primitives
from mlcnb.tir.schedule.record.facts import facts_of
from mlcnb.tir.schedule.record.site import Site
from mlcnb.tir.schedule.record.step import Primitive
from mlcnb.tir.schedule.record.tree import Tree
from mlcnb.tir.schedule.schedule import Schedule

#: repairs that are given, and calls that are tried for them
MOST, TRIES = 4, 40
#: of the same primitive
SAME = 2


def repairs(error: ScheduleError) -> list[LegalStep]:
    """Legal steps near a refused one, at most four; none where it is not known what was tried."""
    root, name = error.root, error.message.partition(":")[0]
    known = {x.name: x for x in primitives()}
    if not isinstance(root, PrimFunc) or name not in known:
        return []
    try:
        sch = Schedule(root, error_render_level="none")
    except MLCError:
        return []
    function = next(v.name_hint for v in sch.mod)
    tree = sch.state.tree(function)
    place = error.where if isinstance(error.where, s.For | s.Block) else find_anchor_block(root)
    if place is None or place not in tree:
        return []
    same = list(islice(_same(known[name], tree, place), TRIES))
    if error.advice:  # a call that the hint spells comes first
        same.sort(key=lambda call: error.advice not in call.text)
    found = _legal(sch, function, iter(same), SAME)
    for friend in facts_of(name).near.split():
        if len(found) < MOST:
            near = _calls(known[friend], tree, (place, *_block_of(tree, place)))
            found += _legal(sch, function, near, 1)
    return found[:MOST]


def _same(primitive: Primitive, tree: Tree, place: s.For | s.Block) -> Iterator[Call]:
    """Calls of the refused primitive: at the place itself, then at the loops beside it."""
    loops = tree.loops(*_block_of(tree, place)) if isinstance(place, s.For) else []
    others = [x for x in loops if x is not place]
    inner_first = others[::-1] if primitive.name in ("vectorize", "unroll") else others
    yield from _calls(primitive, tree, (place, *inner_first))


def _block_of(tree: Tree, place: s.For | s.Block) -> list[s.Block]:
    """The first block under a loop."""
    return tree.blocks_under(place)[:1] if isinstance(place, s.For) else [place]


def _calls(primitive: Primitive, tree: Tree, places: tuple[s.For | s.Block, ...]) -> Iterator[Call]:
    seen = set()
    for place in places:
        for call in calls(primitive, Site.of(tree, place)):
            if call.text not in seen:
                seen.add(call.text)
                yield call


def _legal(sch: Schedule, function: str, near: Iterator[Call], most: int) -> list[LegalStep]:
    """The first calls that are legal, of those that are tried."""
    found: list[LegalStep] = []
    for call, _ in zip(near, range(TRIES), strict=False):
        done = attempt(sch, function, call)
        if isinstance(done, LegalStep):
            found.append(done)
        if len(found) == most:
            break
    return found

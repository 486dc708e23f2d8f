"""split: one loop becomes several.

for i in range(32):             for i_0, i_1 in T.grid(8, 4):
    with T.block("S"):    ->        with T.block("S"):
        v = i                           v = i_0 * 4 + i_1

Where the factors do not divide the extent (30 = 8 * 4 - 2), the block gets T.where(i_0 * 4 + i_1
< 30).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mlcnb.arith.analyzer import can_prove
from mlcnb.arith.extremes import at_most, extremes
from mlcnb.arith.reading import Context, of, simplified
from mlcnb.arith.sum import ZERO, Sum
from mlcnb.core.node import replace
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir.schedule.edit.rebuild import Guard, Substitution
from mlcnb.tir.schedule.legality.boxes import spans
from mlcnb.tir.schedule.legality.regions import known_bounds
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.handles import listed, name_of, text_of
from mlcnb.tir.schedule.record.site import Site
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import For, ForKind, Stmt

#: divisors of an extent that are tried
MOST_TILES = 24


def tiles(site: Site) -> list[list[Any]]:
    """[None, n] for the divisors of the loop's extent, where it has any; else for usual sizes."""
    extent = p.as_int(site.target.node.extent) if isinstance(site.target.node, For) else None
    sizes = [2, 4, 8, 16, 32]
    if extent is not None:
        divisors = [n for n in range(2, extent) if extent % n == 0]
        sizes = divisors[:MOST_TILES] or [n for n in sizes if n < extent]
    return [[None, n] for n in sizes]


@does(still=True, tries={"factors": tiles})
def split(
    state: State,
    loop: For,
    factors: Sequence[Any],
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
) -> Change:
    """Split a loop into nested loops of the given extents, outermost first; order is kept.

    Args:
        state: the program.
        loop: a serial loop without annotations; the new ones start at 0, wherever it does.
        factors: the extents; one may be None (or -1) and is then what is needed to cover the loop.
        preserve_unit_iters: keep loops of extent 1 in the bindings of blocks.
        disable_predication: leave out the predicate where the factors do not divide; the caller
            vouches for it.

    Raises:
        ScheduleError: the factors do not cover the loop, or the loop is bound or annotated.
    """
    if not isinstance(factors, Sequence) or isinstance(factors, str):
        raise state.refusal(
            f"split: factors are a list, one for each new loop, not {factors!r}",
            loop,
            f"factors=[None, {p.as_int(factors) or 8}]",
        )
    refuse_marked(state, "split", loop)
    extents = _extents(state, loop, [None if p.as_int(f) == -1 else f for f in factors])
    loops = [
        For(
            e.Var(f"{loop.loop_var.name}_{n}", loop.loop_var.dtype),
            p.const(0, loop.loop_var.dtype),
            x,
            ForKind.SERIAL,
            loop,
        )
        for n, x in enumerate(extents)
    ]
    value = _value(loops)
    known = known_bounds(state.tree, loop)
    for new in loops:
        last = p.as_int(new.extent)
        known[new.loop_var] = (0, None if last is None else last - 1)
    if not preserve_unit_iters:
        units = {x.loop_var: ZERO for x in loops if p.as_int(x.extent) == 1}
        value = of(value.expr(loop.loop_var.dtype), Context(values=units))
    edit = state.edit()
    context = Context(known, {loop.loop_var: value.plus(of(loop.min))})
    body = Substitution(context, edit.forward).stmt(loop.body)
    if not disable_predication:
        body = _predicated(state, loop, value, loops, body, edit.forward)
    made: list[For] = []
    for new in reversed(loops):
        body = replace(new, body=body)
        made.insert(0, body)
    edit.put(loop, body)
    return Change.of(edit, made)


def refuse_marked(state: State, primitive: str, loop: For) -> None:
    """Loops that are bound to threads, parallel, vectorized or annotated stay whole."""
    if loop.thread_binding is not None:
        raise state.refusal(
            f"{primitive}: {name_of(loop)} is bound to {loop.thread_binding}",
            loop,
            hint=f"{primitive} first, bind afterwards",
        )
    if loop.annotations:
        raise state.refusal(
            f"{primitive}: {name_of(loop)} is annotated with {', '.join(loop.annotations)}",
            loop,
            hint=f"{primitive} first, annotate afterwards",
        )


def _extents(state: State, loop: For, factors: list[Any]) -> list[e.PrimExpr]:
    dtype = loop.loop_var.dtype
    if not factors:
        raise state.refusal("split: no factors given", loop)
    odd = [f for f in factors if not isinstance(f, int | e.PrimExpr | None) or is_fraction(f)]
    if odd:
        raise state.refusal(f"split: factor {odd[0]} is no integer", loop)
    if sum(f is None for f in factors) > 1:
        raise state.refusal(f"split: more than one of the factors {factors} is None", loop)
    for f in factors:
        known = p.as_int(f)
        if f is not None and known is not None and known < 1:
            raise state.refusal(f"split: factor {known} of {factors} is not positive", loop)
    _refuse_overflow(state, loop, factors, factors)
    given = (p.fitted(dtype, f) for f in factors if f is not None)
    product = p.product_of(given, p.const(1, dtype))
    total = p.as_int(loop.extent)
    if None in factors:
        rest = simplified(p.ceildiv(loop.extent, product))
        extents = [rest if f is None else p.fitted(dtype, f) for f in factors]
        _refuse_overflow(state, loop, factors, extents)
        return extents
    covered = p.as_int(product)
    if total is not None and covered is not None and covered < total:
        raise state.refusal(
            f"split: factors {factors} make {covered}, which does not cover "
            f"{name_of(loop)} of extent {total}",
            loop,
            hint="use None for one factor",
        )
    if (total is None or covered is None) and not _covers(loop, factors, product):
        raise state.refusal(
            f"split: factors {listed(factors)} cannot be shown to cover "
            f"{name_of(loop)} of extent {text_of(loop.extent)}",
            loop,
            hint="use None for one factor",
        )
    return [simplified(p.fitted(dtype, f)) for f in factors]


def _refuse_overflow(state: State, loop: For, factors: list[Any], extents: list[Any]) -> None:
    """The place that the new loops stand at together must be a number of the old variable's dtype:
    `i_0 * 2**30 + i_1 < n` would wrap around.
    """
    dtype = loop.loop_var.dtype
    total = prod(x for x in map(p.as_int, extents) if x is not None)
    if not dtype.holds(total - 1):
        raise state.refusal(
            f"split: factors {listed(factors)} make {total} iterations, more than {dtype}, the "
            f"dtype of {name_of(loop)}, can count",
            loop,
        )


def is_fraction(f: Any) -> bool:
    """True for an expression that is no integer."""
    return isinstance(f, e.PrimExpr) and not f.dtype.is_integer


def _covers(loop: For, factors: list[Any], product: e.PrimExpr) -> bool:
    """True if the factors make the extent, or one of them is the extent divided by the others,
    rounded up: `T.ceildiv(n, 4 * T.vscale())` and `4 * T.vscale()`.
    """
    if _is_same(product, loop.extent):
        return True
    dtype = loop.loop_var.dtype
    for n, factor in enumerate(factors):
        if isinstance(factor, e.FloorDiv):
            rest = (p.fitted(dtype, x) for x in (*factors[:n], *factors[n + 1 :]))
            others = p.product_of(rest, p.const(1, dtype))
            needed = p.ceildiv(loop.extent, others)
            is_rounded_up = _is_same(p.fitted(dtype, factor), needed)
            if is_rounded_up and can_prove(p.greater(others, p.const(0, dtype))):
                return True
    return False


def _is_same(x: e.PrimExpr, y: e.PrimExpr) -> bool:
    return of(x).is_same(of(y))


def _value(loops: list[For]) -> Sum:
    """i_0 * (f_1 * f_2) + i_1 * f_2 + i_2"""
    total = ZERO
    step: e.PrimExpr = p.const(1, loops[0].loop_var.dtype)
    for loop in reversed(loops):
        total = of(p.multiply(loop.loop_var, step)).plus(total)
        step = simplified(step * loop.extent)
    return total


def _predicated(
    state: State, loop: For, value: Sum, loops: list[For], body: Stmt, forward: dict[Stmt, Stmt]
) -> Stmt:
    """The body, guarded where the new loops together run further than the old one."""
    ends = extremes(value, spans(loops, {}), {})
    extent = of(loop.extent)
    if ends is not None and at_most(ends[1].shifted(1), extent, {}):
        return body
    if not state.tree.blocks_under(loop):
        raise state.refusal(
            f"split: the factors do not divide {name_of(loop)} of extent {text_of(loop.extent)}, "
            "and it holds no block that could be guarded",
            loop,
        )
    counted = [x for x in loops if value.uses({x.loop_var})]
    condition = p.less(_nested_value(counted), loop.extent)
    return Guard(condition, forward).stmt(body)


def _nested_value(loops: list[For]) -> e.PrimExpr:
    """(i_0 * f_1 + i_1) * f_2 + i_2: the form that TVM's predicates have."""
    total: e.PrimExpr = loops[0].loop_var
    for loop in loops[1:]:
        total = p.add(p.multiply(total, loop.extent), loop.loop_var)
    return total

"""Which values an iteration of a loop hands to later ones: what keeps a buffer out of the loop.

for i in range(8):                              for i in range(8):
    C[i] = A[i] * 2                                 T[0] = A[i] * 2
    B[i] = C[i] + C[i - 1]                          B[i] = T[0] + 1
carries C: iteration i reads what i - 1 wrote   carries nothing: each iteration may have its own T

A buffer is *private* to a loop if every iteration writes all that it reads of it. Two tests, each
sure when it says yes: iterations touch elements of their own, by the look of the indices or by isl;
or each read is covered by one write before it in the same iteration. What neither can tell counts
as carried.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.arith.digits import Digit, make_up, overlap
from mlcnb.arith.ends import ends_of
from mlcnb.arith.interval import bounds_of
from mlcnb.arith.linear import atom_depends, depends_on
from mlcnb.arith.proof import is_nonnegative
from mlcnb.arith.sum import Atom, Sum
from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Range, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.access.order import Condition, Order, Ordered, Side
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.functor import substitute

#: loops whose iterations run one after the other
ORDERED = (s.ForKind.SERIAL, s.ForKind.UNROLLED)
#: accesses to one buffer of which pairs are looked at
MOST = 64
#: the lower ends and the upper ends of one dimension
Limits = tuple[list[Sum], list[Sum]]


class Carried:
    """Answers for buffers that live in a statement: to which loops below are they private?"""

    def __init__(self, body: s.Stmt, buffers: Iterable[Buffer]) -> None:
        self.found = Order(body, buffers)
        self.analyzer = Analyzer()
        loops = {x: None for each in self.found.of.values() for a in each for x in a.loops}
        #: whether a variable stands for one loop here and for another one there
        self.is_ambiguous = len({x.loop_var for x in loops}) < len({_domain(x) for x in loops})
        for loop in loops:
            self.analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))

    def is_private(self, buffer: Buffer, loop: s.For) -> bool:
        """True if no iteration of `loop` reads of the buffer what another one wrote.

        All uses of the buffer must stand inside the loop; the loops around it count as fixed.
        """
        accesses = self.found.of[buffer.data]
        if buffer.data in self.found.unknown or self.is_ambiguous:
            return False
        if any(a.buffer is not accesses[0].buffer or loop not in a.loops for a in accesses):
            return False
        return (
            p.as_int(loop.extent) == 1
            or self.is_told(accesses, loop)
            or self.is_covered(accesses, loop)
            or self.found.never_meet(accesses, loop)
        )

    # iterations touch elements of their own

    def is_apart(self, accesses: Sequence[Ordered], loop: s.For) -> bool:
        """True if an element that one iteration touches is touched by no other."""
        return self.is_told(accesses, loop) or self.found.never_meet(accesses, loop)

    def are_apart(self, buffers: Iterable[Any], loop: s.For) -> bool:
        """True if that holds of each of these pointers, and nothing is touched in unknown ways."""
        return not self.found.unknown and all(
            self.is_apart(self.found.of[data], loop) for data in buffers
        )

    def is_told(self, accesses: Sequence[Ordered], loop: s.For) -> bool:
        """True if indices tell the iteration: the quick answer."""
        if self.is_ambiguous or any(a.buffer is not accesses[0].buffer for a in accesses):
            return False
        var = self.atom(loop)
        digits: list[Digit] = []
        for axis in range(len(accesses[0].sides) if accesses else 0):
            for modulo in (None, *self.periods(accesses, loop, axis)):
                hull = self.hull(accesses, loop, axis, modulo)
                atom = None if hull is None else _told(hull, loop.loop_var)
                if atom is var:
                    return True
                if atom is not None and atom.kind == "split" and atom.args[0].only_atom is var:
                    digits.append(atom.args[1:])
        return bool(digits) and self.make_up(var, digits)

    def periods(self, accesses: Sequence[Ordered], loop: s.For, axis: int) -> list[int]:
        """Steps that loops inside make: what is left of an index modulo one may tell more."""
        found = set()
        for access in accesses:
            inner = {x.loop_var for x in _inside(access.loops, loop)}
            form = self.forms(access.sides[axis], {})
            if form is not None:
                found |= {abs(c) for m, c in form[0].terms.items() if _depends(m, inner)}
        return sorted(found - {1})

    def hull(
        self, accesses: Sequence[Ordered], loop: s.For, axis: int, modulo: int | None = None
    ) -> tuple[Sum, Sum] | None:
        """Smallest and largest index in one iteration, if they are a fixed distance apart.

        modulo: of the indices modulo this number.
        """
        low: Sum | None = None
        high: Sum | None = None
        for access in accesses:
            side = access.sides[axis]
            if modulo is not None and side is not None:
                part = p.floormod(side[0], modulo)
                side = (part, part) if side[0] is side[1] else None
            first, last = self.ends(side, _inside(access.loops, loop))
            if first is None or last is None:
                return None
            low, high = low or first, high or last
            below, above = first.minus(low), last.minus(high)
            if below.terms or above.terms:
                return None
            low, high = low.shifted(min(0, below.const)), high.shifted(max(0, above.const))
        assert low is not None and high is not None
        return None if high.minus(low).terms else (low, high)

    def make_up(self, var: Atom, digits: Collection[Digit]) -> bool:
        """True if these digits of a variable tell its value."""
        low, high = bounds_of(self.analyzer.context, Sum(0, {var: 1}))
        return low >= 0 and make_up(digits, high)

    # each read is covered by a write before it

    def is_covered(self, accesses: Sequence[Ordered], loop: s.For) -> bool:
        """True if one write before each read, in the same iteration, writes all that it reads."""
        if len(accesses) > MOST:
            return False
        writes: list[Ordered] = []
        for access in accesses:
            if access.is_write:
                writes.append(access)
            elif not any(self.covers(write, access, loop) for write in reversed(writes)):
                return False
        return True

    def covers(self, write: Ordered, read: Ordered, loop: s.For) -> bool:
        """True if `write`, which stands before `read` in the program, wrote all that it reads."""
        shared = _common(write.loops, read.loops)
        own = write.loops[len(shared) :]
        first = self.first_steps(write, read, _inside(shared, loop))
        if not write.is_sure or first is None:
            return False
        written = self.written(write, read, own, first)
        needed = self.needed(read, read.loops[len(shared) :])
        return written is not None and all(
            self.holds(whole, part) for whole, part in zip(written, needed, strict=True)
        )

    def first_steps(
        self, write: Ordered, read: Ordered, inside: Sequence[s.For]
    ) -> dict[Var, e.PrimExpr] | None:
        """The values of loops in whose first step the write runs: `if k == 0`, k one of `inside`.

        Every step of those loops comes after the first, or is it. None: there are other equalities.
        """
        starts = {x.loop_var: x.min for x in inside if x.kind in ORDERED}
        first: dict[Var, e.PrimExpr] = {}
        for condition in _open(write, read, {}):
            if condition.is_equality and condition.form is not None:
                used = _variables(condition.form)
                if not used <= set(starts):
                    return None
                first.update((v, starts[v]) for v in used)
        fixed = (r for x in write.loops for r in (x.min, x.extent))
        return None if any(_variables(x) & set(first) for x in fixed) else first

    def written(
        self, write: Ordered, read: Ordered, own: Sequence[s.For], first: Mapping[Var, e.PrimExpr]
    ) -> list[Limits] | None:
        """The box that a write fills while its own loops run; None if it may leave holes."""
        sides = [self.forms(side, first) for side in write.sides]
        if any(side is None for side in sides):
            return None
        forms: list[tuple[Sum, Sum]] = sides  # type: ignore[assignment]
        if not self.fills_a_box(forms, own):
            return None
        box: list[Limits] = []
        for low, high in forms:
            ends = self.ends_of(low, own)[0], self.ends_of(high, own)[1]
            if ends[0] is None or ends[1] is None:
                return None
            box.append(([ends[0]], [ends[1]]))
        for condition in _open(write, read, first):
            if not self.cut(box, forms, condition, own, first):
                return None
        return box

    def cut(
        self,
        box: list[Limits],
        forms: Sequence[tuple[Sum, Sum]],
        condition: Condition,
        own: Sequence[s.For],
        first: Mapping[Var, e.PrimExpr],
    ) -> bool:
        """Cut a box where a condition bounds one of its indices; False if it says more."""
        if condition.form is None:
            return False
        form = self.analyzer.normal_form(substitute(condition.form, first))
        if condition.is_equality:
            return form.is_same(Sum())
        if is_nonnegative(self.analyzer.context, form.scaled(-1)):
            return True
        moving = {x.loop_var for x in own}
        for (lows, highs), (low, high) in zip(box, forms, strict=True):
            if low.is_same(high) and not depends_on(low.minus(form), moving):
                highs.append(low.minus(form))
                return True
            if low.is_same(high) and not depends_on(low.plus(form), moving):
                lows.append(low.plus(form))
                return True
        return False

    def needed(self, read: Ordered, own: Sequence[s.For]) -> list[Limits]:
        """What the indices of a read are never below and never above: ends, shape, conditions."""
        found: list[Limits] = []
        moving = {x.loop_var for x in own}
        for side, extent in zip(read.sides, read.buffer.shape, strict=True):
            low, high = self.ends(side, own)
            last = self.analyzer.normal_form(extent).shifted(-1)
            limits = [Sum(), *([low] if low else [])], [last, *([high] if high else [])]
            form = self.forms(side, {})
            for condition in read.conditions if form is not None else ():
                if condition.form is not None and not condition.is_equality:
                    bound = self.analyzer.normal_form(condition.form)
                    below, above = form[0].plus(bound), form[1].minus(bound)  # type: ignore[index]
                    limits[0].extend([] if depends_on(below, moving) else [below])
                    limits[1].extend([] if depends_on(above, moving) else [above])
            found.append(limits)
        return found

    def holds(self, whole: Limits, part: Limits) -> bool:
        """True if every index within `part` is within `whole`."""
        ctx = self.analyzer.context
        lows = all(any(is_nonnegative(ctx, x.minus(end)) for x in part[0]) for end in whole[0])
        return lows and all(
            any(is_nonnegative(ctx, end.minus(x)) for x in part[1]) for end in whole[1]
        )

    def fills_a_box(self, sides: Sequence[tuple[Sum, Sum]], own: Sequence[s.For]) -> bool:
        """True if the indices take every value between their ends, in all combinations."""
        moving = {x.loop_var: x for x in own}
        seen: dict[Var, list[Digit]] = {}
        for low, high in sides:
            width = high.minus(low)
            terms = [(abs(c), m) for m, c in low.terms.items() if _depends(m, moving)]
            terms.sort(key=lambda term: term[0])
            reach = width.const
            for at, (coefficient, atom) in enumerate(terms, start=1):
                span = self.span(atom, moving, seen, may_be_symbolic=at == len(terms))
                if width.terms or span is None or coefficient > reach + 1:
                    return False
                reach += coefficient * span
        context = self.analyzer.context
        rest = (x for v, x in moving.items() if v not in seen)
        return all(
            is_nonnegative(context, self.analyzer.normal_form(x.extent).shifted(-1)) for x in rest
        )

    def span(
        self,
        atom: Atom,
        moving: Mapping[Var, s.For],
        seen: dict[Var, list[Digit]],
        may_be_symbolic: bool,
    ) -> int | None:
        """How far a loop variable, or a digit of one, reaches; None if that is not sure.

        seen: the digits used so far; one that is used twice makes dimensions move together.
        """
        inner = atom.args[0].only_atom if atom.kind == "split" else atom
        var = None if inner is None or inner.kind != "var" else inner.expr
        if not isinstance(var, Var) or var not in moving:
            return None
        extent = p.as_int(moving[var].extent)
        lower, upper = (1, None) if atom is inner else atom.args[1:]
        used = seen.setdefault(var, [])
        if any(overlap((lower, upper), other) for other in used):
            return None
        used.append((lower, upper))
        if extent is None:
            return 0 if may_be_symbolic and atom is inner else None
        if atom is inner:
            return extent - 1
        if not p.is_const(moving[var].min, 0) or extent % (upper or lower):
            return None
        return (upper or extent) // lower - 1

    # indices as polynomials

    def atom(self, loop: s.For) -> Atom:
        """The atom of a loop's variable."""
        return self.analyzer.context.var(loop.loop_var)

    def forms(self, side: Side, values: Mapping[Var, e.PrimExpr]) -> tuple[Sum, Sum] | None:
        """First and last index as polynomials, with the values of some variables put in."""
        if side is None:
            return None
        low, high = (self.analyzer.normal_form(substitute(x, values)) for x in side)
        return low, high

    def ends(self, side: Side, loops: Sequence[s.For]) -> tuple[Sum | None, Sum | None]:
        """Smallest and largest index while some loops run."""
        forms = self.forms(side, {})
        if forms is None:
            return None, None
        return self.ends_of(forms[0], loops)[0], self.ends_of(forms[1], loops)[1]

    def ends_of(self, x: Sum, loops: Sequence[s.For]) -> tuple[Sum | None, Sum | None]:
        """Smallest and largest value while some loops run."""
        domains = {loop.loop_var: Range(loop.min, loop.extent) for loop in loops}
        return ends_of(self.analyzer, x, domains)


def _domain(loop: s.For) -> tuple[Any, ...]:
    """The variable of a loop, and its range, the same for the same numbers."""
    ends = ((p.as_int(x), x) for x in (loop.min, loop.extent))
    return (loop.loop_var, *(x if number is None else number for number, x in ends))


def _told(hull: tuple[Sum, Sum], var: Var) -> Atom | None:
    """The one atom with `var` in it, if its step is larger than what is between the ends."""
    low, high = hull
    moving = [(m, c) for m, c in low.terms.items() if _depends(m, {var})]
    if len(moving) != 1 or moving[0][0].kind == "product":
        return None
    atom, coefficient = moving[0]
    return atom if abs(coefficient) > high.const - low.const else None


def _depends(atom: Atom, variables: Collection[Var]) -> bool:
    return any(atom_depends(x, variables) for x in atom.factors)


def _variables(x: e.PrimExpr) -> set[Var]:
    """All that a value depends on, pointers among it."""
    return {n for n in walk(x) if isinstance(n, Var)}


def _common(a: tuple[s.For, ...], b: tuple[s.For, ...]) -> tuple[s.For, ...]:
    """The loops that two accesses share."""
    return tuple(x for x, _ in takewhile(lambda pair: pair[0] is pair[1], zip(a, b, strict=False)))


def _inside(loops: tuple[s.For, ...], loop: s.For) -> tuple[s.For, ...]:
    """Those of the loops that stand inside `loop`."""
    return loops[loops.index(loop) + 1 :]


def _open(write: Ordered, read: Ordered, first: Mapping[Any, Any]) -> list[Condition]:
    """The conditions of a write that do not hold already because the read is reached.

    What both stand under holds, unless it is asked again in an earlier step (`first`) of a loop.
    """
    owners = {c.owner for c in read.conditions}

    def is_open(c: Condition) -> bool:
        if c.owner not in owners:
            return True
        return bool(first) and (c.form is None or bool(_variables(c.form) & set(first)))

    return [c for c in write.conditions if is_open(c)]

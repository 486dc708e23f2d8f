"""Blocks that say something false about themselves, found exactly where indices are linear.

for i in range(16):
    with T.block("B"):
        vi = T.axis.spatial(8, i)        vi takes the value 8 at i = 8, outside of its domain 0..8
        T.reads(A[vi])
        B[vi] = A[vi + 1]                A[1] is read at i = 0, which T.reads does not say

What depends on values in memory cannot be refuted, and is let through; bounds of buffers are the
matter of `verify_bounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlcnb.arith.isl import EVERY_PROGRAM, ask, first_point, read_set
from mlcnb.arith.presburger import Translator
from mlcnb.core import display
from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Call, PrimExpr, Range, Var
from mlcnb.ir.structural import structural_equal
from mlcnb.tir import stmt as s
from mlcnb.tir.access.read import outside
from mlcnb.tir.access.relation import Relations
from mlcnb.tir.access.scope import Access, Scope, variable_of
from mlcnb.tir.analysis.access import detect_buffer_access
from mlcnb.tir.analysis.made import is_made
from mlcnb.tir.analysis.reduction import started_buffers
from mlcnb.tir.analysis.solutions import told
from mlcnb.tir.analysis.structure import statements
from mlcnb.tir.buffer import Buffer, BufferRegion
from mlcnb.tir.function import PrimFunc

#: marks of blocks whose regions were set by hand
BY_HAND = ("explicit_read_region", "explicit_write_region", "unsafe_hidden_buffer_access")


class DomainChecker:
    """Goes through a function; calls `fail(message, where, hint)` for what it refutes."""

    def __init__(self, func: PrimFunc, fail: Callable[[str, Any, str], None]) -> None:
        self.known = Relations.of(func)
        self.fail = fail
        #: buffer -> number of blocks around the place where it is allocated or matched
        self.depth: dict[Buffer, int] = {}
        #: blocks that say just what is found in their bodies, or not
        self.complete: dict[s.Block, bool] = {}
        self.started: dict[s.Block, set[Buffer]] = {}
        #: block -> what its axes are bound to, and how many blocks around hold all of its reduction
        self.values: dict[s.Block, tuple[PrimExpr, ...]] = {}
        self.whole_in: dict[s.Block, int] = {}

    def check(self) -> None:
        """Blocks and accesses in the order of the program."""
        accesses, done = self.known.reading.accesses, 0
        for placed in self.known.reading.statements:
            if isinstance(placed.stmt, s.BlockRealize):
                for access in accesses[done : placed.first]:
                    self.access(access)
                done = placed.first
                self.realize(placed.stmt, placed.scope)
        for access in accesses[done:]:
            self.access(access)

    # axes

    def realize(self, n: s.BlockRealize, scope: Scope) -> None:
        """A block: each axis stays in its domain, wherever the predicate holds."""
        block = n.block
        for axis, value in zip(block.iter_vars, n.iter_values, strict=True):
            if not _is_loop_over(scope, value, axis.dom):
                self.axis(n, axis, value, scope)
        self.values[block] = n.iter_values
        self.whole_in[block] = self.reduced_in(n, scope.blocks)
        for buffer in (*block.alloc_buffers, *(m.buffer for m in block.match_buffers)):
            self.depth[buffer] = len(scope.blocks) + 1

    def reduced_in(self, n: s.BlockRealize, blocks: Sequence[s.Block]) -> int:
        """How many of the blocks around a block, from the outside in, hold all of its reduction.

        Its reduce axes tell: they use variables of loops, which are inside the next block, or axes
        of that, and then it is the values of these that tell.
        """
        used = _variables_of_axes(n.block, n.iter_values, None)
        for depth in range(len(blocks), 0, -1):
            block = blocks[depth - 1]
            if not used & {axis.var for axis in block.iter_vars}:
                return depth
            used = _variables_of_axes(block, self.values[block], used)
        return 0

    def axis(self, n: s.BlockRealize, axis: s.IterVar, value: PrimExpr, scope: Scope) -> None:
        """Refuse an axis that leaves its domain."""
        text = self.known.at(scope).text.copy()
        inside = text.condition(n.predicate)
        v, low = text.value(value), text.value(axis.dom.min)
        end = f"{low} + {text.value(axis.dom.extent)}"
        if not text.exact:
            return
        leaves = f"x = {v} and (x < {low} or x >= {end})"
        point = self.solve(scope, text, [inside, leaves], ["x"])
        if point is None:
            return
        (taken,), when = point
        first, last = axis.dom.min, p.add(axis.dom.min, axis.dom.extent)
        self.fail(
            f"axis {axis.var.name} of block {n.block.name_hint} takes the value {taken}"
            f"{when}, outside of its domain {display.text(first)}..{display.text(last)}",
            n,
            "give the axis the extent that its loops have, or add T.where",
        )

    def solve(
        self, scope: Scope, text: Translator, conditions: list[str], unknowns: list[str]
    ) -> tuple[tuple[int, ...], str] | None:
        """The first values of the unknowns that are possible, and where: ` at i = 8`."""
        around = self.known.at(scope)
        condition = text.where([*around.conditions, *conditions])
        dims = ", ".join([*around.dims, *unknowns])
        described = f"{self.known.head}{{ [{dims}] : {condition} }}"
        made = ask(lambda: read_set(described), EVERY_PROGRAM)
        point = None if made is None else first_point(made, EVERY_PROGRAM)
        if point is None:
            return None
        count = len(around.dims)
        where = told(point, scope.loops, around.text)
        return point.values[count:], f" at {where}" if where else ""

    # regions

    def access(self, found: Access) -> None:
        """An access: each block around it says that it happens. One of any element is let be."""
        if found.indices is None:
            return
        write, blocks = found.is_write, found.blocks
        text: Translator | None = None
        matched = self.known.reading.matched
        place: Any = found.node
        if isinstance(place, Call):  # an instruction: of memory that no view stands for
            if any(source.buffer is found.buffer for source in matched.values()):
                return
            place = found
        buffer, indices = place.buffer, place.indices
        whole = 0
        for depth in range(len(blocks), 0, -1):
            block = blocks[depth - 1]
            started = buffer in self.started_in(block)
            if started:
                whole = max(whole, self.whole_in.get(block, 0))
            starts = started or depth <= whole
            if text is None and (
                _is_said_so(block, buffer, indices, write, starts) or self.says_all(block)
            ):
                continue
            if text is None:
                text = self.known.at(found.scope).text.copy()
            while buffer in matched and self.depth.get(buffer, 0) >= depth:
                source = matched[buffer]
                buffer, indices = source.buffer, outside(source, indices)
            at = [text.value(index) for index in indices]
            if self.depth.get(buffer, 0) >= depth or not text.exact:
                return
            self.covered(block, found, buffer, at, text, starts)

    def says_all(self, block: s.Block) -> bool:
        """True for a block that says what its body is found to touch, as made programs do."""
        if block not in self.complete:
            found = detect_buffer_access(block)
            self.complete[block] = all(map(_is_within, found, (block.reads, block.writes)))
        return self.complete[block]

    def started_in(self, block: s.Block) -> set[Buffer]:
        """What a block starts itself, and need not say that it reads."""
        if block not in self.started:
            self.started[block] = started_buffers(block)
        return self.started[block]

    def covered(
        self,
        block: s.Block,
        found: Access,
        buffer: Buffer,
        at: list[str],
        text: Translator,
        starts: bool,
    ) -> None:
        """Refuse an access that a block does not say."""
        if not (block.iter_vars or block.reads or block.writes):
            return  # a scope, which says nothing
        if any(mark in block.annotations for mark in BY_HAND):
            return
        starts = starts or buffer in self.started_in(block)
        write, said = found.is_write, _said(block, buffer, found.is_write, starts)
        if said is None:
            return
        text = text.copy()
        boxes = [" and ".join(_in_box(text, r, at)) for r in said]
        if not text.exact:
            return
        beyond = [f"not ({box})" for box in boxes]
        elements = [f"e{n}" for n in range(len(at))]
        same = [f"{name} = {x}" for name, x in zip(elements, at, strict=True)]
        point = self.solve(found.scope, text, [*beyond, *same], elements)
        if point is None:
            return
        values, when = point
        verb, word = ("writes", "T.writes") if write else ("reads", "T.reads")
        element = f"{buffer.name}[{', '.join(map(str, values))}]"
        self.fail(
            f"block {block.name_hint} {verb} {element}{when}, where {word} does not say so",
            found.node,
            f"leave {word} out: it is then found from the body",
        )


def _is_loop_over(scope: Scope, value: PrimExpr, domain: Range) -> bool:
    """True for the variable of a loop that runs over just this range."""
    loop = next((x for x in scope.loops if variable_of(x) is value), None)
    if not isinstance(loop, s.For):
        return False
    pairs = ((loop.min, domain.min), (loop.extent, domain.extent))
    return all(a is b or structural_equal(a, b) for a, b in pairs)


def _variables_of_axes(
    block: s.Block, values: Sequence[PrimExpr], axes: set[Var] | None
) -> set[Var]:
    """The variables in the values of some axes of a block; by default of those that reduce."""
    found: set[Var] = set()
    for axis, value in zip(block.iter_vars, values, strict=True):
        wanted = axis.iter_type is not s.IterType.SPATIAL if axes is None else axis.var in axes
        if wanted:
            found |= {v for v in walk(value) if isinstance(v, Var)}
    return found


def _said(block: s.Block, buffer: Buffer, write: bool, starts: bool) -> list[BufferRegion] | None:
    """The regions of a buffer that a block says it reads (or writes); None: it may be any.

    What the reduction of a block updates from its first step on (`starts`) is written, and need not
    be among the reads; nor what one inside of it does, if all of that reduction is in there.
    """
    regions = list(block.writes)
    if not write:
        regions = [*block.reads, *(block.writes if starts else ())]
    named = [r for r in regions if r.buffer.data is buffer.data]
    return None if any(r.buffer is not buffer for r in named) else named


def _is_within(found: Sequence[BufferRegion], said: Sequence[BufferRegion]) -> bool:
    """True if each of the regions is said, word for word."""
    return all(any(r.buffer is x.buffer and structural_equal(r, x) for x in said) for r in found)


def _is_said_so(
    block: s.Block, buffer: Buffer, indices: tuple[PrimExpr, ...], write: bool, starts: bool
) -> bool:
    """True if a region of the block plainly holds the element: the quick answer."""
    said = _said(block, buffer, write, starts)
    if said is None:
        return True
    return any(
        all(map(_holds, region.region, indices, buffer.shape))
        for region in said
        if len(region.region) == len(indices)
    )


def _holds(side: Range, index: PrimExpr, extent: PrimExpr) -> bool:
    """True for a range that begins at the index, or is the whole dimension."""
    if side.min is index or structural_equal(side.min, index):
        return index.dtype.lanes == 1 and (p.as_int(side.extent) or 0) > 0
    return p.is_const(side.min, 0) and structural_equal(side.extent, extent)


def _in_box(text: Translator, region: BufferRegion, at: list[str]) -> list[str]:
    sides = []
    for x, bounds in zip(at, region.region, strict=True):
        low = text.value(bounds.min)
        sides.append(f"{low} <= {x} < {low} + {text.value(bounds.extent)}")
    return sides or ["0 = 0"]


def refuse_false_domains(func: PrimFunc, fail: Callable[[str, Any, str], None]) -> None:
    """Call `fail(message, where, hint)` for the first block that says something false."""
    if is_made(func):
        return
    blocks = (n for n in statements(func.body) if isinstance(n, s.Block))
    if any(block.iter_vars or block.reads or block.writes for block in blocks):
        DomainChecker(func, fail).check()

"""The blocks of one scope: what depends on what, and whether all that is read was written before.

RAW   relu after matmul      region cover     each element that a block reads of a sibling's
WAW   two blocks, one buffer                  buffer was written before, in the same iteration
WAR   an update in place                      of the loops that both stand in
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from mlcnb.arith.isl import ask, first_point
from mlcnb.core.errors import MLCError
from mlcnb.tir import stmt as s
from mlcnb.tir.access.depend import DepKind, Iteration, has_none, kind_of, order_of, same_shape
from mlcnb.tir.access.relation import Related, accesses_of
from mlcnb.tir.analysis.solutions import iteration_of
from mlcnb.tir.analysis.structure import outer_blocks, statements
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc


@dataclass(frozen=True, slots=True, eq=False)
class Dependency:
    """`dst` must stay after `src`, for the sake of a buffer; not `exact`: for all that is known."""

    src: s.Block
    dst: s.Block
    kind: DepKind
    buffer: Buffer
    exact: bool

    def __repr__(self) -> str:
        sure = "" if self.exact else ", may be"
        ends = f"{self.src.name_hint} -> {self.dst.name_hint}"
        return f"{self.kind.name} of {self.buffer.name}, {ends}{sure}"


class BlockScope:
    """The child blocks of a block in program order, and the dependences between them."""

    def __init__(self, block: s.Block | None, children: list[s.Block], found: list[Dependency]):
        self.block = block
        self.children = tuple(children)
        self.dependencies = tuple(found)

    def get_deps_by_src(self, block: s.Block | str) -> list[Dependency]:
        """What must stay after a block."""
        return [d for d in self.dependencies if _is(d.src, block)]

    def get_deps_by_dst(self, block: s.Block | str) -> list[Dependency]:
        """What a block must stay after."""
        return [d for d in self.dependencies if _is(d.dst, block)]

    def __repr__(self) -> str:
        name = "the function" if self.block is None else f"block {self.block.name_hint}"
        return "\n".join(
            [f"dependences between the blocks of {name}:", *map(repr, self.dependencies)]
        )


def _is(block: s.Block, wanted: s.Block | str) -> bool:
    return block is wanted or block.name_hint == wanted


def get_block_scope(func: PrimFunc, block: s.Block | str | None = None) -> BlockScope:
    """The dependences between the blocks directly in a block; by default in the root.

    Accesses are compared element by element: blocks that write different halves of a buffer do not
    depend on each other.
    """
    scope = scope_of(func, block)
    inside = [a for a in accesses_of(func) if child_in(a, scope) is not None]
    found: dict[tuple, Dependency] = {}
    for source in inside:
        for target in inside:
            ends = child_in(source, scope), child_in(target, scope)
            if ends[0] is ends[1] or not _conflict(source, target):
                continue
            key = (*ends, kind_of(source, target), source.buffer.data)
            known = found.get(key)
            if known is None or not known.exact:
                made = _dependency(ends, source, target)
                if made is not None and (known is None or made.exact):
                    found[key] = made
    return BlockScope(scope, children_of(func, scope), list(found.values()))


get_block_dependence = get_block_scope


def _conflict(a: Related, b: Related) -> bool:
    return a.buffer.data is b.buffer.data and (a.is_write or b.is_write)


def _dependency(ends: Any, source: Related, target: Related) -> Dependency | None:
    """The dependence of two accesses, if the source's ever comes first."""
    levels: list[int | None] = [*range(source.common_loops(target))]
    levels += [None] if source.is_before(target) else []
    sure = source.exact and target.exact
    for level in levels:
        is_empty = ask(partial(has_none, source, target, level))
        if not is_empty:
            exact = sure and is_empty is not None
            return Dependency(ends[0], ends[1], kind_of(source, target), source.buffer, exact)
    return None


def scope_of(func: PrimFunc, block: s.Block | str | None) -> s.Block | None:
    """A block by itself or its name; the root block if there is one, else None, for None."""
    if block is None:
        body = func.body
        if isinstance(body, s.BlockRealize) and not body.block.iter_vars:
            return body.block
        return None
    found = [n for n in statements(func.body) if isinstance(n, s.Block) and _is(n, block)]
    if len(found) != 1:
        name = block if isinstance(block, str) else block.name_hint
        raise MLCError(f"{len(found) or 'no'} blocks are named {name!r}")
    return found[0]


def child_in(access: Related, scope: s.Block | None) -> s.Block | None:
    """The block directly in a scope that an access stands in."""
    if scope is None:
        return access.blocks[0] if access.blocks else None
    for outer, inner in zip(access.blocks, access.blocks[1:], strict=False):
        if outer is scope:
            return inner
    return None


def children_of(func: PrimFunc, scope: s.Block | None) -> list[s.Block]:
    """The blocks directly in a scope."""
    body = func.body if scope is None else scope.body
    return [realize.block for realize in outer_blocks(body)]


# regions


@dataclass(frozen=True, slots=True, eq=False)
class UncoveredRead:
    """A read of an element that nothing has written by then.

    access: the read; iteration: of its loops; element: its indices; exact: it happens, else it may.
    """

    access: Related
    iteration: Iteration
    element: tuple[int, ...]
    exact: bool

    def __repr__(self) -> str:
        at = ", ".join(map(str, self.element))
        when = ", ".join(f"{name} = {value}" for name, value in self.iteration.items())
        verb = "reads" if self.exact else "may read"
        block = self.access.block
        who = f"block {block.name_hint}" if block is not None else "the function"
        what = f"{who} {verb} {self.access.buffer.name}[{at}]"
        return f"{what} before it is written{f', at {when}' if when else ''}"


def region_cover(func: PrimFunc, block: s.Block | str, by_threads: bool = False) -> bool:
    """True if all that a block reads of its siblings' buffers was surely written before.

    "Before" means: in the same iteration of the loops that both stand in. Buffers that no sibling
    writes do not count: they are inputs.

    Args:
        func: the function.
        block: the block, or its name.
        by_threads: also what other threads have written counts, in memory that they share.
    """
    return not uncovered_by_siblings(func, block, by_threads)


def uncovered_by_siblings(
    func: PrimFunc, block: s.Block | str, by_threads: bool = False
) -> list[UncoveredRead]:
    """The reads of a block that spoil its region cover."""
    wanted = scope_of(func, block)
    accesses = accesses_of(func)
    found = []
    for read in accesses:
        if wanted not in read.blocks or read.is_write:
            continue
        depth = read.blocks.index(wanted)  # type: ignore[arg-type]
        scope = read.blocks[depth - 1] if depth else None
        others = [a for a in accesses if child_in(a, scope) not in (wanted, None)]
        writes = [a for a in others if a.is_write and a.buffer.data is read.buffer.data]
        if writes:
            found += _uncovered(read, writes, same_iteration=True, by_threads=by_threads)
    return found


def uninitialized_reads(func: PrimFunc) -> list[UncoveredRead]:
    """Reads of allocated memory that nothing has written by then; only those that surely happen."""
    accesses = accesses_of(func)
    given = {buffer.data for buffer in func.buffers}
    found = []
    for read in accesses:
        if not read.is_write and read.exact and read.buffer.data not in given:
            writes = [a for a in accesses if a.is_write and a.buffer.data is read.buffer.data]
            found += _uncovered(read, writes, same_iteration=False)
    return [x for x in found if x.exact]


def _uncovered(
    read: Related, writes: list[Related], same_iteration: bool, by_threads: bool = False
) -> list[UncoveredRead]:
    """The first element that a read touches and no write has written before.

    In the same iteration only surely written elements count; else all that may be written.
    """
    parts = []
    for write in writes:
        if same_iteration and not write.exact:
            continue
        if not same_shape(read.buffer, write.buffer):
            return [] if not same_iteration else [UncoveredRead(read, {}, (), False)]
        levels: list[int | None] = [None] if write.is_before(read) else []
        if not same_iteration:
            levels += range(write.common_loops(read))
        free = _shared_loops(read) if by_threads else ()
        parts += [_written(read, write, level, free) for level in levels]
    left = ask(lambda: reduce(lambda rest, part: rest.subtract(part), parts, read.relation))
    if left is not None and ask(left.is_empty):
        return []
    point = None if left is None else first_point(left.wrap())
    if point is None:
        return [UncoveredRead(read, {}, (), False)]
    count = len(read.loops)
    iteration = iteration_of(read.loops, point.values[:count])
    return [UncoveredRead(read, iteration, point.values[count:], read.exact)]


def _written(read: Related, write: Related, level: int | None, free: Collection[int] = ()) -> Any:
    """{ iteration of the read -> elements that the write has written by then }"""
    order = order_of(len(write.loops), len(read.loops), write.common_loops(read), level, free)
    return order.reverse().apply_range(write.relation)


#: scope of a buffer -> the threads that share it
_SHARED = {
    "shared": r"threadIdx\..",
    "warp": r"threadIdx\.x",
    "global": r"(block|thread)Idx\..",
}


def _shared_loops(access: Related) -> list[int]:
    """The loops around an access, by number, over the threads that share its buffer."""
    tags = _SHARED.get(access.buffer.scope.split(".")[0], "")
    threads = [str(loop.thread_binding) if isinstance(loop, s.For) else "" for loop in access.loops]
    return [n for n, tag in enumerate(threads) if tags and re.fullmatch(tags, tag)]


def stage_pipeline(func: PrimFunc, scope: s.Block | str | None = None) -> bool:
    """True if the blocks of a scope are stages: each reads only what was written before it.

    Then every block has region cover, no block overwrites what another one reads (no WAR), and
    nothing but loops and blocks stands in the scope.
    """
    found = get_block_scope(func, scope)
    body = func.body if found.block is None else found.block.body
    if not _is_schedulable(body):
        return False
    if any(d.kind in (DepKind.WAR, DepKind.OPAQUE) for d in found.dependencies):
        return False
    return all(region_cover(func, child) for child in found.children)


def _is_schedulable(n: s.Stmt) -> bool:
    if isinstance(n, s.BlockRealize):
        return True
    if isinstance(n, s.SeqStmt):
        return all(map(_is_schedulable, n.seq))
    return isinstance(n, s.For) and _is_schedulable(n.body)

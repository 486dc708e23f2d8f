"""Where a pointer to a buffer's memory leaves what an analysis of loads and stores can see.

    T.call_extern("void", "f", B.access_ptr("r"))      read   in block C
    T.evaluate(T.address_of(B[i]))                     read and written
    T.call_packed("g", B.data), T.decl_buffer(…, data=B.data), p = B.data

`escapes(func)` is all of them. Whoever takes a buffer away, or gives it another form, asks first:
behind the pointer stands somebody who counts with the memory as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from mlcnb.core.node import Node, children, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.effects import POINTERS
from mlcnb.tir.analysis.kernels import reduced_over_threads
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion, MatchBufferRegion
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import bodies


@dataclass(frozen=True, eq=False)
class Escape:
    """A pointer that leaves: to which memory, by which node, in which block, and what for.

    block: the innermost block that it stands in; None outside of all.
    alone: no other block stands in that one: what it says of its accesses is all there is.
    """

    data: e.Var
    node: Node
    reads: bool
    writes: bool
    block: s.Block | None = None
    alone: bool = True

    def is_said(self) -> bool:
        """Whether the block says that it reads, or writes, memory of that pointer."""
        if self.block is None or not self.alone:
            return False
        seen = {m.buffer.data: m.source.buffer.data for m in self.block.match_buffers}
        data = seen.get(self.data, self.data)
        return all(
            any(r.buffer.data is data for r in regions)
            for wanted, regions in (
                (self.reads, self.block.reads),
                (self.writes, self.block.writes),
            )
            if wanted
        )


def escapes(func: PrimFunc | s.Stmt) -> tuple[Escape, ...]:
    """All pointers to buffers' memory that leave a function, or a statement, in its order."""
    found: list[Escape] = []
    _look(func.body if isinstance(func, PrimFunc) else func, None, found)
    return tuple(found)


def written_memory(func: PrimFunc) -> set[e.Var]:
    """Pointers of buffers that a function stores through, or lets others write through."""
    owner: dict[e.Var, e.Var] = {}
    leaves = [x for x in escapes(func) if x.writes and not isinstance(x.node, s.DeclBuffer)]
    stored = [x.data for x in leaves]
    for n in walk(func.body):
        if isinstance(n, MatchBufferRegion):
            owner[n.buffer.data] = n.source.buffer.data
        elif isinstance(n, s.BufferStore):
            stored.append(n.buffer.data)
    found = set()
    for pointer in stored:
        while pointer in owner:
            pointer = owner[pointer]
        found.add(pointer)
    return found


#: blocks without any: schedules look at the same blocks again and again
_known: WeakKeyDictionary[s.Block, tuple[Escape, ...]] = WeakKeyDictionary()


def _look(n: Node, around: s.Block | None, found: list[Escape]) -> None:
    """Add what leaves below a node that stands in the block `around`, however deep it is."""
    ahead = [n]
    while ahead:
        n = ahead.pop()
        if isinstance(n, s.Block):
            found += _of_block(n)
            continue
        handler = _HANDLERS.get(type(n))
        if handler is None:
            rest: Iterable[Node] = children(n)
        else:
            left, rest = handler(n)
            for data, reads, writes in left:
                found.append(Escape(data, n, reads, writes, around))
        ahead.extend(reversed(list(rest)))


def _of_block(block: s.Block) -> tuple[Escape, ...]:
    found = _known.get(block)
    if found is None:
        parts = [x for x in (block.init, block.body) if x is not None]
        inside: list[Escape] = []
        for part in parts:
            _look(part, block, inside)
        alone = not inside or not any(_holds_block(part) for part in parts)
        found = tuple(
            x if x.block is not block or alone
            else Escape(x.data, x.node, x.reads, x.writes, block, alone=False)
            for x in inside
        )  # fmt: skip
        if not found:  # what is found holds the block: it would never end
            _known[block] = found
    return found


def _holds_block(n: Any) -> bool:
    if isinstance(n, s.BlockRealize):
        return True
    return any(map(_holds_block, bodies(n)))


#: (pointer, read, written), and where else to look
Found = tuple[list[tuple[e.Var, bool, bool]], Iterable[Node]]


def _call(n: e.Call) -> Found:
    if n.op == "tir.tvm_access_ptr" and isinstance(n.args[1], e.Var):
        mask = p.as_int(n.args[4]) or 3
        return [(n.args[1], bool(mask & 1), bool(mask & 2))], n.args[2:4]
    if n.op == "tir.address_of" and isinstance(n.args[0], BufferLoad):
        return [(n.args[0].buffer.data, True, True)], n.args[0].indices
    if n.op in POINTERS:
        known = {at: (n.args[at], *how) for at, *how in POINTERS[n.op]}
        rest = [x for at, x in enumerate(n.args) if at not in known]
        return [x for x in known.values() if isinstance(x[0], e.Var)], rest  # type: ignore[misc]
    if reduced_over_threads(n) is not None:
        return [], [x for x in n.args if not (isinstance(x, e.Var) and x.dtype.is_handle)]
    return [], n.args


def _variable(n: e.Var) -> Found:
    return ([(n, True, True)] if n.dtype.is_handle else []), ()


_HANDLERS: dict[type, Callable[[Any], Found]] = {
    e.Call: _call,
    e.Var: _variable,
    **dict.fromkeys(
        (e.SizeVar, e.IntImm, e.FloatImm, Buffer, BufferRegion, MatchBufferRegion),
        lambda _n: ([], ()),
    ),
    s.DeclBuffer: lambda n: (_variable(n.buffer.data)[0], (n.body,)),
    s.Allocate: lambda n: ([], (*n.extents, n.condition, n.body)),
    # where a loop begins and ends, and where a block stands, are indices
    s.For: lambda n: ([], (n.body,)),
    s.BlockRealize: lambda n: ([], (n.block,)),
    s.AttrStmt: lambda n: ([], [x for x in (n.value, n.body) if isinstance(x, Node)]),
    **dict.fromkeys((s.LetStmt, e.Let), lambda n: ([], (n.value, n.body))),
}

"""One PrimFunc as a tree of statements: who stands in whom, and how to change a place of it.

    Tree(func)      parents, loops above a block, blocks below a loop, writers and readers of a
    buffer
    Edit(tree)      collects changes, then rebuilds only the path from each of them to the root

Only statements are indexed, never expressions: indexing a function of thirty statements takes about
thirty microseconds, and a rebuild makes one new node for each ancestor of a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc

_ONE_BODY = (
    s.For,
    s.Block,
    s.While,
    s.LetStmt,
    s.AttrStmt,
    s.AssertStmt,
    s.Allocate,
    s.DeclBuffer,
)


def sub_stmts(n: s.Stmt) -> tuple[s.Stmt, ...]:
    """The statements directly inside `n` (a block's init, which holds no loops of ours, left
    out).
    """
    if isinstance(n, _ONE_BODY):
        return (n.body,)
    if isinstance(n, s.BlockRealize):
        return (n.block,)
    if isinstance(n, s.SeqStmt):
        return n.seq
    if isinstance(n, s.IfThenElse):
        return (n.then_case,) if n.else_case is None else (n.then_case, n.else_case)
    return ()


def map_sub_stmts(n: s.Stmt, fn: Callable[[Any], Any]) -> s.Stmt | None:
    """`n` with `fn` applied to the statements directly inside it; None if nothing is left of it."""
    if isinstance(n, _ONE_BODY):
        body = fn(n.body)
        return None if body is None else replace(n, body=body)
    if isinstance(n, s.BlockRealize):
        block = fn(n.block)
        return None if block is None else replace(n, block=block)
    if isinstance(n, s.SeqStmt):
        kept = [x for x in map(fn, n.seq) if x is not None]
        return s.seq(*kept) if kept else None
    if isinstance(n, s.IfThenElse):
        return _map_branches(n, fn)
    return n


def _map_branches(n: s.IfThenElse, fn: Callable[[Any], Any]) -> s.Stmt | None:
    then_case = fn(n.then_case)
    else_case = None if n.else_case is None else fn(n.else_case)
    if then_case is None and else_case is None:
        return None
    nothing = s.Evaluate(p.const(0))
    return replace(n, then_case=then_case or nothing, else_case=else_case)


class Tree:
    """A PrimFunc with its statements indexed. Never changed once made."""

    def __init__(self, func: PrimFunc, name: str = "main") -> None:
        self.func = func
        self.name = name
        self.parent: dict[s.Stmt, s.Stmt] = {}
        self.position: dict[s.Stmt, int] = {}
        self.blocks: list[s.Block] = []
        self.has_shared = False
        self._scopes: dict[s.Block, Scope] = {}
        #: what is known at its statements, by who worked it out (`legality.regions`)
        self.facts: dict[Any, Any] = {}
        self._index(func.body)

    def _index(self, n: s.Stmt) -> None:
        if n in self.position:
            self.has_shared = True
            return
        self.position[n] = len(self.position)
        if isinstance(n, s.Block):
            self.blocks.append(n)
        for child in sub_stmts(n):
            self.parent[child] = n
            self._index(child)

    def __contains__(self, n: s.Stmt) -> bool:
        return n in self.position

    @property
    def root(self) -> s.Block:
        """The outermost block."""
        return self.blocks[0]

    def ancestors(self, n: s.Stmt) -> Iterator[s.Stmt]:
        """What `n` stands in, from the inside out."""
        found = self.parent.get(n)
        while found is not None:
            yield found
            found = self.parent.get(found)

    def realize(self, block: s.Block) -> s.BlockRealize:
        """The statement that runs `block`."""
        return self.parent[block]  # type: ignore[return-value]

    def place(self, n: s.Stmt) -> s.Stmt:
        """The statement that stands in a sequence or loop for `n`: a block's realize, a loop
        itself.
        """
        return self.parent[n] if isinstance(n, s.Block) else n

    def loops(self, n: s.Stmt) -> list[s.For]:
        """The loops around `n` up to the block that holds it, outermost first."""
        found = []
        for up in self.ancestors(self.place(n)):
            if isinstance(up, s.Block):
                break
            if isinstance(up, s.For):
                found.append(up)
        return found[::-1]

    def scope(self, n: s.Stmt) -> s.Block:
        """The block that `n` stands in directly (`n` itself not counted)."""
        for up in self.ancestors(self.place(n)):
            if isinstance(up, s.Block):
                return up
        return self.root

    def enclosing(self, n: s.Stmt) -> s.Stmt:
        """The innermost loop or block that `n` stands in."""
        found = (up for up in self.ancestors(self.place(n)) if isinstance(up, s.For | s.Block))
        return next(found, self.root)

    def inside(self, n: s.Stmt, outer: s.Stmt) -> bool:
        """True if `n` is `outer` or stands somewhere in it."""
        return n is outer or any(up is outer for up in self.ancestors(n))

    def child_towards(self, outer: s.Stmt, n: s.Stmt) -> s.Stmt:
        """The part of the body of `outer` (an item of its sequence) that `n` stands in."""
        below = n
        for up in self.ancestors(n):
            if up is outer or (isinstance(up, s.SeqStmt) and self.parent.get(up) is outer):
                return below
            below = up
        return below

    def common_ancestor(self, nodes: Iterable[s.Stmt]) -> s.Stmt:
        """The innermost For or Block that holds all of `nodes` (each counted as holding itself
        not).
        """
        chains = []
        for n in nodes:
            ups = [up for up in self.ancestors(self.place(n)) if isinstance(up, s.For | s.Block)]
            chains.append(ups[::-1])
        common: s.Stmt = self.root
        for level in zip(*chains, strict=False):
            if any(n is not level[0] for n in level):
                break
            common = level[0]
        return common

    def meeting(self, writers: Iterable[s.Stmt], readers: Iterable[s.Stmt]) -> s.Stmt:
        """The innermost place in which a writer and a reader both stand: between them is there."""
        readers = list(readers)
        places = [self.common_ancestor([w, r]) for w in writers for r in readers]
        return max(places, key=lambda n: self.position[n])

    def blocks_under(self, n: s.Stmt) -> list[s.Block]:
        """The blocks directly in the scope of `n` below it, in program order."""
        found: list[s.Block] = []
        _blocks_under(n.body if isinstance(n, s.Block) else n, found)
        return found

    def info(self, scope: s.Block) -> Scope:
        """Writers and readers of the buffers in one block."""
        if scope not in self._scopes:
            self._scopes[scope] = Scope(self.blocks_under(scope))
        return self._scopes[scope]

    def find_block(self, name: str) -> list[s.Block]:
        """All blocks of that name."""
        return [b for b in self.blocks if b.name_hint == name]


def _blocks_under(n: s.Stmt, found: list[s.Block]) -> None:
    if isinstance(n, s.Block):
        found.append(n)
        return
    for child in sub_stmts(n):
        _blocks_under(child, found)


class Scope:
    """The child blocks of one block in program order, and who writes and reads which buffer."""

    def __init__(self, blocks: list[s.Block]) -> None:
        self.blocks = blocks
        self.writers: dict[Buffer, list[s.Block]] = {}
        self.readers: dict[Buffer, list[s.Block]] = {}
        for block in blocks:
            for buffer in dict.fromkeys(r.buffer for r in block.writes):
                self.writers.setdefault(buffer, []).append(block)
            for buffer in dict.fromkeys(r.buffer for r in block.reads):
                self.readers.setdefault(buffer, []).append(block)

    def producers(self, block: s.Block) -> list[s.Block]:
        """Blocks before `block` that write what it reads or writes, in order."""
        touched = {r.buffer for r in (*block.reads, *block.writes)}
        earlier = self.blocks[: self.blocks.index(block)]
        return [b for b in earlier if any(r.buffer in touched for r in b.writes)]

    def consumers(self, block: s.Block) -> list[s.Block]:
        """Blocks after `block` that read or write what it writes, in order."""
        written = {r.buffer for r in block.writes}
        later = self.blocks[self.blocks.index(block) + 1 :]
        return [b for b in later if any(r.buffer in written for r in (*b.reads, *b.writes))]


class Edit:
    """Changes to one function, made at once: `done()` gives the function and where nodes went.

    A change names a node of the tree as it was. `update` changes fields of a node that stays,
    `put` another statement in its place (None takes it out), `before` and `after` add to it.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.forward: dict[s.Stmt, s.Stmt] = {}
        self._put: dict[s.Stmt, s.Stmt | None] = {}
        self._fields: dict[s.Stmt, dict[str, Any]] = {}
        self._before: dict[s.Stmt, list[s.Stmt]] = {}
        self._after: dict[s.Stmt, list[s.Stmt]] = {}

    def put(self, old: s.Stmt, new: s.Stmt | None) -> None:
        """`new` in place of `old`, with all that is in it; None takes `old` out, and loops left
        empty.
        """
        self._put[old] = new

    def update(self, n: s.Stmt, **fields: Any) -> None:
        """Set fields (not the body) of a node that stays where it is."""
        self._fields.setdefault(n, {}).update(fields)

    def before(self, n: s.Stmt, *new: s.Stmt) -> None:
        """Put statements right before `n`."""
        self._before.setdefault(n, []).extend(new)

    def after(self, n: s.Stmt, *new: s.Stmt) -> None:
        """Put statements right after `n`."""
        self._after.setdefault(n, []).extend(new)

    def allocate(self, scope: s.Block, *buffers: Buffer) -> None:
        """Add buffers to those that live in block `scope`."""
        known = self._fields.get(scope, {}).get("alloc_buffers", scope.alloc_buffers)
        self.update(scope, alloc_buffers=(*known, *buffers))

    def free(self, scope: s.Block, *buffers: Buffer) -> None:
        """Take buffers out of those that live in block `scope`."""
        known = self._fields.get(scope, {}).get("alloc_buffers", scope.alloc_buffers)
        self.update(scope, alloc_buffers=tuple(b for b in known if b not in buffers))

    def became(self, old: s.Stmt, new: s.Stmt) -> None:
        """Say that handles of `old` stand for `new` from now on."""
        self.forward[old] = new

    def done(self, func: PrimFunc | None = None) -> PrimFunc:
        """The function with all changes made; `func` gives other fields than the body."""
        self._touched = self._paths()
        body = self._build(self.tree.func.body)
        return (func or self.tree.func).with_body(body)  # type: ignore[arg-type]

    def _paths(self) -> set[s.Stmt]:
        touched: set[s.Stmt] = set()
        for n in (*self._put, *self._fields, *self._before, *self._after):
            while n is not None and n not in touched:
                touched.add(n)
                n = self.tree.parent.get(n)  # type: ignore[assignment]
        return touched

    def _build(self, n: s.Stmt) -> s.Stmt | None:
        if n not in self._touched:
            return n
        new = self._changed(n)
        if n in self._before or n in self._after:
            added = (*self._before.get(n, ()), new, *self._after.get(n, ()))
            return s.seq(*added)
        return new

    def _changed(self, n: s.Stmt) -> s.Stmt | None:
        if n in self._put:
            return self._put[n]
        new = map_sub_stmts(n, self._build)
        if new is not None and n in self._fields:
            new = replace(new, **self._fields[n])
        if new is not None and isinstance(n, s.For | s.Block) and n not in self.forward:
            self.forward[n] = new
        return new

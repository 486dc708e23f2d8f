"""ThreadSync: barriers where threads of a block need what others wrote to shared memory.

with T.launch_thread("threadIdx.x", 8) as tx:        with T.launch_thread("threadIdx.x", 8) as tx:
    S[tx] = A[tx]                                        S[tx] = A[tx]
    B[tx] = S[7 - tx]                        ->          T.tvm_storage_sync("shared")
                                                         B[tx] = S[7 - tx]

A barrier comes before the first statement that conflicts with one since the last barrier: it reads
what another thread wrote, or writes what another thread read or wrote; an earlier iteration of a
loop around both counts. Threads that touch only elements of their own need none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import FrozenDict, Node, children, map_children, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.conflicts import Access, Threads, any_conflict
from mlcnb.tir.analysis.kernels import IMPLICIT, SHARED_SCOPES, is_launch, launch_of
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.op import tvm_storage_sync


def thread_sync(func: PrimFunc, scope: str = "shared") -> PrimFunc:
    """`func`, after UnifyThreadBinding, with barriers for memory of a scope ("shared", "warp").

    Raises:
        PassError: a barrier would have to stand where only some of the threads come by, or blocks
            still have axes.
    """
    for block in walk(func.body):
        if isinstance(block, s.Block) and block.iter_vars:
            raise PassError(
                f"ThreadSync: block {block.name_hint} still has axes",
                where=block,
                root=func,
                hint="run ConvertBlocksToOpaque first",
            )

    def visit(n: Any) -> Any:
        if is_launch(n):
            return _Planner(func, n, scope).placed()
        return map_children(n, visit) if isinstance(n, s.Stmt) else n

    attrs = FrozenDict({k: v for k, v in func.attrs.items() if k != IMPLICIT})
    body = visit(func.body)
    return replace(func, body=body, attrs=attrs if len(attrs) < len(func.attrs) else func.attrs)


Pending = tuple[Access, ...]


class _Planner:
    """Walks a kernel in the order in which it runs, with the accesses since the last barrier."""

    def __init__(self, func: PrimFunc, kernel: s.Stmt, scope: str) -> None:
        launch = launch_of(kernel)
        self.func = func
        self.kernel = kernel
        self.scope = scope
        self.threads = Threads({a.var: a.dom.extent for a in launch.in_block.values()})
        self.varying = set(self.threads.extents)
        self.roots: dict[Var, Var] = {}
        self.before: set[int] = set()
        self.loops: tuple[s.Stmt, ...] = ()
        self.guards: tuple[PrimExpr, ...] = ()

    def placed(self) -> s.Stmt:
        """The kernel with its barriers."""
        self.scan(self.kernel, ())
        return self.place(self.kernel) if self.before else self.kernel

    def place(self, n: Any) -> Any:
        if not isinstance(n, s.Stmt):
            return n
        rebuilt = map_children(n, self.place)
        rebuilt = s.flattened(rebuilt) or rebuilt
        if id(n) not in self.before:
            return rebuilt
        return s.seq(s.Evaluate(tvm_storage_sync(self.scope)), rebuilt)

    # the walk

    def scan(self, n: s.Stmt, pending: Pending) -> Pending:
        """The accesses since the last barrier after a statement."""
        if id(n) in self.before:
            pending = ()
        match n:
            case s.SeqStmt():
                for part in n.seq:
                    pending = self.scan(part, pending)
                return pending
            case s.For() | s.While():
                return self.loop(n, pending)
            case s.IfThenElse(condition=condition):
                return self.branch(n, condition, [n.then_case, n.else_case], pending)
            case s.BlockRealize(predicate=condition):
                for match in n.block.match_buffers:
                    self.roots[match.buffer.data] = self.root(match.source.buffer.data)
                return self.branch(n, condition, [n.block.init, n.block.body], pending)
            case s.LetStmt():
                self.threads.lets.add(n.var)
                if self.varies(n.value):
                    self.varying.add(n.var)
                return self.scan(n.body, self.leaf(n, [n.value], pending))
            case s.Evaluate() if _is_barrier(n, self.scope):
                return ()
            case s.AttrStmt() | s.DeclBuffer() | s.Allocate():
                return self.scan(n.body, pending)
            case s.AssertStmt():
                return self.scan(n.body, self.leaf(n, [n.condition], pending))
            case _:
                return self.leaf(n, [n], pending)

    def leaf(self, n: s.Stmt, parts: Iterable[Node], pending: Pending) -> Pending:
        found = tuple(a for part in parts for a in self.accesses(part, n))
        return self.meet(n, found, pending) + found

    def meet(self, n: s.Stmt, found: Pending, pending: Pending) -> Pending:
        """A barrier before the statement where it conflicts with what is pending."""
        if pending and found and any_conflict(self.threads, pending, found):
            self.before.add(id(n))
            return ()
        return pending

    def loop(self, n: s.For | s.While, pending: Pending) -> Pending:
        if self.varies(*_heads(n)):
            return self.together(n, pending)
        found = tuple(self.accesses(n, n))
        if not found:
            return pending
        known = id(n) in self.before
        pending = self.meet(n, found, pending)
        outer, self.loops = self.loops, (*self.loops, n)
        after = self.scan(n.body, self.leaf(n, _heads(n), pending))
        if not (isinstance(n, s.For) and p.as_int(n.extent) == 1):
            # a barrier in each iteration orders all but what the one before did after it
            adjacent = self.waits(n.body)
            earlier = tuple(a.from_earlier(n, adjacent) if n in a.loops else a for a in after)
            self.scan(n.body, earlier)
        self.loops = outer
        runs = isinstance(n, s.For) and (p.as_int(n.extent) or 0) > 0
        free = not any(True for head in _heads(n) for _ in self.accesses(head, n))
        if runs and free and not known and self.begins(n.body):
            self.before.discard(id(n))  # the barrier inside comes before anything else does
        return after if runs else tuple(dict.fromkeys((*pending, *after)))

    def begins(self, n: s.Stmt) -> bool:
        """True if threads come to a barrier in a statement before they touch shared memory."""
        if id(n) in self.before:
            return True
        match n:
            case s.SeqStmt():
                parts = (x for x in n.seq if self.waits(x) or any(self.accesses(x, x)))
                first = next(parts, None)
                return first is not None and self.begins(first)
            case s.Evaluate():
                return _is_barrier(n, self.scope)
            case s.AttrStmt() | s.DeclBuffer() | s.Allocate():
                return self.begins(n.body)
            case _:
                return False

    def waits(self, n: s.Stmt) -> bool:
        """True if all threads certainly come to a barrier in a statement."""
        if id(n) in self.before:
            return True
        match n:
            case s.SeqStmt():
                return any(self.waits(part) for part in n.seq)
            case s.For():
                return (p.as_int(n.extent) or 0) > 0 and self.waits(n.body)
            case s.Evaluate():
                return _is_barrier(n, self.scope)
            case s.AttrStmt() | s.DeclBuffer() | s.Allocate() | s.LetStmt():
                return self.waits(n.body)
            case _:
                return False

    def branch(self, n: s.Stmt, condition: PrimExpr, cases: list, pending: Pending) -> Pending:
        if self.varies(condition):
            return self.together(n, pending)
        pending = self.leaf(n, [condition], pending)
        ends = [self.scan(case, pending) for case in cases if case is not None]
        return tuple(dict.fromkeys(a for end in (*ends, pending) for a in end))

    def together(self, n: s.Stmt, pending: Pending) -> Pending:
        """A statement that threads run differently: no barrier can stand inside."""
        found = tuple(self.accesses(n, n))
        pending = self.meet(n, found, pending)
        for i, first in enumerate(found):
            for second in found[i + 1 :]:
                if first.where is not second.where and self.threads.conflict(first, second):
                    raise PassError(
                        f"ThreadSync: {first.buffer.name} needs a barrier between two statements "
                        "that not all threads of the block come by",
                        where=second.where,
                        root=self.func,
                        hint="move what depends on the thread into the statements",
                    )
        return (*pending, *found)

    # what is known of expressions

    def varies(self, *parts: Node | None) -> bool:
        """True if threads of a block may see different values."""
        return any(self._varies(part) for part in parts if part is not None)

    def _varies(self, n: Node) -> bool:
        if isinstance(n, Var):
            return n in self.varying
        if isinstance(n, BufferLoad) and n.buffer.scope not in ("global", *SHARED_SCOPES):
            return True
        if isinstance(n, e.Call) and "shuffle" in str(n.op):
            return True
        if isinstance(n, Buffer):
            return False
        return any(self._varies(c) for c in children(n))

    def root(self, data: Var) -> Var:
        return self.roots.get(data, data)

    def in_scope(self, data: Var) -> bool:
        scope = self.root(data).pointee[1] if self.root(data).pointee else "global"  # type: ignore[index]
        return scope.startswith("shared") if self.scope == "shared" else scope == self.scope

    def accesses(self, n: Node, where: s.Stmt) -> Iterator[Access]:
        """Accesses to the scope's memory below a node, reads of a store before its write."""
        yield from _Collector(self, self.loops, self.guards).visit(n, where)


class _Collector:
    """Finds accesses, with the loops and conditions between."""

    def __init__(self, planner: _Planner, loops: tuple, guards: tuple) -> None:
        self.planner = planner
        self.loops = loops
        self.guards = guards

    def visit(self, n: Any, where: s.Stmt) -> Iterator[Access]:
        match n:
            case s.BufferStore():
                yield from self.below([n.value, *n.indices], n)
                yield from self.access(n, True, n)
            case BufferLoad():
                yield from self.below(n.indices, where)
                yield from self.access(n, False, where)
            case s.For() | s.While():
                inner = _Collector(self.planner, (*self.loops, n), self.guards)
                yield from inner.below([*_heads(n), n.body], n)
            case s.IfThenElse(condition=condition):
                yield from self.below([condition], n)
                under = self.under(condition)
                yield from under.below([n.then_case], n)
                yield from self.below([n.else_case] if n.else_case else [], n)
            case s.BlockRealize(predicate=condition):
                block = n.block
                inside = [block.init, block.body] if block.init else [block.body]
                yield from self.under(condition).below(inside, n)
            case e.Call(op="tir.address_of"):
                yield from self.pointer(n.args[0].buffer.data, n.args[0].buffer, where)  # type: ignore[attr-defined]
            case e.Call(op="tir.tvm_access_ptr"):
                yield from self.pointer(n.args[1], None, where)
            case Buffer():
                return
            case s.Stmt():
                yield from self.below(children(n), n)
            case _:
                yield from self.below(children(n), where)

    def below(self, parts: Iterable[Node], where: s.Stmt) -> Iterator[Access]:
        for part in parts:
            yield from self.visit(part, where)

    def under(self, condition: PrimExpr) -> _Collector:
        return _Collector(self.planner, self.loops, (*self.guards, condition))

    def access(self, n: Any, writes: bool, where: s.Stmt) -> Iterator[Access]:
        data = self.planner.root(n.buffer.data)
        if self.planner.in_scope(data):
            indices = n.indices if data is n.buffer.data else None
            yield Access(data, n.buffer, indices, writes, where, self.loops, self.guards)

    def pointer(self, data: Any, buffer: Buffer | None, where: s.Stmt) -> Iterator[Access]:
        root = self.planner.root(data)
        if self.planner.in_scope(root):
            named = buffer or _named(root)
            yield Access(root, named, None, True, where, self.loops, self.guards)


def _named(data: Var) -> Buffer:
    kind, scope = data.pointee or ("float32", "global")
    from mlcnb.tir.buffer import decl_buffer

    return decl_buffer((1,), kind, data.name, scope, data=data)


def _heads(n: s.Stmt) -> list[PrimExpr]:
    """What decides how often a loop runs."""
    if isinstance(n, s.While):
        return [n.condition]
    assert isinstance(n, s.For)
    return [n.min, n.extent]


def _is_barrier(n: s.Evaluate, scope: str) -> bool:
    call = n.value
    if not (isinstance(call, e.Call) and call.op == "tir.tvm_storage_sync"):
        return False
    given = call.args[0]
    return isinstance(given, e.StringImm) and (
        given.value == scope or (scope == "shared" and given.value in SHARED_SCOPES)
    )


class ThreadSync(PrimFuncPass):
    """Place barriers where threads need what others wrote to shared memory."""

    storage_scope: str = "shared"

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `thread_sync`."""
        return thread_sync(func, self.storage_scope)

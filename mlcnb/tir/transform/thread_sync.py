"""ThreadSync: barriers where threads of a block need what others wrote to shared memory.

with T.launch_thread("threadIdx.x", 8) as tx:        with T.launch_thread("threadIdx.x", 8) as tx:
    S[tx] = A[tx]                                        S[tx] = A[tx]
    B[tx] = S[7 - tx]                        ->          T.tvm_storage_sync("shared")
                                                         B[tx] = S[7 - tx]

A barrier comes before the first statement that conflicts with one since the last barrier: it reads
what another thread wrote, or writes what another thread read or wrote; an earlier iteration of a
loop around both counts. Threads that touch only elements of their own need none, nor does memory
that copies in bulk fill and phases of barriers are proved to order (`tir.access.phases`). A thread
that waits for its own asynchronous copies (`ptx_wait_group`) knows nothing of those of others: a
barrier follows there always.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace as changed
from itertools import islice, pairwise
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import Node, children, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir import stmt as s
from mlcnb.tir.access.phases import ordered_by_phases
from mlcnb.tir.access.read import Reading
from mlcnb.tir.access.scope import ROOT, Access, Scope, parts
from mlcnb.tir.access.threads import Pending, Threads, any_conflict
from mlcnb.tir.analysis.kernels import IMPLICIT, SHARED_SCOPES, is_launch, launches_in
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import bodies, heads, map_bodies
from mlcnb.tir.op.calls import tvm_storage_sync


def thread_sync(func: PrimFunc, scope: str = "shared") -> PrimFunc:
    """`func`, after UnifyThreadBinding, with barriers for memory of a scope ("shared", "warp").

    Raises:
        PassError: a barrier would have to stand where only some of the threads come by, copies in
            bulk are not proved to be ordered by their barriers, or blocks still have axes.
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
            return Planner(func, n, scope).placed()
        return map_bodies(n, visit)

    return replace(func.without_attr(IMPLICIT), body=visit(func.body))


#: statements whose bodies may be left out
MAY_NOT_RUN = (s.For, s.While, s.IfThenElse, s.BlockRealize)
#: the accesses since the last barrier
Waiting = tuple[Pending, ...]


class Planner:
    """Walks a kernel in the order in which it runs, with the accesses since the last barrier."""

    def __init__(self, func: PrimFunc, kernel: s.Stmt, scope: str) -> None:
        launch = launches_in(kernel)
        self.func = func
        self.kernel = kernel
        self.memory = scope
        axes, grid = (
            {a.var: a.dom.extent for a in part.values()} for part in (launch.in_block, launch.grid)
        )
        self.threads = Threads(axes, grid)
        self.varying = set(self.threads.extents)
        self.before: set[int] = set()
        #: waits for asynchronous copies that need a barrier after them; statements that have one
        self.after: set[int] = set()
        self.followed: set[int] = set()
        self.known = Reading(kernel, func.buffers)
        #: what phases of barriers order
        self.ordered = ordered_by_phases(kernel, self.known)
        self.scope = ROOT
        self.entered: dict[tuple[Node, Scope], list[tuple[s.Stmt, Scope]]] = {}
        self.found: dict[tuple[Node, Scope], Waiting] = {}

    def placed(self) -> s.Stmt:
        """The kernel with its barriers."""
        if self.memory == "shared":
            self.ordered.refuse(self.func)
        self.scan(self.kernel, ())
        return self.place(self.kernel) if self.before or self.after else self.kernel

    def place(self, n: Any) -> Any:
        """A part of the kernel with its barriers."""
        rebuilt = map_bodies(n, self.place)
        rebuilt = s.flattened(rebuilt) or rebuilt
        barrier = s.Evaluate(tvm_storage_sync(self.memory))
        if id(n) in self.after:
            rebuilt = s.seq(rebuilt, barrier)
        return s.seq(barrier, rebuilt) if id(n) in self.before else rebuilt

    # the walk

    def scan(self, n: s.Stmt, pending: Waiting) -> Waiting:
        """The accesses since the last barrier after a statement."""
        if id(n) in self.before:
            pending = ()
        if isinstance(n, s.For | s.While):
            return self.loop(n, pending)
        if isinstance(n, MAY_NOT_RUN):
            return self.branch(n, pending)
        if self.meets(n):
            if self.is_wait(n) and id(n) not in self.followed:
                self.after.add(id(n))
            return ()
        if isinstance(n, s.SeqStmt):
            self.followed |= {id(x) for x, then in pairwise(n.seq) if is_barrier(then, self.memory)}
        if isinstance(n, s.AttrStmt) and n.attr_key == "reduce_scope":  # and the one call in it
            return self.leaf(n, [n.body], pending)
        if not bodies(n):
            return self.leaf(n, [n], pending)
        if isinstance(n, s.LetStmt) and self.varies(n.value):
            self.varying.add(n.var)
        pending = self.leaf(n, heads(n), pending)
        for part, scope in self.parts(n):
            pending = self.inside(scope, part, pending)
        return pending

    def parts(self, n: s.Stmt) -> list[tuple[s.Stmt, Scope]]:
        """The statements in a statement, in scopes that are the same ones each time."""
        key = n, self.scope
        if key not in self.entered:
            self.entered[key] = [*parts(n, self.scope)]
        return self.entered[key]

    def inside(self, scope: Scope, n: s.Stmt, pending: Waiting) -> Waiting:
        """The accesses since the last barrier after a statement that stands in a scope."""
        outer, self.scope = self.scope, scope
        after = self.scan(n, pending)
        self.scope = outer
        return after

    def leaf(self, n: s.Stmt, parts: Iterable[Node], pending: Waiting) -> Waiting:
        """The accesses since the last barrier after a statement that is made of `parts`."""
        found = tuple(a for part in parts for a in self.accesses(part))
        return self.meet(n, found, pending) + found

    def meet(self, n: s.Stmt, found: Waiting, pending: Waiting) -> Waiting:
        """A barrier before the statement where it conflicts with what is pending."""
        if pending and found and any_conflict(self.threads, pending, found):
            self.before.add(id(n))
            return ()
        return pending

    def loop(self, n: s.For | s.While, pending: Waiting) -> Waiting:
        """The same after a loop, whose iterations may conflict with each other."""
        if self.varies(*heads(n)):
            return self.together(n, pending)
        found = self.accesses(n)
        if not found:
            return () if self.waits(n) else pending
        known = id(n) in self.before
        runs = isinstance(n, s.For) and (p.as_int(n.extent) or 0) > 0
        free = not any(map(self.accesses, heads(n)))
        if not (runs and free and self.begins(n.body)):  # else a barrier inside comes first
            pending = self.meet(n, found, pending)
        ((_, scope),) = self.parts(n)
        outer, self.scope = self.scope, scope
        after = self.scan(n.body, self.leaf(n, heads(n), pending))
        if not (isinstance(n, s.For) and p.as_int(n.extent) == 1):
            # a barrier in each iteration orders all but what the one before did after it
            apart = int(self.waits(n.body))
            earlier = [
                changed(a, carried=n, apart=apart) if n in a.access.loops else a for a in after
            ]
            self.scan(n.body, tuple(earlier))
            if isinstance(n, s.While):
                self.asked_again(n, tuple(earlier), self.accesses(n.condition))
        self.scope = outer
        if runs and free and not known and self.begins(n.body):
            self.before.discard(id(n))  # the barrier inside comes before anything else does
        return after if runs else tuple(dict.fromkeys((*pending, *after)))

    def asked_again(self, n: s.While, earlier: Waiting, asked: Waiting) -> None:
        """A `while` asks after a round, with no barrier in between."""
        if any_conflict(self.threads, earlier, asked):
            raise PassError(
                "ThreadSync: a `while` asks for memory that threads write in its rounds",
                where=n,
                root=self.func,
                hint=f'end its body with T.tvm_storage_sync("{self.memory}")',
            )

    def begins(self, n: s.Stmt) -> bool:
        """True if threads come to a barrier in a statement before they touch shared memory."""
        if id(n) in self.before or self.meets(n):
            return True
        if isinstance(n, MAY_NOT_RUN) or any(map(self.accesses, heads(n))):
            return False
        touching = (x for x in bodies(n) if self.waits(x) or self.accesses(x))
        return any(map(self.begins, islice(touching, 1)))

    def waits(self, n: s.Stmt) -> bool:
        """True if all threads certainly come to a barrier in a statement."""
        if id(n) in self.before or self.meets(n):
            return True
        runs = isinstance(n, s.For) and (p.as_int(n.extent) or 0) > 0
        return (runs or not isinstance(n, MAY_NOT_RUN)) and any(map(self.waits, bodies(n)))

    def branch(self, n: s.Stmt, pending: Waiting) -> Waiting:
        """The same after a branch, whichever case ran."""
        if self.varies(*heads(n)):
            return self.together(n, pending)
        pending = self.leaf(n, heads(n), pending)
        ends = [self.inside(scope, x, pending) for x, scope in self.parts(n)]
        return tuple(dict.fromkeys(a for end in (*ends, pending) for a in end))

    def together(self, n: s.Stmt, pending: Waiting) -> Waiting:
        """A statement that threads run differently: no barrier can stand inside."""
        for part in walk(n):
            if isinstance(part, s.Evaluate) and self.is_wait(part):
                raise PassError(
                    "ThreadSync: a wait for asynchronous copies needs a barrier after it, and not "
                    "all threads of the block come by",
                    where=part,
                    root=self.func,
                    hint="move what depends on the thread into the statements",
                )
        found = self.accesses(n)
        pending = self.meet(n, found, pending)
        for i, first in enumerate(found):
            for second in found[i + 1 :]:
                a, b = first.access, second.access
                if a.stmt is not b.stmt and self.threads.conflict(first, second):
                    raise PassError(
                        f"ThreadSync: {a.buffer.name} needs a barrier between two statements "
                        "that not all threads of the block come by",
                        where=b.stmt,
                        root=self.func,
                        hint="move what depends on the thread into the statements",
                    )
        return (*pending, *found)

    # asynchronous copies

    def meets(self, n: s.Stmt) -> bool:
        """True for a barrier, and for a wait for copies, which one follows."""
        return is_barrier(n, self.memory) or self.is_wait(n)

    def is_wait(self, n: s.Stmt) -> bool:
        """True for a wait for asynchronous copies into this memory."""
        return self.memory == "shared" and is_call(n, "tir.ptx_wait_group")

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

    def accesses(self, n: Node) -> Waiting:
        """Accesses to the scope's memory below a node, reads of a store before its write."""
        key = n, self.scope
        if key not in self.found:
            reading = Reading(n, scope=self.scope, outer=self.known)
            self.found[key] = tuple(map(Pending, filter(self.in_scope, reading.accesses)))
        return self.found[key]

    def in_scope(self, access: Access) -> bool:
        """True for memory of the scope that nothing else orders."""
        scope = access.buffer.scope
        if access.buffer.data in self.ordered.memory:
            return False
        return scope.startswith("shared") if self.memory == "shared" else scope == self.memory


def is_call(n: s.Stmt, name: str) -> bool:
    """True for a statement that is a call of an intrinsic."""
    return isinstance(n, s.Evaluate) and isinstance(n.value, e.Call) and n.value.op == name


def is_barrier(n: s.Stmt, scope: str) -> bool:
    """True for a barrier for memory of a scope."""
    if not is_call(n, "tir.tvm_storage_sync"):
        return False
    given = n.value.args[0]  # type: ignore[attr-defined]
    return isinstance(given, e.StringImm) and (
        given.value == scope or (scope == "shared" and given.value in SHARED_SCOPES)
    )


class ThreadSync(PrimFuncPass):
    """Place barriers where threads need what others wrote to shared memory."""

    storage_scope: str = "shared"

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `thread_sync`."""
        return thread_sync(func, self.storage_scope)

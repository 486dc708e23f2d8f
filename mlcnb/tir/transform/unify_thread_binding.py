"""UnifyThreadBinding: each thread axis of a kernel becomes one variable around all of it.

for i in T.thread_binding(8, "threadIdx.x"):         with T.launch_thread("threadIdx.x", 8) as i:
    for j in T.thread_binding(8, "threadIdx.x"):         S[i] = A[i]
        S[j] = A[j]                            ->        B[i] = S[7 - i]
    B[i] = S[7 - i]

What stands beside the loops of an axis is done by every thread. Virtual threads stay loops. Refused
is what reads, beside such a loop, what its iterations have put into memory that each of them has
for itself: local memory of a thread, shared memory of a block; and what reads, in another loop of
the axis, what is surely in the local memory of another thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlcnb.arith import can_prove_equal
from mlcnb.core import display
from mlcnb.core.errors import PassError
from mlcnb.core.node import Node, children, map_children, walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir.access.apart import strange_read
from mlcnb.tir.analysis.kernels import (
    BLOCK_AXES,
    IN_BLOCK_AXES,
    SHARED_SCOPES,
    THREAD_AXES,
    bound_axis,
    is_launch,
    launch_of,
)
from mlcnb.tir.analysis.structure import allocated_buffers, blocks_of, statements
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import rewrite_statements, substitute
from mlcnb.tir.stmt import AttrStmt, Block, BufferStore, For, ForKind, IterType, IterVar, Stmt


def unify_thread_binding(func: PrimFunc) -> PrimFunc:
    """`func` with one variable for each thread axis of each kernel.

    Raises:
        PassError: loops of one axis differ in their number of iterations, or it is not known when
            the kernel starts.
    """

    def visit(n: Any) -> Any:
        if bound_axis(n) is not None:
            return n if _is_unified(n) else _Kernel(func, n).launched()
        return map_children(n, visit) if isinstance(n, Stmt) else n

    return func.with_body(visit(func.body))


def _is_unified(n: Stmt) -> bool:
    return is_launch(n) and not any(_is_real(x) for x in walk(launch_of(n).body))


def _is_real(n: Node) -> bool:
    """True for what binds an axis that the GPU has."""
    return bound_axis(n) in THREAD_AXES


class _Kernel:
    """One kernel: collects its axes, and takes the loops over them away."""

    def __init__(self, func: PrimFunc, kernel: Stmt) -> None:
        self.func = func
        self.kernel = kernel
        self.axes: dict[str, IterVar] = {}
        self.values: dict[Var, PrimExpr] = {}
        self.inside = _defined_in(kernel)
        #: local memory that stands outside of loops over threads, which fill it
        self.filled: dict[Var, For] = {}

    def launched(self) -> Stmt:
        body = substitute(self.bare(self.kernel), self.values)
        for axis in reversed(self.axes.values()):
            body = AttrStmt(axis, "thread_extent", axis.dom.extent, body)
        if self.filled:
            self.refuse_strange(body)
        return body

    def refuse_strange(self, body: Stmt) -> None:
        """Refuse a read of what another thread has in local memory."""
        found = strange_read(body, len(self.axes), self.filled)
        if found is None:
            return
        who = [
            f"thread ({', '.join(f'{tag} = {n}' for tag, n in zip(self.axes, at, strict=True))})"
            for at in (found.writer, found.reader)
        ]
        raise self.refusal(
            f"{found.buffer.name}[{', '.join(map(str, found.index))}] is filled by {who[0]} and "
            f"read by {who[1]}: each thread has local memory of its own",
            self.filled[found.buffer.data],
            hint="put it into shared memory, or bind the loops that read it as those that fill it",
        )

    def bare(self, n: Any) -> Any:
        if isinstance(n, For) and _is_real(n):
            assert n.thread_binding is not None
            self.keep(n, n.thread_binding)
            self.take(n, n.thread_binding, n.loop_var, n.min, n.extent)
            return _annotated(n, self.bare(n.body))
        if isinstance(n, AttrStmt) and is_launch(n):
            self.take(n, n.node.thread_tag, n.node.var, p.const(0), n.value)
            return self.bare(n.body)
        if isinstance(n, For) and bound_axis(n) == "":
            raise self.refusal(f"loop {n.loop_var.name} is bound to no axis", n)
        return map_children(n, self.bare) if isinstance(n, Stmt) else n

    def take(self, n: Stmt, tag: str, var: Var, start: PrimExpr, extent: PrimExpr) -> None:
        """The axis of a loop is its variable from now on."""
        unknown = [v.name for v in walk(extent) if isinstance(v, Var) and v in self.inside]
        if unknown:
            raise self.refusal(
                f"loop {var.name} is bound to {tag} and has {display.text(extent)} iterations: "
                f"{unknown[0]} is not known when the kernel starts",
                n,
            )
        axis = self.axes.get(tag)
        if axis is None:
            zero = p.const(0, var.dtype)
            dom = Range(zero, p.fitted(var.dtype, extent))
            axis = self.axes[tag] = IterVar(dom, var, IterType.THREAD, tag)
        elif not can_prove_equal(axis.dom.extent, extent):
            raise self.refusal(
                f"loops {axis.var.name} and {var.name} are both bound to {tag}, but have "
                f"{display.text(axis.dom.extent)} and {display.text(extent)} iterations",
                n,
                hint="one kernel starts all its blocks with the same threads: split the loops "
                "to the same extent, or bind one of them to another axis",
            )
        value = p.add(p.cast(var.dtype, axis.var), start)
        if value is not var:
            self.values[var] = value

    def keep(self, loop: For, tag: str) -> None:
        """Refuse a read, beside a loop of an axis, of what one of its iterations has for itself."""
        own = ("local", *SHARED_SCOPES) if tag in BLOCK_AXES else ("local",)
        stores = {
            n.buffer.data: n
            for n in statements(loop.body)
            if isinstance(n, BufferStore) and n.buffer.scope in own
            and any(v is loop.loop_var for i in n.indices for v in walk(i))
        }  # fmt: skip
        if tag in IN_BLOCK_AXES:
            inner = {data for data, *_ in allocated_buffers(loop.body)}
            self.filled.update((data, loop) for data in stores if data not in inner)
        for n in _beside(self.kernel, tag) if stores else ():
            if isinstance(n, BufferLoad) and n.buffer.data in stores:
                whose = "block" if tag in BLOCK_AXES else "thread"
                raise self.refusal(
                    f"{n.buffer.name} is read beside loop {loop.loop_var.name}, which is bound to "
                    f"{tag} and fills it: each {whose} has {n.buffer.scope} memory of its own, and "
                    "has filled a part",
                    loop,
                    hint="bind the loop to another axis, or bring what reads it under the loop",
                )

    def refusal(self, message: str, where: Node, hint: str | None = None) -> PassError:
        return PassError(f"UnifyThreadBinding: {message}", where=where, root=self.func, hint=hint)


def _beside(kernel: Stmt, tag: str) -> Iterator[Node]:
    """The parts of a kernel that are in no loop of an axis."""
    if not (isinstance(kernel, For) and kernel.thread_binding == tag):
        yield kernel
        for part in children(kernel):
            if isinstance(part, Stmt):
                yield from _beside(part, tag)
            else:
                yield from walk(part)


def _annotated(loop: For, body: Stmt) -> Stmt:
    """What was noted of a thread loop is noted of a loop of one iteration in its place."""
    if not loop.annotations:
        return body
    var, zero, one = Var("_", loop.loop_var.dtype), p.const(0), p.const(1)
    kind = loop.loop_var.dtype
    start, extent = p.cast(kind, zero), p.cast(kind, one)
    return For(var, start, extent, ForKind.SERIAL, body, annotations=loop.annotations)


def _defined_in(kernel: Stmt) -> set[Var]:
    """Variables of loops and blocks inside a kernel."""
    found: set[Var] = set()
    for n in walk(kernel):
        if isinstance(n, For) and not (n.kind is ForKind.THREAD_BINDING and n is kernel):
            found.add(n.loop_var)
        if isinstance(n, Block):
            found.update(axis.var for axis in n.iter_vars)
    return found


class UnifyThreadBinding(PrimFuncPass):
    """Give each thread axis of a kernel one variable, around everything that the threads do."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """See `unify_thread_binding`; where blocks still stand, the axes are loops as before."""
        unified = unify_thread_binding(func)
        if unified is func or not blocks_of(func.body):
            return unified
        return unified.with_body(rewrite_statements(unified.body, _as_loop))


def _as_loop(n: Node) -> Node | None:
    if not isinstance(n, AttrStmt) or not is_launch(n):
        return None
    axis = n.node
    dom = axis.dom
    return For(axis.var, dom.min, dom.extent, ForKind.THREAD_BINDING, n.body, axis.thread_tag)

"""LowerCrossThreadReduction: threads that share the steps of a reduction combine their parts.

for i in range(4):                                  for i in range(4):
    for k in T.thread_binding(8, "threadIdx.x"):        for k in T.thread_binding(8, "threadIdx.x"):
        with T.block("B"):                                  with T.block("B_cross_thread"):
            vi, vk = T.axis.remap("SR", [i, k])                 ...
            with T.init():                       ->             T.attr(reducer, "reduce_scope", …)
                B[vi] = 0.0                                     T.tvm_thread_allreduce(
            B[vi] = B[vi] + A[vi, vk]                               1, A[vi, vk], True, c[0], vk)
                                                            with T.block("B_write_back"):
                                                                T.where(k == 0)
                                                                B[vi] = c[0]

Where loops that are not bound share the reduction, or it has a predicate, each thread first reduces
its own part into `B_in_thread`. A result in local memory is written back by every thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mlcnb.arith.atoms import variables_of
from mlcnb.core import display
from mlcnb.core.errors import PassError
from mlcnb.core.node import Node, map_children, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.ir.structural import structural_equal
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.edges import conjuncts
from mlcnb.tir.analysis.kernels import IN_BLOCK_AXES
from mlcnb.tir.analysis.structure import outer_blocks
from mlcnb.tir.buffer import Buffer, BufferLoad, BufferRegion, decl_buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import nested, substitute
from mlcnb.tir.op.calls import tvm_thread_allreduce
from mlcnb.tir.reducers import Reducer, is_neutral, matched_update

#: the attribute around a reduction over threads
REDUCE_SCOPE = "reduce_scope"


def lower_cross_thread_reduction(func: PrimFunc) -> PrimFunc:
    """`func` with reductions over bound loops written as `tvm_thread_allreduce`.

    Raises:
        PassError: a reduction that threads cannot share.
    """
    return func.with_body(_Lowering(func).stmt(func.body))


class _Lowering:
    """Walks down to the loops of each reduction that threads share."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.made: list[list[Buffer]] = []

    def stmt(self, n: Any) -> Any:
        if isinstance(n, s.Block):
            self.made.append([])
            new: Any = map_children(n, self.stmt)
            buffers = self.made.pop()
            if buffers:
                new = replace(new, alloc_buffers=(*new.alloc_buffers, *buffers))
            return new
        if isinstance(n, s.For):
            nest = self.nest(n)
            if nest is not None:
                return self.lowered(nest)
        return map_children(n, self.stmt) if isinstance(n, s.Stmt) else n

    def nest(self, top: s.For) -> _Nest | None:
        """The reduction whose outermost reduce loop is `top`, if threads share it."""
        realize = next(_reductions_over(top), None)
        if realize is None:
            return None
        found = _Nest(self.func, top, realize)
        return found if found.shared else None

    def lowered(self, nest: _Nest) -> s.Stmt:
        stmt, buffers = nest.lowered()
        self.made[-1].extend(buffers)
        return stmt


def _reductions_over(loop: s.For) -> Iterator[s.BlockRealize]:
    """Blocks in the loop, not in other blocks, with a reduce axis that runs with it.

    What a thread reduces into memory of its own is its own affair.
    """
    for realize in outer_blocks(loop):
        own = all(r.buffer.scope == "local" for r in realize.block.writes)
        if realize.block.init is None and own:
            continue
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            if axis.iter_type is s.IterType.REDUCE and loop.loop_var in variables_of(value):
                yield realize
                break


@dataclass(frozen=True)
class _Combination:
    """How parts are combined: the reducer, what its parts start from, what is added at the end."""

    reducer: Reducer
    value: PrimExpr
    identity: PrimExpr
    start: PrimExpr | None


class _Nest:
    """The loops of one reduction, from the outermost reduce loop to the block."""

    def __init__(self, func: PrimFunc, top: s.For, realize: s.BlockRealize) -> None:
        self.func = func
        self.top = top
        self.realize = realize
        self.block = realize.block
        reduce_values = (v for a, v in self.axes() if a.iter_type is s.IterType.REDUCE)
        self.reducing = variables_of(tuple(reduce_values))
        self.loops = list(self.chain()) if self.is_shared() else []
        self.shared = [x for x in self.loops if self.is_cross(x)]
        self.serial = [x for x in self.loops if x.kind is not s.ForKind.THREAD_BINDING]

    def axes(self) -> list[tuple[s.IterVar, PrimExpr]]:
        return list(zip(self.block.iter_vars, self.realize.iter_values, strict=True))

    def is_cross(self, loop: s.For) -> bool:
        """True for a reduce loop that is bound to threads."""
        return loop.kind is s.ForKind.THREAD_BINDING and loop.loop_var in self.reducing

    def is_shared(self) -> bool:
        return any(isinstance(n, s.For) and self.is_cross(n) for n in walk(self.top))

    def chain(self) -> Iterator[s.For]:
        """The loops, one in another; anything else between them is refused."""
        n: s.Stmt = self.top
        while isinstance(n, s.For):
            is_thread = n.kind is s.ForKind.THREAD_BINDING
            if n.loop_var not in self.reducing and not is_thread:
                raise self.refusal(
                    f"spatial loop {n.loop_var.name} stands inside of the reduction",
                    n,
                    "reorder it to the outside of the reduce loops",
                )
            if self.is_cross(n) and n.thread_binding not in IN_BLOCK_AXES:
                raise self.refusal(
                    f"reduce loop {n.loop_var.name} is bound to {n.thread_binding}: only threads "
                    "of one block can combine their parts",
                    n,
                    "bind it to threadIdx, or rfactor it first",
                )
            yield n
            n = n.body
        if n is not self.realize:
            raise self.refusal(
                f"block {self.block.name_hint} is not alone in its loops", n,
                "move what stands beside it out of the reduce loops",
            )  # fmt: skip

    def refusal(self, message: str, where: Node, hint: str) -> PassError:
        return PassError(
            f"LowerCrossThreadReduction: threads share the reduction of block "
            f"{self.block.name_hint}, but {message}",
            where=where,
            root=self.func,
            hint=hint,
        )

    def combination(self) -> _Combination:
        """What the block does at each step, and what it starts from."""
        update: Any = self.block.body
        init = self.block.init
        found = matched_update(update) if isinstance(update, s.BufferStore) else None
        if found is None or not isinstance(init, s.BufferStore):
            missing = "it has no init" if found else "it is no sum, product, minimum or maximum"
            raise self.refusal(missing, self.block, "bind another loop, or rfactor it first")
        self.refuse_elsewhere(update, init, found[1])
        reducer, value = found
        if is_neutral(reducer, init.value):
            return _Combination(reducer, value, init.value, None)
        identity = reducer.identity(update.buffer.dtype)
        return _Combination(reducer, value, identity, init.value)

    def refuse_elsewhere(self, update: s.BufferStore, init: s.BufferStore, value: Any) -> None:
        """The init starts the very element that is updated, and nothing else of it is read."""
        if init.buffer is not update.buffer or not structural_equal(init.indices, update.indices):
            raise self.refusal(
                f"its init writes {display.text(init).strip()}, another element than the update",
                init,
                "let T.init() write what the block updates",
            )
        if any(isinstance(n, BufferLoad) and n.buffer is update.buffer for n in walk(value)):
            raise self.refusal(
                f"what it adds reads {update.buffer.name}, which it updates",
                update,
                "bind another loop",
            )
        reduced = {a.var for a, _ in self.axes() if a.iter_type is s.IterType.REDUCE}
        if reduced & variables_of((*update.indices, init.value)):
            raise self.refusal(
                "a reduce axis tells what it starts from, or which element it updates",
                update,
                "bind another loop",
            )

    # what it becomes

    def lowered(self) -> tuple[s.Stmt, list[Buffer]]:
        """The statements, and the buffers that they need."""
        how = self.combination()
        store: Any = self.block.body
        whole = _register(store.buffer, f"cross_thread_{store.buffer.name}")
        parts: list[s.Stmt] = []
        buffers = [whole]
        if self.serial or not p.is_const(self.realize.predicate, 1):
            part = _register(store.buffer, f"in_thread_{store.buffer.name}")
            buffers.append(part)
            parts += [self.start(part, how), self.in_thread(part, how)]
            parts.append(self.cross(part[0], [part], whole, how, own=False))  # type: ignore[arg-type]
        else:
            parts.append(self.cross(how.value, [], whole, how, own=True))
        parts.append(self.write_back(whole, how))
        return nested((x for x in self.loops if x not in self.serial), s.seq(*parts)), buffers

    def start(self, part: Buffer, how: _Combination) -> s.Stmt:
        store = s.BufferStore(part, how.identity, (p.const(0),))
        block = s.Block((), (), (_whole(part),), f"{self.block.name_hint}_in_thread_init", store)
        return s.BlockRealize((), p.const(True), block)

    def in_thread(self, part: Buffer, how: _Combination) -> s.Stmt:
        """The steps that one thread does by itself."""
        own: Any = part[0]
        store = s.BufferStore(part, how.reducer.combine(own, how.value), (p.const(0),))
        written = {r.buffer for r in self.block.writes}
        reads = tuple(r for r in self.block.reads if r.buffer not in written)
        block = replace(
            self.block,
            name_hint=f"{self.block.name_hint}_in_thread",
            reads=(_whole(part), *reads),
            writes=(_whole(part),),
            body=store,
            init=None,
        )
        return nested(self.serial, replace(self.realize, block=_renewed(block)))

    def cross(
        self, value: PrimExpr, reads: list[Buffer], whole: Buffer, how: _Combination, own: bool
    ) -> s.Stmt:
        """The step that threads do together."""
        axes = self.axes() if own else []
        axes = [*axes, *self.thread_axes(axes)]
        by_loop = {value: axis.var for axis, value in axes}
        threads = [by_loop[x.loop_var] for x in self.shared]
        one = e.IntImm(dtype("uint32"), 1)
        result: Any = whole[0]
        call = tvm_thread_allreduce(one, value, p.const(True), result, *threads)
        null = e.Call(dtype("handle"), "tir.reinterpret", (e.IntImm(dtype("uint64"), 0),))
        body = s.AttrStmt(_comm_reducer(how), REDUCE_SCOPE, null, s.Evaluate(call))
        written = {r.buffer for r in self.block.writes}
        regions = [r for r in self.block.reads if r.buffer not in written] if own else []
        block = s.Block(
            tuple(axis for axis, _ in axes),
            (*map(_whole, reads), *regions),
            (_whole(whole),),
            f"{self.block.name_hint}_cross_thread",
            body,
        )
        return s.BlockRealize(tuple(v for _, v in axes), p.const(True), _renewed(block))

    def thread_axes(self, axes: list) -> list[tuple[s.IterVar, PrimExpr]]:
        """An axis for each bound reduce loop that is not the value of one already."""
        known = {value for _, value in axes}
        return [
            (
                s.IterVar(Range(x.min, x.extent), Var(f"v_{x.loop_var.name}", x.loop_var.dtype),
                          s.IterType.REDUCE),
                x.loop_var,
            )
            for x in self.shared
            if x.loop_var not in known
        ]  # fmt: skip

    def write_back(self, whole: Buffer, how: _Combination) -> s.Stmt:
        """The result goes where it belongs: by the first thread where all threads see it."""
        store: Any = self.block.body
        axes = [(a, v) for a, v in self.axes() if a.iter_type is not s.IterType.REDUCE]
        value: Any = whole[0]
        if how.start is not None:
            value = how.reducer.combine(how.start, value)
        made = s.BufferStore(store.buffer, value, store.indices)
        conditions = list(self.spatial_conditions())
        if store.buffer.scope != "local":
            conditions += [p.equal(x.loop_var, x.min) for x in self.shared]
        block = s.Block(
            tuple(axis for axis, _ in axes),
            (_whole(whole),),
            self.block.writes,
            f"{self.block.name_hint}_write_back",
            made,
        )
        return s.BlockRealize(tuple(v for _, v in axes), p.all_of(*conditions), _renewed(block))

    def spatial_conditions(self) -> Iterator[PrimExpr]:
        """What of the predicate says which results there are."""
        others = (x for a, x in self.axes() if a.iter_type is not s.IterType.REDUCE)
        spatial = variables_of(tuple(others))
        for condition in conjuncts(self.realize.predicate):
            if p.is_const(condition, 1):
                continue
            if self.reducing.isdisjoint(variables_of(condition)):
                yield condition
            elif spatial & variables_of(condition):
                raise self.refusal(
                    "its predicate mixes spatial and reduce loops", self.realize,
                    "split the loops so that each has a predicate of its own",
                )  # fmt: skip


def _register(of: Buffer, name: str) -> Buffer:
    return decl_buffer((1,), of.dtype, name, "local")


def _whole(buffer: Buffer) -> BufferRegion:
    return BufferRegion(buffer, (Range(p.const(0), p.const(1)),))


def _comm_reducer(how: _Combination) -> s.CommReducer:
    kind = how.identity.dtype
    x, y = Var("x0", kind), Var("y0", kind)
    return s.CommReducer((x,), (y,), (how.reducer.combine(x, y),), (how.identity,))


def _renewed(block: s.Block) -> s.Block:
    """The block with axis variables of its own: no two blocks share one."""
    fresh = {axis.var: Var(axis.var.name, axis.var.dtype) for axis in block.iter_vars}
    axes = tuple(replace(axis, var=fresh[axis.var]) for axis in block.iter_vars)
    rest = substitute(replace(block, iter_vars=()), fresh)
    return replace(rest, iter_vars=axes)


class LowerCrossThreadReduction(PrimFuncPass):
    """Write reductions that threads share as `tvm_thread_allreduce`."""

    work = staticmethod(lower_cross_thread_reduction)

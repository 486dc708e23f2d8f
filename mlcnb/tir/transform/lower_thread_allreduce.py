"""LowerThreadAllreduce: a reduction over threads becomes shuffles, or a tree in shared memory.

                                         t[0] = x                        8 threads, in one warp
T.attr(reducer, "reduce_scope", …)  ->   t[0] = t[0] + T.tvm_warp_shuffle_down(mask, t[0], 4, 8, 32)
T.tvm_thread_allreduce(                  t[0] = t[0] + T.tvm_warp_shuffle_down(mask, t[0], 2, 8, 32)
    1, x, True, c[0], tx)                t[0] = t[0] + T.tvm_warp_shuffle_down(mask, t[0], 1, 8, 32)
                                         c[0] = T.tvm_warp_shuffle(mask, t[0], 0, 8, 32)

Shuffles where the threads of one reduction lie side by side in a warp: all of threadIdx.x, a power
of two, at most 32. A multiple of 32 is first reduced by each warp, and the parts of the warps go
through shared memory. Any other set of threads writes its parts there, and halves them with a
barrier after each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import Node
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.kernels import Launch, is_launch, launch_of
from mlcnb.tir.analysis.pattern import uncast
from mlcnb.tir.buffer import Buffer, BufferLoad, decl_buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import map_bodies, nested, substitute
from mlcnb.tir.op.calls import tvm_storage_sync
from mlcnb.tir.transform.lower_cross_thread_reduction import REDUCE_SCOPE
from mlcnb.tir.transform.lower_opaque_block import allocated

#: threads of a warp
WARP = 32


def lower_thread_allreduce(func: PrimFunc) -> PrimFunc:
    """`func`, after UnifyThreadBinding, without `tvm_thread_allreduce`.

    Raises:
        PassError: the number of threads is not known, or the call is not what TVM writes.
    """

    def visit(n: Any) -> Any:
        if is_launch(n):
            kernel = launch_of(n)
            return _rewritten(n, lambda x: _lowered(func, kernel, x))
        return map_bodies(n, visit)

    return func.with_body(visit(func.body))


def _rewritten(n: Any, rule: Any) -> Any:
    found = rule(n)
    if found is not None:
        return found
    new = map_bodies(n, lambda x: _rewritten(x, rule))
    return s.flattened(new) or new


def _lowered(func: PrimFunc, kernel: Launch, n: Node) -> s.Stmt | None:
    if not isinstance(n, s.AttrStmt) or n.attr_key != REDUCE_SCOPE:
        return None
    call = n.body.value if isinstance(n.body, s.Evaluate) else None
    if not isinstance(call, e.Call) or call.op != "tir.tvm_thread_allreduce":
        raise PassError(
            "LowerThreadAllreduce: reduce_scope stands around one tvm_thread_allreduce",
            where=n,
            root=func,
        )
    return _Reduction.of(func, kernel, n.node, call).lowered()


@dataclass(frozen=True)
class _Reduction:
    """One call: values reduced over some of the threads of a block, results for each of them."""

    reducer: s.CommReducer
    values: tuple[PrimExpr, ...]
    results: tuple[BufferLoad, ...]
    #: (variable, extent) of the axes of a block, x first, and of those that are reduced over
    axes: tuple[tuple[Var, int], ...]
    reduced: tuple[tuple[Var, int], ...]

    @staticmethod
    def of(func: PrimFunc, kernel: Launch, reducer: s.CommReducer, call: e.Call) -> _Reduction:
        count = p.as_int(call.args[0]) or 0
        given, condition = call.args[1 : 1 + count], call.args[1 + count]
        results: Any = call.args[2 + count : 2 + 2 * count]
        # the axes themselves: loops of another width of integers may be bound to them too
        threads = [uncast(x) for x in call.args[2 + 2 * count :]]
        axes = []
        for axis in kernel.in_block.values():
            extent = p.as_int(axis.dom.extent)
            if extent is None:
                raise PassError(
                    f"LowerThreadAllreduce: {axis.thread_tag} has no fixed number of threads",
                    where=call,
                    root=func,
                    hint="split the loop by a number, and bind the inner loop",
                )
            axes.append((axis.var, extent))
        for x in threads:
            if x not in [v for v, _ in axes]:
                raise PassError(
                    "LowerThreadAllreduce: the last arguments of tvm_thread_allreduce are axes of "
                    "the threads of a block",
                    where=call,
                    root=func,
                )
        values = tuple(
            x if p.is_const(condition, 1) else p.if_then_else(condition, x, start)
            for x, start in zip(given, reducer.identity_element, strict=True)
        )
        reduced = tuple((v, n) for v, n in axes if v in threads)
        return _Reduction(reducer, values, results, tuple(axes), reduced)

    def lowered(self) -> s.Stmt:
        size = prod(n for _, n in self.reduced)
        if size == 1:
            return s.seq(
                *(s.BufferStore(r.buffer, v, r.indices) for r, v in self.into(self.values))
            )
        in_a_row = self.reduced == self.axes[:1]
        if in_a_row and size <= WARP and size & (size - 1) == 0:
            return self.by_shuffles(size)
        if in_a_row and size % WARP == 0 and size <= WARP * WARP:
            return self.by_warps(size)
        return self.in_shared_memory(size)

    def into(self, values: Sequence[PrimExpr]) -> Iterator[tuple[BufferLoad, PrimExpr]]:
        return zip(self.results, values, strict=True)

    def combined(self, left: Sequence[Any], right: Sequence[Any]) -> list[PrimExpr]:
        """The reducer of two parts."""
        pairs = [*zip(self.reducer.lhs, left, strict=True)]
        pairs += [*zip(self.reducer.rhs, right, strict=True)]
        return [substitute(x, dict(pairs)) for x in self.reducer.result]

    def stored(self, to: Sequence[Buffer], values: Sequence[PrimExpr], at: Any) -> s.Stmt:
        """Parts written to memory: all are computed before the first is overwritten."""
        if len(to) == 1:
            return s.BufferStore(to[0], values[0], (at,))
        names = [Var(f"part{i}", x.dtype) for i, x in enumerate(values)]
        body: s.Stmt = s.seq(*(s.BufferStore(b, v, (at,)) for b, v in zip(to, names, strict=True)))
        return nested((s.LetStmt(v, x, body) for v, x in zip(names, values, strict=True)), body)

    # in one warp

    def by_shuffles(self, size: int) -> s.Stmt:
        """Each step adds the part of the thread that lies half as far ahead."""
        own = self.registers("red_buf")
        return allocated(own, s.seq(*self.shuffled(own, self.values, size), *self.taken(own, size)))

    def registers(self, name: str) -> list[Buffer]:
        """A register for each part."""
        return [decl_buffer((1,), v.dtype, f"{name}{i}", "local") for i, v in self.numbered()]

    def shuffled(
        self, own: Sequence[Buffer], values: Sequence[PrimExpr], size: int
    ) -> Iterator[s.Stmt]:
        """Steps that leave the combination of `size` lanes in the first of them."""
        zero = p.const(0)
        yield self.stored(own, values, zero)
        parts = [BufferLoad(b, (zero,)) for b in own]
        ahead = size // 2
        while ahead:
            others = [_shuffle("tvm_warp_shuffle_down", x, ahead, size) for x in parts]
            yield self.taken_in(own, parts, others)
            ahead //= 2

    def taken_in(
        self, own: Sequence[Buffer], parts: Sequence[PrimExpr], others: Sequence[PrimExpr]
    ) -> s.Stmt:
        """The parts of other lanes combined with one's own.

        All lanes have to come to a shuffle: where a reducer chooses, it stands before the choice.
        """
        if _is_plain(self.reducer):
            return self.stored(own, self.combined(parts, others), p.const(0))
        names = [Var(f"other{i}", x.dtype) for i, x in enumerate(others)]
        body = self.stored(own, self.combined(parts, names), p.const(0))
        return nested((s.LetStmt(v, x, body) for v, x in zip(names, others, strict=True)), body)

    def taken(self, own: Sequence[Buffer], size: int) -> Iterator[s.Stmt]:
        """Each lane takes what the first one has."""
        parts = [BufferLoad(b, (p.const(0),)) for b in own]
        for result, part in self.into(parts):
            first = _shuffle("tvm_warp_shuffle", part, 0, size)
            yield s.BufferStore(result.buffer, first, result.indices)

    def by_warps(self, size: int) -> s.Stmt:
        """Warps by themselves first; then every warp combines the parts of all of them."""
        warps = size // WARP
        groups = prod(n for _, n in self.axes) // size
        own = self.registers("red_buf")
        shared = [
            decl_buffer((groups * warps,), v.dtype, f"red_buf_of_warps{i}", "shared")
            for i, v in self.numbered()
        ]
        me = _linear(self.reduced)
        lane = p.floormod(me, WARP)
        start = p.multiply(_linear([a for a in self.axes if a not in self.reduced]), warps)
        mine = [BufferLoad(b, (p.const(0),)) for b in own]
        parts = [
            p.if_then_else(p.less(lane, warps), BufferLoad(b, (p.add(start, lane),)), neutral)
            for b, neutral in zip(shared, self.reducer.identity_element, strict=True)
        ]
        width = 1 << (warps - 1).bit_length()
        wait = s.Evaluate(tvm_storage_sync("shared"))
        body = s.seq(
            *self.shuffled(own, self.values, WARP),
            s.IfThenElse(
                p.equal(lane, 0), self.stored(shared, mine, p.add(start, p.floordiv(me, WARP)))
            ),
            wait,
            *self.shuffled(own, parts, width),
            *self.taken(own, WARP),
            wait,
        )
        return allocated([*own, *shared], body)

    def numbered(self) -> Iterator[tuple[int, PrimExpr]]:
        return enumerate(self.values)

    # in shared memory

    def in_shared_memory(self, size: int) -> s.Stmt:
        """A tree: the first half of the parts takes in the second, until one is left."""
        groups = prod(n for _, n in self.axes) // size
        parts = [
            decl_buffer((groups * size,), v.dtype, f"red_buf{i}", "shared")
            for i, v in self.numbered()
        ]
        me = _linear(self.reduced)
        start = p.multiply(_linear([a for a in self.axes if a not in self.reduced]), size)
        mine = p.add(start, me)
        wait = s.Evaluate(tvm_storage_sync("shared"))
        steps: list[s.Stmt] = [self.stored(parts, self.values, mine), wait]
        left = size
        while left > 1:
            half = (left + 1) // 2
            own = [BufferLoad(b, (mine,)) for b in parts]
            others = [BufferLoad(b, (p.add(mine, half),)) for b in parts]
            step = self.stored(parts, self.combined(own, others), mine)
            steps += [s.IfThenElse(p.less(me, left - half), step), wait]
            left = half
        for result, buffer in zip(self.results, parts, strict=True):
            steps.append(s.BufferStore(result.buffer, BufferLoad(buffer, (start,)), result.indices))
        return allocated(parts, s.seq(*steps, wait))


def _is_plain(reducer: s.CommReducer) -> bool:
    """True for `x + y` and its kin: one operation, on both sides."""
    (result, *more) = reducer.result
    operands = (*reducer.lhs, *reducer.rhs)
    return (
        not more
        and isinstance(result, e.BinaryOp)
        and result.a in operands
        and result.b in operands
    )


def _shuffle(name: str, x: PrimExpr, by: int, width: int) -> PrimExpr:
    everyone = e.IntImm(dtype("uint32"), 0xFFFFFFFF)
    args = (everyone, x, p.const(by), p.const(width), p.const(WARP))
    return e.Call(x.dtype, f"tir.{name}", args)


def _linear(axes: Sequence[tuple[Var, int]]) -> PrimExpr:
    """The number of a thread among those of some axes, x fastest."""
    total: PrimExpr = p.const(0)
    for var, extent in reversed(axes):
        total = p.add(p.multiply(total, extent), p.cast("int32", var))
    return total


class LowerThreadAllreduce(PrimFuncPass):
    """Turn reductions over threads into shuffles, or into a tree in shared memory."""

    work = staticmethod(lower_thread_allreduce)

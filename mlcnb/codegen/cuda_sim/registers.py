"""What a thread has for itself, and what threads take from each other: places in memory.

r = T.allocate([2], …, "local")               r[i] is r[i * threads + thread]

tvm_warp_shuffle_down(mask, x, 4, 32, 32)     lanes[thread] = x; when all have, lanes[thread + 4]
ptx_mma("m16n8k16", …)                        four sums of each thread, over its warp's fragments
ptx_ldmatrix(False, 4, ".b16", …)             16 bytes of each thread, of rows that others name
ptx_wgmma("m64n128k16", …)                    its sums of each thread, over tiles in shared memory

r[0:4] = A[tx * 4:tx * 4 + 4] * 2.0           for lane in range(4):
                                                  r[lane] = A[tx * 4 + lane] * 2.0

Vectors of the CPU are made of threads, so vectors of one thread are loops over their lanes: what
neighbouring threads do then lies side by side. Asynchronous copies are done where they are issued.

Semantics: CUDA C++ Programming Guide, "Warp Shuffle Functions"; PTX ISA, "mma.m16n8k16", "wgmma".
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import product
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.codegen.cuda_sim.phases import CALLS
from mlcnb.core.errors import CodegenError
from mlcnb.core.node import Node, map_children, replace, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis import wgmma
from mlcnb.tir.analysis.effects import LANEWISE
from mlcnb.tir.analysis.kernels import SHARED_SCOPES, Launch
from mlcnb.tir.analysis.mma import FRAGMENTS, LDMATRIX, MMA, WARP, Form, neighbours, place_c
from mlcnb.tir.analysis.wgmma import OPERANDS, SUMS, Product
from mlcnb.tir.buffer import Buffer, BufferLoad, decl_buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import substitute
from mlcnb.tir.transform.inject_ptx_async_copy import done_at_once

BARRIER = "tir.tvm_storage_sync"
ACTIVE = "tir.tvm_warp_activemask"
_SHUFFLES = frozenset(f"tir.tvm_warp_shuffle{way}" for way in ("", "_up", "_down"))
#: calls that do the same in every lane, whatever stands in the others
_BY_LANE = LANEWISE | {"tir.if_then_else", "tir.reinterpret"}
#: dtype of sums -> the dtype in which products are summed
_WIDE = {"float32": "float64", "int32": "int32"}


@dataclass(frozen=True)
class Own:
    """Memory that a thread (or a warp) has for itself, all of it in one array.

    copies: how many there are; number: of the one that a thread has; size: its elements; apart:
    the elements of one copy lie together, not those of the same place of all.
    """

    data: Var
    dtype: DType
    copies: int
    number: PrimExpr
    size: int
    apart: bool

    def seen_as(self, buffer: Buffer) -> tuple[Buffer, Own]:
        """What stands for a view of the memory, with its size in elements of the view."""
        size = self.size * self.dtype.nbytes // buffer.dtype.nbytes
        shape = (p.const(self.copies * size),)
        whole = replace(buffer, shape=shape, data=self.data, strides=(), elem_offset=None)
        return whole, dataclasses.replace(self, dtype=buffer.dtype, size=size)

    def place(self, index: PrimExpr) -> PrimExpr:
        """Where the element at `index` lies."""
        if self.apart:
            return p.add(index, _as_lanes(p.multiply(self.number, self.size), index))
        if isinstance(index, e.Ramp):
            base = p.add(p.multiply(index.base, self.copies), self.number)
            return e.Ramp(base, p.multiply(index.stride, self.copies), index.lanes)
        number = _as_lanes(self.number, index)
        return p.add(p.multiply(index, self.copies), number)


def is_taken_whole(n: s.Allocate) -> bool:
    """True if elements that follow each other are taken together, or a pointer to them is."""
    for x in walk(n.body):
        if isinstance(x, BufferLoad | s.BufferStore) and x.buffer.data is n.buffer_var:
            if x.buffer.dtype != n.dtype or any(i.dtype.lanes != 1 for i in x.indices):
                return True
        if isinstance(x, e.Call) and x.op in ("tir.address_of", "tir.tvm_access_ptr"):
            if any(y is n.buffer_var for y in walk(x)):
                return True
    return False


def _as_lanes(x: PrimExpr, like: PrimExpr) -> PrimExpr:
    x = p.cast(like.dtype.element, x)
    return x if like.dtype.lanes == 1 else e.Broadcast(x, like.dtype.lanes)


def is_shuffle(n: Node) -> bool:
    """True for a value that a thread takes from another one of its warp."""
    return isinstance(n, e.Call) and n.op in _SHUFFLES


def refuse_chosen(n: Any, func: PrimFunc) -> None:
    """Refuse a shuffle on a side of a choice: what its value loads is there for some threads.

    Raises:
        CodegenError: there is one.
    """
    sides: tuple[Any, ...] = ()
    if isinstance(n, e.Call) and n.op == "tir.if_then_else":
        sides = n.args[1:]
    elif isinstance(n, e.And | e.Or):
        sides = (n.b,)
    for found in (x for side in sides for x in walk(side) if is_shuffle(x)):
        raise CodegenError(
            "a shuffle stands where only some threads come by",
            where=found,
            root=func,
            hint="give its value a name with T.LetStmt before the choice",
        )


def refuse_barrier(call: e.Call, is_guarded: bool, func: PrimFunc) -> None:
    """Refuse a barrier that a kernel has not, or that only some of its threads would come by.

    Raises:
        CodegenError: it is one.
    """
    scope = getattr(call.args[0], "value", "")
    if scope not in (*SHARED_SCOPES, "warp"):
        raise CodegenError(
            f"a kernel has no barrier for {scope} memory: its blocks do not wait for each other",
            where=call,
            root=func,
            hint="make it two kernels",
        )
    if is_guarded and scope != "warp":
        raise CodegenError(
            "a barrier stands under a condition that differs by thread: others do not come by",
            where=call,
            root=func,
            hint="move it out of the condition",
        )


def is_collective(n: Node) -> bool:
    """True for what several threads have to come by."""
    return isinstance(n, e.Call) and (
        n.op in _SHUFFLES or n.op in (BARRIER, *INSTRUCTIONS) or n.op in CALLS
    )


def active(n: e.Call, threads: int) -> PrimExpr:
    """The mask of the lanes that run."""
    return p.const((1 << min(threads, WARP)) - 1, n.dtype)


def source(n: e.Call, thread: PrimExpr, threads: int) -> PrimExpr:
    """The number of the thread whose value a shuffle takes; its own where none is there."""
    by, width = p.cast("int32", n.args[2]), p.cast("int32", n.args[3])
    lane = p.floormod(thread, WARP)
    first = p.multiply(p.floordiv(lane, width), width)
    if n.op == "tir.tvm_warp_shuffle":
        wanted = p.add(first, p.floormod(by, width))
    elif n.op == "tir.tvm_warp_shuffle_up":
        above = p.subtract(lane, by)
        wanted = p.select(p.greater_equal(above, first), above, lane)
    else:
        below = p.add(lane, by)
        wanted = p.select(p.less(below, p.add(first, width)), below, lane)
    found = p.add(p.subtract(thread, lane), wanted)
    return p.select(p.less(found, threads), found, thread) if threads % WARP else found


def matrix_product(call: e.Call, thread: PrimExpr, lane_var: Var) -> s.Stmt:
    """What one thread does in `mma.sync`: each of its four sums goes up by the products of a row
    and a column.

    Products of floats are summed in float64 and rounded once to float32: what the reference does.
    Real tensor cores keep fewer bits on the way. Those of bytes are summed in int32.

    Raises:
        UnsupportedOpError: tensor cores have no such product.
    """
    form = Form.of(call)
    kind, sums = form.given.dtype, form.sums.dtype
    (a, at_a), (b, at_b), (c, at_c) = (
        (_memory(call.args[n], name), call.args[n + 1])
        for n, name in zip(FRAGMENTS, (kind, kind, sums), strict=True)
    )
    lane = p.floormod(thread, WARP)
    own_a, own_b = (_apart(at, lane_var) for at in (at_a, at_b))
    base_a, base_b = at_a - lane * own_a, at_b - lane * own_b
    stores = []
    for n in range(4):
        row, column = place_c(lane, n)
        total: Any = p.cast(_WIDE[sums], BufferLoad(c, (at_c + n,)))
        for k in range(form.depth):
            (t_a, n_a), (t_b, n_b) = form.layout_a(row, k), form.layout_b(k, column)
            x = form.taken(BufferLoad(a, (base_a + t_a * own_a + n_a,)))
            y = form.taken(BufferLoad(b, (base_b + t_b * own_b + n_b,)))
            total = total + p.cast(_WIDE[sums], x) * p.cast(_WIDE[sums], y)
        stores.append(s.BufferStore(c, p.cast(sums, total), (at_c + n,)))
    return s.seq(*stores)


def warpgroup_product(call: e.Call, thread: PrimExpr, lane_var: Var) -> s.Stmt:
    """What one thread does in `ptx_wgmma`: each of its sums goes up by products of sixteen, found
    in shared memory as the descriptors say; summed as `matrix_product` does.
    """
    made = Product.of(call)
    (c, at_c), (a, at_a), (b, at_b) = (
        (_memory(call.args[n], kind), call.args[n + 1])
        for n, kind in zip((SUMS, *OPERANDS), ("float32", made.dtype, made.dtype), strict=True)
    )
    number, l = (Var(name, p.const(0).dtype) for name in ("product", "own"))
    row, column = wgmma.place_c(p.floormod(thread, wgmma.WARPGROUP), l)
    total: Any = p.cast("float64", BufferLoad(c, (at_c + l,)))
    for k in range(wgmma.DEPTH):
        x = BufferLoad(a, (made.a.place(at_a, row, p.const(k), number),))
        y = BufferLoad(b, (made.b.place(at_b, column, p.const(k), number),))
        total = total + p.cast("float64", x) * p.cast("float64", y)
    body: s.Stmt = s.BufferStore(c, p.cast("float32", total), (at_c + l,))
    for var, extent in ((l, made.own), (number, made.count)):
        body = s.For(var, p.const(0), p.const(extent), s.ForKind.SERIAL, body)
    return body


def lane_of(call: e.Call, launch: Launch, func: PrimFunc) -> Var:
    """The variable of threadIdx.x, the lanes of a warp that does something together.

    Raises:
        CodegenError: there are not as many.
    """
    axis = launch.in_block.get("threadIdx.x")
    if axis is None or p.as_int(axis.dom.extent) != WARP:
        raise CodegenError(
            f"{str(call.op).removeprefix('tir.')} is done by a warp, and threadIdx.x is not its "
            "lanes",
            where=call,
            root=func,
            hint=f"bind a loop of {WARP} to threadIdx.x, and other threads to y and z",
        )
    return axis.var


def _apart(place: PrimExpr, lane: Var) -> PrimExpr:
    """How far the registers of neighbouring threads lie apart."""
    zero, one = (substitute(place, {lane: p.const(n, lane.dtype)}) for n in (0, 1))
    return Analyzer().simplify(one - zero)


def loaded_matrices(call: e.Call, thread: PrimExpr, lane_var: Var) -> s.Stmt:
    """What one thread does in `ldmatrix`: it takes neighbours of each matrix, from rows that other
    threads name.

    Raises:
        UnsupportedOpError: there is no such load.
    """
    turned, count, _, data, at, memory, row = call.args
    own = neighbours(call)
    target, source = (_memory(x, str(call.dtype)) for x in (data, memory))
    lane = p.floormod(thread, WARP)
    stores = []
    for matrix, n in product(range(p.as_int(count) or 0), range(own)):
        along, across = p.floordiv(lane, 4), p.floormod(lane, 4) * own + n
        line, place = (across, along) if p.as_int(turned) else (along, across)
        begins = substitute(row, {lane_var: p.cast(lane_var.dtype, line + 8 * matrix)})
        value = BufferLoad(source, (begins + place,))
        stores.append(s.BufferStore(target, value, (at + (own * matrix + n),)))
    return s.seq(*stores)


def _memory(data: Any, kind: str) -> Buffer:
    return decl_buffer((1,), kind, data.name, data=data)


#: what threads of a warp, or of four, do together: what one of them does
INSTRUCTIONS = {MMA: matrix_product, LDMATRIX: loaded_matrices, wgmma.WGMMA: warpgroup_product}

# vectors of one thread


class _Whole(Exception):
    """Raised inside where a vector is more than its lanes."""


def lanes_to_loops(body: s.Stmt) -> s.Stmt:
    """`body` with each store of a vector as a loop, if its lanes do not know of each other."""
    return rewrite(body, _rule)


def _rule(n: Node) -> Node | None:
    at_once = done_at_once(n)
    return _as_loop(at_once or n) or at_once


def _as_loop(n: Any) -> s.Stmt | None:
    """A store of a vector as a loop over its lanes; None for anything else."""
    if not isinstance(n, s.BufferStore) or n.predicate is not None:
        return None
    lanes = n.value.dtype.lanes
    taken = {x.buffer.data for x in walk(n.value) if isinstance(x, BufferLoad)}
    if lanes == 1 or n.buffer.dtype.lanes > 1 or n.buffer.data in taken:
        return None
    lane = Var("lane", p.const(0).dtype)
    try:
        indices = tuple(_of(i, lane) for i in n.indices)
        store = replace(n, indices=indices, value=_of(n.value, lane))
    except _Whole:
        return None
    return s.For(lane, p.const(0), p.const(lanes), s.ForKind.SERIAL, store)


def _of(x: PrimExpr, lane: Var) -> PrimExpr:
    """What one lane of an expression is.

    Raises:
        _Whole: it is not made of its lanes.
    """
    if x.dtype.lanes == 1:
        return x
    one = x.dtype.element
    match x:
        case e.Ramp(base, stride):
            return p.add(base, p.multiply(stride, p.cast(one, lane)))
        case e.Broadcast(value):
            return value
        case e.Cast(value=value):
            return p.cast(one, _of(value, lane))
        case BufferLoad(buffer=buffer, predicate=None) if buffer.dtype.lanes == 1:
            return replace(x, indices=tuple(_of(i, lane) for i in x.indices))
        case e.Call(op=op) if op in _BY_LANE:
            return replace(x, dtype=one, args=tuple(_of(a, lane) for a in x.args))
        case e.Call() | e.Let() | e.Shuffle() | BufferLoad() | Var():
            raise _Whole
    return map_children(x, lambda y: _of(y, lane) if isinstance(y, PrimExpr) else y)

"""Kernels of a function: the parts that run on the threads of a GPU.

for bx in T.thread_binding(4, thread="blockIdx.x"):        a kernel before UnifyThreadBinding
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        ...
with T.launch_thread("blockIdx.x", 4) as bx:               and after it: every axis once, around
    with T.launch_thread("threadIdx.x", 8) as tx:          everything that the threads do
        ...
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from mlcnb.core.node import Node
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import bodies

BLOCK_AXES = tuple(f"blockIdx.{axis}" for axis in "xyz")
IN_BLOCK_AXES = tuple(f"threadIdx.{axis}" for axis in "xyz")
#: the axes that a GPU has
THREAD_AXES = (*BLOCK_AXES, *IN_BLOCK_AXES)
#: threads that exist in the program only: each thread runs several, one after the other
VIRTUAL_AXES = ("vthread", "vthread.x", "vthread.y", "vthread.z")
#: the axis of the lanes of a warp
LANES = "threadIdx.x"
#: attribute of a function whose loops stand for the threads of a GPU: many, each of a known length
AS_LOOPS = "tir.threads_as_loops"
#: memory that the threads of a block share
SHARED_SCOPES = ("shared", "shared.dyn")
#: attribute of a function whose barriers are not placed yet: they stand wherever they are needed
IMPLICIT = "tir.implicit_barriers"
#: what threads do together
COLLECTIVES = frozenset(
    "tir." + name
    for name in (
        "tvm_storage_sync tvm_thread_allreduce tvm_warp_shuffle tvm_warp_shuffle_up "
        "tvm_warp_shuffle_down tvm_warp_activemask"
    ).split()
)


@dataclass(frozen=True)
class Launch:
    """A kernel after UnifyThreadBinding: its axes by name, and what each thread does."""

    axes: dict[str, s.IterVar]
    body: s.Stmt

    @property
    def in_block(self) -> dict[str, s.IterVar]:
        """The axes of the threads of one block, x first."""
        return {tag: self.axes[tag] for tag in IN_BLOCK_AXES if tag in self.axes}

    @property
    def grid(self) -> dict[str, s.IterVar]:
        """The axes of the blocks, x first."""
        return {tag: self.axes[tag] for tag in BLOCK_AXES if tag in self.axes}


def bound_axis(n: Node) -> str | None:
    """The axis that a statement binds its body to: a loop or a launch, virtual ones included."""
    if isinstance(n, s.For) and n.kind is s.ForKind.THREAD_BINDING:
        return n.thread_binding or ""
    if is_launch(n):
        return str(n.node.thread_tag)  # type: ignore[attr-defined]
    return None


def is_launch(n: Node) -> bool:
    """True for `T.launch_thread`."""
    return isinstance(n, s.AttrStmt) and n.attr_key == "thread_extent" and is_axis(n.node)


def is_axis(n: object) -> bool:
    """True for an IterVar with the name of a thread axis."""
    return isinstance(n, s.IterVar) and n.thread_tag in THREAD_AXES


def launch_of(n: s.Stmt) -> Launch:
    """The launch that begins with the statement: all `T.launch_thread` in a row."""
    axes: dict[str, s.IterVar] = {}
    while isinstance(n, s.AttrStmt) and is_launch(n) and n.node.thread_tag not in axes:
        axes[n.node.thread_tag] = n.node
        n = n.body
    return Launch(axes, n)


def numbered(launch: Launch) -> tuple[int, dict[Var, Any]]:
    """How many threads a block has, and of each of its axes all their numbers, x fastest."""
    extents = [p.as_int(axis.dom.extent) or 0 for axis in launch.in_block.values()]
    threads, step, places = prod(extents), 1, {}
    for axis, extent in zip(launch.in_block.values(), extents, strict=True):
        places[axis.var] = np.arange(threads) // step % max(extent, 1)
        step *= extent
    return threads, places


def launches_in(n: s.Stmt) -> Launch:
    """A kernel with all axes that it launches, also those behind its allocations."""
    axes: dict[str, s.IterVar] = {}
    inside: list[Any] = [n]
    while len(inside) == 1 and not isinstance(inside[0], s.For | s.While | s.IfThenElse):
        (found,) = inside
        if is_launch(found):
            axes.setdefault(found.node.thread_tag, found.node)
        inside = bodies(found)
    return Launch(axes, n)


def kernels_in(n: Node) -> Iterator[s.Stmt]:
    """The outermost statements below `n` (or `n` itself) that are bound to threads."""
    if bound_axis(n) is not None:
        assert isinstance(n, s.Stmt)
        yield n
        return
    for x in bodies(n):
        yield from kernels_in(x)


def uses_threads(func: PrimFunc) -> bool:
    """True if some part of the function runs on the threads of a GPU."""
    return next(kernels_in(func.body), None) is not None


def is_collective(n: Node) -> bool:
    """True for a barrier, a shuffle, or a reduction over threads."""
    return isinstance(n, e.Call) and n.op in COLLECTIVES


def reduced_over_threads(n: e.Call) -> tuple[tuple[PrimExpr, ...], tuple[BufferLoad, ...]] | None:
    """What a `tvm_thread_allreduce` reads, and the elements that it writes; None for other calls.

    Its arguments: a number n, n parts, a condition, n results, the axes that it reduces over.
    """
    if n.op != "tir.tvm_thread_allreduce" or not isinstance(n.args[0], e.IntImm):
        return None
    first = 2 + n.args[0].value
    last = first + n.args[0].value
    results = tuple(x for x in n.args[first:last] if isinstance(x, BufferLoad))
    return (*n.args[:first], *n.args[last:]), results

"""Pieces of a program: a buffer with its place in memory, a block with its axes, a loop.

Buffer A: float32 [128, 64], 32.8 kB
  scope    global, aligned to 64 bytes
  strides  64, 1 elements: rows one after the other
  memory   A[0, 0] at 0, A[0, 1] at 4, A[1, 0] at 256 bytes; a line of 64 bytes holds 16 of them
"""

from __future__ import annotations

from typing import Any

from mlcnb.core import display
from mlcnb.ir.expr import IntImm
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc
from mlcnb.view.cost import cost_parts
from mlcnb.view.loops import buffer_size, loop_tree
from mlcnb.view.parts import Column, Facts, Fold, Part, Table, Title, heads
from mlcnb.view.program import folded, listing
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, dim, dims, listed

#: bytes of a cache line
LINE = 64


@shows("mlcnb.tir.buffer:Buffer")
def buffer(b: Any) -> list[Part]:
    """Dtype, shape, scope, strides, and where neighbours lie."""
    size = buffer_size(b)
    title = f"Buffer {clip(b.name, 60)}: {b.dtype} {dims(b.shape)}"
    pairs = [("scope", f"{clip(b.scope)}, aligned to {b.data_alignment} bytes")]
    pairs.append(("strides", _strides(b)))
    if b.elem_offset is not None:
        pairs.append(("begins", f"at element {clip(display.text(b.elem_offset))} of its memory"))
    if near := _neighbours(b):
        pairs.append(("memory", near))
    return [Title(f"{title}, {size}" if size else title), Facts(pairs)]


def _strides(b: Any) -> str:
    if b.strides:
        return f"{', '.join(map(dim, b.strides))} elements"
    steps = _steps(b)
    known = f"{', '.join(map(str, steps))} elements: " if steps else ""
    return f"{known}compact, the last axis runs fastest"


def _steps(b: Any) -> list[int] | None:
    """Elements from one index to the next of each axis, where they are known."""
    if b.strides:
        given = [x.value for x in b.strides if isinstance(x, IntImm)]
        return given if len(given) == b.ndim else None
    steps, step = [], 1
    for extent in reversed(b.shape[1:]):
        if not isinstance(extent, IntImm):
            return None
        steps.append(step)
        step *= extent.value
    return [step, *reversed(steps)] if b.shape else []


def _neighbours(b: Any) -> str:
    """`A[0, 0] at 0, A[0, 1] at 4, A[1, 0] at 256 bytes; …`"""
    steps, name, each = _steps(b), clip(b.name, 30), b.dtype.nbytes
    if not steps:
        return ""
    told = [f"{name}[{', '.join('0' * b.ndim)}] at 0"]
    for axis in reversed(range(b.ndim)):
        place = ", ".join("1" if i == axis else "0" for i in range(b.ndim))
        told.append(f"{name}[{place}] at {steps[axis] * each:,}")
    held = LINE // (each * max(1, min(map(abs, steps))))
    holds = f"; a line of {LINE} bytes holds {held} of them" if held else ""
    return f"{', '.join(told[:5])} bytes{holds}"


@shows("mlcnb.tir.stmt:Block")
def block(b: s.Block) -> list[Part]:
    """Axes, what is read and written, text."""
    return [*_block(b, [None] * len(b.iter_vars)), folded("TVMScript", listing(b, ""), "")]


@shows("mlcnb.tir.stmt:BlockRealize")
def realize(n: s.BlockRealize) -> list[Part]:
    """A block and the loops that its axes are bound to."""
    parts = _block(n.block, list(n.iter_values))
    if not (isinstance(n.predicate, IntImm) and n.predicate.value):
        parts.append(Facts([("runs where", clip(display.text(n.predicate), 200))]))
    return [*parts, folded("TVMScript", listing(n, ""), "")]


def _block(b: s.Block, values: list[Any]) -> list[Part]:
    columns = heads("axis: code | kind | values: number")
    columns += [Column("is", "code")] if any(v is not None for v in values) else []
    rows = []
    for axis, value in zip(b.iter_vars, values, strict=True):
        given = [] if value is None else [clip(display.text(value), 60)]
        rows.append(
            (clip(axis.var.name, 40), axis.iter_type.name.lower(), dim(axis.dom.extent), *given)
        )
    pairs = [(what, _regions(r)) for what, r in (("reads", b.reads), ("writes", b.writes))]
    if b.init is not None:
        pairs.append(("starts with", clip(display.text(b.init), 120)))
    if b.alloc_buffers:
        pairs.append(("allocates", listed([clip(x.name, 30) for x in b.alloc_buffers])))
    notes = [f"{clip(str(k), 30)}={clip(display.text(v), 30)}" for k, v in b.annotations.items()]
    pairs += [("annotations", listed(notes))] if notes else []
    title = Title(f"Block {clip(b.name_hint, 60)}")
    return [title, Table(columns, rows, 16), Facts(pairs)] if rows else [title, Facts(pairs)]


def _regions(regions: Any) -> str:
    return listed([clip(display.text(r), 60) for r in regions], 4) or "nothing"


@shows(
    "mlcnb.tir.stmt:For",
    "mlcnb.tir.stmt:SeqStmt",
    "mlcnb.tir.stmt:IfThenElse",
    "mlcnb.tir.stmt:While",
)
def nest(n: s.Stmt) -> list[Part]:
    """Loops and blocks as a tree, and the text."""
    inside = Fold("loops", [loop_tree(n)], "", is_open=True, in_text=True)
    cost = cost_parts(PrimFunc((), n)) if isinstance(n, s.For) else []
    told = [Fold("cost", cost, "", in_text=True)] if cost else []
    return [Title(_name(n)), inside, *told, folded("TVMScript", listing(n, ""), "")]


def _name(n: s.Stmt) -> str:
    if isinstance(n, s.For):
        return f"For {clip(n.loop_var.name, 60)}: {n.kind.value} loop of {dim(n.extent)}"
    return type(n).__name__

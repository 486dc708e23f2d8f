"""Which loops LLVM writes out: what is said behind the branch that closes one.

br i1 %again, label %head, label %done, !llvm.loop !3     !3 = {!3, {"llvm.loop.unroll.disable"}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.buffer import BufferLoad

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.emit.kernel import Emitter

#: a vector loop with more instructions than this is not unrolled
_LARGE = 24
#: elements from which on a line is worth vectors
_LINE = 8


def unroll_hint(em: Emitter, body: list[str], loop: s.For | None) -> str:
    """What to put behind the branch that closes a loop; "" for nothing.

    Left to itself LLVM multiplies register tiles that fill the registers already: a third of the
    time to compile, and no gain at run time.

    Args:
        em: the emission.
        body: the lines of the loop's body.
        loop: the loop; None for one that is not the program's own.
    """
    if loop is not None and loop.kind is s.ForKind.UNROLLED:
        return _mark(em, "llvm.loop.unroll.full")
    large = len(body) > _LARGE and any(" x " in line for line in body)
    if large or (loop is not None and _reads_other_places(loop)):
        return _mark(em, "llvm.loop.unroll.disable")
    return ""


def _reads_other_places(loop: s.For) -> bool:
    """True for a line that is made of another one of its buffer: written out, it is no vectors any
    more, for whoever looks at its elements alone must take each for one that another reads.
    """
    store, var = loop.body, loop.loop_var
    if not isinstance(store, s.BufferStore) or (p.as_int(loop.extent) or 0) < _LINE:
        return False
    own = [
        n.indices
        for n in walk(store.value)
        if isinstance(n, BufferLoad) and n.buffer.data is store.buffer.data
    ]
    moves = [v is var for indices in own for i in indices for v in walk(i)]
    return any(moves) and all(indices != store.indices for indices in own)


def _mark(em: Emitter, name: str) -> str:
    """Metadata for one loop, each with an identity of its own."""
    number = em.module.metadata()
    em.module.declare(f"!{number}", f'!{number} = distinct !{{!{number}, !{{!"{name}"}}}}')
    return f", !llvm.loop !{number}"

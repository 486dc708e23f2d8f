"""Which loops LLVM writes out: those that the schedule names, and never large ones on vectors.

    for i in T.unroll(14):                     "llvm.loop.unroll.full"      copies of the body
    for k in range(512): 14 x 2 tile           "llvm.loop.unroll.disable"   wide enough as it is
    for i in range(4096): a scalar             no mark                      as LLVM thinks best

Left to itself LLVM multiplies register tiles that fill the registers already: a third of the time
to compile, and no gain at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlcnb.tir.stmt import For, ForKind

if TYPE_CHECKING:
    from mlcnb.codegen.llvm.emit.kernel import Emitter

#: a vector loop with more instructions than this stays as it is
LARGE = 24


def hint(em: Emitter, body: list[str], loop: For | None) -> str:
    """What to put behind the branch that closes a loop; "" for nothing.

    Args:
        em: the emission.
        body: the lines of the loop's body.
        loop: the loop; None for one that is not the program's own.
    """
    if loop is not None and loop.kind is ForKind.UNROLLED:
        return mark(em, "llvm.loop.unroll.full")
    if len(body) > LARGE and any(" x " in line for line in body):
        return mark(em, "llvm.loop.unroll.disable")
    return ""


def mark(em: Emitter, name: str) -> str:
    """Metadata for one loop, each with an identity of its own."""
    number = em.module.metadata()
    em.module.declare(f"!{number}", f'!{number} = distinct !{{!{number}, !{{!"{name}"}}}}')
    return f", !llvm.loop !{number}"

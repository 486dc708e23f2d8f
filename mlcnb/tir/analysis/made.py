"""Functions whose blocks say the truth by the way they were made, so that nobody need prove it.

Tensor expressions give each block the axes of its own loops, and the regions that are found in its
body; fusing puts such blocks one after the other. Where the expressions are those of an operator's
declaration, for shapes that it inferred itself, every access is in bounds, too.
"""

from __future__ import annotations

from weakref import WeakSet

from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Stmt

#: bodies, which stay the same where a function gets other attributes
_bodies: WeakSet[Stmt] = WeakSet()
_declared: WeakSet[Stmt] = WeakSet()


def note_made(func: PrimFunc) -> PrimFunc:
    """Remember that the blocks of a function are true by construction; the function."""
    _bodies.add(func.body)
    return func


def is_made(func: PrimFunc) -> bool:
    """True for a function with the body of one that was noted."""
    return func.body in _bodies


def note_declared(body: Stmt) -> None:
    """Remember that the body of a function was made from an operator's declaration."""
    _declared.add(body)


def is_declared(func: PrimFunc) -> bool:
    """True for a function with a body that was made from an operator's declaration."""
    return func.body in _declared

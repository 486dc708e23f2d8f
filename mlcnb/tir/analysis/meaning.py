"""What a loop function says, whatever it is called: what stores of compiled code are asked by.

To write it down takes longer than to read an object file, so it is written once for each function,
and a module that is kept on disk keeps it (relax/transform/kept.py).
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from mlcnb.ir.structural import structural_text
from mlcnb.tir.function import PrimFunc

_known: WeakKeyDictionary[PrimFunc, tuple[str, str]] = WeakKeyDictionary()


def meaning_of(func: PrimFunc) -> tuple[str, str]:
    """The `structural_text` of a function without its symbol: its meaning, and the names in it."""
    found = _known.get(func)
    if found is None:
        found = _known[func] = structural_text(func.without_attr("global_symbol"))
    return found


def note_meaning(func: PrimFunc, meaning: tuple[str, str]) -> None:
    """Remember the meaning of a function that was read from where it was kept with it."""
    _known[func] = meaning

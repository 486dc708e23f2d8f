"""Tensor intrinsics of the items, registered in whichever library runs them."""

from __future__ import annotations

from typing import Any

_known: set[str] = set()


def registered(library: Any, name: str, description: str, implementation: str) -> str:
    """The name of an intrinsic given as two programs (0.21)."""
    if name not in _known:
        _known.add(name)
        if hasattr(library, "s_tir"):
            read, intrin = library.script.from_source, library.s_tir.TensorIntrin
            description, implementation = (_newer(x) for x in (description, implementation))
        else:
            read, intrin = library.script.parse, library.tir.TensorIntrin
        intrin.register(name, read(description), read(implementation))
    return name


def _newer(text: str) -> str:
    return text.replace("T.block(", "T.sblock(").replace("@T.prim_func", "@T.prim_func(s_tir=True)")

"""Whether a graph was compiled before: its kernels are then in the cache, and no worker is needed.

    met(outline)        True if `meet(outline)` was called by this version of mlcnb, in any process

It is a guess, made before the kernels are known, so that workers load while the graph's passes run.
A wrong one costs half a second of a processor, never a wrong kernel.
"""

from __future__ import annotations

from mlcnb.codegen.llvm import cache as disk


def met(outline: str) -> bool:
    """True if there are kernels of such a graph in this user's cache, as far as one knows."""
    store = disk.user_store()
    return store is not None and store.get(_key(outline)) is not None


def meet(outline: str) -> None:
    """Remember that the kernels of such a graph are in the cache."""
    store = disk.user_store()
    if store is not None:
        store.put(_key(outline), b"")


def _key(outline: str) -> str:
    return f"graph\n{outline}"

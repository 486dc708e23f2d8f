"""T in the 0.27 spelling: as `mlcnb.script.tir`, but `T.alloc_buffer` allocates memory."""

from __future__ import annotations

from typing import Any

from mlcnb.script import tir
from mlcnb.script.frames import DeclareBuffer
from mlcnb.script.tir.statements import Shape, buffer_of


def alloc_buffer(shape: Shape, dtype: Any = "float32", *args: Any, **options: Any) -> Any:
    """Memory and a buffer over it, seen by what follows."""
    return DeclareBuffer(buffer_of(shape, dtype, *args, **options), True)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(tir, name)


def __dir__() -> list[str]:
    return dir(tir)

"""`tvm.ffi`: functions by global names, and the immutable containers that nodes hold."""

from __future__ import annotations

from mlcnb.core.node import FrozenDict
from mlcnb.core.registry import get_global_func, list_global_func_names, register_func

__path__: list[str] = []  # `tvm._ffi` is a package: `_ffi.base` is found
Array = tuple
Map = FrozenDict
register_global_func = register_func

__all__ = [
    "Array", "Map", "get_global_func", "list_global_func_names", "register_func",
    "register_global_func",
]  # fmt: skip

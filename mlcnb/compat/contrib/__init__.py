"""Helpers around a build, by TVM's names: temporary folders, and the compilers of this machine."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, {}, submodules=("utils", "cc", "clang"))

"""Importers: a model of another system in, an IRModule out."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__, {"mlcnb.relax.frontend.detach": "detach_params"}, submodules=("nn", "onnx", "torch")
)

"""ONNX models as IRModules: `from_onnx`."""

from __future__ import annotations

from mlcnb.relax.frontend.onnx.importer import from_onnx

__all__ = ["from_onnx"]

"""Python source and expressions as TVM's parser names them (`tvm.script.parser.core`)."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__, {}, submodules=("diagnostics", "doc", "doc_core", "evaluator")
)
